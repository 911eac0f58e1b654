# SPDX-License-Identifier: Apache-2.0
"""Programs of companies that train and serve ordinary models: search, speech, documents, video, images, translation, finance."""
import collections
import math

from program import (MIB, UNSEEN, Names, at_least, backward, forward, free_all, generator, load, room_of)

HALF, FULL = 2, 4
SHAPES = ((256, 6), (384, 8), (512, 12), (768, 12), (1024, 16), (1024, 24), (1280, 24), (2048, 24), (2560, 32), (4096, 32))


def add(intent=""):
    return generator(UNSEEN, "unseen_forge", intent)


# --- parts that several programs have ---

def transformer(rng, budget, vocabulary, width=HALF, deepest=32):
    """One of the three largest usual shapes that fit: (hidden size, layers, bytes of each tensor)."""
    shapes = [shape for shape in SHAPES if shape[1] <= deepest]
    fitting = [(h, n) for h, n in shapes if (12 * h * h * n + vocabulary * h) * width <= budget] or shapes[:1]
    hidden, layers = rng.choice(fitting[-3:])
    square = hidden * hidden * width
    layer = [3 * square, square, 4 * square, 4 * square, at_least(13 * hidden * width)]
    return hidden, layers, [vocabulary * hidden * width] + layer * layers


def saved(tokens, hidden, layers, width=HALF, parts=(4, 1, 8)):
    """Each layer's part that is kept for the backward pass."""
    return [[at_least(tokens * hidden * width * part) for part in parts] for _ in range(layers)]


def most(room, each):
    return max(1, int(room // each))


def adam(names, sizes):
    return [("a", names(), size) for size in sizes for _ in range(2)]


def chain(names, sizes):
    """A pass without gradients: an output lives until the next one is there. The last one is left."""
    operations, last = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size)))
        if last is not None:
            operations.append(("f", last))
        last = name
    return operations, last


def infer(names, sizes):
    operations, last = chain(names, sizes)
    return operations + [("f", last)]


def train(names, layers, gradients=()):
    operations, kept = forward(names, layers)
    done, left = backward(names, kept, gradients)
    return operations + done + free_all(left)


def between(rng, low, high):
    """A whole number of steps, rounds or events; small ones as likely as large ones."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


# --- leaks ---

@add("leak")
def asr_meter_is_never_reset(rng, capacity, growth):
    """Conformer training: the validation meter keeps every batch's log-probabilities and is never reset."""
    names, room = Names(), room_of(capacity)
    vocabulary, longest = rng.choice((128, 1024, 5000)), rng.choice((16, 20, 30))
    hidden, depth, sizes = transformer(rng, room * 0.05, vocabulary, FULL, deepest=16)
    second = rng.choice((25, 12.5))  # encoder frames
    batch = most(room * rng.uniform(0.3, 0.55), longest * second * hidden * depth * 13 * HALF)
    every = rng.randrange(6, 25)
    usual = batch * longest / 2.5 * second * vocabulary * FULL
    batches = min(30, most(room * 0.35, usual * between(rng, 4, 30)))

    def frames():
        return int(batch * second * min(longest, max(1.0, rng.lognormvariate(math.log(longest / 2.5), 0.5))))

    yield load(names, sizes)[1]
    yield train(names, saved(frames(), hidden, depth)) + load(names, sizes)[1] + adam(names, sizes)
    while True:
        for _ in range(every):
            now = frames()
            logits = names()
            step = [("a", logits, at_least(now * vocabulary * FULL)), ("f", logits)]
            yield step + train(names, saved(now, hidden, depth))
        for _ in range(batches):
            now = frames()
            step, last = chain(names, [now * hidden * HALF * part for part in (1, 4, 1) * depth])
            log_probabilities = names()
            step += [("a", log_probabilities, at_least(now * vocabulary * FULL)), ("f", last)]
            yield step + ([] if growth else [("f", log_probabilities)])


@add("leak")
def hard_negatives_after_warm_up(rng, capacity, growth):
    """Two-tower retrieval: when the warm-up is over, mined negatives are appended and the list is never cut."""
    names, room = Names(), room_of(capacity)
    dimension, features = rng.choice((64, 128, 256)), rng.randrange(6, 20)
    tables = room * rng.uniform(0.15, 0.45)
    shares = [1 / (i + 1) ** 1.3 for i in range(features)]
    rows = [max(1000, int(tables * share / sum(shares) / dimension / FULL)) for share in shares]
    batch = rng.choice([b for b in (1024, 2048, 4096, 8192, 16384, 32768)
                        if b * b * FULL * 2 + b * features * dimension * FULL * 3 < room * 0.2][-3:])
    towers = [[batch * features // 2 * dimension * FULL, batch * 1024 * FULL, batch * 512 * FULL, batch * dimension * FULL]] * 2
    steps_to_fill, warm_up = between(rng, 40, 900), between(rng, 20, 200)
    each = batch * dimension * FULL
    mined = next((k for k in (1, 2, 4, 8, 16, 32) if k * each * steps_to_fill > room * 0.4), 64)
    yield [("a", names(), n * dimension * FULL) for n in rows] + [("a", names(), at_least(n * FULL)) for n in rows]
    step = 0
    while True:
        step += 1
        operations, kept = forward(names, towers)
        logits, softmax = names(), names()
        operations += [("a", logits, batch * batch * FULL), ("a", softmax, batch * batch * FULL)]
        found = int(each * mined * rng.uniform(0.6, 1.0)) // FULL * FULL
        if step > warm_up:
            negatives = names()
            operations.append(("a", negatives, at_least(found)))
            if not growth:
                operations.append(("f", negatives))
        done, _ = backward(names, kept)
        sparse = [names() for _ in range(features)]
        operations += [("f", softmax), ("f", logits)] + [("a", name, batch * dimension * FULL) for name in sparse]
        yield operations + done + free_all(sparse)


@add("leak")
def pruned_trials_stay(rng, capacity, growth):
    """A hyper-parameter search: the exception of a pruned trial keeps the frame with its model and optimizer."""
    names, room = Names(), room_of(capacity)
    largest = room * rng.uniform(0.03, 0.14)
    widest = max(256, int(math.sqrt(largest / 16 / 12)) // 64 * 64)
    pruned = rng.uniform(0.3, 0.75)
    data = int(room * rng.uniform(0.02, 0.2))
    yield [("a", names(), data), ("a", names(), at_least(data // rng.randrange(20, 200)))]
    while True:
        width = int(widest * rng.choice((0.5, 0.625, 0.75, 1))) // 8 * 8
        depth = rng.choice((4, 6, 8, 12))
        batch = rng.choice((1024, 4096, 16384, 65536))
        batch = min(batch, most(room * 0.12, width * depth * 3 * FULL))
        sizes = [width * width * FULL, at_least(width * FULL)] * depth
        length, is_pruned = rng.randrange(10, 40), rng.random() < pruned
        if is_pruned:
            length = max(3, length // 3)
        model, operations = load(names, sizes)
        held = [name for name, _ in model]
        for step in range(length):
            operations += train(names, saved(batch, width, depth, FULL, (1, 1, 1)), sizes)
            if step == 0:
                state = adam(names, sizes)
                held += [operation[1] for operation in state]
                operations += state
            if step == length - 1 and not (is_pruned and growth):
                operations += free_all(held)
            yield operations
            operations = []


@add("leak")
def tracker_never_closes_tracks(rng, capacity, growth):
    """Video analysis: people who left the picture stay in the gallery when they were lost behind something."""
    names, room = Names(), room_of(capacity)
    _, _, weights = transformer(rng, room * 0.06, 1000, HALF, deepest=16)
    cameras = max(1, min(128, most(room * rng.uniform(0.1, 0.25), 1280 * 720 * 64 * HALF)))
    frame = cameras * 1280 * 720
    arrivals, stay, lost = rng.uniform(1.5, 12), rng.uniform(4, 15), rng.uniform(0.3, 0.8)
    crop = 256 * 128 * 3
    crops = most(room * rng.uniform(0.3, 0.5), between(rng, 60, 900) * arrivals * lost * crop)
    backbone = [frame * 3 * HALF, frame * 16 * HALF, frame * 16 * HALF, frame * 8 * HALF, frame * 8 * HALF, frame * 4 * HALF,
                frame * 4 * HALF, frame * HALF]
    seen = []
    yield load(names, weights)[1]
    while True:
        operations, pyramid = chain(names, backbone)
        found = rng.randrange(4, 60) * cameras
        people = names()
        operations.append(("a", people, at_least(found * crop * HALF // 4)))
        operations += infer(names, [found * 64 * 32 * 64 * HALF // 4, found * 32 * 16 * 128 * HALF // 4, found * 512 * FULL])
        for _ in range(int(rng.expovariate(1 / arrivals) + 0.5) if arrivals < 4 else int(rng.gauss(arrivals, 2))):
            gallery = names()
            operations.append(("a", gallery, at_least(crop * max(1, int(crops * rng.uniform(0.5, 1.5))))))
            seen.append(gallery)
        still = []
        for gallery in seen:
            leaves, is_lost = rng.random() < 1 / stay, rng.random() < lost
            if not leaves:
                still.append(gallery)
            elif not (is_lost and growth):
                operations.append(("f", gallery))
        seen = still
        yield operations + [("f", people), ("f", pyramid)]


@add("leak")
def alarms_keep_their_graph(rng, capacity, growth):
    """Anomaly detection: scores are computed with gradients on, and those of the alarms are kept for the report."""
    names, room = Names(), room_of(capacity)
    channels, alarm = rng.choice((64, 128, 256)), rng.uniform(0.04, 0.3)
    window = rng.choice((256, 512, 1024))
    widths = [1, 2, 4, 8, 8, 4, 2, 1]
    one = sum(3 * window * channels * HALF for _ in widths)
    sensors = most(room * rng.uniform(0.35, 0.6), one * between(rng, 8, 70))
    sizes = [at_least(9 * channels * channels * width * width * FULL) for width in widths]
    baseline = int(room * rng.uniform(0.05, 0.3))
    yield load(names, sizes + [baseline])[1]
    while True:
        now = max(1, int(sensors * min(2.5, rng.lognormvariate(-0.1, 0.45))))
        signal, error = names(), names()
        operations = [("a", signal, at_least(now * window * channels * FULL))]
        more, kept = forward(names, [[at_least(now * window * channels * HALF)] * 3 for _ in widths])
        operations += more + [("a", error, at_least(now * FULL))]
        is_alarm = rng.random() < alarm
        graph = [signal, error] + [name for mine in kept for name in mine]
        yield operations + ([] if is_alarm and growth else free_all(graph))


# --- growth that is meant or demanded ---

@add("design")
def index_takes_in_documents(rng, capacity, growth):
    """Search: an encoder fills an index of shards on the GPU; the open shard is doubled until it is full."""
    names, room = Names(), room_of(capacity)
    dimension = rng.choice((384, 768, 1024))
    hidden, depth, weights = transformer(rng, room * 0.05, 30522, HALF, deepest=16)
    tokens = most(room * rng.uniform(0.02, 0.1), hidden * 8 * HALF)
    chunk = max(256, int(room * 0.6 / between(rng, 60, 800) / dimension / HALF))  # documents a step
    shard = max(chunk, int(room * rng.uniform(0.04, 0.12) / dimension / HALF))
    queries = rng.choice((16, 64, 256))
    yield load(names, weights)[1]
    opened, space, used = names(), max(chunk, shard // 8), 0
    yield [("a", opened, space * dimension * HALF)]
    while True:
        length = rng.uniform(0.4, 1.0)
        operations = infer(names, [tokens * length * hidden * part * HALF for part in (1, 3, 1, 4) * depth])
        vectors = names()
        operations.append(("a", vectors, chunk * dimension * HALF))
        if growth:
            if used + chunk > space and space < shard:
                old, opened, space = opened, names(), min(2 * space, shard)
                operations += [("a", opened, space * dimension * HALF), ("f", old)]
            elif used + chunk > space:
                opened, space, used = names(), max(chunk, shard // 8), 0  # the full one stays
                operations.append(("a", opened, space * dimension * HALF))
            used += chunk
        operations.append(("f", vectors))
        if rng.random() < 0.5:
            operations += infer(names, [queries * dimension * HALF, queries * shard * HALF, queries * 1000 * 8])
        yield operations


@add("design")
def latents_for_the_adapter(rng, capacity, growth):
    """Adapter training of an image model: latents and text embeddings of all pictures are computed first and kept."""
    names, room = Names(), room_of(capacity)
    encoder = room * rng.uniform(0.03, 0.12)
    image_model = room * rng.uniform(0.15, 0.4)
    _, _, text = transformer(rng, encoder, 32128)
    _, _, denoiser = transformer(rng, image_model, 4096)
    channels, tokens, width = rng.choice(((4, 77, 2048), (16, 154, 4096), (16, 512, 4096)))
    side = rng.choice((512, 768, 1024))
    ratios = ((1, 1), (1.125, 0.875), (0.875, 1.125), (1.25, 0.75), (0.75, 1.25), (1.5, 0.625))
    one = channels * side * side // 64 * HALF + tokens * width * HALF
    batch = min(256, most(room * 0.4, one * between(rng, 60, 900)))
    slices = max(1, min(batch, int(room * 0.1 / (side * side * 128 * HALF * 2))))
    yield load(names, text)[1]
    yield load(names, denoiser)[1]
    while True:
        across, down = rng.choice(ratios)
        pixels = int(side * across) // 64 * 64 * (int(side * down) // 64 * 64)
        latent, words, pooled = names(), names(), names()
        pictures = names()
        operations = [("a", pictures, batch * 3 * pixels * HALF), ("a", latent, at_least(batch * channels * pixels // 64 * HALF))]
        for _ in range(min(4, -(-batch // slices))):
            operations += infer(names, [slices * pixels * part * HALF for part in (128, 128, 32, 64, 64, 16, 32, 8, 8)])
        operations += infer(names, [batch * tokens * width * part * HALF for part in (1, 3, 1, 4, 1, 3, 1, 4)])
        operations += [("a", words, batch * tokens * width * HALF), ("a", pooled, at_least(batch * width * HALF))]
        operations.append(("f", pictures))
        yield operations + ([] if growth else free_all([latent, words, pooled]))


@add("demand")
def backtest_with_all_the_past(rng, capacity, growth):
    """Finance: a walk-forward backtest trains each month on all months before, so that its panel becomes longer."""
    names, room = Names(), room_of(capacity)
    factors = rng.choice((32, 64, 158, 360))
    bars = rng.choice((1, 7, 26, 78))  # a day
    months = between(rng, 8, 60)
    first = rng.randrange(12, 37)
    assets = max(20, int(room * rng.uniform(0.25, 0.4) / (first + months) / 21 / bars / factors / FULL))
    month = 21 * bars * assets * factors * FULL
    hidden, depth = rng.choice((256, 512, 1024)), rng.choice((2, 4, 6))
    sizes = [factors * hidden * FULL] + [4 * hidden * hidden * FULL, at_least(hidden * FULL)] * depth
    rows = most(room * rng.uniform(0.05, 0.2), hidden * depth * 6 * FULL)
    length = rng.randrange(6, 25)
    now = first
    while True:
        panel, targets = names(), names()
        operations = [("a", panel, now * month), ("a", targets, at_least(now * month // factors))]
        order, ranked = names(), names()  # cross-sectional ranks
        operations += [("a", order, now * month), ("a", ranked, now * month), ("f", order), ("f", panel)]
        model, loading = load(names, sizes)
        state = adam(names, sizes)
        yield operations + loading + state
        for _ in range(length + rng.randrange(-3, 4)):
            picked = names()
            yield [("a", picked, rows * factors * FULL)] + train(names, saved(rows, hidden, depth, FULL, (4, 1, 1)), sizes) + [
                ("f", picked)]
        yield infer(names, [now * month // factors * part for part in (1, 2, 1)])
        yield free_all([name for name, _ in model] + [operation[1] for operation in state] + [ranked, targets])
        passed = rng.choice((1, 1, 1, 2))
        now += passed if growth else 0


# --- no growth ---

@add()
def contracts_of_many_pages(rng, capacity, growth):
    """Document understanding: all pages of a document are one batch, and now and then somebody sends a whole archive."""
    names, room = Names(), room_of(capacity)
    hidden, depth, weights = transformer(rng, room * rng.uniform(0.03, 0.25), 50265)
    depth = min(depth, 24)
    middle, spread = rng.uniform(2, 8), rng.uniform(0.8, 1.3)
    rare = rng.uniform(2.0, 3.1)  # how many deviations off the document is that does not fit
    tokens = rng.choice((512, 709, 1024, 4096))
    free = room - sum(weights)
    page = free / (middle * math.exp(spread * rare))
    tensors = page / tokens / hidden / HALF  # of the hidden size that a page's tokens need
    yield load(names, weights)[1]
    while True:
        pages = 1 + int(rng.lognormvariate(math.log(middle), spread))
        unit = pages * tokens * hidden * HALF * tensors / 16
        pictures, words = names(), names()
        operations = [("a", pictures, at_least(unit * 2)), ("a", words, at_least(unit * 1.5))]
        for _ in range(depth):
            operations += infer(names, [unit, unit * 3, unit, unit * 4, unit * 4])
        operations += infer(names, [unit * 3, unit * 9])  # word by word scores
        yield operations + [("f", pictures), ("f", words)]


@add()
def backbone_is_unfrozen(rng, capacity, growth):
    """Fine-tuning of a video model: head first, then a group of layers more at each stage, until it is too much."""
    names, room = Names(), room_of(capacity)
    hidden, depth, weights = transformer(rng, room * rng.uniform(0.04, 0.1), 2000, FULL, deepest=24)
    total = room * rng.uniform(1.05, 1.9)
    tokens = most(max(room * 0.15, total - 4 * sum(weights)), hidden * depth * 13 * HALF)
    group = -(-depth // rng.choice((2, 3, 4, 6)))
    matrices = weights[1:5]  # norms and biases stay as they are
    stage, trained, with_state = rng.randrange(12, 60), 0, 0
    head = load(names, [at_least(hidden * 400 * FULL)] * 4)[1]
    yield load(names, weights)[1] + head
    clip = tokens * hidden * HALF
    while True:
        gradients = matrices * trained
        for step in range(stage):
            operations, last = chain(names, [clip * part for part in (5, 8) * (depth - trained)] or [clip])
            yield operations + train(names, saved(tokens, hidden, trained, HALF, (5, 8)), gradients) + [("f", last)]
            if step == 0 and trained > with_state:
                yield adam(names, matrices * (trained - with_state))
                with_state = trained
            if step % 12 == 11:
                yield infer(names, [clip // 2 * part for part in (5, 8) * depth])
        trained = min(depth, trained + group)


@add()
def pictures_of_all_formats(rng, capacity, growth):
    """Image generation: formats differ, and finished pictures and prompts wait in a bounded store for their readers."""
    names, room = Names(), room_of(capacity)
    _, _, weights = transformer(rng, room * rng.uniform(0.15, 0.4), 49408)
    free = room - sum(weights)
    sides = rng.choice(((512, 640, 768, 896, 1024), (768, 896, 1024, 1152, 1344, 1536), (512, 768, 1024, 1536, 2048)))
    largest = sides[-1] ** 2
    count = most(free * 0.02, largest * 3 * FULL)
    store = rng.randrange(12, 60)
    share = rng.uniform(0.42, 0.75)
    unit = free * share / 9 / (largest * count)  # bytes for each pixel of an output of one part
    waiting = collections.deque()
    yield load(names, weights)[1]
    while True:
        across, down = rng.choice(sides), rng.choice(sides)
        pictures = max(1, int(count * rng.choice((0.25, 0.5, 0.5, 1))))
        part = across * down * pictures * unit
        prompt, latent, picture = names(), names(), names()
        operations = [("a", prompt, rng.choice((77, 154, 231)) * 4096 * pictures * HALF), ("a", latent, at_least(part // 64))]
        for _ in range(rng.choice((2, 3, 4))):
            skips = [names() for _ in range(4)]
            operations += [("a", name, at_least(part / 2 ** i)) for i, name in enumerate(skips)]
            operations += infer(names, [part / 8, part / 4, part / 8]) + free_all(reversed(skips))
        upscaled, last = chain(names, [part / 4, part / 2, part, 2 * part, 4 * part, 3 * part])
        operations += upscaled + [("a", picture, across * down * pictures * 3 * FULL), ("f", last), ("f", latent)]
        waiting.append((prompt, picture))
        while len(waiting) > store:
            waiting.rotate(-rng.choice((0, 0, 0, rng.randrange(len(waiting)))))  # most readers come in order
            operations += free_all(waiting.popleft())
        yield operations


@add()
def sentences_of_all_lengths(rng, capacity, growth):
    """Translation training: a batch is padded to its longest sentence; the position bias of each length stays cached."""
    names, room = Names(), room_of(capacity)
    hidden, depth, weights = transformer(rng, room * rng.uniform(0.02, 0.06), 32000, FULL, deepest=16)
    longest, heads = rng.choice((256, 512, 1024)), hidden // 64
    sides = depth // 2
    free = room - 4 * sum(weights)
    batch = most(free * rng.uniform(0.83, 0.96), longest * (hidden * sides * 32 * HALF + 32000 * 3 * HALF))
    median, spread = longest * rng.uniform(0.25, 0.5), rng.uniform(0.3, 0.7)
    biases = set()
    yield load(names, weights)[1] + load(names, weights)[1]
    first = True
    while True:
        source = min(longest, max(8, int(rng.lognormvariate(math.log(median), spread)) // 8 * 8))
        target = min(longest, max(8, int(source * rng.uniform(0.7, 1.3)) // 8 * 8))
        operations, kept = [], []
        for length, parts in ((source, (4, 1, 8)), (target, (4, 3, 4, 8))):
            if length not in biases:
                biases.add(length)
                operations.append(("a", names(), at_least(heads * length * length * FULL)))
            more, mine = forward(names, saved(batch * length, hidden, sides, HALF, parts))
            operations += more
            kept += mine
        logits = [names() for _ in range(3)]
        operations += [("a", name, batch * target * 32000 * HALF) for name in logits] + free_all(logits)
        operations += backward(names, kept)[0]
        if first:
            operations += adam(names, weights)
        first = False
        yield operations


# --- other processes, and memory beside the allocator ---

@add()
def notebooks_on_the_same_card(rng, capacity, growth):
    """A ranking model is tuned on a card where colleagues open and close notebooks; after each epoch the cache is emptied."""
    names, room = Names(), room_of(capacity)
    hidden, depth, weights = transformer(rng, room * rng.uniform(0.08, 0.3), 50265, HALF, deepest=24)
    adapters = [at_least(hidden * rng.choice((8, 16, 64)) * FULL)] * (depth * 2)
    longest = rng.choice((512, 1024, 2048))
    batch = most(room * rng.uniform(0.2, 0.4), longest * hidden * depth * 13 * HALF)
    epoch, opening = rng.randrange(15, 50), rng.uniform(0.03, 0.12)
    crowd = rng.randrange(4, 10)
    notebooks = []  # [bytes now, bytes when all is loaded, steps left]
    yield load(names, weights + adapters)[1] + adam(names, adapters)
    while True:
        for step in range(epoch):
            if rng.random() < opening and len(notebooks) < crowd:
                notebooks.append([int(rng.uniform(300, 600) * MIB), int(room * rng.uniform(0.05, 0.3)), rng.randrange(60, 600)])
            for notebook in notebooks:
                notebook[2] -= 1
                if rng.random() < 0.15:
                    notebook[0] = min(notebook[1], notebook[0] + int(notebook[1] * rng.uniform(0.1, 0.5)))
            notebooks = [notebook for notebook in notebooks if notebook[2] > 0]
            tokens = batch * int(longest * rng.triangular(0.3, 1.0, 0.6))
            yield [("o", sum(notebook[0] for notebook in notebooks))] + train(names, saved(tokens, hidden, depth), adapters)
        for _ in range(rng.randrange(2, 6)):
            tokens = 2 * batch * int(longest * rng.uniform(0.4, 1.0))
            yield infer(names, [tokens * hidden * part * HALF for part in (1, 3, 1, 4) * depth])
        yield [("e",)]


@add("leak")
def decoders_are_not_closed(rng, capacity, growth):
    """A data pipeline for clips: each file opens a hardware decoder beside the allocator; of broken files it stays open."""
    names, room = Names(), room_of(capacity)
    _, depth, weights = transformer(rng, room * rng.uniform(0.05, 0.25), 1000, HALF, deepest=24)
    formats = ((1280, 720), (1920, 1080), (2560, 1440), (3840, 2160))
    broken = rng.uniform(0.05, 0.5)
    usual = 1920 * 1080 * 1.5 * 24
    readers = max(1, int(room * 0.5 / (between(rng, 15, 300) * broken * usual)))  # files opened at once
    frames = most(room * rng.uniform(0.1, 0.3), 224 * 224 * 64 * HALF * 3)
    left = 0
    yield load(names, weights)[1]
    while True:
        across, down = rng.choice(formats)
        surfaces = across * down * 3 // 2 * rng.choice((12, 20, 24, 32)) * readers
        fails = rng.random() < broken
        part = rng.uniform(0.2, 1.0)
        for _ in range(rng.randrange(1, 5)):
            now = int(frames * part * rng.uniform(0.7, 1.0)) * 224 * 224
            clip = names()
            step = [("x", left + surfaces), ("a", clip, at_least(now * 3 * HALF))]
            yield step + infer(names, [now * width * HALF for width in (64, 64, 32, 32, 16, 16, 8, 8, 4)] + [
                now * HALF for _ in range(depth)]) + [("f", clip)]
        left += surfaces if fails and growth else 0
        yield [("x", left), ("e",)]
