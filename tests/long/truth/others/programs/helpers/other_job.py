# SPDX-License-Identifier: Apache-2.0
"""Somebody else's job: takes GIB of the card as soon as they are there and works on them until READY is removed.

usage: other_job.py torch|jax GIB READY
"""
import os
import sys
import time

kind, gib, ready = sys.argv[1], float(sys.argv[2]), sys.argv[3]
end = time.monotonic() + 150
if kind == "jax":  # takes its usual three quarters of the card
    import jax.numpy as jnp
    array = jnp.ones((4096, 4096))

    def work():
        (array @ array).block_until_ready()
else:
    import torch
    weights = None
    while weights is None and time.monotonic() < end:
        try:
            weights = torch.zeros(int(gib * 2**30), dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            time.sleep(0.1)

    def work():
        weights[: 1 << 20].add_(1)
        torch.cuda.synchronize()
open(ready, "w").close()
while os.path.exists(ready) and time.monotonic() < end:
    work()
    time.sleep(0.2)
