# SPDX-License-Identifier: Apache-2.0
"""Trains a model of ten billion parameters in single precision with AdamW."""
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True
model = nn.Sequential(*[layer for _ in range(36) for layer in
                        (nn.Linear(16384, 16384, bias=False, device="cuda"), nn.ReLU())])
print(sum(p.numel() for p in model.parameters()) / 1e9, "billion parameters", flush=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1)
for step in range(50):
    batch = torch.randn(64, 16384, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
