# SPDX-License-Identifier: Apache-2.0
"""Light-sheet microscopy: loads a stack of camera planes and takes the camera's dark frame away."""
import time

import cupy
import numpy as np

cupy.get_default_memory_pool().set_limit(size=18 * 2**30)
PLANES, SIDE = 220, 4096


def camera(rng):
    frame = rng.integers(90, 400, (SIDE, SIDE), dtype=np.uint16)
    for number in range(PLANES):
        yield np.roll(frame, number, axis=0)


def dark_frame(rng, shots=8):
    total = cupy.zeros((SIDE, SIDE), cupy.float64)
    for _ in range(shots):
        total += cupy.asarray(rng.integers(90, 110, (SIDE, SIDE), dtype=np.uint16))
    return total / shots


def main():
    rng = np.random.default_rng(0)
    start = time.time()
    dark = dark_frame(rng)
    print(f"dark level {float(dark.mean()):.1f}", flush=True)
    stack = cupy.empty((PLANES, SIDE, SIDE), cupy.uint16)
    for number, plane in enumerate(camera(rng)):
        stack[number] = cupy.asarray(plane)
        if number % 20 == 0:
            print(f"plane {number} mean {float(stack[number].mean()):.1f} {time.time() - start:.1f}s", flush=True)
    stack = stack - dark
    print("stack corrected", stack.dtype, flush=True)
    profile = stack.mean(axis=(1, 2))
    print(f"brightest plane {int(profile.argmax())} at {float(profile.max()):.1f}")


if __name__ == "__main__":
    main()
