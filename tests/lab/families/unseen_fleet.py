# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of a company with vehicles, robots and their customers: servers, films, scenes, advice. Nothing is tuned
on these."""
import collections
import functools
import itertools

from families.unseen_clinic import at_least, come_and_go, room_of, take, train, trained_model
from program import UNSEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_fleet")


@add(weight=2)
def requests_of_any_length(rng, capacity, _growth):
    """A server with one tensor for the keys and values of each layer of each request, copied into a longer one now and
    then. It lets in as many as a bound in bytes allows; the prompt of a new one passes through all at once."""
    names, room = Names(), room_of(capacity)
    weights = sizes_of_model(rng, int(room * rng.uniform(0.05, 0.12)), (8, 12, 16))
    layers, bound, prefill = rng.randrange(6, 15), room * rng.uniform(0.45, 0.5), room * rng.uniform(0.28, 0.34)
    usual, piece = room * rng.uniform(0.008, 0.025), rng.uniform(0.15, 0.5)
    requests = []                                # [tensors, bytes now, bytes at its end]
    yield load(names, weights)[1]
    while True:
        operations = []
        while True:
            prompt = min(room * 0.06, usual * rng.lognormvariate(-0.5, 0.8))
            answer = min(room * 0.03, usual * rng.lognormvariate(-0.5, 0.8))
            if sum(each[2] for each in requests) + prompt + answer > bound:
                break
            operations += come_and_go(names, (prefill * max(0.1, min(1, prompt / usual / 1.5)),))
            mine, more = take(names, [prompt / layers] * layers)
            operations += more
            requests.append([mine, prompt, prompt + answer])
        for each in rng.sample(requests, min(len(requests), 4)):
            if each[1] >= each[2]:
                operations += free_all(each[0])
                requests.remove(each)
                continue
            each[1] = min(each[2], each[1] + usual * piece)
            for i, old in enumerate(each[0]):
                each[0][i] = names()
                operations += [("a", each[0][i], at_least(each[1] / layers)), ("f", old)]
        yield operations


@add()
def adapters_by_number(rng, capacity, _growth):
    """As many customers' adapters stay on the GPU as a number says; what they weigh is not looked at, and some customers
    have adapters of a rank far above the others'."""
    names, room = Names(), room_of(capacity)
    base = sizes_of_model(rng, int(room * rng.uniform(0.25, 0.45)), (12, 16, 24))
    most, layers = rng.randrange(6, 20), rng.choice((8, 12, 16))
    of_rank = room * rng.uniform(0.35, 0.9) / most / 256
    ranks = [rng.choice((8, 16, 16, 32, 32, 64, 128, 256)) for _ in range(most * rng.randrange(2, 6))]
    work = room * rng.uniform(0.12, 0.26)
    here = {}                                    # in the order of their use
    yield load(names, base)[1]
    while True:
        operations, wanted = [], int(len(ranks) * rng.random() ** 1.6)
        if wanted in here:
            here[wanted] = here.pop(wanted)
        else:
            if len(here) == most:
                operations += free_all(here.pop(next(iter(here))))
            here[wanted], more = take(names, [of_rank * ranks[wanted] / layers / 2] * (layers * 2))
            operations += more
        part = rng.uniform(0.5, 1)
        yield operations + come_and_go(names, [work * part * each for each in (0.2, 0.6, 0.2)])


@add(intent="leak", weight=2)
def drafts_left_behind(rng, capacity, growth):
    """Speculative decoding: a small network drafts, a large one checks. A sequence that ends by itself is taken out of
    both caches; one that is cut off at its greatest length is only taken out of the large one's."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.2, 0.4)), (16, 24)))[1]
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.04)), (4, 6)))[1]
    together, cut_off = rng.randrange(4, 24), rng.uniform(0.05, 0.5)
    checked = room * rng.uniform(0.1, 0.22) / together
    drafted = checked * rng.uniform(0.03, 0.25)
    layers, lives, logits = rng.choice((4, 6, 8)), rng.uniform(5, 30), room * rng.uniform(0.005, 0.04)
    sequences = []
    while True:
        operations = []
        while len(sequences) < together:
            length = rng.uniform(0.3, 1.4)
            large, more = take(names, [checked * length / layers] * layers)
            operations += more
            small, more = take(names, [drafted * length / 2] * 2)
            operations += more
            sequences.append((large, small))
        operations += come_and_go(names, (logits * 0.2, logits))
        still = []
        for large, small in sequences:
            ends, long = rng.random() < 1 / lives, rng.random() < cut_off
            if ends:
                operations += free_all(large) + ([] if long and growth else free_all(small))
            else:
                still.append((large, small))
        sequences = still
        yield operations


@add()
def beams_reordered(rng, capacity, _growth):
    """Translation of manuals by beam search: after every piece of the text the cache of all beams is put in order anew,
    layer by layer. Batches are packed by the number of texts, not by their length."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.05, 0.2)), (8, 12)))[1]
    layers, usual, spread = rng.choice((4, 6, 8)), room * rng.uniform(0.03, 0.1), rng.uniform(0.5, 0.9)
    logits = rng.uniform(0.05, 0.3)
    while True:
        text = usual * rng.lognormvariate(0, spread) * rng.choice((1, 1, 1, 2, 4))
        pieces = rng.randrange(4, 16)
        cache, operations = take(names, [text / layers] * layers)
        yield operations
        for number in range(1, pieces + 1):
            operations = come_and_go(names, (text * logits, text * logits))
            for i in range(layers):
                joined, sorted_ = names(), names()
                size = at_least(text * (1 + number / pieces) / layers)
                operations += [("a", joined, size), ("f", cache[i]), ("a", sorted_, size), ("f", joined)]
                cache[i] = sorted_
            yield operations
        yield free_all(cache)


@add(intent="design", weight=2)
def rows_cached(rng, capacity, growth):
    """Advice for customers: the rows of a huge table that are used come to the GPU, page by page, up to a bound; then one
    page goes for each that comes. The longer it runs, the fewer of the rows are new."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.08)), (4, 6)))[1]
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((3, 4, 6)))
    pages = rng.randrange(150, 3000)
    bound, page = int(pages * rng.uniform(0.4, 0.95)), room * rng.uniform(0.7, 1.5) / pages
    touched = rng.randrange(3, 3 + pages // 15)
    here, known = [], 0
    while True:
        operations = []
        for _ in range(touched):
            new, goes = rng.random() > known / pages, rng.random()
            if not new:
                continue
            if known < bound:
                known += 1
            elif here:
                gone = int(goes * len(here))
                operations.append(("f", here[gone]))
                here[gone] = here[-1]
                here.pop()
            if growth:
                here.append(names())
                operations.append(("a", here[-1], at_least(page)))
        scale = rng.uniform(0.8, 1)
        more, kept = forward(names, layers, (), scale)
        yield operations + more + backward(names, kept)[0]


@add(intent="demand", weight=2)
def episodes_get_longer(rng, capacity, growth):
    """Robots learn to walk: the last episodes lie on the GPU, a fixed number of them. Who falls less often walks longer."""
    names, room = Names(), room_of(capacity)
    policy = sizes_of_model(rng, int(room * rng.uniform(0.005, 0.03)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.05, 0.25)), rng.choice((4, 6)))
    number = rng.randrange(15, 120)
    share, limit = room * rng.uniform(0.08, 0.3) / number, rng.uniform(1.5, 12)
    learns, robots, skill = rng.uniform(0.003, 0.04), rng.randrange(1, 6), 1.0
    ring = collections.deque()
    yield trained_model(names, policy)
    while True:
        operations = []
        for _ in range(robots):
            size = share * skill * rng.lognormvariate(-0.1, 0.45)
            mine, more = take(names, (size * 0.8, size * 0.15, size * 0.05))
            operations += more
            ring.append(mine)
            if len(ring) > number:
                operations += free_all(ring.popleft())
        yield operations + train(names, layers, policy, rng.uniform(0.95, 1))
        skill = min(limit, skill * (1 + learns)) if growth else skill


@add()
def crowded_crossings(rng, capacity, _growth):
    """What will cars and people do next? Everybody looks at everybody else and at all lanes, and everybody is padded to
    the fullest scene of the batch. Most scenes are empty roads."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.005, 0.04)), (4, 6))
    batch, layers = rng.choice((4, 8, 16, 32)), rng.randrange(3, 7)
    spread, usual = rng.uniform(0.25, 0.5), room * rng.uniform(0.06, 0.2) / layers
    lanes = rng.uniform(0.5, 2)
    yield trained_model(names, network)
    while True:
        agents = max(rng.lognormvariate(0, spread) for _ in range(batch)) / 2
        kept, operations = [], []
        for _ in range(layers):
            mine, more = take(names, [usual * each for each in (agents * agents * 0.4, agents * lanes * 0.3, agents * 0.2)])
            kept.append(mine)
            operations += more + come_and_go(names, (usual * agents * agents * 0.4,))
        more, gradients = backward(names, kept, network)
        yield operations + more + free_all(gradients)


@add(weight=2)
def sweeps_in_a_window(rng, capacity, _growth):
    """A vehicle's laser: the last sweeps stay, with the features of their voxels; town has more points than country. A
    dense map of the surroundings is made of them, as far as the speed demands."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (6, 8)))[1]
    window = rng.randrange(6, 24)
    most, dense = room * rng.uniform(0.5, 0.57) / window, room * rng.uniform(0.3, 0.37)
    wanders, town = rng.uniform(0.05, 0.3), 0.5
    sweeps = collections.deque()
    while True:
        town = min(1, max(0.2, town + rng.uniform(-wanders, wanders)))
        size = most * town * rng.uniform(0.7, 1)
        points, operations = take(names, (size * 0.2, size * 0.1))
        voxels, more = take(names, (size * 0.6, size * 0.25, size * 0.15))
        operations += more + free_all(points)
        sweeps.append(voxels)
        if len(sweeps) > window:
            operations += free_all(sweeps.popleft())
        far = rng.uniform(0.4, 1)
        yield operations + come_and_go(names, (dense * far,)) + come_and_go(
            names, [dense * far * part for part in (0.4, 0.2, 0.1)])


@add()
def experts_without_a_limit(rng, capacity, _growth):
    """A mixture of experts that drops no token: each expert gets what the router sends it, in some versions padded to the
    busiest one. The load wanders."""
    names, room = Names(), room_of(capacity)
    weights = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.08)), (6, 8))
    layers, experts, padded = rng.randrange(4, 9), rng.choice((4, 8, 16)), rng.random() < 0.5
    usual = room * rng.uniform(0.5, 0.72) / layers
    wanders, uneven = rng.uniform(0.02, 0.1), rng.uniform(0.2, 0.5)
    if padded:
        usual /= 1.8
    yield trained_model(names, weights)
    while True:
        uneven = min(1.2, max(0.1, uneven + rng.uniform(-wanders, wanders)))
        kept, operations = [], []
        for _ in range(layers):
            loads = [rng.lognormvariate(0, uneven) for _ in range(experts)]
            total = sum(loads)
            if padded:
                loads = [max(loads)] * experts
            mine, more = take(names, [usual * 0.2] + [usual * 0.8 * each / total for each in loads])
            operations += more + come_and_go(names, (usual * 0.2,))
            kept.append(mine)
        more, gradients = backward(names, kept, weights)
        yield operations + more + free_all(gradients)


@add(weight=2)
def stages_without_a_flush(rng, capacity, _growth):
    """One stage of a pipeline that never runs empty: the activations of the microbatches on their way wait here, each of
    the length of its texts. Every few of them the gradients are averaged as one flat tensor."""
    names, room = Names(), room_of(capacity)
    weights = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.06)), (4, 6))
    depth, layers = rng.randrange(3, 9), rng.choice((3, 4, 6))
    shape = activations_of(rng, int(room * rng.uniform(0.55, 0.68) / depth), layers)
    flat, every, shortest = room * rng.uniform(0.26, 0.34), rng.randrange(2, 9), rng.uniform(0.15, 0.7)
    on_their_way = collections.deque()
    yield load(names, weights)[1]
    for number in itertools.count(1):
        operations, kept = forward(names, shape, [shape[0][0] // 4], rng.uniform(shortest, 1))
        on_their_way.append(kept)
        if len(on_their_way) == depth:
            more, gradients = backward(names, on_their_way.popleft(), weights)
            operations += more + free_all(gradients)
        averaged = come_and_go(names, (flat * rng.uniform(0.9, 1),))
        yield operations + (averaged if number % every == 0 else [])


@add()
def checkpoints_compared(rng, capacity, _growth):
    """Checkpoints of a run are read onto the GPU, copied into the network, and asked the same questions. The best one so
    far stays beside it."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.14, 0.31)), (12, 16, 24))
    questions, longest = rng.randrange(4, 20), room * rng.uniform(0.03, 0.3)
    best, again = [], rng.uniform(0.15, 0.5)
    yield load(names, network)[1]
    while True:
        read, operations = take(names, network)
        yield operations
        better = not best or rng.random() < again
        for i in range(questions):
            if i == questions // 2 and not better:
                yield free_all(read)                       # given up half way
                read = []
            length = rng.uniform(0.2, 1) ** 2
            yield come_and_go(names, [longest * length * part for part in (0.1, 0.3, 0.5, 0.1)])
        if better:
            yield free_all(best)
            best = read


@add(intent="leak")
def vehicles_never_expire(rng, capacity, growth):
    """Each vehicle that reports has its state on the GPU, under the number of its modem. Modems get new numbers now and
    then; the state under the old one is not taken out."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.1)), (6, 8, 12)))[1]
    fleet, state = rng.randrange(40, 400), room * rng.uniform(0.08, 0.3)
    each = at_least(state / fleet)
    changes, work = rng.uniform(0.004, 0.03), room * rng.uniform(0.03, 0.2)
    vehicles, operations = take(names, [each] * fleet)
    yield operations
    while True:
        report, part = [], rng.uniform(0.6, 1)
        for i in range(fleet):
            if rng.random() < changes:
                new = names()
                report += ([] if growth else [("f", vehicles[i])]) + [("a", new, each)]
                vehicles[i] = new
        # some of the states are computed anew, and the old ones go
        for i in rng.sample(range(fleet), fleet // 10):
            new = names()
            report += [("a", new, each), ("f", vehicles[i])]
            vehicles[i] = new
        yield report + come_and_go(names, [work * part * each_ for each_ in (0.5, 0.3, 0.2)])


@add(intent="leak")
def hooks_registered_again(rng, capacity, growth):
    """Before each evaluation a hook is registered that notes what a layer puts out, and none is taken away: after the tenth
    evaluation ten hooks hold ten copies, which are new ones after every step."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.1, 0.35)), rng.choice((6, 8)))
    noted, epoch = room * 10 ** rng.uniform(-2.2, -1.3), rng.randrange(3, 20)
    hooks = [None]
    yield trained_model(names, network)
    for number in itertools.count(1):
        scale = rng.uniform(0.8, 1)
        operations = []
        for i, before in enumerate(hooks):
            hooks[i] = names()
            operations += [("a", hooks[i], at_least(noted * scale))] + ([("f", before)] if before else [])
        yield operations + train(names, layers, network, scale)
        if number % epoch == 0:
            yield come_and_go(names, [layers[0][0], layers[0][0], layers[0][0] // 2])
            if growth:
                hooks.append(None)


@add(weight=2)
def night_job_beside(rng, capacity, _growth):
    """A server answers all day. At night somebody else's training starts on the same GPU, with more and more work, until
    the morning."""
    names, room = Names(), room_of(capacity)
    weights = sizes_of_model(rng, int(room * rng.uniform(0.08, 0.25)), (12, 16, 24))
    work, spread = room * rng.uniform(0.08, 0.25), rng.uniform(0.2, 0.5)
    day, night, theirs = rng.randrange(10, 120), rng.randrange(10, 60), rng.uniform(0.35, 0.8)
    gives_back = rng.random() < 0.6
    yield load(names, weights)[1]
    for number in itertools.count():
        hour = number % (day + night) - day
        others = [("o", int(capacity * theirs * min(1, 0.2 + 1.2 * hour / night)))] if hour >= 0 else [("o", 0)]
        part = min(2.2, rng.lognormvariate(0, spread))
        answer = come_and_go(names, [work * part * each for each in (0.1, 0.5, 0.3, 0.1)])
        yield others + answer + ([("e",)] if gives_back else [])


@add(weight=2)
def films_of_all_sizes(rng, capacity, _growth):
    """Films of dashboard cameras are made sharper: a few frames to both sides stay, the sharp ones wait for the encoder.
    The next film has other pictures, and starts before the last one is written."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.04)), (8, 12)))[1]
    around, waits, larger = rng.randrange(3, 8), rng.randrange(3, 12), rng.choice((4, 9, 16))
    # what the largest film needs: the frames around, those that wait, and the network's work, in one piece
    work = around + waits * larger * rng.uniform(0.6, 1)
    frame = room * rng.uniform(0.78, 0.96) / (around + waits * larger + work)
    frames, waiting = collections.deque(), collections.deque()
    while True:
        size = frame * rng.choice((0.11, 0.25, 0.44, 0.56, 0.75, 1)) * rng.uniform(0.9, 1)
        frames_before, frames = frames, collections.deque()
        for _ in range(rng.randrange(10, 40)):
            operations = [("f", frames_before.popleft())] if frames_before else []
            frames.append(names())
            operations.append(("a", frames[-1], at_least(size)))
            if len(frames) > around:
                operations.append(("f", frames.popleft()))
            if len(waiting) == waits:
                operations.append(("f", waiting.popleft()))
            operations += come_and_go(names, (size * work,))
            waiting.append(names())
            yield operations + [("a", waiting[-1], at_least(size * larger))]


@add(intent="demand")
def splats_densified(rng, capacity, growth):
    """A street is rebuilt from photographs with many small clouds of colour: where the picture is still wrong, clouds are
    split, and faint ones are thrown out. After some time their number stays as it is."""
    names, room = Names(), room_of(capacity)
    parts = (3, 3, 4, 1, 3, 45)                  # place, size, turn, density, colour, colour by direction
    share = room * rng.uniform(0.05, 0.2) / sum(parts) / 3
    every, splits, thrown = rng.randrange(3, 20), rng.uniform(1.06, 1.4), rng.uniform(0.95, 1)
    ends, view = rng.randrange(5, 30), room * rng.uniform(0.03, 0.12)
    clouds = 1.0
    arrays, operations = take(names, [share * part for part in parts for _ in range(3)])
    yield operations
    for number in itertools.count(1):
        seen = rng.uniform(0.3, 1)
        # the picture, the clouds of each tile sorted by depth, and the gradients
        operations = come_and_go(names, [view, share * clouds * seen * 8, share * clouds * seen * 8])
        operations += come_and_go(names, [share * clouds * part for part in parts])
        if growth and number % every == 0 and number // every <= ends:
            for factor in (splits, thrown):
                clouds *= factor
                for i, part in enumerate(part for part in parts for _ in range(3)):
                    new = names()
                    operations += [("a", new, at_least(share * clouds * part)), ("f", arrays[i])]
                    arrays[i] = new
        yield operations
