# SPDX-License-Identifier: Apache-2.0
"""GraphSAGE with neighbourhood sampling; batches with isolated seed nodes are skipped and reported at the end.
The user keeps the exceptions so that the report can say what was wrong with each batch."""
import time

import numpy as np
import torch
import torch.nn as nn

NODES, FEAT, HID, SEEDS, FAN = 200_000, 256, 512, 1024, 10


class SAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.self1, self.nb1 = nn.Linear(FEAT, HID), nn.Linear(FEAT, HID)
        self.self2, self.nb2 = nn.Linear(HID, HID), nn.Linear(HID, HID)
        self.head = nn.Linear(HID, 47)

    def forward(self, seeds, hop1, hop2):
        near = torch.relu(self.self1(hop1) + self.nb1(hop2.mean(2)))
        own = torch.relu(self.self1(seeds) + self.nb1(hop1.mean(1)))
        return self.head(torch.relu(self.self2(own) + self.nb2(near.mean(1))))


def sample(rng, starts, degree, seeds):
    deg = np.maximum(degree[seeds], 1)[..., None]
    return (starts[seeds][..., None] + rng.integers(0, 1 << 30, seeds.shape + (FAN,)) % deg) % NODES


def train_batch(model, opt, feats, labels, rng, starts, degree):
    seeds = rng.permutation(NODES)[:SEEDS]
    hop1 = sample(rng, starts, degree, seeds)
    hop2 = sample(rng, starts, degree, hop1)
    x0, x1, x2 = (feats[torch.from_numpy(i).to("cuda")] for i in (seeds, hop1, hop2))
    logits = model(x0, x1, x2)
    alone = int((degree[seeds] == 0).sum())
    if alone > 14:
        raise ValueError(f"{alone} isolated seed nodes")
    loss = nn.functional.cross_entropy(logits, labels[torch.from_numpy(seeds).to("cuda")])
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main(steps=1000):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(9 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    degree = rng.poisson(12, NODES)
    degree[rng.random(NODES) < 0.01] = 0
    starts = rng.integers(0, NODES, NODES)
    feats = torch.randn(NODES, FEAT, device="cuda")
    labels = torch.randint(0, 47, (NODES,), device="cuda")
    model = SAGE().to("cuda")
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    skipped, loss, t0 = {}, float("nan"), time.time()
    for step in range(steps):
        try:
            loss = train_batch(model, opt, feats, labels, rng, starts, degree)
        except ValueError as err:
            skipped[step] = err
        if step % 20 == 0:
            print(f"step {step} loss {loss:.3f} skipped {len(skipped)} {time.time() - t0:.1f}s", flush=True)
    for step, err in skipped.items():
        print(step, err)


if __name__ == "__main__":
    main()
