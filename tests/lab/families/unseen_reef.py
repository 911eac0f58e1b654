# SPDX-License-Identifier: Apache-2.0
"""Natural science and engineering: simulations with learned parts, reconstruction, surveys."""
import functools
import math

from program import (GIB, MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all,
                     generator, load, room_of)

add = functools.partial(generator, UNSEEN, "unseen_reef")


def shares(rng, total, count, spread=0.8):
    """Splits `total` bytes into `count` uneven pieces."""
    weights = [rng.lognormvariate(0, spread) for _ in range(count)]
    return [at_least(total * weight / sum(weights)) for weight in weights]


def through(names, sizes, stream=0):
    """Tensors that live one after the other, each until the next one is there."""
    operations, last = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size), stream))
        if last is not None:
            operations.append(("f", last))
        last = name
    return operations + ([("f", last)] if last is not None else [])


def together(names, sizes, stream=0):
    """Tensors that are all there at once, and their frees."""
    made = [(names(), at_least(size)) for size in sizes]
    return ([("a", name, size, stream) for name, size in made],
            free_all(name for name, _ in reversed(made)))


class Trained:
    """A network under Adam. Its two states come with the first update, its gradients each time."""

    def __init__(self, rng, names, total):
        self.names = names
        self.sizes = shares(rng, total / 4, rng.randrange(6, 19)) + [2048] * rng.randrange(3, 9)
        self.states = []

    def weights(self):
        return load(self.names, self.sizes)[1]

    def step(self, layers, scale=1.0, temporaries=()):
        """Forward, backward, update."""
        operations, kept = forward(self.names, layers, temporaries, scale)
        back, gradients = backward(self.names, kept, self.sizes[::-1])
        operations += back
        if not self.states:
            self.states, made = load(self.names, self.sizes * 2)
            operations += made
        else:
            operations += through(self.names, self.sizes[:3])
        return operations + free_all(gradients)

    def renewed(self):
        """The optimizer is made anew: its states go, and come with the next update."""
        gone, self.states = free_all(name for name, _ in self.states), []
        return gone


# --- leaks ---

@add(intent="leak")
def replicas_reported(rng, capacity, growth):
    """Batched molecular dynamics; the reporter keeps the forces of each replica on the GPU."""
    names = Names()
    room = room_of(capacity)
    replicas = rng.randrange(6, 40)
    steps = rng.randrange(200, 750)
    every = rng.choice((1, 1, 2, 4))
    reports = replicas * steps / every
    frame = min(10 ** rng.uniform(4.7, 6.3), room * rng.uniform(0.3, 0.6) / reports)
    frame = max(frame, room * rng.uniform(0.12, 0.2) / reports)
    rest = room * rng.uniform(0.8, 0.92) - frame * reports
    work = rest * rng.uniform(0.25, 0.7)
    layers = activations_of(rng, work, rng.randrange(2, 5))
    edges = work * rng.uniform(0.05, 0.2)
    rebuilt = rng.randrange(4, 21)
    warm_up = rng.choice((0, rng.randrange(10, 120)))
    sparse = rng.uniform(0.9, 0.99)
    yield load(names, shares(rng, max(4 * MIB, rest - work - edges * 1.3), 24))[1]
    lists = []
    step = 0
    while True:
        crowd = rng.uniform(sparse, 1.0)
        padded = math.ceil(crowd * 40) / 40
        operations = []
        if step % rebuilt == 0:
            operations += through(names, [edges * padded * 0.4, edges * padded * 0.3])
            operations += free_all(lists)
            lists = [names() for _ in range(3)]
            operations += [("a", name, at_least(edges * padded * part))
                           for name, part in zip(lists, (0.4, 0.45, 0.15))]
        made, kept = forward(names, layers, (work * 0.01,), crowd)
        operations += made + backward(names, kept)[0]
        sizes = [at_least(frame * rng.uniform(0.8, 1.2)) for _ in range(replicas)]
        if step >= warm_up and step % every == 0:
            shown, gone = together(names, sizes)
            operations += shown
            if growth:
                operations.append(("a", names(), 512))
            else:
                operations += gone
        yield operations
        step += 1


@add(intent="leak")
def shots_kept(rng, capacity, growth):
    """Full-waveform inversion; a line search that is turned down leaves its trial fields behind."""
    names = Names()
    room = room_of(capacity)
    points = rng.randrange(18, 50)                        # checkpoints of a wave field
    field = int(room * rng.uniform(0.5, 0.78) / (points + 14))
    model = int(field * rng.uniform(0.25, 1.0))
    memory = rng.randrange(3, 9)                          # pairs that L-BFGS remembers
    batch = rng.randrange(3, 9)
    refused = rng.uniform(0.3, 0.8)
    lost = rng.choice((1, 1, 2))
    yield load(names, [model, model, model, field, field, field] + [64 << 10] * 12)[1]
    pairs = []
    shot = 0
    while True:
        traces = model * rng.uniform(0.05, 0.35)
        seen, seen_gone = together(names, [traces, traces * rng.uniform(0.9, 1.0), 4096])
        fields = [(names(), field) for _ in range(points)]
        operations = seen + [("a", name, size) for name, size in fields]
        levels, levels_gone = together(names, [field] * 3)
        operations += levels
        for at, (name, _) in enumerate(reversed(fields)):
            if at % 4 == 0:
                operations += through(names, [field, field])
            operations.append(("f", name))
        operations += levels_gone + seen_gone
        shot += 1
        if shot % batch == 0:
            pair = [names(), names()]
            operations += [("a", name, model) for name in pair]
            pairs.append(pair)
            if len(pairs) > memory:
                operations += free_all(pairs.pop(0))
            for _ in range(2):
                trial, trial_gone = together(names, [model, field, field, traces])
                operations += trial + trial_gone
            if rng.random() < refused:
                left, left_gone = together(names, [model] * lost + [traces])
                operations += left + ([] if growth else left_gone)
        yield operations


@add(intent="leak")
def residual_with_graph(rng, capacity, growth):
    """Training in three phases; in the last the running residual keeps its graph."""
    names = Names()
    room = room_of(capacity)
    network = Trained(rng, names, room * rng.uniform(0.03, 0.25))
    peak = room * rng.uniform(0.25, 0.55)
    layers = activations_of(rng, peak, rng.randrange(3, 7))
    ends = [rng.randrange(40, 160)]
    ends.append(ends[0] + rng.randrange(60, 220))
    scales = sorted(rng.uniform(0.15, 0.8) for _ in range(2)) + [1.0]
    kept = room * 10 ** rng.uniform(-3.5, -2.5)
    pieces = shares(rng, kept, rng.randrange(2, 7), 1.3)
    checked = rng.randrange(25, 90)
    tidy = rng.random() < 0.5
    yield network.weights() + load(names, shares(rng, room * rng.uniform(0.01, 0.08), 5))[1]
    step = 0
    while True:
        phase = sum(step >= end for end in ends)
        scale = scales[phase] * rng.uniform(0.9, 1.0)
        operations = []
        if step in ends:
            operations += network.renewed() + ([("e",)] if tidy else [])
        operations += network.step(layers, scale, (peak * 0.02,) if phase == 2 else ())
        if phase == 2:
            held, gone = together(names, [size * rng.uniform(0.8, 1.2) for size in pieces])
            operations += held + ([] if growth else gone)
        step += 1
        if step % checked == 0:
            operations += through(names, [peak * 0.1 * scale] * 6)
        yield operations


@add()
def tape_beside(rng, capacity, _growth):
    """A differentiable simulator with memory of its own; its tapes are not always given back."""
    names = Names()
    room = room_of(capacity)
    policy = Trained(rng, names, room * rng.uniform(0.01, 0.1))
    layers = activations_of(rng, room * rng.uniform(0.15, 0.4), rng.randrange(4, 9))
    own = room * rng.uniform(0.05, 0.25)                  # its pool after the first episode
    starts = rng.choice((1, rng.randrange(20, 200)))
    chance = 10 ** rng.uniform(-1.0, 0)
    chunk = max(2 * MIB, room * 0.4 / (rng.randrange(100, 700) * chance))
    bound = rng.choice((9.0, 9.0, 9.0, 0.15)) * room
    tested = rng.randrange(20, 70)
    yield policy.weights() + [("x", int(own * 0.2))]
    step, leaked = 0, 0
    while True:
        if step >= starts and rng.random() < chance:
            leaked = min(bound, leaked + chunk * rng.choice((1, 1, 1, 2)))
        contacts = rng.uniform(0.6, 1.0)
        operations = [("x", int(own + leaked))]
        operations += policy.step(layers, contacts)
        step += 1
        if step % tested == 0:
            operations += through(names, [room * 0.03 * contacts] * 10)
        yield operations


# --- growth by design and by demand ---

@add(intent="design")
def gaussians(rng, capacity, growth):
    """Gaussian splatting: the splats are made denser until an iteration that is set before."""
    names = Names()
    room = room_of(capacity)
    floats = (3, 3, 4, 1, 3, 45)
    count = room * rng.uniform(0.02, 0.08) / (4 * 59 * 3)
    final = room * rng.uniform(0.25, 1.5) / (4 * 59 * 3)
    rate = rng.uniform(1.025, 1.09)
    rounds = math.ceil(math.log(final / count) / math.log(rate))
    every = rng.randrange(6, 19)
    first = rng.randrange(10, 60)
    views = rng.randrange(30, 160)
    picture = min(int(room * rng.uniform(0.0002, 0.0012)), 100 * MIB)
    tensors = [(names(), int(count * 4 * each)) for each in floats for _ in range(3)]
    yield [("a", name, size) for name, size in tensors]
    step = done = 0
    while True:
        operations = []
        if step < views:
            operations.append(("a", names(), int(picture * rng.choice((1, 1, 1, 0.75)))))
        seen = rng.uniform(0.1, 0.6)
        tiles = count * seen * rng.uniform(2, 7)
        screen, screen_gone = together(names, [count * each for each in (8, 12, 4, 4, 12)])
        operations += screen
        sort, sort_gone = together(names, [tiles * 8, tiles * 8, tiles * 4, tiles * 4])
        operations += sort + sort_gone[:2]
        image, image_gone = together(names, [picture * 4, picture * 4, picture, picture * 4])
        operations += image
        slopes, slopes_gone = together(names, [count * 4 * each for each in floats])
        operations += slopes + image_gone + sort_gone[2:] + screen_gone
        operations += through(names, [count * 4 * 45, count * 4 * 4]) + slopes_gone
        step += 1
        if step >= first and step % every == 0 and done < rounds:
            done += 1
            wanted = count * rate * rng.uniform(0.99, 1.01)
            if growth:
                count = wanted
            mask, mask_gone = together(names, [count, count, count * 0.04 * 59])
            operations += mask
            for at, (old, _) in enumerate(tensors):
                tensors[at] = (names(), int(count * 4 * floats[at // 3]))
                operations += [("a", *tensors[at]), ("f", old)]
            operations += mask_gone
        yield operations


@add(intent="design")
def samples_of_chains(rng, capacity, growth):
    """Hamiltonian sampling: after the warm-up each draw stays on the GPU, joined now and then."""
    names = Names()
    room = room_of(capacity)
    chains = rng.randrange(1, 5)
    sites = rng.randrange(3, 11)
    data = room * rng.uniform(0.1, 0.6)
    work = room * rng.uniform(0.03, 0.25) / chains
    left = room - data - 1.3 * work * chains
    draw = shares(rng, left / rng.randrange(150, 700) / chains, sites, 1.6)
    warm_up = rng.randrange(40, 250)
    thinned = rng.choice((1, 1, 2, 3))
    joined = rng.choice((0, 50, 100, 200))
    yield load(names, shares(rng, data, rng.randrange(1, 8)))[1]
    kept, draws, step = [], 0, 0
    while True:
        operations = []
        for chain in range(chains):
            for _ in range(2 ** rng.choice((0, 1, 1, 2))):
                operations += through(names, [work, work * 0.3, draw[0]], chain)
            state, gone = together(names, draw, chain)
            operations += state
            if growth and step >= warm_up and step % thinned == 0:
                kept.append((chain, [operation[1] for operation in state]))
            else:
                operations += gone
        if step >= warm_up and step % thinned == 0:
            draws += 1
            if joined and draws % joined == 0:
                for chain in range(chains):
                    mine = [made for at, made in kept if at == chain]
                    for site, parts in zip(draw, zip(*mine)):
                        operations.append(("a", names(), at_least(site * len(parts)), chain))
                        operations += free_all(parts)
                kept = []
        step += 1
        yield operations


@add(intent="demand")
def longer_rollouts(rng, capacity, growth):
    """A climate emulator: the curriculum trains on one more step of the rollout at a time."""
    names = Names()
    room = room_of(capacity)
    network = Trained(rng, names, room * rng.uniform(0.05, 0.3))
    state = room * rng.uniform(0.002, 0.012)
    most = rng.randrange(5, 15)
    whole = rng.random() < 0.6                            # no checkpointing within a rollout
    layers = activations_of(rng, room * rng.uniform(0.5, 1.4) / (most if whole else 4),
                            rng.randrange(2, 4))
    track = room * rng.uniform(0.2, 0.9) / most           # a step's fields, under checkpointing
    held = rng.randrange(12, 36)
    reached = rng.randrange(most - 2, most + 6)
    checked = rng.randrange(15, 60)
    yield network.weights() + load(names, [at_least(state)] * 4)[1]
    step = 0
    while True:
        length = min(reached, 1 + step // held) if growth else 1
        members = rng.choice((1.0, 1.0, 1.0, 0.5))
        batch, batch_gone = together(names, [state * members] * (length + 1))
        if whole:
            operations = batch + network.step(layers * length, members)
        else:
            fields = [track * 0.7 * members, track * 0.3 * members] * length
            tracks, tracks_gone = together(names, fields)
            operations = batch + tracks
            for _ in range(length - 1):
                made, kept = forward(names, layers, (), members)
                operations += made + backward(names, kept)[0]
            operations += network.step(layers, members) + tracks_gone
        operations += batch_gone
        step += 1
        if step % checked == 0:
            operations += through(names, [state * 3] * 24)
        yield operations


@add(intent="demand")
def sources_per_field(rng, capacity, growth):
    """A survey's pipeline: the telescope nears the galactic plane, and fields have more stars."""
    names = Names()
    room = room_of(capacity)
    plane = int(room * rng.uniform(0.004, 0.02))          # one plane of an exposure
    stamps = room * rng.uniform(0.02, 0.08)               # cutouts of a usual field
    rises = rng.randrange(60, 400)
    gain = 10 ** rng.uniform(-2.3, -1.3)
    night = rng.randrange(4, 20)                          # templates that stay for a while
    second = rng.random() < 0.6
    spread = rng.uniform(0.05, 0.25)
    yield load(names, shares(rng, room * rng.uniform(0.02, 0.2), 20))[1]
    templates = []
    exposure = 0
    while True:
        trend = 1 + max(0, exposure - rises) * gain if growth else 1
        crowd = stamps * trend * rng.lognormvariate(0, spread)
        stream = exposure % 2 if second else 0
        planes, planes_gone = together(names, [plane, plane, plane // 2, plane], stream)
        operations = planes + through(names, [plane * 2, plane, plane], stream)
        template = names()
        operations.append(("a", template, plane))
        templates.append(template)
        if len(templates) > night:
            operations.append(("f", templates.pop(0)))
        cut, cut_gone = together(names, [crowd, crowd, crowd * 0.1, crowd * 0.02], stream)
        operations += cut
        for part in (0.5, 0.9, 0.35):
            fit, fit_gone = together(names, [crowd * part, crowd * part / 2, 8192], stream)
            operations += fit + fit_gone
        yield operations + cut_gone + planes_gone
        exposure += 1


# --- fragments ---

@add()
def adaptive_mesh(rng, capacity, _growth):
    """A fluid solver: patches come and go with the front; the number of cells stays the same."""
    names = Names()
    room = room_of(capacity)
    budget = room * rng.uniform(0.6, 0.82)
    usual = room * 10 ** rng.uniform(-2.8, -2.2)
    period = rng.randrange(60, 300)
    swing = rng.uniform(0.5, 1.4)
    spread = rng.uniform(0.2, 0.7)
    every = rng.randrange(2, 7)
    turnover = rng.uniform(0.08, 0.3)
    patches, held = [], 0
    yield load(names, shares(rng, room * rng.uniform(0.005, 0.05), 16))[1]
    step = 0
    while True:
        operations = []
        if step % every == 0:
            for _ in range(int(len(patches) * turnover)):
                gone, size = patches.pop(rng.randrange(len(patches)))
                operations.append(("f", gone))
                held -= size
            mean = usual * math.exp(swing * math.sin(2 * math.pi * step / period))
            while True:
                size = int(min(mean * rng.lognormvariate(0, spread), room * 0.06))
                if held + size > budget:
                    break
                name = names()
                operations.append(("a", name, size))
                patches.append((name, size))
                held += size
        for _ in range(12):
            _, size = patches[rng.randrange(len(patches))]
            operations += through(names, [size * 0.6, size * 0.2])
        operations += through(names, [held * 0.03 / 8 ** level for level in range(4)])
        yield operations
        step += 1


@add()
def pools_of_buckets(rng, capacity, _growth):
    """Particle tracks: each size of event has a pool of its own, which its results pin."""
    names = Names()
    room = room_of(capacity)
    buckets = rng.randrange(7, 20)
    ratio = rng.uniform(1.1, 1.32)
    largest = room * rng.uniform(0.3, 0.6)
    spread = rng.uniform(0.3, 0.7)
    middle = buckets * rng.uniform(0.2, 0.45)
    parts = shares(rng, MIB, rng.randrange(3, 8), 0.5)
    kept = rng.uniform(0.003, 0.03)
    brighter = rng.randrange(60, 700)                     # the beam gains for so many events
    yield load(names, shares(rng, room * rng.uniform(0.01, 0.1), 30))[1]
    results, event = {}, 0
    while True:
        beam = 0.4 + min(1.1, event / brighter)
        hits = middle * beam + rng.gauss(0, spread) * buckets / 3
        event += 1
        bucket = min(buckets - 1, max(0, round(hits)))
        size = largest / ratio ** (buckets - 1 - bucket)
        true = size * ratio ** (min(0, hits - bucket) * rng.uniform(0.5, 1))
        loaded, loaded_gone = together(names, [true * 0.02, true * 0.01, 4096], 1)
        operations = loaded
        pairs, pairs_gone = together(names, [true * 0.12, true * 0.05])
        operations += pairs
        first = bucket not in results
        if first:
            results[bucket] = [names() for _ in parts]
        last = None
        for at, part in enumerate(parts):
            name = names()
            layer = size * part / MIB
            operations.append(("a", name, at_least(layer), 8 + bucket))
            if last is not None:
                operations.append(("f", last))
            if first:
                result = results[bucket][at]
                operations.append(("a", result, at_least(layer * kept), 8 + bucket))
            last = name
        operations.append(("f", last))
        yield operations + pairs_gone + loaded_gone


# --- too large ---

@add()
def full_box(rng, capacity, _growth):
    """Cryo-EM: the images become finer with each iteration; the last one needs the padded box."""
    names = Names()
    room = room_of(capacity)
    volume = room * rng.uniform(0.04, 0.1)               # one map at full size, not padded
    iterations = rng.randrange(6, 16)
    batches = rng.randrange(12, 40)
    images = room * rng.uniform(0.05, 0.25)
    classes = rng.randrange(1, 4)
    coarse = rng.uniform(0.25, 0.5)
    padding = rng.choice((1.5, 2.0, 2.0)) ** 3
    on_second = rng.random() < 0.4
    yield load(names, shares(rng, room * rng.uniform(0.01, 0.05), 8))[1]
    while True:
        maps = []
        for iteration in range(iterations):
            crop = min(0.85, coarse + (0.85 - coarse) * (iteration / iterations) ** 0.6)
            operations = free_all(maps)
            maps = [names() for _ in range(2 * classes)]
            operations += [("a", name, at_least(volume * crop ** 3)) for name in maps]
            for batch in range(batches if iteration else max(4, batches // 3)):
                part = rng.uniform(0.85, 1.0) if batch % 5 else rng.uniform(0.3, 1.0)
                edge = images * part * crop * crop
                read, read_gone = together(names, [edge, edge * 0.5], 1 if on_second else 0)
                operations += read
                for angles in (0.4, 0.9, 1.3):
                    seen, seen_gone = together(names, [edge * angles, edge * angles / 2, 65536])
                    operations += seen + seen_gone
                operations += through(names, [volume * crop ** 3] * 2) + read_gone
                yield operations
                operations = []
        last, last_gone = together(names, [volume * padding, volume * padding, volume * 0.5])
        operations = free_all(maps) + last
        operations += through(names, [volume * padding / 2, volume, volume]) + last_gone
        yield operations


@add()
def long_protein(rng, capacity, _growth):
    """Folding on request: memory goes with the square of the length, and a long one comes."""
    names = Names()
    room = room_of(capacity)
    spread = rng.uniform(0.35, 0.65)
    limit = math.exp(spread * rng.uniform(2.1, 2.8))      # lengths are shares of the median
    weights = room * rng.uniform(0.03, 0.2)
    pair = (room - weights) * rng.uniform(0.6, 0.8) / (5.5 * limit ** 2)
    msa = pair * rng.uniform(0.3, 2.0)
    chunked = rng.uniform(0.3, 0.8)
    recycled = rng.randrange(2, 5)
    padded = rng.choice((0, 0, 0.1, 0.25))
    tidy = rng.random() < 0.35
    yield load(names, shares(rng, weights, rng.randrange(30, 90)))[1]
    while True:
        length = rng.lognormvariate(0, spread)
        if padded:
            length = math.ceil(length / padded) * padded
        depth = rng.uniform(0.3, 1.0)
        square = pair * length ** 2
        features, features_gone = together(names, [msa * length * depth, square * 0.1, 65536])
        operations, before = features, None
        for _ in range(recycled):
            grid, rows = names(), names()
            operations += [("a", grid, at_least(square)),
                           ("a", rows, at_least(msa * length * depth))]
            if before is not None:
                operations.append(("f", before))
            for _ in range(3):
                edges, edges_gone = together(names, [square, square, square * chunked])
                operations += edges + edges_gone
                operations += through(names, [msa * length * depth, square])
            operations.append(("f", rows))
            before = grid
        operations += through(names, [square * 0.3, square * 0.1, 32768])
        yield operations + [("f", before)] + features_gone + ([("e",)] if tidy else [])


# --- another process ---

@add()
def group_next_door(rng, capacity, _growth):
    """A neural operator at several resolutions, beside another group's job on the same GPU."""
    names = Names()
    room = room_of(capacity)
    network = Trained(rng, names, room * rng.uniform(0.04, 0.2))
    layers = activations_of(rng, room * rng.uniform(0.2, 0.4), rng.randrange(3, 6))
    finer = rng.randrange(60, 300)
    checked = rng.randrange(15, 60)
    peak = room * rng.uniform(0.35, 0.5)
    kind = rng.choice(("there", "arrives", "grows"))
    held = room * (rng.uniform(0.45, 0.65) if kind != "arrives" else rng.uniform(0.5, 0.8))
    at = rng.randrange(20, 220)
    rate = room * 10 ** rng.uniform(-3.3, -2.0)
    tidy = rng.random() < 0.6
    yield [("o", int(held if kind == "there" else 0.2 * GIB))] + network.weights()
    step = 0
    while True:
        other = held
        if kind == "arrives":
            other = held if step >= at else 0.2 * GIB
        elif kind == "grows":
            other = min(room * 0.95, room * 0.05 + max(0, step - at) * rate)
        scale = rng.choice((0.3, 0.5, 0.6) if step < finer else (0.5, 0.75, 1.0))
        operations = [("o", int(other))] + network.step(layers, scale)
        step += 1
        if step % checked == 0:
            share = peak * (0.6 if step < finer else 1.0)
            fine, fine_gone = together(names, [share * 0.5, share * 0.3, share * 0.2])
            operations += fine + fine_gone + ([("e",)] if tidy else [])
        yield operations


# --- healthy ---

@add(intent="design")
def tiles_of_the_ocean(rng, capacity, growth):
    """A surrogate of an ocean model; tiles of its grid stay in a cache that mostly fits."""
    names = Names()
    room = room_of(capacity)
    weights = room * rng.uniform(0.03, 0.2)
    work = room * rng.uniform(0.05, 0.2)
    bound = room * rng.uniform(0.2, 0.75)
    sizes = [int(room * 10 ** rng.uniform(-2.9, -2.0)) for _ in range(rng.randrange(1, 5))]
    tiles = int(bound / min(sizes) * rng.uniform(1.2, 5))
    drift = rng.uniform(0.05, 0.8)
    layers = activations_of(rng, work, rng.randrange(3, 7))
    yield load(names, shares(rng, weights, 20))[1]
    cache, held, centre = {}, 0, 0.0
    while True:
        operations = []
        centre += drift
        for _ in range(4):
            tile = int(centre + abs(rng.gauss(0, tiles / 6))) % tiles
            if tile in cache:
                cache[tile] = cache.pop(tile)
                continue
            name, size = names(), sizes[tile % len(sizes)]
            operations += through(names, [size * 0.5])
            operations.append(("a", name, size))
            if not growth:
                operations.append(("f", name))
                continue
            cache[tile] = (name, size)
            held += size
            while held > bound:
                gone, size = cache.pop(next(iter(cache)))
                operations.append(("f", gone))
                held -= size
        made, kept = forward(names, layers, (work * 0.05,), rng.choice((1.0, 1.0, 0.5)))
        yield operations + made + free_all(name for mine in kept for name in mine)
