# SPDX-License-Identifier: Apache-2.0
"""A reaction-diffusion simulation in JAX; the 1500 frames of its movie stay on the GPU and are stacked at the end."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.30")
import jax
import jax.numpy as jnp

N = 256


def laplace(u):
    return sum(jnp.roll(u, s, a) for a in (0, 1, 2) for s in (1, -1)) - 6 * u


@jax.jit
def thirty_steps(u, v):
    def one(_, state):
        u, v = state
        r = u * v * v
        return u + 0.16 * laplace(u) - r + 0.035 * (1 - u), v + 0.08 * laplace(v) + r - 0.1 * v
    return jax.lax.fori_loop(0, 30, one, (u, v))


u = jnp.ones((N, N, N))
v = jax.random.uniform(jax.random.PRNGKey(1), (N, N, N)) * 0.3
frames = []
for number in range(1500):
    u, v = thirty_steps(u, v)
    frames.append(jnp.stack([u, v]))
    if number % 20 == 0:
        print(f"step {number} mean {float(v.mean()):.4f}", flush=True)
movie = jnp.stack(frames)
print("movie", movie.shape)
