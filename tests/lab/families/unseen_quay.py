# SPDX-License-Identifier: Apache-2.0
"""Inference services of a company of middle size: chat, search, recommendation, speech, translation, document reading."""
import collections
import functools
import itertools
import math

from program import MIB, UNSEEN, Names, at_least, free_all, generator, load, room_of, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_quay")


def take(names, sizes, stream=0):
    """New tensors of these sizes: their names, and the operations."""
    kept = [names() for _ in sizes]
    return kept, [("a", name, at_least(size), stream) for name, size in zip(kept, sizes)]


def start(rng, names, room, *shares):
    """The weights of the models that a service loads."""
    return [operation for share in shares for operation in load(names, sizes_of_model(rng, int(room * share)))[1]]


def passing(names, size, parts, layers, stream=0):
    """A forward pass without gradients: a layer's output takes the place of its input, its temporaries go at once."""
    before, operations = take(names, [size], stream)
    for _ in range(layers):
        temporaries, more = take(names, [size * part for part in parts], stream)
        after, last = take(names, [size], stream)
        operations += more + last + free_all(temporaries + before)
        before = after
    return operations + free_all(before)


def shape_of(rng):
    """Memory that a layer makes beside its output: the projections, the wider middle, something small."""
    return rng.choice(((3, 1), (1, 1, 1, 0.1), (2.7, 2.7), (4, 0.05), (3, 0.5, 4)))


def arrivals(rng, rate, most=6):
    """How many requests come in a step: `rate` on average."""
    return sum(rng.random() < rate / most for _ in range(most))


def length_of(rng, spread=0.7, longest=6.0):
    """How long a request is, against the usual one."""
    return min(longest, max(0.05, rng.lognormvariate(-spread * spread / 2, spread)))


def tide(step, period, depth):
    """More traffic by day, less by night."""
    return 1.0 + depth * math.sin(2 * math.pi * step / period)


class Request:
    """Memory that a request holds, and until when; it may be lost."""

    def __init__(self, kept, size, ends, lost=False):
        self.kept, self.size, self.ends, self.lost = kept, size, ends, lost


def leave(running, step, keep_lost=False):
    """Takes those out of `running` that end at this step, and frees what they hold."""
    done = [request for request in running if request.ends <= step]
    running[:] = [request for request in running if request.ends > step]
    return free_all(name for request in done if not (request.lost and keep_lost) for name in request.kept)


def used_by(running):
    return sum(request.size for request in running)


def enter(names, running, size, ends, lost=False, pieces=(0.25, 0.25, 0.25, 0.25)):
    """A new request: its attention cache or other state, in a few tensors."""
    kept, operations = take(names, [size * piece for piece in pieces])
    running.append(Request(kept, size, ends, lost))
    return operations


@add(intent="leak")
def cancelled_chats(rng, capacity, growth):
    """Chat: if a client goes away while its answer is written, the handler keeps the request's attention cache."""
    names, room = Names(), room_of(capacity)
    yield start(rng, names, room, rng.uniform(0.3, 0.5))
    budget, slots = room * rng.uniform(0.12, 0.25), rng.randrange(6, 20)
    usual, life, rate = budget / slots * 0.6, rng.randrange(6, 25), rng.uniform(0.5, 1.5)
    cancels, outages = 10 ** rng.uniform(-1.6, -0.8), rng.choice((0, 0.002, 0.006))
    width, parts, period = room * rng.uniform(0.002, 0.006), shape_of(rng), rng.randrange(200, 900)
    running = []
    for step in itertools.count():
        operations = leave(running, step, keep_lost=growth)
        if rng.random() < outages:  # the proxy restarts
            for request in running:
                if rng.random() < 0.4:
                    request.lost, request.ends = True, step + 1
        for _ in range(arrivals(rng, rate * tide(step, period, 0.5))):
            size, lasts, lost, early = usual * length_of(rng), life * length_of(rng, 0.6), rng.random() < cancels, rng.random()
            if len(running) >= slots or used_by(running) + size > budget:
                continue
            operations += enter(names, running, size, step + 1 + lasts * (early if lost else 1), lost)
            operations += passing(names, width * size / usual, parts, 2)
        yield operations + passing(names, width * 0.1 * (1 + len(running)), parts, 2)


@add(intent="leak")
def dropped_streams(rng, capacity, growth):
    """Live speech: each caller has a state; where the line breaks without a goodbye, the state stays in the table."""
    names, room = Names(), room_of(capacity)
    shares = rng.uniform(0.12, 0.3), rng.uniform(0.01, 0.03), rng.uniform(0.02, 0.08)  # recogniser, voices, commas
    yield start(rng, names, room, *shares)
    state, life, rate = room * rng.uniform(0.003, 0.008), rng.randrange(15, 55), rng.uniform(0.35, 0.9)
    broken, swept = rng.uniform(0.12, 0.4), rng.choice((0, 0.3, 0.6))
    chunk, parts, period = room * rng.uniform(0.00005, 0.0002), shape_of(rng), rng.randrange(150, 1000)
    running = []
    for step in itertools.count():
        operations = leave(running, step, keep_lost=growth)
        for _ in range(arrivals(rng, rate * tide(step, period, 0.4))):
            beam, lasts = rng.choice((1, 1, 1, 1.5)), life * length_of(rng, 0.8)
            # a sweeper knows only those that stopped in the middle of a word
            lost, found = rng.random() < broken, rng.random() < swept
            pieces = (0.5, 0.3, 0.15 * beam, 0.04 * beam, 0.01)
            operations += enter(names, running, state, step + 1 + lasts, lost and not found, pieces)
        audio, more = take(names, [chunk * 0.3 * (1 + len(running))], 1)  # comes on the stream for copies
        operations += more + passing(names, chunk * (1 + len(running)), parts, 4)
        yield operations + free_all(audio)


@add(intent="leak")
def adapter_reload(rng, capacity, growth):
    """Adapters of one base model get new versions; a version that a batch was using at the swap is never let go."""
    names, room = Names(), room_of(capacity)
    yield start(rng, names, room, rng.uniform(0.3, 0.5))
    layers, rank_1 = rng.randrange(6, 13), room * rng.uniform(0.0002, 0.0005)
    ranks = [rng.choice((8, 16, 16, 32, 64)) for _ in range(rng.randrange(5, 14))]
    in_use, nightly, single = rng.uniform(0.4, 0.95), rng.randrange(60, 200), rng.uniform(0.02, 0.12)
    width, parts = room * rng.uniform(0.003, 0.012), shape_of(rng)
    pieces = [part / layers for _ in range(layers) for part in (0.45, 0.55)]
    versions = [take(names, [rank_1 * rank * piece for piece in pieces]) for rank in ranks]
    yield [operation for _, more in versions for operation in more]
    now = [kept for kept, _ in versions]
    for step in itertools.count(1):
        # a night's training publishes many of them, one after the other
        publishes = rng.random() < (0.6 if step % nightly < 8 else single)
        which, busy, batch = rng.randrange(len(ranks)), rng.random() < in_use, length_of(rng, 0.4)
        operations = passing(names, width * batch, parts, 4)
        if publishes:
            kept, more = take(names, [rank_1 * ranks[which] * piece for piece in pieces])
            operations += more + (free_all(now[which]) if not (busy and growth) else [])
            now[which] = kept
        gathered, more = take(names, [rank_1 * 64 / layers] * 2)
        yield operations + more + free_all(gathered)


@add(intent="leak")
def kept_scores(rng, capacity, growth):
    """Recommendation: a monitor of drift keeps the scores of sampled batches on the GPU, and its second list is never emptied."""
    names, room = Names(), room_of(capacity)
    tables = [rng.lognormvariate(0, 1) for _ in range(rng.randrange(3, 9))]
    total = room * rng.uniform(0.4, 0.65)
    operations = load(names, [int(total * table / sum(tables)) for table in tables])[1]
    yield operations + start(rng, names, room, rng.uniform(0.01, 0.04))
    scores, sampled = room * 10 ** rng.uniform(-3.2, -2.3), rng.choice((0.2, 0.4, 0.4, 1))
    flush, first = rng.randrange(20, 120), []
    period, late = rng.randrange(200, 1200), rng.choice((0, 0, 40, 150))  # the monitor may be switched on later
    for step in itertools.count():
        batch = tide(step, period, 0.35) * length_of(rng, 0.25)
        looked_up, operations = take(names, [scores * batch * rng.uniform(0.5, 2) for _ in tables])
        mixed, more = take(names, [scores * batch * part for part in (4, 2, 1, 0.5)])
        result, last = take(names, [scores * batch])
        best, top = take(names, [scores * batch * 0.02] * 2)
        operations += more + free_all(looked_up) + last + free_all(mixed) + top + free_all(best)
        watched = rng.random() < sampled and step >= late
        if watched:
            kept, more = take(names, [scores * 0.01])
            first, operations = first + kept, operations + more
        operations += [] if watched and growth else free_all(result)
        if step % flush == flush - 1:
            first, operations = [], operations + free_all(first)
        yield operations


@add(intent="design")
def prefix_cache(rng, capacity, growth):
    """Chat: the attention cache of prompts' beginnings is kept up to a budget, the oldest goes first."""
    names, room = Names(), room_of(capacity)
    weights, limit = rng.uniform(0.3, 0.48), rng.uniform(0.28, 0.6)
    yield start(rng, names, room, weights)
    usual, popular = room * rng.uniform(0.002, 0.007), rng.uniform(0.35, 0.8)
    life, rate, most = rng.randrange(3, 9), rng.uniform(0.8, 2), room * rng.uniform(0.08, 0.16)
    width, parts = room * rng.uniform(0.002, 0.006), shape_of(rng)
    lengths, cache, held, running = {}, collections.OrderedDict(), 0, []
    for step in itertools.count():
        operations = leave(running, step)
        for _ in range(arrivals(rng, rate)):
            prompt = int(rng.paretovariate(popular))
            lengths.setdefault(prompt, usual * length_of(rng, 0.9))
            size, lasts = lengths[prompt] + usual * length_of(rng) * 0.4, life * length_of(rng, 0.5)
            if used_by(running) + size > most:
                continue
            operations += enter(names, running, size, step + 1 + lasts)
            if prompt in cache:
                cache.move_to_end(prompt)
                continue
            operations += passing(names, width * lengths[prompt] / usual, parts, 2)
            if growth:
                cache[prompt], more = take(names, [lengths[prompt] / 4] * 4)
                operations, held = operations + more, held + lengths[prompt]
                while held > room * limit:
                    oldest, kept = cache.popitem(last=False)
                    operations, held = operations + free_all(kept), held - lengths[oldest]
        yield operations + passing(names, width * 0.1 * (1 + len(running)), parts, 2)


@add(intent="design")
def captured_shapes(rng, capacity, growth):
    """Translation: a graph with its own buffers is captured for each shape of a batch, when it first comes."""
    names, room = Names(), room_of(capacity)
    back = rng.choice((0.05, 0.05, 0.15))  # the model for the other direction
    yield start(rng, names, room, rng.uniform(0.2, 0.4), back)
    batches, lengths = (1, 2, 4, 8, 16, 32), range(1, rng.choice((13, 17, 25)))
    total = room * rng.uniform(0.55, 1.25)
    each = total / sum((batch * length) ** 0.6 for batch in batches for length in lengths)
    parts, spread = shape_of(rng), rng.uniform(0.5, 0.8)
    captured = {(batch, length) for batch in batches[:3] for length in list(lengths)[:4]}  # at the start
    areas = [batch * length for batch, length in sorted(captured)]
    yield take(names, [each * area ** 0.6 * part for area in areas for part in (0.1, 0.6, 0.3)], 1)[1]
    for step in itertools.count(1):
        waiting = max(1.0, rng.lognormvariate(1.2, 0.9) * tide(step, 400, 0.5))
        batch = next((size for size in batches if size >= waiting), batches[-1])
        length = min(lengths[-1], max(1, round(rng.lognormvariate(1.5, spread))))
        size = each * (batch * length) ** 0.6
        tokens, operations = take(names, [size * 0.01, size * 0.002])
        if (batch, length) not in captured:
            operations += passing(names, size * 0.2, parts, 2)  # the first pass is without a graph
            if growth:
                captured.add((batch, length))
                operations += take(names, [size * part for part in (0.1, 0.6, 0.3)], 1)[1]
        beams, more = take(names, [size * 0.05] * rng.randrange(1, 5))
        yield operations + more + free_all(beams + tokens)


@add(intent="demand")
def morning_rise(rng, capacity, growth):
    """Chat for the staff: few talk at night; in the morning more and more do, and the limit of users is far too high."""
    names, room = Names(), room_of(capacity)
    yield start(rng, names, room, rng.uniform(0.3, 0.5))
    night, noon = rng.uniform(0.15, 0.4), rng.uniform(1.3, 3)
    opens, rise, life = rng.randrange(20, 300), rng.randrange(60, 500), rng.randrange(15, 60)
    usual = room * rng.uniform(0.04, 0.1) / (night * life)
    width, parts = room * rng.uniform(0.002, 0.006), shape_of(rng)
    running = []
    for step in itertools.count():
        operations = leave(running, step)
        risen = 1 / (1 + math.exp(-(step - opens - rise / 2) / (rise / 8)))
        level = night + (noon - night) * (risen if growth else 0)
        for _ in range(5):
            comes, size, lasts = rng.random() < level / 5, usual * length_of(rng), life * length_of(rng, 0.6)
            if comes:
                operations += enter(names, running, size, step + 1 + lasts) + passing(names, width * size / usual, parts, 1)
        yield operations + passing(names, width * 0.05 * (1 + len(running)), parts, 2)


@add(intent="demand")
def fuller_batches(rng, capacity, growth):
    """Search: the batcher takes what comes within its window, nearly without limit, and the traffic of a new shop grows."""
    names, room = Names(), room_of(capacity)
    shares = rng.uniform(0.03, 0.1), rng.uniform(0.1, 0.25), rng.uniform(0.05, 0.2)  # encoder, reranker, vectors
    yield start(rng, names, room, *shares)
    rate, starts = 10 ** rng.uniform(-2.7, -1.6), rng.choice((0, 0, 50, 120))
    batch_1, parts, candidates = room * rng.uniform(0.012, 0.03), shape_of(rng), rng.uniform(0.5, 2)
    spread, trimmed, fullest = rng.uniform(0.15, 0.35), rng.choice((0, 0, 100)), rng.uniform(2, 9)
    for step in itertools.count():
        traffic = 1.0 + (rate * max(0, step - starts) if growth else 0.0)
        batch = batch_1 * min(fullest, traffic) * length_of(rng, spread, 2.5)
        queries, operations = take(names, [batch * 0.1, batch * 0.02])
        operations += passing(names, batch * 0.3, parts, 2)
        distances, more = take(names, [batch * rng.uniform(0.5, 1.0)])
        operations += more + passing(names, batch * candidates, parts, 4) + free_all(distances + queries)
        yield operations + ([("e",)] if trimmed and step % trimmed == trimmed - 1 else [])


@add()
def models_in_turn(rng, capacity, _growth):
    """Several chat models share a GPU: the one least used goes when another is asked for; sessions outlive the change."""
    names, room = Names(), room_of(capacity)
    models = [sizes_of_model(rng, int(room * rng.uniform(0.12, 0.36)), (8, 12, 16)) for _ in range(rng.randrange(4, 7))]
    budget, change, tidy = room * rng.uniform(0.86, 0.96), rng.uniform(0.06, 0.25), rng.random() < 0.4
    session, life, most = room * rng.uniform(0.0015, 0.005), rng.randrange(30, 120), budget * rng.uniform(0.12, 0.22)
    width, parts = room * rng.uniform(0.001, 0.003), shape_of(rng)
    budget -= width * (2 + sum(parts)) * 3
    loaded, running, model = collections.OrderedDict(), [], 0
    for step in itertools.count():
        operations = leave(running, step)
        if rng.random() < change:
            model = min(len(models) - 1, int(rng.expovariate(0.6)))
        if model not in loaded:
            while loaded and sum(sum(models[other]) for other in loaded) + sum(models[model]) > budget - most:
                operations += free_all(name for name, _ in loaded.popitem(last=False)[1])
            loaded[model], more = load(names, models[model])
            operations += ([("e",)] if tidy else []) + more
        loaded.move_to_end(model)
        for _ in range(arrivals(rng, 0.8)):
            size, lasts = session * length_of(rng, 1.0), life * length_of(rng, 0.8)
            if used_by(running) + size <= most:
                operations += enter(names, running, size, step + 1 + lasts)
        yield operations + passing(names, width * length_of(rng, 0.5, 3), parts, 2)


@add()
def pages_of_all_sizes(rng, capacity, _growth):
    """Document reading: pages of every size; what was seen on them is kept until the whole document is read."""
    names, room = Names(), room_of(capacity)
    weights = rng.uniform(0.1, 0.3)
    yield start(rng, names, room, weights * 0.2, weights * 0.8)  # finds the text, reads it
    budget = room * (rng.uniform(0.86, 0.96) - weights)
    page, parts, readers = room * rng.uniform(0.004, 0.01), rng.choice(((1, 0.25), (0.7, 0.35, 0.2))), rng.randrange(4, 12)
    dots = rng.choice(((0.3, 1, 1, 2.2), (0.5, 0.7, 1, 1.4), (1, 1, 1, 4)))  # per inch, squared
    documents, live = [], 0
    for step in itertools.count():
        operations = []
        for _ in range(3):
            if len(documents) < readers:
                pages = max(1, int(rng.lognormvariate(1.6, 1.0)))
                documents.append([min(pages, 60), rng.choice(dots) * length_of(rng, 0.3), [], 0])
            document = rng.choice(documents)
            size, text = page * document[1] * rng.choice((1, 1, 1, 1, 0.7, 0.35, 1.6)), rng.uniform(0.01, 0.2)
            if live + size * (sum(parts) + text + 2) > budget:
                # no room: the document that holds most is put back, and read later
                document = max(documents, key=lambda each: each[3])
                document[0] = 0
            else:
                image, more = take(names, [size])
                tiles, cut = take(names, [size * 0.5] * 2, 1)
                features, seen = take(names, [size * part for part in (*parts, text)])
                operations += more + cut + seen + free_all(tiles + image)
                document[2] += features
                document[3] += size * (sum(parts) + text)
                live += size * (sum(parts) + text)
                document[0] -= 1
            if document[0] <= 0:
                operations += free_all(document[2])
                live -= document[3]
                documents.remove(document)
        yield operations


@add()
def caches_by_concatenation(rng, capacity, _growth):
    """Chat with a plain generate(): a cache becomes longer by a copy; the number of tokens at once is limited."""
    names, room = Names(), room_of(capacity)
    weights = rng.uniform(0.25, 0.5)
    yield start(rng, names, room, weights)
    slots, pieces = rng.randrange(5, 11), rng.choice((2, 4, 4))
    budget = room * (rng.uniform(0.86, 0.95) - weights)
    usual = budget / slots * rng.uniform(0.8, 1.4)
    gain = usual * rng.uniform(0.01, 0.04)  # in the tokens of a step
    width, parts = room * rng.uniform(0.0005, 0.002), shape_of(rng)
    running, waiting = [], None
    for step in itertools.count():
        operations = leave(running, step)
        if waiting is None:
            waiting = (usual * length_of(rng, 0.9, 4) * 0.5, rng.randrange(10, 40) * length_of(rng, 0.7))
        prompt, lasts = waiting
        reserved = sum(request.size + gain * (request.ends - step + 1) for request in running)
        if len(running) < slots and reserved + prompt + gain * lasts + 4 * usual / pieces < budget:
            operations += enter(names, running, prompt, step + 1 + lasts, pieces=[1 / pieces] * pieces)
            operations += passing(names, width * prompt / usual, parts, 2)
            waiting = None
        for request in running:
            request.size += gain
            longer, more = take(names, [request.size / pieces] * pieces)
            operations += [each for pair in zip(more, free_all(request.kept)) for each in pair]
            request.kept = longer
        yield operations + passing(names, width, parts, 2)


@add()
def long_recording(rng, capacity, _growth):
    """Speech from files: most are short calls; now and then somebody sends a whole day of a conference."""
    names, room = Names(), room_of(capacity)
    weights = rng.uniform(0.08, 0.3)
    yield start(rng, names, room, weights)
    free, longest = room * (1 - weights), rng.uniform(0.6, 2.2)
    square, parts, rare = rng.uniform(0.1, 0.5), shape_of(rng), 10 ** rng.uniform(-2.8, -1.8)
    usual = free * rng.uniform(0.02, 0.07) / (2 + sum(parts))
    for _step in itertools.count():
        length = length_of(rng, 0.6, 3)
        day, of_day = rng.random() < rare, rng.uniform(0.35, 1)
        size = free * longest * of_day / (2 + sum(parts)) if day else usual * (length + square * length * length)
        samples, operations = take(names, [size * 0.4], 1)
        spectrum, more = take(names, [size * 0.2, size * 0.1])
        operations += more + free_all(samples) + passing(names, size, parts, 4)
        beams, more = take(names, [size * 0.02] * rng.randrange(2, 6))
        yield operations + more + free_all(beams + spectrum)


@add()
def index_swap(rng, capacity, _growth):
    """Search: a new index is built beside the one in use, which goes afterwards; there may be no room for both."""
    names, room = Names(), room_of(capacity)
    yield start(rng, names, room, rng.uniform(0.05, 0.2))
    index, shards = room * rng.uniform(0.32, 0.6), rng.randrange(6, 30)
    every, begins = rng.randrange(60, 700), rng.randrange(30, 400)
    at_once, tidy = rng.choice((1, 3, 10)), rng.random() < 0.6
    batch, parts = room * rng.uniform(0.002, 0.008), shape_of(rng)
    lists = [rng.lognormvariate(0, 0.5) for _ in range(shards)]
    old, operations = take(names, [index * size / sum(lists) for size in lists])
    new, to_build = [], []
    yield operations
    for step in itertools.count(1):
        operations = passing(names, batch * length_of(rng, 0.4), parts, 4)
        if step >= begins and (step - begins) % every == 0:
            to_build = to_build or [index * size / sum(lists) * rng.uniform(0.97, 1.03) for size in lists]
        for _ in range(min(at_once, len(to_build))):
            size = to_build.pop()
            codes, more = take(names, [size * 0.06, size * 0.02], 1)
            shard, built = take(names, [size])
            operations += more + built + free_all(codes)
            new += shard
        if new and not to_build:
            operations += free_all(old) + ([("e",)] if tidy else [])
            old, new = new, []
        yield operations


@add()
def rolling_update(rng, capacity, _growth):
    """Translation beside another team's service: for an update two of its copies run at once, and we give back what is idle."""
    names, room = Names(), room_of(capacity)
    weights, neighbour = rng.uniform(0.12, 0.25), rng.uniform(0.2, 0.4)
    yield [("o", int(room * neighbour))] + start(rng, names, room, weights)
    left = room * (1 - weights - neighbour)
    usual, parts, idle = left * rng.uniform(0.15, 0.33), shape_of(rng), rng.randrange(10, 40)
    every, first = rng.randrange(80, 500), rng.randrange(30, 400)
    overlap, second = rng.randrange(15, 60), rng.uniform(0.7, 1.15)
    workspace, threads = rng.choice((8, 32, 64)) * MIB, rng.randrange(1, 5)
    for step in itertools.count():
        # each worker's libraries take their workspace at its first batch
        operations = [("x", workspace * (step + 1))] if step < threads else []
        since = (step - first) % every if step >= first else every
        two = second * min(1.0, (since + 1) / 6) if since < overlap else 0.0
        operations.append(("o", int(room * neighbour * (rng.uniform(0.95, 1.08) + two))))
        batch = usual * length_of(rng, 0.5, 2.6) / (2 + sum(parts))
        tokens, more = take(names, [batch * 0.01, batch * 0.01])
        operations += more + passing(names, batch, parts, 4)
        beams, more = take(names, [batch * 0.3] * rng.randrange(1, 5))
        operations += more + free_all(beams + tokens)
        yield operations + ([("e",)] if step % idle == idle - 1 else [])
