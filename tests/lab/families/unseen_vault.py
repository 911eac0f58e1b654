# SPDX-License-Identifier: Apache-2.0
"""Post-training and serving of language models, as of 2026: rollouts and a trainer on one GPU,
trees of prefixes, adapters that come and go, drafts, experts on the host, quantisation, judges."""
import functools
import math
import random

from program import GIB, MIB, UNSEEN, Names, at_least, free_all, generator, load, room_of
from program import sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_vault")


# --- what these programs have in common ---

def pieces(total, count):
    """`total` bytes in `count` equal tensors, one a layer or one a group of layers."""
    return [at_least(total / count)] * count


def hold(names, sizes, *stream):
    """Names of new tensors, and the operations that make them."""
    mine = [names() for _ in sizes]
    return mine, [("a", name, at_least(size), *stream) for name, size in zip(mine, sizes)]


def passing(names, sizes):
    """Tensors that are all there at once and go at the end of the step."""
    mine, operations = hold(names, sizes)
    return operations + free_all(reversed(mine))


def through(names, peak, layers):
    """A forward pass without gradients: the state goes from layer to layer, temporaries go at
    once. At most `peak` bytes are in use."""
    operations, state = [], None
    for _ in range(layers):
        heads, wide, out = names(), names(), names()
        operations += [("a", heads, at_least(peak * 0.35)), ("a", out, at_least(peak * 0.12)),
                       ("f", heads), ("a", wide, at_least(peak * 0.7)), ("f", wide)]
        if state is not None:
            operations.append(("f", state))
        state = out
    return operations + [("f", state)]


def learn(names, activations, layers, gradients):
    """Forward and backward of a micro-batch. The gradients' names are returned."""
    kept, operations = [], []
    for _ in range(layers):
        saved, made = hold(names, [activations / layers * share for share in (0.1, 0.3, 0.55)])
        scratch = names()
        operations += made + [("a", scratch, at_least(activations / layers * 0.4)), ("f", scratch)]
        kept.append(saved)
    held, made = hold(names, gradients)
    share = -(-len(made) // layers)
    for number, saved in enumerate(reversed(kept)):
        back = names()
        operations.append(("a", back, at_least(activations / layers * 0.3)))
        operations += made[number * share:(number + 1) * share] + free_all(saved) + [("f", back)]
    return held, operations


def of_day(step, length, depth):
    """Between 1 - depth and 1: the traffic of day and night."""
    return 1 - depth * (0.5 + 0.5 * math.cos(2 * math.pi * step / length))


class Users:
    """Requests in flight: the cache of a prompt at once, then a page now and then; all go at the
    end."""

    def __init__(self, names, prompt, life, groups):
        self.names, self.prompt, self.life, self.groups = names, prompt, life, groups
        self.running = []

    def arrive(self, rng):
        size = self.prompt * min(4.0, rng.lognormvariate(-0.2, 0.6))
        mine, operations = hold(self.names, pieces(size, self.groups))
        page = self.prompt * rng.uniform(0.04, 0.1)
        life = max(3, int(self.life * rng.lognormvariate(-0.1, 0.5)))
        self.running.append([mine, page, rng.randrange(3, 7), life])
        return operations

    def decode(self, step):
        """One round: some need a new page, some are done."""
        operations, left = [], []
        for request in self.running:
            mine, page, every, life = request
            request[3] = life - 1
            if life <= 0:
                operations += free_all(mine)
                continue
            if step % every == 0:
                name = self.names()
                operations.append(("a", name, at_least(page)))
                mine.append(name)
            left.append(request)
        self.running = left
        return operations


# --- reinforcement learning with the engine on the trainer's GPU ---

@add(intent="leak")
def synced_buckets(rng, capacity, growth):
    """The engine wakes for the rollouts and sleeps while the trainer works. Now and then a bucket
    by which the weights were handed over is still referred to when the engine sleeps."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.1, 0.2))
    policy = sizes_of_model(rng, weights)
    engine = pieces(weights * rng.choice((0.5, 1.0, 1.0)), rng.choice((4, 8, 12)))
    cache = pieces(room * rng.uniform(0.2, 0.4), rng.choice((12, 16, 24)))
    activations = room * rng.uniform(0.12, 0.25)
    gradients = pieces(weights, rng.choice((6, 10, 16)))
    moments = pieces(weights * 0.25, 2)
    spare = room - max(weights + sum(engine) + sum(cache), weights * 2.3 + activations * 1.2)
    often = rng.uniform(0.3, 0.9)
    bucket = max(MIB, spare / rng.uniform(12, 45) / often / 0.75)
    rounds, micro = rng.randrange(4, 9), rng.randrange(2, 6)
    logits = min(spare * 0.3, room * rng.uniform(0.01, 0.04))
    yield load(names, policy)[1]
    while True:
        awake, operations = hold(names, engine)
        for _ in range(rng.randrange(2, 5)):
            operations += passing(names, [bucket])
        lost, part = rng.random() < often, rng.uniform(0.5, 1.0)
        if lost and growth:
            operations.append(("a", names(), at_least(bucket * part)))
        yield operations
        table, operations = hold(names, cache)
        yield operations
        for _ in range(rounds):
            yield through(names, logits * rng.uniform(0.3, 1.0), 4)
        yield free_all(table) + free_all(awake) + [("e",)]
        for _ in range(2):
            yield through(names, activations * rng.uniform(0.3, 0.6), 5)
        for _ in range(micro):
            held, operations = learn(names, activations * rng.uniform(0.6, 1.0), 6, gradients)
            yield operations + free_all(held)
        yield passing(names, moments) + [("e",)]


@add()
def second_engine(rng, capacity, _growth):
    """The engine is a process of its own, and sleeps while the trainer works. A second one is
    there: left over from a run that died, or started by somebody in the middle of this one."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.1, 0.2))
    activations = room * rng.uniform(0.2, 0.4)
    gradients = pieces(weights, rng.choice((6, 10, 16)))
    need = weights * 2 + activations
    asleep, awake = room * rng.uniform(0.005, 0.03), room - weights - room * rng.uniform(0.1, 0.3)
    stranger = min(room - need * 0.5, (room - need) + need * rng.uniform(0.12, 0.4))
    from_start = rng.random() < 0.35
    arrives = 0 if from_start else rng.randrange(8, 40)
    warm_up = rng.randrange(8, 30) if from_start else 0  # only the head is trained: short batches
    rounds, micro = rng.randrange(3, 7), rng.randrange(3, 7)
    loads = rng.randrange(1, 6)                          # how many rounds a start takes
    yield load(names, sizes_of_model(rng, weights))[1]
    number = 0
    while True:
        part = min(1.0, max(0.0, (number - arrives + 1) / loads)) if not from_start else 1.0
        other = int(stranger * part) if number >= arrives else 0
        # an engine takes a part of what it finds
        takes = min(awake, room * 0.96 - weights - other) * rng.uniform(0.9, 1.0)
        yield [("o", int(other + max(asleep, takes)))]
        for _ in range(rounds):
            yield through(names, room * 0.01 * rng.uniform(0.4, 1.0), 3)
        yield [("e",), ("o", int(other + asleep))]
        scale = 0.12 if number < warm_up else 1.0
        for _ in range(micro):
            size = activations * rng.uniform(0.7, 1.0) * scale
            gone = [] if number < warm_up else gradients
            held, operations = learn(names, size, 6, gone)
            yield [("o", int(other + asleep))] + operations + free_all(held)
        yield [("e",)]
        number += 1


@add()
def sync_groups(rng, capacity, _growth):
    """For each hand-over of weights the trainer joins the engines in a new group. What the library
    holds for a group is not given back when the group is destroyed; some calls are made twice."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.1, 0.3))
    activations = room * rng.uniform(0.15, 0.35)
    gradients = pieces(weights * rng.choice((0.05, 0.5, 1.0)), 8)
    spare = room - weights - sum(gradients) - activations * 1.1
    start, every = rng.randrange(0, 60), rng.randrange(2, 12)
    group = spare / (rng.uniform(120, 500) / every)
    workspace = room * rng.uniform(0.0, 0.004)
    outside = rng.uniform(100, 400) * MIB * min(1, capacity / (32 * GIB))
    yield load(names, sizes_of_model(rng, weights))[1] + [("x", int(outside))]
    step = 0
    while True:
        held, operations = learn(names, activations * rng.uniform(0.6, 1.0), 6, gradients)
        operations += free_all(held)
        twice, part = rng.random() < 0.15, rng.uniform(0.7, 1.2)
        if step % every == 0:
            operations += passing(names, pieces(weights * 0.1, 2))
            if step >= start:
                outside += group * part * (2 if twice else 1) + workspace * (step == start)
                operations += [("e",), ("x", int(outside))]
        yield operations
        step += 1


# --- servers ---

@add(intent="design")
def prefix_tree(rng, capacity, growth):
    """The caches of finished requests stay in a tree, for those that begin alike. It has no bound,
    or one that somebody computed for a larger GPU, or (now and then) one that fits."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.2, 0.5))
    spare = room - weights
    work = spare * rng.uniform(0.04, 0.12)
    kind = rng.random()
    fits, above = rng.uniform(0.45, 0.7), rng.uniform(1.05, 2.0)
    bound = spare * (fits if kind < 0.15 else above if kind < 0.6 else 100)
    groups, at_once = rng.choice((2, 4, 6)), rng.randrange(3, 9)
    node = spare / rng.uniform(80, 450)
    repeats = rng.uniform(0.1, 0.5)
    yield load(names, sizes_of_model(rng, weights))[1]
    tree, held, running = [], 0, []
    while True:
        operations = through(names, work * rng.uniform(0.2, 1.0), 3)
        arrivals = rng.choice((0, 1, 1, 2, 3))
        for _ in range(arrivals):
            known, which, life = rng.random() < repeats, rng.random(), rng.randrange(3, 20)
            size = node * min(5.0, rng.lognormvariate(-0.3, 0.8)) * (0.15 if known else 1.0)
            if len(running) >= at_once:
                continue
            if known and tree:  # the most recent are asked for most
                parent = tree.pop(-1 - int(which ** 2 * len(tree)))
                tree.append(parent)
            mine, made = hold(names, pieces(size, groups))
            operations += made
            running.append([mine, int(size), life])
        for request in running:
            request[2] -= 1
        for request in [r for r in running if r[2] <= 0]:
            running.remove(request)
            if growth:
                tree.append(request[:2])
                held += request[1]
            else:
                operations += free_all(request[0])
        while held > bound:
            gone, size = tree.pop(0)
            held -= size
            operations += free_all(gone)
        yield operations


@add(intent="demand")
def agents_read_more(rng, capacity, growth):
    """Agents on a code base: what they read before each turn becomes longer from week to week. A
    session's cache goes with the session; the prompt is read in chunks."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.25, 0.5))
    spare = room - weights
    sessions, groups = rng.randrange(2, 6), rng.choice((2, 4, 8))
    usual = spare * rng.uniform(0.12, 0.3) / sessions
    chunk = spare * rng.uniform(0.03, 0.08)
    start, rate = rng.randrange(10, 150), 1 / rng.uniform(50, 220)
    shape = rng.choice((1.0, 1.0, 1.6))  # steady, or faster and faster
    open_ones, step = [], 0
    yield load(names, sizes_of_model(rng, weights))[1]
    while True:
        more = 1 + (max(0, step - start) * rate) ** shape * growth
        operations = []
        length, turns = min(3.0, rng.lognormvariate(-0.2, 0.5)), rng.randrange(6, 25)
        if len(open_ones) < sessions:
            open_ones.append([[], turns, usual * length * more / turns, 0])
        for session in open_ones:
            read = session[2] * (3 if not session[0] else 0.9) * rng.uniform(0.7, 1.3)
            mine, made = hold(names, pieces(read, groups))
            session[0] += mine
            session[3] += read
            session[1] -= 1
            scores = chunk * (0.5 + 0.5 * min(3.0, session[3] / usual))
            operations += made + passing(names, [chunk * 0.4, scores * 0.6])
        for session in [s for s in open_ones if s[1] <= 0]:
            open_ones.remove(session)
            operations += free_all(session[0])
        yield operations
        step += 1


@add(intent="demand")
def draft_for_everyone(rng, capacity, growth):
    """Speculative decoding for more and more users at once: each has a cache for the target and
    one for the draft. Who is done gives everything back."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.2, 0.5))
    spare = room - weights * 1.1
    life, limit = rng.randrange(10, 45), rng.randrange(5, 14)
    prompt = spare * rng.uniform(0.15, 0.35) / limit
    users = Users(names, prompt, life, rng.choice((2, 3, 4)))
    drafts = spare * rng.uniform(0.01, 0.05)
    start, doubles = rng.randrange(0, 120), rng.uniform(70, 260)
    day, depth = rng.randrange(40, 200), rng.uniform(0.0, 0.3)
    yield load(names, sizes_of_model(rng, weights) + pieces(weights * 0.1, 6))[1]
    step = 0
    while True:
        own = random.Random(rng.getrandbits(32))
        wanted = limit * of_day(step, day, depth)
        if growth:
            wanted *= 1 + max(0, step - start) / doubles
        operations = users.decode(step)
        for _ in range(4):
            if len(users.running) < wanted and own.random() < 0.8:
                operations += users.arrive(own)
        share = len(users.running) / limit
        operations += passing(names, [drafts * share * part * own.uniform(0.6, 1.0)
                                      for part in (0.2, 0.3, 0.5)])
        yield operations
        step += 1


@add(intent="leak")
def rejected_drafts(rng, capacity, growth):
    """Drafts as trees: after some hours a setting is changed, and from then on some branches that
    the target rejects are not given back. Traffic has days and nights."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.2, 0.5))
    spare = room - weights * 1.15
    life, limit = rng.randrange(8, 30), rng.randrange(4, 12)
    prompt = spare * rng.uniform(0.15, 0.4) / limit
    users = Users(names, prompt, life, rng.choice((2, 3, 4)))
    start = rng.randrange(80, 300)
    share = rng.uniform(0.05, 0.5)
    branch = spare * 0.5 / rng.uniform(100, 400) / share / 2
    day, depth = rng.randrange(40, 200), rng.uniform(0.0, 0.4)
    yield load(names, sizes_of_model(rng, weights) + pieces(weights * 0.15, 6))[1]
    step = 0
    while True:
        operations = users.decode(step)
        for _ in range(3):
            own = random.Random(rng.getrandbits(32))
            if len(users.running) < limit * of_day(step, day, depth):
                operations += users.arrive(own)
        tree = []
        for _ in range(rng.randrange(3, 8)):
            name = names()
            operations.append(("a", name, at_least(branch * rng.uniform(0.4, 1.2))))
            tree.append(name)
        operations += passing(names, [spare * 0.02 * rng.uniform(0.5, 1.0)] * 2)
        for name in tree:
            stays = rng.random() < share * 2 / 5
            if not (stays and growth and step >= start):
                operations.append(("f", name))
        yield operations
        step += 1


@add()
def tenants_adapters(rng, capacity, _growth):
    """Tenants' adapters of all ranks, as many bytes of them as are allowed, and caches that are
    copied to a longer tensor as they grow. Both are counted in bytes, and the sum would fit."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.2, 0.4))
    spare = room - weights
    allowed, budget = spare * rng.uniform(0.12, 0.25), spare * rng.uniform(0.42, 0.55)
    rank = max(2 * MIB, allowed / rng.uniform(60, 160) / 8)
    mean = budget / rng.uniform(5, 14)
    changes = rng.randrange(1, 4)
    calm = rng.randrange(60, 300)  # short prompts only, until the product is announced
    yield load(names, sizes_of_model(rng, weights))[1]
    adapters, in_use, caches, taken, step = [], 0, [], 0, 0
    while True:
        operations = []
        for _ in range(changes):
            size = int(rank * rng.choice((0.5, 1, 1, 2, 4, 8)) * rng.uniform(0.9, 1.1))
            which = rng.random()
            mine, made = hold(names, pieces(size, 4))
            operations += made
            adapters.append((mine, size))
            in_use += size
            while in_use > allowed:
                gone, size = adapters.pop(int(which * which * (len(adapters) - 1)))
                in_use -= size
                operations += free_all(gone)
        for cache in list(caches):
            ends, more = rng.random() < 0.06, rng.uniform(1.05, 1.3)
            longer = int(cache[1] * more)
            if ends or taken + longer > budget:  # sent away, or swapped to the host
                operations.append(("f", cache[0]))
                caches.remove(cache)
                taken -= cache[1]
            elif (step + cache[2]) % 4 == 0:
                name = names()
                operations += [("a", name, longer), ("f", cache[0])]
                taken += longer - cache[1]
                cache[0], cache[1] = name, longer
        size = int(mean * min(4.0, rng.lognormvariate(-0.7, 0.7)) * (0.2 if step < calm else 1.0))
        if taken + size < budget * 0.85:
            name = names()
            operations.append(("a", name, size))
            caches.append([name, size, step])
            taken += size
        yield operations + through(names, spare * rng.uniform(0.01, 0.04), 2)
        step += 1


@add(intent="leak")
def adapter_names(rng, capacity, growth):
    """The engine has taken its part of the GPU for pages. In what is left, adapters come and go;
    with each name the server has ever seen, some small tables stay."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.2, 0.6))
    left = min(room * 0.2, rng.uniform(0.5, 2.5) * GIB)
    pages = room - weights - left
    slots, blocks = rng.randrange(3, 9), rng.choice((12, 16, 24))
    width = rng.choice((64, 128, 256, 512)) << 10
    work = left * rng.uniform(0.15, 0.35)
    every = rng.randrange(1, 5)
    spare = left - work - slots * blocks * width * 0.8
    stays = max(3, int(spare / (rng.uniform(80, 350) / every) / (width * 0.6)))
    yield load(names, sizes_of_model(rng, weights))[1]
    yield through(names, left * 0.7, 4) + [("e",)]  # the run that measures how much is free
    yield load(names, pieces(pages, rng.choice((16, 24, 32))))[1]
    loaded, step = [], 0
    while True:
        operations = through(names, work * rng.uniform(0.2, 1.0), 4)
        if step % every == 0:
            rank = rng.choice((0.25, 0.5, 0.5, 1))
            mine, made = hold(names, [width * rank] * blocks)
            operations += made
            loaded.append(mine)
            if len(loaded) > slots:
                operations += free_all(loaded.pop(rng.randrange(2)))
            for _ in range(min(60, stays)):
                size = width * rng.uniform(0.2, 1.0)
                if growth:
                    operations.append(("a", names(), at_least(size)))
        yield operations
        step += 1


@add()
def experts_by_stream(rng, capacity, _growth):
    """Experts live on the host, and those that are asked for are brought by a copy stream. They
    are quantised to different widths, and the least recent go. Prompts are read on the main
    stream."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.08, 0.2))
    spare = room - weights
    budget, work = spare * rng.uniform(0.55, 0.68), spare * rng.uniform(0.19, 0.28)
    unit = budget / rng.uniform(40, 140) / 5
    layers, experts = rng.choice((16, 24, 32)), rng.choice((16, 32, 64))
    bits = [rng.choice((2, 3, 4, 4, 6, 8)) * rng.uniform(0.9, 1.15) for _ in range(layers)]
    skew, long_ones = rng.uniform(1.2, 3.0), rng.uniform(0.02, 0.12)
    calm = rng.randrange(20, 150)  # short prompts until then
    cached, in_use, step = {}, 0, 0
    yield load(names, sizes_of_model(rng, weights))[1]
    while True:
        operations = []
        share = rng.uniform(0.03, 0.25)
        if rng.random() < long_ones and step >= calm:
            share = rng.uniform(0.6, 1.0)
        for _ in range(rng.randrange(4, 12)):
            layer = rng.randrange(layers)
            expert = (layer, int(experts * rng.random() ** skew))
            if expert in cached:
                cached[expert] = cached.pop(expert)
                continue
            sizes = [at_least(unit * bits[layer] * part) for part in (0.66, 0.34)]
            while cached and in_use + sum(sizes) > budget:
                gone = cached.pop(next(iter(cached)))
                in_use -= gone[1]
                operations += free_all(gone[0])
            mine, made = hold(names, sizes, 1)
            operations += made
            cached[expert] = (mine, sum(sizes))
            in_use += sum(sizes)
        yield operations + through(names, work * share, 3)
        step += 1


# --- tools beside training and serving ---

@add()
def quantise_in_order(rng, capacity, _growth):
    """A model is quantised matrix by matrix, each with its Hessian. The packed weights are
    smaller, so there is more and more room; the output head, or the evaluation after it, needs the
    most."""
    names = Names()
    room = room_of(capacity)
    layers = rng.choice((16, 24, 32, 48))
    total = room * rng.uniform(0.35, 0.65)
    parts = rng.choice(((1, 1, 1, 1, 2.7, 2.7, 2.7), (3, 1, 4, 4)))
    packed = rng.choice((0.2, 0.27, 0.53))
    samples = room * rng.uniform(0.05, 0.12)
    hessian = room * rng.uniform(0.01, 0.04)
    fits = rng.random() < 0.2
    part = rng.uniform(0.3, 0.6) if fits else rng.uniform(1.35, 2.6)
    head_first, perplexity = rng.random() < 0.5, rng.randrange(20, 120)
    layer = total / layers
    model = [hold(names, [layer * p / sum(parts) for p in parts]) for _ in range(layers)]
    inputs, made = hold(names, [samples / 2] * 2)
    yield [operation for _, each in model for operation in each] + made
    for mine, _ in model:
        for name, p in zip(mine, parts):
            size = layer * p / sum(parts)
            square = hessian * (1 if p < 2 else rng.uniform(1.8, 2.4))
            operations = passing(names, [square, square * 0.1 * rng.uniform(0.3, 1.0), square,
                                         size * 2])
            smaller = names()
            yield operations + [("a", smaller, at_least(size * packed)), ("f", name)]
        yield through(names, samples * 0.3 * rng.uniform(0.7, 1.0), 3)
    free = room - total * packed - samples
    if not head_first:
        for _ in range(perplexity):
            yield through(names, free * rng.uniform(0.1, 0.35), 4)
    yield passing(names, [free * part * 0.25, free * part * 0.25, free * part * 0.5])
    yield free_all(inputs)
    for _ in range(300):
        yield through(names, free * rng.uniform(0.1, 0.35), 4)


@add(intent="leak")
def harness_scores(rng, capacity, growth):
    """A harness goes through its tasks, the longest batch of a task first. The logits of a batch
    are large and go; what the scores are computed from, at the end of all tasks, stays on the
    GPU."""
    names = Names()
    room = room_of(capacity)
    tokens_only = rng.random() < 0.5  # what stays: figures of the tokens, or logits of the answers
    weights = int(room * rng.uniform(0.2, 0.5))
    spare = room - weights
    little = min(spare * 0.12, rng.uniform(0.3, 2.5) * GIB)
    peak = spare * rng.uniform(0.15, 0.3)
    if tokens_only:
        peak = min(peak * 2, little * rng.uniform(1.0, 6.0))
    left = little if tokens_only else spare * 0.9 - peak * 1.5
    kept = left / rng.uniform(100, 450)
    count = 1 + int(kept / (0.9 * MIB)) if tokens_only else rng.randrange(1, 4)
    prefixes = pieces(spare - peak * 1.25 - left, 16) if tokens_only else []
    writes, by_length = rng.uniform(0.0, 0.3), rng.uniform(0.2, 0.9)
    grain = rng.choice((8, 16, 32))   # batches are padded to a multiple
    yield load(names, sizes_of_model(rng, weights) + prefixes)[1]
    while True:
        longest, spread = rng.uniform(0.3, 1.0), rng.uniform(0.1, 0.7)
        generates, batches = rng.random() < writes, rng.randrange(15, 90)
        for number in range(batches):
            length = max(1, math.ceil(longest * (1 - spread * number / batches) * grain)) / grain
            if generates:
                pages, operations = hold(names, pieces(peak * 0.4 * length, 8))
                for _ in range(3):
                    operations += through(names, peak * 0.1 * length, 2)
                operations += free_all(pages)
            else:
                operations = through(names, peak * 0.4 * length, 3)
                logits, softmax = names(), names()
                operations += [("a", logits, at_least(peak * 0.4 * length)),
                               ("a", softmax, at_least(peak * 0.6 * length))]
            mine = kept * (1 - by_length + by_length * length) * rng.uniform(0.8, 1.1)
            if growth:
                operations += hold(names, pieces(mine, count))[1]
            if not generates:
                operations += [("f", logits), ("f", softmax)]
            yield operations


@add()
def embedding_farm(rng, capacity, _growth):
    """One worker of several on this GPU. Each worker's pool is as large as its longest batch so
    far; this one empties its pool now and then, the others do not, and one of them may leak."""
    names = Names()
    room = room_of(capacity)
    weights = int(room * rng.uniform(0.04, 0.12))
    peak = room * rng.uniform(0.1, 0.25)
    workers = rng.randrange(1, 6)
    start, every = rng.randrange(0, 120), rng.randrange(5, 40)
    leaks = workers == 1 or rng.random() < 0.5
    rate = room * rng.uniform(0.6, 0.9) / rng.uniform(120, 500) if leaks else 0
    base = room * rng.uniform(0.05, 0.12)
    pools = [base] * workers
    steps_up = room * rng.uniform(0.7, 1.1) / workers
    chance = rng.uniform(0.01, 0.05)
    yield load(names, sizes_of_model(rng, weights))[1]
    step, leaked = 0, 0.0
    while True:
        for worker in range(workers):
            longer, by = rng.random() < chance, rng.uniform(0.05, 0.3)
            if longer and step >= start:
                pools[worker] = min(base + steps_up, pools[worker] + steps_up * by)
        leaked += rate * rng.uniform(0.3, 1.7) * (step >= start)
        other = min(room * 0.97, sum(pools) + leaked)
        length = rng.choice((0.1, 0.2, 0.3, 0.5, 0.75, 1.0))
        operations = [("o", int(other))] + through(names, peak * length * rng.uniform(0.8, 1.0), 5)
        result = names()
        operations += [("a", result, at_least(peak * 0.01)), ("f", result)]
        if step % every == every - 1:
            operations.append(("e",))
        yield operations
        step += 1


@add()
def reward_committee(rng, capacity, _growth):
    """Three judges score what a policy wrote. Prompts' states are kept up to a bound that fits, an
    engine beside them sleeps and wakes, and everything has its place."""
    names = Names()
    room = room_of(capacity)
    judges = [int(room * rng.uniform(0.05, 0.12)) for _ in range(3)]
    peak = room * rng.uniform(0.06, 0.12)
    bound = room * rng.uniform(0.05, 0.12)
    state = bound / rng.uniform(40, 300)
    other, every = room * rng.uniform(0.02, 0.12), rng.randrange(10, 60)
    lengths = [rng.uniform(0.2, 1.0) for _ in range(rng.randrange(3, 7))]
    for judge in judges:
        yield load(names, sizes_of_model(rng, judge))[1]
    kept, held, step = [], 0, 0
    while True:
        awake = step // every % 2 == 0
        operations = [("o", int(other if awake else other * 0.2))]
        for _ in judges:
            operations += through(names, peak * rng.choice(lengths), 3)
        for _ in range(rng.randrange(0, 4)):
            size = int(state * rng.uniform(0.4, 1.6))
            mine, made = hold(names, [size])
            operations += made
            kept.append((mine, size))
            held += size
        while held > bound:
            gone, size = kept.pop(0)
            operations += free_all(gone)
            held -= size
        if step % (every * 2) == every:
            operations.append(("e",))
        yield operations
        step += 1
