# SPDX-License-Identifier: Apache-2.0
"""Flax-free JAX training that averages the weights of the run at the end (stochastic weight averaging).
The user stores the parameters of every step in a list and averages the last part after 2000 steps."""
import os
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.06"
import time

import jax
import jax.numpy as jnp
import numpy as np


def init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (i, o)) * i ** -0.5, jnp.zeros((o,))) for k, i, o in zip(keys, sizes, sizes[1:])]


def forward(params, x):
    for w, b in params[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(forward(params, x))
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], 1))


@jax.jit
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, params, grads), loss


def main(steps=2000):
    rng = np.random.default_rng(0)
    params = init(jax.random.PRNGKey(0), [1024, 2560, 2560, 2560, 2560, 100])
    history = []
    t0 = time.time()
    for step in range(steps):
        x = rng.standard_normal((6000, 1024), dtype=np.float32)
        y = rng.integers(0, 100, 6000)
        params, loss = update(params, jnp.asarray(x), jnp.asarray(y))
        history.append(params)
        if step % 5 == 0:
            print(f"step {step} loss {float(loss):.4f} {time.time() - t0:.1f}s", flush=True)
    tail = history[steps // 2:]
    mean = jax.tree_util.tree_map(lambda *p: sum(p) / len(p), *tail)
    print("averaged", float(loss_fn(mean, jnp.asarray(x), jnp.asarray(y))))


if __name__ == "__main__":
    main()
