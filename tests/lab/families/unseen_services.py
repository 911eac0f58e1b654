# SPDX-License-Identifier: Apache-2.0
"""Unseen: long-running services and studios. Written when the rules were fixed; nothing is tuned on these."""
import functools

from program import UNSEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_services")


def base(rng, capacity, low, high):
    names = Names()
    return names, load(names, sizes_of_model(rng, int(capacity * rng.uniform(low, high)), (6, 10, 16)))[1]


def passing(rng, names, total, pieces):
    """Buffers of one step, freed in the order in which they came."""
    sizes = [max(512, int(total / pieces * rng.uniform(0.3, 1.7))) for _ in range(pieces)]
    made = [names() for _ in sizes]
    return [("a", name, size) for name, size in zip(made, sizes)], free_all(made)


def pace(rng):
    """Steps until the growth alone fills the GPU."""
    return int(10 ** rng.uniform(1.4, 2.4))


@add(intent="leak", weight=2)
def lost_clients(rng, capacity, growth):
    """Sessions take pages of one size; those of clients that disconnect are never given back."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    page, lost = int(capacity * rng.uniform(0.0006, 0.002)), rng.uniform(0.1, 0.4)
    wanted, sessions = rng.randrange(5, 14), []
    while True:
        operations = []
        while len(sessions) < wanted:
            sessions.append([[], rng.randrange(8, 40), rng.random() < lost and growth])
        for pages, _length, _is_lost in sessions:
            pages.append(names())
            operations.append(("a", pages[-1], page))
        for session in [s for s in sessions if len(s[0]) >= s[1]]:
            sessions.remove(session)
            operations += [] if session[2] else free_all(session[0])
        yield operations


@add(intent="demand", weight=2)
def more_workers(rng, capacity, growth):
    """Jobs hold a workspace of one size each for some steps; more and more run at once."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    space, slope = int(capacity * rng.uniform(0.004, 0.02)), 1 / rng.randrange(1, 12)
    step, jobs = 0, []
    while True:
        operations = []
        for job in [j for j in jobs if j[1] <= step]:
            jobs.remove(job)
            operations.append(("f", job[0]))
        while len(jobs) < 4 + (step * slope if growth else 0):
            jobs.append((names(), step + rng.randrange(2, 25)))
            operations.append(("a", jobs[-1][0], space))
        take, give = passing(rng, names, capacity * 0.01, 4)
        yield operations + take + give
        step += 1


@add(intent="demand")
def more_streams(rng, capacity, growth):
    """Each video stream has a ring of frames of one size, of which the oldest is replaced; streams join."""
    names, loading = base(rng, capacity, 0.05, 0.3)
    yield loading
    frame, ring, every = int(capacity * rng.uniform(0.0005, 0.002)), rng.randrange(4, 20), rng.randrange(2, 10)
    step, streams = 0, []
    while True:
        operations = []
        if len(streams) < 3 or (growth and step % every == 0):
            streams.append([])
        for frames in streams:
            frames.append(names())
            operations.append(("a", frames[-1], frame))
            if len(frames) > ring:
                operations.append(("f", frames.pop(0)))
        take, give = passing(rng, names, capacity * 0.02, 3)
        yield operations + take + give
        step += 1


@add(intent="leak")
def stream_without_end(rng, capacity, growth):
    """The same rings, but one stream's old frames are never dropped."""
    names, loading = base(rng, capacity, 0.05, 0.3)
    yield loading
    frame, ring = int(capacity * 0.6) // pace(rng), rng.randrange(4, 12)
    streams = [[] for _ in range(rng.randrange(2, 5))]
    while True:
        operations = []
        for number, frames in enumerate(streams):
            frames.append(names())
            operations.append(("a", frames[-1], frame))
            if len(frames) > ring and (number > 0 or not growth):
                operations.append(("f", frames.pop(0)))
        take, give = passing(rng, names, capacity * 0.02, 3)
        yield operations + take + give


@add(intent="leak")
def old_optimizers(rng, capacity, growth):
    """Every some steps the optimizer is made anew; a reference keeps the states of the old one."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.02, 0.06)), (8, 12))
    yield load(names, sizes)[1]
    every, total = rng.randrange(3, 20), capacity * rng.uniform(0.1, 0.3)
    step, states = 0, []
    while True:
        operations = []
        if step % every == 0:
            fresh, making = load(names, sizes)
            operations = making + ([] if growth else free_all(name for name, _ in states))
            states = fresh
        take, give = passing(rng, names, total, 12)
        yield operations + take + give
        step += 1


@add(intent="leak")
def callbacks_keep_inputs(rng, capacity, growth):
    """Batches have one size and pass through a queue; a callback keeps some of them."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    every = rng.randrange(2, 5)
    batch = int(capacity * 0.5 * every) // pace(rng)
    batch, queue, step = min(batch, int(capacity * 0.02)), [], 0
    while True:
        name = names()
        operations = [("a", name, batch)]
        queue.append(name)
        if len(queue) > 6:
            gone = queue.pop(0)
            if not growth or step % every:
                operations.append(("f", gone))
        take, give = passing(rng, names, capacity * 0.06, 5)
        yield operations + take + give
        step += 1


@add(intent="demand")
def drifting_sizes(rng, capacity, growth):
    """Images of all sizes; larger ones become more frequent. Each step frees all that it took."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    rate, start, step = 1 / pace(rng), capacity * rng.uniform(0.05, 0.15), 0
    while True:
        total = start * rng.uniform(0.6, 1.4) * (1 + (8 * rate * step if growth else 0))
        take, give = passing(rng, names, total, 9)
        yield take + give
        step += 1


@add(intent="demand")
def wider_beams(rng, capacity, growth):
    """States of equal size, all replaced at each token; the beam becomes wider with each request."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    state, tokens, width = int(capacity * rng.uniform(0.001, 0.004)), rng.randrange(5, 20), 8
    while True:
        beam = []
        for _ in range(tokens):
            fresh = [names() for _ in range(width)]
            yield [("a", name, state) for name in fresh] + free_all(beam)
            beam = fresh
        yield free_all(beam)
        width += max(1, width // 20) if growth else 0


@add(intent="design")
def generous_cache(rng, capacity, growth):
    """A cache of results of many sizes whose bound is above what the GPU has."""
    names, loading = base(rng, capacity, 0.1, 0.3)
    yield loading
    mean = capacity * 0.6 / pace(rng)
    while True:
        take, give = passing(rng, names, capacity * 0.08, 6)
        yield take + ([("a", names(), max(512, int(mean * rng.uniform(0.2, 1.8))))] if growth else []) + give


@add(weight=2)
def mosaic_of_lifetimes(rng, capacity, _growth):
    """Tiles of all sizes with lifetimes of all lengths fill a bounded share; then panoramas are wanted."""
    names, loading = base(rng, capacity, 0.02, 0.1)
    yield loading
    bound, held, tiles = capacity * rng.uniform(0.6, 0.75), 0, []
    while held < bound:
        operations = []
        for _ in range(40):
            size = max(1 << 20, int(capacity * 10 ** rng.uniform(-3.3, -2.2)))
            tiles.append((names(), size))
            operations.append(("a", *tiles[-1]))
            held += size
        yield operations
    rng.shuffle(tiles)
    gone, tiles = tiles[:len(tiles) // 2], tiles[len(tiles) // 2:]
    yield free_all(name for name, _ in gone)
    while True:
        take, give = passing(rng, names, capacity * rng.uniform(0.2, 0.35), 3)
        yield take + give


@add(weight=2)
def evaluation_at_the_end(rng, capacity, _growth):
    """Training is steady; the evaluation after it takes everything at once."""
    names, loading = base(rng, capacity, 0.1, 0.4)
    yield loading
    total = capacity * rng.uniform(0.1, 0.3)
    for _ in range(rng.randrange(15, 150)):
        take, give = passing(rng, names, total * rng.uniform(0.8, 1.1), 10)
        yield take + give
    while True:
        take, give = passing(rng, names, capacity * rng.uniform(0.9, 1.8), 12)
        yield take + give


@add()
def first_pass_too_large(rng, capacity, _growth):
    """The model is loaded, and its first pass has no room."""
    names, loading = base(rng, capacity, 0.4, 0.8)
    yield loading
    while True:
        take, give = passing(rng, names, capacity * rng.uniform(0.8, 1.5), 30)
        yield take + give


@add(weight=2)
def neighbour_wakes(rng, capacity, _growth):
    """Another process that was small loads its model in the middle of this one's steady run."""
    names, loading = base(rng, capacity, 0.1, 0.3)
    small, large = int(capacity * 0.03), int(capacity * rng.uniform(0.5, 0.7))
    yield [("o", small)] + loading
    wakes, step = rng.randrange(10, 100), 0
    total = capacity * rng.uniform(0.3, 0.45)
    while True:
        other = small if step < wakes else small + (large - small) * min(4, step - wakes + 1) // 4
        take, give = passing(rng, names, total * rng.uniform(0.9, 1.05), 8)
        yield [("o", other)] + take + give
        step += 1
