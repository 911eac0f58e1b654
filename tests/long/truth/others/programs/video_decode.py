# SPDX-License-Identifier: Apache-2.0
"""Text-to-video sampler: denoises the latents of a clip and decodes all frames of it at once."""
import time

import torch

LATENTS, CHANNELS, WIDTH = 3_400_000, 64, 4096   # latent cells of the clip, channels, decoder width
STEPS = 20


class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(CHANNELS, 512), torch.nn.SiLU(), torch.nn.Linear(512, CHANNELS))

    def forward(self, x):
        return torch.cat([self.net(part) for part in x.split(500_000)])


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(CHANNELS, WIDTH)
        self.mix = torch.nn.Linear(WIDTH, WIDTH)
        self.pixels = torch.nn.Linear(WIDTH, 192)

    def forward(self, x):
        x = torch.relu_(self.up(x))
        x = torch.relu_(self.mix(x))
        return self.pixels(x)


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    denoiser = Denoiser().to("cuda", torch.bfloat16)
    decoder = Decoder().to("cuda", torch.bfloat16)
    x = torch.randn(LATENTS, CHANNELS, device="cuda", dtype=torch.bfloat16)
    start = time.time()
    for step in range(STEPS):
        x = x - denoiser(x) / STEPS
        time.sleep(0.1)
        if step % 4 == 0:
            print(f"denoise {step} |x| {x[:1000].float().norm().item():.2f} {time.time() - start:.1f}s", flush=True)
    for part in (0.05, 1.0):                      # a quick look first, then the whole clip
        frames = decoder(x[:int(part * LATENTS)])
        print(f"decoded {tuple(frames.shape)} mean {frames[:1000].float().mean().item():+.4f} "
              f"{time.time() - start:.1f}s", flush=True)
    print("clip written")


if __name__ == "__main__":
    main()
