# SPDX-License-Identifier: Apache-2.0
"""Click model with nine embedding tables of 59M rows on one card, row-sparse gradients and Adagrad."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

TABLES, ROWS, DIM, BATCH, STEPS = 9, 59_000_000, 32, 65536, 60


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ROWS, DIM, sparse=True) for _ in range(TABLES)])
        self.top = nn.Sequential(nn.Linear(TABLES * DIM + 13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, ids, dense):
        return self.top(torch.cat([t(i) for t, i in zip(self.tables, ids)] + [dense], 1)).squeeze(1)


def main():
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Clicks()
    sparse = torch.optim.Adagrad(model.tables.parameters(), lr=0.01)
    dense_opt = torch.optim.Adam(model.top.parameters(), lr=1e-3)
    total = torch.cuda.get_device_properties(0).total_memory
    print(f"tables and their sums: {torch.cuda.memory_allocated() / 2**30:.1f} of {total / 2**30:.1f} GiB", flush=True)
    t0 = time.time()
    for step in range(STEPS):
        ids = torch.randint(0, ROWS, (TABLES, BATCH), device="cuda")
        dense = torch.randn(BATCH, 13, device="cuda")
        click = (dense[:, 0] + 0.3 * dense[:, 1] > 0).float()
        loss = F.binary_cross_entropy_with_logits(model(ids, dense), click)
        sparse.zero_grad()
        dense_opt.zero_grad()
        loss.backward()
        sparse.step()
        dense_opt.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)
    print(f"done, peak {torch.cuda.max_memory_allocated() / total:.1%} of the card")


if __name__ == "__main__":
    main()
