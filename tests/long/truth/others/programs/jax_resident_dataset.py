# SPDX-License-Identifier: Apache-2.0
"""JAX training with the whole data set kept on the GPU: ten shards of 512 MiB in a slice of 7 GiB.
The user checked by hand that it fits, and it does, with more than one gigabyte to spare."""
import os
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.05"
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

ROWS, FEAT, SHARDS, BATCH = 131072, 1024, 10, 8192


def loss_fn(params, x, y):
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jnp.mean(((h @ params["w2"])[:, 0] - y) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(params, shard, start, y):
    x = jax.lax.dynamic_slice_in_dim(shard, start, BATCH)
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 1e-3 * g, params, grads), loss


def main():
    rng = np.random.default_rng(0)
    shards, t0 = [], time.time()
    block = rng.standard_normal((ROWS, FEAT), dtype=np.float32)
    for i in range(SHARDS):
        np.roll(block[:4096], i)
        shards.append(jax.device_put(block).block_until_ready())
    print(f"loaded {time.time() - t0:.1f}s", flush=True)
    params = dict(w1=jnp.asarray(rng.standard_normal((FEAT, 4096), dtype=np.float32) * 0.03), b1=jnp.zeros(4096),
                  w2=jnp.asarray(rng.standard_normal((4096, 1), dtype=np.float32) * 0.02))
    for i in range(150):
        y = jnp.asarray(rng.standard_normal((BATCH, 32), dtype=np.float32).sum(1))
        params, loss = step(params, shards[i % SHARDS], int(rng.integers(0, ROWS - BATCH)), y)
        if i % 15 == 0:
            print(f"step {i} loss {float(loss):.4f} {time.time() - t0:.1f}s", flush=True)
    print("done, loss", float(loss))


if __name__ == "__main__":
    main()
