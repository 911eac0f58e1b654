# SPDX-License-Identifier: Apache-2.0
# Recovers the sea floor from tide gauges: gradient of the misfit through a shallow-water model.
# The window of observations is lengthened in stages, as is usual in variational assimilation.
import functools
import time

import jax
import jax.numpy as jnp

N = 4096
G, DT, DX = 9.81, 0.02, 1.0


def ddx(f):
    return (jnp.roll(f, -1, 1) - jnp.roll(f, 1, 1)) / (2 * DX)


def ddy(f):
    return (jnp.roll(f, -1, 0) - jnp.roll(f, 1, 0)) / (2 * DX)


def advance(floor, state):
    h, u, v = state
    depth = h + floor
    u1 = u - DT * (u * ddx(u) + v * ddy(u) + G * ddx(h))
    v1 = v - DT * (u1 * ddx(v) + v * ddy(v) + G * ddy(h))
    h1 = h - DT * (ddx(depth * u1) + ddy(depth * v1))
    return h1, u1, v1


def misfit(floor, start, gauges, steps):
    def body(state, _):
        state = advance(floor, state)
        return state, state[0][::64, ::64]

    _, seen = jax.lax.scan(body, start, None, length=steps)
    return jnp.mean((seen - gauges) ** 2)


@functools.partial(jax.jit, static_argnums=3)
def gradient(floor, start, gauges, steps):
    return jax.value_and_grad(misfit)(floor, start, gauges, steps)


def main():
    y, x = jnp.meshgrid(jnp.arange(N), jnp.arange(N), indexing="ij")
    bump = jnp.exp(-((x - N / 2) ** 2 + (y - N / 3) ** 2) / 2e5).astype(jnp.float32)
    zero = jnp.zeros((N, N), jnp.float32)
    floor = 10 + 0.1 * bump
    for window in (20, 60, 600):
        t0 = time.time()
        print(f"window of {window} steps", flush=True)
        value, grad = gradient(floor, (bump, zero, zero), jnp.zeros((window, N // 64, N // 64)), window)
        floor = floor - 1e-3 * grad
        used = jax.local_devices()[0].memory_stats()
        print(f"  misfit {float(value):.6f}  peak {used['peak_bytes_in_use'] / 2**30:.1f} GiB of "
              f"{used['bytes_limit'] / 2**30:.1f}  {time.time() - t0:.1f}s", flush=True)
    print("sea floor", float(floor.min()), float(floor.max()))


if __name__ == "__main__":
    main()
