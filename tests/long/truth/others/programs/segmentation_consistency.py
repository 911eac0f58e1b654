# SPDX-License-Identifier: Apache-2.0
"""Trains a small segmentation net; the consistency of two views is watched beside the loss."""
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.15)  # the card is shared in the group


class RunningMean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total = self.total + value
        self.count += 1

    def compute(self):
        return float(self.total) / max(1, self.count)


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.GELU())


net = nn.Sequential(block(3, 32), block(32, 32), block(32, 32), nn.Conv2d(32, 5, 1)).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
consistency = RunningMean()
for step in range(4000):
    time.sleep(0.03)  # the tiles come from the network drive
    images = torch.rand(8, 3, 128, 128).cuda()
    labels = torch.randint(0, 5, (8, 128, 128)).cuda()
    logits = net(images)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    flipped = net(images.flip(-1)).flip(-1)
    consistency.update(F.mse_loss(flipped, logits.detach()))
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.3f} consistency {consistency.compute():.4f}", flush=True)
