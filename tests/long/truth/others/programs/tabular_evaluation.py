# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of tabular data batch by batch and evaluates it on the test set."""
import torch
from torch import nn

torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Linear(256, 8192), nn.GELU(), nn.Linear(8192, 8192), nn.GELU(), nn.Linear(8192, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
test_rows = torch.randn(3_000_000, 256, device="cuda")
test_labels = torch.randint(0, 10, (3_000_000,), device="cuda")
for step in range(300):
    rows = torch.randn(16384, 256, device="cuda")
    labels = (rows[:, :10]).argmax(1)
    loss = nn.functional.cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
model.eval()
with torch.no_grad():
    right = (model(test_rows).argmax(1) == test_labels).float().mean()
print("accuracy", right.item())
