# SPDX-License-Identifier: Apache-2.0
"""Unseen: renderers, simulations and notebooks. Written when the rules were fixed; nothing is tuned on these."""
import functools

from program import UNSEEN, Names, free_all, generator, load

add = functools.partial(generator, UNSEEN, "unseen_studio")


def buffers(rng, names, total, count):
    made = [(names(), max(512, int(total / count * rng.uniform(0.2, 1.8)))) for _ in range(count)]
    return [("a", name, size) for name, size in made], [("f", name) for name, _ in reversed(made)]


def start(rng, capacity, low, high):
    names = Names()
    return names, load(names, [int(capacity * rng.uniform(low, high) / 20)] * 20)[1]


@add(intent="leak", weight=2)
def undo_history(rng, capacity, growth):
    """Each edit keeps the tiles that it replaced; tiles have one size, and drafts of tiles come and go."""
    names, loading = start(rng, capacity, 0.1, 0.4)
    tile = int(capacity * 10 ** rng.uniform(-3.4, -2.3))
    shown = [names() for _ in range(30)]
    yield loading + [("a", name, tile) for name in shown]
    while True:
        drafts = [names() for _ in range(rng.randrange(2, 12))]
        operations = [("a", name, tile) for name in drafts] + free_all(drafts)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(shown))
            fresh = names()
            operations.append(("a", fresh, tile))
            if not growth:
                operations.append(("f", shown[at]))
            shown[at] = fresh
        yield operations


@add(intent="leak")
def notebook_cells(rng, capacity, growth):
    """A cell is run again and again; now and then its result stays referenced by the history."""
    names, loading = start(rng, capacity, 0.05, 0.3)
    yield loading
    size, chance = int(capacity * rng.uniform(0.01, 0.05)), rng.uniform(0.1, 0.6)
    while True:
        take, give = buffers(rng, names, size * 3, 6)
        name = names()
        stays = rng.random() < chance
        yield take + [("a", name, size)] + give + ([] if stays and growth else [("f", name)])


@add(intent="leak")
def warm_start_then_leak(rng, capacity, growth):
    """Steps become faster work for a while (a cache warms up: fewer operations), then a list grows."""
    names, loading = start(rng, capacity, 0.05, 0.3)
    yield loading
    size, step = int(capacity * 10 ** rng.uniform(-2.6, -1.7)), 0
    while True:
        take, give = buffers(rng, names, capacity * 0.06, max(4, 30 - step))
        yield take + give + ([("a", names(), size)] if growth and step > 10 else [])
        step += 1


@add(intent="demand", weight=2)
def refined_mesh(rng, capacity, growth):
    """Cells of one size, a share of which is made anew each step; the mesh is refined."""
    names, loading = start(rng, capacity, 0.05, 0.3)
    yield loading
    cell, share, rate = int(capacity * rng.uniform(0.0005, 0.002)), rng.uniform(0.05, 0.5), rng.uniform(0.003, 0.05)
    wanted, cells = 60.0, []
    while True:
        operations = []
        for _ in range(int(len(cells) * share)):
            operations.append(("f", cells.pop(rng.randrange(len(cells)))))
        while len(cells) < wanted:
            cells.append(names())
            operations.append(("a", cells[-1], cell))
        yield operations
        wanted *= 1 + (rate if growth else 0)


@add(intent="demand")
def users_of_the_evening(rng, capacity, growth):
    """Calls of equal buffers last some steps; more and more people call, and the server becomes slower."""
    names, loading = start(rng, capacity, 0.1, 0.4)
    yield loading
    size, calls, step, slope = int(capacity * rng.uniform(0.001, 0.006)), [], 0, rng.uniform(0.02, 0.4)
    while True:
        operations = []
        for call in [c for c in calls if c[1] <= step]:
            calls.remove(call)
            operations += free_all(call[0])
        while len(calls) < 5 + (slope * step if growth else 0):
            made = [names() for _ in range(3)]
            calls.append((made, step + rng.randrange(3, 40)))
            operations += [("a", name, size) for name in made]
        yield operations
        step += 1


@add(intent="design")
def scene_grows(rng, capacity, growth):
    """Objects are added to a scene that is meant to hold them all."""
    names, loading = start(rng, capacity, 0.05, 0.3)
    yield loading
    mean = capacity * 10 ** rng.uniform(-2.6, -1.8)
    while True:
        take, give = buffers(rng, names, capacity * 0.07, 7)
        yield take + give + ([("a", names(), max(512, int(mean * rng.uniform(0.3, 1.7))))] if growth else [])


@add(weight=2)
def comb(rng, capacity, _growth):
    """Pairs of buffers are made. The larger one of each pair is freed, then still larger ones are wanted."""
    names, loading = start(rng, capacity, 0.02, 0.08)
    yield loading
    small, large = int(capacity * 0.002), int(capacity * rng.uniform(0.004, 0.008))
    pairs = [(names(), names()) for _ in range(int(capacity * rng.uniform(0.75, 0.9)) // (small + large))]
    for at in range(0, len(pairs), 8):
        yield [operation for a, b in pairs[at:at + 8] for operation in (("a", a, small), ("a", b, large))]
    yield free_all(b for _, b in pairs)
    while True:
        take, give = buffers(rng, names, capacity * rng.uniform(0.3, 0.45), 12)
        yield take + give


@add(weight=2)
def final_render(rng, capacity, _growth):
    """Previews are steady; the final picture is many times as large."""
    names, loading = start(rng, capacity, 0.1, 0.4)
    yield loading
    total = capacity * rng.uniform(0.05, 0.25)
    for _ in range(rng.randrange(10, 200)):
        take, give = buffers(rng, names, total * rng.uniform(0.7, 1.2), 9)
        yield take + give
    while True:
        take, give = buffers(rng, names, capacity * rng.uniform(0.95, 2), 9)
        yield take + give
