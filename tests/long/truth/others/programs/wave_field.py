# SPDX-License-Identifier: Apache-2.0
"""A wave equation in three dimensions with numba: two old fields and a new one."""
import numpy as np
from numba import cuda

N = 2432


@cuda.jit
def advance(old, now, new):
    i, j, k = cuda.grid(3)
    if 0 < i < N - 1 and 0 < j < N - 1 and 0 < k < N - 1:
        new[i, j, k] = 2 * now[i, j, k] - old[i, j, k] + 0.1 * (
            now[i + 1, j, k] + now[i - 1, j, k] + now[i, j + 1, k] + now[i, j - 1, k]
            + now[i, j, k + 1] + now[i, j, k - 1] - 6 * now[i, j, k])


old = cuda.device_array((N, N, N), dtype=np.float32)
print("old field", old.size * 4 >> 30, "GiB", flush=True)
now = cuda.device_array((N, N, N), dtype=np.float32)
print("field", now.size * 4 >> 30, "GiB", flush=True)
new = cuda.device_array((N, N, N), dtype=np.float32)
for step in range(10):
    advance[(N // 8, N // 8, N // 8), (8, 8, 8)](old, now, new)
    old, now, new = now, new, old
cuda.synchronize()
print("done")
