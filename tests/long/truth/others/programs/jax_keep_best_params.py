# SPDX-License-Identifier: Apache-2.0
"""JAX training with donated buffers; the parameters with the best validation loss are kept for the end.
The user thinks that best = params keeps a copy."""
import os
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.04"
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np


def net(params, x):
    for w in params[:-1]:
        x = jax.nn.silu(x @ w)
    return x @ params[-1]


def loss_fn(params, x, y):
    return jnp.mean((net(params, x)[:, 0] - y) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return [p - 1e-2 * g for p, g in zip(params, grads)], loss


def main(steps=120):
    rng = np.random.default_rng(0)
    sizes = [512, 2048, 2048, 2048, 1]
    params = [jnp.asarray(rng.standard_normal((i, o), dtype=np.float32) * i ** -0.5) for i, o in zip(sizes, sizes[1:])]
    xv = jnp.asarray(rng.standard_normal((4096, 512), dtype=np.float32))
    yv = jnp.sin(xv[:, 0])
    validate = jax.jit(loss_fn)
    best, best_loss, t0 = None, float("inf"), time.time()
    for i in range(steps):
        x = rng.standard_normal((8192, 512), dtype=np.float32)
        params, loss = step(params, jnp.asarray(x), jnp.asarray(np.sin(x[:, 0])))
        if i % 10 == 0:
            val = float(validate(params, xv, yv))
            print(f"step {i} train {float(loss):.4f} val {val:.4f} {time.time() - t0:.1f}s", flush=True)
            if val < best_loss:
                best, best_loss = params, val
    print("best validation loss again:", float(validate(best, xv, yv)))


if __name__ == "__main__":
    main()
