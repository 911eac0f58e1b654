# SPDX-License-Identifier: Apache-2.0
"""Ordinary training by ordinary people: pictures, volumes, speech, tables, graphs, games, sweeps.

Sizes come from the shapes of layers. The batch is what its user would choose for this GPU.
"""
import dataclasses
import functools
import random

from program import MIB, UNSEEN, Names, at_least, free_all, generator, load, room_of

add = functools.partial(generator, UNSEEN, "unseen_mill")

FLOAT, HALF, LONG = 4, 2, 8


# --- networks: parameters in bytes, and the activations of each layer for a batch ---

@dataclasses.dataclass(frozen=True)
class Net:
    parameters: tuple
    layers: object       # (batch, *shape) -> for each layer, the bytes of what it saves

    def weights(self):
        return sum(self.parameters)

    def saved(self, *shape):
        return sum(map(sum, self.layers(*shape)))

    def batch_for(self, target, *shape):
        """The batch whose activations take about `target` bytes."""
        return max(1, int(target // max(1, self.saved(1, *shape))))


def resnet(rng, width, element=FLOAT, blocks=None):
    """A residual network, with bottlenecks or without."""
    blocks = blocks or rng.choice(((2, 2, 2, 2), (3, 4, 6, 3), (2, 3, 4, 2), (1, 2, 2, 1)))
    wide = rng.choice((1, 4))
    parameters, plan, inside = [width * 3 * 49 * FLOAT], [(width, 2)], width
    for stage, count in enumerate(blocks):
        channels = width << stage
        for _ in range(count):
            if wide == 4:
                parts = (inside * channels, channels * channels * 9, channels * channels * 4)
            else:
                parts = (inside * channels * 9, channels * channels * 9)
            parameters += [at_least(part * FLOAT) for part in parts] + [at_least(32 * channels)]
            inside = channels * wide
            plan.append((channels, 4 << stage))
    parameters.append(inside * 1000 * FLOAT)

    def layers(batch, height, across):
        found = []
        for channels, stride in plan:
            plane = batch * -(-height // stride) * -(-across // stride) * element
            found.append([at_least(channels * plane), at_least(channels * wide * plane)])
        return found
    return Net(tuple(parameters), layers)


def unet(base, levels, dimensions, *, element=FLOAT, scores_from=None):
    """Down and up again, in two or three dimensions; on request with attention below a level."""
    parameters, plan = [], []
    for level in range(levels):
        channels, before = base << level, base << max(0, level - 1)
        taps = 3 ** dimensions
        parameters += [at_least(channels * before * taps * FLOAT),
                       at_least(channels * channels * taps * FLOAT), at_least(channels * 16)]
        plan.append((level, channels, 2))
    for level in reversed(range(levels - 1)):
        channels = base << level
        taps = 3 ** dimensions
        parameters += [at_least(channels * channels * 2 * 2 ** dimensions * FLOAT),
                       at_least(channels * channels * 2 * taps * FLOAT), at_least(channels * 16)]
        plan.append((level, channels, 3))

    def layers(batch, *edges):
        found = []
        for level, channels, count in plan:
            points = 1
            for edge in edges:
                points *= max(1, -(-edge >> level))
            sizes = [at_least(batch * channels * points * element)] * count
            if scores_from is not None and level >= scores_from:
                sizes.append(at_least(batch * 8 * points * points * element))
            found.append(sizes)
        return found
    return Net(tuple(parameters), layers)


def encoder(width, depth, heads, *, element=HALF, scores=True):
    """A stack of attention and feed-forward layers over sequences."""
    parameters = []
    for _ in range(depth):
        parameters += [3 * width * width * FLOAT, 5 * width * width * FLOAT,
                       4 * width * width * FLOAT, at_least(8 * width * FLOAT)]

    def layers(batch, length):
        unit = batch * length * width * element
        attention = [at_least(batch * heads * length * length * element)] if scores else []
        return [[at_least(3 * unit), *attention, at_least(unit), at_least(4 * unit)]
                for _ in range(depth)]
    return Net(tuple(parameters), layers)


def perceptron(widths, element=FLOAT):
    parameters = [at_least(a * b * FLOAT) for a, b in zip(widths, widths[1:])]

    def layers(batch):
        return [[at_least(batch * width * element)] for width in widths[1:]]
    return Net(tuple(parameters), layers)


class Trainer:
    """One model, its gradients, and its optimizer's state, which comes with the first update."""
    STATES = {"sgd": 0, "momentum": 1, "adam": 2}

    def __init__(self, rng, names, net, optimizer=None, keep_gradients=None):
        self.names, self.net = names, net
        self.optimizer = optimizer or rng.choice(("momentum", "adam", "adam"))
        drawn = rng.random() < 0.4
        self.keep_gradients = drawn if keep_gradients is None else keep_gradients
        self.zero_late = rng.random() < 0.5       # just before backward(), or when a step starts
        self.scratch = rng.choice((0.0, 0.25, 0.5, 1.0))  # workspaces of convolutions
        self.at_once = rng.random() < 0.5         # the optimizer works on lists of tensors
        self.weights, self.gradients, self.states = [], [], []

    def load(self):
        self.weights, operations = load(self.names, self.net.parameters)
        return operations

    def _pass_through(self, size):
        name = self.names()
        return [("a", name, at_least(size)), ("f", name)]

    def _zero(self):
        if self.keep_gradients:
            return []
        gone, self.gradients = self.gradients, []
        return free_all(gone)

    def step(self, layers, inputs=(), extra=()):
        """Forward, backward, update. `extra`: what the loss makes and saves until backward()."""
        names, operations = self.names, []
        batch = [names() for _ in inputs]
        operations += [("a", name, at_least(size)) for name, size in zip(batch, inputs)]
        if not self.zero_late:
            operations += self._zero()
        kept = []
        for sizes in layers:
            if self.scratch:
                operations += self._pass_through(sizes[0] * self.scratch)
            mine = [names() for _ in sizes]
            operations += [("a", name, size) for name, size in zip(mine, sizes)]
            kept.append(mine)
        loss = [names() for _ in range(1 + len(extra))]
        operations += [("a", name, at_least(size)) for name, size in zip(loss, (512, *extra))]
        if self.zero_late:
            operations += self._zero()
        operations += self._backward(layers, kept, loss)
        operations += self._update()
        return operations + free_all(batch)

    def _backward(self, layers, kept, loss):
        names, operations = self.names, []
        waiting = [] if self.gradients else list(reversed(self.net.parameters))
        each = -(-len(waiting) // max(1, len(layers)))
        above = names()
        operations += [("a", above, layers[-1][-1])] + free_all(loss)
        for sizes, mine in zip(reversed(layers), reversed(kept)):
            below = names()
            operations.append(("a", below, sizes[0]))
            if self.scratch:
                operations += self._pass_through(sizes[-1] * self.scratch)
            for size in waiting[:each]:
                name = names()
                operations.append(("a", name, size))
                self.gradients.append(name)
            del waiting[:each]
            operations += [("f", above)] + free_all(reversed(mine))
            above = below
        return operations + [("f", above)]

    def _update(self):
        names, operations = self.names, []
        if not self.states:
            for size in self.net.parameters:
                for _ in range(self.STATES[self.optimizer]):
                    name = names()
                    operations.append(("a", name, size))
                    self.states.append(name)
        largest = sorted(self.net.parameters)[-4:]
        if self.at_once:
            mine = [names() for _ in largest]
            operations += [("a", name, size) for name, size in zip(mine, largest)]
            return operations + free_all(mine)
        for size in largest:
            operations += self._pass_through(size)
        return operations

    def infer(self, layers, inputs=()):
        """Without gradients: an output goes when the next one is there. Leaves the last one."""
        names, operations = self.names, []
        batch = [names() for _ in inputs]
        operations += [("a", name, at_least(size)) for name, size in zip(batch, inputs)]
        above = None
        for sizes in layers:
            if self.scratch:
                operations += self._pass_through(sizes[0] * self.scratch)
            for size in sizes:
                name = names()
                operations.append(("a", name, size))
                if above is not None:
                    operations.append(("f", above))
                above = name
        return operations + free_all(batch), above

    def end(self):
        """The model goes, and all that belongs to it."""
        gone = [name for name, _ in self.weights] + self.gradients + self.states
        self.weights, self.gradients, self.states = [], [], []
        return free_all(gone)


def peak_of(*steps):
    """The most bytes in use at once, and those in use at the end."""
    sizes, live, peak = {}, 0, 0
    for operation in (each for step in steps for each in step):
        if operation[0] == "a":
            sizes[operation[1]] = operation[2]
            live += operation[2]
            peak = max(peak, live)
        elif operation[0] == "f":
            live -= sizes.pop(operation[1])
    return peak, live


def need_of(rng, net, layers, inputs=(), optimizer="adam"):
    """Two steps of a new trainer: (peak, what stays)."""
    trial = Trainer(random.Random(rng.random()), Names(), net, optimizer)
    return peak_of(trial.load(), trial.step(layers, inputs), trial.step(layers, inputs))


def epochs(rng, low, high):
    """The number of steps of one pass over the data."""
    return rng.randrange(low, high)


# --- the programs ---

@add(intent="demand")
def progressive_resizing(rng, capacity, growth):
    """A classifier learns on small pictures first, then on larger ones; the batch stays."""
    names, room = Names(), room_of(capacity)
    net = resnet(rng, rng.choice((48, 64, 64, 96, 128)))
    edge, by = rng.choice((96, 112, 128, 160)), rng.choice((16, 32, 32, 64))
    batch = net.batch_for(room * rng.uniform(0.08, 0.3), edge, edge)
    phase, data, tidy = epochs(rng, 20, 80), epochs(rng, 9, 50), rng.random() < 0.4
    trainer = Trainer(rng, names, net)
    yield trainer.load()
    step = 0
    while True:
        last = step % data == data - 1
        mine = max(1, int(batch * rng.uniform(0.1, 0.95))) if last else batch
        operations = trainer.step(net.layers(mine, edge, edge), (mine * 3 * edge * edge * FLOAT,))
        step += 1
        if step % phase == 0:
            if growth:
                edge += by
            if tidy:
                operations.append(("e",))
        yield operations


@add()
def detector_of_many_shapes(rng, capacity, _growth):
    """Photographs of many formats and scales; a bank keeps what was found in the last batches."""
    names, room = Names(), room_of(capacity)
    net = resnet(rng, rng.choice((64, 64, 96)), blocks=rng.choice(((2, 2, 2, 2), (3, 4, 6, 3))))
    shorts = sorted(rng.sample(range(480, 1056, 32), rng.randrange(4, 12)))
    longest = rng.choice((1333, 1536, 2000))
    states = net.weights() * 4
    target = (room - states) * rng.uniform(0.7, 0.84)
    batch = net.batch_for(target, shorts[-1], longest)
    scale = (target / net.saved(batch, shorts[-1], longest)) ** 0.5
    if scale < 1 or batch < 6:
        shorts = [max(64, int(each * scale) // 16 * 16) for each in shorts]
        longest = int(longest * scale)
    crowd, aspects = rng.uniform(0.5, 1.1), rng.uniform(0.1, 0.3)
    trainer, ahead = Trainer(rng, names, net, keep_gradients=False), rng.random() < 0.7
    bound, bank = rng.randrange(30, 130), []
    entry = min(batch * 1024 * FLOAT, int(room * 0.07 / bound / 300))  # for one region
    yield trainer.load()
    coming = None
    while True:
        short, flat = rng.choice(shorts), max(rng.lognormvariate(0.25, aspects) for _ in range(2))
        other = min(longest, int(short * max(1.0, flat)) // 32 * 32 + 32)
        height, across = (short, other) if rng.random() < 0.5 else (other, short)
        anchors = batch * height * across // 64 * 9
        people = min(400, max(1, int(rng.lognormvariate(2, crowd))))
        proposals = batch * rng.randrange(200, 1000) * 256 * 49 * FLOAT
        # what is compared with what, for one picture after the other
        pairs = min(anchors // batch * people * FLOAT, int(capacity * 0.1))
        operations, gone = [], coming
        if ahead:  # the next batch comes by a stream of its own
            coming = names()
            operations.append(("a", coming, batch * 3 * height * across * FLOAT, 1))
        some = trainer.step(net.layers(batch, height, across),
                            (batch * 3 * height * across * FLOAT,),
                            (min(proposals, int(capacity * 0.06)), anchors * FLOAT, pairs))
        # it is put in the bank when the features are there, in the middle of the step
        bank.append(names())
        some.insert(len(some) * 2 // 5, ("a", bank[-1], at_least(entry * rng.randrange(60, 512))))
        operations += some
        if len(bank) > bound:
            operations.append(("f", bank.pop(0)))
        if gone is not None:
            operations.append(("f", gone))
        yield operations


@add()
def whole_volume_validation(rng, capacity, _growth):
    """Patches in training, whole scans in validation. One scan is of a whole body."""
    names, room = Names(), room_of(capacity)
    net = unet(rng.choice((16, 24, 32)), rng.choice((4, 5)), 3)
    patch = rng.choice((64, 80, 96, 112, 128))
    while net.saved(1, patch, patch, patch) > room * 0.4:
        patch -= 16
    batch = net.batch_for(room * rng.uniform(0.2, 0.4), patch, patch, patch)
    classes = rng.choice((2, 3, 5, 14, 25, 105))
    trainer = Trainer(rng, names, net)
    stays = net.weights() * (2 + Trainer.STATES[trainer.optimizer])
    per_voxel = 2 * classes * FLOAT + FLOAT + LONG
    usual = (room - stays) * rng.uniform(0.1, 0.4) / per_voxel
    every, body_at = epochs(rng, 25, 90), rng.randrange(2, 5)
    body = (room - stays) * rng.uniform(1.02, 2.2) / per_voxel
    scans = [usual * rng.uniform(0.3, 1.0) for _ in range(rng.randrange(3, 9))]
    yield trainer.load()
    epoch = 0
    while True:
        for _ in range(every):
            inputs = (batch * patch ** 3 * FLOAT, batch * patch ** 3 * LONG)
            yield trainer.step(net.layers(batch, patch, patch, patch), inputs)
        epoch += 1
        for number, voxels in enumerate(scans):
            if epoch >= body_at and number == len(scans) // 2:
                voxels = body
            whole = [names() for _ in range(3)]
            operations = [("a", whole[0], int(voxels * FLOAT)),
                          ("a", whole[1], int(voxels * FLOAT * classes))]
            operations.append(("a", whole[2], int(voxels * FLOAT)))
            for _ in range(rng.randrange(2, 6)):
                some, left = trainer.infer(net.layers(batch, patch, patch, patch))
                operations += some + [("f", left)]
            likely, chosen = names(), names()
            operations += [("a", likely, int(voxels * FLOAT * classes)),
                           ("a", chosen, int(voxels * LONG)), ("f", likely)]
            yield operations + free_all(whole) + [("f", chosen)]


@add(intent="leak")
def penalty_keeps_its_graph(rng, capacity, growth):
    """A GAN: the penalty of every few steps is added up for the log, with its graph."""
    names, room = Names(), room_of(capacity)
    edge = rng.choice((64, 128, 128, 256))
    judge = resnet(rng, rng.choice((32, 48, 64)), blocks=(1, 1, 1, 1))
    maker = unet(rng.choice((32, 48, 64)), 4, 2)
    batch = maker.batch_for(room * rng.uniform(0.08, 0.3), edge, edge)
    picture = batch * 3 * edge * edge * FLOAT
    first, second = Trainer(rng, names, judge, "adam"), Trainer(rng, names, maker, "adam")
    slack = room - need_of(rng, judge, judge.layers(batch, edge, edge))[0]
    slack -= need_of(rng, maker, maker.layers(batch, edge, edge))[0]
    every = rng.choice((4, 8, 16, 16, 32))
    events = rng.randrange(80, 340) / every
    part = slack / events / judge.saved(batch, edge, edge)
    graph = [at_least(size * part) for sizes in judge.layers(batch, edge, edge) for size in sizes]
    collected = rng.uniform(0.0, 0.35)  # some of it goes with Python's collector
    yield first.load() + second.load()
    step, cycles = 0, []
    while True:
        operations = first.step(judge.layers(batch, edge, edge), (picture, picture))
        operations += second.step(maker.layers(batch, edge, edge), (batch * 512 * FLOAT,))
        step += 1
        if step % every == 0:
            mine = [names() for _ in graph]
            some = [("a", name, size) for name, size in zip(mine, graph)]
            again = [names() for _ in graph]
            some += [("a", name, size) for name, size in zip(again, graph)] + free_all(again)
            go = [name for name in mine if rng.random() < collected]
            cycles += go if growth else mine
            operations += some
        if step % (every * 3) == 0:
            operations += free_all(cycles)
            cycles = []
        yield operations


@add(intent="leak")
def averaged_weights_stored(rng, capacity, growth):
    """Diffusion: previews use averaged weights; copies of the others pile up in a list."""
    names, room = Names(), room_of(capacity)
    edge = rng.choice((32, 48, 64, 64, 96))
    share = rng.uniform(0.009, 0.025)
    base, levels = 32, rng.choice((4, 5))
    while unet(base + 16, levels, 2).weights() < room * share and base < 1024:
        base += 16
    scores = rng.choice((None, 2, 3))
    net = unet(base, levels, 2, element=HALF, scores_from=scores)
    batch = net.batch_for(room * rng.uniform(0.3, 0.62), edge, edge)
    trainer = Trainer(rng, names, net, "adam", keep_gradients=rng.random() < 0.7)
    every, start = epochs(rng, 5, 16), rng.randrange(1, 60)
    shown, looks = rng.choice((4, 8, 16)), rng.randrange(3, 9)
    decoded = min(shown * 128 * (8 * edge) ** 2 * HALF, int(room * 0.12))
    yield trainer.load() + load(names, net.parameters)[1]  # the averaged weights
    step, grid = 0, None
    while True:
        inputs = (batch * 4 * edge * edge * HALF, batch * 77 * 768 * HALF)
        yield trainer.step(net.layers(batch, edge, edge), inputs)
        step += 1
        if step < start or step % every:
            continue
        stored, operations = load(names, net.parameters)
        for _ in range(looks):
            some, left = trainer.infer(net.layers(2 * shown, edge, edge), inputs[:1])
            operations += some + [("f", left)]
        large = [names() for _ in range(3)]
        operations += [("a", name, decoded) for name in large] + free_all(large)
        if grid is not None:
            operations.append(("f", grid))
        grid = names()
        operations.append(("a", grid, shown * 3 * (8 * edge) ** 2 * FLOAT))
        if not growth:
            operations += free_all(name for name, _ in stored)
        yield operations


@add()
def speech_in_buckets(rng, capacity, _growth):
    """Speech in batches of about as many frames each; longer ones in validation. It fits."""
    names, room = Names(), room_of(capacity)
    width, depth = rng.choice((256, 384, 512)), rng.choice((6, 8, 12))
    net = encoder(width, depth, rng.choice((4, 8)))
    buckets = sorted(rng.sample(range(100, 1200, 25), rng.randrange(4, 11)))
    words = rng.choice((32, 128, 512, 1024))
    joint = buckets[-1] * (buckets[-1] // 6 + 1) * words * HALF  # frames by tokens by words
    budget = room * rng.uniform(0.25, 0.45)
    frames = budget / ((net.saved(1, buckets[-1]) + joint) / buckets[-1])
    if frames < buckets[-1]:
        buckets = [max(40, int(each * frames / buckets[-1])) for each in buckets]
    validation, data = epochs(rng, 30, 120), rng.randrange(3, 9)
    trainer, positions = Trainer(rng, names, net), None
    longest = 0
    yield trainer.load()
    step = 0
    while True:
        bucket = rng.choice(buckets)
        length = max(20, int(bucket * rng.uniform(0.85, 1.0)) // 4 * 4)
        batch = max(1, int(frames // bucket))
        operations = []
        if length > longest:  # the table of positions is made anew for the longest so far
            table = names()
            operations.append(("a", table, length * 2 * width * FLOAT))
            if positions is not None:
                operations.append(("f", positions))
            positions, longest = table, length
        tokens = max(2, int(length * rng.uniform(0.08, 0.17)))
        operations += trainer.step(net.layers(batch, length), (batch * length * 320 * FLOAT,),
                                   (batch * length * tokens * words * HALF,))
        yield operations
        step += 1
        if step % validation == 0:
            for _ in range(data):
                length = int(buckets[-1] * rng.uniform(0.5, 1.1))
                some, left = trainer.infer(net.layers(1, length), (length * 320 * FLOAT,))
                yield some + [("f", left)]


@add(intent="design")
def clips_cached_on_gpu(rng, capacity, growth):
    """TTS: the clips of the first epoch stay on the GPU, so that the next ones are faster."""
    names, room = Names(), room_of(capacity)
    net = encoder(rng.choice((192, 256, 384)), rng.choice((4, 6)), 2, element=FLOAT)
    longest = rng.choice((600, 800, 1000))
    batch = net.batch_for(room * rng.uniform(0.15, 0.45), longest)
    trainer = Trainer(rng, names, net, "adam")
    slack = room - need_of(rng, net, net.layers(batch, longest))[0]
    # most data sets do not fit, some do; some caches have a bound
    share = rng.choice((0.4, 1.3, 1.6, 2.0, 3.0)) * rng.uniform(0.85, 1.15)
    clips, hop = rng.randrange(90, 320), rng.choice((200, 256, 300))
    bound = rng.choice((None, None, None, int(clips * rng.uniform(0.2, 0.4))))
    unit = slack * share / clips / (longest * 0.55)
    pitch, sort = rng.random() < 0.5, rng.random() < 0.3
    yield trainer.load()
    lengths = [longest * rng.uniform(0.15, 0.95) for _ in range(clips)]
    if sort:
        lengths.sort()
    cached = []
    while True:
        for length in lengths:
            there = [each for each in cached if each[0] == length]
            operations = trainer.step(net.layers(batch, int(length)), () if there else
                                      (batch * length * hop * FLOAT, batch * length * 80 * FLOAT))
            if not there and growth:
                sizes = [unit * length * part for part in (hop / (hop + 80), 80 / (hop + 80))]
                sizes += [unit * length / (hop + 80), batch * 64 * LONG] if pitch else []
                mine, some = load(names, [at_least(size) for size in sizes])
                operations = some + operations
                cached.append((length, mine))
                if bound is not None and len(cached) > bound:
                    _, gone = cached.pop(0)
                    operations += free_all(name for name, _ in gone)
            yield operations
        rng.shuffle(lengths)


class Recommender:
    """Embedding tables of very different sizes under a perceptron; gradients of rows are sparse."""

    def __init__(self, rng, names, total):
        sides = [rng.paretovariate(0.8) for _ in range(rng.randrange(8, 27))]
        self.names, self.dimension = names, rng.choice((16, 32, 64, 128))
        self.tables = [at_least(total * side / sum(sides)) for side in sides]
        self.wide = len(sides) * self.dimension
        top = perceptron((self.wide, rng.choice((512, 1024)), 512, 256, 1))
        self.trainer = Trainer(random.Random(rng.random()), names, top)
        self.moments = []

    def load(self):
        return load(self.names, self.tables)[1] + self.trainer.load()

    def lookup(self, rows, hots):
        found, operations = [], []
        for hot in hots:
            ids, vectors = self.names(), self.names()
            operations += [("a", ids, at_least(rows * hot * LONG)),
                           ("a", vectors, at_least(rows * self.dimension * FLOAT))]
            found += [ids, vectors]
        return operations, found

    def train(self, rows, hots):
        """`hots`: how many rows a table is asked for, for each example."""
        names, net = self.names, self.trainer.net
        operations, found = self.lookup(rows, hots)
        operations += self.trainer.step(net.layers(rows), (rows * self.wide * FLOAT,))
        for hot in hots:  # a sparse gradient: sorted, then summed
            size = at_least(rows * self.dimension * FLOAT * hot)
            one, two = names(), names()
            operations += [("a", one, size), ("a", two, size), ("f", one), ("f", two)]
        if not self.moments:  # one number for each row
            for size in self.tables:
                self.moments.append(names())
                operations.append(("a", self.moments[-1], at_least(size // self.dimension)))
        return operations + free_all(found)

    def evaluate(self, rows, hots):
        operations, found = self.lookup(rows, hots)
        some, left = self.trainer.infer(self.trainer.net.layers(rows), (rows * self.wide * FLOAT,))
        scores = self.names()
        return operations + some + [("a", scores, at_least(rows * LONG)), ("f", scores),
                                    ("f", left)] + free_all(found)


@add()
def recommender_beside_notebook(rng, capacity, _growth):
    """Big tables beside a notebook that was left open. An evaluation takes larger batches."""
    names, room = Names(), room_of(capacity)
    total, tail = room * rng.uniform(0.1, 0.35), rng.uniform(0.1, 0.3)
    model = Recommender(rng, names, total)
    busiest = 2.0
    ones = [busiest] * len(model.tables)
    sketch = Recommender(random.Random(1), Names(), MIB)
    sketch.tables, sketch.wide, sketch.dimension = model.tables, model.wide, model.dimension
    sketch.trainer = Trainer(random.Random(2), sketch.names, model.trainer.net,
                             model.trainer.optimizer)
    done = [sketch.load(), sketch.train(256, ones)]
    stays = peak_of(*done)[1]
    done.append(sketch.train(4096, ones))
    each = max(1024.0, (peak_of(*done)[0] - stays) / 4096)
    batch = max(256, int(room * rng.uniform(0.1, 0.2) / each))
    done.append(sketch.train(batch, ones))
    usual = peak_of(*done)[0]
    once = peak_of(sketch.evaluate(batch, ones))[0]
    # without the notebook even an evaluation fits; for some models it fits on no GPU of this size
    too_large = rng.random() < 0.25
    fits = rng.uniform(1.15, 1.8) if too_large else rng.uniform(0.8, 0.95)
    times = max(1.0, (room * fits - stays) / once)
    evaluation = stays + once * times
    free = usual * 1.12 + max(0, evaluation - usual * 1.12) * rng.uniform(0.0, 0.6)
    if rng.random() < 0.15:
        free = max(free, evaluation * 1.2)  # and here it all fits
    held = rng.randrange(100, 700) * MIB if too_large else max(0, int(room - free))
    day, batches = epochs(rng, 60, 260), rng.randrange(3, 9)
    yield [("o", held)] + model.load()
    while True:
        for _ in range(day):
            hots = [min(busiest, rng.lognormvariate(0, tail)) for _ in model.tables]
            yield [("o", held)] + model.train(batch, hots)
        for _ in range(batches):
            hots = [min(busiest, rng.lognormvariate(0, tail)) for _ in model.tables]
            yield [("o", held)] + model.evaluate(int(batch * times), hots)


@add(intent="leak")
def neighbourhoods_remembered(rng, capacity, growth):
    """A graph network: features fill most of the GPU; each step's outputs are remembered."""
    names, room = Names(), room_of(capacity)
    features, hidden = rng.choice((100, 128, 256, 602, 768)), rng.choice((128, 256, 512))
    classes, fan = rng.choice((16, 41, 47, 172)), rng.choice(((10, 5), (15, 10), (15, 10, 5)))
    seeds = rng.choice((1024, 1024, 2048, 4096))
    net = perceptron((features, hidden, hidden, classes))
    kept = [seeds * LONG, seeds * classes * FLOAT, 512]
    kept += [at_least(seeds * hidden * FLOAT // rng.choice((4, 8)))] * rng.randrange(3)
    kept = [min(size, MIB) for size in kept]
    usual = seeds
    for number in fan:
        usual *= number * rng.uniform(0.5, 0.75)
    usual = min(usual, room * 0.1 / (features * FLOAT * 2 + hidden * FLOAT * 4))
    work = usual * 1.3 * (features * FLOAT + hidden * FLOAT * 3 + LONG * 4)
    trainer = Trainer(rng, names, net)
    slack = sum(kept) * rng.uniform(80, 500)
    store = int(room - work - slack - net.weights() * 5 - 30 * MIB)
    parts = rng.randrange(1, 5)
    epoch, spread = epochs(rng, 50, 200), rng.uniform(0.08, 0.25)
    yield load(names, [at_least(store // parts)] * parts)[1] + trainer.load()
    step = 0
    while True:
        share = min(1.3, rng.lognormvariate(0, spread))
        if step % epoch == epoch - 1:
            share *= rng.uniform(0.1, 0.9)
        nodes, operations, blocks = int(usual * share), [], []
        for hop, number in enumerate(fan):
            edges = int(nodes * rng.uniform(0.6, 1.0) / (4 ** (len(fan) - 1 - hop)))
            for size in (edges * LONG, edges * LONG, edges // number * LONG):
                name = names()
                operations.append(("a", name, at_least(size)))
                blocks.append(name)
        operations += trainer.step(
            [[at_least(nodes * hidden * FLOAT)], [at_least(nodes // 3 * hidden * FLOAT)],
             [at_least(seeds * classes * FLOAT)]], (nodes * features * FLOAT,))
        mine = [names() for _ in kept]
        operations += [("a", name, size) for name, size in zip(mine, kept)] + free_all(blocks)
        if not growth:
            operations += free_all(mine)
        step += 1
        yield operations


@add()
def episodes_replayed(rng, capacity, _growth):
    """Learning by play: whole episodes in a replay with a bound. Episodes get longer."""
    names, room = Names(), room_of(capacity)
    bound = room * rng.uniform(0.68, 0.84)
    mean = bound / rng.randrange(70, 260)
    longer, over = rng.uniform(1.0, 6.0), rng.randrange(80, 400)
    spread, by_age = rng.uniform(0.3, 0.9), rng.random() < 0.25
    net = resnet(rng, 32, blocks=(1, 1, 1, 1))
    pile = net.batch_for(room * rng.uniform(0.02, 0.07), 84, 84)
    learns, many = rng.randrange(1, 3), rng.randrange(1, 7)
    trainer = Trainer(rng, names, net, "adam", keep_gradients=True)
    yield trainer.load()
    replay, held, step = [], 0.0, 0
    while True:
        operations = []
        scale = mean / longer * (1 + (longer - 1) * min(1.0, step / over))
        for _ in range(many):
            frames = min(bound * 0.08, scale * rng.lognormvariate(0, spread))
            grown, size = names(), at_least(frames)
            scalars = names()
            rollout = names()  # as it was played, then packed
            operations += [("a", rollout, at_least(frames * rng.uniform(1.0, 1.5))),
                           ("a", grown, size), ("a", scalars, at_least(size / 7056 * 12)),
                           ("f", rollout)]
            replay.append((grown, scalars, size))
            held += size
        while held > bound:  # the one that surprises least, or the oldest
            grown, scalars, size = replay.pop(
                0 if by_age else int(len(replay) * rng.random() ** 1.5))
            operations += [("f", grown), ("f", scalars)]
            held -= size
        for _ in range(learns if step % 2 == 0 else 0):
            operations += trainer.step(net.layers(pile, 84, 84), (pile * 84 * 84 * 4,))
        step += 1
        yield operations


@add()
def sweep_keeps_the_best(rng, capacity, _growth):
    """Trials of other widths, batches and sizes. The best few weights stay on the GPU."""
    names, room = Names(), room_of(capacity)
    widest = rng.choice((64, 96, 128))
    most, steps = rng.randrange(4, 13), epochs(rng, 8, 26)
    best, tidy = [], rng.random() < 0.5
    trial = 0
    while True:
        net = resnet(rng, rng.choice((32, 48, 64, widest)),
                     blocks=rng.choice(((1, 1, 1, 1), (2, 2, 2, 2))))
        edge = rng.choice((96, 128, 160, 192, 224, 256))
        batch = net.batch_for(room * rng.uniform(0.15, 0.66), edge, edge)
        trainer = Trainer(rng, names, net)
        first = trainer.load()
        yield first
        scores = [rng.random() for _ in range(3)]
        copy = []
        for step in range(int(steps * rng.uniform(0.5, 1.0)) + 3):
            mine = max(1, batch - rng.randrange(batch)) if step % 7 == 6 else batch
            operations = trainer.step(net.layers(mine, edge, edge),
                                      (mine * 3 * edge * edge * FLOAT,))
            if step % 5 == 4 and scores and scores.pop() > 0.4:
                mine, some = load(names, net.parameters)
                operations += some + free_all(name for name, _ in copy)
                copy = mine
            yield operations
        operations = trainer.end()
        if copy:
            best.append(copy)
        if len(best) > most:
            operations += free_all(name for name, _ in best.pop(rng.randrange(len(best))))
        trial += 1
        yield operations + ([("e",)] if tidy else [])


@add(intent="design")
def outputs_of_a_validation(rng, capacity, growth):
    """Each validation collects its outputs and joins them; at first only a part of the data."""
    names, room = Names(), room_of(capacity)
    net = unet(rng.choice((32, 48, 64)), rng.choice((4, 5)), 2)
    edge, classes = rng.choice((128, 192, 256)), rng.choice((19, 21, 59, 150))
    batch = net.batch_for(room * rng.uniform(0.25, 0.6), edge, edge)
    trainer, tenth = Trainer(rng, names, net), rng.uniform(0.08, 0.4)
    peak, stays = need_of(rng, net, net.layers(batch, edge, edge), optimizer=trainer.optimizer)
    left = room - stays - net.saved(batch, edge, edge) * 0.2
    train, batches, small = epochs(rng, 25, 90), rng.randrange(40, 220), rng.randrange(1, 4)
    output = at_least(min(batch * classes * edge * edge * FLOAT,
                          left * rng.uniform(1.05, 2.4) / batches))
    halves = rng.random() < 0.5
    yield trainer.load()
    epoch = 0
    while True:
        share = tenth if epoch < small else 1.0
        for _ in range(train if epoch else 2):  # Lightning's check comes first
            inputs = (batch * 3 * edge * edge * FLOAT, batch * edge * edge * LONG)
            yield trainer.step(net.layers(batch, edge, edge), inputs)
        collected = []
        for number in range(max(2, int(batches * share))):
            mine = 0.37 if share == 1.0 and number == batches - 1 else 1.0
            shape = max(1, int(batch * mine / (2 if halves else 1)))
            operations, last = trainer.infer(net.layers(shape, edge, edge),
                                             (shape * 3 * edge * edge * FLOAT,))
            out, target = names(), names()
            operations += [("a", out, at_least(output * mine)),
                           ("a", target, at_least(output * mine / classes)), ("f", last)]
            if growth:
                collected += [(out, at_least(output * mine)),
                              (target, at_least(output * mine / classes))]
            else:
                operations += [("f", out), ("f", target)]
            yield operations
        if collected:
            joined = [names() for _ in range(2)]
            operations = [("a", name, sum(size for _, size in collected[kind::2]))
                          for kind, name in enumerate(joined)]
            yield operations + free_all(name for name, _ in collected) + free_all(joined)
        epoch += 1


def cloud_net(rng, room):
    """Sparse convolutions: all that is saved goes with the number of voxels."""
    width, depth = rng.choice((16, 32, 64)), rng.randrange(6, 14)
    widths = [width << min(3, at // 3) for at in range(depth)]
    parameters = [at_least(27 * a * b * FLOAT) for a, b in zip([width] + widths, widths)]

    def layers(batch, voxels):
        found = []
        for at, channels in enumerate(widths):
            points = batch * max(64, voxels >> (at // 3))
            found.append([at_least(points * channels * FLOAT), at_least(points * channels * FLOAT),
                          at_least(points * 27 * LONG // 4)])
        return found
    net = Net(tuple(parameters), layers)
    voxels = rng.randrange(20, 120) * 1024
    return net, voxels, net.batch_for(room * rng.uniform(0.18, 0.5), voxels)


@add(intent="leak")
def workspaces_of_an_extension(rng, capacity, growth):
    """An extension for point clouds takes workspaces from the driver, and never gives one back."""
    names, room = Names(), room_of(capacity)
    net, usual, batch = cloud_net(rng, room)
    trainer = Trainer(rng, names, net)
    spread = rng.uniform(0.05, 0.2)
    slack = room - need_of(rng, net, net.layers(batch, int(usual * (1 + spread))))[0]
    way = rng.choice(("each shape", "each larger one", "each call", "each epoch"))
    wanted, start = rng.randrange(90, 420), rng.choice((0, 0, 0, rng.randrange(20, 160)))
    epoch, grain = epochs(rng, 20, 70), rng.choice((16, 64, 256))
    handle, tidy = rng.randrange(8, 200) * MIB, rng.random() < 0.5
    seen, outside, step, largest = set(), 0.0, 0, 0.0
    yield [("x", handle)] + trainer.load()
    while True:
        voxels = int(usual * min(1.7, rng.lognormvariate(0, spread)))
        shape, more = voxels // grain, 0.0
        if step >= start:
            if way == "each shape" and shape not in seen:
                more = slack / wanted * 1.5
            elif way == "each larger one":  # a sequence of scans: the extension starts anew
                if voxels > largest:
                    more = slack / wanted * 3
                largest = 0.0 if step % 9 == 0 else max(largest, voxels)
            elif way == "each call":
                more = slack / wanted
            elif way == "each epoch" and step % epoch == 0:
                more = slack / wanted * epoch
            seen.add(shape)
        outside += more * rng.uniform(0.7, 1.3)
        step += 1
        held = handle + (outside if growth else 0.0)
        operations = [("x", int(held))]
        operations += trainer.step(net.layers(batch, voxels), (batch * voxels * 5 * FLOAT,))
        if step % epoch == 0:
            for _ in range(4):
                scan = net.layers(batch, int(usual * rng.uniform(0.8, 1.3)))
                some, left = trainer.infer(scan)
                operations += some + [("f", left)]
            operations += [("e",)] if tidy else []
        yield operations


@add()
def workers_left_behind(rng, capacity, _growth):
    """A shared workstation: old data workers that never end, a colleague's job, or both."""
    names, room = Names(), room_of(capacity)
    net = resnet(rng, rng.choice((48, 64, 96)), blocks=rng.choice(((1, 2, 2, 1), (2, 2, 2, 2))))
    sizes = rng.sample((160, 192, 224, 256, 288, 320), 3)
    batch = net.batch_for(room * rng.uniform(0.22, 0.5), max(sizes), max(sizes))
    trainer, epoch = Trainer(rng, names, net), epochs(rng, 12, 45)
    way = rng.choice(("workers", "colleague", "both"))
    workers = rng.randrange(2, 9) * rng.randrange(250, 520) * MIB
    if way != "colleague":
        workers = min(max(workers, int(room / 14)), int(room / 4))
    comes, wants = rng.randrange(40, 220), room * rng.uniform(0.5, 0.85)
    rises, desktop = rng.randrange(1, 40), rng.randrange(20, 400) * MIB
    yield [("o", desktop)] + trainer.load()
    step, size = 0, max(sizes)
    while True:
        held = desktop + rng.randrange(-10, 10) * MIB
        if way != "colleague":
            held += workers * (step // epoch)
        if way != "workers" and step > comes:
            held += int(wants * min(1.0, (step - comes) / rises))
        operations = [("o", held)]
        operations += trainer.step(net.layers(batch, size, size),
                                   (batch * 3 * size * size * FLOAT,))
        step += 1
        if step % epoch == 0:
            some, left = trainer.infer(net.layers(2 * batch, size, size))
            size = rng.choice(sizes)
            operations += some + [("f", left), ("e",)]
        yield operations
