# SPDX-License-Identifier: Apache-2.0
"""Archives, libraries, museums, newspapers: scans, tapes, films, indices, readers, curators."""
import collections
import functools
import math
import random

from program import (GIB, MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all,
                     generator, load, room_of, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_abbey")

PAPERS = ((105, 148), (148, 210), (210, 297), (216, 356), (297, 420), (350, 500), (420, 594))
USUAL_PIXELS = 8.7e6  # A4 at 300 dots an inch


# --- parts that several programs share ---

def pixels(paper, dots):
    return paper[0] / 25.4 * dots * (paper[1] / 25.4 * dots)


def share_of(rng, capacity, low, high):
    return int(capacity * rng.uniform(low, high))


def steps_about(rng, low, high):
    """A number of steps between the two, on a scale of powers."""
    return 10 ** rng.uniform(math.log10(low), math.log10(high))


def through(names, layers, size, scratch, stream=0):
    """Inference: each layer's output replaces the one before it, and its scratch goes with it."""
    operations, last = [], None
    for _ in range(layers):
        inner, out = names(), names()
        operations += [("a", inner, at_least(scratch), stream), ("a", out, at_least(size), stream),
                       ("f", inner)]
        if last is not None:
            operations.append(("f", last))
        last = out
    return operations, last


def layout(names, image, width, levels):
    """A layout model over a page: each level's features stay until the heads have read them."""
    operations, features = [], []
    for level in range(levels):
        size = at_least(image * width / 2 ** level)
        inner, out = names(), names()
        operations += [("a", inner, size), ("a", out, size), ("f", inner)]
        features.append((out, size))
    top = None
    for out, size in reversed(features):
        lateral = names()
        operations += [("a", lateral, at_least(size // 4)), ("f", out)]
        if top is not None:
            operations.append(("f", top))
        top = lateral
    return operations + [("f", top)]


def lines(names, rng, height, batches):
    """A line reader: a batch is padded to its longest line; the text comes out in small tensors."""
    operations = []
    for _ in range(batches):
        longest = rng.uniform(0.4, 1.0)
        crops, states, scores, text = (names() for _ in range(4))
        operations += [("a", crops, at_least(height * longest)),
                       ("a", states, at_least(height * longest * 2)), ("f", crops),
                       ("a", scores, at_least(height * longest / 3)), ("f", states),
                       ("a", text, at_least(rng.randrange(512, 60000))), ("f", scores), ("f", text)]
    return operations


def answer(names, rng, first, tokens, chunk):
    """Reads a prompt and writes an answer, in some chunks of keys and values; returns both."""
    operations, held = [], []
    prompt, scratch = names(), names()
    operations += [("a", prompt, at_least(first)), ("a", scratch, at_least(first * 0.7)),
                   ("f", scratch)]
    held.append(prompt)
    for _ in range(tokens):
        name, logits = names(), names()
        operations += [("a", name, at_least(chunk)),
                       ("a", logits, at_least(rng.randrange(60, 500) << 10)), ("f", logits)]
        held.append(name)
    return operations, held


# --- too large ---

@add()
def scans_of_any_size(rng, capacity, _growth):
    """Pages go through a layout model at full size; a box of maps and posters comes in the end."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.03, 0.25)))[1]
    bytes_of_pixel = capacity * rng.uniform(0.01, 0.03) / USUAL_PIXELS / 12
    width = rng.uniform(1.5, 4)
    levels = rng.randrange(3, 6)
    common = rng.sample(PAPERS[:5], 2)
    dots = rng.choice((200, 240, 300, 300, 400)) * rng.uniform(0.95, 1.0)
    maps_from = int(steps_about(rng, 25, 450))
    share = rng.uniform(0.04, 0.5)
    fold_out = rng.uniform(1.2, 3.0)
    height = capacity * rng.uniform(0.0005, 0.004)
    step = 0
    while True:
        paper, rare, edge = rng.choice(common), rng.random(), rng.uniform(0.8, 1.0)
        crop = rng.uniform(0.9, 1.06)
        image = pixels(paper, dots) * crop * bytes_of_pixel
        if step >= maps_from and rare < share:
            image = pixels(PAPERS[-1], dots * 1.5) * edge * fold_out * bytes_of_pixel
        raw, page = names(), names()
        operations = [("a", raw, at_least(image)), ("a", page, at_least(image * 4)), ("f", raw)]
        operations += layout(names, image * 4, width, levels)
        operations += lines(names, rng, height, rng.randrange(1, 6))
        yield operations + [("f", page)]
        step += 1


@add()
def all_pairs_of_a_title(rng, capacity, _growth):
    """Reprints are sought in one newspaper at a time, each page with each; one was a daily."""
    names = Names()
    weights = min(int(rng.uniform(0.3, 4) * GIB), share_of(rng, capacity, 0.08, 0.2))
    yield load(names, sizes_of_model(rng, weights, (12, 24)))[1]
    cell = rng.choice((2, 4))
    daily = int((capacity * rng.uniform(0.7, 2.5) / cell) ** 0.5)
    batch = max(64, daily // rng.randrange(40, 150))
    vector = rng.choice((384, 512, 768, 1024, 1152)) * cell
    picture = rng.choice((0.15, 0.3, 0.5)) * MIB
    layers = rng.choice((8, 12))
    at, title = rng.randrange(2, 9), 0
    found = rng.uniform(0.00001, 0.002)
    while True:
        pages = int(daily * min(0.5, rng.lognormvariate(-1.6, 0.6)))
        if title == at:
            pages = daily
        parts = []
        while pages > sum(count for _, count in parts):
            count = min(batch, pages - sum(count for _, count in parts))
            images = names()
            operations = [("a", images, at_least(count * 3 * 224 * 224 * cell))]
            more, last = through(names, layers, count * picture, count * picture * 3)
            name = names()
            parts.append((name, count))
            yield operations + more + [("a", name, at_least(count * vector)), ("f", last),
                                       ("f", images)]
        joined, normed, matrix, mask, pairs = (names() for _ in range(5))
        yield [("a", joined, at_least(pages * vector)), *free_all([name for name, _ in parts]),
               ("a", normed, at_least(pages * vector)), ("f", joined),
               ("a", matrix, at_least(pages * pages * cell)), ("a", mask, at_least(pages * pages)),
               ("a", pairs, at_least(pages * pages * found * 16)), ("f", mask), ("f", matrix),
               ("f", pairs), ("f", normed)]
        title += 1


# --- kept without need ---

@add(intent="leak")
def uncertain_lines_hold_the_page(rng, capacity, growth):
    """A doubtful line waits for a second reader. It is a view, so its page waits; some for ever."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.03, 0.2)))[1]
    share, forgotten = rng.uniform(0.04, 0.4), rng.uniform(0.15, 0.8)
    at_once = rng.randrange(1, 5)
    often = share * forgotten * at_once
    each = capacity * rng.uniform(0.3, 0.6) / (steps_about(rng, 40, 500) * often)
    mean = min(each, capacity * 0.03)
    formats = [mean * rng.uniform(0.5, 1.8) for _ in range(rng.randrange(2, 6))]
    width, levels = rng.uniform(0.8, 2.5), rng.randrange(3, 6)
    patience = rng.randrange(4, 30)
    height = mean * rng.uniform(0.03, 0.2)
    waiting, step = [], 0
    while True:
        operations = free_all([page for due, page in waiting if due <= step])
        waiting = [(due, page) for due, page in waiting if due > step]
        for _ in range(at_once):
            size = rng.choice(formats) * rng.uniform(0.93, 1.05)
            raw, page = names(), names()
            operations += [("a", raw, at_least(size / 4)), ("a", page, at_least(size)), ("f", raw)]
            operations += layout(names, size, width, levels)
            operations += lines(names, rng, height, rng.randrange(1, 4))
            doubtful, lost = rng.random() < share, rng.random() < forgotten
            due = step + rng.randrange(1, patience)
            if not doubtful:
                operations.append(("f", page))
            elif not (lost and growth):
                waiting.append((due, page))
        yield operations
        step += 1


@add(intent="leak")
def speakers_of_the_tapes(rng, capacity, growth):
    """Interviews: from some day on voices are told apart, and a tape's voices outlive the tape."""
    names = Names()
    sizes = ((512, 6), (768, 12)) if capacity < 16 * GIB else ((768, 12), (1024, 24), (1280, 32))
    dim, layers = rng.choice(sizes)
    tapes = rng.randrange(2, 5 if capacity < 16 * GIB else 12)
    voices = [rng.randrange(2 << 10, 900 << 10) for _ in range(rng.randrange(3, 9))]
    fill = steps_about(rng, 80, 450)
    kept = min(capacity * 0.3, sum(voices) * tapes * fill * 0.8)
    weights = 2 * layers * 12 * dim * dim * 2
    state, cross = tapes * 1500 * dim * 2, tapes * 1500 * dim * 4
    summaries = room_of(capacity) - weights - cross * layers - state * 14 - int(kept)
    model = load(names, sizes_of_model(rng, weights, (layers,)))[1]
    if summaries > GIB:
        pieces = rng.randrange(1, 9)
        model += [("a", names(), summaries // pieces) for _ in range(pieces)]
    yield model
    late = int(steps_about(rng, 10, 160))
    running = [[[], rng.randrange(10, 120)] for _ in range(tapes)]
    step = 0
    while True:
        mel = names()
        operations = [("a", mel, at_least(tapes * 3000 * 80 * 4))]
        more, last = through(names, layers // 2, state, state * 4)
        crossed = [names() for _ in range(layers)]
        operations += more + [("a", name, cross) for name in crossed] + [("f", last), ("f", mel)]
        written = None
        for length in range(1, rng.randrange(3, 8)):
            longer = names()
            operations.append(("a", longer, at_least(tapes * 64 * length * dim * 4 * layers)))
            if written is not None:
                operations.append(("f", written))
            written = longer
        operations += free_all(crossed)
        if written is not None:
            operations.append(("f", written))
        for tape in running:
            heard = rng.uniform(0.3, 1.0)
            if step >= late:
                for size in voices:
                    name = names()
                    operations.append(("a", name, at_least(size * heard)))
                    tape[0].append(name)
            tape[1] -= 1
            again = rng.randrange(10, 120)
            if tape[1] <= 0:
                if not growth:
                    operations += free_all(tape[0])
                tape[:] = [[], again]
        yield operations
        step += 1


@add(intent="leak")
def search_handles_never_closed(rng, capacity, growth):
    """An index library has memory of its own; a reader who breaks off leaves a handle open."""
    names = Names()
    index = share_of(rng, capacity, 0.1, 0.35)
    yield [("x", index)] + load(names, sizes_of_model(rng, share_of(rng, capacity, 0.05, 0.2)))[1]
    usual = GIB // 2 if capacity <= 8 * GIB else GIB * 3 // 2
    handle = rng.choice((usual, usual, 64 * MIB, 128 * MIB, 256 * MIB))
    handle = max(handle, capacity // 200)
    opened = rng.uniform(0.25, 0.95)
    lost = capacity * 0.4 / handle / steps_about(rng, 40, 500) / opened
    lost = min(0.7, max(0.01, lost))
    work = capacity * rng.uniform(0.005, 0.03)
    layers = rng.randrange(4, 13)
    tidy = rng.choice((0, rng.randrange(5, 40), rng.randrange(40, 300)))
    seats = max(1, int(capacity * 0.15 / handle))
    readers, most, left_open, step = [], 0, 0, 0
    while True:
        readers = [due for due in readers if due > step]
        comes, leaves, stay = rng.random(), rng.random(), rng.randrange(1, 20)
        if comes < opened:
            if leaves < lost and growth:
                left_open += 1
            else:
                readers.append(step + stay)
        most = max(most, min(seats, len(readers)))
        operations = [("x", int(index + handle * (most + left_open)))]
        for _ in range(rng.randrange(1, 4)):
            batch = min(4.0, rng.lognormvariate(-0.8, 0.7))
            more, last = through(names, layers, work * batch / 4, work * batch)
            order = names()
            operations += more + [("a", order, at_least(rng.randrange(512, 400000))), ("f", last),
                                  ("f", order)]
        if tidy and step % tidy == tidy - 1:
            operations.append(("e",))
        yield operations
        step += 1


@add(intent="leak")
def curators_notebook(rng, capacity, growth):
    """Cells are run again and again: results stay in Out[], losses of small trainings in a list."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.04, 0.2)))[1]
    head_sizes = sizes_of_model(rng, share_of(rng, capacity, 0.003, 0.02), (2, 4, 6))
    layers = activations_of(rng, share_of(rng, capacity, 0.03, 0.2), rng.choice((4, 6)))
    head, build = load(names, head_sizes)
    yield build
    looks = steps_about(rng, 12, 90)
    result = capacity * rng.uniform(0.3, 0.7) / looks
    loss = rng.choice((0, 0, 512, int(capacity * rng.uniform(0.00005, 0.0006))))
    kinds = rng.uniform(2, 8), rng.uniform(1, 3), rng.uniform(0.3, 1.5), rng.uniform(0, 0.8)
    shown = collections.deque()
    while True:
        cell = rng.choices(("look", "train", "build", "clean"), kinds)[0]
        if cell == "look":
            for _ in range(rng.randrange(1, 4)):
                operations, last = through(names, rng.randrange(3, 9), result * 0.4, result)
                yield operations + [("f", last)]
            out, size = names(), result * rng.lognormvariate(-0.2, 0.6)
            shown.append(out)
            operations = [("a", out, at_least(min(size, capacity * 0.1)))]
            while not growth and len(shown) > 3:
                operations.append(("f", shown.popleft()))
            yield operations
        elif cell == "train":
            scale, history = rng.uniform(0.3, 1.0), []
            momenta = [(names(), size) for _ in range(2) for _, size in head]
            yield [("a", name, size) for name, size in momenta]
            for _ in range(rng.randrange(5, 40)):
                operations, kept = forward(names, layers, [layers[0][0] // 3], scale)
                if loss:
                    history.append(names())
                    operations.append(("a", history[-1], at_least(loss)))
                done, gradients = backward(names, kept, [size for _, size in head])
                yield operations + done + free_all(gradients)
            yield free_all([name for name, _ in momenta] + ([] if growth else history))
        elif cell == "build":
            newer, operations = load(names, head_sizes)
            yield operations + free_all([name for name, _ in head])
            head = newer
        else:
            yield [("e",)]


# --- kept on purpose ---

class Lists:
    """Inverted lists: each has room to spare, and moves to a larger place when that is used up."""

    def __init__(self, names, count, total, factor):
        self.names, self.factor = names, factor
        self.lists = [[names(), total / count, total / count * 0.7] for _ in range(count)]

    def build(self):
        return [("a", name, at_least(room)) for name, room, _ in self.lists]

    def add(self, at, size):
        chosen = self.lists[at]
        chosen[2] += size
        if chosen[2] <= chosen[1]:
            return []
        old, chosen[0] = chosen[0], self.names()
        chosen[1] = max(chosen[2], chosen[1] * self.factor)
        return [("a", chosen[0], at_least(chosen[1])), ("f", old)]


@add(intent="design")
def index_follows_the_collection(rng, capacity, growth):
    """A search index on the GPU takes in what was digitised, beside the searches of the day."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.03, 0.15)))[1]
    way = rng.choice(("lists", "joined", "parts", "parts"))
    start = capacity * rng.uniform(0.03, 0.15)
    ingest = rng.uniform(0.2, 0.95)
    portion = capacity * rng.uniform(0.5, 0.7) / (steps_about(rng, 60, 500) * ingest)
    index = Lists(names, rng.randrange(8, 64) if way == "lists" else 1, start,
                  rng.choice((1.25, 1.5, 2)) if way == "lists" else 1.0)
    yield index.build()
    work = capacity * rng.uniform(0.01, 0.08)
    layers, skew = rng.randrange(4, 13), rng.uniform(1.0, 3.0)
    block = capacity * rng.uniform(0.005, 0.05)
    while True:
        kind, filled = rng.random(), rng.uniform(0.4, 1.3)
        if kind < ingest:
            operations, last = through(names, layers, work / 4, work)
            targets = [int(rng.random() ** skew * len(index.lists)) for _ in range(6)]
            vectors = names()
            operations += [("a", vectors, at_least(portion * filled)), ("f", last)]
            if growth and way == "parts":
                operations += [("a", names(), at_least(portion * filled))]
            elif growth:
                for at in targets if way == "lists" else [0]:
                    share = len(targets) if way == "lists" else 1
                    operations += index.add(at, portion * filled / share)
            yield operations + [("f", vectors)]
        else:
            operations, last = through(names, layers, work * filled / 16, work * filled / 4)
            for _ in range(rng.randrange(2, 7)):
                distances, best = names(), names()
                operations += [("a", distances, at_least(block)),
                               ("a", best, at_least(block / 50)), ("f", distances), ("f", best)]
            yield operations + [("f", last)]


@add(intent="design")
def passages_of_documents(rng, capacity, growth):
    """Questions about documents: keys and values of each document read stay for the next reader."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.15, 0.45)))[1]
    shelf = rng.randrange(150, 4000)
    mean = capacity * rng.uniform(0.25, 0.5) / steps_about(rng, 50, 350)
    size_of = [mean * min(6, rng.lognormvariate(-0.3, 0.8)) for _ in range(shelf)]
    order = rng.sample(range(shelf), shelf)
    tail = rng.uniform(0.25, 0.9)
    bound = capacity * rng.choice((rng.uniform(0.75, 1.2), 100))
    page = at_least(mean / rng.randrange(1, 5)) if rng.random() < 0.4 else 0
    chunk = capacity * rng.uniform(0.0001, 0.0008)
    cache, held = collections.OrderedDict(), 0
    while True:
        operations, open_now = [], []
        for _ in range(rng.randrange(1, 4)):
            document = order[min(shelf - 1, int(rng.paretovariate(tail)) - 1)]
            if document in cache:
                cache.move_to_end(document)
            else:
                size = size_of[document]
                blocks = [page] * (1 + int(size / page)) if page else [at_least(size)]
                kept = [(names(), block) for block in blocks]
                operations += [("a", name, block) for name, block in kept]
                scratch = names()
                operations += [("a", scratch, at_least(size * 0.6)), ("f", scratch)]
                if growth:
                    cache[document] = kept
                    held += sum(block for _, block in kept)
                else:
                    open_now += [name for name, _ in kept]
        more, mine = answer(names, rng, chunk * 4, rng.randrange(2, 12), chunk)
        operations += more + free_all(mine) + free_all(open_now)
        while held > bound:
            _, kept = cache.popitem(last=False)
            held -= sum(block for _, block in kept)
            operations += free_all([name for name, _ in kept])
        yield operations


# --- more is asked for ---

@add(intent="demand")
def reading_room_fills(rng, capacity, growth):
    """Readers talk with a catalogue: each day more at once; all is freed when one leaves."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.2, 0.5)))[1]
    day = rng.randrange(12, 70)
    calm = rng.uniform(0.3, 2.0)
    rise = calm / steps_about(rng, 15, 120)
    stay = rng.randrange(5, 26)
    chunk = capacity * rng.uniform(0.03, 0.12) / (calm * stay * stay / 2)
    swing = rng.uniform(0, 0.8)
    fixed = rng.random() < 0.4
    readers, calm_owed, more_owed, step = [], 0.0, 0.0, 0
    while True:
        daytime = 1 + swing * math.sin(2 * math.pi * step / day)
        calm_owed += calm * daytime * rng.uniform(0.5, 1.5)
        more_owed += min(calm * 16, rise * step) * daytime
        new, newer = int(calm_owed), int(more_owed)
        calm_owed, more_owed = calm_owed - new, more_owed - newer
        seed = rng.getrandbits(48)
        operations = []
        for number in range(new + (newer if growth else 0)):
            # the additional readers come last, so the others are the same without them
            own = random.Random(seed + number)
            readers.append([[], max(2, int(stay * own.uniform(0.4, 1.6))), own])
        for reader in readers:
            name, scratch, own = names(), names(), reader[2]
            size = chunk if fixed else chunk * own.uniform(0.4, 1.6)
            if not reader[0]:
                size *= own.randrange(1, 9)
                operations += [("a", scratch, at_least(size * 0.8)), ("f", scratch)]
            operations.append(("a", name, at_least(size)))
            reader[0].append(name)
            reader[1] -= 1
        for held, left, _ in readers:
            if left <= 0:
                operations += free_all(held)
        logits = names()
        operations += [("a", logits, at_least(len(readers) * 300000)), ("f", logits)]
        readers = [reader for reader in readers if reader[1] > 0]
        yield operations
        step += 1


# --- pieces ---

@add()
def thumbnails_between_pages(rng, capacity, _growth):
    """Small pictures of pages are made beside large ones and kept; their sum has a bound."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.02, 0.08)))[1]
    bound = capacity * rng.uniform(0.22, 0.45)
    work = capacity * rng.uniform(0.2, 0.36)
    mean = capacity * 10 ** rng.uniform(-3.2, -1.8)
    fresh = rng.uniform(0, 0.6)
    spread = rng.uniform(0.4, 1.0)
    album, held = [], 0
    while True:
        operations = []
        edge = rng.choice((0.15, 0.3, 0.5, 0.75, 1.0)) * rng.uniform(0.85, 1.0)
        tiles = [names() for _ in range(rng.randrange(1, 6))]
        for tile in tiles:
            operations.append(("a", tile, at_least(work * edge / len(tiles))))
            name, size = names(), min(bound / 8, mean * rng.lognormvariate(-0.3, spread))
            operations.append(("a", name, at_least(size)))
            album.append((name, size))
            held += size
        operations += free_all(tiles)
        operations += lines(names, rng, mean, 1)
        while held > bound:
            newest, any_one = rng.random() < fresh, rng.randrange(len(album))
            name, size = album.pop(len(album) - 1 if newest else any_one)
            held -= size
            operations.append(("f", name))
        yield operations


@add()
def reels_on_three_streams(rng, capacity, _growth):
    """Film is read, restored and written on a stream each; reference frames split all pools."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.03, 0.12)))[1]
    peak = capacity * rng.uniform(0.3, 0.5)
    bound = capacity * rng.uniform(0.06, 0.16)
    frame = capacity * rng.uniform(0.0008, 0.004)
    streams = rng.randrange(2, 5)
    scene = rng.randrange(4, 20)
    frames, held, step = collections.deque(), 0, 0
    heavy, edge, slow = 0, 1.0, rng.uniform(0.05, 0.3)
    while True:
        if step % scene == 0:
            heavy, edge = rng.randrange(streams), rng.choice((0.4, 0.6, 0.8, 1.0))
        operations = []
        for stream in range(streams):
            size = peak * edge * (1.0 if stream == heavy else slow) * rng.uniform(0.8, 1.0)
            count = rng.randrange(2, 9)
            window = [names() for _ in range(count)]
            for name in window:
                operations.append(("a", name, at_least(size / count), stream))
            flow = names()
            operations += [("a", flow, at_least(size / count / 3), stream), *free_all(window[::2])]
            reference, bytes_of_it = names(), frame * edge * rng.uniform(0.5, 1.5)
            operations.append(("a", reference, at_least(bytes_of_it), stream))
            frames.append((reference, bytes_of_it))
            held += bytes_of_it
            operations += free_all(window[1::2]) + [("f", flow)]
        while held > bound:
            at = min(len(frames) - 1, int(rng.expovariate(0.15)))
            reference, bytes_of_it = frames[at]
            del frames[at]
            held -= bytes_of_it
            operations.append(("f", reference))
        yield operations
        step += 1


# --- others on the card ---

@add()
def tenants_share_the_card(rng, capacity, _growth):
    """Museums share a card: services come, go and grow; ours empties its cache each night."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.08, 0.22)))[1]
    work = capacity * rng.uniform(0.12, 0.28)
    most = capacity * rng.uniform(0.6, 0.88)
    day = rng.randrange(10, 60)
    first = int(steps_about(rng, 10, 200))
    comes, goes = rng.uniform(0.01, 0.15), rng.uniform(0, 0.02)
    growing = rng.choice((0, 0, rng.uniform(0.0002, 0.004)))
    one_large = rng.random() < 0.35
    width, levels = rng.uniform(0.8, 2.0), rng.randrange(3, 6)
    image = work / width / 3
    tenants, step = [], 0
    while True:
        arrives, leaves = rng.random() < comes, rng.random() < goes
        size = rng.uniform(0.04, 0.25)
        if step == first or (step > first and arrives and not one_large):
            tenants.append(most if one_large else capacity * size)
        if leaves and len(tenants) > 1:
            tenants.pop(0)
        if step > first:
            tenants = [held + capacity * growing / len(tenants) for held in tenants]
        operations = [("o", int(min(most, sum(tenants))))]
        night = step % day >= day * 0.7
        for _ in range(1 if night else 2):
            edge = rng.uniform(0.15, 0.3) if night else rng.triangular(0.2, 1.0, 0.5)
            page = names()
            operations.append(("a", page, at_least(image * edge / 4)))
            operations += layout(names, image * edge, width, levels) + [("f", page)]
        if step % day == int(day * 0.7):
            operations.append(("e",))
        yield operations
        step += 1


@add()
def kernel_of_yesterday(rng, capacity, _growth):
    """A colleague's kernel still holds its model; our batches were tried out on an empty card."""
    names = Names()
    other = capacity * rng.uniform(0.3, 0.65)
    rest = room_of(capacity) - other
    weights = min(rest * rng.uniform(0.15, 0.5), capacity * 0.25)
    loading = load(names, sizes_of_model(rng, int(weights)))[1]
    yield [("o", int(other))] + loading
    largest = min(capacity * 0.72, rest * rng.uniform(1.02, 1.5)) - weights
    rare = steps_about(rng, 5, 90)
    plays = rng.random() < 0.3
    layers = rng.randrange(3, 10)
    height = capacity * rng.uniform(0.0003, 0.002)
    while True:
        share = 0.1 + 0.9 * rng.random() ** rare
        use, batches = rng.uniform(0.98, 1.0), rng.randrange(1, 5)
        operations = [("o", int(other * (use if plays else 1.0)))]
        batch = names()
        operations.append(("a", batch, at_least(largest * share * 0.2)))
        more, last = through(names, layers, largest * share * 0.2, largest * share * 0.4)
        operations += more + lines(names, rng, height, batches)
        yield operations + [("f", last), ("f", batch)]


# --- nothing is wrong ---

@add()
def edition_with_bounded_shelves(rng, capacity, _growth):
    """A reading site: tiles in a cache with a bound, and a small adapter is trained at night."""
    names = Names()
    yield load(names, sizes_of_model(rng, share_of(rng, capacity, 0.06, 0.22)))[1]
    bound = capacity * rng.uniform(0.08, 0.25)
    tile = max(64 << 10, int(bound / steps_about(rng, 300, 3000)))
    work = capacity * rng.uniform(0.01, 0.05)
    layers = activations_of(rng, share_of(rng, capacity, 0.03, 0.12), rng.choice((6, 8)))
    adapter = sizes_of_model(rng, share_of(rng, capacity, 0.001, 0.006), (4, 6, 8))
    day = rng.randrange(40, 150)
    shelf = rng.randrange(1000, 20000)
    cache, step = collections.OrderedDict(), 0
    while True:
        operations, last = through(names, rng.randrange(3, 9), work / 4,
                                   work * rng.uniform(0.3, 1.0))
        for _ in range(rng.randrange(4, 16)):
            asked = int(rng.betavariate(0.7, 2.5) * shelf)
            if asked in cache:
                cache.move_to_end(asked)
                continue
            cache[asked] = names()
            operations.append(("a", cache[asked], tile))
            if len(cache) * tile > bound:
                operations.append(("f", cache.popitem(last=False)[1]))
        yield operations + [("f", last)]
        step += 1
        if step % day == 0:
            trained, building = load(names, adapter * 3)
            yield building
            for _ in range(rng.randrange(5, 25)):
                operations, kept = forward(names, layers, [layers[0][0] // 2], rng.uniform(0.5, 1))
                done, gradients = backward(names, kept, adapter)
                yield operations + done + free_all(gradients)
            yield free_all([name for name, _ in trained])
