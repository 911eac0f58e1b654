# SPDX-License-Identifier: Apache-2.0
"""Unseen: inference engines and video generators. Written when the rules were fixed; nothing is tuned on these."""
import functools

from program import MIB, UNSEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_engines")


def pass_of(names, sizes):
    """A forward pass: each layer's output lives until the next one is there."""
    operations, last = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, max(512, int(size))))
        operations += free_all([last] if last else [])
        last = name
    return operations + free_all([last])


class Sequence:
    def __init__(self, left):
        self.left, self.pages = left, []


def engine(rng, capacity, page, *, arrivals, bound, aborted):
    """Sequences take a page every few tokens. If all of them have more than `bound` pages, the youngest is preempted:
    its pages go, and it starts anew later. `aborted(sequence)`: names of its pages that are never freed."""
    names, running, waiting = Names(), [], []
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.15, 0.4))))[1]
    hidden = capacity * rng.uniform(0.002, 0.02)
    step = 0
    while True:
        operations = []
        for _ in range(arrivals(step)):
            waiting.append(Sequence(int(10 ** rng.uniform(0.5, 1.8))))
        while waiting and sum(len(s.pages) + 1 for s in running) < bound(step):
            running.append(waiting.pop(0))
        for sequence in running:
            sequence.pages.append(names())
            sequence.left -= 1
            operations.append(("a", sequence.pages[-1], page))
        while len(running) > 1 and sum(len(s.pages) for s in running) > bound(step):
            gone = running.pop()
            operations += free_all(gone.pages)
            waiting.insert(0, Sequence(gone.left + len(gone.pages)))
        for sequence in [s for s in running if s.left <= 0]:
            running.remove(sequence)
            lost = aborted(sequence)
            operations += free_all(name for name in sequence.pages if name not in lost)
        yield operations + pass_of(names, [hidden * rng.uniform(0.5, 1)] * 4)
        step += 1


def page_of(rng, capacity):
    """(bytes, pages that fill a share of the GPU)"""
    page = max(MIB // 2, int(capacity * rng.uniform(0.0005, 0.002)))
    return page, int(capacity * rng.uniform(0.25, 0.4)) // page


@add(intent="leak", weight=2)
def aborted_sequences(rng, capacity, growth):
    """An engine with preemption: of sequences that a client aborts, the pages stay."""
    page, bound = page_of(rng, capacity)
    share, rate = rng.uniform(0.05, 0.4), rng.randrange(1, 5)

    def aborted(sequence):
        hit = rng.random() < share
        return set(sequence.pages) if hit and growth else ()
    return engine(rng, capacity, page, arrivals=lambda _: rate, bound=lambda _: bound, aborted=aborted)


@add(intent="demand", weight=2)
def more_clients(rng, capacity, growth):
    """The engine admits more sequences each hour, because nobody set a limit."""
    page, bound = page_of(rng, capacity)
    rate, more = rng.randrange(2, 6), bound * rng.uniform(0.002, 0.03)
    return engine(rng, capacity, page, arrivals=lambda step: rate + (step // 40 if growth else 0),
                  bound=lambda step: bound + (int(step * more) if growth else 0), aborted=lambda _: ())


@add()
def long_prompt(rng, capacity, _growth):
    """The pool of pages is reserved whole at the start; a prompt is longer than all before it."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.15, 0.4))))[1]
    layers = rng.choice((16, 24, 32))
    pool = capacity * rng.uniform(0.3, 0.45)
    yield [("a", names(), int(pool / layers / 2)) for _ in range(layers * 2)]
    hidden = capacity * rng.uniform(0.005, 0.02)
    at, times = rng.randrange(20, 120), rng.uniform(3, 15)
    step = 0
    while True:
        length = times if step >= at else rng.uniform(0.05, 1)
        yield pass_of(names, [hidden * length * part for part in (1, 3, 2.7, 1, 4)])
        step += 1


@add(intent="design")
def prefixes_kept(rng, capacity, growth):
    """Pages of prompts stay for the next one that begins alike; the bound is above what the GPU has."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.4))))[1]
    page = max(MIB // 2, int(capacity * rng.uniform(0.0005, 0.003)))
    running = []
    while True:
        fresh, hits = rng.randrange(2, 12), rng.random() < 0.3
        mine = [names() for _ in range(fresh)]
        running.append(mine)
        operations = [("a", name, page) for name in mine]
        if len(running) > 6:
            done = running.pop(0)
            stay = len(done) // (4 if hits else 2) if growth else 0
            operations += free_all(done[stay:])
        yield operations + pass_of(names, [page * 8 * rng.uniform(0.2, 1)] * 3)


def adapter(rng, names, unit):
    rank = rng.choice((1, 2, 4, 8, 16))
    return [(names(), max(512, int(unit * rank * rng.choice((0.8, 1, 1.25))))) for _ in range(rng.choice((16, 24, 32)))]


def swapping(rng, capacity, places, unit, left):
    """Adapters take each other's place; `left(tensors)` of each stay. Batches between have any length."""
    names, loaded = Names(), []
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.4))))[1]
    work = capacity * rng.uniform(0.03, 0.12)
    while True:
        operations = []
        if rng.random() < 0.5:
            loaded.append(adapter(rng, names, unit))
            operations += [("a", *tensor) for tensor in loaded[-1]]
        if len(loaded) > places:
            gone = loaded.pop(rng.randrange(len(loaded) // 2 + 1))
            stays = left(gone)
            operations += free_all(name for name, _ in gone[stays:])
        yield operations + pass_of(names, [work * rng.uniform(0.1, 1) * part for part in (1, 2, 1)])


@add(intent="leak")
def adapters_left(rng, capacity, growth):
    """A merged layer or two of each adapter that was unloaded is still referenced."""
    stays = rng.randrange(1, 5)
    return swapping(rng, capacity, rng.randrange(3, 10), capacity * rng.uniform(0.00005, 0.0003),
                    lambda gone: stays if growth else 0)


@add(weight=2)
def adapters_of_all_ranks(rng, capacity, _growth):
    """As many adapters as there are places; the places are too many."""
    unit = capacity * rng.uniform(0.0001, 0.0003)
    return swapping(rng, capacity, int(capacity * rng.uniform(0.3, 0.5) / (unit * 24 * 6)), unit, lambda gone: 0)


@add(weight=2)
def uneven_experts(rng, capacity, _growth):
    """The router sends each expert as many tokens as it likes; now and then nearly all go to one."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.25, 0.45))))[1]
    experts, tokens = rng.choice((8, 16, 32)), capacity * rng.uniform(0.08, 0.16)
    evenness = rng.uniform(0.4, 3)
    while True:
        operations, kept = [], []
        for _ in range(rng.choice((4, 6))):
            shares = [rng.gammavariate(evenness, 1) for _ in range(experts)]
            total = sum(shares)
            load_factor = max(shares) / total * experts
            outs = [(names(), max(512, int(tokens * share / total / 2))) for share in shares]
            padded = names()
            operations += [("a", padded, int(tokens * min(4, load_factor) / 2))]
            operations += [("a", *out) for out in outs] + [("f", padded)]
            kept += [name for name, _ in outs[::4]]
            operations += free_all(name for i, (name, _) in enumerate(outs) if i % 4)
        yield operations + free_all(kept)


def clip(rng, names, unit, frames):
    """Denoising steps over the latents, then the decoder goes from tile to tile; frames wait until the clip is whole."""
    latents = names()
    operations = [("a", latents, max(512, int(unit * frames * 0.05)))]
    for _ in range(4):
        operations += pass_of(names, [unit * frames * part * 0.3 for part in (1, 2, 1)])
    done = []
    for _ in range(frames):
        operations += pass_of(names, [unit * part for part in (0.5, 1, 2)])
        done.append(names())
        operations.append(("a", done[-1], max(512, int(unit * 0.7))))
    return operations, [latents, *done]


@add()
def longer_clip(rng, capacity, _growth):
    """Clips of usual length, then one of many more frames."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.5))))[1]
    unit, at = capacity * rng.uniform(0.004, 0.012), rng.randrange(6, 40)
    step = 0
    while True:
        frames = rng.randrange(6, 16)
        operations, all_of_it = clip(rng, names, unit, frames * (rng.randrange(6, 12) if step >= at else 1))
        yield operations + free_all(all_of_it)
        step += 1


@add(intent="leak", weight=2)
def clips_in_a_gallery(rng, capacity, growth):
    """The gallery keeps the latents and some frames of each clip."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.1, 0.4))))[1]
    unit, stays = capacity * rng.uniform(0.001, 0.008), rng.randrange(1, 4)
    while True:
        operations, all_of_it = clip(rng, names, unit * rng.uniform(0.5, 1), rng.randrange(4, 16))
        yield operations + free_all(all_of_it[stays if growth else 0:])


@add(weight=2)
def second_engine(rng, capacity, _growth):
    """Another engine on the same GPU enlarges its pool from time to time."""
    page, bound = page_of(rng, capacity)
    every, part = rng.randrange(5, 30), capacity * rng.uniform(0.03, 0.12)
    steps = engine(rng, capacity, page, arrivals=lambda _: 3, bound=lambda _: bound // 3, aborted=lambda _: ())
    for number, step in enumerate(steps):
        yield [("o", int(min(capacity * 0.9, capacity * 0.1 + number // every * part)))] + step
