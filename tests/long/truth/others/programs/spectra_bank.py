# SPDX-License-Identifier: Apache-2.0
"""A bank of telescope spectra with CuPy: the raw recording goes, the calibrated frames stay."""
import time

import cupy as cp

LIMIT = 24 * 1024**3
cp.get_default_memory_pool().set_limit(size=LIMIT)
RAW = (100 << 20) // 4
FRAMES, CHANNELS = 960, 16384  # 60 MiB of float32
NIGHTS = 350
rng = cp.random.default_rng(4)
bank = []
for night in range(NIGHTS):
    raw = rng.standard_normal(RAW, dtype=cp.float32)
    gain, offset = float(raw.std()), float(raw.mean())
    del raw
    frames = cp.full((FRAMES, CHANNELS), offset, dtype=cp.float32)
    frames *= gain
    bank.append(frames)
    time.sleep(0.03)
    if night % 20 == 0:
        print(f"step {night} gain {gain:.4f}", flush=True)
print("nights", len(bank), "brightest", max(float(f.max()) for f in bank))
