# SPDX-License-Identifier: Apache-2.0
"""An ensemble in JAX: every second member is pruned, then the kernel of the rest's predictions is worked out."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.40")
import jax
import jax.numpy as jnp

limit = jax.local_devices()[0].memory_stats()["bytes_limit"]
MEMBER = 256 << 20
members = []
key = jax.random.PRNGKey(0)
make = jax.jit(lambda k: jax.random.normal(k, (MEMBER // 4 // 8192, 8192)))
for number in range(int(limit * 0.95 / MEMBER) - 3):
    key, use = jax.random.split(key)
    members.append(make(use))
    if number % 20 == 0:
        print(f"step {number} norm {float(jnp.linalg.norm(members[-1][0])):.2f}", flush=True)
scores = [float(m[0, :64].mean()) for m in members]
print("scored", len(scores), flush=True)
kept = members[::2]
del members
side = int((limit * 0.2 / 4) ** 0.5)
place = jnp.linspace(0, 1, side)
kernel = jax.jit(lambda p: jnp.exp(-((p[:, None] - p[None, :]) ** 2)))(place)
kernel.block_until_ready()
print("kept", len(kept), "kernel", kernel.shape, float(kernel[0, 1]))
