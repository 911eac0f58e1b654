# SPDX-License-Identifier: Apache-2.0
"""Trains with 8 GiB and evaluates on a large batch after every epoch; between them the cache is given back."""
import torch
from torch import nn

torch.set_float32_matmul_precision("high")
model = nn.Sequential(nn.Linear(1024, 8192), nn.GELU(), nn.Linear(8192, 8192), nn.GELU(), nn.Linear(8192, 100)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.randn(1_000_000, 1024, device="cuda")
labels = torch.randint(0, 100, (1_000_000,), device="cuda")
for epoch in range(60):
    for _ in range(40):
        chosen = torch.randint(0, len(data), (8192,), device="cuda")
        loss = nn.functional.cross_entropy(model(data[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (model(data).argmax(1) == labels).float().mean().item()
    torch.cuda.empty_cache()
    print(f"step {epoch} loss {loss.item():.3f} right {right:.4f}", flush=True)
