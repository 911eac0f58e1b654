# SPDX-License-Identifier: Apache-2.0
"""A transport company and its partners: route solvers, cameras, speech at counters, forecasts,
digital twins, document search, small language models, notebooks of analysts."""
import functools
import math
import random

from program import (GIB, MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all,
                     generator, load, room_of, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_ferry")

FRAME_BYTES = (1280 * 720 * 3 // 2, 1920 * 1080 * 3 // 2, 2560 * 1440 * 3 // 2,
               3840 * 2160 * 3 // 2)


# --- parts that several of the programs share ---

def detector(names, unit, depth):
    """A detector looks at a batch of frames: half the size at each level, some levels are kept for
    the heads, each head makes boxes, and all of it goes."""
    operations, levels = [], []
    before = names()
    operations.append(("a", before, at_least(unit)))
    for level in range(depth):
        hidden, out = names(), names()
        size = at_least(unit * 0.8 / 2 ** level)
        operations += [("a", hidden, size), ("a", out, at_least(size * 0.6)), ("f", hidden)]
        if level < depth - 3:
            operations.append(("f", before))
        else:
            levels.append(before)
        before = out
    levels.append(before)
    for level in levels:
        boxes = names()
        operations += [("a", boxes, at_least(unit * 0.03)), ("f", level), ("f", boxes)]
    return operations


def optimizer_step(names, sizes, state):
    """The first update makes both moments of each parameter; a temporary comes with each update."""
    operations = []
    for number, size in enumerate(sizes):
        if len(state) < 2 * len(sizes):
            for _ in range(2):
                name = names()
                state.append(name)
                operations.append(("a", name, size))
        if number % 6 == 0:
            passing = names()
            operations += [("a", passing, size), ("f", passing)]
    return operations


def training_step(names, layers, sizes, state, temporaries=(), scale=1.0):
    """Forward, backward, update, and gradients set to None."""
    operations, kept = forward(names, layers, temporaries, scale)
    back, gradients = backward(names, kept, sizes)
    return operations + back + optimizer_step(names, sizes, state) + free_all(gradients)


def peak_of(operations):
    """The most that these operations hold at once."""
    live, now, peak = {}, 0, 0
    for operation in operations:
        if operation[0] == "a":
            live[operation[1]] = operation[2]
            now += operation[2]
            peak = max(peak, now)
        elif operation[0] == "f":
            now -= live.pop(operation[1], 0)
    return peak


def poisson(rng, mean):
    """How many arrive in a step, if `mean` arrive on average."""
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count


def tide(step, day, depth):
    """The hours of the day: between 1 - depth and 1."""
    return 1 - depth * (0.5 + 0.5 * math.cos(2 * math.pi * step / day))


# --- route planning ---

@add()
def holiday_matrix(rng, capacity, _growth):
    """Regions are planned one by one. For a holiday all of them are planned as one network, and its
    matrix of travel times is larger than the card, or than what the solver leaves of it."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.15)), (3, 6, 8)))[1]
    usual = room * rng.uniform(0.004, 0.03)
    spread = rng.uniform(0.15, 0.5)
    heads = rng.choice((4, 8, 8, 16))
    at = rng.randrange(120, 800)
    holiday = room * rng.uniform(0.55, 2.5)
    step = 0
    while True:
        matrix = min(usual * rng.lognormvariate(0, spread), room * 0.1)
        rounds = rng.randrange(1, 5)
        if step >= at:
            matrix = holiday
        times, mask, order = names(), names(), names()
        operations = [("a", order, at_least(matrix ** 0.5 * 64)),
                      ("a", times, at_least(matrix)), ("a", mask, at_least(matrix / 4))]
        for _ in range(rounds):
            scores, weights = names(), names()
            piece = at_least(matrix * 8 / heads / 4)
            operations += [("a", scores, piece), ("a", weights, piece),
                           ("f", scores), ("f", weights)]
        yield operations + [("f", mask), ("f", times), ("f", order)]
        step += 1


@add()
def multistart_validation(rng, capacity, _growth):
    """A route policy is trained on instances of one size. Now and then it is tried on instances
    from the depots, with a tour from each stop in eight mirrored maps; one depot is too large."""
    names, room = Names(), room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (3, 6))
    layers = activations_of(rng, room * rng.uniform(0.15, 0.4), rng.choice((3, 6)))
    every = rng.randrange(6, 30)
    depot = room * rng.uniform(0.1, 0.24)
    tail = rng.uniform(0.5, 0.95)
    mirrors = rng.choice((1, 4, 8))
    state = []
    yield load(names, sizes)[1]
    step = 0
    while True:
        step += 1
        operations = training_step(names, layers, sizes, state, (int(layers[0][0] * 0.3) + 512,))
        if step % every == 0:
            for _ in range(rng.randrange(1, 4)):
                whole = depot * rng.lognormvariate(0, tail)
                static = names()
                operations.append(("a", static, at_least(whole * 0.3)))
                tours = [names() for _ in range(mirrors)]
                operations += [("a", name, at_least(whole * 0.7 / mirrors)) for name in tours]
                for _ in range(4):
                    logits = names()
                    operations += [("a", logits, at_least(whole * 0.15)), ("f", logits)]
                operations += free_all(tours) + [("f", static)]
        yield operations


@add(intent="leak")
def baseline_with_graph(rng, capacity, growth):
    """The running mean of the costs is not detached: each step's graph of the critic hangs on it.
    The instances differ in their number of stops."""
    names, room = Names(), room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (3, 6))
    layers = activations_of(rng, room * rng.uniform(0.15, 0.5), rng.choice((3, 6)))
    parts = [rng.choice((1, 1, 0.5, 0.1, 0.02)) for _ in range(rng.randrange(2, 6))]
    critic = room * 10 ** rng.uniform(-3.3, -2.5)
    least = rng.uniform(0.5, 0.95)
    state = []
    yield load(names, sizes)[1]
    while True:
        scale = rng.uniform(least, 1.0)
        graph = [names() for _ in parts]
        operations = [("a", name, at_least(critic * part / sum(parts) * scale))
                      for name, part in zip(graph, parts)]
        operations += training_step(names, layers, sizes, state, (), scale)
        if growth:
            cost = names()
            operations.append(("a", cost, 512))
        else:
            operations += free_all(graph)
        yield operations


# --- cameras ---

@add(intent="leak")
def decoder_sessions(rng, capacity, growth):
    """Video of stops and ships is decoded on the card, beside the allocator. Bad links drop, and
    the session that was open does not give its surfaces back."""
    names, room = Names(), room_of(capacity)
    cameras = [rng.choice(FRAME_BYTES) * rng.randrange(6, 20)
               for _ in range(max(4, int(capacity / GIB * rng.uniform(0.3, 1.0))))]
    held = sum(cameras)
    model = sizes_of_model(rng, int(room * rng.uniform(0.05, 0.3)))
    unit = room * rng.uniform(0.04, 0.12)
    depth = rng.randrange(4, 8)
    cropped = room * rng.uniform(0.005, 0.03)
    drops = rng.uniform(0.2, 1.5) * max(1, capacity / (48 * GIB))
    stay = rng.uniform(0.4, 1.0)
    bad_day = rng.randrange(60, 300)
    flush = rng.choice((0, 0, 25, 100))
    yield [("x", held)] + load(names, model)[1]
    step = 0
    while True:
        step += 1
        operations = []
        for _ in range(poisson(rng, drops * tide(step, bad_day, 0.7))):
            camera = rng.choice(cameras)
            stays = rng.random() < stay
            if growth and stays:
                held += camera
                operations.append(("x", held))
        operations += detector(names, unit, depth)
        crops = [(names(), at_least(cropped * rng.lognormvariate(0, 0.6)))
                 for _ in range(rng.randrange(1, 5))]
        operations += [("a", name, size) for name, size in crops]
        operations += free_all(name for name, _ in crops)
        if flush and step % flush == 0:
            operations.append(("e",))
        yield operations


@add(intent="leak")
def lost_tracks(rng, capacity, growth):
    """Passengers are followed across cameras. A track that ends at a door is freed; one that is
    lost in a crowd keeps its picture and its vector. Far larger batches hide the small loss."""
    names, room = Names(), room_of(capacity)
    spare = int(rng.uniform(0.25, 1.0) * GIB)
    model = sizes_of_model(rng, int(room * rng.uniform(0.1, 0.4)))
    depth = rng.randrange(4, 8)
    unit = (room - sum(model) - spare) / peak_of(detector(Names(), MIB, depth)) * MIB
    unit *= rng.uniform(0.97, 1.0)
    picture = rng.uniform(100, 640) * 1024
    vector = rng.choice((1024, 2048, 3072, 8192))
    arrive = rng.uniform(2, 6)
    lost = rng.uniform(0.3, 0.7)
    day = rng.randrange(150, 600)
    peak_every = rng.randrange(1, 15)
    following = []
    yield load(names, model)[1]
    step = 0
    while True:
        operations = []
        for _ in range(poisson(rng, arrive * tide(step, day, 0.8))):
            crop, feature = names(), names()
            operations += [("a", crop, at_least(picture * rng.uniform(0.4, 1.6))),
                           ("a", feature, vector)]
            gone = rng.random() < lost
            following.append((step + rng.randrange(3, 60), gone, (crop, feature)))
        operations += detector(names, unit if step % peak_every == 0 else unit * 0.25, depth)
        for track in [t for t in following if t[0] <= step]:
            following.remove(track)
            if not (track[1] and growth):
                operations += free_all(track[2])
        yield operations
        step += 1


# --- speech ---

@add(intent="demand")
def counters_open(rng, capacity, growth):
    """Speech is written down at ticket counters. Partners bring more counters; each talk holds an
    encoder's state and what was said so far, and leaves nothing."""
    names, room = Names(), room_of(capacity)
    model = sizes_of_model(rng, int(room * rng.uniform(0.1, 0.4)))
    open_now = rng.uniform(4, 10)
    opening = open_now * 10 ** rng.uniform(-2.3, -1.2)
    day = rng.randrange(30, 150)
    depth = rng.uniform(0.1, 0.6)
    state = room * rng.uniform(0.0015, 0.006)
    said = state * rng.uniform(0.05, 0.4)
    longest = rng.randrange(15, 60)
    spread = rng.uniform(0.05, 0.25)
    start = rng.randrange(0, 80)
    arrivals = open_now * 2.2 / longest
    talks = []
    yield load(names, model)[1]
    step = 0
    while True:
        step += 1
        more = 1 + (max(0, step - start) * opening / open_now if growth else 0)
        # the draws of a visit are made with a generator of its own, so that growth moves no others
        own = random.Random(rng.getrandbits(48))
        operations = []
        for _ in range(poisson(own, arrivals * more * tide(step, day, depth))):
            first = names()
            operations.append(("a", first, at_least(state * own.uniform(1 - spread, 1 + spread))))
            talks.append([own.randrange(longest // 3, longest), [first]])
        for talk in talks:
            name = names()
            operations.append(("a", name, at_least(said * own.uniform(1 - spread, 1 + spread))))
            talk[0] -= 1
            talk[1].append(name)
        window = names()
        operations += [("a", window, at_least(state * 0.6 * max(1, len(talks)))), ("f", window)]
        for talk in [t for t in talks if t[0] <= 0]:
            talks.remove(talk)
            operations += free_all(talk[1])
        yield operations


@add(intent="design")
def announcement_cache(rng, capacity, growth):
    """Announcements, with the frames of a figure that signs them, are made once and kept for the
    next time. The cache has a bound by number, mostly a bound beyond the card."""
    names, room = Names(), room_of(capacity)
    model = sizes_of_model(rng, int(room * rng.uniform(0.1, 0.35)))
    work = room * rng.uniform(0.03, 0.12)
    clip = room * 10 ** rng.uniform(-3.4, -2.7)
    long_ones = rng.uniform(0.2, 0.6)
    bound = int((room - sum(model) - 1.6 * work) * rng.uniform(0.6, 3) / clip)
    texts = int(bound * rng.uniform(1.2, 4)) + 10
    skew = rng.uniform(0.3, 0.9)
    asked = rng.randrange(2, 7)
    cache = {}
    yield load(names, model)[1]
    while True:
        operations = []
        for _ in range(asked):
            # a few texts are asked for again and again
            text = int(texts * rng.random() ** (1 / (1 - skew)))
            size = at_least(clip * rng.lognormvariate(0, long_ones))
            if text in cache:
                cache[text] = cache.pop(text)
                continue
            hidden, frames = names(), names()
            operations += [("a", hidden, at_least(work)), ("a", frames, at_least(work * 0.5))]
            result = names()
            operations += [("a", result, size), ("f", frames), ("f", hidden)]
            cache[text] = result
            if not growth:
                operations.append(("f", result))
            if len(cache) > bound:
                old = cache.pop(next(iter(cache)))
                if growth:
                    operations.append(("f", old))
        passing = names()
        yield operations + [("a", passing, at_least(work * 0.2)), ("f", passing)]


# --- forecasts ---

@add(intent="demand")
def longer_history(rng, capacity, growth):
    """Each night the forecast of passengers is trained again on the days so far: the window becomes
    longer, and what attention needs grows with its square."""
    names, room = Names(), room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (3, 4, 6))
    count = rng.choice((3, 4, 6))
    linear = activations_of(rng, room * rng.uniform(0.05, 0.2), count)
    square = room * rng.uniform(0.03, 0.12) / count
    days = rng.randrange(60, 400)
    per_night = rng.randrange(2, 9)
    grows = days * 10 ** rng.uniform(-2.0, -1.3)
    weekend = rng.uniform(0.5, 0.9)
    state = []
    yield load(names, sizes)[1]
    night = 0
    while True:
        for _ in range(per_night):
            longer = (days + (night * grows if growth else 0)) / days
            scale = longer * (weekend if night % 7 in (5, 6) else 1) * rng.uniform(0.97, 1)
            layers = [[at_least(size * scale) for size in layer] + [at_least(square * scale ** 2)]
                      for layer in linear]
            yield training_step(names, layers, sizes, state, (at_least(square * scale ** 2),))
        night += 1


# --- digital twins ---

@add()
def scenario_rewind(rng, capacity, _growth):
    """A twin of the port runs scenarios. Each keeps states to go back to, the older the fewer, in
    the room that the rollouts left; the number of ships and lorries wanders, never the sum."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (3, 6)))[1]
    bound = room * rng.uniform(0.45, 0.6)
    state = room * rng.uniform(0.002, 0.008)
    rollout = room * rng.uniform(0.1, 0.2)
    parts = rng.randrange(2, 6)
    every = rng.randrange(1, 5)
    crowd = 1.0
    kept, held, step = [], 0, 0
    while True:
        step += 1
        crowd = min(1.6, max(0.5, crowd * rng.lognormvariate(0, 0.06)))
        operations = []
        if step % every == 0:
            buffers = [(names(), at_least(rollout / parts * crowd * rng.uniform(0.8, 1.1)))
                       for _ in range(parts)]
            operations += [("a", name, size) for name, size in buffers]
            operations += free_all(name for name, _ in buffers)
        for _ in range(rng.randrange(2, 5)):
            name, size = names(), at_least(state * crowd * rng.lognormvariate(0, 0.5))
            operations.append(("a", name, size))
            kept.append((name, size))
            held += size
        while held > bound:
            # older states are thinned out, the newest ones stay
            gone, size = kept.pop(int(len(kept) * rng.random() ** 1.5 * 0.9))
            operations.append(("f", gone))
            held -= size
        passing = [names() for _ in range(4)]
        operations += [("a", name, at_least(state * crowd * 0.4)) for name in passing]
        yield operations + free_all(passing)


# --- document search ---

@add()
def shard_rebuild(rng, capacity, _growth):
    """Timetables and contracts are searched in shards. Workers on streams of their own build a
    shard again in large buffers and leave its codes in the middle of them."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.12)), (6, 12)))[1]
    shards = rng.randrange(24, 90)
    codes = room * rng.uniform(0.35, 0.55) / shards
    buffer = room * rng.uniform(0.05, 0.13)
    workers = rng.randrange(1, 4)
    turn = rng.randrange(20, 80)
    queries = room * rng.uniform(0.01, 0.05)
    batches = rng.randrange(2, 6)
    index, step = {}, 0
    while True:
        # a worker has a while of its own; all shards fill first, then any of them is built again
        stream = 1 + step // turn % workers
        shard = step if step < shards else rng.randrange(shards)
        size = codes * rng.lognormvariate(-0.05, 0.3)
        text = [names() for _ in range(rng.randrange(1, 4))]
        operations = [("a", name, at_least(buffer * rng.uniform(0.6, 1) / len(text)), stream)
                      for name in text]
        operations += free_all(text)
        built = []
        for part in (0.7, 0.25, 0.05):
            name = names()
            operations.append(("a", name, at_least(size * part), stream))
            built.append(name)
        operations += free_all(index.get(shard, ()))
        index[shard] = built
        for _ in range(batches):
            scores, best = names(), names()
            operations += [("a", scores, at_least(queries * rng.uniform(0.2, 1))),
                           ("a", best, 256 * 1024), ("f", scores), ("f", best)]
        yield operations
        step += 1


# --- small language models ---

@add(intent="leak")
def stalled_dialogs(rng, capacity, growth):
    """Helpers for drivers: each answer's keys and values are joined anew for every few words. From
    a new release on, the cache of an answer that took too long stays with its error."""
    names, room = Names(), room_of(capacity)
    model = sizes_of_model(rng, int(room * rng.uniform(0.2, 0.45)))
    slots = rng.randrange(4, 12)
    words = room * rng.uniform(0.00002, 0.00012)
    groups = rng.randrange(2, 5)
    late = rng.randrange(60, 400)
    stalled = rng.uniform(0.1, 0.5)
    longest = rng.randrange(20, 60)
    prompt = rng.randrange(5, 40)
    release_kept = rng.uniform(0.5, 1.0)
    yield load(names, model)[1]
    dialogs, step = [], 0
    while True:
        step += 1
        operations = []
        if len(dialogs) < slots:
            dialogs.append([rng.randrange(prompt, 3 * prompt), rng.randrange(longest // 3, longest),
                            rng.random() < stalled, ()])
        for dialog in dialogs:
            joined = [names() for _ in range(groups)]
            before = dialog[3] or (None,) * groups
            for name, old in zip(joined, before):
                operations.append(("a", name, at_least(words * dialog[0])))
                if old is not None:
                    operations.append(("f", old))
            dialog[0] += 1
            dialog[1] -= 1
            dialog[3] = joined
        logits = names()
        operations += [("a", logits, at_least(words * 40 * len(dialogs))), ("f", logits)]
        for dialog in [d for d in dialogs if d[1] <= 0]:
            dialogs.remove(dialog)
            first = rng.random()
            stays = max(1, round(groups * release_kept)) if dialog[2] and step >= late else 0
            if not growth:
                stays = 0
            order = dialog[3] if first < 0.5 else list(reversed(dialog[3]))
            operations += free_all(order[stays:])
        yield operations


@add(intent="design")
def night_helpers(rng, capacity, growth):
    """Healthy: a helper with a cache of prompts that has a bound by bytes and fits, other jobs that
    come and go, and now and then a long document."""
    names, room = Names(), room_of(capacity)
    model = sizes_of_model(rng, int(room * rng.uniform(0.15, 0.35)))
    bound = room * rng.uniform(0.08, 0.2)
    page = at_least(room * rng.uniform(0.0004, 0.002)) // 512 * 512 + 512
    work = room * rng.uniform(0.02, 0.06)
    document = rng.uniform(1.5, 3)
    job = int(room * rng.uniform(0.0, 0.1))
    day = rng.randrange(40, 300)
    prompts, held, step = [], 0, 0
    yield [("o", 0)] + load(names, model)[1]
    while True:
        step += 1
        operations = []
        if step % day in (0, day // 2):
            operations.append(("o", job if step % day else 0))
        scale = document if rng.random() < 0.02 else rng.choice((0.25, 0.5, 1))
        hidden = [names() for _ in range(4)]
        operations += [("a", name, at_least(work * scale / 4)) for name in hidden]
        for _ in range(rng.randrange(1, 5)):
            name = names()
            prompts.append(name)
            held += page
            if growth:
                operations.append(("a", name, page))
        operations += free_all(hidden)
        while held > bound:
            gone = prompts.pop(0)
            held -= page
            if growth:
                operations.append(("f", gone))
        yield operations


# --- analysts ---

@add(intent="leak")
def cell_outputs(rng, capacity, growth):
    """A notebook keeps what each cell shows, as Out[n], though its variables are set anew. Most
    cells show little or nothing; a joined table now and then is large."""
    names, room = Names(), room_of(capacity)
    columns = rng.randrange(6, 20)
    yield load(names, [at_least(room * rng.uniform(0.05, 0.25) / columns)] * columns)[1]
    shown = room * 10 ** rng.uniform(-2.9, -2.2)
    spread = rng.uniform(0.6, 1.2)
    shows = rng.uniform(0.2, 0.7)
    work = room * rng.uniform(0.02, 0.09)
    variables = {}
    while True:
        # one cell: some operations of a chain, a variable is set anew, and perhaps it is shown
        operations, before = [], None
        for _ in range(rng.randrange(2, 8)):
            name = names()
            operations.append(("a", name, at_least(work * rng.uniform(0.3, 1))))
            if before is not None:
                operations.append(("f", before))
            before = name
        result = names()
        size = shown * rng.lognormvariate(-spread ** 2 / 2, spread)
        operations += [("a", result, at_least(min(size, room * 0.1))), ("f", before)]
        variable = rng.randrange(9)
        old = variables.get(variable)
        if old is not None and not (old[1] and growth):
            operations.append(("f", old[0]))
        variables[variable] = (result, rng.random() < shows)
        for _ in range(rng.randrange(0, 6)):
            small = names()
            operations += [("a", small, 512 * rng.randrange(1, 200)), ("f", small)]
        yield operations


@add(weight=2)
def shared_card(rng, capacity, _growth):
    """A forecast is trained on a card that others use: a twin's renderer from the start, analysts'
    notebooks that come in the morning and stay, or one notebook that takes more and more."""
    names, room = Names(), room_of(capacity)
    kind = rng.choice(("renderer", "notebooks", "notebooks", "grows", "grows"))
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.07)), (4, 6, 12))
    layers = activations_of(rng, room * rng.uniform(0.25, 0.5), rng.choice((4, 6, 8)))
    trial, moments = Names(), []
    need = peak_of(load(trial, sizes)[1] + training_step(trial, layers, sizes, moments)
                   + training_step(trial, layers, sizes, moments))
    spare = room - need
    lengths = rng.uniform(0.5, 0.85)
    epoch = rng.randrange(10, 60)
    empties = rng.random() < 0.7
    at = rng.randrange(20, 150)
    renderer = room - need * rng.uniform(0.6, 0.99)
    rate = spare / rng.uniform(40, 500)
    others, arrivals = 0, []
    count = rng.randrange(2, 7)
    for _ in range(count):
        arrivals.append((at, spare * rng.uniform(0.9, 2) / count, rng.uniform(0, 0.004)))
        at += rng.randrange(1, 60)
    state = []
    warmth = rng.randrange(2, 40)
    yield [("o", int(renderer) if kind == "renderer" else 0)] + load(names, sizes)[1]
    step = 0
    while True:
        step += 1
        operations = []
        if kind == "notebooks":
            others = sum(size * (1 + slope * (step - begin)) for begin, size, slope in arrivals
                         if step >= begin)
        elif kind == "grows":
            jump = rng.expovariate(1)
            others += rate * jump if step >= arrivals[0][0] else 0
        if kind != "renderer":
            operations.append(("o", int(min(others, room * 0.93))))
        scale = rng.uniform(lengths, 1) * min(1, 0.6 + 0.4 * step / warmth)
        operations += training_step(names, layers, sizes, state, (), scale)
        if step % epoch == 0:
            table = names()
            operations += [("a", table, at_least(need * rng.uniform(0.1, 0.6))), ("f", table)]
            if empties:
                operations.append(("e",))
        yield operations
