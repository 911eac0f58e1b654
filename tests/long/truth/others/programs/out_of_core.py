# SPDX-License-Identifier: Apache-2.0
"""Works through tiles with CuPy under a limit; where the GPU refuses, the oldest tile goes to the host."""
import time
from collections import OrderedDict

import cupy as cp

cp.get_default_memory_pool().set_limit(size=6 * 1024**3)
on_gpu, on_host = OrderedDict(), {}
refused = 0


def new_tile(number):
    global refused
    while True:
        try:
            return cp.full((4096, 8192), number, dtype=cp.float32)
        except cp.cuda.memory.OutOfMemoryError:
            refused += 1
            oldest, tile = on_gpu.popitem(last=False)
            on_host[oldest] = cp.asnumpy(tile)[::16, ::16].copy()
            del tile


for number in range(250):
    tile = new_tile(number)
    tile *= 0.5
    on_gpu[number] = tile
    del tile
    time.sleep(0.02)
    if number % 20 == 0:
        print(f"step {number} on the GPU {len(on_gpu)} refused {refused}", flush=True)
print("tiles", len(on_gpu) + len(on_host), "refused", refused)
