# SPDX-License-Identifier: Apache-2.0
"""Fits a radiance field to a set of photographs; the frequency encoding of the sample points is memoised."""
import argparse
import functools
import math
import time

import torch
from torch import nn

device = "cuda"


@functools.lru_cache(maxsize=None)
def frequency_encoding(points, bands):
    """sin and cos of every coordinate at `bands` octaves (costly, and the preview camera asks again and again)"""
    scale = 2.0 ** torch.arange(bands, device=points.device) * math.pi
    angle = (points[:, :, None] * scale).flatten(1)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class Field(nn.Module):
    def __init__(self, bands=12, width=128):
        super().__init__()
        self.bands = bands
        self.net = nn.Sequential(
            nn.Linear(6 * bands, width), nn.ReLU(inplace=True),
            nn.Linear(width, width), nn.ReLU(inplace=True),
            nn.Linear(width, 4))

    def forward(self, points):
        return self.net(frequency_encoding(points, self.bands))


def sample_rays(rays, samples):
    origin = torch.rand(rays, 1, 3, device=device) - 0.5
    direction = torch.nn.functional.normalize(torch.randn(rays, 1, 3, device=device), dim=2)
    depth = torch.linspace(0.1, 1.5, samples, device=device)[None, :, None]
    return (origin + depth * direction).flatten(0, 1), depth


def composite(raw, rays, samples):
    raw = raw.view(rays, samples, 4)
    alpha = 1 - torch.exp(-torch.relu(raw[..., 3]) * (1.4 / samples))
    clear = torch.cumprod(1 - alpha + 1e-6, dim=1)
    return ((alpha * clear)[..., None] * raw[..., :3].sigmoid()).sum(dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rays", type=int, default=8192)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--gib", type=float, default=14)
    args = parser.parse_args()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(args.gib * 2**30 / total)
    torch.manual_seed(0)
    preview, _ = sample_rays(1024, args.samples)
    field = Field().to(device)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
    start = time.time()
    for step in range(args.steps):
        points, _ = sample_rays(args.rays, args.samples)
        colour = composite(field(points), args.rays, args.samples)
        photo = torch.rand(args.rays, 3, device=device)
        loss = (colour - photo).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.1)  # the photographs come over the network
        if step % 4 == 0:
            with torch.no_grad():
                picture = composite(field(preview), 1024, args.samples)
            psnr = -10 * math.log10(max(loss.item(), 1e-9))
            print(f"it {step} psnr {psnr:.2f} preview {picture.mean().item():.3f} {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
