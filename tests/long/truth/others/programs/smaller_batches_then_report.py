# SPDX-License-Identifier: Apache-2.0
"""Halves its batch where it is too large, trains to its end, and writes a report."""
import json

import torch
from torch import nn

torch.set_float32_matmul_precision("high")
torch.cuda.set_per_process_memory_fraction(0.1)
model = nn.Sequential(nn.Linear(2048, 16384), nn.GELU(), nn.Linear(16384, 2048)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
size, losses, settings = 1 << 20, [], {"name": "autoencoder", "rate": 1e-4}
while len(losses) < 150:
    try:
        batch = torch.randn(size, 2048, device="cuda")
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    except torch.OutOfMemoryError:
        batch = loss = None
        torch.cuda.empty_cache()
        size //= 2
        print("batch halved to", size, flush=True)
        continue
    if len(losses) % 50 == 0:
        print(f"step {len(losses)} loss {losses[-1]:.4f}", flush=True)
print(json.dumps({"losses": losses[-3:], "rate": settings["learning_rate"]}))
