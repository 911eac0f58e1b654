# SPDX-License-Identifier: Apache-2.0
"""Diffusion sampling with a small U-Net: renders the same eight prompts at higher and higher resolution.
The user makes a contact sheet of every size from 128 to 1536 pixels."""
import time
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

BASE = 64


class Res(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n = nn.GroupNorm(8, i)
        self.a, self.b = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.skip(x) + self.b(F.silu(self.a(F.silu(self.n(x)))))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.qkv, self.o = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.n(x)).flatten(2).chunk(3, 1)
        att = torch.softmax(q.transpose(1, 2) @ k * c ** -0.5, -1)
        return x + self.o((v @ att.transpose(1, 2)).view(b, c, h, w))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        c = BASE
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.d2, self.d3 = Res(c, c), Res(c, 2 * c), Res(2 * c, 4 * c)
        self.mid1, self.att, self.mid2 = Res(4 * c, 4 * c), Attention(4 * c), Res(4 * c, 4 * c)
        self.u3, self.u2, self.u1 = Res(8 * c, 2 * c), Res(4 * c, c), Res(2 * c, c)
        self.out = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        h1 = self.d1(self.inp(x))
        h2 = self.d2(F.avg_pool2d(h1, 2))
        h3 = self.d3(F.avg_pool2d(h2, 2))
        m = self.mid2(self.att(self.mid1(F.avg_pool2d(h3, 2))))
        m = self.u3(torch.cat([F.interpolate(m, scale_factor=2.0), h3], 1))
        m = self.u2(torch.cat([F.interpolate(m, scale_factor=2.0), h2], 1))
        m = self.u1(torch.cat([F.interpolate(m, scale_factor=2.0), h1], 1))
        return self.out(m)


@torch.no_grad()
def render(net, size, steps=6):
    x = torch.randn(8, 3, size, size, device="cuda")
    for s in range(steps):
        x = x - net(x) / (steps - s + 1)
    return ((x.clamp(-1, 1) + 1) * 127.5).to(torch.uint8).cpu()


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0)
    net = UNet().to("cuda").eval()
    t0 = time.time()
    for size in range(128, 1537, 64):
        torch.cuda.empty_cache()
        sheet = render(net, size)
        size_kb = sum(len(zlib.compress(im.numpy().tobytes(), 6)) for im in sheet) // 1024
        print(f"size {size}: sheet {size_kb} KB, {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
