# SPDX-License-Identifier: Apache-2.0
"""Upscales pictures of all sizes; the cache is given back after every tenth."""
import random

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.25)
random.seed(8)
net = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.PReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.PReLU(),
                    nn.Conv2d(48, 48, 3, padding=1), nn.PixelShuffle(4)).cuda().half()
sharp = {}
with torch.inference_mode():
    for number in range(400):
        height, width = random.randint(256, 3000), random.randint(256, 4000)
        picture = torch.rand(1, 3, height, width, device="cuda").half()
        large = net(picture)
        sharp[number] = (large[..., 1:] - large[..., :-1]).abs().mean().item()
        if number % 10 == 9:
            torch.cuda.empty_cache()
            print(f"step {number} {height}x{width} sharpness {sharp[number]:.4f}", flush=True)
print("pictures", len(sharp))
