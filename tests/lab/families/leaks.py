# SPDX-License-Identifier: Apache-2.0
"""Programs that keep what they do not need."""
import functools

from program import (MIB, SEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model)

add = functools.partial(generator, SEEN, "leaks", intent="leak")


def steps_to_fill(rng):
    return int(10 ** rng.uniform(1.0, 2.3))


def loop(rng, capacity, growth, leak, *, weights=(0.02, 0.2), activations=(0.03, 0.25), trains=True):
    """A steady loop; `leak(names, kept activations, room)` says what a step leaves: operations before the frees, names
    of activations that are not freed."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(*weights)), (4, 6, 8))
    layers = activations_of(rng, int(capacity * rng.uniform(*activations)), rng.choice((6, 8, 12)))
    yield load(names, sizes)[1]
    first = True
    while True:
        operations, kept = forward(names, layers, [layers[0][0] // 3])
        more, held = leak(names, kept)
        if growth:
            operations += more
            kept = [[name for name in mine if name not in held] for mine in kept]
        if trains:
            done, gradients = backward(names, kept, sizes)
        else:
            done, gradients = free_all([name for mine in kept for name in mine]), []
        if first and trains:
            done += [("a", names(), size) for size in sizes]
        first = False
        yield operations + done + free_all(gradients)


@add()
def outputs_in_a_list(rng, capacity, growth):
    """Predictions are appended to a list on the GPU."""
    size = int(capacity * rng.uniform(0.3, 0.8)) // steps_to_fill(rng)
    return loop(rng, capacity, growth, lambda names, kept: ([("a", names(), size)], ()), trains=rng.random() < 0.5)


@add()
def retained_graph(rng, capacity, growth):
    """total += loss: the activations of every step stay."""
    return loop(rng, capacity, growth, lambda names, kept: ([], {n for mine in kept for n in mine}),
                activations=(0.004, 0.04))


@add()
def hook_keeps_a_layer(rng, capacity, growth):
    """A forward hook keeps what one layer puts out."""
    at, count = rng.randrange(4), rng.randrange(1, 4)
    return loop(rng, capacity, growth, lambda names, kept: ([], set(kept[at][:count])),
                activations=(0.1, 0.3), trains=rng.random() < 0.5)


@add()
def copies_of_weights(rng, capacity, growth):
    """Snapshots of the weights for an average, every few steps."""
    every = rng.randrange(1, 6)
    count = [0]
    weights = capacity * rng.uniform(0.01, 0.05)
    copies = sizes_of_model(rng, int(weights))

    def leak(names, _kept):
        count[0] += 1
        return ([("a", names(), size) for size in copies] if count[0] % every == 0 else [], ())
    return loop(rng, capacity, growth, leak, weights=(weights / capacity, weights / capacity))


@add()
def many_small(rng, capacity, growth):
    """Metrics, masks and indices, some hundred a step."""
    each = [rng.randrange(512, 900 << 10) for _ in range(rng.randrange(50, 200))]
    factor = max(1, int(capacity * 0.5 / steps_to_fill(rng) / sum(each)))
    return loop(rng, capacity, growth, lambda names, kept: (
        [("a", names(), size * (factor if factor < 20 else 20)) for size in each], ()), trains=False)


@add()
def requests_never_dropped(rng, capacity, growth):
    """A server keeps a buffer of each request; their sizes differ."""
    mean = int(capacity * rng.uniform(0.4, 0.8)) // steps_to_fill(rng)
    return loop(rng, capacity, growth, lambda names, kept: (
        [("a", names(), max(512, int(mean * rng.lognormvariate(-0.3, 0.8))))], ()), trains=False)


@add()
def slow_beside_large_steps(rng, capacity, growth):
    """A little is kept of steps that use nearly everything."""
    size = max(MIB, int(capacity * 0.2) // steps_to_fill(rng))
    return loop(rng, capacity, growth, lambda names, kept: ([("a", names(), size)], ()), activations=(0.4, 0.55))


@add()
def beside_the_allocator(rng, capacity, growth):
    """A library of the process takes memory beside the allocator and gives none back."""
    share = capacity * rng.uniform(0.3, 0.6) / steps_to_fill(rng)
    taken = 0
    for step in loop(rng, capacity, growth, lambda names, kept: ([], ()), trains=rng.random() < 0.5):
        taken += int(share) if growth else 0
        yield step + [("x", taken)]
