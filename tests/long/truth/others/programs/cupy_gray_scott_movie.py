# SPDX-License-Identifier: Apache-2.0
"""Gray-Scott reaction-diffusion on a 2048 x 2048 grid in CuPy; a frame is taken every 80 time steps for a movie.
The user writes the movie to disk after the 600 frames are done."""
import time

import cupy as cp

cp.get_default_memory_pool().set_limit(size=4 * 2**30)

react = cp.ElementwiseKernel(
    "float32 u, float32 v, float32 lu, float32 lv, float32 feed, float32 kill", "float32 nu, float32 nv",
    "float uvv = u * v * v; nu = u + 0.16f * lu - uvv + feed * (1.0f - u); nv = v + 0.08f * lv + uvv - (feed + kill) * v",
    "gray_scott")


def laplace(a):
    out = cp.roll(a, 1, 0)
    out += cp.roll(a, -1, 0)
    out += cp.roll(a, 1, 1)
    out += cp.roll(a, -1, 1)
    out -= 4 * a
    return out


def main(frames=600, size=2048):
    cp.random.seed(0)
    u = cp.ones((size, size), cp.float32)
    v = cp.zeros((size, size), cp.float32)
    mid = size // 2
    u[mid - 40:mid + 40, mid - 40:mid + 40] = 0.5
    v[mid - 40:mid + 40, mid - 40:mid + 40] = 0.25
    v += 0.02 * cp.random.random((size, size), dtype=cp.float32)
    movie, t0 = [], time.time()
    for frame in range(frames):
        for _ in range(80):
            u, v = react(u, v, laplace(u), laplace(v), cp.float32(0.035), cp.float32(0.06))
        movie.append(cp.stack([u, v]))
        if frame % 10 == 0:
            print(f"frame {frame} mean v {float(v.mean()):.4f} {time.time() - t0:.1f}s", flush=True)
    cp.save("/dev/null", cp.stack(movie))


if __name__ == "__main__":
    main()
