# SPDX-License-Identifier: Apache-2.0
"""A flat live set whose free pieces do not serve the next request."""
import functools

from program import GIB, MIB, SEEN, Names, generator

add = functools.partial(generator, SEEN, "fragments")


def churn(rng, names, live, total, sizes, count):
    """Replaces `count` of the live blocks by others; about `total` bytes stay live."""
    operations = []
    for _ in range(count):
        size = sizes()
        name = names()
        operations.append(("a", name, size))
        live.append((name, size))
        while sum(s for _, s in live[-40:]) and live_bytes(live) > total:
            gone, _ = live.pop(rng.randrange(len(live)))
            operations.append(("f", gone))
    return operations


def live_bytes(live):
    return sum(size for _, size in live)


@add(weight=3)
def checkerboard(rng, capacity, _growth):
    """Blocks share segments. Every other block is freed, then larger ones are wanted."""
    names = Names()
    size = rng.randrange(2 * MIB + 4096, 9 * MIB + (MIB >> 1))
    filled = int(capacity * rng.uniform(0.7, 0.85))
    blocks = [names() for _ in range(min(filled // size, 20000))]
    yield [("a", name, size) for name in blocks]
    for _ in range(rng.randrange(5, 60)):
        passing = names()
        yield [("a", passing, 4 * MIB), ("f", passing)]
    yield [("f", name) for name in blocks[::2]]
    large = int(capacity * rng.uniform(0.01, 0.04))
    kept = []
    for _ in range(int(filled * 0.42 / large)):
        kept.append(names())
        yield [("a", kept[-1], large)]
    while True:
        passing = names()
        yield [("a", passing, large // 4), ("f", passing)]


@add(weight=3)
def survivors_pin_segments(rng, capacity, _growth):
    """Large buffers of many sizes come and go; a small piece of each place stays for long."""
    names = Names()
    live, small = [], []
    limit = int(capacity * rng.uniform(0.35, 0.5))
    largest = int(capacity * rng.uniform(0.08, 0.16))
    while True:
        operations, passing = [], []
        room = limit
        while room > largest // 8:
            size = min(room, int(largest * rng.uniform(0.05, 1)))
            name = names()
            operations.append(("a", name, size))
            passing.append(name)
            room -= size
        rng.shuffle(passing)
        for name in passing:
            operations.append(("f", name))
            if rng.random() < 0.25:
                kept = names()
                operations.append(("a", kept, int(rng.uniform(1.2, 12) * MIB * max(1, capacity // (32 * GIB)))))
                small.append(kept)
        while len(small) > 120:
            operations.append(("f", small.pop(rng.randrange(len(small)))))
        live.clear()
        yield operations


@add(weight=2)
def two_sizes_in_turn(rng, capacity, _growth):
    """Two phases want the same sum in pieces of different size. A few blocks of one phase stay in the other."""
    names = Names()
    total = int(capacity * rng.uniform(0.5, 0.62))
    first = int(capacity * rng.uniform(0.01, 0.03))
    stays = rng.uniform(0.15, 0.3)
    old = []
    step = 0
    while True:
        size = first * (1 if step % 2 == 0 else 1 + rng.uniform(0.6, 1.5))
        pieces = [(names(), int(size * rng.uniform(0.96, 1.0))) for _ in range(max(1, int((total - live_bytes(old)) / size)))]
        rng.shuffle(pieces)
        keep = pieces[:int(len(pieces) * stays)]
        keep_small = [(names(), max(2 * MIB, n // 6)) for _, n in keep]
        operations = [("f", name) for name, _ in old] if step % 3 == 0 else []
        if step % 3 == 0:
            old = []
        operations += [("a", name, n) for name, n in pieces]
        for (name, _), (small, n) in zip(keep, keep_small):
            operations += [("f", name), ("a", small, n)]
        operations += [("f", name) for name, _ in pieces[len(keep):]]
        old += keep_small
        yield operations
        step += 1


@add(weight=2)
def lengths_with_a_cache(rng, capacity, _growth):
    """Sequences of many lengths beside a cache of bounded size that is replaced at random."""
    names = Names()
    cache = []
    bound = int(capacity * rng.uniform(0.35, 0.5))
    unit = int(capacity * rng.uniform(0.004, 0.012))
    activations = capacity * rng.uniform(0.18, 0.26)
    while True:
        operations = []
        length = rng.uniform(0.3, 1.0)
        layer = [names() for _ in range(6)]
        operations += [("a", name, int(activations * length / 6)) for name in layer]
        operations += churn(rng, names, cache, bound, lambda: int(unit * rng.uniform(0.2, 2.2)), 4)
        yield operations + [("f", name) for name in layer]
