# SPDX-License-Identifier: Apache-2.0
"""Programs of people at home and in small laboratories: chat, pictures, films, voices, music, games, robots, theses."""
import collections
import math

from program import (GIB, MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load, room_of,
                     sizes_of_model)

FAMILY = "unseen_isle"
KIB = 1 << 10


def add(intent="", weight=1):
    return generator(UNSEEN, FAMILY, intent, weight)


def between(rng, low, high):
    """A number of which each order of magnitude is as likely."""
    return 10 ** rng.uniform(math.log10(low), math.log10(high))


def pass_through(names, sizes):
    """A network without gradients: a layer's output lives until the next one has been computed."""
    operations, before = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size)))
        if before is not None:
            operations.append(("f", before))
        before = name
    return operations, before


class Desktop:
    """Compositor, browser and editor of the same machine: a few hundred MiB that come and go."""

    def __init__(self, rng, often=0.1):
        self.rng, self.often = rng, often
        self.base = rng.randrange(120, 500) * MIB

    def step(self, more=0):
        chance, windows = self.rng.random(), self.rng.randrange(0, 300) * MIB
        return [("o", self.base + windows + more)] if chance < self.often or more else []


class Trainer:
    """Weights, and from the first step on the two moments of Adam; gradients are dropped after each step."""

    def __init__(self, names, sizes):
        self.names, self.sizes = names, sizes
        self.weights, self.loading = load(names, sizes)
        self.moments = []

    def finish(self, kept):
        operations, gradients = backward(self.names, kept, self.sizes)
        if not self.moments:
            self.moments, more = load(self.names, [size for size in self.sizes for _ in range(2)])
            operations += more
        return operations + free_all(gradients)

    def step(self, layers, scale=1.0, temporaries=()):
        operations, kept = forward(self.names, layers, temporaries, scale)
        return operations + self.finish(kept)

    def drop(self):
        """Frees the optimizer."""
        gone, self.moments = self.moments, []
        return free_all(name for name, _ in gone)


# --- something is kept by mistake ---

@add("leak")
def chat_undo_keeps_branches(rng, capacity, growth):
    """A local chat window: "regenerate" puts the keys and values of the reply thrown away into an undo list."""
    names, desktop = Names(), Desktop(rng)
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.3, 0.6))))[1] + desktop.step()
    layers = rng.choice((12, 16, 24))
    context = rng.choice((4096, 8192, 16384))
    token = at_least(room * between(rng, 0.01, 0.08) / layers / 2 / context)
    hidden, chance = token * rng.choice((2, 4, 8)), rng.uniform(0.1, 0.4)
    cache, length = [], 0
    while True:
        operations = desktop.step()
        prompt, reply = int(rng.lognormvariate(4.8, 1.0)) + 8, int(rng.lognormvariate(5.6, 0.6)) + 8
        again, leaves, pasted = rng.random() < chance, rng.random() < 0.07, rng.randrange(200, 1500)
        if leaves or length + prompt + reply > context:
            operations += free_all(cache)
            cache, length = [], 0
            prompt += pasted
        work, last = pass_through(names, [hidden * prompt * part for part in (1, 3, 1, 4, 1)])
        operations += work + [("f", last)]
        length += prompt + reply
        larger = [names() for _ in range(2 * layers)]
        for i, name in enumerate(larger):
            operations.append(("a", name, token * length))
            if cache:
                operations.append(("f", cache[i]))
        if again:
            copies = [names() for _ in larger]
            operations += [("a", name, token * length) for name in copies]
            if not growth:
                operations += free_all(larger)
            larger = copies
        cache = larger
        yield operations


@add("leak")
def preview_node_of_a_graph(rng, capacity, growth):
    """A node editor for pictures: from some evening on, an added preview node keeps each picture and its latents."""
    names, desktop = Names(), Desktop(rng)
    room = room_of(capacity)
    weights = [int(room * rng.uniform(*share)) for share in ((0.2, 0.4), (0.05, 0.12), (0.01, 0.02))]
    yield [operation for total in weights for operation in load(names, sizes_of_model(rng, total, (6, 12)))[1]]
    installed, batch = int(between(rng, 5, 150)), max(1, capacity // (rng.choice((6, 12, 16)) * GIB))
    factor = rng.choice((1, 1, 2))
    formats = [(1024, 1024), (832, 1216), (1216, 832), (896, 1152), (1344, 768)]
    wide, high = rng.choice(formats)
    number = 0
    while True:
        number += 1
        changed, other, prompts = rng.random() < 0.25, rng.choice(formats), rng.randrange(1, 4)
        if changed:
            wide, high = other
        pixels = wide * high * batch
        operations = desktop.step()
        work, conditioning = pass_through(names, [77 * prompts * 4096 * part for part in (2, 8, 2, 8, 2)])
        latent = names()
        operations += work + [("a", latent, pixels // 64 * 4 * 4)]
        for _ in range(rng.choice((4, 4, 6))):
            work, noise = pass_through(names, [pixels // 64 * width * 2 for width in (320, 1280, 320, 640, 2560, 640, 320, 4)])
            following = names()
            operations += work + [("a", following, pixels // 64 * 4 * 4), ("f", latent), ("f", noise)]
            latent = following
        work, picture = pass_through(names, [pixels // 16 * 512, pixels // 4 * 512, pixels // 2 * 128, pixels * 128, pixels * 12])
        operations += work
        if factor > 1:
            work, larger = pass_through(names, [pixels * 16, pixels * 64, pixels * 12 * factor ** 2])
            operations += work + [("f", picture)]
            picture = larger
        operations.append(("f", conditioning))
        if not growth or number < installed:
            operations += free_all((picture, latent))
        yield operations


@add("leak")
def voice_samples_of_each_evaluation(rng, capacity, growth):
    """Fine-tuning a voice: each evaluation speaks some sentences, and keeps spectra and alignments for the plots."""
    names = Names()
    room = room_of(capacity)
    trainer = Trainer(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.09)), (3, 4, 6)))
    layers = activations_of(rng, int(room * rng.uniform(0.15, 0.35)), rng.choice((6, 8)))
    yield trainer.loading
    every, sentences = rng.choice((10, 20, 25, 50)), rng.randrange(4, 11)
    frame = max(2 * KIB, int(room * 0.45 / between(rng, 4, 20) / sentences / 500))
    number = 0
    while True:
        number += 1
        scale = min(1.0, rng.lognormvariate(-0.5, 0.3))
        operations = trainer.step(layers, scale)
        if number % every == 0:
            for _ in range(sentences):
                frames = rng.randrange(150, 900)
                work, spectrum = pass_through(names, [frames * frame * part for part in (0.5, 1, 0.5, 0.3)])
                alignment, waveform = names(), names()
                operations += work + [("a", alignment, at_least(frames * frame * 0.5)), ("a", waveform, at_least(frames * frame * 0.2)),
                                      ("f", waveform)]
                if not growth:
                    operations += free_all((spectrum, alignment))
        yield operations


@add("leak")
def rollout_values_never_cleared(rng, capacity, growth):
    """Game AI by PPO: clear() of the rollout forgets the lists of hidden states, values and logarithms."""
    names = Names()
    room = room_of(capacity)
    trainer = Trainer(names, sizes_of_model(rng, int(room * rng.uniform(0.005, 0.03)), (2, 4)))
    layers = activations_of(rng, int(room * rng.uniform(0.25, 0.5)), rng.choice((4, 6)))
    yield trainer.loading
    games, horizon = rng.choice((64, 128, 256, 512)), rng.choice((16, 32, 64))
    picture = at_least(room * rng.uniform(0.08, 0.2) / horizon)
    hidden = at_least(room * 0.35 / between(rng, 150, 2500))
    while True:
        screens = []
        for _ in range(horizon):
            screen, state, value, probability = names(), names(), names(), names()
            work, features = pass_through(names, [picture * part for part in (2, 1, 0.5, 0.1)])
            done = rng.random()
            operations = [("a", screen, picture), *work, ("a", state, hidden), ("a", value, at_least(games * 4)),
                          ("a", probability, at_least(games * 18 * 4)), ("f", features)]
            screens.append((screen, state, value, probability))
            if done < 0.02:  # a game is shown in full
                work, shown = pass_through(names, [picture * 0.3] * 3)
                operations += work + [("f", shown)]
            yield operations
        for _ in range(rng.choice((2, 3))):
            yield trainer.step(layers)
        kept = 1 if growth else 4
        yield [operation for parts in screens for operation in free_all(parts[:kept])]


# --- growth that is meant, or demanded ---

@add("design")
def replay_of_camera_pictures(rng, capacity, growth):
    """A hobby robot learns from its cameras: the replay memory takes what each attempt has seen, up to a million pictures."""
    names = Names()
    room = room_of(capacity)
    trainer = Trainer(names, sizes_of_model(rng, int(room * rng.uniform(0.005, 0.02)), (2, 3)))
    layers = activations_of(rng, int(room * rng.uniform(0.04, 0.15)), 4)
    side, cameras = rng.choice((84, 96, 128, 224)), rng.randrange(1, 4)
    seen = side * side * 3 * cameras
    attempts = between(rng, 20, 300)
    typical = max(10, int(room * 0.7 / attempts / seen))
    yield trainer.loading
    while True:
        moves = max(5, int(typical * rng.lognormvariate(-0.1, 0.5)))
        work, action = pass_through(names, [seen * 4, seen * 8, seen * 2, 512])
        operations = work + [("f", action)]
        attempt = [(names(), at_least(moves * size)) for size in (seen, 28, 4, 1)]
        if growth:
            operations += [("a", *part) for part in attempt]
        yield operations
        for _ in range(rng.randrange(2, 6)):
            batch = names()
            yield [("a", batch, seen * 4 * rng.choice((64, 128, 128)))] + trainer.step(layers) + [("f", batch)]


@add("design")
def splats_of_a_garden(rng, capacity, growth):
    """Photogrammetry by Gaussian splats: every so many steps splats are divided, and each tensor is made anew, larger."""
    names = Names()
    room = room_of(capacity)
    floats = (3, 3, 45, 3, 4, 1)
    splats = int(room * rng.uniform(0.03, 0.1) / (sum(floats) * 16))
    pixels = rng.choice((1, 2, 4, 8)) * 10 ** 6
    photographs = [names() for _ in range(rng.randrange(40, 200))]
    yield [("a", name, pixels * 3) for name in photographs]  # as bytes
    every, rate = rng.choice((20, 40, 50, 100)), rng.uniform(0.04, 0.15)
    tensors = []
    for width in floats:
        tensors += [(names(), width), (names(), width), (names(), width)]  # value and the two moments
    yield [("a", name, at_least(width * splats * 4)) for name, width in tensors]
    number = 0
    while True:
        number += 1
        seen = rng.uniform(0.2, 0.8)
        operations, picture = pass_through(names, [splats * 60 * seen, splats * 24 * seen * rng.uniform(1.5, 4), pixels * 16, pixels * 12])
        truth, similar = names(), names()
        operations += [("a", truth, pixels * 12), ("a", similar, pixels * 12)]
        gradients = [(names(), at_least(width * splats * 4)) for width in floats]
        operations += [("a", *gradient) for gradient in gradients]
        operations += free_all((picture, truth, similar)) + free_all(name for name, _ in gradients)
        if number % every == 0:
            share = rate * rng.uniform(0.5, 1.3)
            if growth:
                splats = int(splats * (1 + share))
            for i, (name, width) in enumerate(tensors):
                larger = names()
                operations += [("a", larger, at_least(width * splats * 4)), ("f", name)]
                tensors[i] = (larger, width)
        yield operations


@add("demand")
def longer_texts_by_plan(rng, capacity, growth):
    """A small language model from scratch: the plan lengthens the texts in stages, the batch stays."""
    names = Names()
    room = room_of(capacity)
    trainer = Trainer(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (4, 6)))
    yield trainer.loading
    stage, factor = int(between(rng, 8, 80)), rng.choice((1.25, 1.5, 2.0))
    first = rng.uniform(0.08, 0.2) * room
    layers = activations_of(rng, int(first * 0.8), rng.choice((6, 8)))
    logits, number, scale = int(first * 0.1), 0, 1.0
    while True:
        number += 1
        if number % stage == 0 and growth:
            scale *= factor
        operations, kept = forward(names, layers, [layers[0][0] // 2], scale)
        scores, loss = names(), names()
        operations += [("a", scores, int(logits * scale)), ("a", loss, int(logits * scale)), ("f", loss), ("f", scores)]
        operations += trainer.finish(kept)
        if number % 25 == 0:
            part = rng.uniform(0.3, 0.6)
            work, last = pass_through(names, [logits * scale * part] * 6)
            operations += work + [("f", last)]
        yield operations


@add("design")
def folds_kept_for_the_blend(rng, capacity, growth):
    """A Kaggle notebook: the best weights of each fold and seed stay on the GPU until they are blended at the end."""
    names = Names()
    room = room_of(capacity)
    kinds = [sizes_of_model(rng, int(room * between(rng, 0.008, 0.04)), (3, 4, 6)) for _ in range(rng.choice((1, 2, 3)))]
    layers = activations_of(rng, int(room * rng.uniform(0.1, 0.3)), rng.choice((4, 6)))
    yield [("a", names(), int(room * rng.uniform(0.01, 0.04)))]  # the test set
    fold, folds = 0, rng.choice((4, 5, 5, 10))
    while True:
        trainer = Trainer(names, kinds[fold // folds % len(kinds)])
        yield trainer.loading
        best = []
        for _ in range(rng.randrange(2, 5)):
            for _ in range(rng.randrange(2, 5)):
                yield trainer.step(layers, rng.choice((1.0, 1.0, 1.0, 0.6)))
            work, scores = pass_through(names, [layers[0][0] * rng.uniform(0.5, 1.5) for _ in range(4)])
            operations = work + [("f", scores)]
            if rng.random() < 0.6 or not best:  # better than before: a copy of the weights
                operations += free_all(name for name, _ in best)
                best, more = load(names, trainer.sizes)
                operations += more
            yield operations
        operations = trainer.drop() + free_all(name for name, _ in trainer.weights)
        if not growth:
            operations += free_all(name for name, _ in best)
        operations.append(("e",))
        fold += 1
        yield operations


# --- nothing grows ---

@add()
def clip_longer_than_the_decoder_bears(rng, capacity, growth):
    """Video generation: the sampler runs at every setting, but the decoder takes all frames at once."""
    names, desktop = Names(), Desktop(rng)
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.25, 0.45)), (12, 16, 24)))[1]
    settings = [(width * high / (832 * 480), frames) for width, high in ((832, 480), (960, 544), (1280, 720))
                for frames in (33, 49, 81, 121)]
    lengths, bold = [pixels * frames for pixels, frames in settings], between(rng, 0.01, 0.1)
    fits = rng.choice(lengths[5:9])
    unit = room * rng.uniform(0.42, 0.5) / fits  # bytes of a frame in the decoder's widest layers
    ordinary = [length for length in lengths if length <= fits]
    while True:
        length = rng.choice(lengths) if rng.random() < bold else rng.choice(ordinary)
        operations = desktop.step()
        latent = names()
        operations.append(("a", latent, at_least(unit * length / 200)))
        for _ in range(rng.choice((4, 5, 6))):
            work, noise = pass_through(names, [unit * length * part for part in (0.05, 0.15, 0.05, 0.2, 0.05, 0.005)])
            operations += work + [("f", noise)]
        if rng.random() < 0.8:
            work, frames = pass_through(names, [unit * length * part for part in (0.1, 0.2, 0.35, 0.5, 0.5, 0.06)])
            operations += work + [("f", frames)]
        yield operations + [("f", latent), ("e",)]


@add()
def old_film_in_scenes(rng, capacity, growth):
    """An old film is made larger: each scene has its own borders; features of a window of frames wait for their use."""
    names, desktop = Names(), Desktop(rng, 0.02)
    room = room_of(capacity) - 800 * MIB
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.005, 0.02)), (6, 8)))[1] + desktop.step()
    window = rng.randrange(8, 30)
    used = room * rng.uniform(0.95, 0.995)
    share = rng.uniform(0.4, 0.6)
    feature, wide = used * share / window / 2, used * (1 - share) / 4.1
    waiting = collections.deque()
    while True:
        cut = min(1.0, rng.uniform(0.6, 1.15))  # of the full picture
        for _ in range(int(rng.lognormvariate(2.8, 0.7)) + 3):
            operations = desktop.step()
            frame, flow = names(), names()
            while len(waiting) >= window:
                operations += free_all(waiting.popleft())
            operations += [("a", frame, int(feature * cut)), ("a", flow, int(feature * cut * rng.uniform(0.6, 1.0)))]
            waiting.append((frame, flow))
            work, larger = pass_through(names, [wide * cut * part for part in (0.3, 0.6, 1, 2, 2, 1.2)])
            yield operations + work + [("f", larger)]
        keep = rng.randrange(0, 4)  # across the cut
        yield [operation for _ in range(len(waiting) - keep) for operation in free_all(waiting.popleft())]


@add()
def voices_of_any_length(rng, capacity, growth):
    """Training speech on batches padded to their longest recording: linear layers, and attention that grows as its square."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.02, 0.06))
    trainer = Trainer(names, sizes_of_model(rng, weights, (3, 4)))
    yield trainer.loading
    depth = rng.choice((6, 8, 10))
    ahead = collections.deque()  # batches that the loader has sent already
    batch, waiting = int(room * rng.uniform(0.004, 0.012)), rng.randrange(3, 9)
    layer = (room * rng.uniform(0.955, 0.99) - 3.2 * weights - (waiting + 1) * batch) / depth
    square, parts = rng.uniform(0.2, 0.5), [rng.choice((0.5, 1, 1, 2)) for _ in range(rng.randrange(4, 7))]
    usual, spread = rng.uniform(-0.35, -0.05), rng.uniform(0.2, 0.4)
    while True:
        operations, kept = [], []
        while len(ahead) < waiting:
            length = min(1.0, max(0.15, rng.lognormvariate(usual, spread)))
            ahead.append((names(), length))
            operations.append(("a", ahead[-1][0], at_least(batch * length)))
        mine, length = ahead.popleft()
        texts = min(1.0, length * rng.uniform(0.7, 1.2))
        kept.append([mine])
        for number in range(depth):
            if number == depth // 2:  # the loader's next batch comes during the step
                following = min(1.0, max(0.15, rng.lognormvariate(usual, spread)))
                ahead.append((names(), following))
                operations.append(("a", ahead[-1][0], at_least(batch * following)))
            sizes = [layer * (1 - square) * length * part / sum(parts) for part in parts]
            sizes += [layer * square * length * texts * part for part in (0.6, 0.4)]
            mine = [(names(), at_least(size)) for size in sizes]
            operations += [("a", *each) for each in mine]
            kept.append([name for name, _ in mine])
        yield operations + trainer.finish(kept)


@add()
def thesis_on_graphs_with_a_queue(rng, capacity, growth):
    """A thesis on molecules: batches of graphs of any size, and a queue of the last embeddings as negatives, each its own tensor."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.003, 0.01)), (3, 4)))[1]
    places = rng.randrange(60, 300)
    total = room * rng.uniform(0.05, 0.25)
    depth, queue = rng.choice((4, 5, 6)), collections.deque()
    layer = (room * rng.uniform(0.88, 0.95) - total) / (depth + 0.5)
    usual, spread = rng.uniform(-1.2, -0.6), rng.uniform(0.3, 0.6)
    while True:
        edges = min(1.0, rng.lognormvariate(usual, spread))
        nodes = edges * rng.uniform(0.6, 1.0)
        operations, kept = [], []
        for _ in range(depth):
            message, gathered, state = names(), names(), names()
            operations += [("a", gathered, at_least(layer * 0.5 * edges)), ("a", message, at_least(layer * 0.3 * edges)),
                           ("a", state, at_least(layer * 0.2 * nodes))]
            kept.append([gathered, message, state])
        embedding = names()
        operations.append(("a", embedding, at_least(total / places * rng.uniform(0.5, 1.0))))
        queue.append(embedding)
        if len(queue) > places:
            operations.append(("f", queue.popleft()))
        for mine in reversed(kept):
            gradient = names()
            operations += [("a", gradient, at_least(layer * 0.5 * edges)), ("f", gradient)] + free_all(mine)
        yield operations


# --- memory that the allocator does not hold ---

@add()
def assistant_beside_a_game(rng, capacity, growth):
    """A local coding assistant gives its cache back after each answer; in the evening a game or a renderer takes its place."""
    names, desktop = Names(), Desktop(rng, 0.3)
    room = room_of(capacity) - 800 * MIB
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.3, 0.55)), (12, 16)))[1] + desktop.step()
    layers = rng.choice((12, 16, 24))
    context, hidden = room * rng.uniform(0.1, 0.25) / layers / 2, room * rng.uniform(0.02, 0.06)
    evening = int(between(rng, 15, 300))
    game, lasts = rng.uniform(0.4, 0.75) * capacity, rng.randrange(10, 60)
    number, other = 0, 0
    while True:
        number += 1
        since = number - evening
        trailer = rng.random() < 0.02
        if 0 <= since % max(evening, 2 * lasts) < lasts and since >= 0:
            other = min(game, other + game * rng.uniform(0.1, 0.5))  # it loads its levels
        else:
            other = int(rng.uniform(0.01, 0.04) * capacity) if trailer else 0
        operations = desktop.step(int(other))
        length = min(1.0, rng.lognormvariate(-1.5, 0.7))
        cache = [(names(), at_least(context * length)) for _ in range(2 * layers)]
        operations += [("a", *each) for each in cache]
        for _ in range(rng.randrange(1, 4)):
            work, last = pass_through(names, [hidden * length * part for part in (0.5, 1, 0.5, 0.2)])
            operations += work + [("f", last)]
        yield operations + free_all(name for name, _ in cache) + [("e",)]


@add("leak")
def stems_with_a_second_runtime(rng, capacity, growth):
    """Songs are taken apart: a second runtime finds the pitch, and of some songs its session is never closed."""
    names, desktop = Names(), Desktop(rng)
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.1)), (4, 6, 8)))[1]
    songs = max(1, capacity // (rng.choice((8, 16, 32)) * GIB))
    arena = int(rng.uniform(0.03, 0.08) * room)
    forgotten = rng.choice((0.15, 0.4, 1.0))
    session = room * 0.6 / between(rng, 12, 200) / forgotten
    held = 0
    while True:
        seconds = min(600, int(rng.lognormvariate(5.3, 0.35)))
        sound = seconds * 44100 * 2 * 4
        mix, stems = names(), names()
        operations = desktop.step() + [("a", mix, sound * songs), ("a", stems, sound * 4 * songs)]
        for _ in range(min(8, 1 + seconds // 40)):
            work, part = pass_through(names, [room * share for share in (0.005, 0.02, 0.04, 0.02, 0.005)])
            operations += work + [("f", part)]
        size, closed = int(session * rng.uniform(0.6, 1.4)), rng.random() >= forgotten
        if growth and not closed:
            held += size
        yield operations + [("x", arena + held)] + free_all((stems, mix))
