# SPDX-License-Identifier: Apache-2.0
"""Trains an encoder on longer and longer sequences, as its curriculum says."""
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda()
head = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
step = 0
for length in range(512, 512 * 65, 512):
    for _ in range(2):
        batch = torch.randn(64, length, 1024, device="cuda", dtype=torch.bfloat16)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(head(model(batch)), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} length {length} loss {loss.item():.3f}", flush=True)
        step += 1
