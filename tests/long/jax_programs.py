# SPDX-License-Identifier: Apache-2.0
"""JAX programs that end, on a real GPU, in one way each: jax_programs.py NAME. Run by hook_gpu.py.

Sizes are shares of the pool, so that any card is filled. Each shape of an array is compiled, so there are few sizes.
"""
import json
import os
import random
import sys
import time

MIB, GIB = 1 << 20, 1 << 30


def jax_and_pool():
    """(jax, what its allocator may take of the first device)"""
    import jax
    return jax, jax.local_devices()[0].memory_stats()["bytes_limit"]


def block(jax, size):
    return jax.numpy.zeros(int(size), dtype="uint8").block_until_ready()


def step_of(jax, size=512):
    weights = [jax.numpy.ones((size, size)) / size for _ in range(8)]

    @jax.jit
    def step(x):
        for w in weights:
            x = jax.nn.relu(x @ w)
        return x.sum()
    x = jax.numpy.ones((size, size))
    return lambda: step(x).block_until_ready()


def tell(jax):
    print(json.dumps({"stats": jax.local_devices()[0].memory_stats()}), flush=True)


def fill(jax, size, pause=0.0):
    """Until the pool refuses; what it says of itself then goes to stdout."""
    kept = []
    try:
        while True:
            kept.append(block(jax, size))
            time.sleep(pause)
    except Exception:
        tell(jax)
        raise


def capacity():
    """Layers of a thirtieth of the pool are loaded until it is full."""
    jax, pool = jax_and_pool()
    fill(jax, pool / 30, pause=0.05)


def capacity_step():
    """Steady steps, then a batch that needs two thirds of the pool beside the model."""
    jax, pool = jax_and_pool()
    model, step = block(jax, 0.45 * pool), step_of(jax)
    for _ in range(120):
        activations = block(jax, 0.1 * pool)
        step()
        time.sleep(0.02)
        del activations
    block(jax, 0.66 * pool)
    return model


def leak():
    """Every step keeps its outputs in a list."""
    jax, pool = jax_and_pool()
    step, history = step_of(jax), []
    while True:
        work = block(jax, 0.02 * pool)
        history.append(block(jax, pool / 300))
        step()
        del work
        time.sleep(0.05)


def leak_grown():
    """The same in a pool that is not taken in advance: the driver sees it grow too."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    leak()


def fragmentation():
    """Blocks of 16, 24 and 40 MiB fill the pool; 60 % go at random; then 4 GiB at a time."""
    jax, pool = jax_and_pool()
    rng = random.Random(11)
    blocks, size = [], 0
    while size < 0.95 * pool:
        blocks.append(block(jax, rng.choice((16, 24, 40)) * MIB))
        size += blocks[-1].nbytes
    rng.shuffle(blocks)
    del blocks[:int(0.6 * len(blocks))]
    time.sleep(1)
    fill(jax, 4 * GIB)


def held():
    """hook_gpu.py has started another process that holds four fifths of the card."""
    jax, _ = jax_and_pool()
    model = block(jax, 2 * GIB)
    time.sleep(1)
    fill(jax, 6 * GIB)
    return model


def healthy(steps=300):
    jax, pool = jax_and_pool()
    step = step_of(jax)
    for _ in range(steps):
        work = block(jax, 0.01 * pool)
        step()
        del work
    tell(jax)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
