# SPDX-License-Identifier: Apache-2.0
"""Visual mapping with a drone: the descriptors of every keyframe join the map, new frames are placed against it."""
import time

import cupy
import numpy as np

cupy.get_default_memory_pool().set_limit(size=12 * 2**30)
POINTS, DESCRIPTOR = 480_000, 128


class Map:
    def __init__(self):
        self.descriptors = []
        self.positions = []

    def add(self, descriptors, positions):
        self.descriptors.append(descriptors)
        self.positions.append(positions)

    def place(self, query):
        """Best likeness of a few query points with each keyframe of the map."""
        best = [float((query @ known.T).max(axis=1).mean()) for known in self.descriptors]
        return int(np.argmax(best)), max(best)


def describe(rng, base):
    order = int(rng.integers(1, POINTS))
    descriptors = cupy.roll(base, order, axis=0)
    descriptors += 0.05 * cupy.random.standard_normal(descriptors.shape, dtype=cupy.float32)
    descriptors /= cupy.linalg.norm(descriptors, axis=1, keepdims=True)
    return descriptors


def main():
    rng = np.random.default_rng(0)
    cupy.random.seed(0)
    base = cupy.random.standard_normal((POINTS, DESCRIPTOR), dtype=cupy.float32)
    world = Map()
    start = time.time()
    for keyframe in range(1000):
        descriptors = describe(rng, base)
        positions = cupy.random.standard_normal((POINTS, 3), dtype=cupy.float32)
        where, likeness = (-1, 0.0) if not world.descriptors else world.place(descriptors[:256])
        world.add(descriptors, positions)
        time.sleep(0.08)
        if keyframe % 4 == 0:
            print(f"keyframe {keyframe} nearest {where} likeness {likeness:.3f} "
                  f"map {POINTS * (keyframe + 1) / 1e6:.1f} M points {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
