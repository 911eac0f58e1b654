# SPDX-License-Identifier: Apache-2.0
"""Evolves a state with an adaptive time step in JAX; the propagator of a time step is made once."""
import functools
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.20")
import jax
import jax.numpy as jnp

N = 4096
place = jnp.linspace(-10, 10, N)
hamiltonian = jnp.exp(-((place[:, None] - place[None, :]) ** 2)) + jnp.diag(0.5 * place**2)


@functools.lru_cache(maxsize=None)
def propagator(dt):
    return jnp.exp(-1j * dt * hamiltonian) / jnp.sqrt(N)


@jax.jit
def advance(state, table):
    new = table @ state
    new = new / jnp.linalg.norm(new)
    return new, jnp.linalg.norm(jnp.abs(new) - jnp.abs(state))


state = jnp.exp(-(place**2)).astype(jnp.complex64)
state = state / jnp.linalg.norm(state)
dt, now = 0.01, 0.0
for step in range(5000):
    new, error = advance(state, propagator(dt))
    state, now = new, now + dt
    dt = float(min(0.05, max(1e-5, dt * (1e-1 / (float(error) + 1e-6)) ** 0.1 * (1 + 1e-6 * step))))
    dt = dt * (1 + 1e-9 * step)
    time.sleep(0.03)
    if step % 20 == 0:
        print(f"step {step} time {now:.4f} dt {dt:.3e} error {float(error):.2e}", flush=True)
