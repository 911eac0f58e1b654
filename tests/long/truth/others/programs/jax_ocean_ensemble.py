# SPDX-License-Identifier: Apache-2.0
"""Shallow-water ensemble: 24 members of an ocean basin advance together."""
import time
from functools import partial

import jax
import jax.numpy as jnp

MEMBERS, LAYERS, SIDE = 24, 32, 2048
DT, DX, GRAVITY = 1.0, 1000.0, 9.81


def slope(field, axis):
    return (jnp.roll(field, -1, axis) - jnp.roll(field, 1, axis)) / (2 * DX)


@partial(jax.jit, donate_argnums=0)
def advance(state):
    u, v, eta = state
    u = u - DT * GRAVITY * slope(eta, -1)
    v = v - DT * GRAVITY * slope(eta, -2)
    eta = eta - DT * 10.0 * (slope(u, -1) + slope(v, -2))
    return u, v, eta


@jax.jit
def spread(eta):
    return eta[:, 0, ::64, ::64].std(axis=0).mean()


def member_fields(key):
    bump = jnp.exp(-((jnp.arange(SIDE) - SIDE / 2) / 200.0) ** 2)
    place = bump[:, None] * bump[None, :]
    height = 1 + 0.1 * jax.random.normal(key, (MEMBERS, LAYERS, 1, 1))
    return height * place


def main():
    shape = (MEMBERS, LAYERS, SIDE, SIDE)
    print(f"{MEMBERS} members, {3 * 4 * MEMBERS * LAYERS * SIDE * SIDE / 2**30:.1f} GiB of state", flush=True)
    start = time.time()
    eta = jax.block_until_ready(member_fields(jax.random.key(0)))
    print(f"surface set {time.time() - start:.1f}s", flush=True)
    u = jax.block_until_ready(jnp.zeros(shape, jnp.float32))
    v = jax.block_until_ready(jnp.zeros(shape, jnp.float32))
    state = (u, v, eta)
    del u, v, eta
    for step in range(40):
        state = advance(state)
        if step % 5 == 0:
            print(f"step {step} spread {float(spread(state[2])):.5f} {time.time() - start:.1f}s", flush=True)
    print("forecast done")


if __name__ == "__main__":
    main()
