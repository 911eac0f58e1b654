# SPDX-License-Identifier: Apache-2.0
"""Small companies and makers: one card, or a few, that has to do for everything."""
import collections
import dataclasses
import functools
import itertools
import math
import random

from program import (GIB, MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all,
                     generator, load, room_of)

add = functools.partial(generator, UNSEEN, "unseen_loft")

KIB = 1 << 10

# Language models: layers, width, inner width, width of the queries, of the keys, words.
CHAT_MODELS = (
    (22, 2048, 5632, 2048, 256, 32000),
    (16, 2048, 8192, 2048, 512, 128256),
    (28, 3072, 8192, 3072, 1024, 128256),
    (32, 4096, 11008, 4096, 4096, 32000),
    (32, 4096, 14336, 4096, 1024, 128256),
    (40, 5120, 13824, 5120, 5120, 32000),
    (40, 5120, 32768, 4096, 1024, 131072),
    (64, 5120, 27648, 5120, 1024, 152064),
    (80, 8192, 28672, 8192, 1024, 128256),
)

# Models of pictures: bytes of text encoders, denoiser, decoder; channels of the denoiser.
PICTURE_MODELS = (
    (235 * MIB, 1640 * MIB, 160 * MIB, 320),
    (1560 * MIB, 4900 * MIB, 160 * MIB, 640),
    (4700 * MIB, 11300 * MIB, 160 * MIB, 1536),
    (9100 * MIB, 22700 * MIB, 160 * MIB, 3072),
)


# --- language models ---

@dataclasses.dataclass(frozen=True)
class Chat:
    layers: int
    width: int
    inner: int
    queries: int
    keys: int
    words: int
    stored: float        # bytes of a parameter

    def weights(self):
        layer = [self.width * self.queries, self.width * self.keys, self.width * self.keys,
                 self.queries * self.width, self.width * self.inner, self.width * self.inner,
                 self.inner * self.width]
        norm = at_least(2 * self.width)
        sizes = [2 * self.words * self.width]
        for _ in range(self.layers):
            sizes += [int(each * self.stored) for each in layer] + [norm, norm]
        if self.width > 3072:
            sizes.append(2 * self.words * self.width)
        return sizes

    @property
    def total(self):
        return sum(self.weights())

    @property
    def token(self):
        """Bytes that a token leaves in the cache, keys and values of all layers."""
        return self.layers * 2 * self.keys * 2


def choose_chat(rng, room, share):
    """One of the largest models that fit into the share; quantised, if it must be."""
    models = [Chat(*shape, stored) for shape in CHAT_MODELS for stored in (2, 1.03, 0.56)]
    models = sorted((m for m in models if m.total <= share * room), key=lambda m: m.total)
    return rng.choice(models[-5:])


def load_chat(names, chat):
    """Weights in their order. If they are quantised on the card, each comes in full first."""
    operations = []
    for size in chat.weights():
        name = names()
        if chat.stored < 2 and size > MIB:
            full = names()
            operations += [("a", full, int(size * 2 / chat.stored)), ("a", name, size),
                           ("f", full)]
        else:
            operations.append(("a", name, size))
    return operations


def passing(names, sizes, stream=0):
    """All at once, and gone in the reverse order."""
    mine = [names() for _ in sizes]
    return ([("a", name, at_least(size), stream) for name, size in zip(mine, sizes)]
            + free_all(reversed(mine)))


def chain(names, sizes, stream=0):
    """Each is made from the one before, which goes then."""
    operations, before = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size), stream))
        if before is not None:
            operations.append(("f", before))
        before = name
    return operations + [("f", before)]


def read_prompt(names, chat, tokens):
    """The passing memory of a prompt: two layers stand for all, as the next ones use it again."""
    tokens = min(tokens, 8192)
    hidden = tokens * chat.width * 2
    states = names()
    operations = [("a", states, at_least(hidden))]
    for _ in range(2):
        operations += passing(names, (2 * hidden, tokens * chat.queries * 2, hidden))
        operations += passing(names, (hidden, tokens * chat.inner * 2, tokens * chat.inner * 2))
    operations += passing(names, (chat.words * 4,))
    return operations + [("f", states)]


def write_words(names, chat, users):
    """A few words for each of the users."""
    return passing(names, (users * chat.width * 2, users * chat.inner * 4,
                           users * chat.words * 2, users * chat.words * 4))


@add()
def chat_turns_concatenated(rng, capacity, _growth):
    """Conversations stay between the turns; every stretch of words makes each cache anew, longer.

    The least recent conversations go when all of them would have too many tokens.
    """
    names = Names()
    room = room_of(capacity)
    chat = choose_chat(rng, room, rng.uniform(0.25, 0.55))
    yield load_chat(names, chat)
    users = rng.randrange(4, 15)
    kinds = rng.choice((1, 1, 2))               # keys and values in one tensor, or in two
    left = room - chat.total
    passes = min(8192, left // (60 * chat.token)) * (chat.inner * 4 + chat.width * 10)
    budget = int((left - passes) * rng.uniform(0.6, 0.88))
    mean = min(budget // users // chat.token, 130_000)
    budget = min(budget, mean * users * chat.token)
    favourites = [rng.lognormvariate(0, 0.8) for _ in range(2 * users)]
    stretches = rng.randrange(1, 3)
    talks = collections.OrderedDict()
    held = 0
    while True:
        user = rng.choices(range(len(favourites)), favourites)[0]
        asked = max(8, int(mean * rng.lognormvariate(-1.6, 0.8)))
        told = max(8, int(mean * rng.lognormvariate(-2.0, 0.6)))
        operations = []
        tokens, mine = talks.pop(user, (0, []))
        held -= tokens * chat.token
        if tokens + asked + told > 3 * mean:
            operations += free_all(mine)
            tokens, mine = 0, []
            asked = min(asked, mean)
        while talks and held + (tokens + asked + told) * chat.token > budget:
            _, (less, gone) = talks.popitem(last=False)
            operations += free_all(gone)
            held -= less * chat.token
        operations += read_prompt(names, chat, min(asked, left // (60 * chat.token)))
        for more in [asked] + [told // stretches] * stretches:
            tokens += more
            longer = []
            for i in range(kinds * chat.layers):
                name = names()
                operations.append(("a", name, at_least(tokens * chat.keys * 4 // kinds)))
                if mine:
                    operations.append(("f", mine[i]))
                longer.append(name)
            mine = longer
            operations += write_words(names, chat, 1)
        talks[user] = (tokens, mine)
        held += tokens * chat.token
        yield operations


@add(intent="demand")
def chat_evening(rng, capacity, growth):
    """A chat server that has more and more visitors towards the evening.

    Each has a cache of a fixed length, which goes when the answer is done, so nothing is kept.
    """
    names = Names()
    room = room_of(capacity)
    chat = choose_chat(rng, room, rng.uniform(0.2, 0.6))
    yield load_chat(names, chat)
    lengths = rng.choice(((512, 1024, 2048, 4096), (1024, 4096, 8192), (2048,),
                          (256, 512, 768, 1024)))
    usual = sum(lengths) / len(lengths)
    left = room - chat.total
    stays = rng.uniform(6, 30)
    quiet = max(1.0, left * rng.uniform(0.08, 0.3) / (usual * chat.token))
    peak = left * rng.uniform(1.2, 2.5) / (usual * chat.token)
    if quiet > 160:      # a small model on a large card: answers come in batches
        batch = math.ceil(quiet / 80)
    else:
        batch = 1
    begin, rise = rng.randrange(30, 250), rng.randrange(80, 700)
    curved = rng.uniform(0.7, 2.0)
    seed = rng.getrandbits(40)
    running = []
    number = 0
    waiting = 0.0
    for step in itertools.count():
        at_once = quiet
        if growth:
            at_once += (peak - quiet) * min(1.0, max(0, step - begin) / rise) ** curved
        waiting += at_once / batch / stays
        operations = []
        while waiting >= 1:
            waiting -= 1
            number += 1
            visitor = random.Random(seed + number)
            length = visitor.choice(lengths)
            lasts = max(2, int(stays * visitor.lognormvariate(-0.12, 0.5)))
            mine = [names(), names()]
            operations += [("a", name, batch * length * chat.token // 2) for name in mine]
            operations += read_prompt(names, chat, int(length * visitor.uniform(0.1, 0.6)))
            running.append((step + lasts, mine))
        operations += write_words(names, chat, max(1, len(running) * batch))
        for _, mine in (r for r in running if r[0] <= step):
            operations += free_all(mine)
        running = [r for r in running if r[0] > step]
        yield operations


# --- pictures ---

def choose_picture_model(rng, room, share):
    models = [m for m in PICTURE_MODELS if sum(m[:3]) <= share * room]
    return rng.choice(models[-2:])


def even_parts(rng, total, about):
    """The weights of one component: many of a few sizes."""
    count = max(6, about + rng.randrange(-about // 4, about // 4 + 1))
    shapes = [rng.choice((0.05, 0.25, 0.5, 1, 1, 1, 2, 4)) for _ in range(count)]
    return [at_least(total * shape / sum(shapes)) for shape in shapes]


def denoise(names, edge_x, edge_y, channels, steps, frames=1, extra=()):
    """Steps of a denoiser: a batch of two for the guidance, skips across the middle."""
    spots = (edge_x // 8) * (edge_y // 8) * 2 * frames
    latent = names()
    operations = [("a", latent, at_least(spots * 4 * 2))]
    for _ in range(steps):
        skips, hints = [], []
        for net in extra:
            hint = [names() for _ in range(4)]
            operations += [("a", name, at_least(spots * channels * 2 >> (2 * i)))
                           for i, name in enumerate(hint)]
            operations += chain(names, [spots * net * 2] * 2)
            hints += hint
        for level in range(3):
            size = spots * channels * 2 >> (2 * level)
            skip = names()
            operations += chain(names, (size, size << level))
            operations.append(("a", skip, at_least(size << level)))
            operations += passing(names, (size << level, 4 * size << level))
            skips.append((skip, size << level))
        operations += free_all(hints)
        for skip, size in reversed(skips):
            operations += passing(names, (2 * size, size)) + [("f", skip)]
        fresh = names()
        operations += [("a", fresh, at_least(spots * 4 * 2)), ("f", latent)]
        latent = fresh
    return operations, latent


def decode(names, edge_x, edge_y, frames=1, stream=0):
    """The decoder at full size, and the picture in single precision, whose name comes along."""
    spots = edge_x * edge_y * frames
    picture = names()
    operations = chain(names, (spots * 8 * 2, spots * 32 * 2, spots * 128 * 2, spots * 128 * 2,
                               spots * 128 * 2), stream)
    return operations + [("a", picture, at_least(spots * 3 * 4), stream)], picture


@add(intent="design")
def lora_shelf(rng, capacity, growth):
    """A shop for pictures keeps each LoRA that an order names on the card; some shops have a bound.

    Well known ones come again, so new ones become rare. Some bounds are small enough for the card.
    """
    names = Names()
    room = room_of(capacity)
    text, denoiser, decoder, channels = choose_picture_model(rng, room, 0.6)
    sizes = (even_parts(rng, text, 60) + even_parts(rng, denoiser, 160)
             + even_parts(rng, decoder, 30))
    yield load(names, sizes)[1]
    left = room - sum(sizes)
    modules = rng.randrange(16, 60)
    wanted = rng.randrange(25, 160)          # so many fill the card
    ranks = rng.choice(((4, 8, 16, 32, 64), (16, 32), (8, 16, 32, 128), (32,)))
    unit = left * rng.uniform(0.55, 0.8) / wanted / modules / 2 / (1.8 * sum(ranks) / len(ranks))
    bound = rng.choice((None, None, int(wanted * rng.uniform(0.15, 0.4)),
                        int(wanted * rng.uniform(1.5, 3))))
    novelty = rng.uniform(0.5, 1.5) * wanted
    edges = rng.sample(((512, 512), (768, 512), (640, 640), (768, 768), (1024, 768), (832, 1216),
                        (1024, 1024)), rng.randrange(2, 6))
    limit = left * 0.2 / (128 * 2 * 2.2)
    edges = [e for e in edges if e[0] * e[1] <= limit] or [(512, 512)]
    shelf = collections.OrderedDict()
    known = 0
    with_hints = rng.random() < 0.4
    while True:
        operations, borrowed = [], []
        edge_x, edge_y = rng.choice(edges)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            new = rng.random() < novelty / (novelty + known)
            rank = rng.choice(ranks)
            scales = [rng.choice((1, 1, 1, 2, 4)) for _ in range(modules)]
            seen = rng.random()
            if new or not known:
                which = known
                known += 1
            else:
                which = int(known * seen * seen)
            if which in shelf:
                shelf.move_to_end(which)
                continue
            mine = [names() for _ in range(2 * modules)]
            operations += [("a", name, at_least(unit * rank * scales[i // 2]))
                           for i, name in enumerate(mine)]
            if growth:
                shelf[which] = mine
            else:
                borrowed += mine
        while bound and len(shelf) > bound:
            operations += free_all(shelf.popitem(last=False)[1])
        extra = (channels // 2,) if with_hints and rng.random() < 0.3 else ()
        work, latent = denoise(names, edge_x, edge_y, channels, 2, extra=extra)
        shown, picture = decode(names, edge_x, edge_y)
        yield operations + work + shown + free_all([latent, picture] + borrowed)


@add()
def order_of_a_poster(rng, capacity, _growth):
    """Pictures and clips of usual sizes, then a poster or a long clip with all controls.

    Some shops move each part of the model to the card only while it works.
    """
    names = Names()
    room = room_of(capacity)
    text, denoiser, decoder, channels = choose_picture_model(rng, room, 0.65)
    controls = [denoiser // rng.choice((3, 4, 8)) for _ in range(rng.randrange(1, 4))]
    parts = {"text": even_parts(rng, text, 40), "denoiser": even_parts(rng, denoiser, 70),
             "decoder": even_parts(rng, decoder, 24)}
    while sum(map(sum, parts.values())) + sum(controls) > 0.7 * room:
        controls.pop()
    for i, size in enumerate(controls):
        parts[f"control {i}"] = even_parts(rng, size, 30)
    moves = rng.random() < 0.45
    clips = rng.random() < 0.5
    left = room - sum(map(sum, parts.values()))
    spot = max(530, 0.43 * channels)
    large = left * rng.uniform(0.35, 0.6) / spot          # the spots of a large usual order
    rare = rng.uniform(0.01, 0.08)
    first_rare = rng.randrange(15, 100)
    steps = rng.randrange(1, 4)
    stays = {}
    if not moves:
        opening = []
        for label, sizes in parts.items():
            kept, operations = load(names, sizes)
            stays[label] = kept
            opening += operations
        yield opening
    else:
        yield passing(names, parts["text"])
    done = 0

    def with_part(label, work):
        if label in stays:
            return work
        kept, operations = load(names, parts[label])
        return operations + work + free_all([name for name, _ in kept])

    while True:
        frames = rng.choice((9, 17, 25, 49)) if clips else rng.choice((1, 1, 2, 4))
        share = rng.uniform(0.1, 1.0) ** 1.5
        shape = rng.choice((1.0, 1.0, 4 / 3, 3 / 4, 16 / 9, 9 / 16))
        used = rng.randrange(len(controls) + 1)
        chance, beyond = rng.random(), rng.uniform(2.2, 6)
        if done >= first_rare and chance < rare:
            share, used = beyond, len(controls)
        spots = large * share / frames
        edge_x = max(64, int((spots * shape) ** 0.5) // 64 * 64)
        edge_y = max(64, int((spots / shape) ** 0.5) // 64 * 64)
        context = names()
        operations = [("a", context, 2 * 77 * 4096 * 2)]
        operations += with_part("text", passing(names, (2 * 77 * 4096 * 8, 2 * 77 * 4096 * 2)))
        work, latent = denoise(names, edge_x, edge_y, channels, steps, frames,
                               [channels // 2] * used)
        for i in range(used):
            work = with_part(f"control {i}", work)
        operations += with_part("denoiser", work)
        shown, picture = decode(names, edge_x, edge_y, frames)
        operations += with_part("decoder", shown)
        done += 1
        yield operations + free_all([context, latent, picture])


@add()
def upscaler_tiles(rng, capacity, _growth):
    """An upscaler goes over old photos in tiles, so that any photo fits; the canvas is on the card.

    Finished canvases wait for the encoder, a few at most.
    """
    names = Names()
    room = room_of(capacity)
    sizes = even_parts(rng, rng.choice((34, 67, 134, 1700)) * MIB, 120)
    yield load(names, sizes)[1]
    scale = rng.choice((2, 4, 4))
    left = room - sum(sizes)
    edge = rng.choice((192, 256, 400, 512, 768))
    overlap = rng.choice((8, 10, 16, 32))
    while (edge + 2 * overlap) ** 2 * (64 * 2 * 6 + scale * scale * 64 * 4) > 0.25 * left:
        edge //= 2
    largest = left * rng.uniform(0.1, 0.26)               # of a canvas
    waits = rng.randrange(0, 3)
    empties = rng.random() < 0.3
    whole = rng.random() < 0.3
    queue = collections.deque()
    while True:
        canvas_size = largest * min(1.0, rng.lognormvariate(-0.9, 0.7))
        shape = rng.choice((1.5, 1.5, 4 / 3, 1.0, 0.75, 2 / 3, rng.uniform(0.4, 2.5)))
        high = max(200, int((canvas_size / 12 / shape) ** 0.5 / scale))
        wide = max(200, int(high * shape))
        photo, canvas = names(), names()
        operations = [("a", photo, at_least(high * wide * 12)),
                      ("a", canvas, at_least(high * wide * 12 * scale * scale))]
        tiles = [(min(edge, high - y), min(edge, wide - x))
                 for y in range(0, high, edge) for x in range(0, wide, edge)]
        if len(tiles) > 12:      # the ones inside are all alike
            tiles = tiles[:6] + tiles[-6:]
        for tall, broad in tiles:
            spots = (tall + 2 * overlap) * (broad + 2 * overlap)
            block = [names() for _ in range(3)]
            operations += [("a", name, at_least(spots * 64 * 2)) for name in block]
            for grown in (96, 128, 160, 192):
                operations += passing(names, (spots * grown * 2, spots * 32 * 2))
            operations += chain(names, (spots * scale * scale * 64 * 2,
                                        spots * scale * scale * 64 * 2,
                                        spots * scale * scale * 3 * 4))
            operations += free_all(block)
        operations.append(("f", photo))
        if whole:
            operations += passing(names, (high * wide * 3 * scale * scale,))
        queue.append(canvas)
        while len(queue) > waits:
            operations.append(("f", queue.popleft()))
        if empties:
            operations.append(("e",))
        yield operations


# --- voices ---

@add(intent="leak")
def voices_by_temporary_name(rng, capacity, growth):
    """A speaker's features are kept by the file's name, but each upload gets a new name.

    So they are never found again, and never go. In small shops a chat model has most of the card.
    """
    names = Names()
    room = room_of(capacity)
    sizes = even_parts(rng, rng.choice((900, 1800, 2400)) * MIB, 180)
    zero_shot = rng.random() < 0.5
    free = rng.uniform(0.25, 0.7) * room - sum(sizes)
    if not zero_shot:
        free = min(free, rng.uniform(0.8, 3) * GIB)
    layers = rng.choice((16, 24, 30)) if zero_shot else 0
    uploads = rng.uniform(0.25, 1.0)
    batch_seconds = rng.uniform(4, 15)
    each = 2 * KIB + 128 * KIB + 320 * KIB + layers * 2 * 2048 * int(batch_seconds * 25)
    steps = 10 ** rng.uniform(1.9, 2.8)
    most = max(1, int((65_000 / steps - 75) / (10 + 4 * layers)))       # in a step
    free = max(0.4 * GIB, min(free, most * steps * uploads * each))
    pool = int(room - sum(sizes) - free - min(0.15 * room, 2.5 * GIB))
    operations = load(names, sizes)[1]
    if pool > GIB:
        operations += [("a", names(), pool // 64) for _ in range(64)]
    yield operations
    together = max(1, min(most, round(free / each / steps / uploads)))
    sentences = rng.randrange(1, 5)
    begin = rng.choice((0, 0, rng.randrange(10, 60)))
    usual_seconds = rng.uniform(4, 9)
    step = 0
    while True:
        operations = []
        for _ in range(together):
            seconds = max(1.5, batch_seconds * rng.lognormvariate(-0.1, 0.45))
            frames = int(seconds * 94)
            voice = [(names(), 2 * KIB), (names(), 128 * KIB), (names(), at_least(frames * 320))]
            voice += [(names(), at_least(int(seconds * 25) * 2048)) for _ in range(2 * layers)]
            operations += [("a", name, size) for name, size in voice]
            operations += passing(names, (int(seconds * 24000) * 4, frames * 1024 * 4))
            unknown = rng.random() < uploads
            if not (unknown and growth and step >= begin):
                operations += free_all([name for name, _ in voice])
        for _ in range(sentences):
            seconds = usual_seconds * rng.uniform(0.3, 1.7)
            codes = int(seconds * 25) * min(together, 8)
            cache = [names() for _ in range(8)]
            operations += [("a", name, at_least(codes * 1024 * 8)) for name in cache]
            operations += chain(names, (codes * 4096, codes * 8 * 2048, codes * 64 * 1024,
                                        codes * 960 * 32, codes * 960 * 4))
            operations += free_all(cache)
        step += 1
        yield operations


# --- robots ---

@add(intent="leak")
def simulator_scenes(rng, capacity, growth):
    """A policy learns in a simulator on the same card, which loads a new scene now and then.

    The simulator has its memory beside PyTorch, and gives back only a part of a scene's textures.
    """
    names = Names()
    room = room_of(capacity)
    policy = even_parts(rng, int(room * 10 ** rng.uniform(-3, -1.1)), 24)
    states = [size for size in policy for _ in range(2)]
    robots = rng.choice((16, 64, 256, 1024, 4096))
    rollout = int(room * rng.uniform(0.05, 0.25))
    pictures = rng.random() < 0.6
    kept, operations = load(names, policy)
    operations += load(names, states)[1]
    buffers = (0.8, 0.1, 0.04, 0.02, 0.02, 0.02) if pictures else (0.4, 0.2, 0.2, 0.1, 0.1)
    operations += [("a", names(), at_least(rollout * share)) for share in buffers]
    base = int(min(room * rng.uniform(0.05, 0.2), 400 * MIB + robots * 3 * MIB))
    yield operations + [("x", base)]
    batches = rng.randrange(1, 4)
    layers = activations_of(rng, int(room * rng.uniform(0.03, 0.15)), rng.choice((3, 4, 6)))
    every = rng.randrange(2, 12)
    begin = rng.choice((0, 0, rng.randrange(20, 120)))
    left = rng.uniform(0.2, 0.7)
    scenes = 10 ** rng.uniform(1.6, 2.4) / every          # so many fill the card
    empties = rng.random() < 0.5                           # before a scene is loaded
    longest = rng.uniform(1.05, 1.4)                       # of the episodes
    scene = int(min(0.08 * room, room * 0.6 / left / scenes))
    lost = 0
    now = scene
    for step in itertools.count(1):
        operations = []
        if step % every == 0:
            old, now = now, int(scene * rng.lognormvariate(-0.2, 0.5))
            share = left * rng.uniform(0.6, 1.3)
            if growth and step >= begin:
                lost += int(old * min(1.0, share))
            if empties:
                operations.append(("e",))
            operations.append(("x", base + lost + now + now // 8))     # while it loads
        operations.append(("x", base + lost + now))
        for _ in range(rng.randrange(3, 6)):                       # a stretch of the rollout
            operations += passing(names, (rollout // 24, robots * 4096, robots * 512, robots * 64))
        for _ in range(batches):
            length = rng.triangular(0.5, longest, 0.8)
            work, mine = forward(names, layers, [layers[0][0] // 2], length)
            back, gradients = backward(names, mine, policy)
            operations += work + back + free_all(gradients)
        if pictures and rng.random() < 0.1:
            operations += passing(names, (rollout // 8,))          # a film for the log
        yield operations


# --- the shop ---

@add(intent="demand")
def shop_catalogue(rng, capacity, growth):
    """A recommender whose catalogue grows with each import: table, its optimizer's state, scores.

    An import makes a larger table, copies the old one into it, and lets the old one go.
    """
    names = Names()
    room = room_of(capacity)
    columns = rng.choice((32, 64, 64, 128, 256))
    share = rng.uniform(0.2, 0.5)
    tables = 3                                  # table, first and second moment
    rows = room * share / (columns * 4 * (tables + 1))
    shoppers = int(max(8, room * rng.uniform(0.02, 0.15) / (rows * 4)))
    dense = rng.random() < 0.7                  # gradients of the whole table
    rate = 10 ** rng.uniform(-2.2, -1.2)
    every = rng.randrange(3, 14)
    season = rng.uniform(0, 0.8)
    users = int(room * rng.uniform(0.02, 0.1))
    tower = even_parts(rng, int(room * 10 ** rng.uniform(-3.5, -2)), 16)
    batch = int(room * rng.uniform(0.01, 0.06))
    mine = [names() for _ in range(tables)]
    operations = load(names, [users] + tower * 3)[1]
    yield operations + [("a", name, int(rows) * columns * 4) for name in mine]
    for step in itertools.count(1):
        operations = []
        for _ in range(rng.randrange(2, 5)):    # training
            parts = [batch * part // 16 for part in (6, 4, 4, 2)]
            work = [names() for _ in parts]
            operations += [("a", name, at_least(size)) for name, size in zip(work, parts)]
            gradient = names()
            touched = rng.uniform(0.01, 0.05)
            operations.append(("a", gradient, at_least(
                int(rows) * columns * 4 * (1 if dense else touched))))
            operations += free_all(reversed(work))
            operations += passing(names, tower) + [("f", gradient)]
        if step % every == 0:                   # an import
            more = rate * rng.lognormvariate(-0.1, 0.5) * (1 + season * math.sin(step / 40))
            before, rows = rows, rows * (1 + (more if growth else 0))
            larger = []
            for old in mine:
                fresh = names()
                operations.append(("a", fresh, int(rows) * columns * 4))
                operations.append(("f", old))
                larger.append(fresh)
            mine = larger
            operations += passing(names, (max(512, int(rows - before) * columns * 4),))
        if step % every == every // 2:          # the list for each shopper
            for _ in range(3):
                scores, best = names(), names()
                operations += [("a", scores, at_least(shoppers * int(rows) * 4)),
                               ("a", best, at_least(shoppers * 100 * 12))]
                operations += passing(names, (shoppers * int(rows),))      # bought already
                operations += free_all((scores, best))
        yield operations


@add()
def fraud_window(rng, capacity, _growth):
    """Payments of the last hours as graphs, one for each quarter of an hour; night and day differ.

    Alerts keep a piece of their graph until somebody has looked at it, and many are soon closed.
    """
    names = Names()
    room = room_of(capacity)
    model = even_parts(rng, int(room * 10 ** rng.uniform(-3, -1.5)), 30)
    accounts = int(room * rng.uniform(0.04, 0.15))
    yield load(names, model + [accounts, accounts // 4])[1]
    window = rng.choice((12, 16, 24, 48))
    day = 96
    features = rng.choice((8, 16, 32, 64))
    edge = 16 + 8 + 4 * features + 8
    usual = room * rng.uniform(0.36, 0.59) / window / edge
    swing = rng.uniform(0.1, 0.5)
    rough = rng.uniform(0.1, 0.5)
    phase = rng.uniform(0, 2 * math.pi)
    hidden = rng.choice((32, 64, 128))
    work = room * rng.uniform(0.02, 0.07)
    alerts_share = room * rng.uniform(0.03, 0.12)
    alerts_a_step = rng.randrange(1, 6)
    closes = rng.uniform(0.3, 1.5) * window
    piece = alerts_share / alerts_a_step / closes
    graphs, alerts = collections.deque(), []
    for step in itertools.count():
        level = 1 + swing * math.sin(2 * math.pi * step / day + phase)
        count = int(usual * level * rng.lognormvariate(-rough * rough / 2, rough))
        raw = names()
        operations = [("a", raw, at_least(count * (16 + 8)))]
        mine = [names() for _ in range(4)]
        operations += passing(names, (count * 8, count * 8))               # sorted by time
        operations += [("a", mine[0], at_least(count * 16)), ("a", mine[1], at_least(count * 8)),
                       ("f", raw)]
        operations += [("a", mine[2], at_least(count * 4 * features))]
        operations += passing(names, (count * 8, count // 3 * 8))
        operations += [("a", mine[3], at_least(count * 8))]
        graphs.append(mine)
        drawn = work * rng.lognormvariate(-0.3, 0.7)
        drawn = min(drawn, 2.5 * work)
        messages = [names() for _ in range(3)]
        for i, name in enumerate(messages):
            operations.append(("a", name, at_least(drawn * (0.5, 0.3, 0.2)[i])))
            if i == 1:
                for _ in range(alerts_a_step):
                    size = piece * rng.lognormvariate(-0.5, 1.0)
                    alert = names()
                    operations.append(("a", alert, at_least(size)))
                    alerts.append((step + rng.expovariate(1 / closes), alert))
            operations += passing(names, (drawn * hidden / 512,))
        operations += free_all(messages)
        if len(graphs) > window:
            operations += free_all(graphs.popleft())
        operations += free_all([alert for until, alert in alerts if until <= step])
        alerts = [pair for pair in alerts if pair[0] > step]
        yield operations


# --- learning beside serving ---

@add(intent="leak")
def adapter_rounds_beside_serving(rng, capacity, growth):
    """One process answers, and tunes an adapter on the day's talks in rounds; then it swaps them.

    The old adapter's optimizer is still in a list, so the adapter and its state stay. The steps of
    a round need far more than what stays.
    """
    names = Names()
    room = room_of(capacity)
    chat = choose_chat(rng, room, rng.uniform(0.25, 0.5))
    yield load_chat(names, chat)
    left = room - chat.total
    peak = left * rng.uniform(0.35, 0.6)
    rounds = rng.randrange(12, 60)
    adapter = (left - peak) * rng.uniform(0.6, 0.9) / rounds
    modules = rng.randrange(12, 33)
    sizes = [at_least(adapter / 5 / modules / 2) for _ in range(2 * modules)]
    moments = rng.choice((2, 2, 2, 1))
    layers = activations_of(rng, int(peak), rng.choice((8, 12, 16)))
    lengths = (rng.uniform(0.3, 0.6), 1.0)
    quiet = rng.randrange(3, 20)
    tuned = rng.randrange(2, 6)
    begin = rng.choice((0, rng.randrange(10, 100)))
    slots = rng.randrange(2, 9)
    tokens = max(64, int(left * 0.08 / slots / chat.token))
    fails = rng.choice((0.0, 0.0, 0.3))          # rounds that are given up are cleaned up well
    step = 0
    serving = []

    def answers():
        operations = []
        for _ in range(rng.randrange(1, 3)):
            if len(serving) >= slots:
                operations += free_all(serving.pop(0))
            mine = [names() for _ in range(4)]
            length = int(tokens * rng.uniform(0.3, 1.0))
            operations += [("a", name, at_least(length * chat.token // 4)) for name in mine]
            operations += read_prompt(names, chat, min(length, 2048, tokens))
            serving.append(mine)
        return operations + write_words(names, chat, len(serving))

    live = []
    while True:
        for _ in range(quiet + (begin if not step else 0)):
            step += 1
            yield answers()
        fresh, opening = load(names, [size * 2 for size in sizes])
        fresh = [name for name, _ in fresh]
        state = []
        given_up = rng.random() < fails
        for i in range(tuned):
            operations = answers()
            if i == 0:
                operations += opening
            work, mine = forward(names, layers, [layers[0][0] // 4], rng.uniform(*lengths))
            back, gradients = backward(names, mine, sizes)
            operations += work + back
            if i == 0:
                for _ in range(moments):
                    held = [names() for _ in sizes]
                    operations += [("a", name, size * 2) for name, size in zip(held, sizes)]
                    state += held
            operations += free_all(gradients)
            step += 1
            yield operations
        if given_up:
            yield free_all(fresh + state)
            continue
        yield answers() + ([] if growth else free_all(live + state))
        live = fresh


@add()
def trainer_next_door(rng, capacity, _growth):
    """Answers on a card on which a colleague's training comes later, in stages, and comes again.

    Training has weights, then the optimizer's state, then longer and longer examples.
    """
    names = Names()
    room = room_of(capacity)
    chat = choose_chat(rng, room, rng.uniform(0.12, 0.4))
    yield [("o", 0)] + load_chat(names, chat)
    left = room - chat.total
    slots = rng.randrange(3, 10)
    tokens = max(64, int(left * rng.uniform(0.1, 0.25) / slots / chat.token))
    frees = rng.random() < 0.5                   # empty_cache() when nobody asks
    begin = rng.randrange(30, 250)
    weights = left * rng.uniform(0.1, 0.3)
    state = weights * rng.uniform(0.5, 2.0)
    longer = left * 10 ** rng.uniform(-2.7, -1.7)
    lasts = rng.randrange(40, 200)
    pause = rng.randrange(5, 60)
    chance = rng.uniform(0.02, 0.1)
    long_one = rng.uniform(1.5, 3)
    running = []
    trained, break_left, attempt = -begin, 0, 0
    for step in itertools.count():
        others = 0
        if break_left:
            break_left -= 1
        else:
            trained += 1
            if trained > 0:
                others = weights * min(1.0, trained / 4)
                if trained > 6:
                    others += state
                others += max(0, trained - 8) * longer * (1 + 0.3 * attempt)
            if trained > lasts:
                trained, break_left = 0, pause
                attempt += 1
        operations = [("o", int(min(others, capacity)))]
        if len(running) >= slots or rng.random() < 0.15:
            gone = running[:rng.randrange(1, 4)]
            del running[:len(gone)]
            for mine in gone:
                operations += free_all(mine)
        for _ in range(rng.randrange(0, 3)):
            if len(running) < slots:
                length = tokens * rng.uniform(0.2, 1.0)
                length *= long_one if rng.random() < chance else 1
                mine = [names() for _ in range(2 * min(chat.layers, 16))]
                operations += [("a", name, at_least(length * chat.token / len(mine)))
                               for name in mine]
                operations += read_prompt(names, chat, min(int(length), 4096))
                running.append(mine)
        operations += write_words(names, chat, max(1, len(running)))
        if frees and step % 10 == 9:
            operations.append(("e",))
        yield operations


@add()
def night_batch_at_a_desk(rng, capacity, _growth):
    """Recordings are written down at night, on the card of a desktop that somebody also uses.

    A game or a film project was left open, or the programs of the morning come one by one, or a tab
    of the browser takes more and more.
    """
    names = Names()
    room = room_of(capacity)
    model = even_parts(rng, int(room * rng.uniform(0.08, 0.3)), 220)
    desk = rng.uniform(0.2, 1.4) * GIB
    left = room - sum(model) - desk
    story = rng.choice(("left open", "morning", "tab"))
    usual = left * rng.uniform(0.2, 0.45)                # of a batch of recordings
    longest = left * rng.uniform(0.7, 0.9)
    empties = rng.random() < 0.5
    held = desk
    if story == "left open":
        held += left * rng.uniform(0.35, 0.7)
    begin = rng.randrange(40, 350)
    programs = [left * share for share in (rng.uniform(0.02, 0.08), rng.uniform(0.03, 0.15),
                                           rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.6))]
    gap = rng.randrange(5, 40)
    tab = left * 10 ** rng.uniform(-2.8, -1.7)
    yield [("o", int(held))] + load(names, model)[1]
    layers = rng.randrange(4, 13)
    words = rng.randrange(3, 9)
    for step in itertools.count():
        now = held
        if story == "morning":
            now += sum(programs[:max(0, (step - begin) // gap)])
        elif story == "tab":
            now += max(0, step - begin // 4) * tab
        now += rng.uniform(0, 0.1) * desk                # windows come and go
        operations = [("o", int(now))]
        size = min(longest, usual * rng.lognormvariate(-0.1, 0.45))
        sound, heard = names(), names()
        operations.append(("a", sound, at_least(size * 0.03)))
        operations += passing(names, (size * 0.1, size * 0.05))          # its spectrum
        operations.append(("a", heard, at_least(size * 0.12)))
        for _ in range(layers):
            operations += passing(names, (size * 0.12, size * 0.36, size * 0.12))
        cache = [names() for _ in range(2 * layers)]
        operations += [("a", name, at_least(size * 0.15 / len(cache))) for name in cache]
        for _ in range(words):
            operations += passing(names, (size * 0.01, size * 0.02))
        operations += free_all([sound, heard] + cache)
        if empties:
            operations.append(("e",))
        yield operations


# --- experiments ---

@add(intent="leak")
def sweep_keeps_errors(rng, capacity, growth):
    """A search over settings with try and except; the errors go to a list, with all their frames.

    So a trial that ends with an error (a loss that is no number, shapes that do not fit) stays.
    Good trials are cleaned up, and the cache is emptied after each.
    """
    names = Names()
    room = room_of(capacity)
    data = [int(room * rng.uniform(0.01, 0.08)), int(room * rng.uniform(0.002, 0.01))]
    yield load(names, data)[1]
    errors = rng.uniform(0.15, 0.5)
    many = rng.randrange(6, 36)                          # errors that fill the card
    usual = room * rng.uniform(0.5, 0.8) / many
    spread = rng.uniform(0.2, 0.8)
    largest = room * 0.2
    graph_stays = rng.random() < 0.5
    gentle = rng.random() < 0.7                          # empty_cache()
    shortest, most = rng.choice(((2, 5), (3, 8), (4, 14)))
    while True:
        depth = rng.choice((2, 3, 4, 6))
        size = min(largest, usual * rng.lognormvariate(-spread * spread / 2, spread))
        weights = even_parts(rng, int(size * rng.uniform(0.08, 0.2)), 3 * depth)
        layers = activations_of(rng, int(size * rng.uniform(0.3, 1.2)), depth)
        steps = rng.randrange(shortest, most)
        wrong = rng.random() < errors
        if wrong:
            steps = rng.randrange(1, steps + 1)
        kept, opening = load(names, weights)
        trial = [name for name, _ in kept]
        gradients = []
        for i in range(steps):
            operations = opening if i == 0 else []
            work, mine = forward(names, layers, [layers[0][0] // 2])
            operations = operations + work
            if wrong and i == steps - 1:
                flat = [name for part in mine for name in part]
                if graph_stays:
                    trial += flat
                else:
                    operations += free_all(reversed(flat))
                yield operations
                break
            operations += free_all(gradients)
            back, gradients = backward(names, mine, weights)
            operations += back
            if i == 0:
                state, first = load(names, [each for each in weights for _ in range(2)])
                trial += [name for name, _ in state]
                operations += first
            yield operations
        trial += gradients
        ending = []
        if not (wrong and growth):
            ending += free_all(trial)
        if gentle:
            ending.append(("e",))
        yield ending + passing(names, (data[1],))


# --- graphs of a fixed shape ---

@add()
def graph_pools_of_workers(rng, capacity, _growth):
    """Workers record a graph for each size of the menu when it is first ordered.

    Each graph has a pool of its own: the work's memory is reserved there, though little of it is in
    use. What is not recorded runs on the worker's stream.
    """
    names = Names()
    room = room_of(capacity)
    text, denoiser, decoder, channels = choose_picture_model(rng, room, 0.5)
    sizes = (even_parts(rng, text, 50) + even_parts(rng, denoiser, 120)
             + even_parts(rng, decoder, 24))
    yield load(names, sizes)[1]
    left = room - sum(sizes)
    workers = rng.randrange(1, 5)
    menu = rng.randrange(6, 40)
    largest = left * min(0.22, rng.uniform(1.6, 6) / (workers * menu))
    areas = sorted(largest * rng.uniform(0.1, 1.0) for _ in range(menu))
    liked = [1 / (1 + i) ** rng.uniform(0.6, 1.3) for i in range(menu)]
    rng.shuffle(liked)
    levels = rng.randrange(3, 7)
    output = rng.uniform(0.005, 0.04)
    recorded = {}
    last = {}
    while True:
        worker = rng.randrange(workers)
        which = rng.choices(range(menu), liked)[0]
        area = areas[which]
        stream = 1 + worker
        operations = []
        if (worker, which) not in recorded:
            pool = 100 + len(recorded)
            given = [names() for _ in range(2)]
            operations += [("a", given[0], at_least(area * 0.01), pool),
                           ("a", given[1], at_least(77 * channels * 8), pool)]
            parts = [2 ** (-level / 2) for level in range(levels)]
            parts = [area * part / sum(parts) for part in parts]
            skips = [names() for _ in parts]
            operations += [("a", name, at_least(part), pool)
                           for name, part in zip(skips, parts)]
            for name, part in zip(skips, parts):          # each leaves a small output
                stays = names()
                operations += [("f", name), ("a", stays, at_least(part * output), pool)]
                given.append(stays)
            recorded[worker, which] = given
        edge = max(64, int((area / 1200) ** 0.5) // 64 * 64)
        shown, picture = decode(names, edge, edge, stream=stream)
        operations += passing(names, (area * 0.05, area * 0.02), stream) + shown
        if worker in last:
            operations.append(("f", last[worker]))
        last[worker] = picture
        yield operations
