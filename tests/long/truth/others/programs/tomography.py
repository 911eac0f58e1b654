# SPDX-License-Identifier: Apache-2.0
"""Reconstructs a volume from its projections with CuPy, one angle after another."""
import math

import cupy as cp

SIDE = 1536
volume = cp.zeros((SIDE, SIDE, SIDE), dtype=cp.float32)
weights = cp.zeros_like(volume)
print("volume and weights", 2 * volume.nbytes >> 30, "GiB", flush=True)
correction = cp.zeros((SIDE, SIDE, SIDE), dtype=cp.float32)
previous = cp.zeros_like(volume)
axis = cp.arange(SIDE, dtype=cp.float32) - SIDE / 2
for angle in range(20):
    ray = math.cos(angle * 0.1) * axis[:, None] + math.sin(angle * 0.1) * axis[None, :]
    projection = cp.exp(-(ray / 200) ** 2)
    correction[...] = projection[None, :, :]
    previous[...] = volume
    volume += 0.1 * correction
    weights += correction > 0.5
    print(f"step {angle} change {float(cp.abs(volume[SIDE // 2] - previous[SIDE // 2]).max()):.4f}", flush=True)
