# SPDX-License-Identifier: Apache-2.0
"""Scientific computing of university groups: molecular dynamics, weather, flow solvers, graph networks, medical volumes."""
import collections
import functools
import heapq
import itertools

from program import MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, room_of

add = functools.partial(generator, UNSEEN, "unseen_prairie")


def log_uniform(rng, low, high):
    return low * (high / low) ** rng.random()


def split(rng, total, count, wide=1.0):
    """`total` in so many parts of different size."""
    parts = [rng.lognormvariate(0, wide) for _ in range(count)]
    return [total * part / sum(parts) for part in parts]


class Memory:
    """Collects what the program asks of the allocator, step by step."""

    def __init__(self):
        self.names, self.operations = Names(), []

    def new(self, sizes, stream=0):
        made = [("a", self.names(), at_least(size), stream) for size in sizes]
        self.operations += made
        return [operation[1] for operation in made]

    def drop(self, kept):
        self.operations += free_all(kept)

    def brief(self, sizes, stream=0):
        self.drop(self.new(sizes, stream))

    def tell(self, what, size):
        self.operations.append((what, int(size)))

    def done(self, emptied=False):
        operations, self.operations = self.operations, []
        return operations + [("e",)] if emptied else operations


class Network:
    """A network in training; its optimiser makes two moments of each parameter at the first update."""

    def __init__(self, memory, rng, weights, work, layers):
        self.memory, self.moments = memory, []
        self.sizes = [at_least(size) for size in split(rng, weights, rng.randrange(6, 16))]
        self.layers = activations_of(rng, work, layers)
        self.temporaries = [at_least(work / layers * part) for part in rng.choice(((), (0.5,), (0.3, 0.1), (1.0, 0.02)))]
        memory.new(self.sizes)

    def graph(self, scale):
        operations, kept = forward(self.memory.names, self.layers, self.temporaries, scale)
        self.memory.operations += operations
        return kept

    def derive(self, scale=1.0, keep=False):
        """Forces: the derivative by the positions. With `keep` the graph stays."""
        kept = self.graph(scale)
        for layer in reversed(self.layers):
            self.memory.brief([layer[0] * scale])
        if not keep:
            self.memory.drop(name for layer in reversed(kept) for name in layer)

    def update(self, kept):
        operations, gradients = backward(self.memory.names, kept, self.sizes)
        self.memory.operations += operations
        self.moments = self.moments or self.memory.new(self.sizes * 2)
        self.memory.drop(gradients)

    def train(self, scale=1.0):
        self.update(self.graph(scale))

    def evaluate(self, scale=1.0):
        """Without gradients: what a layer made goes with the next one."""
        before = []
        for layer in self.layers:
            now = self.memory.new([size * scale for size in layer])
            self.memory.drop(before)
            before = now
        self.memory.drop(before)


@add(intent="leak")
def energies_with_graph(rng, capacity, growth):
    """Molecular dynamics with a learned potential: each energy in the log keeps the graph that it was computed with."""
    memory, room = Memory(), room_of(capacity)
    steps, every, quiet = log_uniform(rng, 8, 2500), rng.choice((1, 1, 1, 4, 10, 25)), rng.choice((0, 0, 20, 100))
    graph = room * min(0.2, 0.9 * every / steps)
    potential = Network(memory, rng, room * log_uniform(rng, 0.0003, 0.02), graph, rng.randrange(2, 7))
    memory.new([graph * log_uniform(rng, 0.002, 0.02)] * 3)  # positions, velocities, masses
    skin, wide, neighbours = rng.randrange(3, 30), rng.uniform(0.005, 0.08), []
    yield memory.done()
    for step in itertools.count():
        if step % skin == 0:
            density = max(0.7, rng.gauss(1, wide))
            memory.drop(neighbours)
            memory.brief([graph * 0.1 * density])
            neighbours = memory.new([graph * 0.06 * density, graph * 0.04 * density])
        logged = step >= quiet and step % every == 0
        potential.derive(density, keep=logged and growth)
        yield memory.done()


@add(intent="leak")
def diverged_runs(rng, capacity, growth):
    """A solver runs inside the training loop: where a simulation diverges, the exception that was caught keeps its fields."""
    memory, room = Memory(), room_of(capacity)
    slots, life = rng.randrange(4, 30), rng.randrange(4, 60)
    network = Network(memory, rng, room * log_uniform(rng, 0.001, 0.03), room * rng.uniform(0.05, 0.3), rng.randrange(2, 6))
    fields, parts = room * rng.uniform(0.08, 0.3) / slots, rng.choice(((0.6, 0.2, 0.2), (0.4, 0.4, 0.15, 0.05)))
    diverges, harder, phase = log_uniform(rng, 0.04, 0.4), rng.uniform(1, 4), rng.randrange(30, 300)
    running, number = [], itertools.count()
    yield memory.done()
    for step in itertools.count():
        while running and running[0][0] <= step:
            _, _, kept, lost = heapq.heappop(running)
            memory.drop([] if lost and growth else kept)
        while len(running) < slots:
            lasts, grid = 1 + life * rng.gammavariate(2, 0.5), rng.choice((0.5, 1, 1, 2))
            lost, early = rng.random() < diverges * (harder if step // phase % 2 else 1), rng.random()
            kept = memory.new([fields * grid * part for part in parts])
            heapq.heappush(running, (step + 1 + lasts * (early if lost else 1), next(number), kept, lost))
        memory.brief([fields * slots * 0.2] * 2)
        network.train(rng.uniform(0.9, 1))
        yield memory.done()


@add(intent="leak")
def validation_fields(rng, capacity, growth):
    """Weather forecast: each validation adds the predicted fields to a metric that nobody resets."""
    memory, room = Memory(), room_of(capacity)
    steps, work, weights = log_uniform(rng, 40, 1900), rng.uniform(0.1, 0.4), log_uniform(rng, 0.002, 0.06)
    every = int(min(rng.choice((5, 20, 50, 150)), max(2, steps / 4)))
    leads, variables = rng.randrange(2, 10), rng.randrange(1, 6)
    field = room * (0.9 - work - 4 * weights) * every / steps / leads / variables
    late, small = rng.choice((0, 0, 0, 1, 3)), rng.uniform(0.1, 0.5)
    model = Network(memory, rng, room * weights, room * work, rng.randrange(3, 7))
    yield memory.done()
    for step in itertools.count():
        if step % every == 0 and step >= late * every:
            predicted = []
            for _ in range(leads):
                truth = memory.new([field] * variables, 1)
                model.evaluate(small)
                predicted += memory.new([field] * variables)
                memory.brief([512] * 2)
                memory.drop(truth)
            memory.drop([] if growth else predicted)
        batch = memory.new([room * work * 0.03] * 2, 1)
        model.train()
        memory.drop(batch)
        yield memory.done()


@add(intent="leak")
def hooks_stay(rng, capacity, growth):
    """Medical volumes: each evaluation adds a hook that nobody removes, and each hook keeps its own copy of the last features."""
    memory, room = Memory(), room_of(capacity)
    steps, most, epoch = log_uniform(rng, 20, 1500), rng.randrange(5, 30), rng.randrange(6, 60)
    work, weights, rest = rng.uniform(0.1, 0.5), log_uniform(rng, 0.001, 0.03), rng.uniform(0.25, 1)
    copies = split(rng, room * (0.88 - work - 4 * weights) / most, rng.randrange(1, 4))
    every, hooks = max(1, round(steps / most)), []
    network = Network(memory, rng, room * weights, room * work, rng.randrange(3, 7))
    yield memory.done()
    for step in itertools.count():
        if step % every == 0:
            if hooks and not growth:
                memory.drop(hooks.pop())
            hooks.append([])
        batch = rest if step % epoch == epoch - 1 else 1.0  # the last batch of an epoch is not full
        kept = network.graph(batch)
        for hook in hooks:
            features = memory.new([size * batch for size in copies])
            memory.drop(hook)
            hook[:] = features
        network.update(kept)
        yield memory.done()


def roll_out(network, leads, state, checkpointed):
    """Forward over all lead times and back; with checkpoints a lead time keeps its state only, and is computed twice."""
    memory = network.memory
    if not checkpointed:
        network.update([layer for _ in range(leads) for layer in network.graph(1.0)])
        return
    states = []
    for _ in range(leads):
        states.append(memory.new([state * part for part in (0.5, 0.3, 0.2)]))
        network.evaluate()
    for kept in reversed(states):
        network.derive()
        memory.drop(kept)
    network.update([])


@add(intent="demand")
def longer_rollout(rng, capacity, growth):
    """Weather forecast: the training goes over more and more lead times, and the derivative goes back through all of them."""
    memory, room = Memory(), room_of(capacity)
    last, stage, weights = rng.randrange(3, 12), round(log_uniform(rng, 3, 90)), log_uniform(rng, 0.004, 0.07)
    checkpointed, lead = rng.random() < 0.4, (0.85 - 4 * weights) / last
    work, missing = rng.uniform(0.08, 0.25) if checkpointed else lead, rng.choice((0, 0, 0.1))
    model = Network(memory, rng, room * weights, room * work, rng.randrange(2, 4))
    yield memory.done()
    for step in itertools.count():
        leads = 1 + (step // stage if growth else 0)
        if rng.random() < missing:  # a gap in the archive: a shorter one
            leads = max(1, leads - 1)
        fields = memory.new([room * lead * 0.04] * (leads + 1), 1)
        roll_out(model, leads, room * lead, checkpointed)
        memory.drop(fields)
        yield memory.done()


def solve(memory, cell, directions):
    """A linear solver: one more direction in each iteration, each with a product and a few sums."""
    basis = memory.new([cell] * 2)
    for _ in range(directions):
        product = memory.new([cell])
        memory.brief([512])
        basis += memory.new([cell])
        memory.drop(product)
    memory.drop(basis)


@add(intent="demand")
def refined_mesh(rng, capacity, growth):
    """Flow solver: as the shock forms, the mesh gets more cells, and the fields and the linear solver grow with it."""
    memory, room = Memory(), room_of(capacity)
    steps, power, ripple = log_uniform(rng, 15, 2000), log_uniform(rng, 0.4, 3), rng.uniform(0.005, 0.08)
    every, begins = max(1, int(steps * log_uniform(rng, 0.004, 0.08))), rng.choice((0, 0, 0.3, 1)) * rng.randrange(300)
    first, fields, directions = rng.uniform(0.05, 0.3), rng.randrange(4, 9), rng.randrange(4, 13)
    mesh = []
    for step in itertools.count():
        if step % every == 0:
            risen = min(1.5, max(0, (step - begins) / steps)) ** power if growth else 0.0
            cells = room * (first + (1 - first) * risen) * max(0.5, rng.gauss(1, ripple))
            cell = cells / (fields + directions + 5)
            memory.brief([cell * 0.1, cell * 0.25])  # which cells are refined
            finer = memory.new([cell] * fields + [cell * 1.5, cell * 0.5])
            memory.drop(mesh)
            mesh = finer
        flux = memory.new([cell, cell * 0.5])
        solve(memory, cell, rng.randrange(directions // 2, directions + 1))
        memory.drop(flux)
        yield memory.done()


@add(intent="demand")
def more_walkers(rng, capacity, growth):
    """Rare events: as new regions are reached, more copies of the molecule run at once, each with its own state."""
    memory, room = Memory(), room_of(capacity)
    life, steps, most = rng.randrange(5, 60), log_uniform(rng, 60, 1800), 10
    births, share, regions = rng.uniform(0.3, 1), rng.uniform(0.06, 0.2), rng.choice((4, 9, 1000))
    walker, starts, wide = room * share / (births * life), rng.choice((0, 0, 50, 200)), rng.uniform(0.05, 0.5)
    memory.new(split(rng, room * log_uniform(rng, 0.001, 0.05), 12))
    running, number = [], itertools.count()
    for step in itertools.count():
        while running and running[0][0] <= step:
            memory.drop(heapq.heappop(running)[2])
        reached = int(max(0, step - starts) / steps * regions) / regions if growth else 0.0
        level = births * (1 + 1.2 / share * reached)
        for _ in range(most):
            comes, lasts, size = rng.random(), life * rng.gammavariate(2, 0.5), walker * rng.lognormvariate(0, wide)
            if comes < level / most:
                kept = memory.new([size * part for part in (0.05, 0.05, 0.3, 0.6)])
                heapq.heappush(running, (step + 1 + lasts, next(number), kept))
        for part in (0.05, 0.1, 0.1, 0.02):
            memory.brief([walker * part * (1 + len(running)), walker * part])
        yield memory.done()


@add(intent="design")
def episodes_for_replay(rng, capacity, growth):
    """Control of a simulated flow: episodes stay on the GPU for replay up to a number, then the oldest goes for each new one."""
    memory, room = Memory(), room_of(capacity)
    work, weights = rng.uniform(0.05, 0.25), log_uniform(rng, 0.0003, 0.02)
    limit, usual_length, wide = round(log_uniform(rng, 12, 600)), rng.choice((1, 2, 4, 8)), rng.choice((0, 0.2, 0.6))
    frame = room * (0.95 - work - 4 * weights) * rng.uniform(0.8, 1.7) / limit / usual_length
    network = Network(memory, rng, room * weights, room * work, rng.randrange(2, 6))
    replay, frames, ends = collections.deque(), [], usual_length
    yield memory.done()
    for _step in itertools.count():
        memory.brief([frame * part for part in (0.5, 1, 0.2)])  # the flow solver
        frames += memory.new([frame])
        if len(frames) >= ends:
            stacked = memory.new([frame * len(frames), frame * len(frames) * 0.02])
            memory.drop(frames)
            frames, ends = [], max(1, round(usual_length * rng.lognormvariate(0, wide)))
            replay.append(stacked)
            if len(replay) > (limit if growth else 0):
                memory.drop(replay.popleft())
        batch = memory.new([room * work * 0.1, room * work * 0.1, room * work * 0.002])
        network.train()
        memory.drop(batch)
        yield memory.done()


@add(intent="design")
def scans_of_first_epoch(rng, capacity, growth):
    """Segmentation: a scan stays on the GPU once it was read, so that the second epoch need not read it again."""
    memory, room = Memory(), room_of(capacity)
    work, weights = rng.uniform(0.1, 0.45), log_uniform(rng, 0.001, 0.02)
    total = room * (0.95 - work - 4 * weights) * rng.uniform(0.8, 1.9)
    scans = split(rng, total, round(log_uniform(rng, 25, 1500)), rng.uniform(0.1, 0.7))
    batch, share = rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 1, 0.7))  # share: of all scans, what is kept at all
    network = Network(memory, rng, room * weights, room * work, rng.randrange(3, 7))
    held, order = set(), []
    yield memory.done()
    for _step in itertools.count():
        now = []
        for _ in range(batch):
            order = order or rng.sample(range(len(scans)), len(scans))
            scan = order.pop()
            if scan in held:
                continue
            raw = memory.new([scans[scan] * 0.4], 1)  # half precision comes from the disk
            ready = memory.new([scans[scan] * 0.8, scans[scan] * 0.2])
            memory.brief([scans[scan] * 0.5])
            memory.drop(raw)
            if growth and scan < share * len(scans):
                held.add(scan)
            else:
                now += ready
        network.train()
        memory.drop(now)
        yield memory.done()


@add()
def neighbours_of_replicas(rng, capacity, _growth):
    """Replicas of several molecules share a GPU: each finds its neighbours anew when an atom has moved far, and never as many."""
    memory, room = Memory(), room_of(capacity)
    usual, wide = split(rng, room * rng.uniform(0.6, 0.8), rng.randrange(14, 50), rng.uniform(0.5, 1.1)), rng.uniform(0.1, 0.5)
    budget, speed = room * rng.uniform(0.82, 0.94), log_uniform(rng, 0.005, 0.2)
    moves = [speed * log_uniform(rng, 0.2, 2) for _ in usual]  # hot replicas and cold ones
    candidates, parts = rng.uniform(0.2, 0.6), rng.choice(((0.7, 0.3), (0.5, 0.25, 0.25), (0.85, 0.13, 0.02)))
    message = room * log_uniform(rng, 0.0005, 0.005)
    lists, sizes, waiting = [[] for _ in usual], [0.0] * len(usual), 0.0
    for _step in itertools.count():
        for replica, move in enumerate(moves):
            if sizes[replica] and rng.random() > move:
                continue
            size = usual[replica] * min(2.5, rng.lognormvariate(0, wide))
            if sum(sizes) - sizes[replica] + size * (1 + candidates) > budget:
                continue  # there is no room: the old list does for a while
            memory.drop(lists[replica])
            pairs = memory.new([size * candidates])
            lists[replica], sizes[replica] = memory.new([size * part for part in parts]), size
            memory.drop(pairs)
        waiting = 0.9 * waiting + rng.random()
        for part in (1, 2, 1):
            memory.brief([message * part * waiting / 5, message * 0.1])
        yield memory.done()


@add()
def patches_in_queue(rng, capacity, _growth):
    """Medical volumes: from each volume patches are cut in several sizes, and wait in a queue until chance takes them."""
    memory, room = Memory(), room_of(capacity)
    work, weights = rng.uniform(0.05, 0.2), log_uniform(rng, 0.001, 0.02)
    budget = room * (rng.uniform(0.8, 0.93) - work - 4 * weights)
    edges = rng.choice(((1, 1.5, 2), (1, 1.25, 1.6, 2.5), (0.7, 1, 1.9)))
    patch, volume, cut = budget / rng.randrange(60, 300), budget * log_uniform(rng, 0.02, 0.1), rng.randrange(2, 9)
    network = Network(memory, rng, room * weights, room * work, rng.randrange(2, 5))
    queue, held, every = [], 0.0, rng.choice((1, 1, 4, 12))
    yield memory.done()
    for step in itertools.count():
        network.train()
        if step % every:
            yield memory.done()
            continue
        size = min(3.5, rng.lognormvariate(0, 0.6)) * volume
        cubes = [patch * rng.choice(edges) ** 3 * rng.uniform(0.8, 1) for _ in range(cut)]
        while queue and held + sum(cubes) + size * 1.5 > budget:
            kept, cube = queue.pop(rng.randrange(len(queue)))
            memory.drop(kept)
            held -= cube
        whole = memory.new([size])
        memory.brief([size * 0.5])
        for cube in cubes:
            queue.append((memory.new([cube * 0.8, cube * 0.2]), cube))
            held += cube
        memory.drop(whole)
        yield memory.done()


@add()
def blocks_of_grid(rng, capacity, _growth):
    """Flow solver on blocks: they get finer where the front is and coarser behind it, and a limit holds the number of cells."""
    memory, room = Memory(), room_of(capacity)
    budget, fields = room * rng.uniform(0.83, 0.94), rng.randrange(1, 4)
    coarse, levels = budget / log_uniform(rng, 60, 2000), rng.choice((2, 3, 4))
    turnover, ghosts, lag = rng.choice((0.2, 0.6, 1, 2, 4, 7)), rng.uniform(0.02, 0.25), rng.uniform(0, 0.6)
    blocks, held, front = [], 0.0, 0.0
    for step in itertools.count():
        front += rng.uniform(0, 0.05)
        for _ in range(int(turnover * (step + 1)) - int(turnover * step)):
            level = min(levels, int(rng.expovariate(0.8 + 0.5 * (front % 1))))
            size = coarse * 2.4 ** level * (1 + ghosts * rng.random())
            while held + size * 1.3 > budget:
                oldest = 0 if rng.random() < lag else rng.randrange(len(blocks))
                kept, gone = blocks.pop(oldest)
                memory.drop(kept)
                held -= gone
            parent = memory.new([size * 0.3])
            blocks.append((memory.new([size / fields] * fields), size))
            memory.drop(parent)
            held += size
        if step % 50 == 49:  # a picture of the whole domain
            memory.brief([coarse * 4, coarse])
        memory.brief([coarse * 0.4] * 3)
        yield memory.done()


@add()
def transforms_of_all_grids(rng, capacity, _growth):
    """Neural operator: the transform library keeps a workspace for each grid beside the allocator; the finest grid is rare."""
    memory, room = Memory(), room_of(capacity)
    weights, kinds, most = log_uniform(rng, 0.003, 0.06), rng.randrange(4, 14), rng.choice((4, 8, 16))
    dimensions, rarity = rng.choice((2, 2, 3)), 10 ** rng.uniform(-3, -1.5)
    finest = room * (1 - 4 * weights) * rng.uniform(0.75, 1.5)
    grids = [((kind + 1) / kinds) ** dimensions * 0.42 for kind in range(kinds)] + [1.0]
    workspace, threads = room * rng.uniform(0.02, 0.2) / sum(grids), rng.choice((8, 32, 64)) * MIB
    operator = Network(memory, rng, room * weights, finest, rng.randrange(3, 6))
    plans = collections.OrderedDict()
    memory.tell("x", threads)
    yield memory.done()
    for _step in itertools.count():
        rare, kind, inverse = rng.random() < rarity, rng.randrange(kinds), rng.random()
        kind = kinds if rare else kind
        if kind not in plans:
            plans[kind] = workspace * grids[kind] * (2 if inverse < 0.5 else 1)
            if len(plans) > most:
                plans.popitem(last=False)
            memory.tell("x", threads + sum(plans.values()))
        plans.move_to_end(kind)
        sample = memory.new([finest * grids[kind] * 0.02] * 2, 1)
        operator.train(grids[kind])
        memory.drop(sample)
        yield memory.done()


@add()
def engine_beside(rng, capacity, _growth):
    """A classical engine moves the atoms in a process of its own on the same GPU; for production its box and grids get larger."""
    memory, room = Memory(), room_of(capacity)
    engine, larger, change = room * rng.uniform(0.12, 0.4), rng.uniform(1.2, 2.6), log_uniform(rng, 5, 1500)
    every, twice, lasts = rng.randrange(40, 400), rng.uniform(0.3, 1), rng.randrange(2, 8)  # a restart runs beside the old one
    free, weights = room - engine, log_uniform(rng, 0.001, 0.03)
    wide, rare = rng.uniform(0.05, 0.2), 10 ** rng.uniform(-3, -1.9)
    usual, crystal = rng.uniform(0.35, 0.7), rng.uniform(1.3, 2.2)
    potential = Network(memory, rng, free * weights, free * usual, rng.randrange(2, 6))
    tidy = rng.choice((0, 1, 20))
    memory.tell("o", engine)
    yield memory.done()
    for step in itertools.count():
        ramp = min(1.0, max(0.0, (step - change) / 10))
        restarted = twice if step >= every and step % every < lasts else 0.0
        memory.tell("o", engine * rng.uniform(0.97, 1.03) * (1 + (larger - 1) * ramp + restarted))
        scale = min(1.2, rng.lognormvariate(0, wide)) * (crystal if rng.random() < rare else 1)
        atoms = memory.new([free * usual * 0.01 * scale] * 3, 1)
        potential.train(scale)
        memory.drop(atoms)
        yield memory.done(tidy and step % tidy == 0)
