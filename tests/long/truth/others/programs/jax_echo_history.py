# SPDX-License-Identifier: Apache-2.0
"""Traffic forecast with delays: the model looks at the 24 latest states of the road grid; older ones go."""
import os
import time
from collections import deque

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.12"   # about 17 GiB of the card
import jax
import jax.numpy as jnp
import numpy as np

SIDE, CHANNELS, DELAYS = 2560, 16, 24


@jax.jit
def observe(key, last):
    flow = 0.25 * (jnp.roll(last, 1, 0) + jnp.roll(last, -1, 0) + jnp.roll(last, 1, 1) + jnp.roll(last, -1, 1))
    return 0.98 * flow + 0.02 * jax.random.normal(key, last.shape)


@jax.jit
def add_term(total, state, weight):
    return total + weight * state


@jax.jit
def error(forecast, state):
    return jnp.mean((forecast - state) ** 2)


def forecast_from(history):
    total = jnp.zeros_like(history[-1])
    weights = np.exp(-np.arange(len(history)) / 4.0).astype(np.float32)
    weights = weights / weights.sum()
    for age, state in enumerate(reversed(history)):
        total = add_term(total, state, weights[age])
    return total


def main():
    key = jax.random.key(0)
    state = jax.random.normal(key, (SIDE, SIDE, CHANNELS))
    history = deque([state], maxlen=DELAYS)
    start = time.time()
    for minute in range(90):
        key, here = jax.random.split(key)
        forecast = forecast_from(history)
        state = observe(here, history[-1])
        missed = float(error(forecast, state))
        history.append(state)
        time.sleep(0.03)
        if minute % 6 == 0:
            print(f"minute {minute} history {len(history)} error {missed:.5f} {time.time() - start:.1f}s", flush=True)
    print("day done")


if __name__ == "__main__":
    main()
