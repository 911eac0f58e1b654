# SPDX-License-Identifier: Apache-2.0
"""Programs of scientific and geographic work: weather, molecules, satellites, microscopes, scans, graphs, simulators, students."""
import collections
import math

from program import GIB, MIB, UNSEEN, Names, at_least, free_all, generator, room_of

FAMILY = "unseen_atlas"


def add(intent=""):
    return generator(UNSEEN, FAMILY, intent)


# --- models and their steps ---

class Job:
    """A model that is trained: weights, Adam's moments from the first update on, gradients set to None after each."""

    def __init__(self, names, weights, moments=2):
        self.names, self.weights, self.moments = names, [at_least(size) for size in weights], moments
        self.alive, self.held, self.updated = [], [], False

    def size(self):
        """Weights, gradients and moments."""
        return sum(self.weights) * (2 + self.moments)

    def take(self, sizes):
        taken = [("a", self.names(), at_least(size)) for size in sizes]
        self.alive += [name for _, name, _ in taken]
        return taken

    def load(self):
        return self.take(self.weights)

    def drop(self):
        """The model and its optimizer go."""
        gone, self.alive = free_all(self.alive), []
        return gone

    def predict(self, layers, workspace=0):
        """Without gradients: each layer's tensors live until the next layer is done. The last one goes as well."""
        operations, before = [], []
        for layer in layers:
            mine = [self.names() for _ in layer]
            operations += [("a", name, at_least(size)) for name, size in zip(mine, layer)]
            operations += self.passing(workspace) + free_all(before)
            before = mine
        return operations + free_all(before)

    def passing(self, size):
        if not size:
            return []
        name = self.names()
        return [("a", name, at_least(size)), ("f", name)]

    def train(self, layers, hold=(), workspace=0):
        """Forward, backward, update. `hold`: (layer, tensor) whose memory stays after the step; names in self.held."""
        names, operations, kept = self.names, [], []
        for layer in layers:
            kept.append([names() for _ in layer])
            operations += [("a", name, at_least(size)) for name, size in zip(kept[-1], layer)]
            operations += self.passing(workspace)
        self.held = [kept[i][j] for i, j in hold]
        stays = set(self.held)
        gradients, waiting, coming = [], list(reversed(self.weights)), None
        share = -(-len(waiting) // len(layers))
        for layer, mine in zip(reversed(layers), reversed(kept)):
            going, coming = coming, names()
            operations.append(("a", coming, at_least(layer[0])))
            operations += self.passing(workspace)
            for size in waiting[:share]:
                gradients.append(names())
                operations.append(("a", gradients[-1], size))
            del waiting[:share]
            operations += free_all([name for name in reversed(mine) if name not in stays] + ([going] if going else []))
        operations.append(("f", coming))
        if not self.updated:
            self.updated = True
            operations += self.take([size for size in self.weights for _ in range(self.moments)])
        return operations + free_all(gradients)


def total(layers):
    return sum(sum(layer) for layer in layers)


def log_uniform(rng, low, high):
    return 10 ** rng.uniform(math.log10(low), math.log10(high))


def batch_of(budget, one):
    """As many samples as the budget allows."""
    return max(1, int(budget / one))


def unet(pixels, channels, levels, dims=2, each=4):
    """Activations of a U-Net on so many pixels: convolution and norm on the way down, joined with the skip on the way up."""
    down = [[int(pixels / 2 ** (dims * level) * channels * 2 ** level * each)] * 3 for level in range(levels)]
    up = [[2 * layer[0], layer[0], layer[0]] for layer in reversed(down[:-1])]
    return down + up


def unet_weights(channels, levels, dims=2, each=4):
    """Kernels of three by three (by three), two at each level and direction, with their norms."""
    wide = [channels * 2 ** level for level in range(levels)]
    down = [size for w in wide for size in (3 ** dims * w * w // 2 * each, 3 ** dims * w * w * each, w * each)]
    return down + [size for w in reversed(wide[:-1]) for size in (3 ** dims * 2 * w * w * each, 3 ** dims * w * w * each, w * each)]


def transformer(tokens, width, layers, each=2):
    """Queries, keys, values; what attention gives; the hidden layer; the norms' statistics."""
    return [[3 * tokens * width * each, tokens * width * each, 4 * tokens * width * each, tokens * 8] for _ in range(layers)]


def transformer_weights(width, layers, each=4):
    return [size * width * each for _ in range(layers) for size in (3 * width, width, 4 * width, 4 * width, 2)]


def width_for(rng, capacity):
    return rng.choice((256, 384, 512, 768) if capacity < 24 * GIB else (512, 768, 1024, 1536))


# --- something is kept by mistake ---

@add("leak")
def energies_logged_with_graph(rng, capacity, growth):
    """Molecular dynamics with an equivariant potential: every few steps a logger keeps the energy with its graph."""
    room, names = room_of(capacity), Names()
    channels, blocks, degree = rng.choice((64, 128)), rng.choice((2, 3)), rng.uniform(18, 45)
    irreps, every, rebuild = rng.choice((4, 9)), rng.choice((1, 2, 5, 10)), rng.randrange(5, 30)
    per_edge = 3 * 4 + 16 * 4 + 8 * 4 + blocks * channels * 4 * (1 + irreps)
    atoms = int(room * rng.uniform(0.2, 0.55) / (degree * per_edge + blocks * 2 * channels * irreps * 4))
    job = Job(names, [channels * channels * 4 * k for k in (2, 8, irreps, 1) for _ in range(blocks)], moments=0)
    state = [names() for _ in range(3)]
    yield job.load() + [("a", name, at_least(atoms * 12)) for name in state]
    edges = number = 0
    while True:
        operations, number = [], number + 1
        if number % rebuild == 1:
            edges = int(atoms * degree * rng.gauss(1, 0.012))
            distances = names()
            operations += [("a", distances, edges * 16), ("f", distances)]
        layers = [[edges * 12, edges * 64, edges * 32]]
        layers += [[edges * channels * 4, edges * channels * irreps * 4, atoms * channels * irreps * 4, atoms * channels * 4]
                   for _ in range(blocks)]
        kept = [(block + 1, 3) for block in range(blocks)] + [(blocks, 2)]
        operations += job.train(layers, kept if growth and number % every == 0 else (), atoms * channels * 4)
        yield operations


@add("leak")
def bias_correction_not_detached(rng, capacity, growth):
    """A weather transformer whose running bias, begun after the warm-up, holds the difference field of every batch."""
    room, names = room_of(capacity), Names()
    width, depth = width_for(rng, capacity), rng.choice((6, 8, 10))
    cells, patch, variables = rng.choice(((181 * 360, 4), (121 * 240, 2), (361 * 720, 8), (721 * 1440, 8))) + (rng.randrange(20, 90),)
    job = Job(names, [variables * patch * patch * width * 4] + transformer_weights(width, depth) + [variables * patch * patch * width * 4])
    field, tokens = variables * cells * 4, cells // patch ** 2
    one = total(transformer(tokens, width, depth)) + 3 * field
    batch = batch_of(room * rng.uniform(0.2, 0.6) - job.size(), one)
    layers = transformer(batch * tokens, width, depth) + [[batch * field, batch * field]]
    warm, clock = int(log_uniform(rng, 8, 250)), 0
    yield job.load() + [("a", names(), cells * 4 * 12)]
    while True:
        clock += 1
        source, target = names(), names()
        operations = [("a", source, batch * field), ("a", target, batch * field)]
        operations += job.train(layers, [(depth, 1)] if growth and clock > warm else ())
        yield operations + free_all([source, target])
        if clock % 100 == 0:
            yield job.predict(transformer(2 * batch * tokens, width, 2)) + [("e",)]


@add("leak")
def cells_run_again(rng, capacity, growth):
    """A student's notebook: the training cell is run again and again, and tracebacks and results keep the models of before."""
    room, names = room_of(capacity), Names()
    share, kept_often = log_uniform(rng, 0.01, 0.07), rng.uniform(0.35, 0.9)
    levels, pixels = rng.choice((4, 5)), rng.choice((96, 128, 224)) ** 2
    usual = max(8, int(math.sqrt(room * share / 4 / sum(unet_weights(1, levels)))))
    data = [names(), names()]
    yield [("a", data[0], int(room * rng.uniform(0.01, 0.08))), ("a", data[1], 2 * MIB)]
    while True:
        channels = max(8, int(usual * rng.choice((0.75, 1, 1, 1.25))) // 4 * 4)
        batch = batch_of(room * rng.choice((0.08, 0.15, 0.22)), total(unet(pixels, channels, levels)))
        layers, steps = unet(batch * pixels, channels, levels), int(log_uniform(rng, 2, 40))
        job = Job(names, unet_weights(channels, levels), moments=rng.choice((1, 2, 2)))
        yield job.load()
        interrupted, forgotten, tidy = rng.random() < 0.4, rng.random() < kept_often, rng.random() < 0.3
        for number in range(steps):
            last = interrupted and number == steps - 1
            yield job.train(layers, [(1, 0), (2, 0)] if last else ())
        # an interruption leaves a frame with activations in the traceback
        remains = free_all(job.held) if interrupted else []
        yield ([] if growth and forgotten else remains + job.drop()) + ([("e",)] if tidy else [])


@add("leak")
def volumes_kept_for_dice(rng, capacity, growth):
    """Training on patches of computed tomography; validation on whole volumes keeps the label maps of all epochs on the GPU."""
    room, names = room_of(capacity), Names()
    levels, channels, classes = rng.choice((4, 5)), rng.choice((24, 32)), rng.randrange(3, 15)
    patch = rng.choice((96, 112, 128)) * rng.choice((96, 128)) * rng.choice((64, 96, 128))
    job = Job(names, unet_weights(channels, levels, 3), moments=1)
    batch = batch_of(room * rng.uniform(0.2, 0.4) - job.size(), total(unet(patch, channels, levels, 3, 2)))
    layers = unet(batch * patch, channels, levels, 3, 2)
    voxels, spread = room * rng.uniform(0.03, 0.09) / (classes * 4), rng.uniform(0.25, 0.5)
    epoch, volumes, label = int(log_uniform(rng, 5, 40)), rng.randrange(3, 9), rng.choice((8, 8, 4))
    yield job.load()
    while True:
        for _ in range(epoch):
            images = names()
            yield [("a", images, batch * patch * 4)] + job.train(layers, (), batch * patch * channels) + [("f", images)]
        for _ in range(volumes):
            size = int(voxels * min(3.0, rng.lognormvariate(0, spread)))
            volume, logits, weight, found = names(), names(), names(), names()
            operations = [("a", volume, size * 4), ("a", logits, size * classes * 4), ("a", weight, size * 4)]
            for _ in range(max(1, min(3, size // patch))):
                operations += job.predict(unet(patch, channels, levels, 3, 2))
            operations += [("a", found, size * label)] + free_all([logits, weight, volume])
            yield operations + ([] if growth else [("f", found)])


# --- growth that is meant or demanded ---

@add("design")
def features_of_hot_nodes(rng, capacity, growth):
    """A graph network on sampled neighbourhoods keeps the features of every node it has met, without a bound."""
    room, names = room_of(capacity), Names()
    features, hidden, fanouts = rng.choice((100, 128, 256, 768)), rng.choice((128, 256, 512)), rng.choice(((15, 10, 5), (25, 10), (10, 10)))
    seeds = batch_of(room * rng.uniform(0.06, 0.25), math.prod(fanouts) * 0.6 * (features + 2 * hidden) * 4)
    weights = [features * hidden * 4, hidden * 4] + [2 * hidden * hidden * 4, hidden * 4] * len(fanouts)
    job, nodes = Job(names, weights), room * rng.uniform(0.8, 3.0) / (features * 4)
    yield job.load() + [("a", names(), int(nodes) * 8)] + ([("a", names(), int(nodes / 8))] if growth else [])
    met = 0.0
    part = rng.uniform(0.03, 0.4)   # most neighbours are hubs, met long ago
    while True:
        counts = [int(seeds * rng.gauss(1, 0.01))]
        for fanout in fanouts:
            counts.append(int(counts[-1] * (1 + fanout * rng.uniform(0.5, 0.65))))
        operations, edges = [], []
        for count in counts[1:]:
            edges.append(names())
            operations.append(("a", edges[-1], at_least(count * 16)))
        new = int(counts[-1] * part * max(0.0, 1 - met / nodes) * rng.uniform(0.8, 1.2))
        met += new
        if growth and new:
            operations.append(("a", names(), at_least(new * features * 4)))
        gathered = names()
        operations.append(("a", gathered, counts[-1] * features * 4))
        layers = [[count * hidden * 4, count * hidden * 4, count * hidden // 8] for count in reversed(counts[:-1])]
        yield operations + job.train(layers, (), counts[-2] * features * 4) + free_all([gathered, *edges])


@add("design")
def replay_made_larger(rng, capacity, growth):
    """Off-policy learning from simulated cameras: the replay buffer on the GPU is copied into a larger one when it is full."""
    room, names = room_of(capacity), Names()
    side, channels, copies = rng.choice((64, 84, 100)), rng.choice((3, 9, 12)), rng.choice((1, 2))
    record = [side * side * channels] * copies + [rng.randrange(4, 40) * 4, 4, 1]
    slots = int(room * rng.uniform(0.02, 0.1) / sum(record))
    factor, pieces = rng.choice((1.5, 2, 1.25)), rng.random() < 0.4
    width = rng.choice((32, 64))
    batch = batch_of(room * rng.uniform(0.05, 0.15), side * side * width * 4 * 3)
    layers = [[batch * side * side * width * 4 // 4 ** i, batch * side * side * width // 4 ** i] for i in range(3)]
    layers += [[at_least(batch * 1024 * 4)] * 2 for _ in range(3)]
    job = Job(names, [9 * width * channels * 4, 9 * width * width * 4, 39200 * 256] + [1024 * 1024 * 4] * 4)
    filled, full, steps = 0, slots, log_uniform(rng, 40, 900)
    per_step = max(1, int(room * 0.7 / sum(record) / steps))
    buffer = [(names(), at_least(slots * size)) for size in record]
    yield job.load() + job.take(job.weights) + [("a", *part) for part in buffer]
    while True:
        operations, filled = [], filled + per_step
        if filled > full:
            larger = full + slots if pieces else int(full * factor)
            if growth:
                full = max(larger, filled)
                if pieces:      # another shard, nothing is copied
                    operations += [("a", names(), at_least(slots * size)) for size in record]
                else:
                    new = [(names(), at_least(full * size)) for size in record]
                    for (old, _), part in zip(buffer, new):
                        operations += [("a", *part), ("f", old)]
                    buffer = new
            else:
                filled = 0
        seen = [names(), names()]
        operations += [("a", name, batch * side * side * channels * 4) for name in seen]
        yield operations + job.predict(layers) + job.train(layers) + free_all(seen)


@add("demand")
def splats_are_divided(rng, capacity, growth):
    """Gaussian splatting: splats are divided and cloned every some steps, and all parameters and moments copied."""
    room, names = room_of(capacity), Names()
    floats = rng.choice(((3, 3, 45, 3, 4, 1), (3, 3, 24, 3, 4, 1), (3, 3, 3, 4, 1)))
    count = int(room * rng.uniform(0.05, 0.2) / (sum(floats) * 4 * 4))
    every, rate, begin = rng.randrange(6, 30), rng.uniform(0.02, 0.09), rng.randrange(5, 60)
    pixels = rng.choice((800 * 800, 1237 * 822, 1600 * 1060, 1959 * 1090))
    images = [("a", names(), pixels * 12) for _ in range(min(200, int(room * 0.06 / (pixels * 12))))]
    overlap = rng.uniform(3, 9)
    parts = [(names(), count * size * 4) for size in floats for _ in range(3)]
    yield images + [("a", *part) for part in parts]
    number = 0
    while True:
        operations, number = [], number + 1
        born, pruned = rate * rng.uniform(0.5, 1.5), rng.uniform(0, 0.012)
        if number > begin and number % every == 0:
            count = int(count * (1 + born) * (1 - pruned)) if growth else count
            mask = names()
            larger = [(names(), count * size * 4) for size in floats for _ in range(3)]
            operations.append(("a", mask, count))
            for (old, _), part in zip(parts, larger):
                operations += [("a", *part), ("f", old)]
            operations.append(("f", mask))
            parts = larger
        visible = int(count * rng.uniform(0.25, 0.8))
        pairs = int(visible * overlap * rng.uniform(0.7, 1.3))
        projected = [names() for _ in range(6)]
        operations += [("a", name, at_least(count * size)) for name, size in zip(projected, (8, 4, 16, 12, 4, 8))]
        lists = [names() for _ in range(4)]
        operations += [("a", name, at_least(pairs * size)) for name, size in zip(lists, (8, 4, 8, 4))]
        frames = [names() for _ in range(5)]
        operations += [("a", name, pixels * size) for name, size in zip(frames, (12, 4, 4, 12, 60))]
        gradients = [names() for _ in floats]
        operations += [("a", name, count * size * 4) for name, size in zip(gradients, floats)]
        yield operations + free_all(frames + lists + projected + gradients)


# --- no growth ---

@add()
def scans_of_unequal_size(rng, capacity, growth):
    """Sparse convolutions on laser scans: points, voxels and kernel maps differ from batch to batch."""
    room, names = room_of(capacity), Names()
    channels, spread = rng.choice(((32, 64, 128, 256), (32, 64, 96, 128, 128), (16, 32, 64, 128))), rng.uniform(0.12, 0.4)
    scans, shrink = rng.choice((1, 2, 4, 8)), rng.uniform(0.4, 0.6)
    each = sum(shrink ** i * (2 * 27 * 4 * 0.4 + 4 * c * 4) for i, c in enumerate(channels)) + 60
    points = room * rng.uniform(0.48, 0.78) / each / scans
    job = Job(names, [27 * c * c * 4 for c in channels for _ in range(3)] + [c * 4 for c in channels])
    yield job.load() + [("a", names(), rng.randrange(1, 60) * MIB) for _ in range(4)]
    while True:
        count = sum(int(points * math.exp(rng.gauss(-spread ** 2 / 2, spread))) for _ in range(scans))
        inputs, maps, layers, voxels = [names(), names(), names()], [], [], count * rng.uniform(0.75, 0.95)
        operations = [("a", name, at_least(count * size)) for name, size in zip(inputs, (16, 16, 8))]
        for width in channels:
            table, pairs = names(), [names(), names()]
            operations.append(("a", table, at_least(2 ** math.ceil(math.log2(voxels * 2 + 2)) * 8)))
            operations += [("a", name, at_least(voxels * 27 * 0.4 * rng.uniform(0.8, 1.2) * 4)) for name in pairs]
            operations.append(("f", table))
            maps += pairs
            layers.append([at_least(voxels * width * 4) for _ in range(4)])
            voxels *= shrink * rng.uniform(0.93, 1.07)
        operations += job.train(layers, (), int(count * channels[0] * 4))
        yield operations + free_all(maps + inputs)


@add()
def larger_tiles_in_later_phases(rng, capacity, growth):
    """Land cover from satellite tiles: training begins with small tiles and goes on with larger ones, the batch unchanged or halved."""
    room, names = room_of(capacity), Names()
    levels, channels, bands = rng.choice((4, 5)), rng.choice((32, 48, 64)), rng.choice((3, 4, 10, 13))
    sides = rng.choice(((128, 192, 256), (256, 384, 512), (224, 288, 352, 416, 480), (256, 320, 512)))
    job = Job(names, unet_weights(channels, levels))
    first = total(unet(sides[0] ** 2, channels, levels))
    batch = batch_of(room * rng.uniform(0.22, 0.55) - job.size(), first)
    steps, halves, tidy = int(log_uniform(rng, 10, 400)), rng.random() < 0.25, rng.random() < 0.4
    average = [("a", names(), size) for size in job.weights]
    yield job.load() + average
    for phase in range(10000):
        side = sides[min(phase, len(sides) - 1)]
        if phase == 1 and halves:
            batch = max(1, batch // 2)
        for number in range(steps):
            # the last batch of an epoch is smaller, tiles at the coast are dropped
            now = batch if number % 25 else max(1, int(batch * rng.uniform(0.3, 1)))
            tiles = [names(), names()]
            operations = [("a", tiles[0], now * side * side * bands * 4), ("a", tiles[1], now * side * side * 8)]
            yield operations + job.train(unet(now * side * side, channels, levels), (), now * side * side * 16) + free_all(tiles)
        for _ in range(5):
            yield job.predict(unet(max(1, batch // 2) * sides[-1] ** 2, channels, levels))
        if tidy:
            yield [("e",)]


@add()
def mosaics_of_a_microscope(rng, capacity, growth):
    """Stitching of slides: the fields of a row, their spectra, descriptors for the row below, and the blended strips."""
    room, names = room_of(capacity), Names()
    columns, colours = rng.randrange(6, 24), rng.choice((1, 2, 4))
    wanted = room * rng.uniform(0.5, 0.85) / (columns * 3.2 * colours * 4)
    descriptors, waiting = collections.deque(), collections.deque()
    yield [("a", names(), size) for size in (rng.randrange(20, 90) * MIB, rng.randrange(1, 20) * MIB, 300 << 10)]
    while True:
        across, rows = max(3, int(columns * rng.uniform(0.6, 1.2))), rng.randrange(3, 10)
        pixels = int(wanted * columns / across * rng.uniform(0.75, 1.1))
        strips, mosaic = collections.deque(), []
        for _ in range(rows):
            fields = []
            for _ in range(across):
                field, raw = names(), names()
                size = int(pixels * rng.uniform(0.97, 1.03))
                operations = [("a", raw, size * 2 * colours), ("a", field, size * colours * 4), ("f", raw)]
                spectra = [names() for _ in range(3)]
                padded = int(size * rng.choice((0.15, 0.2, 0.3)))
                operations += [("a", name, padded * 8) for name in spectra]
                keys = names()
                operations += [("a", keys, int(rng.lognormvariate(0, 0.6) * 2 * MIB) + 512)] + free_all(spectra)
                descriptors.append(keys)
                if len(descriptors) > across + 1:
                    operations.append(("f", descriptors.popleft()))
                thumbnail = names()
                mosaic.append(thumbnail)
                operations.append(("a", thumbnail, at_least(size * colours * 4 / 64)))
                fields.append(field)
                yield operations
            strip, weights = names(), names()
            area = int(across * pixels * rng.uniform(0.86, 0.92))
            operations = [("a", strip, area * colours * 4), ("a", weights, area * 4)]
            if strips:      # the seam with the strip above
                operations.append(("f", strips.popleft()))
            strips.append(strip)
            yield operations + free_all(fields) + [("f", weights)]
        waiting.append(mosaic)
        # the overview of a slide is written when the next one is done
        done = waiting.popleft() if len(waiting) > 1 else []
        yield free_all(list(strips) + done)


@add()
def series_of_many_lengths(rng, capacity, growth):
    """A forecaster with full attention on series of many lengths, batched by the number of values, padded to the longest."""
    room, names = room_of(capacity), Names()
    width, heads, depth = rng.choice((128, 256, 512)), rng.choice((4, 8, 16)), rng.choice((4, 6))
    longest, median, spread = rng.choice((1024, 2048, 3000)), rng.uniform(0.15, 0.4), rng.uniform(0.4, 0.75)
    job = Job(names, transformer_weights(width, depth))

    def layers_of(batch, length):
        tokens = batch * length
        scores, wide = heads * tokens * length * 4, tokens * width * 4
        return [[3 * wide, scores, scores, wide, 4 * wide] for _ in range(depth)]

    one = total(layers_of(1, longest)) / longest
    tokens = max(longest, int((room - job.size()) * rng.uniform(0.85, 1.45) / one))
    static = [("a", names(), rng.randrange(1 << 10, 900 << 10)) for _ in range(rng.randrange(3, 30))]
    yield job.load() + static
    states, number = collections.deque(), 0
    while True:
        number += 1
        length = int(min(longest, max(24, longest * median * math.exp(rng.gauss(0, spread)))))
        batch = max(1, tokens // length)
        series = [names() for _ in range(3)]
        operations = [("a", name, at_least(batch * length * size)) for name, size in zip(series, (16, 8, 1))]
        operations += job.train(layers_of(batch, length), (), 0)
        # embeddings of the last batches, every eighth value, for negatives of the contrastive loss
        states.append(names())
        operations.append(("a", states[-1], at_least(batch * length * width * 4 // 8)))
        if len(states) > 12:
            operations.append(("f", states.popleft()))
        yield operations + free_all(series)


# --- memory that others take, or beside the allocator ---

@add()
def classmates_on_the_card(rng, capacity, growth):
    """A course's shared GPU: a recurrent forecaster with larger validation, while notebooks of others start, grow and end."""
    room, names = room_of(capacity), Names()
    hidden, depth, window = rng.choice((128, 256, 512)), rng.choice((2, 3)), rng.choice((96, 168, 336, 720))
    job = Job(names, [4 * hidden * hidden * 4, 4 * hidden * hidden * 4, 16 * hidden] * depth + [hidden * 400])
    one = total([[5 * window * hidden * 4, window * hidden * 4, window * hidden * 4]] * depth)
    batch = batch_of(room * rng.uniform(0.12, 0.35), one)
    factor, every, tidy = rng.uniform(1.5, 3.5), rng.randrange(10, 80), rng.random() < 0.7
    arrivals, there = rng.uniform(0.01, 0.12), []
    yield job.load() + [("a", names(), int(room * rng.uniform(0.01, 0.06)))] + [("o", int(capacity * rng.uniform(0, 0.15)))]
    number = 0
    while True:
        number += 1
        # each: [steps left, bytes now, bytes at the end, ramp]
        start, lasts, wants = rng.random() < arrivals, int(log_uniform(rng, 10, 400)), capacity * rng.uniform(0.05, 0.4)
        if start and len(there) < 4:
            there.append([lasts, 500 * MIB, wants, rng.randrange(1, 12)])
        for each in there:
            each[0] -= 1
            each[1] = min(each[2], each[1] + each[2] / each[3])
        there = [each for each in there if each[0] > 0]
        operations = [("o", int(min(sum(each[1] for each in there), capacity)))]
        now = max(1, int(batch * rng.uniform(0.6, 1))) if number % every == every - 1 else batch
        size = now * window * hidden * 4
        layers = [[5 * size, size, size] for _ in range(depth)]
        yield operations + job.train(layers, (), size // 4)
        if number % every == 0:
            size = int(batch * factor) * window * hidden * 4
            for _ in range(3):
                predictions = names()
                yield [("a", predictions, at_least(size / hidden * 24))] + job.predict([[5 * size, size]] * depth) + [("f", predictions)]
            if tidy:
                yield [("e",)]


@add()
def contacts_of_walking_robots(rng, capacity, growth):
    """Recurrent PPO in a simulator on the same GPU: as the terrain becomes harder, the simulator enlarges its contact buffers."""
    room, names = room_of(capacity), Names()
    observations, horizon, hidden = rng.choice((48, 187, 235, 320)), rng.choice((16, 24, 32)), rng.choice((256, 512))
    robots = batch_of(room * rng.uniform(0.05, 0.14), horizon * (observations * 2 + 60) * 4)
    job = Job(names, [observations * 512 * 4, 512 * 256 * 4, 256 * 128 * 4, 4 * hidden * (hidden + observations) * 4] * 2)
    storage = [robots * horizon * size * 4 for size in (observations, observations, 12, 12, 12, 1, 1, 1)]
    outside, contacts = room * rng.uniform(0.08, 0.2), room * rng.uniform(0.01, 0.04)
    mini, harder = rng.choice((2, 4)), 1 / log_uniform(rng, 8, 90)
    share, every, tidy = robots * horizon // mini, rng.randrange(8, 50), rng.random() < 0.4
    cameras, spread = room * rng.uniform(0.1, 0.25), rng.uniform(0.1, 0.3)
    # batches of padded trajectories hold about a tenth to a third of the memory
    wide = max(64, int(room * rng.uniform(0.1, 0.3) / share / 4 / 3))
    yield job.load() + [("x", int(outside))] + [("a", names(), at_least(size)) for size in storage]
    number = 0
    while True:
        number += 1
        if rng.random() < harder:       # a buffer overflows; the new one comes beside the old ones
            outside += contacts
            contacts *= rng.uniform(1.0, 1.6)
        operations = [("x", int(outside))]
        acting = [names() for _ in range(6)]
        operations += [("a", name, at_least(robots * size * 4)) for name, size in zip(acting, (observations, hidden, hidden, 512, 256, 12))]
        operations += free_all(acting)
        padded = 1 + 0.4 * rng.lognormvariate(0, spread)    # the more robots fall, the more padding
        for _ in range(mini):
            inputs = names()
            rows = int(share * padded)
            layers = [[rows * int(wide * part) * 4 for part in (1, 0.5, 0.25)], [rows * int(wide * 0.6) * 4, rows * 4 * 12]]
            operations += [("a", inputs, rows * observations * 4)] + job.train(layers) + [("f", inputs)]
        yield operations
        if number % every == 0:     # a film of some robots
            frames = [names() for _ in range(4)]
            length = cameras * rng.uniform(0.5, 1)
            yield [("a", name, at_least(length * part)) for name, part in zip(frames, (0.4, 0.3, 0.2, 0.1))] + free_all(frames)
            if tidy:
                yield [("e",)]


# --- one more ---

@add("demand")
def fields_wait_for_the_writer(rng, capacity, growth):
    """An ensemble forecast: fields wait on the GPU for a writer to the archive, which falls behind when the disks are busy."""
    room, names = room_of(capacity), Names()
    cells, variables = rng.choice((181 * 360, 361 * 720, 721 * 1440)), rng.randrange(40, 110)
    width, depth = width_for(rng, capacity), rng.choice((8, 12))
    job = Job(names, transformer_weights(width, depth, 2), moments=0)
    field = cells * variables * 4
    members = batch_of(room * rng.uniform(0.005, 0.05), field)
    tokens = members * cells // 16
    queue, debt, speed = collections.deque(), 0.0, rng.uniform(0.5, 0.93)
    leads, chosen = rng.choice((12, 20, 40)), rng.uniform(0.25, 1.0)
    yield job.load() + [("a", names(), cells * 4 * 8)]
    while True:
        before = names()
        yield [("a", before, members * field)]
        for _ in range(leads):
            after, written = names(), names()
            operations = [("a", after, members * field)] + job.predict(transformer(tokens, width, depth), tokens * width * 2)
            operations += [("a", written, at_least(members * field * chosen)), ("f", before)]
            queue.append(written)
            before = after
            debt += speed * rng.uniform(0.2, 1.8)
            while debt >= 1 and queue:
                debt -= 1
                operations.append(("f", queue.popleft()))
            debt = min(debt, 2.0)
            while not growth and len(queue) > 3:
                operations.append(("f", queue.popleft()))
            yield operations
        yield [("f", before)]
