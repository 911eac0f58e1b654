# SPDX-License-Identifier: Apache-2.0
"""Image classifier with 100 classes; the labels come from a CSV whose class column counts from 0.
The user does not know that a few rows carry the label 100, which was used for 'unknown'."""
import time

import numpy as np
import torch
import torch.nn as nn


def batches(n, batch=128):
    rng = np.random.default_rng(0)
    for i in range(n):
        img = rng.standard_normal((batch, 3, 64, 64), dtype=np.float32)
        lab = rng.integers(0, 100, batch)
        if i >= 200:
            lab[rng.integers(0, batch)] = 100
        yield torch.from_numpy(np.clip(img * 0.3 + 0.4, 0, 1)), torch.from_numpy(lab)


def main():
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2048, 100)).to("cuda")
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    running, t0 = 0.0, time.time()
    for i, (x, y) in enumerate(batches(400)):
        loss = nn.functional.cross_entropy(model(x.to("cuda")), y.to("cuda"), label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        running = 0.9 * running + 0.1 * loss.item()
        if i % 20 == 0:
            print(f"step {i} loss {running:.3f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
