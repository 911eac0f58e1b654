# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of the bench: notebooks, sweeps, services of several models, odd trainers. Nothing is tuned on these."""
import functools
import itertools

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load,
                     room_of, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_bench")


def flat(kept):
    return [name for mine in kept for name in mine]


@add(intent="leak")
def sweep_keeps_models(rng, capacity, growth):
    """A search for hyperparameters in one process: the list of results holds each trial's model with its optimizer."""
    names = Names()
    largest, seen = capacity * rng.uniform(0.012, 0.035), capacity * rng.uniform(0.05, 0.2)
    steps = rng.randrange(3, 12)
    while True:
        sizes = sizes_of_model(rng, int(largest * rng.uniform(0.4, 1)), (4, 6, 8, 12))
        layers = activations_of(rng, int(seen * rng.uniform(0.4, 1)), rng.choice((4, 6, 8, 12)))
        loaded, operations = load(names, sizes)
        yield operations
        mine = [name for name, _ in loaded]
        for step in range(steps):
            operations, kept = forward(names, layers, [layers[0][0] // 2])
            more, gradients = backward(names, kept, sizes)
            operations += more
            if step == 0:
                moments = [("a", names(), size) for size in sizes for _ in range(2)]
                operations += moments
                mine += [name for _, name, _ in moments]
            yield operations + free_all(gradients)
        yield [] if growth else free_all(reversed(mine))


@add(intent="leak")
def tracebacks_kept(rng, capacity, growth):
    """Pictures are augmented on the GPU. Some cannot be: the exception is caught and logged, and the log holds the
    traceback with all the frames and what the forward pass had got to."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.01, 0.05)), (8, 12, 16))
    layers = activations_of(rng, int(capacity * rng.uniform(0.04, 0.15)), rng.choice((8, 12, 16)))
    picture, often = capacity * rng.uniform(0.002, 0.012), rng.uniform(0.06, 0.3)
    yield load(names, sizes)[1] + [("a", names(), size) for size in sizes for _ in range(2)]
    while True:
        raw, turned, cropped, crop = names(), names(), names(), rng.uniform(0.7, 1)
        fails, reached = rng.random() < often, rng.randrange(2, len(layers))
        operations = [("a", raw, at_least(picture)), ("a", turned, at_least(picture * 1.4)),
                      ("a", cropped, at_least(picture * crop)), ("f", turned)]
        if fails:
            more, kept = forward(names, layers[:reached])
            held = [raw, cropped] + flat(kept)
            yield operations + more + ([] if growth else free_all(reversed(held)))
            continue
        more, kept = forward(names, layers)
        back, gradients = backward(names, kept, sizes)
        yield operations + [("f", raw)] + more + back + free_all(gradients) + [("f", cropped)]


@add()
def adapters_within_bound(rng, capacity, _growth):
    """One base model, and LoRA adapters of all ranks that stay on the GPU within a bound in bytes. Each prompt makes the
    logits of all its tokens at once."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.26, 0.3)), (12, 16, 24)))[1]
    bound, logits = room * rng.uniform(0.29, 0.32), room * rng.uniform(0.27, 0.3)
    parts = rng.choice(((1, 1, 1, 1), (1, 0.4, 0.4, 1, 2.7, 2.7), (1, 1, 3)))
    adapters = []
    for _ in range(rng.randrange(50, 130)):
        size = room * 0.005 * rng.choice((0.5, 1, 1, 2, 2, 4, 8)) * rng.uniform(0.7, 1.2)
        adapters.append([at_least(size * part / sum(parts)) for part in parts])
    hidden, favour = room * rng.uniform(0.002, 0.008), rng.uniform(1, 2)
    resident, total = {}, 0                      # in the order of their use
    while True:
        operations, wanted = [], int(len(adapters) * rng.random() ** favour)
        if wanted in resident:
            resident[wanted] = resident.pop(wanted)
        else:
            while resident and total + sum(adapters[wanted]) > bound:
                oldest = next(iter(resident))
                operations += free_all(resident.pop(oldest))
                total -= sum(adapters[oldest])
            loaded, more = load(names, adapters[wanted])
            resident[wanted] = [name for name, _ in loaded]
            operations += more
            total += sum(adapters[wanted])
        length = rng.uniform(0.6, 1)
        keys, values, out = names(), names(), names()
        yield operations + [("a", keys, at_least(hidden * length)), ("a", values, at_least(hidden * length)),
                            ("a", out, at_least(logits * length)), ("f", out), ("f", values), ("f", keys)]


@add(intent="demand")
def draft_and_target(rng, capacity, growth):
    """Speculative decoding: a small model drafts, a large one verifies, each with its cache of keys and values. The
    conversations of the agents that ask become longer."""
    names = Names()
    target = sizes_of_model(rng, int(capacity * rng.uniform(0.2, 0.38)), (16, 24, 32))
    draft = sizes_of_model(rng, int(capacity * rng.uniform(0.01, 0.04)), (4, 6, 8))
    cache, users, groups = capacity * rng.uniform(0.1, 0.2), rng.randrange(2, 7), rng.choice((4, 8))
    rate, ahead = rng.uniform(0.01, 0.09), rng.randrange(3, 9)
    vocabulary = capacity * rng.uniform(0.0005, 0.003)
    yield load(names, target)[1] + load(names, draft)[1]
    for number in itertools.count():
        longer, operations, held = 1 + (rate * number if growth else 0), [], []
        for _ in range(users):
            size = cache * longer * rng.uniform(0.6, 1) / users
            mine = [("a", names(), at_least(size / groups)) for _ in range(groups)]
            mine += [("a", names(), at_least(size / groups / 12)) for _ in range(2)]
            operations += mine
            held += [name for _, name, _ in mine]
        for _ in range(rng.randrange(2, 6)):
            guesses = [("a", names(), at_least(vocabulary)) for _ in range(ahead)]
            verified = names()
            operations += guesses + [("a", verified, at_least(vocabulary * (ahead + 1))), ("f", verified)]
            operations += free_all(name for _, name, _ in guesses)
        yield operations + free_all(held)


@add()
def cell_run_again(rng, capacity, _growth):
    """A notebook with a language model. The cell that loads it is run again: the new one is made before the name lets
    go of the old one."""
    names, room = Names(), room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.59, 0.68)), (12, 16, 24))
    cache, blocks, every = room * rng.uniform(0.02, 0.09), rng.choice((4, 8, 12)), rng.randrange(6, 50)
    model, operations = load(names, sizes)
    yield operations
    for number in itertools.count(1):
        if number % every == 0:
            new, operations = load(names, sizes)
            yield operations + free_all(name for name, _ in model)
            model = new
        length = rng.uniform(0.3, 1)
        held = [("a", names(), at_least(cache * length / blocks)) for _ in range(blocks)]
        yield held + free_all(name for _, name, _ in held)


@add(intent="design")
def graph_per_shape(rng, capacity, growth):
    """A service that records a graph for each shape of input that it meets, with buffers of its own, and keeps it to
    replay. There are more shapes than anybody thought."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.08, 0.35)), (12, 16, 24)))[1]
    eager, buffers = capacity * rng.uniform(0.03, 0.1), capacity * 10 ** rng.uniform(-2.1, -1.6)
    grain, pieces = rng.choice((8, 8, 16)), rng.randrange(3, 7)
    recorded = set()
    while True:
        batch = rng.choice((1, 1, 2, 2, 3, 4, 5, 6, 8))
        length = -(-min(2048, max(16, int(rng.lognormvariate(6, 0.7)))) // grain) * grain
        work = 0.2 + 0.8 * (batch * length / 16384)
        operations = [("a", names(), at_least(eager * work / 4)) for _ in range(4)]
        held = [name for _, name, _ in operations]
        if (batch, length) not in recorded:
            recorded.add((batch, length))
            if growth:
                operations += [("a", names(), at_least(buffers * work / pieces)) for _ in range(pieces)]
                operations.append(("a", names(), 8 * MIB))       # the workspace of the matrix products
        yield operations + free_all(held)


@add(intent="demand")
def router_collapses(rng, capacity, growth):
    """A mixture of experts whose router likes one of them more and more; the buffers of all are as long as the fullest
    needs them. Gradients are accumulated over a few micro-batches."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.03, 0.1)), (4, 6, 8))
    layers = activations_of(rng, int(capacity * rng.uniform(0.03, 0.08)), rng.choice((4, 6, 8)))
    experts, micros = rng.choice((16, 32, 64)), rng.randrange(1, 4)
    dispatched, rate = capacity * rng.uniform(0.09, 0.18) / len(layers), rng.uniform(0.01, 0.1)
    yield load(names, sizes)[1] + [("a", names(), size) for size in sizes for _ in range(2)]
    for number in itertools.count():
        fullest = min(experts, 1 + (rate * number if growth else 0))
        operations, gradients = [], []
        for micro in range(micros):
            kept = []
            for layer in layers:
                more, mine = forward(names, [layer])
                share = dispatched * fullest * rng.uniform(0.9, 1)
                logits, tokens, inner = names(), names(), names()
                operations += more + [("a", logits, at_least(dispatched / experts)), ("a", tokens, at_least(share * 0.4)),
                                      ("a", inner, at_least(share * 0.6))]
                kept.append(mine[0] + [logits, tokens, inner])
            more, made = backward(names, kept, sizes if micro == 0 else ())
            operations += more
            gradients += made
        yield operations + free_all(gradients)


@add()
def tenant_wakes_up(rng, capacity, _growth):
    """A student learns from a teacher, by batches in buckets of length; at an epoch's end, the cache is given back. A
    service of somebody else on the same GPU gets its first users meanwhile, and takes more each time."""
    names = Names()
    teacher = sizes_of_model(rng, int(capacity * rng.uniform(0.08, 0.14)), (12, 16, 24))
    student = sizes_of_model(rng, int(capacity * rng.uniform(0.015, 0.03)), (4, 6, 8))
    layers = activations_of(rng, int(capacity * rng.uniform(0.26, 0.36)), rng.choice((6, 8, 12)))
    looked = capacity * rng.uniform(0.02, 0.06)
    buckets = sorted(rng.uniform(0.3, 0.9) for _ in range(rng.randrange(2, 6))) + [1.0]
    asleep, steps, quiet = rng.uniform(0.01, 0.06), rng.randrange(4, 14), rng.randrange(1, 5)
    theirs, more_each = asleep, rng.uniform(0.04, 0.15)
    yield [("o", int(capacity * theirs))] + load(names, teacher)[1] + load(names, student)[1] + [
        ("a", names(), size) for size in student for _ in range(2)]
    for epoch in itertools.count():
        if epoch >= quiet:
            theirs = min(0.7, theirs + more_each * rng.uniform(0.4, 1.6))
        yield [("o", int(capacity * theirs))]
        lengths = buckets + [rng.choice(buckets) for _ in range(steps)]
        rng.shuffle(lengths)
        for length in lengths:
            soft = names()
            # the teacher's pass leaves nothing but its logits
            operations = []
            for part in (1, 0.6):
                name = names()
                operations += [("a", name, at_least(looked * length * part)), ("f", name)]
            operations.append(("a", soft, at_least(looked * length / 2)))
            more, kept = forward(names, layers, (), length)
            back, gradients = backward(names, kept, student)
            yield operations + more + back + [("f", soft)] + free_all(gradients)
        yield [("e",)]
