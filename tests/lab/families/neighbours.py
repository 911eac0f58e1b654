# SPDX-License-Identifier: Apache-2.0
"""Other processes on the same GPU."""
import functools

from families.training import trainer
from program import SEEN, generator

add = functools.partial(generator, SEEN, "neighbours")


def beside(steps, holds):
    for number, step in enumerate(steps):
        yield [("o", holds(number))] + step


@add(weight=2)
def holds_most(rng, capacity, _growth):
    """Another process had the GPU first."""
    held = int(capacity * rng.uniform(0.5, 0.9))
    need = rng.uniform(1.15, 2.2) * (capacity - held)
    return beside(trainer(rng, capacity, int(min(need, capacity * 0.8) * 0.15), int(min(need, capacity * 0.8) * 0.4)),
                  lambda _: held)


@add(weight=2)
def grows(rng, capacity, _growth):
    """Another process comes later and takes more and more. Only the length of this program's batches varies."""
    start, rate = rng.randrange(5, 40), capacity * rng.uniform(0.01, 0.05)
    lengths = [rng.uniform(0.6, 1.0) for _ in range(997)]
    return beside(trainer(rng, capacity, int(capacity * rng.uniform(0.05, 0.1)), int(capacity * rng.uniform(0.15, 0.35)),
                          scales=lambda step: lengths[step % 997]),
                  lambda step: int(min(capacity * 0.9, max(0, step - start) * rate)))


@add()
def comes_at_once(rng, capacity, _growth):
    """Another job starts on the same GPU in the middle of the run."""
    at, held = rng.randrange(10, 60), int(capacity * rng.uniform(0.5, 0.8))

    def holds(step):
        return held if step >= at else 0
    # the trainer's cache is full by then: what it wants next is a larger batch of the same kind
    return beside(trainer(rng, capacity, int(capacity * rng.uniform(0.05, 0.1)), int(capacity * rng.uniform(0.2, 0.35)),
                          scales=lambda step: 1.0 if step < at else 1.25), holds)


@add()
def small_one(rng, capacity, _growth):
    """Another process holds a little. Without it, the program does not fit, either."""
    held = int(capacity * rng.uniform(0.01, 0.06))
    return beside(trainer(rng, capacity, int(capacity * rng.uniform(0.1, 0.3)), int(capacity * rng.uniform(1.1, 2))),
                  lambda _: held)
