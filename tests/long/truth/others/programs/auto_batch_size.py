# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet-like network; the batch size is found by halving after each out-of-memory error.
The user starts at 4096 images and takes whatever fits into 6 GiB."""
import time

import numpy as np
import torch
import torch.nn as nn


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
                               nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c))

    def forward(self, x):
        return torch.relu(x + self.f(x))


def step(model, opt, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.item()


def find_batch(model, opt, batch=4096):
    while batch >= 8:
        fits = True
        try:
            for _ in range(2):
                step(model, opt, torch.randn(batch, 3, 64, 64, device="cuda"), torch.zeros(batch, dtype=torch.long, device="cuda"))
        except torch.OutOfMemoryError:
            fits = False
        if fits:
            return batch // 2
        opt.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        print("batch", batch, "does not fit", flush=True)
        batch //= 2
    raise SystemExit("nothing fits")


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(6 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), Res(64), Res(64), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(64, 10)).to("cuda")
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    batch, t0 = find_batch(model, opt), time.time()
    print("training with batch", batch, flush=True)
    for i in range(200):
        x = torch.from_numpy(rng.standard_normal((batch, 3, 64, 64), dtype=np.float32)).to("cuda")
        y = torch.from_numpy(rng.integers(0, 10, batch)).to("cuda")
        loss = step(model, opt, x, y)
        if i % 20 == 0:
            print(f"step {i} loss {loss:.3f} {time.time() - t0:.1f}s", flush=True)
    print("done")


if __name__ == "__main__":
    main()
