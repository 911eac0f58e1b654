# SPDX-License-Identifier: Apache-2.0
"""Self-attention written out by hand, over a queue of documents of which one is a whole book."""
import time

import torch
from torch import nn

HEADS, DIM = 16, 64
project = nn.Linear(HEADS * DIM, 3 * HEADS * DIM).cuda().half()
torch.manual_seed(0)


def attend(x):
    n = x.shape[0]
    q, k, v = project(x).view(n, 3, HEADS, DIM).permute(1, 2, 0, 3)
    scores = q @ k.transpose(-1, -2) / DIM ** 0.5
    return (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(n, HEADS * DIM)


lengths = torch.randint(2000, 9000, (200,)).tolist()
lengths[140] = 51_200
with torch.no_grad():
    for number, length in enumerate(lengths):
        out = attend(torch.randn(length, HEADS * DIM, device="cuda").half())
        time.sleep(0.03)
        if number % 10 == 0:
            print(f"step {number} length {length} norm {out.float().norm().item():.1f}", flush=True)
