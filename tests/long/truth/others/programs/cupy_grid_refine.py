# SPDX-License-Identifier: Apache-2.0
"""Poisson solver in CuPy on a cube: solves on a coarse grid, interpolates, refines, and goes on to 1024^3.
The user wants a convergence table in the grid spacing."""
import time

import cupy as cp

cp.get_default_memory_pool().set_limit(size=6 * 2**30)


def sweep(u, f, h):
    new = cp.zeros_like(u)
    s = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    s += u[1:-1, :-2, 1:-1]
    s += u[1:-1, 2:, 1:-1]
    s += u[1:-1, 1:-1, :-2]
    s += u[1:-1, 1:-1, 2:]
    s -= h * h * f[1:-1, 1:-1, 1:-1]
    new[1:-1, 1:-1, 1:-1] = s / 6.0
    return new


def source(n):
    a = cp.linspace(0.0, 1.0, n)
    return cp.sin(3 * a)[:, None, None] * cp.cos(5 * a)[None, :, None] * (a * (1 - a))[None, None, :]


def refine(u, n):
    idx = cp.clip(cp.rint(cp.linspace(0, u.shape[0] - 1, n)), 0, u.shape[0] - 1).astype(cp.int64)
    u = cp.take(u, idx, axis=0)
    u = cp.take(u, idx, axis=1)
    return cp.take(u, idx, axis=2)


def main():
    t0 = time.time()
    u = cp.zeros((96, 96, 96))
    for n in range(96, 1025, 32):
        if n != u.shape[0]:
            u = refine(u, n)
        f = source(n)
        for it in range(120):
            u = sweep(u, f, 1.0 / (n - 1))
        change = float(cp.abs(u).max())
        print(f"n {n} max|u| {change:.3e} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
