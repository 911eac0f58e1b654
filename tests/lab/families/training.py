# SPDX-License-Identifier: Apache-2.0
"""Training that needs more than there is: no leak, and hardly any fragmentation."""
import functools

from program import (MIB, SEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model)

add = functools.partial(generator, SEEN, "training")


def trainer(rng, capacity, weights, activations, *, adam=True, scales=None, optimizer_at=0):
    """`scales(step)`: how large a step's batch is."""
    names = Names()
    sizes = sizes_of_model(rng, weights)
    layers = activations_of(rng, activations, rng.choice((12, 16, 24)))
    temporaries = [int(activations / len(layers) * rng.uniform(0.02, 0.3)) for _ in range(rng.randrange(1, 4))]
    yield load(names, sizes)[1]
    step = 0
    while True:
        scale = scales(step) if scales else 1.0
        operations, kept = forward(names, layers, temporaries, scale)
        more, gradients = backward(names, kept, sizes)
        operations += more
        if adam and step == optimizer_at:
            operations += [("a", names(), size) for size in sizes for _ in range(2)]
        yield operations + free_all(gradients)
        step += 1


@add()
def first_step(rng, capacity, _growth):
    """The first forward pass does not fit."""
    weights = capacity * rng.uniform(0.1, 0.5)
    return trainer(rng, capacity, int(weights), int(capacity * rng.uniform(0.8, 1.6)))


@add()
def optimizer_states(rng, capacity, _growth):
    """Forward and backward fit; the states that Adam makes at its first step do not."""
    weights = capacity * rng.uniform(0.27, 0.4)
    return trainer(rng, capacity, int(weights), int(capacity * rng.uniform(0.02, 0.1)), optimizer_at=rng.choice((0, 0, 1, 3)))


@add()
def weights_only(rng, capacity, _growth):
    """The model does not fit."""
    return trainer(rng, capacity, int(capacity * rng.uniform(1.0, 2.0)), MIB * 64)


@add(intent="demand", weight=2)
def longer_batches(rng, capacity, growth):
    """Batches become larger (a curriculum, a batch-size search); each is freed whole."""
    rate = rng.uniform(0.004, 0.05)
    return trainer(rng, capacity, int(capacity * rng.uniform(0.05, 0.15)), int(capacity * rng.uniform(0.1, 0.3)),
                   scales=lambda step: 1.0 + (rate * step if growth else 0.0))


@add(weight=2)
def one_large_batch(rng, capacity, _growth):
    """Steady steps, then one that is much larger: the longest sample of the data."""
    at, jump = rng.randrange(15, 60), rng.uniform(2.5, 6)
    share = rng.uniform(0.25, 0.4)
    return trainer(rng, capacity, int(capacity * rng.uniform(0.05, 0.12)), int(capacity * share),
                   scales=lambda step: jump if step >= at else 1.0)


@add(weight=2)
def evaluation_after_training(rng, capacity, _growth):
    """Steady training, then an evaluation with batches that never had room."""
    names = Names()
    steps = rng.randrange(10, 60)
    for done, step in enumerate(trainer(rng, capacity, int(capacity * rng.uniform(0.05, 0.15)),
                                        int(capacity * rng.uniform(0.1, 0.3)))):
        yield step
        if done == steps:
            break
    while True:
        logits = [("a", f"eval{names()}", int(capacity * rng.uniform(0.15, 0.4))) for _ in range(7)]
        yield logits + [("f", name) for _, name, _ in logits]
