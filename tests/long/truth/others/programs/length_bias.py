# SPDX-License-Identifier: Apache-2.0
"""Attention with a distance bias over documents of many lengths; the bias of a length is made once."""
import random
import time

import torch
import torch.nn.functional as F

torch.cuda.set_per_process_memory_fraction(0.25)
HEADS, DIM = 16, 64
slopes = torch.tensor([2 ** (-8 * (h + 1) / HEADS) for h in range(HEADS)], device="cuda", dtype=torch.bfloat16)
_bias = {}


def distance_bias(length, dtype):
    key = (length, dtype)
    if key not in _bias:
        place = torch.arange(length, device="cuda")
        distance = (place[None, :] - place[:, None]).abs().to(dtype)
        _bias[key] = -slopes[:, None, None] * distance
    return _bias[key]


random.seed(3)
projection = torch.nn.Linear(HEADS * DIM, 3 * HEADS * DIM, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for step in range(5000):
        length = random.randint(512, 4096)
        tokens = torch.randn(1, length, HEADS * DIM, device="cuda", dtype=torch.bfloat16)
        q, k, v = projection(tokens).view(1, length, 3, HEADS, DIM).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=distance_bias(length, torch.bfloat16)[None])
        score = out.float().norm().item()
        time.sleep(0.05)
        if step % 20 == 0:
            print(f"step {step} length {length} score {score:.1f}", flush=True)
