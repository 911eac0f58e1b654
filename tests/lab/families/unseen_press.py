# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of a publishing house with newspapers, books and films: search, translation, advice for readers, agents,
notebooks, games that are learned, films that are made. Nothing is tuned on these."""
import collections
import functools
import itertools
import math

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load,
                     sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_press")


def room_of(capacity):
    """The memory that is left, after driver and runtime."""
    return capacity - 840 * MIB


def take(names, sizes):
    """Names that stay, and the operations that make them."""
    mine = [names() for _ in sizes]
    return mine, [("a", name, at_least(size)) for name, size in zip(mine, sizes)]


def come_and_go(names, sizes):
    """All are there together, then none."""
    mine, operations = take(names, sizes)
    return operations + free_all(mine)


def chain(names, sizes):
    """Each is made from the one before, which then goes; at most two are there together."""
    operations, before = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size)))
        if before is not None:
            operations.append(("f", before))
        before = name
    return operations + ([("f", before)] if before is not None else [])


def learn(names, layers, parameters, scale=1.0):
    """Forward, backward, update in place."""
    operations, kept = forward(names, layers, (), scale)
    more, gradients = backward(names, kept, parameters)
    return operations + more + free_all(gradients)


def with_states(names, parameters):
    return [("a", names(), size) for size in parameters for _ in range(3)]


@add()
def candidates_padded_to_longest(rng, capacity, _growth):
    """Search in the archive: a reranker reads the question together with each article that was found, all in one batch,
    padded to the longest. Attention is written out in full, and most articles are short."""
    names, room = Names(), room_of(capacity)
    layers, heads = rng.randrange(4, 13), rng.choice((0.5, 1, 2))
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.2)), (12, 24)))[1]
    found, spread = rng.choice((10, 20, 50, 100)), rng.uniform(0.2, 0.4)
    usual = room * rng.uniform(0.012, 0.035)
    serials, whole = rng.uniform(0.002, 0.03), rng.uniform(2, 4)
    while True:
        length = max(rng.lognormvariate(0, spread) for _ in range(found))
        length *= whole if rng.random() < serials else 1       # a serial, all parts in one
        asked = rng.uniform(0.8, 1)                 # some of the places are empty
        ids, operations = take(names, [usual * 0.001 * length * asked] * 2)
        hidden = names()
        operations.append(("a", hidden, at_least(usual * asked * length)))
        for _ in range(layers):
            wide = usual * asked * length
            scores = usual * asked * heads * length * length
            operations += come_and_go(names, (wide, wide, wide, scores, scores, wide))
            after = names()
            operations += [("a", after, at_least(wide)), ("f", hidden)]
            operations += come_and_go(names, (wide * 4, wide))
            hidden = after
        yield operations + [("f", hidden)] + free_all(ids)


@add(intent="design")
def league_of_past_selves(rng, capacity, growth):
    """A crossword duel is learned by playing against earlier versions of oneself. Now and then the network is copied into
    the league, and all of the league stays on the GPU, for any of it may be the next opponent."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * 10 ** rng.uniform(-2.2, -1.4)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.06, 0.22)), rng.choice((4, 6)))
    rollout, rounds = room * rng.uniform(0.03, 0.12), rng.randrange(1, 4)
    every, patience = rng.randrange(2, 14), rng.uniform(0.3, 1)
    yield with_states(names, network)
    for number in itertools.count(1):
        opponents = rng.randrange(1, 4)
        buffer, operations = take(names, [rollout * part for part in (0.7, 0.1, 0.1, 0.05, 0.05)])
        for _ in range(opponents):
            operations += come_and_go(names, [rollout * 0.1, rollout * 0.2, rollout * 0.02])
        for _ in range(rounds):
            operations += learn(names, layers, network, rng.uniform(0.9, 1))
        operations += free_all(buffer)
        good_enough = rng.random() < patience
        if number % every == 0 and good_enough and growth:
            operations += load(names, network)[1]
        yield operations


@add(intent="design")
def translation_memory_in_arrays(rng, capacity, growth):
    """The translated sentences help to translate: states and words of every sentence go into two arrays that are searched at
    each batch. When they are full they are copied into longer ones."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.04, 0.2)), (6, 12)))[1]
    factor, width = rng.choice((1.25, 1.5, 1.5, 2)), rng.uniform(0.02, 0.2)
    space = room * rng.uniform(0.005, 0.03)
    filled, sentence = space * rng.uniform(0.2, 0.9), room * 10 ** rng.uniform(-4, -2.7)
    layers, text = rng.choice((6, 8, 12)), room * rng.uniform(0.01, 0.06)
    looked_up = rng.uniform(0.01, 0.12)
    (keys, words), operations = take(names, (space, space * width))
    yield operations
    while True:
        part, pieces = rng.uniform(0.3, 1), rng.randrange(3, 9)
        cache, operations = take(names, [text * part / layers] * layers)
        for piece in range(pieces):
            operations += come_and_go(names, (filled * looked_up, filled * looked_up * 0.1, text * 0.05 * part))
        operations += chain(names, (text * part * 0.5, text * part * 2, text * part * 0.5)) + free_all(cache)
        new = sentence * part * rng.uniform(0.5, 1.5)
        if growth:
            filled += new
            while filled > space:
                space *= factor
                longer_keys, longer_words = names(), names()
                operations += [("a", longer_keys, at_least(space)), ("f", keys),
                               ("a", longer_words, at_least(space * width)), ("f", words)]
                keys, words = longer_keys, longer_words
        yield operations


@add(intent="demand")
def transcript_read_again(rng, capacity, growth):
    """An agent does research for an article. At every turn it reads all that was said and found so far, from the start, for
    nothing of the cache outlives a turn. Tools answer with a few words or with a whole page."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.2, 0.5)), (16, 24, 32)))[1]
    layers, words = rng.choice((16, 24, 32)), room * rng.uniform(0.02, 0.08)
    page, spread = words * 10 ** rng.uniform(-2, -0.8), rng.uniform(0.5, 1.4)
    hidden, decoded = rng.uniform(0.1, 0.5), rng.randrange(1, 5)
    while True:
        # the prompt passes through layer by layer; each leaves its keys and values
        cache, operations = [], []
        for _ in range(layers):
            operations += come_and_go(names, (words * hidden, words * hidden * 0.5))
            mine, more = take(names, [words / layers / 2] * 2)
            cache += mine
            operations += more
        operations += come_and_go(names, (words * 0.02,))
        said = rng.uniform(0.01, 0.04)
        for number in range(1, decoded + 1):
            for i, old in enumerate(cache):
                cache[i] = names()
                operations += [("a", cache[i], at_least(words * (1 + said * number) / layers / 2)), ("f", old)]
        yield operations + free_all(cache)
        answer = page * rng.lognormvariate(-spread * spread / 2, spread)
        words += answer if growth else 0


@add(intent="leak")
def notebook_remembers_outputs(rng, capacity, growth):
    """A notebook of the data desk: cells are run again and again. A last line that is only a name puts its tensor into the
    history of outputs, where it stays when the name has long meant something else. The last error holds its frame."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.12)), (6, 8, 12))
    layers = activations_of(rng, int(room * rng.uniform(0.05, 0.2)), rng.choice((6, 8)))
    data = room * rng.uniform(0.02, 0.1)
    looks, fails, reloads = rng.uniform(0.15, 0.5), rng.uniform(0.02, 0.1), rng.uniform(0.02, 0.1)
    shown = room * 10 ** rng.uniform(-2.6, -1.5)
    kept, operations = load(names, network)
    model = [name for name, _ in kept]
    batch, more = take(names, (data, data * 0.05))
    yield operations + more
    frame, result = [], []
    while True:
        cell, size, scale = rng.random(), rng.lognormvariate(-0.3, 0.8), rng.uniform(0.7, 1)
        if cell < looks:
            value, operations = take(names, (shown * size,))
            operations += come_and_go(names, (shown * 0.5,))
            operations += free_all(result) if not growth else []
            result = value
        elif cell < looks + fails:
            operations, made = forward(names, layers[:max(1, int(len(layers) * scale))], (), scale)
            operations += free_all(frame)
            frame = [name for mine in made for name in mine]
        elif cell < looks + fails + reloads:
            kept, operations = load(names, network)
            operations += free_all(model)
            model = [name for name, _ in kept]
        else:
            new, operations = take(names, (data * scale, data * scale * 0.05))
            operations += free_all(batch) + learn(names, layers, network, scale)
            batch = new
        yield operations


@add(intent="leak", weight=2)
def truncated_episodes_keep_graph(rng, capacity, growth):
    """Policy gradient: the logarithms of an episode's chances wait in a list, with the graph behind them. An episode that
    ends is learned from, and its list emptied; one that the clock cuts off is put aside and never looked at again."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.002, 0.03)), (4, 6))
    yield with_states(names, network)
    longest, cut_off = rng.randrange(15, 70), rng.uniform(0.03, 0.4)
    move = room * 10 ** rng.uniform(-2.5, -1.5) / longest
    shape = [rng.choice((0.05, 0.1, 0.2, 0.3)) for _ in range(rng.randrange(2, 5))]
    picture, critic = room * rng.uniform(0.01, 0.1), room * rng.uniform(0.02, 0.2)
    every = rng.randrange(2, 12)
    for number in itertools.count(1):
        cut, end = rng.random() < cut_off, rng.randrange(3, longest)
        graph, operations = [], []
        for _ in range(longest if cut else end):
            operations += come_and_go(names, (picture / longest,))
            mine, more = take(names, [move * part for part in shape] + [512, 512])
            graph += mine
            operations += more
        if not cut:
            returns, more = take(names, (4 * longest, 4 * longest))
            gradients, grown = load(names, network)
            operations += more + grown + [("f", name) for name in reversed(graph)]
            operations += free_all(returns) + free_all([name for name, _ in gradients])
        elif not growth:
            operations += free_all(graph)
        if number % every == 0:
            operations += come_and_go(names, [critic * part for part in (0.4, 0.2, 0.2, 0.1)])
        yield operations


@add(intent="leak")
def clips_held_by_callbacks(rng, capacity, growth):
    """Clips for the front page are made larger and sent away; a function that knows its clip is called when it has arrived.
    When the sending fails, nobody calls it, and it stays in the table of those that wait. Decoders hold memory of their
    own."""
    names, room = Names(), room_of(capacity)
    decoders = int(room * rng.uniform(0.005, 0.03))
    yield [("x", decoders)] + load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.08)), (8, 12)))[1]
    clip, larger = room * 10 ** rng.uniform(-3, -2), rng.choice((2.25, 4, 4))
    fails, waits = rng.uniform(0.02, 0.25), rng.randrange(2, 9)
    work = rng.uniform(2, 8)
    on_its_way = collections.deque()
    while True:
        size = clip * rng.choice((0.44, 0.56, 1, 1)) * rng.uniform(0.4, 1)
        frames, operations = take(names, (size, size * 0.5))
        operations += chain(names, [size * work * part for part in (0.5, 1, 1, 0.5)])
        made, more = take(names, (size * larger, size * 0.02))
        operations += more + free_all(frames)
        on_its_way.append(made)
        if len(on_its_way) > waits:
            arrived, lost = on_its_way.popleft(), rng.random() < fails
            if not (lost and growth):
                operations += free_all(arrived)
        yield operations


@add(weight=3)
def pages_of_a_book(rng, capacity, _growth):
    """Old books are read: each page is scanned as large as it is, its columns, pictures and signatures are cut out in the
    midst of the work, and the cuttings stay until the book is done. Fold-out maps come now and then."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (6, 8, 12)))[1]
    largest = room * rng.uniform(0.55, 0.68)
    cuttings, pages = room * rng.uniform(0.1, 0.2), rng.randrange(30, 200)
    parts = rng.choice(((0.3, 0.4, 0.2, 0.1), (0.5, 0.25, 0.125, 0.0625), (0.2, 0.2, 0.2, 0.2, 0.2), (0.7, 0.3)))
    maps, many = rng.uniform(0.01, 0.1), rng.randrange(2, 12)
    while True:
        album, form, uneven = [], rng.uniform(0.25, 0.6), rng.uniform(0.02, 0.3)
        for _ in range(rng.randrange(pages // 2, pages)):
            fold_out, size = rng.random() < maps, form * (1 - uneven * rng.random())
            if fold_out:
                size = rng.uniform(0.7, 1)
            features, operations = [], []
            cut = rng.randrange(0, many + 1)
            for i, part in enumerate(parts):
                mine, more = take(names, (largest * size * part,))
                features += mine
                operations += more
                if i == len(parts) // 2:
                    for _ in range(cut):
                        kept, more = take(names, (cuttings / pages / many * rng.uniform(0.3, 1.7),))
                        album += kept
                        operations += more
            yield operations + free_all(features)
        yield come_and_go(names, (cuttings * 0.1,)) + free_all(album)


@add()
def everybody_scored_at_night(rng, capacity, _growth):
    """What shall a reader be offered next? Two towers learn all day, in steps of one size. At night all readers are
    multiplied with all articles at once."""
    names, room = Names(), room_of(capacity)
    tables = [int(room * rng.uniform(0.03, 0.12)), int(room * rng.uniform(0.01, 0.06))]
    towers = sizes_of_model(rng, int(room * rng.uniform(0.002, 0.02)), (4, 6))
    layers = activations_of(rng, int(room * rng.uniform(0.05, 0.2)), rng.choice((3, 4)))
    rows, day = room * rng.uniform(0.005, 0.04), rng.randrange(80, 1500)
    scores = room * rng.uniform(0.85, 1.7)
    halves = rng.random() < 0.15                    # which helps some
    yield load(names, tables)[1] + with_states(names, towers)
    while True:
        for _ in range(day):
            used = rng.uniform(0.5, 1)              # rows of the tables that the batch touches: sparse gradients
            operations = learn(names, layers, towers)
            yield operations + come_and_go(names, (rows * used, rows * used * 0.02, rows * used))
        readers, operations = take(names, (tables[0] * 0.5, tables[1] * 0.5))
        for _ in range(2 if halves else 1):
            whole, more = take(names, (scores / (2 if halves else 1),))
            operations += more + come_and_go(names, (scores * 0.02, scores * 0.01)) + free_all(whole)
        yield operations + free_all(readers)


@add(weight=2)
def cutting_room_beside(rng, capacity, _growth):
    """Live speech is put into subtitles in four languages on a computer of the cutting room. Others open their films there,
    play them, export them, go home."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.06, 0.22)), (12, 24)))[1]
    work, window = room * rng.uniform(0.1, 0.25), rng.randrange(4, 20)
    seats = rng.randrange(3, 9)
    each, opens, closes = rng.uniform(0.75, 1.2) / seats, rng.uniform(0.02, 0.12), rng.uniform(0.003, 0.02)
    exports, busy = rng.uniform(0.03, 0.2), rng.uniform(1.3, 2.5)
    desks, heard = [0] * seats, collections.deque()
    quiet = rng.randrange(10, 150)
    for number in itertools.count():
        for i in range(seats):
            comes, film, leaves, export = rng.random(), rng.uniform(0.4, 1), rng.random(), rng.random()
            if not desks[i] and comes < opens and number >= quiet:
                desks[i] = film
            elif desks[i] and leaves < closes:
                desks[i] = 0
        others = sum(desk * (busy if rng.random() < exports else 1) for desk in desks)
        others = [("o", int(capacity * min(0.85, each * others)))]
        mine, operations = take(names, (work * 0.02, work * 0.005))
        heard.append(mine)
        if len(heard) > window:
            operations += free_all(heard.popleft())
        for _ in range(4):
            length = rng.uniform(0.2, 1)
            cache, more = take(names, [work * length * 0.1] * 4)
            operations += more + come_and_go(names, (work * length * 0.4, work * length * 0.1)) + free_all(cache)
        yield others + operations


@add(intent="leak")
def completions_remembered(rng, capacity, growth):
    """The search field suggests words. What was suggested for a beginning is remembered, by a decorator without a limit,
    and of beginnings there is no end, though most have been seen before."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.3)), (6, 12)))[1]
    each, typed = room / rng.randrange(4000, 25000), rng.randrange(8, 60)
    work = room * rng.uniform(0.01, 0.15)
    beginnings, seen = rng.uniform(14, 21), set()
    while True:
        operations, new = [], 0
        for _ in range(typed):
            wanted, much = int(math.exp(rng.uniform(0, beginnings))), rng.uniform(0.4, 1.6)
            if wanted in seen:
                continue
            seen.add(wanted)
            new += 1
            mine, more = take(names, (each * much * 0.9, each * much * 0.1))
            operations += more + ([] if growth else free_all(mine))
        part = rng.uniform(0.8, 1)
        yield operations + chain(names, [work * part * max(1, new) / typed * share for share in (0.3, 1, 0.3)])


@add(intent="leak")
def scores_never_reset(rng, capacity, growth):
    """Who will read to the end? After each round of training the answers for the readers put aside are gathered in a list,
    put together, and made into one number. The list ought to be emptied after that."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.08)), (6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 6, 8)))
    yield with_states(names, network)
    lesson, tests = rng.randrange(4, 40), rng.randrange(3, 20)
    answers, rounds = room * rng.uniform(0.005, 0.05) / tests, rng.uniform(0.7, 1)
    sorts = rng.random() < 0.5
    gathered, total = [], 0
    while True:
        for _ in range(lesson):
            yield learn(names, layers, network, rng.uniform(rounds, 1))
        for _ in range(tests):
            size = answers * rng.uniform(0.6, 1)
            operations = chain(names, (layers[0][0], layers[0][0] / 2, layers[0][0]))
            mine, more = take(names, (size * 0.8, size * 0.2))
            gathered += mine
            total += size
            yield operations + more
        operations = come_and_go(names, [total * 0.8, total * 0.2] + ([total * 0.8] if sorts else []))
        if not growth:
            operations += free_all(gathered)
            gathered, total = [], 0
        yield operations


@add(weight=3)
def rare_languages_come_late(rng, capacity, _growth):
    """One network learns to translate between many languages. A language has an adapter of its own, whose gradient and
    states are made when it first comes, during the backward pass; languages write at different length, and batches are made
    of as many sentences as one."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.03)), (6, 8))
    languages, common = rng.randrange(30, 160), rng.uniform(1.2, 2.5)
    adapter = room * rng.uniform(0.1, 0.17) / languages / 3
    layers = activations_of(rng, int(room * rng.uniform(0.58, 0.68)), rng.choice((3, 4, 6)))
    lengths = [rng.uniform(0.3, 1) for _ in range(languages)]
    wanders = rng.uniform(0, 0.15)
    yield with_states(names, network)
    met = set()
    while True:
        language = int(languages * rng.random() ** common)
        scale = lengths[language] * (1 - wanders * rng.random())
        operations, kept = forward(names, layers, (layers[0][0] * 0.1,), scale)
        half = len(kept) // 2
        more, gradients = backward(names, kept[half:], network)
        operations += more
        if language not in met:
            met.add(language)
            operations += take(names, [adapter / 4] * 12)[1]
        more, others = backward(names, kept[:half])
        yield operations + more + free_all(gradients) + free_all(others)


@add(weight=2)
def shots_decoded_at_once(rng, capacity, _growth):
    """A film is made from a storyboard. Noise becomes a small hidden film, step by step, in little room; then the whole of it
    is made into pictures in one go. Sketches come first, with few frames; then the shots at their full length."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.15, 0.4)), (16, 24, 32)))[1]
    sketches, steps = rng.randrange(1, 12), rng.randrange(8, 50)
    hidden, work = room * rng.uniform(0.001, 0.006), room * rng.uniform(0.1, 0.3)
    pictures, frames = room * rng.uniform(0.65, 1.6), rng.uniform(0.08, 0.35)
    guided = rng.choice((1, 2))
    for number in itertools.count():
        length = frames * rng.uniform(0.6, 1) if number < sketches else rng.uniform(0.75, 1)
        words, operations = take(names, (hidden * 0.3, hidden * 0.3))
        latent, more = take(names, (hidden * length,))
        yield operations + come_and_go(names, (hidden,)) + more
        for _ in range(steps):
            operations = []
            for _ in range(guided):
                operations += chain(names, [work * length / guided * part for part in (0.2, 0.5, 0.4, 0.5, 0.2)])
            new, more = take(names, (hidden * length,))
            yield operations + more + free_all(latent)
            latent = new
        yield chain(names, [pictures * length * part for part in (0.06, 0.12, 0.25, 0.5, 0.5, 0.2)]) + free_all(latent + words)
