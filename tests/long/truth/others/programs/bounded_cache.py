# SPDX-License-Identifier: Apache-2.0
"""Serves fields from a cache in JAX that keeps the last of them, nearly as many as the pool holds."""
import os
import random
import time
from collections import OrderedDict

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.15")
import jax

limit = jax.local_devices()[0].memory_stats()["bytes_limit"]
FIELD = 128 << 20
most = int(limit * 0.9 / FIELD)
make = jax.jit(lambda seed: jax.random.normal(jax.random.PRNGKey(seed), (FIELD // 4 // 4096, 4096)))
cache = OrderedDict()
random.seed(1)
for request in range(600):
    seed = random.randint(0, 3 * most)
    if seed in cache:
        cache.move_to_end(seed)
    else:
        while len(cache) >= most:
            cache.popitem(last=False)
        cache[seed] = make(seed)
    answer = float(cache[seed][0, 0])
    time.sleep(0.02)
    if request % 20 == 0:
        print(f"step {request} cached {len(cache)} of {most} answer {answer:.3f}", flush=True)
