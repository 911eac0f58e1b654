# SPDX-License-Identifier: Apache-2.0
"""The power spectrum of simulated velocity fields with CuPy, of better and better resolution."""
import cupy as cp

rng = cp.random.default_rng(9)
for side in (168, 336, 672, 1344):
    velocity = cp.empty((3, side, side, side))
    for component in velocity:
        for plane in component:
            plane[...] = rng.standard_normal((side, side))
    power = cp.abs(cp.fft.fftn(velocity, axes=(1, 2, 3))) ** 2
    print(f"side {side} power {float(power.mean()):.4g}", flush=True)
    del velocity, component, plane, power
