# SPDX-License-Identifier: Apache-2.0
"""Unseen: work and leaks in blocks of one size. Written before any of its results were looked at."""
import functools

from program import MIB, UNSEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_equal")


def start(rng, capacity, low=0.1, high=0.4):
    names = Names()
    return names, load(names, sizes_of_model(rng, int(capacity * rng.uniform(low, high))))[1]


def block_of(rng, capacity):
    return max(MIB, int(capacity * 10 ** rng.uniform(-3.5, -2.3)))


def scratch(rng, names, size, count):
    """Temporaries of the same size as what stays, or of other sizes."""
    operations = []
    for _ in range(count):
        name = names()
        operations += [("a", name, int(size * rng.choice((1, 1, 0.5, 2)))), ("f", name)]
    return operations


def requests(rng, names, size, *, rate, pages, life, stays):
    """Each step `rate` requests begin with `pages` blocks and take one more now and then; each lasts `life` steps.
    `stays(name)`: is this block of a request that is done never freed?"""
    open_ones, step = [], 0
    while True:
        operations = []
        for _ in range(rate(step)):
            mine = [names() for _ in range(pages(step))]
            operations += [("a", name, size) for name in mine]
            open_ones.append((step + max(1, int(life(step) * rng.uniform(0.5, 1.5))), mine))
        for _, mine in open_ones:
            if rng.random() < 0.2:
                mine.append(names())
                operations.append(("a", mine[-1], size))
        for end, mine in [each for each in open_ones if each[0] <= step]:
            operations += free_all(name for name in mine if not stays(name))
        open_ones = [each for each in open_ones if each[0] > step]
        yield operations + scratch(rng, names, size, 3)
        step += 1


def program(rng, capacity, **parts):
    names, loading = start(rng, capacity)
    yield loading
    yield from requests(rng, names, block_of(rng, capacity), **parts)


def never(_):
    return False


@add(intent="demand", weight=2)
def longer_contexts(rng, capacity, growth):
    """As many requests as ever, but each brings more pages from week to week."""
    rate, life, first, more = rng.randrange(1, 4), rng.randrange(3, 25), rng.randrange(1, 5), rng.uniform(0.02, 0.3)
    yield from program(rng, capacity, rate=lambda _: rate, life=lambda _: life, stays=never,
                       pages=lambda step: first + (int(step * more) if growth else 0))


@add(intent="demand", weight=2)
def slower_answers(rng, capacity, growth):
    """As many requests as ever, but each stays open for longer."""
    rate, life, pages, more = rng.randrange(1, 4), rng.randrange(3, 15), rng.randrange(1, 5), rng.uniform(0.05, 0.5)
    yield from program(rng, capacity, rate=lambda _: rate, pages=lambda _: pages, stays=never,
                       life=lambda step: life + (step * more if growth else 0))


@add(intent="leak", weight=2)
def answers_in_a_log(rng, capacity, growth):
    """The pages of some finished requests are still referenced by a log; load goes up and down."""
    rate, life, pages, share = rng.randrange(2, 5), rng.randrange(3, 25), rng.randrange(1, 5), rng.uniform(0.01, 0.2)

    def stays(_):
        return rng.random() < share and growth
    yield from program(rng, capacity, rate=lambda step: rate + (step // 13) % 2, life=lambda _: life,
                       pages=lambda _: pages, stays=stays)


@add(intent="leak", weight=2)
def last_page_forgotten(rng, capacity, growth):
    """One page of each n-th block is rounded off when a request's pages are given back."""
    rate, life, every = rng.randrange(1, 6), rng.randrange(2, 30), rng.randrange(4, 40)
    yield from program(rng, capacity, rate=lambda _: rate, life=lambda _: life, pages=lambda _: 3,
                       stays=lambda name: name % every == 0 and growth)


def ring(rng, capacity, *, depth, kept):
    """A queue of frames of one size, as deep as `depth(step)`; `kept()`: does this frame stay behind it?"""
    names, loading = start(rng, capacity)
    yield loading
    size, queue, step = block_of(rng, capacity), [], 0
    burst = rng.randrange(1, 8)
    while True:
        queue += (fresh := [names() for _ in range(burst + max(0, int(depth(step)) - len(queue)))])
        operations = [("a", name, size) for name in fresh]
        while len(queue) > depth(step):
            name = queue.pop(0)
            operations += [] if kept() else [("f", name)]
        yield operations + scratch(rng, names, size, 2)
        step += 1


@add(intent="demand", weight=2)
def deeper_prefetch(rng, capacity, growth):
    """A loader that reads ahead further whenever it waited."""
    first, more = rng.randrange(4, 40), rng.uniform(0.05, 1.0)
    return ring(rng, capacity, depth=lambda step: first + (step * more if growth else 0), kept=lambda: False)


@add(intent="leak", weight=2)
def frames_of_alarms(rng, capacity, growth):
    """A frame that raised an alarm stays in a list."""
    depth, share = rng.randrange(4, 60), rng.uniform(0.02, 0.3)

    def kept():
        return rng.random() < share and growth
    return ring(rng, capacity, depth=lambda _: depth, kept=kept)


@add(intent="demand")
def more_cameras(rng, capacity, growth):
    """A ring for each camera; cameras are added in groups, with long pauses."""
    first, group, every = rng.randrange(4, 40), rng.randrange(2, 30), rng.randrange(10, 60)
    return ring(rng, capacity, depth=lambda step: first + (step // every * group if growth else 0), kept=lambda: False)


@add()
def busy_hour(rng, capacity, _growth):
    """Load goes up and down; in one hour it is several times as high."""
    at, times, rate = rng.randrange(30, 150), rng.randrange(8, 40), rng.randrange(1, 3)
    life = rng.randrange(5, 20)
    return program(rng, capacity, rate=lambda step: rate * (times if step >= at else 1 + step // 7 % 2),
                   life=lambda _: life, pages=lambda _: 3, stays=never)
