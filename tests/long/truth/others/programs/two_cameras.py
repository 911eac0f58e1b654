# SPDX-License-Identifier: Apache-2.0
"""Two cameras in turn: a burst is averaged away, a canvas of the panorama is laid out after it and stays."""
import time

import torch

torch.cuda.set_per_process_memory_fraction(0.2)
MIB = 1 << 20
CAMERAS = (("wide", 300 * MIB, 180 * MIB), ("tele", 220 * MIB, 132 * MIB))
ROUNDS = 78
canvases = []
for turn in range(ROUNDS):
    for name, burst_bytes, canvas_bytes in CAMERAS:
        burst = torch.empty(burst_bytes // 4, device="cuda").uniform_(0, 1)
        level = burst.mean().item()
        del burst
        canvas = torch.full((canvas_bytes // 4,), level, device="cuda")
        canvases.append(canvas)
        time.sleep(0.05)
    if turn % 5 == 0:
        print(f"step {turn} {name} level {level:.4f}", flush=True)
print("canvases", len(canvases), "sum", sum(c[:100].sum().item() for c in canvases))
