# SPDX-License-Identifier: Apache-2.0
"""Unseen: what the programs of tests/long/truth do, as the allocator sees it. Nothing is tuned on these."""
import functools

from program import MIB, UNSEEN, Names, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_programs")


def model(rng, capacity, low, high):
    names = Names()
    return names, load(names, sizes_of_model(rng, int(capacity * rng.uniform(low, high)), (4, 8, 12)))[1]


def work(rng, names, total, pieces):
    """Buffers that are all there at once, and all go."""
    parts = [rng.uniform(0.2, 1.0) for _ in range(pieces)]
    made = [(names(), max(512, int(total * part / sum(parts)))) for part in parts]
    return [("a", name, size) for name, size in made], free_all(name for name, _ in made)


def steps_to_fill(rng):
    return int(10 ** rng.uniform(1.2, 2.3))


@add(intent="leak")
def late_start(rng, capacity, growth):
    """Nothing is kept until an option takes effect; from then on one tensor for each step."""
    names, loading = model(rng, capacity, 0.05, 0.3)
    yield loading
    steps = steps_to_fill(rng)
    start, size = rng.randrange(5, 5 + steps // 2), int(capacity * 0.6) // steps
    total = capacity * rng.uniform(0.05, 0.2)
    step = 0
    while True:
        take, give = work(rng, names, total, 6)
        yield take + ([("a", names(), size)] if growth and step >= start else []) + give
        step += 1


@add(intent="leak")
def dead_consumer(rng, capacity, growth):
    """Batches go into a queue that nobody empties."""
    names, loading = model(rng, capacity, 0.1, 0.4)
    yield loading
    batch = int(capacity * 0.5) // steps_to_fill(rng)
    queue, dies = [], rng.randrange(0, 20)
    step = 0
    while True:
        made = [names() for _ in range(3)]
        operations = [("a", name, max(512, batch // 3)) for name in made]
        queue.append(made)
        if len(queue) > 4 and (step < dies or not growth):
            operations += free_all(queue.pop(0))
        take, give = work(rng, names, capacity * 0.08, 4)
        yield operations + take + give
        step += 1


@add(intent="leak")
def mask_cache(rng, capacity, growth):
    """A cache by length keeps each new length once; most steps bring a new one."""
    names, loading = model(rng, capacity, 0.05, 0.25)
    yield loading
    lengths, known = rng.randrange(400, 3000), set()
    total = capacity * rng.uniform(0.1, 0.25)
    mean = capacity * 0.6 / steps_to_fill(rng)
    while True:
        length = rng.randrange(1, lengths)
        take, give = work(rng, names, total * (0.5 + length / lengths / 2), 5)
        if growth and length not in known:
            known.add(length)
            take.append(("a", names(), max(512, int(2 * mean * length / lengths))))
        yield take + give


@add(intent="leak")
def below_a_sawtooth(rng, capacity, growth):
    """An epoch gathers its outputs and drops them; one of them stays."""
    names, loading = model(rng, capacity, 0.03, 0.15)
    yield loading
    epoch = rng.randrange(6, 25)
    size = int(capacity * rng.uniform(0.15, 0.4)) // epoch
    gathered = []
    while True:
        take, give = work(rng, names, capacity * 0.05, 4)
        gathered.append(names())
        operations = take + [("a", gathered[-1], size)] + give
        if len(gathered) == epoch:
            operations += free_all(gathered[1:] if growth else gathered)
            gathered = []
        yield operations


@add(weight=2)
def expert_swap(rng, capacity, _growth):
    """Experts of different size are loaded in turn, each in place of another; a small state of each stays for a while."""
    names, loading = model(rng, capacity, 0.02, 0.08)
    yield loading
    bound, mean = capacity * rng.uniform(0.5, 0.62), capacity * rng.uniform(0.015, 0.05)
    experts, states, held = [], [], 0
    while True:
        size = int(mean * rng.uniform(0.3, 1.8))
        operations = []
        while held + size > bound:
            gone, freed = experts.pop(rng.randrange(len(experts)))
            operations.append(("f", gone))
            held -= freed
            states.append(names())
            operations.append(("a", states[-1], int(size * rng.uniform(0.02, 0.1))))
        while len(states) > 40:
            operations.append(("f", states.pop(rng.randrange(len(states)))))
        name = names()
        experts.append((name, size))
        held += size
        take, give = work(rng, names, capacity * 0.05, 3)
        yield operations + [("a", name, size)] + take + give


@add()
def half_evicted(rng, capacity, _growth):
    """A cache of small pages is filled, then every second or third page goes and larger buffers are wanted."""
    names, loading = model(rng, capacity, 0.02, 0.1)
    yield loading
    page = rng.randrange(3 * MIB // 2, 9 * MIB)
    count = min(6000, int(capacity * rng.uniform(0.6, 0.75)) // page)
    pages, at = [names() for _ in range(count)], 0
    while at < count:
        take, give = work(rng, names, capacity * 0.01, 3)
        yield [("a", name, page) for name in pages[at:at + count // 15 + 1]] + take + give
        at += count // 15 + 1
    gone = pages[::rng.randrange(2, 4)]
    yield free_all(gone)
    large = int(capacity * rng.uniform(0.015, 0.05))
    for _ in range(max(1, int(len(gone) * page * 0.8) // large)):
        yield [("a", names(), large)]
    while True:
        take, give = work(rng, names, large, 2)
        yield take + give


@add()
def warm_up_then_shards(rng, capacity, _growth):
    """A warm-up fills the cache with large buffers; shards of the real data are cut from them and pin them."""
    names, loading = model(rng, capacity, 0.02, 0.1)
    yield loading
    size = int(capacity * rng.uniform(0.05, 0.12))
    large = [names() for _ in range(int(capacity * 0.8) // size)]
    yield [("a", name, size) for name in large]
    yield free_all(large)
    shard = int(size * rng.uniform(0.51, 0.7))
    kept = []
    while len(kept) * shard < capacity * rng.uniform(0.38, 0.45):
        kept.append(names())
        take, give = work(rng, names, shard * 0.2, 3)
        yield [("a", kept[-1], shard)] + take + give
    while True:
        take, give = work(rng, names, size * 3.1, 3)
        yield take + give


@add(intent="design")
def beam_states(rng, capacity, growth):
    """The states of all beams are copied into larger ones, in another order, at each token."""
    names, loading = model(rng, capacity, 0.1, 0.4)
    yield loading
    beams, token = rng.randrange(4, 16), capacity * rng.uniform(0.3, 0.5) / steps_to_fill(rng)
    held, length = [], 8
    while True:
        length += 1 if growth else 0
        fresh = [names() for _ in range(beams)]
        operations = [("a", name, max(512, int(token * length / beams))) for name in fresh] + free_all(held)
        rng.shuffle(fresh)
        held = fresh
        take, give = work(rng, names, capacity * 0.02, 3)
        yield operations + take + give


@add(intent="design")
def memory_bank(rng, capacity, growth):
    """Embeddings of each step go into a bank that was given more room than there is."""
    names, loading = model(rng, capacity, 0.05, 0.2)
    yield loading
    size = int(capacity * 0.6) // steps_to_fill(rng)
    total = capacity * rng.uniform(0.05, 0.2)
    while True:
        take, give = work(rng, names, total, 6)
        yield take + ([("a", names(), size), ("a", names(), size // 8)] if growth else []) + give


@add(intent="demand", weight=2)
def length_curriculum(rng, capacity, growth):
    """Sequences become longer, and attention takes the square of their length."""
    names, loading = model(rng, capacity, 0.05, 0.3)
    yield loading
    rate = 1 / steps_to_fill(rng)
    layers, share = rng.randrange(4, 12), capacity * rng.uniform(0.05, 0.15)
    step = 0
    while True:
        length = 1 + (rate * step if growth else 0)
        operations, kept = [], []
        for _ in range(layers):
            passing = names()
            kept.append(names())
            operations += [("a", kept[-1], int(share * length / layers)), ("a", passing, int(share * length ** 2 / 4)),
                           ("f", passing)]
        yield operations + free_all(reversed(kept))
        step += 1


@add(intent="demand", weight=2)
def pages_for_more_users(rng, capacity, growth):
    """A pool of equal pages, taken and given back by conversations; more of them are open at a time."""
    names, loading = model(rng, capacity, 0.2, 0.5)
    yield loading
    page = int(capacity * rng.uniform(0.0005, 0.002))
    rate, open_ones = rng.uniform(0.02, 0.3), []
    step = 0
    while True:
        operations = []
        while len(open_ones) < 6 + (int(step * rate) if growth else 0):
            open_ones.append([[], rng.randrange(10, 60)])
        for conversation in open_ones:
            conversation[0].append(names())
            operations.append(("a", conversation[0][-1], page))
        for conversation in [c for c in open_ones if len(c[0]) >= c[1]]:
            open_ones.remove(conversation)
            operations += free_all(conversation[0])
        yield operations
        step += 1


@add()
def outlier_document(rng, capacity, _growth):
    """Documents of usual length, then one that is far longer."""
    names, loading = model(rng, capacity, 0.1, 0.4)
    yield loading
    at, usual = rng.randrange(15, 150), capacity * rng.uniform(0.02, 0.1)
    step = 0
    while True:
        take, give = work(rng, names, usual * rng.uniform(0.6, 1.4) if step < at else capacity * rng.uniform(0.7, 2), 8)
        yield take + give
        step += 1


@add()
def copy_of_the_best(rng, capacity, _growth):
    """At the first improvement a copy of weights and optimizer states is made, and replaced at later ones."""
    names = Names()
    sizes = sizes_of_model(rng, int(capacity * rng.uniform(0.3, 0.4)), (8, 12))
    yield load(names, sizes)[1]
    at, usual = rng.randrange(10, 60), capacity * rng.uniform(0.1, 0.25)
    step, best = 0, []
    while True:
        take, give = work(rng, names, usual, 8)
        operations = take + give
        if step >= at:
            fresh, copying = load(names, [int(size * 1.9) for size in sizes])
            operations += copying + free_all(name for name, _ in best)
            best = fresh
        yield operations
        step += 1


@add(weight=2)
def second_training(rng, capacity, _growth):
    """Somebody starts another training on the same GPU; the batches of this one are of many lengths."""
    names, loading = model(rng, capacity, 0.05, 0.25)
    yield loading
    start, held = rng.randrange(10, 80), capacity * rng.uniform(0.45, 0.8)
    usual = capacity * rng.uniform(0.2, 0.35)
    step = 0
    while True:
        other = int(held * min(1.0, max(0, step - start + 1) / 3)) if step >= start else 0
        take, give = work(rng, names, usual * rng.uniform(0.4, 1.0), 7)
        yield [("o", other)] + take + give
        step += 1


@add()
def stale_worker(rng, capacity, _growth):
    """A worker of an earlier run was left behind; without it the batches would fit."""
    names, loading = model(rng, capacity, 0.05, 0.15)
    held = int(capacity * rng.uniform(0.4, 0.7))
    room = capacity - held
    yield [("o", held)] + loading
    at, step = rng.randrange(3, 40), 0
    while True:
        share = 0.5 if step < at else rng.uniform(0.9, 1.2)
        take, give = work(rng, names, room * share, 9)
        yield [("o", held)] + take + give
        step += 1
