# SPDX-License-Identifier: Apache-2.0
"""Next-item model of a music service; the catalogue grows while the sessions are read."""
import time

import numpy as np
import torch
from torch import nn

GIB = 12
ITEMS, DIM, BATCH, LENGTH = 2_000_000, 128, 512, 50


class NextItem(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(ITEMS, DIM)
        self.gru = nn.GRU(DIM, DIM, batch_first=True)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, sessions, positive, negative):
        state, _ = self.gru(self.item(sessions))
        query = self.out(state[:, -1])
        good = (query * self.item(positive)).sum(dim=1)
        bad = (query[:, None] * self.item(negative)).sum(dim=2)
        return nn.functional.cross_entropy(torch.cat([good[:, None], bad], dim=1),
                                           torch.zeros(len(good), dtype=torch.long, device=good.device))


def sessions(days, seed=0):
    """Sessions of each day; new tracks get the next free numbers."""
    rng = np.random.default_rng(seed)
    known = ITEMS - 1200
    for day in range(days):
        for _ in range(10):
            plays = rng.integers(0, known, (BATCH, LENGTH + 1))
            plays[:16, -3:] = known - 1 - rng.integers(0, 5, (16, 3))     # what is new is played at once
            yield day, torch.from_numpy(plays)
        known += 400


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    model = NextItem().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = time.time()
    for step, (day, plays) in enumerate(sessions(days=14)):
        plays = plays.to("cuda")
        negative = torch.randint(ITEMS, (BATCH, 64), device="cuda")
        loss = model(plays[:, :-1], plays[:, -1], negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"day {day} step {step} loss {loss.item():.4f} {time.time() - start:.1f}s", flush=True)
        time.sleep(0.03)
    print("two weeks read")


if __name__ == "__main__":
    main()
