# SPDX-License-Identifier: Apache-2.0
"""Langevin sampling of a network's weights: every sample of the chain is kept for the posterior prediction."""
import os
import time

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.1"   # about 14 GiB of the card
import jax
import jax.numpy as jnp

WIDTH, DEPTH, SAMPLES = 4096, 4, 400


def init(key):
    keys = jax.random.split(key, DEPTH)
    return [jax.random.normal(k, (WIDTH, WIDTH), jnp.float32) / WIDTH ** 0.5 for k in keys]


def forward(params, x):
    for weight in params:
        x = jnp.tanh(x @ weight)
    return x


def energy(params, x, y):
    return jnp.mean((forward(params, x) - y) ** 2)


@jax.jit
def langevin(params, key, x, y, rate=1e-4):
    value, slope = jax.value_and_grad(energy)(params, x, y)
    keys = jax.random.split(key, len(params))
    moved = [p - rate * g + (2 * rate) ** 0.5 * 1e-3 * jax.random.normal(k, p.shape)
             for p, g, k in zip(params, slope, keys)]
    return moved, value


def main():
    key = jax.random.key(0)
    params = init(key)
    x = jax.random.normal(jax.random.key(1), (512, WIDTH))
    y = jnp.sin(x)
    chain = []
    start = time.time()
    for step in range(SAMPLES):
        key, here = jax.random.split(key)
        params, value = langevin(params, here, x, y)
        chain.append(params)
        time.sleep(0.08)
        if step % 4 == 0:
            print(f"sample {step} energy {float(value):.5f} {time.time() - start:.1f}s", flush=True)
    predictions = jnp.stack([forward(sample, x[:16]) for sample in chain])
    print("posterior spread", float(predictions.std(axis=0).mean()))


if __name__ == "__main__":
    main()
