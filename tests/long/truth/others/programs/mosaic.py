# SPDX-License-Identifier: Apache-2.0
"""Builds a mosaic of satellite scenes, small ones first: three of a scene's five bands stay on the GPU for blending."""
import time

import torch

SCENES = 84
first_free = torch.cuda.mem_get_info()[0]
unit = first_free / 140  # every scene is 1 to 3 hundred-and-fortieths of what is free
kept = []
for number in range(SCENES):
    pixels = unit * (1 + number / 41) / 20
    width = 8192
    height = int(pixels / width)
    scene = torch.empty(5, height, width, device="cuda").uniform_()  # digital numbers, five bands
    haze = [scene[band].mean().item() for band in range(5)]
    visible = scene[:3].clone()
    for band in range(3):
        visible[band].sub_(haze[band])
    kept.append(visible)
    del scene
    time.sleep(0.1)  # the next scene is read
    if number % 5 == 0:
        print(f"step {number} scene {height}x{width} haze {haze[0]:.3f}", flush=True)
weights = torch.tensor([v.abs().mean().item() for v in kept])
print("blended", len(kept), "scenes, mean weight", weights.mean().item())
