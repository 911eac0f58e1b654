# SPDX-License-Identifier: Apache-2.0
"""Images of many sizes, diffusion, detection, graphs, replay."""
import functools

from program import GIB, MIB, SEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, SEEN, "vision")


def unet(names, unit, depth):
    """A network that goes down and up again: skip connections live across the middle."""
    operations, skips = [], []
    for level in range(depth):
        a, b = names(), names()
        size = max(512, unit >> level)
        operations += [("a", a, size), ("a", b, size), ("f", a)]
        skips.append((b, size))
    for skip, size in reversed(skips):
        joined = names()
        operations += [("a", joined, 2 * size), ("f", skip), ("f", joined)]
    return operations


@add()
def image_too_large(rng, capacity, _growth):
    """Pictures become larger until one does not fit; each is freed."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.4))))[1]
    edge = rng.uniform(0.2, 0.5)
    at = rng.randrange(8, 30)
    step = 0
    while True:
        yield unet(names, int(capacity * 0.3 * edge * edge), 5)
        step += 1
        if step == at:
            edge = rng.uniform(1.4, 2.5)


@add(intent="leak")
def previews_kept(rng, capacity, growth):
    """A preview of every picture is kept on the GPU; pictures differ in size."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.05, 0.25))))[1]
    preview = capacity * rng.uniform(0.002, 0.02)
    while True:
        edge = rng.uniform(0.5, 1.3)
        operations = unet(names, int(capacity * 0.12 * edge * edge), 5)
        if growth:
            operations.insert(len(operations) // 2, ("a", names(), int(preview * edge * edge)))
        yield operations


@add(intent="leak")
def cycles_not_collected(rng, capacity, growth):
    """Reference cycles: Python's collector frees most of them now and then, some never go."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.05, 0.2))))[1]
    size = int(capacity * rng.uniform(0.004, 0.012))
    stay = rng.uniform(0.25, 0.6)
    every = rng.randrange(5, 16)
    pending = []
    step = 0
    while True:
        work = [names() for _ in range(5)]
        operations = [("a", name, size * 3) for name in work]
        held = names()
        operations += [("a", held, size)] + free_all(work)
        if rng.random() >= stay or not growth:
            pending.append(held)
        step += 1
        if step % every == 0:
            operations += free_all(pending)
            pending = []
        yield operations


@add(weight=2)
def graph_batches(rng, capacity, _growth):
    """Graphs whose batches vary by a factor of ten, beside embeddings that are replaced one by one."""
    names = Names()
    table = []
    bound = int(capacity * rng.uniform(0.4, 0.55))
    held = 0
    mean = capacity * rng.uniform(0.01, 0.03)
    work = capacity * rng.uniform(0.25, 0.4)
    while True:
        share = 10 ** rng.uniform(-1, 0)
        pieces = [names() for _ in range(rng.randrange(2, 6))]
        operations = [("a", name, int(work * share / len(pieces))) for name in pieces]
        for _ in range(3):
            name, size = names(), int(mean * rng.lognormvariate(-0.4, 0.7))
            operations.append(("a", name, size))
            table.append((name, size))
            held += size
        while held > bound:
            name, size = table.pop(rng.randrange(len(table)))
            operations.append(("f", name))
            held -= size
        yield operations + free_all(pieces)


@add(intent="design")
def replay_buffer(rng, capacity, growth):
    """Reinforcement learning: a replay buffer that fills; it was given more room than there is."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.02, 0.1))))[1]
    size = max(MIB, int(capacity * rng.uniform(0.005, 0.03)))
    while True:
        rollout = [names() for _ in range(8)]
        operations = [("a", name, size) for name in rollout]
        if growth:
            operations.append(("a", names(), size))
        yield operations + free_all(rollout)


@add()
def beside_a_desktop(rng, capacity, _growth):
    """A game is started on the same card."""
    names = Names()
    at, held = rng.randrange(10, 50), int(capacity * rng.uniform(0.35, 0.6))
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.25, 0.35)))
    yield load(names, sizes)[1]
    step = 0
    while True:
        edge = 1.0 if step < at else rng.uniform(1.05, 1.2)
        other = held if step >= at else int(0.3 * GIB)
        yield [("o", other)] + unet(names, int(capacity * 0.12 * edge * edge), 4)
        step += 1
