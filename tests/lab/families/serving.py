# SPDX-License-Identifier: Apache-2.0
"""Servers with arrivals, adapters, mixtures of causes."""
import functools

from program import MIB, SEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, SEEN, "serving")


def requests(rng, capacity, names, *, arrivals, served, mean):
    """Steps of a server: requests come, grow in chunks, and go when they are done."""
    running = []
    while True:
        operations = []
        for _ in range(arrivals(len(running))):
            running.append([[], rng.randrange(4, 30)])
        for request in running:
            name = names()
            operations.append(("a", name, max(512, int(mean * rng.uniform(0.7, 1.3)))))
            request[0].append(name)
            request[1] -= 1
        for request in [r for r in running if r[1] <= 0]:
            running.remove(request)
            operations += free_all(request[0] if served() else request[0][:len(request[0]) // 2])
        yield operations


@add(intent="leak", weight=2)
def cancelled_requests(rng, capacity, growth):
    """A part of each cancelled request stays."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.5))))[1]
    share = rng.uniform(0.1, 0.5)
    mean = capacity * rng.uniform(0.0006, 0.002)

    def served():
        return rng.random() > share or not growth
    yield from requests(rng, capacity, names, arrivals=lambda n: 2 if n < 8 else 0, served=served, mean=mean)


@add(intent="demand", weight=2)
def rush(rng, capacity, growth):
    """More and more users at once; nothing is kept for a user who is done."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.3, 0.6))))[1]
    step = [0]
    limit = rng.randrange(6, 12)
    rate = rng.uniform(0.2, 1.0)

    def arrivals(running):
        step[0] += 1
        return 2 if running < limit + (int(step[0] * rate) if growth else 0) else 0
    yield from requests(rng, capacity, names, arrivals=arrivals, served=lambda: True,
                        mean=capacity * rng.uniform(0.0008, 0.002))


@add(intent="leak")
def adapters(rng, capacity, growth):
    """Adapters of different ranks are loaded for tenants and stay; the steps between them are steady."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.5))))[1]
    every = rng.randrange(3, 10)
    work = int(capacity * rng.uniform(0.02, 0.1))
    step = 0
    while True:
        passing = [names() for _ in range(6)]
        operations = [("a", name, work // 3) for name in passing] + free_all(passing)
        step += 1
        if step % every == 0 and growth:
            rank = rng.choice((1, 2, 4, 8))
            operations += [("a", names(), int(capacity * 0.0004) * rank) for _ in range(16)]
        yield operations


@add(weight=3)
def pages_of_two_models(rng, capacity, _growth):
    """Two models take turns; each leaves pieces in the other's segments; the sum of both is steady."""
    names = Names()
    total = int(capacity * rng.uniform(0.55, 0.7))
    live, held = [], 0
    scale = capacity * rng.uniform(0.008, 0.02)
    turn = 0
    while True:
        operations = []
        grain = scale * (1 if turn // 6 % 2 == 0 else rng.uniform(1.5, 3.5))
        for _ in range(12):
            name, size = names(), int(grain * rng.uniform(0.3, 1.0))
            operations.append(("a", name, size))
            live.append((name, size))
            held += size
            while held > total:
                gone, size = live.pop(rng.randrange(len(live)))
                operations.append(("f", gone))
                held -= size
        yield operations
        turn += 1


@add(weight=2)
def server_beside_server(rng, capacity, _growth):
    """Two servers on one GPU: the other one's load rises."""
    names = Names()
    start, rate = rng.randrange(5, 30), capacity * rng.uniform(0.01, 0.04)
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.25))))[1]
    step = 0
    for operations in requests(rng, capacity, names, arrivals=lambda n: 2 if n < 10 else 0, served=lambda: True,
                               mean=capacity * rng.uniform(0.0005, 0.001)):
        other = int(min(capacity * 0.9, capacity * 0.1 + max(0, step - start) * rate))
        step += 1
        yield [("o", other)] + operations


@add()
def batch_search(rng, capacity, _growth):
    """The batch doubles until it does not fit."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.3))))[1]
    size = max(MIB, int(capacity * rng.uniform(0.002, 0.01)))
    while True:
        layer = [names() for _ in range(8)]
        yield [("a", name, size // 8) for name in layer] + free_all(layer)
        size *= 2
