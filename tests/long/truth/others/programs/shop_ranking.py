# SPDX-License-Identifier: Apache-2.0
"""Matrix factorisation with a pairwise loss for a shop; after each epoch the rank of the bought item is measured."""
import time

import torch
from torch import nn

GIB = 24
USERS, ITEMS, DIM = 20_000, 150_000, 128


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item = nn.Embedding(ITEMS, DIM)

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(dim=-1)

    def everything(self, users):
        return self.user(users) @ self.item.weight.T


def train_epoch(model, optimizer, batches=60, size=16_384):
    loss_sum = 0.0
    for step in range(batches):
        users = torch.randint(USERS, (size,), device="cuda")
        bought = (users * 7 + torch.randint(50, (size,), device="cuda")) % ITEMS
        other = torch.randint(ITEMS, (size,), device="cuda")
        loss = -nn.functional.logsigmoid(model(users, bought) - model(users, other)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
        time.sleep(0.02)
        if step % 15 == 0:
            print(f"  step {step} loss {loss.item():.4f}", flush=True)
    return loss_sum / batches


@torch.no_grad()
def mean_reciprocal_rank(model):
    users = torch.arange(USERS, device="cuda")
    target = (users * 7) % ITEMS
    order = model.everything(users).argsort(dim=1, descending=True)
    rank = (order == target[:, None]).float().argmax(dim=1) + 1
    return rank.float().reciprocal().mean().item()


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    model = Factors().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        start = time.time()
        loss = train_epoch(model, optimizer)
        print(f"epoch {epoch} loss {loss:.4f} {time.time() - start:.1f}s", flush=True)
        print(f"epoch {epoch} MRR {mean_reciprocal_rank(model):.4f}", flush=True)


if __name__ == "__main__":
    main()
