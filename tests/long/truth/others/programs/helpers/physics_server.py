# SPDX-License-Identifier: Apache-2.0
"""Physics service: steps 4096 pendulums in JAX for whoever asks over the pipe."""
import sys

import jax
import jax.numpy as jnp


@jax.jit
def step(state, torque):
    angle, speed = state
    speed = speed + 0.05 * (jnp.sin(angle) + torque)
    return angle + 0.05 * speed, speed


state = (jnp.zeros(4096), jnp.full(4096, 0.01))
state = step(state, 0.0)
jax.block_until_ready(state)
print("ready", flush=True)
for line in sys.stdin:
    state = step(state, float(line))
    print(float(jnp.cos(state[0]).mean()), flush=True)
