# SPDX-License-Identifier: Apache-2.0
"""Fourteen programs of a busy machine room: servers, trainers, simulations, a renderer and a notebook."""
import collections
import functools
import random

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load,
                     room_of, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_theatre")


def allocate(names, sizes, stream=None):
    """Names of new blocks and their operations."""
    made = [names() for _ in sizes]
    tail = () if stream is None else (stream,)
    return made, [("a", name, at_least(size), *tail) for name, size in zip(made, sizes)]


def passing(names, sizes, overlap=2):
    """Blocks of an inference pass: each is freed when `overlap` later ones have been made."""
    operations, alive = [], collections.deque()
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size)))
        alive.append(name)
        if len(alive) > overlap:
            operations.append(("f", alive.popleft()))
    return operations + free_all(alive)


def pick(rng, count):
    """An index; one draw, however large `count` is."""
    return min(count - 1, int(rng.random() * count))


# --- leaks ---

@add("leak")
def prompt_editing_server(rng, capacity, growth):
    """A Stable-Diffusion server with prompt-to-prompt hooks; the attention store of a cancelled request stays registered."""
    names, room = Names(), room_of(capacity)
    unet = sizes_of_model(rng, int(room * rng.uniform(0.1, 0.2)), (12, 16, 24))
    text = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.06)), (12, 24))
    yield load(names, unet + text)[1]
    levels = [1 / 2 ** n for n in range(rng.choice((3, 4, 4)))]
    per_level = rng.choice((2, 2, 3))
    feature = room * rng.uniform(0.008, 0.016)
    maps = room * rng.uniform(0.02, 0.055)
    cancels = rng.uniform(0.12, 0.35)
    few = rng.random() < 0.5
    while True:
        area = rng.choice((0.25, 0.39, 0.56, 0.56, 1.0)) * rng.choice((1, 1, 2)) / 2 + 0.1
        denoising = rng.randrange(4, 9) if few else rng.randrange(10, 21)
        cancelled_at = rng.randrange(1, denoising)
        cancelled = rng.random() < cancels
        embeddings, prologue = allocate(names, [int(feature * 0.02)] * 2 + [int(feature * area * 0.11)] * 2)
        store = []
        for step in range(denoising):
            operations, skips = prologue, []
            prologue = []
            for level in levels:
                for _ in range(per_level):
                    skip = names()
                    operations.append(("a", skip, at_least(feature * area * level)))
                    skips.append(skip)
                    operations += passing(names, [feature * area * level * part for part in (1, 0.5, 2, 1)])
                    weights = names()
                    operations.append(("a", weights, at_least(maps * area * level * level / per_level)))
                    if step == 0:
                        store.append(weights)        # later steps add to it in place
                    else:
                        operations.append(("f", weights))
            for level in reversed(levels):
                for _ in range(per_level):
                    operations += passing(names, [feature * area * level * part for part in (2, 1, 2, 1)])
                    operations.append(("f", skips.pop()))
            if cancelled and step == cancelled_at:
                operations += free_all(embeddings)
                if not growth:
                    operations += free_all(store)
                yield operations
                break
            if step == denoising - 1:
                image = [feature * area * part for part in (0.5, 1, 2, 4, 4, 2, 0.3)]
                operations += passing(names, image) + free_all(embeddings) + free_all(store)
            yield operations


@add("leak")
def dictation_sessions(rng, capacity, growth):
    """Streaming speech recognition (conformer, beam search); the state of a socket that breaks off is never dropped."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.05, 0.15)), (12, 16)))[1]
    layers = rng.choice((8, 12, 16))
    session = room * rng.uniform(0.002, 0.005)
    attention, convolution = session * 0.85 / layers, session * 0.1 / layers
    hypothesis = session * 0.05 / 4
    breaks = rng.uniform(0.12, 0.3)
    rate = rng.uniform(0.35, 0.7)
    chunk = room * rng.uniform(0.0006, 0.0025)
    live = []                                       # [ends at, breaks off, caches, beams, tokens]
    step = 0
    while True:
        operations = []
        for _ in range(2):
            opens, lasts, broken = rng.random() < rate, rng.randrange(8, 80), rng.random() < breaks
            if opens:
                caches, more = allocate(names, [attention, convolution] * layers)
                beams, most = allocate(names, [hypothesis] * 4)
                operations += more + most
                live.append([step + lasts, broken, caches, beams, 1])
        speaking = [entry for entry in live if rng.random() < 0.6][:16]
        features, more = allocate(names, [chunk * len(speaking) * 0.2, chunk * 0.01 * (1 + len(speaking))])
        operations += more
        for _ in range(layers):
            length = chunk * len(speaking)
            operations += passing(names, [length * part for part in (0.4, 1.6, 1.2, 0.4)])
        for entry in speaking:
            entry[4] += 1
            beams, more = allocate(names, [hypothesis * (1 + entry[4] / 40)] * 4)
            operations += more + free_all(entry[3])
            entry[3] = beams
        operations += free_all(features)
        for entry in [entry for entry in live if entry[0] <= step]:
            live.remove(entry)
            if not (entry[1] and growth):
                operations += free_all(entry[2]) + free_all(entry[3])
        yield operations
        step += 1


@add("leak")
def ppo_logged_values(rng, capacity, growth):
    """PPO with many environments; once logging starts, values of ended episodes are listed without detach()."""
    names, room = Names(), room_of(capacity)
    policy = sizes_of_model(rng, int(room * rng.uniform(0.004, 0.02)), (12,))
    rollout = [int(room * rng.uniform(0.05, 0.2))] + [int(room * 0.002)] * 4
    yield load(names, policy)[1] + load(names, policy * 2)[1] + load(names, rollout)[1]
    forward_bytes = room * rng.uniform(0.002, 0.006)
    trunk = activations_of(rng, forward_bytes, rng.choice((4, 6)))
    update = activations_of(rng, room * rng.uniform(0.1, 0.25), rng.choice((4, 6)))
    starts = rng.choice((0, 20, rng.randrange(60, 300)))
    ends = rng.uniform(0.1, 0.35)
    chunks, minibatches = rng.randrange(4, 10), rng.randrange(3, 6)
    step = 0
    while True:
        for _ in range(chunks):
            operations = []
            for environment_step in range(4):
                more, kept = forward(names, trunk, [int(forward_bytes * 0.03)])
                action, most = allocate(names, [forward_bytes * 0.01, forward_bytes * 0.002, 2048])
                operations += more + most + free_all(action)
                ended = rng.random() < ends and environment_step == 3
                for layer in kept:
                    if not (growth and ended and step >= starts):
                        operations += free_all(layer)
            yield operations
            step += 1
        returns, operations = allocate(names, [rollout[1]] * 3)
        for minibatch in range(minibatches):
            more, kept = forward(names, update, [int(rollout[1] * 0.4)], rng.uniform(0.9, 1.0))
            most, gradients = backward(names, kept, policy)
            operations += more + most + free_all(gradients)
            if minibatch == minibatches - 1:
                operations += free_all(returns)
            yield operations
            operations = []
            step += 1


@add("leak")
def segmentation_scores(rng, capacity, growth):
    """Segmentation training with evaluations between; one of two metrics keeps its masks and is never reset."""
    names, room = Names(), room_of(capacity)
    weights = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.07)), (12, 16))
    yield load(names, weights)[1]
    layers = activations_of(rng, room * rng.uniform(0.2, 0.4), rng.choice((8, 12)))
    temporaries = [int(room * rng.uniform(0.001, 0.01)) for _ in range(2)]
    trains, evaluates = rng.randrange(25, 100), rng.randrange(8, 30)
    logits = room * rng.uniform(0.03, 0.09) / evaluates
    first = True
    while True:
        for _ in range(trains):
            scale = rng.choice((0.6, 0.75, 0.75, 1.0))
            operations, kept = forward(names, layers, temporaries, scale)
            more, gradients = backward(names, kept, weights)
            operations += more
            if first:
                operations += load(names, weights * 2)[1]
                first = False
            yield operations + free_all(gradients)
        scores, worst = [], []
        for _ in range(evaluates):
            scale = rng.uniform(0.3, 1.0)
            operations = []
            for layer in layers:
                operations += passing(names, [size * scale * 0.4 for size in layer])
            predicted, more = allocate(names, [logits * scale])
            operations += more
            made, more = allocate(names, [logits * scale / 8, logits * scale / 8, 4096, 4096])
            operations += more
            scores += made
            pieces = rng.randrange(1, 6)
            made, more = allocate(names, [logits * scale * rng.uniform(0.1, 0.5) for _ in range(pieces)])
            operations += more + free_all(predicted)
            worst += made
            yield operations
        table, operations = allocate(names, [logits * 0.5, 1024])
        operations += free_all(table) + free_all(scores)
        if not growth:
            operations += free_all(worst)
        yield operations


# --- designs: what is meant to be kept ---

@add("design")
def hot_rows_cache(rng, capacity, growth):
    """A recommender (DLRM) that keeps hot embedding pages on the GPU, up to a limit set without thought of the batch."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (12,)))[1]
    limit = int(capacity * rng.uniform(0.7, 1.05))
    pages = rng.randrange(9000, 25000)
    unit = room / rng.uniform(2000, 4500)
    width = [rng.choice((0.25, 0.5, 1, 1, 2)) * rng.uniform(0.8, 1.2) for _ in range(rng.randrange(4, 12))]
    batch = room * rng.uniform(0.06, 0.2)
    lookups = rng.randrange(20, 60)
    cache, held = collections.OrderedDict(), 0      # page: (name, bytes)
    while True:
        wanted = {int(pages ** rng.random()) for _ in range(lookups)}
        scale = rng.uniform(0.5, 1.0)
        indices, operations = allocate(names, [batch * scale * 0.004 for _ in width], 1)
        fetched = []
        for page in sorted(wanted):
            if page in cache:
                cache.move_to_end(page)
                continue
            size = at_least(unit * width[page % len(width)])
            name = names()
            while cache and held + size > limit:
                gone, freed = cache.popitem(last=False)[1]
                operations.append(("f", gone))
                held -= freed
            operations.append(("a", name, size))
            if growth:
                cache[page] = (name, size)
                held += size
            else:
                fetched.append(name)
        pooled, more = allocate(names, [batch * scale * 0.3 / len(width) for _ in width])
        operations += more
        operations += passing(names, [batch * scale * part for part in (0.3, 0.05, 0.2, 0.1, 0.05, 0.01, 0.001)])
        yield operations + free_all(pooled) + free_all(indices) + free_all(fetched)


@add("design")
def mask_tracker_memory(rng, capacity, growth):
    """Video object segmentation (XMem, SAM 2): a memory of frames for each object; long clips fill it up to its bound."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.1)), (12, 24)))[1]
    encoder = activations_of(rng, room * rng.uniform(0.05, 0.14), rng.choice((8, 12)))
    entry = room * rng.uniform(0.0016, 0.004)
    every = rng.randrange(2, 6)
    bound = rng.randrange(70, 170)
    while True:
        frames = int(min(1500, rng.lognormvariate(4.9, 0.9))) + 5
        objects = min(7, int(rng.paretovariate(1.0)))
        scale = rng.choice((0.5, 0.75, 1.0, 1.0))
        memory = collections.deque()
        for frame in range(frames):
            operations = []
            for layer in encoder:
                operations += passing(names, [size * scale for size in layer], 3)
            pyramid, more = allocate(names, [entry * scale * part for part in (4, 2, 1, 0.5)])
            operations += more
            affinity = entry * scale * 0.25 * len(memory)
            operations += passing(names, [affinity, affinity, affinity / 16])
            for _ in range(objects):
                operations += passing(names, [entry * scale * part for part in (1, 2, 4, 0.3)])
            if frame % every == 0:
                parts = [0.3, 0.02] + [rng.uniform(0.8, 1.0) for _ in range(objects)]
                made, more = allocate(names, [entry * scale * part for part in parts])
                operations += more
                memory.append(made)
                while len(memory) > (bound if growth else 2):
                    first = memory.popleft()
                    operations += free_all(memory.popleft())
                    memory.appendleft(first)        # the first frame is never forgotten
            operations += free_all(pyramid)
            if frame == frames - 1:
                operations += [operation for made in memory for operation in free_all(made)]
            yield operations


# --- demand ---

@add("demand")
def evening_users(rng, capacity, growth):
    """A chat server with a contiguous cache for each conversation (doubling by torch.cat); towards evening more users come."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.3, 0.5))))[1]
    token = room * rng.uniform(0.7, 1.6) * 1e-5 / 3
    base, rate = rng.uniform(0.05, 0.12), rng.uniform(0.002, 0.01)
    hidden = room * rng.uniform(0.0008, 0.002)
    live = []                                       # [tokens, tokens left, capacity in tokens, names]
    step = 0
    while True:
        operations = []
        chance = base * (1 + (rate * step if growth else 0.0))
        for _ in range(4):
            comes, prompt, answer = rng.random(), int(rng.lognormvariate(5.8, 0.8)), int(rng.lognormvariate(5.9, 0.7))
            if comes < chance and len(live) < 150:
                prompt, answer = min(prompt, 4000), min(answer, 2500)
                made, more = allocate(names, [token * prompt] * 3)
                operations += passing(names, [hidden * prompt / 500 * part for part in (1, 3, 1, 4, 1) * 6]) + more
                live.append([prompt, answer, prompt, made])
        for user in live:
            user[0] += 24
            user[1] -= 24
            if user[0] > user[2]:
                user[2] = user[0] + max(32, user[0] // 8)
                made = []
                for old in user[3]:
                    made.append(names())
                    operations += [("a", made[-1], at_least(token * user[2])), ("f", old)]
                user[3] = made
        if live:
            decode = hidden * len(live) / 40
            operations += passing(names, [decode * part for part in (1, 3, 1, 4, 1) * 6])
            operations += passing(names, [hidden * len(live) / 12, hidden * len(live) / 6])
        sampler, more = allocate(names, [4096, 512])
        operations += more + free_all(sampler)
        for user in [user for user in live if user[1] <= 0]:
            live.remove(user)
            operations += free_all(user[3])
        yield operations
        step += 1


@add("demand")
def blast_wave_refinement(rng, capacity, growth):
    """A hydrodynamics code with adaptive mesh refinement: as the shock front spreads, more patches are refined."""
    names, room = Names(), room_of(capacity)
    fields = rng.randrange(4, 8)
    start = rng.randrange(8, 20)
    patch = room * rng.uniform(0.002, 0.004) / fields
    every = rng.randrange(3, 9)
    rate = rng.uniform(0.4, 2.4)                    # patches more at each regrid
    fresh = random.Random(rng.getrandbits(32))      # only for the patches that growth adds
    coarse, operations = allocate(names, [room * rng.uniform(0.008, 0.02) for _ in range(fields)])
    yield operations
    patches = []                                    # (names, scale)

    def refine(scale):
        made, more = allocate(names, [patch * scale] * fields + [patch * scale / 24, 2048])
        patches.append((made, scale))
        return more

    step, wanted = 0, float(start)
    while True:
        operations = []
        if step == 0:
            for _ in range(start):
                operations += refine(rng.choice((0.25, 0.5, 1, 1, 1.5)))
        elif step % every == 0:
            flags, more = allocate(names, [patch * 0.3, patch * 0.3, patch * 0.01])
            operations += more
            for _ in range(4):
                gone = pick(rng, len(patches))
                operations += refine(rng.choice((0.25, 0.5, 1, 1, 1.5)))
                operations += free_all(patches.pop(gone)[0])
            wanted += rate * (1 + step / 2000) if growth else 0.0
            while len(patches) < min(700, int(wanted)):
                operations += refine(fresh.choice((0.25, 0.5, 1, 1, 1.5)))
            operations += free_all(flags)
        for _ in range(2):                          # stages of Runge-Kutta
            operations += passing(names, [room * 0.01 * part for part in (1, 1, 0.5)])
            for at in range(0, len(patches), 8):
                cells = patch * sum(scale for _, scale in patches[at:at + 8])
                operations += passing(names, [cells, cells, cells * 1.1, cells * 0.3])
        reduced, more = allocate(names, [512, 512, 8192])
        yield operations + more + free_all(reduced)
        step += 1


@add("demand")
def folding_queue(rng, capacity, growth):
    """Protein structure prediction of a list sorted by length: the pair representation grows with the square."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.1)), (12, 24)))[1]
    pair_bytes, chunk = room * rng.uniform(0.006, 0.02), rng.uniform(1, 3)
    msa_bytes = room * rng.uniform(0.005, 0.02)
    rate = 10 ** rng.uniform(-2.7, -1.7)
    blocks, recycles = rng.randrange(4, 9), rng.randrange(1, 4)
    step = 0
    while True:
        length = (1 + (rate * step if growth else 0.0)) * rng.uniform(0.97, 1.03)
        depth = rng.uniform(0.3, 1.0)
        pair, msa = pair_bytes * length * length, msa_bytes * length * depth
        features, operations = allocate(names, [msa * 0.2, msa * 0.05, pair * 0.3, pair * 0.02, 4096, 65536 * length])
        state, more = allocate(names, [pair, msa])
        operations += more
        for _ in range(recycles):
            for _ in range(blocks):
                operations += passing(names, [msa * part for part in (1, 3, 1, 4)])
                operations += passing(names, [pair * part for part in (1, 1, 1, chunk * length, 1, 4, 1)], 3)
                new, more = allocate(names, [pair, msa])
                operations += more + free_all(state)
                state = new
            operations += passing(names, [pair * 0.5, msa * 0.1, pair * 0.05])
        atoms, more = allocate(names, [length * 300000, length * 90000, pair * 0.5])
        yield operations + more + free_all(state) + free_all(features) + free_all(atoms)
        step += 1


# --- no growth ---

@add()
def streamed_textures(rng, capacity, _growth):
    """A path tracer on a camera flight: textures and geometry are streamed within a budget, frames change resolution."""
    names, room = Names(), room_of(capacity)
    budget = room * rng.uniform(0.72, 0.86)
    unit = room / rng.uniform(250, 500)
    resident, held = [], 0                          # (name, bytes)
    frame = room * rng.uniform(0.02, 0.04)
    loads = rng.randrange(3, 10)
    while True:
        operations = []
        resolution = rng.choice((0.25, 0.44, 0.56, 0.77, 1.0))
        buffers, more = allocate(names, [frame * resolution * part for part in (1, 0.5, 0.5, 0.25, 0.25, 0.06)])
        operations += more
        for _ in range(loads):
            kind, aspect, near = rng.random(), rng.uniform(0.4, 1.0), rng.random()
            size = unit * aspect * (0.05 if kind < 0.25 else 0.25 if kind < 0.55 else 1 if kind < 0.9 else 4 if kind < 0.99
                                    else 12)
            size = at_least(size)
            while resident and held + size > budget:
                # mostly one of the oldest; what is still in view is passed over
                gone, freed = resident.pop(pick(rng, max(1, len(resident) // (3 if near < 0.8 else 1))))
                operations.append(("f", gone))
                held -= freed
            staging, name = names(), names()
            operations += [("a", staging, at_least(size // 4), 1), ("a", name, size), ("f", staging)]
            resident.append((name, size))
            held += size
        for _ in range(rng.randrange(3, 8)):
            rays = frame * resolution * rng.uniform(0.1, 0.6)
            operations += passing(names, [rays, rays * 0.5, rays * 0.25, rays * 0.02])
        yield operations + free_all(buffers)


@add()
def sampled_hubs(rng, capacity, _growth):
    """A graph network with sampled neighbours: now and then a batch meets hubs and its frontier is many times as large."""
    names, room = Names(), room_of(capacity)
    hidden = sizes_of_model(rng, int(room * rng.uniform(0.003, 0.01)), (12,))
    yield load(names, hidden)[1] + load(names, [int(room * rng.uniform(0.1, 0.35))])[1] + load(names, hidden * 2)[1]
    tail = rng.uniform(1.2, 1.55)
    seeds = rng.randrange(12, 40)
    usual = room * rng.uniform(0.06, 0.12)
    hops = rng.choice((2, 3))
    mean = tail / (tail - 1)
    while True:
        operations, kept = [], []
        edges = sum(min(3000.0, rng.paretovariate(tail)) for _ in range(seeds)) / (seeds * mean)
        nodes = edges ** rng.uniform(0.75, 0.95)
        for hop in range(hops):
            share = usual / hops * (0.4 + 0.6 * (hop + 1) / hops)
            index, more = allocate(names, [share * edges * 0.04, share * edges * 0.04, share * nodes * 0.02])
            operations += more
            features, more = allocate(names, [share * nodes * 0.3])
            operations += more
            messages, more = allocate(names, [share * edges * 0.35])
            operations += more
            weights, more = allocate(names, [share * edges * 0.02] * 4 + [share * nodes * 0.01])
            operations += more + passing(names, [share * edges * 0.1, share * nodes * 0.2])
            out, more = allocate(names, [share * nodes * 0.2, share * nodes * 0.2, share * nodes * 0.05])
            operations += more
            kept.append(index + features + messages + weights + out)
        more, gradients = backward(names, kept, hidden)
        yield operations + more + free_all(gradients)


@add()
def adapter_beside_a_neighbour(rng, capacity, _growth):
    """LoRA fine-tuning on a shared card: a neighbour's notebook loads models, generates, goes, and comes back with more."""
    names, room = Names(), room_of(capacity)
    base = sizes_of_model(rng, int(room * rng.uniform(0.15, 0.35)), (16, 24))
    adapters = [int(room * rng.uniform(0.00002, 0.0001)) for _ in range(24)]
    yield [("o", 0)] + load(names, base)[1] + load(names, adapters)[1]
    layers = activations_of(rng, room * rng.uniform(0.12, 0.3), 12)
    temporaries = [int(room * rng.uniform(0.001, 0.006)) for _ in range(3)]
    first, ambition = True, rng.uniform(0.12, 0.3)
    while True:
        away, loads, runs = rng.randrange(15, 120), rng.randrange(2, 8), rng.randrange(20, 200)
        model = room * ambition * rng.uniform(0.7, 1.2)
        creep = room * rng.uniform(0.0, 0.002)
        ambition *= rng.uniform(1.0, 1.35)
        for at in range(away + loads + runs):
            other = 0
            if at >= away:
                other = int(300 * MIB + model * min(1.0, (at - away + 1) / loads))
                other += int(creep * max(0, at - away - loads)) // (2 * MIB) * (2 * MIB)
            operations = [("o", other)]
            scale = rng.choice((0.5, 0.7, 0.85, 1.0))
            more, kept = forward(names, layers, temporaries, scale)
            operations += more
            more, gradients = backward(names, kept, adapters)
            operations += more
            if first:
                operations += load(names, adapters * 2)[1]
                first = False
            yield operations + free_all(gradients)


@add()
def camera_wall(rng, capacity, _growth):
    """Detection on many cameras: the decoder's surfaces lie beside the allocator, and reconnected cameras keep the old ones."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.12)), (12, 24)))[1]
    surfaces = room * rng.uniform(0.004, 0.014)     # of one decoder
    cameras, reconnects = rng.randrange(6, 24), rng.uniform(0.02, 0.12)
    workspace = int(room * rng.uniform(0.02, 0.08))
    image = room * rng.uniform(0.0008, 0.002)
    layers = [layer for layer in activations_of(rng, room * rng.uniform(0.08, 0.2), 8)]
    outside, opened = 0, 0
    tracks = collections.deque()
    step = 0
    while True:
        operations = []
        if step == 2:
            outside += workspace
        dropped, size = rng.random() < reconnects, rng.choice((0.5, 1.0, 1.0, 2.0))
        storm = rng.random() < 0.004
        if opened < cameras and step % 3 == 0:
            opened += 1
            outside += int(surfaces * size)
        elif dropped:
            outside += int(surfaces * size * (3 if storm else 1))
        operations.append(("x", outside))
        ready = 1 + pick(rng, opened)
        for _ in range(min(ready, 12)):
            frame, more = allocate(names, [image, image * 3, image * 0.5], 1)
            operations += more + free_all(frame[:2])
            tracks.append(frame[2])
        for layer in layers:
            operations += passing(names, [part * min(ready, 12) / 12 for part in layer])
        boxes = rng.randrange(2, 40)
        operations += passing(names, [boxes * 65536, boxes * boxes * 512, boxes * 4096, boxes * 200000, 512])
        while len(tracks) > 48:
            operations.append(("f", tracks.popleft()))
        yield operations
        step += 1


@add()
def notebook_reloads(rng, capacity, _growth):
    """A notebook that compares models of a zoo: a cell is run again and the new model is loaded while the old has its name."""
    names, room = Names(), room_of(capacity)
    zoo = [room * share * rng.uniform(0.8, 1.2) for share in (0.02, 0.05, 0.09, 0.15, 0.22, 0.32, 0.46)]
    popular = [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6]
    model, plots = [], collections.deque()
    while True:
        chosen = rng.choice(popular)
        sizes = sizes_of_model(rng, int(zoo[chosen]), (12, 16, 24))
        careful, staged = rng.random() < 0.3, rng.random() < 0.4
        operations = []
        if careful:
            operations += free_all(model) + [("e",)]
            model = []
        made, more = allocate(names, sizes)
        operations += more
        if staged:                                  # torch.load(map_location="cuda"), then load_state_dict
            checkpoint, more = allocate(names, sizes)
            operations += more + free_all(checkpoint)
        yield operations + free_all(model)
        model = made
        share = rng.uniform(0.02, 0.2)
        layers = activations_of(rng, room * share, 12)
        tries = rng.random() < 0.25 and zoo[chosen] < room * 0.2
        states = []
        for cell in range(rng.randrange(4, 24)):
            operations, kept = forward(names, layers, [int(room * share * 0.01)], rng.choice((0.1, 0.25, 0.5, 1.0)))
            if tries:
                more, gradients = backward(names, kept, sizes)
                operations += more
                if cell == 0:
                    states, more = allocate(names, sizes * 2)
                    operations += more
                operations += free_all(gradients)
            else:
                for layer in kept:
                    operations += free_all(layer)
            plots.append(names())
            operations.append(("a", plots[-1], at_least(room * rng.uniform(0.0001, 0.004))))
            if len(plots) > 10:
                operations.append(("f", plots.popleft()))
            yield operations
        if states:
            yield free_all(states)
