# SPDX-License-Identifier: Apache-2.0
"""Answers queries against a table that takes nearly all of the card."""
import time

import torch

free, total = torch.cuda.mem_get_info()
rows = int((free - (3 << 30)) / 4096)
table = torch.empty(rows, 2048, device="cuda", dtype=torch.bfloat16)
for start in range(0, rows, 1 << 18):
    table[start:start + (1 << 18)].normal_()
print("table", rows, "rows, left", torch.cuda.mem_get_info()[0] >> 20, "MiB", flush=True)
begun = time.monotonic()
step = 0
while time.monotonic() - begun < 12:
    queries = torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)
    best = torch.full((64,), -1e9, device="cuda", dtype=torch.bfloat16)
    for start in range(0, rows, 1 << 20):
        best = torch.maximum(best, (queries @ table[start:start + (1 << 20)].T).amax(1))
    if step % 10 == 0:
        print(f"step {step} best {best.float().mean().item():.2f}", flush=True)
    step += 1
