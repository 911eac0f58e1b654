# SPDX-License-Identifier: Apache-2.0
"""Renders views; a thread writes them out, so that rendering need not wait for the disk."""
import os
import queue
import threading
import time

import torch

torch.cuda.set_per_process_memory_fraction(0.2)
views = queue.Queue()


def write(folder):
    while True:
        number, image = views.get()
        with open(os.path.join(folder, f"view_{number:05d}.raw"), "wb") as file:
            file.write(image.clamp(0, 1).mul(255).byte().cpu().numpy().tobytes())


threading.Thread(target=write, args=("/scratch/renders/today",), daemon=True).start()
spheres = torch.randn(24, 3, device="cuda")
ys, xs = torch.meshgrid(torch.linspace(-2, 2, 2160, device="cuda"), torch.linspace(-2, 2, 3840, device="cuda"),
                        indexing="ij")
for number in range(5000):
    angle = torch.tensor(number * 0.01)
    image = torch.zeros(3, 2160, 3840, device="cuda")
    for sphere in spheres:
        x = sphere[0] * torch.cos(angle) + sphere[2] * torch.sin(angle)
        near = torch.exp(-((xs - x) ** 2 + (ys - sphere[1]) ** 2) * 4)
        image += near * sphere.abs()[:, None, None]
    views.put((number, image))
    time.sleep(0.02)
    if number % 20 == 0:
        print(f"view {number} brightness {image.mean().item():.3f}", flush=True)
