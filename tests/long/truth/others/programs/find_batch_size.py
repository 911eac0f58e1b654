# SPDX-License-Identifier: Apache-2.0
"""Finds the largest batch that fits by trying, then trains with it."""
import gc

import torch
import torchvision

torch.cuda.set_per_process_memory_fraction(0.2)
model = torchvision.models.resnet18(weights=None).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(size):
    images = torch.rand(size, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (size,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def fits(size):
    try:
        for _ in range(2):
            step(size)
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        optimizer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()


low, high = 16, 8192
while high - low > 64:
    middle = (low + high) // 2
    good = fits(middle)
    print("batch", middle, "fits" if good else "does not fit", flush=True)
    low, high = (middle, high) if good else (low, middle)
size = int(low * 0.9)
for number in range(10):
    print(f"step {number} batch {size} loss {step(size):.3f}", flush=True)
