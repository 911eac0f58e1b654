# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of a university with fields, a hospital and an observatory: proteins, harvests, scans, songs, prices,
stars. Nothing is tuned on these."""
import collections
import functools
import itertools
import math

from program import (GIB, UNSEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_orchard")


def usable(capacity):
    """About what is left when the driver and the runtime have theirs."""
    return capacity - GIB


def whole(size):
    return max(512, int(size))


def hold(names, sizes, stream=None):
    """Names of new tensors, and the operations that make them."""
    held = [names() for _ in sizes]
    tail = () if stream is None else (stream,)
    return held, [("a", name, whole(size), *tail) for name, size in zip(held, sizes)]


def in_turn(names, sizes, stream=None):
    """Each is made from the one before it, which then goes: at most two are there at once."""
    operations, before = [], None
    for size in sizes:
        (name,), more = hold(names, (size,), stream)
        operations += more + ([("f", before)] if before else [])
        before = name
    return operations + [("f", before)]


def together(names, sizes, stream=None):
    """All are needed at once; then all go."""
    held, operations = hold(names, sizes, stream)
    return operations + free_all(held)


@add(weight=2)
def proteins_of_any_length(rng, capacity, _growth):
    """Proteins are folded as they come from the laboratory. The table of pairs grows with the square of the length, the
    attention over triangles in it with the cube; most proteins are short, and some are titin."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (12, 16, 24)))[1]
    recycles, blocks, chunks = rng.randrange(2, 5), rng.randrange(3, 9), rng.choice((4, 8, 16, 32))
    fits, spread = rng.uniform(2.3, 4.2), rng.uniform(0.4, 0.55)
    rows = rng.uniform(0.3, 2)                                # of the alignment, against the table of pairs
    pair = room * rng.uniform(0.85, 1) / (fits ** 2 * 4.4 + rows * fits + fits ** 3 / chunks)
    structures = collections.deque()
    while True:
        length = min(7, rng.lognormvariate(0, spread))
        table, scale = pair * length ** 2, rng.uniform(0.4, 1)
        alignment = pair * rows * length * scale
        features, operations = hold(names, (table * 0.3, alignment * 0.2, table * 0.1))
        yield operations
        previous = []
        for _ in range(recycles):
            state, operations = hold(names, (table, alignment))
            for _ in range(blocks):
                operations += in_turn(names, (alignment, alignment * 0.5))
                operations += together(names, (table, pair * length ** 3 / chunks, table * 0.5))
                operations += in_turn(names, (table, table))
            yield operations + free_all(previous)
            previous = state
        kept, operations = hold(names, (pair * 0.002 * length, pair * 0.0004 * length))
        structures.append(kept)
        if len(structures) > 16:
            operations += free_all(structures.popleft())
        yield operations + free_all(previous) + free_all(features)


@add(intent="leak")
def answers_memoised(rng, capacity, growth):
    """A tutor for pupils. What the network made of a question is remembered under its text, by a decorator that was given
    no limit. The questions of the book come again and again; those that pupils type come once."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.2, 0.45)), (16, 24, 32)))[1]
    book, typed, layers = rng.randrange(30, 800), rng.uniform(0.05, 0.6), rng.choice((2, 4, 8, 16))
    question, at_once = room * 10 ** rng.uniform(-3.7, -2.4), rng.randrange(1, 6)
    work, logits = room * rng.uniform(0.03, 0.12), room * rng.uniform(0.01, 0.05)
    known = set()
    while True:
        operations, done = [], []
        for _ in range(at_once):
            number, new, length = int(book * rng.random() ** 2.5), rng.random() < typed, rng.lognormvariate(0, 0.6)
            if new or number not in known:
                if not new:
                    known.add(number)
                operations += in_turn(names, [work * min(2, length) * part for part in (0.2, 0.8, 0.4)])
                mine, more = hold(names, [question * length / layers] * layers)
                operations += more
                if not growth:
                    done += mine
            operations += in_turn(names, (logits, logits * 0.5))
        yield operations + free_all(done)


@add(intent="leak", weight=2)
def seasons_not_detached(rng, capacity, growth):
    """Harvests are foretold week by week from pictures of the fields. The state of the last week goes into the next one
    with all that made it: nobody cuts the graph, and the list of losses holds its end."""
    names, room = Names(), usable(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 6, 8)))
    cell, weeks = room * 10 ** rng.uniform(-2.9, -1.6), rng.randrange(18, 40)
    gates = rng.choice(((4, 1, 1, 1), (3, 1, 1), (1, 1, 1, 1, 1, 1, 0.1)))
    yield load(names, network)[1]
    yield [("a", names(), size) for size in network for _ in range(2)]
    state = []
    for week in itertools.count(1):
        scale = rng.uniform(0.85, 1)
        operations, kept = forward(names, layers, (layers[0][0] // 3,), scale)
        mine, more = hold(names, [cell * part / sum(gates) for part in gates])
        (loss,), last = hold(names, (4,))
        operations += more + last
        # the gradient passes through the weeks before; it needs one week's room at a time
        operations += in_turn(names, (cell / sum(gates), cell / sum(gates), cell))
        more, gradients = backward(names, kept, network)
        operations += more + free_all(gradients)
        if not growth:
            operations += free_all(state)
            state = [*mine, loss]
        yield operations
        if week % weeks == 0:
            yield in_turn(names, [layers[0][0] * part for part in (1, 0.5, 0.1)])


@add(intent="design", weight=2)
def scenes_laid_on_a_canvas(rng, capacity, growth):
    """Scenes of a satellite are put together to the map of a country. A tile of the map, with the sums of all bands and the
    weights, is made when the first scene without clouds touches it; it stays until the country is whole."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (6, 8, 12)))[1]
    side = rng.randrange(12, 60)
    tile, bands = room * rng.uniform(0.9, 1.8) / side ** 2, rng.choice((3, 4, 10, 13))
    wide, clouds = rng.randrange(2, 4 + side // 12), rng.uniform(0.1, 0.7)
    work = room * rng.uniform(0.05, 0.25)
    canvas = set()
    while True:
        left = rng.randrange(-wide, side)
        drift, sky = rng.uniform(-0.3, 0.3), clouds
        for row in range(0, side, wide):
            sky = min(0.95, max(0, sky + rng.uniform(-0.2, 0.2)))
            scene, operations = hold(names, (work * 0.2,))
            scale = rng.uniform(0.8, 1)
            operations += in_turn(names, [work * scale * part for part in (0.3, 0.4, 0.3, 0.4, 0.1)])
            column = left + int(drift * row)
            for place in itertools.product(range(row, min(side, row + wide)), range(column, column + wide)):
                clear = rng.random() >= sky
                if not clear or not 0 <= place[1] < side:
                    continue
                if place not in canvas:
                    canvas.add(place)
                    if growth:
                        operations += hold(names, (tile * bands / (bands + 1), tile / (bands + 1)))[1]
                operations += together(names, (min(tile, work * 0.1),))
            yield operations + free_all(scene)


@add(intent="demand", weight=2)
def vapour_condenses(rng, capacity, growth):
    """Molecules of a vapour, step by step: as drops form, each atom has more neighbours. The list of neighbours is made
    anew with some space to spare when it is full; forces are made for all pairs at once."""
    names, room = Names(), usable(capacity)
    atoms = room * rng.uniform(0.005, 0.03)
    pairs, spare = room * rng.uniform(0.03, 0.07), rng.uniform(1.1, 1.5)
    densest, slow = rng.uniform(3.5, 10), rng.uniform(30, 900)
    parts = [rng.uniform(0.3, 1.5) for _ in range(rng.randrange(3, 7))]
    rebuilt, frames_kept = rng.randrange(2, 20), rng.randrange(5, 50)
    room_in_list = pairs * spare
    yield hold(names, (atoms, atoms, atoms, atoms / 3, atoms / 3))[1]
    (listed,), operations = hold(names, (room_in_list,))
    yield operations
    frames = collections.deque()
    for number in itertools.count():
        noise = rng.uniform(0.97, 1.03)
        density = (1 + (densest - 1) * (1 - math.exp(-number / slow)) if growth else 1) * noise
        now, operations = pairs * density, []
        if number % rebuilt == 0:
            operations += in_turn(names, (atoms * 0.3, atoms * 0.5))       # atoms sorted into cells
            if now > room_in_list:
                room_in_list = now * spare
                (larger,), more = hold(names, (room_in_list,))
                operations += more + [("f", listed)]
                listed = larger
            (frame,), more = hold(names, (atoms * 0.3,))
            operations += more
            frames.append(frame)
            if len(frames) > frames_kept:
                operations.append(("f", frames.popleft()))
        yield operations + together(names, [now * part for part in parts]) + in_turn(names, (atoms, atoms))


@add(weight=2)
def molecules_in_buckets(rng, capacity, _growth):
    """Molecules of like size are put together, a bucket for some steps, then another. After each of a batch's parts the
    descriptions of its molecules go to a bank that holds the last so many of them, between the large tensors. Now and then
    all pairs of the bank's molecules are compared."""
    names, room = Names(), usable(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.03)), (4, 6))
    yield load(names, network)[1]
    largest, buckets = room * rng.uniform(0.42, 0.55), sorted(rng.uniform(0.15, 1) for _ in range(rng.randrange(3, 9)))
    bank, described = rng.randrange(40, 300), room * rng.uniform(0.02, 0.1)
    compare, every, stays = room * rng.uniform(0.5, 0.72), rng.randrange(6, 60), rng.randrange(1, 12)
    parts = rng.randrange(3, 9)
    descriptions, number = collections.deque(), 0
    while True:
        bucket = rng.choice(buckets)
        for _ in range(stays):
            number += 1
            kept, operations = [], []
            for _ in range(parts):
                edges = bucket * rng.uniform(0.6, 1) * largest / parts
                mine, more = hold(names, (edges * 0.55, edges * 0.3, edges * 0.15))
                operations += more
                (one,), more = hold(names, (described / bank * rng.uniform(0.5, 1.5),))
                operations += more + [("f", mine.pop(1))]
                kept.append(mine)
                descriptions.append(one)
                if len(descriptions) > bank:
                    operations.append(("f", descriptions.popleft()))
            more, gradients = backward(names, kept, network)
            yield operations + more + free_all(gradients)
            part = rng.uniform(0.7, 1)
            if number % every == 0:
                yield together(names, (compare * part, compare * part * 0.1))


@add(intent="leak", weight=2)
def exotics_keep_their_paths(rng, capacity, growth):
    """A book of options is priced by chance: paths for each contract. For those that may be exercised early, a function is
    put on the list of what is to be done at the end of the day, and the function still sees the paths."""
    names, room = Names(), usable(capacity)
    paths, exotic = room * 10 ** rng.uniform(-2.7, -1.3), rng.uniform(0.02, 0.25)
    risk, greeks = room * rng.uniform(0.02, 0.15), rng.randrange(2, 6)
    spread, dates = rng.uniform(0.2, 0.7), rng.randrange(3, 9)
    yield hold(names, [room * rng.uniform(0.002, 0.02) for _ in range(6)])[1]      # curves and surfaces
    while True:
        early, size = rng.random() < exotic, paths * min(4, rng.lognormvariate(0, spread))
        normal, operations = hold(names, (size, size * 0.5))
        (path,), more = hold(names, (size,))
        operations += more + free_all(normal)
        if early:
            for _ in range(dates):
                operations += together(names, (size / dates, size * 3 / dates, 4096, 4096))
        for _ in range(greeks):
            operations += in_turn(names, (size, size / 2))
        part = rng.uniform(0.4, 1)
        operations += in_turn(names, (risk * part, risk * part * 0.3))
        yield operations + ([] if early and growth else [("f", path)])


@add(intent="design")
def ticks_of_the_day(rng, capacity, growth):
    """The messages of a stock exchange since the morning are the network's input. With every packet the history of each group of
    papers is joined with what is new, into a longer tensor; it is meant to hold the whole day."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.15)), (6, 8, 12)))[1]
    groups = rng.randrange(2, 9)
    at_first, packet = room * rng.uniform(0.005, 0.04) / groups, room * 10 ** rng.uniform(-3.3, -2.3) / groups
    busy = [rng.uniform(0.3, 1.7) for _ in range(groups)]
    attends, heads = room * rng.uniform(0.02, 0.1), rng.uniform(0.05, 0.3)
    lengths = [at_first * each for each in busy]
    history, operations = hold(names, lengths)
    yield operations
    while True:
        operations = []
        for i in range(groups):
            came = packet * busy[i] * rng.expovariate(1)
            quiet = rng.random() < 0.2
            if quiet:
                continue
            if growth:
                lengths[i] += came
            fresh, more = hold(names, (came,))
            operations += more
            (longer,), more = hold(names, (lengths[i],))
            operations += more + free_all(fresh) + [("f", history[i])]
            history[i] = longer
            operations += together(names, (lengths[i] * heads, lengths[i] * heads))
        part = rng.uniform(0.7, 1)
        yield operations + in_turn(names, [attends * part * each for each in (0.5, 1, 0.2)])


@add(weight=2)
def whole_body_at_last(rng, capacity, _growth):
    """Scans of chests and heads, window after window, for a long time; the answers for all organs are summed up over the
    windows, and brought to the scan's own spacing in one piece. Then somebody sends a whole body."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (8, 12)))[1]
    usual, organs, spacing = room * rng.uniform(0.06, 0.2), rng.choice((4, 14, 24, 104)), rng.uniform(1, 2)
    at, body = rng.randrange(8, 150), rng.uniform(1.0, 2.2) * room
    work, windows = room * rng.uniform(0.03, 0.15), rng.randrange(2, 14)
    measures = collections.deque()
    for number in itertools.count():
        # of the sums, when the scan is at its network's spacing
        sums = (body / (1 + spacing) if number >= at else usual * min(1.6, rng.lognormvariate(-0.1, 0.35)))
        scan, operations = hold(names, (sums / organs, sums / organs))
        yield operations
        summed, operations = hold(names, (sums, sums / organs))
        for _ in range(windows):
            part = rng.uniform(0.9, 1)
            yield operations + in_turn(names, [work * part * each for each in (0.3, 0.5, 0.5, 0.3, 0.2)])
            operations = []
        (own,), operations = hold(names, (sums * spacing,))
        operations += free_all(summed)
        (label,), more = hold(names, (sums * spacing / organs,))
        operations += more + [("f", own)]
        (measure,), more = hold(names, (organs * 4096,))
        measures.append(measure)
        if len(measures) > 20:
            more.append(("f", measures.popleft()))
        yield operations + more + [("f", label)] + free_all(scan)


@add(intent="leak", weight=2)
def slides_that_failed(rng, capacity, growth):
    """Slides of tissue, in batches of tiles. Where a tile cannot be read, the error is put on a list for the evening's
    report; the error knows the frames it passed through, and these the tensors that were there."""
    names, room = Names(), usable(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.12)), (8, 12, 16))
    yield load(names, network)[1]
    stages, bad = rng.randrange(4, 10), rng.uniform(0.02, 0.25)
    shape = [0.7 ** i * rng.uniform(0.7, 1.3) for i in range(stages)]
    tiles, most = room * rng.uniform(0.03, 0.15) / sum(shape), rng.randrange(2, 9)
    feature = room * 10 ** rng.uniform(-4, -2.8)
    while True:
        batches = rng.randrange(1, most + 1)
        fails = rng.randrange(batches) if rng.random() < bad else None
        breaks = rng.randrange(1, stages)
        features, operations = [], []
        for batch in range(batches):
            size = tiles * rng.uniform(0.8, 1)
            if batch == fails:
                # an input, what the last two stages made, and the features so far
                here, more = hold(names, [size * 0.4] + [size * part for part in shape[breaks - 1:breaks + 1]])
                operations += more
                features += here
                break
            operations += in_turn(names, [size * 0.4] + [size * part for part in shape])
            one, more = hold(names, (feature, feature * 0.1))
            operations += more
            features += one
        else:
            operations += in_turn(names, (feature * batches, feature * batches, 4096))
        kept = fails is not None and growth
        yield operations + ([] if kept else free_all(features))


@add(intent="leak", weight=2)
def listeners_who_hang_up(rng, capacity, growth):
    """Speech is written down while it is spoken. Each call has its small states, layer by layer, which are replaced with
    every piece of sound. A call's states go when its last piece comes; who hangs up before sends no last piece."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.05, 0.3)), (12, 16, 24)))[1]
    calls, layers = rng.randrange(6, 40), rng.choice((6, 8, 12, 16))
    state, hangs_up = room * 10 ** rng.uniform(-3.3, -2.3), rng.uniform(0.08, 0.5)
    shares = [part / layers for part in (0.8, 0.15, 0.05)]
    lives, work = rng.uniform(3, 20), room * rng.uniform(0.03, 0.2)
    lines = []
    while True:
        operations = []
        while len(lines) < calls:
            mine, more = hold(names, [state * part for part in shares for _ in range(layers)])
            operations += more
            lines.append(mine)
        part = rng.uniform(0.5, 1)
        operations += in_turn(names, [work * part * each for each in (0.1, 0.4, 0.6, 0.2)])
        still = []
        for mine in lines:
            ends, rude, speaks = rng.random() < 1 / lives, rng.random() < hangs_up, rng.random() < 0.25
            if ends:
                operations += [] if rude and growth else free_all(mine)
                continue
            if speaks:
                for i in range(layers * 2, layers * 3):
                    new = names()
                    operations += [("a", new, whole(state * shares[2])), ("f", mine[i])]
                    mine[i] = new
            still.append(mine)
        lines = still
        yield operations


@add(weight=2)
def songs_on_two_streams(rng, capacity, _growth):
    """Songs are taken apart into voices and instruments. The network works on one stream; on another the parts are brought
    to the listener's rate, and wait there for the encoder. An opera comes between songs, and outlines for the screen stay
    for a while on both."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (6, 8, 12)))[1]
    stems, waits = rng.choice((2, 4, 6)), rng.randrange(2, 6)
    outlines, outline = rng.randrange(20, 150), room * rng.uniform(0.015, 0.06)
    longest = room * rng.uniform(0.6, 0.85) / (waits + 3)
    spectra = rng.uniform(1.2, 2)
    waiting, shown = collections.deque(), collections.deque()
    while True:
        song = longest * min(1, max(0.08, 0.3 * rng.lognormvariate(0, 0.7)))
        (sound,), operations = hold(names, (song / stems,))
        pieces = rng.randrange(2, 7)
        parts, more = hold(names, [song / stems] * stems)
        operations += more
        for _ in range(pieces):
            operations += in_turn(names, [song * spectra * each for each in (0.4, 0.6, 0.6, 0.4)])
            for stream in (None, 1):
                (one,), more = hold(names, (outline / outlines * rng.uniform(0.6, 1.4),), stream)
                operations += more
                shown.append(one)
                if len(shown) > outlines:
                    operations.append(("f", shown.popleft()))
        yield operations
        operations, ready = [], []
        for part in parts:
            (one,), more = hold(names, (song / stems * rng.uniform(0.9, 1.09),), 1)
            operations += more + together(names, (song / stems * 0.3,), 1) + [("f", part)]
            ready.append(one)
        waiting.append(ready)
        if len(waiting) > waits:
            operations += free_all(waiting.popleft())
        yield operations + [("f", sound)]


@add(weight=2)
def survey_beside_a_broker(rng, capacity, _growth):
    """Pictures of the sky are warped, stacked, and taken from the template, night after night. On the same GPU somebody's
    program for alerts takes more with every hour; in some places it is started anew before it is too late."""
    names, room = Names(), usable(capacity)
    template, operations = hold(names, [room * rng.uniform(0.005, 0.03) for _ in range(rng.randrange(2, 8))])
    yield operations
    stack, depth = room * rng.uniform(0.2, 0.42), rng.randrange(4, 20)
    theirs, hourly = capacity * rng.uniform(0.02, 0.25), capacity * 10 ** rng.uniform(-3.2, -1.9)
    hour, at_most = rng.randrange(2, 15), capacity * rng.uniform(0.65, 0.97)
    restarted, gives_back = rng.choice((0, 0, 0, rng.randrange(60, 400))), rng.random() < 0.4
    held = theirs
    yield [("o", int(held))]
    for number in itertools.count(1):
        exposures, operations = hold(names, [stack * rng.uniform(0.7, 1) / depth for _ in range(depth)])
        operations += in_turn(names, (stack / depth * 2, stack / depth, stack * 0.4))
        operations += together(names, [stack / depth] * 3)
        operations += free_all(exposures)
        grows = rng.expovariate(1) * hourly
        if number % hour == 0:
            held = min(at_most, held + grows * hour)
            if restarted and number // hour % restarted == 0:
                held = theirs
            operations.append(("o", int(held)))
            if gives_back:
                operations.append(("e",))
        yield operations


@add(weight=2)
def trials_of_dispersion(rng, capacity, _growth):
    """A search for pulsars: each beam is cleaned, and made straight for many dispersions. Transforms have their plans beside
    the allocator. When something is seen, all accelerations are tried for it, plane by plane, and all the planes are
    compared at the end: for that the GPU was never large enough."""
    names, room = Names(), usable(capacity)
    beam, trials = room * rng.uniform(0.05, 0.15), rng.randrange(3, 12)
    block, at = room * rng.uniform(0.08, 0.25), rng.randrange(4, 200)
    planes, needs = rng.randrange(5, 60), room * rng.uniform(1.0, 2)
    templates, plan = room * rng.uniform(0.01, 0.05), capacity * rng.uniform(0.002, 0.03)
    yield hold(names, [templates / 6] * 6)[1]
    for number in itertools.count():
        (filterbank,), operations = hold(names, (beam * rng.uniform(0.9, 1),))
        operations += in_turn(names, (beam * 0.3, beam * 0.1))
        if number == 0:
            operations.append(("x", int(plan)))
        yield operations
        operations = []
        for trial in range(trials):
            coarse = 1 / (1 << (trial * 4 // trials))
            operations += in_turn(names, [block * coarse * part for part in (0.4, 0.45, 0.25, 0.2)])
        yield operations
        if number >= at:
            for _ in range(1 + planes // 10):
                yield in_turn(names, (block * 0.5, block * 0.5))
            held, operations = [], []
            for _ in range(planes):
                plane, more = hold(names, (needs / planes,))
                operations += more + together(names, (block * 0.1, block * 0.1))
                held += plane
            yield operations + free_all(held)
        yield [("f", filterbank)]
