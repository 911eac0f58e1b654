# SPDX-License-Identifier: Apache-2.0
"""JAX particle filter with one big and one small particle cloud for each tracked object, then only the small ones.
After the big clouds are deleted the user asks for larger ones, knowing that most of the memory is free."""
import os
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.06"
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

BIG, SMALL, LARGER = 8 * 2**20, 2 * 2**20, 12 * 2**20  # particles of four floats: 128, 32 and 192 MiB
OBJECTS = 48


@functools.partial(jax.jit, static_argnums=1)
def spawn(centre, n):
    t = jnp.arange(4 * n, dtype=jnp.float32).reshape(n, 4)
    return jnp.sin(t * 0.618) * 0.1 + centre


@jax.jit
def predict(model, z):
    for _ in range(20):
        z = jnp.tanh(z @ model)
    return z[0, :4]


def main():
    rng = np.random.default_rng(0)
    model = jnp.asarray(rng.standard_normal((2048, 2048), dtype=np.float32) * 0.02)
    big, small, t0 = {}, {}, time.time()
    for i in range(OBJECTS):
        z = jnp.asarray(rng.standard_normal((2048, 2048), dtype=np.float32))
        centre = predict(model, z).block_until_ready()
        big[i] = spawn(centre, BIG).block_until_ready()
        small[i] = spawn(centre, SMALL).block_until_ready()
        if i % 4 == 0:
            print(f"object {i} centre {np.asarray(centre)[0]:.3f} {time.time() - t0:.1f}s", flush=True)
    for i in range(OBJECTS):
        big.pop(i).delete()
    print("big clouds deleted", flush=True)
    for i in range(24):
        centre = small[i][:1000].mean(0)
        big[i] = spawn(centre, LARGER).block_until_ready()
        print(f"larger cloud {i} {time.time() - t0:.1f}s", flush=True)
    print("mean", float(sum(b.mean() for b in big.values())))


if __name__ == "__main__":
    main()
