# SPDX-License-Identifier: Apache-2.0
"""Builds an index of 40 million vectors on the GPU; its table is doubled where it is full."""
import time

import torch


class Index:
    def __init__(self, width, rows=1 << 20):
        self.table = torch.empty(rows, width, device="cuda")
        self.count = 0

    def add(self, vectors):
        while self.count + len(vectors) > len(self.table):
            larger = torch.empty(2 * len(self.table), self.table.shape[1], device="cuda")
            larger[: self.count] = self.table[: self.count]
            self.table = larger
        self.table[self.count: self.count + len(vectors)] = vectors
        self.count += len(vectors)

    def nearest(self, queries):
        best = []
        for start in range(0, self.count, 1 << 18):
            stop = min(self.count, start + (1 << 18))
            best.append((queries @ self.table[start:stop].T).amax(1))
        return torch.stack(best).amax(0)


index = Index(1024)
for chunk in range(40_000_000 // 65536):
    vectors = torch.nn.functional.normalize(torch.randn(65536, 1024, device="cuda"), dim=1)
    index.add(vectors)
    time.sleep(0.03)
    if chunk % 20 == 0:
        print(f"step {chunk} vectors {index.count} nearest {index.nearest(vectors[:16]).mean().item():.3f}", flush=True)
