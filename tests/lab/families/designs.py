# SPDX-License-Identifier: Apache-2.0
"""Growth that the program means to have: caches of the conversation, of features, of requests."""
import functools

from families.leaks import steps_to_fill
from program import MIB, SEEN, Names, generator, load, sizes_of_model

add = functools.partial(generator, SEEN, "designs", intent="design")


@add(weight=2)
def cache_by_concatenation(rng, capacity, growth):
    """transformers' dynamic cache: each layer's keys and values are copied into larger ones."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.5)))
    layers = rng.choice((16, 24, 32))
    token = max(512, int(capacity * rng.uniform(0.3, 0.8)) // layers // 2 // steps_to_fill(rng) // 512 * 512)
    prompt = token * rng.randrange(1, 8)
    yield load(names, sizes)[1]
    cache = [(names(), prompt) for _ in range(layers * 2)]
    yield [("a", name, size) for name, size in cache]
    logits = int(capacity * rng.uniform(0.001, 0.01))
    while True:
        operations, larger = [], []
        for name, size in cache:
            new = (names(), size + (token if growth else 0))
            operations += [("a", *new), ("f", name)]
            larger.append(new)
        cache = larger
        out = names()
        yield operations + [("a", out, logits), ("f", out)]


@add()
def cache_of_everything(rng, capacity, growth):
    """Features of every sample are kept for the next epoch, which never comes."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.05, 0.3))))[1]
    size = max(MIB, int(capacity * 0.6) // steps_to_fill(rng))
    work = int(capacity * rng.uniform(0.02, 0.1))
    while True:
        passing = [names() for _ in range(4)]
        operations = [("a", name, work) for name in passing]
        if growth:
            operations.append(("a", names(), size))
        yield operations + [("f", name) for name in passing]


@add()
def sessions(rng, capacity, growth):
    """A cache for each open session; more are opened than closed."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.4))))[1]
    size = max(MIB, int(capacity * 0.5) // steps_to_fill(rng))
    open_sessions = []
    while True:
        operations = []
        for _ in range(3):
            opened = names()
            operations.append(("a", opened, int(size * rng.uniform(0.5, 1.5))))
            open_sessions.append(opened)
        for _ in range(2 if growth else 3):
            if open_sessions:
                operations.append(("f", open_sessions.pop(rng.randrange(len(open_sessions)))))
        yield operations
