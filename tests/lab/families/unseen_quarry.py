# SPDX-License-Identifier: Apache-2.0
"""Programs written without knowing any rule: speech, chat, annotation, games, recommenders, video, music, vision,
graphs, particles, notebooks, rendering and translation."""
import collections

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load,
                     room_of, sizes_of_model)


def pick(rng, count):
    """An index below `count`; always one draw, whatever the count is."""
    return min(count - 1, int(rng.random() * count))


def split(rng, total, count, spread=3.0):
    """`total` bytes in `count` pieces that differ up to `spread` times."""
    parts = [rng.uniform(1.0, spread) for _ in range(count)]
    return [at_least(total * part / sum(parts)) for part in parts]


def in_turn(names, sizes, scale=1.0):
    """Inference: each output lives until the next but one is made."""
    operations, before = [], []
    for size in sizes:
        name = names()
        operations.append(("a", name, at_least(size * scale)))
        before.append(name)
        if len(before) > 2:
            operations.append(("f", before.pop(0)))
    return operations + free_all(before)


def buckets_of(sizes, count):
    """Gradients as data-parallel training holds them: a few flat buckets."""
    return [at_least(sum(sizes) / count)] * count


def adam_states(names, sizes):
    return [("a", names(), size) for size in sizes for _ in range(2)]


# --- leaks ---

@generator(UNSEEN, "unseen_quarry", "leak")
def speech_loss_graph(rng, capacity, growth):
    """Fine-tuning wav2vec2 with CTC (fairseq): the codebook's diversity loss is only logged, and summed with its graph."""
    names = Names()
    room = room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.08)), (12, 24))
    layers = activations_of(rng, room * rng.uniform(0.12, 0.26), rng.choice((12, 16)))
    temporaries = [layers[0][0] // 3, layers[0][-1] // 2 + 512]
    log_every = rng.choice((1, 1, 2, 5))
    until = 10 ** rng.uniform(1.9, 3.2)
    codebook = split(rng, 0.5 * room * log_every / until, rng.randrange(4, 9), 12)
    buckets = buckets_of(sizes, rng.randrange(4, 12))
    yield load(names, sizes)[1]
    step = 0
    while True:
        seconds = min(1.3, max(0.3, rng.lognormvariate(-0.2, 0.35)))
        operations = [("a", names(), at_least(2.5 * MIB * seconds)) for _ in range(2)]  # wave, mask
        batch = [operation[1] for operation in operations]
        more, kept = forward(names, layers, temporaries, seconds)
        operations += more
        logged = []
        if step % log_every == 0:
            logged = [(names(), at_least(size * seconds)) for size in codebook]
            operations += [("a", name, size) for name, size in logged]
        more, gradients = backward(names, kept, buckets)
        operations += more
        if step == 0:
            operations += adam_states(names, sizes)
        if not growth:
            operations += free_all(name for name, _ in logged)
        elif logged:
            operations.append(("f", logged[0][0]))  # nothing in the graph needs the first
        yield operations + free_all(gradients) + free_all(batch)
        step += 1


@generator(UNSEEN, "unseen_quarry", "leak")
def chat_sessions_left_open(rng, capacity, growth):
    """A chat server with transformers' past_key_values per session: who loses the connection keeps the cache for ever."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.25, 0.45)), (24, 32)))[1]
    groups = rng.choice((6, 8, 12))
    turn = room * rng.uniform(0.0006, 0.002)
    leaves, outage = rng.uniform(0.01, 0.08), rng.uniform(0.005, 0.03)
    hidden = [room * rng.uniform(0.0005, 0.004) for _ in range(8)]
    slots = rng.randrange(12, 22)
    active, forgotten = [], []
    while True:
        arrivals = rng.randrange(5, 13) if rng.random() < 0.04 else rng.randrange(0, 3)
        for _ in range(arrivals):
            turns = 1 + int(rng.expovariate(1 / 4))
            if len(active) < slots:
                active.append({"left": turns, "bytes": 0.0, "kept": []})
        operations = []
        broken = rng.random() < outage
        staying = []
        for session in active:
            speaks, tokens, lost = rng.random() < 0.35, rng.lognormvariate(0, 0.6), rng.random()
            if speaks:
                operations += in_turn(names, hidden, min(3.0, tokens))
                session["bytes"] += turn * min(5.0, tokens)
                longer = []
                for _ in range(groups):
                    longer.append(names())
                    operations.append(("a", longer[-1], at_least(session["bytes"] / groups)))
                    if session["kept"]:
                        operations.append(("f", session["kept"].pop(0)))
                session["kept"] = longer
                session["left"] -= 1
            if lost < (0.6 if broken else leaves * 0.35):
                if growth:
                    forgotten.append(session["kept"])
                else:
                    operations += free_all(session["kept"])
            elif session["left"] <= 0:
                operations += free_all(session["kept"])
            else:
                staying.append(session)
        active = staying
        yield operations + in_turn(names, hidden[:4], 0.5)


@generator(UNSEEN, "unseen_quarry", "leak")
def annotator_hooks_pile_up(rng, capacity, growth):
    """A labelling tool with SAM: each time the user changes the head a forward hook is added, and old hooks go on storing."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.05, 0.2)), (24, 32)))[1]
    encoder = split(rng, room * rng.uniform(0.3, 0.7), rng.randrange(30, 70), 6)
    decoder = split(rng, room * rng.uniform(0.005, 0.02), 9, 4)
    embedding = room * rng.uniform(0.001, 0.006)
    first, fill, heads = int(10 ** rng.uniform(1.3, 2.8)), 10 ** rng.uniform(1.7, 2.9), rng.uniform(1, 6)
    stored = split(rng, room / (fill * heads), rng.randrange(2, 5), 8)
    gap = max(5, int(fill / heads))
    image, step, hooks, next_head = None, 0, 0, first
    while True:
        side = rng.choice((0.5625, 0.75, 1.0))
        late = rng.uniform(0.6, 1.4)
        if step >= next_head:
            hooks = min(14, hooks + 1)
            next_head = step + int(gap * late) + 1
        operations = in_turn(names, encoder, side)
        fresh = names()
        operations.append(("a", fresh, at_least(embedding * side)))
        if image is not None:
            operations.append(("f", image))
        image = fresh
        for _ in range(hooks):
            clones = [(names(), at_least(size * side)) for size in stored]
            operations += [("a", name, size) for name, size in clones]
            if not growth:
                operations += free_all(name for name, _ in clones)
        for _ in range(rng.randrange(1, 9)):
            operations += in_turn(names, decoder, rng.uniform(0.4, 1.0))
        yield operations
        step += 1


@generator(UNSEEN, "unseen_quarry", "leak")
def ppo_terminal_states(rng, capacity, growth):
    """Recurrent PPO on many environments: the last hidden state of each episode is put in a list of infos, on the GPU."""
    names = Names()
    room = room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.005, 0.02)), (12,))
    update = activations_of(rng, room * rng.uniform(0.25, 0.5), 8)
    horizon = rng.choice((8, 16, 32))
    record = split(rng, room * rng.uniform(0.05, 0.15) / horizon, 6, 20)
    policy = split(rng, room * rng.uniform(0.002, 0.01), 12, 5)
    until = 10 ** rng.uniform(2.2, 3.3)
    state = split(rng, 0.45 * room / until / 2, 3, 10)
    yield load(names, sizes)[1] + adam_states(names, sizes)
    rollout, step = [], 1
    while True:
        operations = in_turn(names, policy)
        mine = [names() for _ in record]
        operations += [("a", name, size) for name, size in zip(mine, record)]
        rollout += mine
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 7))):
            length = rng.uniform(0.3, 1.7)
            for size in state:
                name = names()
                operations.append(("a", name, at_least(size * length)))
                if not growth:
                    operations.append(("f", name))
        if step % horizon == 0:
            for _ in range(rng.randrange(2, 5)):
                more, kept = forward(names, update, [update[0][0] // 4], rng.uniform(0.9, 1.0))
                operations += more
                more, gradients = backward(names, kept, buckets_of(sizes, 4))
                operations += more + free_all(gradients)
            operations += free_all(rollout)
            rollout = []
        yield operations
        step += 1


# --- as designed ---

@generator(UNSEEN, "unseen_quarry", "design")
def embedding_rows_on_the_card(rng, capacity, growth):
    """DLRM with a cache of embedding pages on the card (HugeCTR, TorchRec's UVM caching): a bound, set for another card."""
    names = Names()
    room = room_of(capacity)
    tables = [rng.lognormvariate(0, 0.8) for _ in range(rng.randrange(8, 27))]
    count = rng.randrange(700, 2500)
    of_page = [tables[pick(rng, len(tables))] for _ in range(count)]
    unit = room * rng.uniform(0.9, 1.6) / sum(of_page)
    bound = int(room * rng.uniform(0.55, 1.15))
    skew = rng.uniform(1.3, 3.0)
    lookups = rng.randrange(6, 40)
    towers = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (12,))
    layers = activations_of(rng, room * rng.uniform(0.08, 0.25), 6)
    gathered = split(rng, room * rng.uniform(0.02, 0.06), len(tables), 5)
    yield load(names, towers)[1] + adam_states(names, towers)
    cached, held = collections.OrderedDict(), 0
    while True:
        operations, passing = [], []
        for _ in range(lookups):
            page = min(count - 1, int(count * rng.random() ** skew))
            if page in cached:
                cached.move_to_end(page)
                continue
            name, size = names(), at_least(of_page[page] * unit)
            while cached and held + size > bound:
                gone, gone_size = cached.popitem(last=False)[1]
                held -= gone_size
                if growth:
                    operations.append(("f", gone))
            cached[page] = name, size
            held += size
            operations.append(("a", name, size))
            if not growth:
                passing.append(name)
        scale = rng.uniform(0.85, 1.0)
        rows = [names() for _ in gathered]
        operations += [("a", name, at_least(size * scale)) for name, size in zip(rows, gathered)]
        more, kept = forward(names, layers, (), scale)
        operations += more
        more, gradients = backward(names, kept, buckets_of(towers, 3))
        yield operations + more + free_all(gradients) + free_all(rows) + free_all(passing)


@generator(UNSEEN, "unseen_quarry", "design")
def video_memory_bank(rng, capacity, growth):
    """Video object segmentation (XMem, SAM 2): keys and values of earlier frames stay, up to so many frames a video."""
    names = Names()
    room = room_of(capacity)
    streams = rng.randrange(1, 7)
    longest, every = rng.randrange(20, 160), rng.choice((1, 2, 3, 5))
    full = room * rng.uniform(0.75, 1.7)
    piece = full / (streams * longest * 4.0)
    ends = 1 / (longest * every * rng.uniform(1.5, 6))
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.03, 0.12)), (12, 24)))[1]
    backbone = split(rng, room * rng.uniform(0.06, 0.2), rng.randrange(18, 40), 8)
    affinity = room * rng.uniform(0.0002, 0.001)
    banks = [collections.deque() for _ in range(streams)]
    objects = [rng.randrange(1, 6) for _ in range(streams)]
    frame = 0
    while True:
        operations = []
        for stream, bank in enumerate(banks):
            over, others, crop = rng.random() < ends, rng.randrange(1, 6), rng.uniform(0.8, 1.0)
            if over:
                operations += [("f", name) for entry in bank for name in entry]
                bank.clear()
                objects[stream] = others
            operations += in_turn(names, backbone[:18], crop / streams + 0.1)
            operations += in_turn(names, [affinity * (1 + len(bank) / 8)] * (1 + objects[stream]))
            if frame % every == 0:
                entry = [names() for _ in range(1 + objects[stream])]
                operations += [("a", name, at_least(piece * (0.5 if i == 0 else 1.1) * crop)) for i, name in enumerate(entry)]
                bank.append(entry)
                while len(bank) > (longest if growth else 1):
                    operations += free_all(bank.popleft())
        yield operations + in_turn(names, backbone)
        frame += 1


# --- demand ---

@generator(UNSEEN, "unseen_quarry", "demand")
def music_of_more_seconds(rng, capacity, growth):
    """A MusicGen service: users ask for longer songs from day to day; all memory of a request goes when it is answered."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.15, 0.35)), (24, 40)))[1]
    layers = rng.choice((12, 16, 24))
    cache = room * rng.uniform(0.05, 0.12)
    codec = split(rng, room * rng.uniform(0.08, 0.22), rng.randrange(14, 30), 10)
    rate = 10 ** rng.uniform(-2.7, -1.3)
    step = 0
    while True:
        wanted = rng.uniform(0.75, 1.1) * (1 + (rate * step if growth else 0))
        prompt = [names() for _ in range(5)]
        operations = [("a", name, at_least(rng.uniform(0.2, 6) * MIB)) for name in prompt]
        kept = []
        for share in (0.25, 0.6, 1.0):  # the cache is concatenated as the song goes on
            longer = []
            for _ in range(layers):
                longer.append(names())
                operations.append(("a", longer[-1], at_least(cache / layers * share * wanted)))
                if kept:
                    operations.append(("f", kept.pop(0)))
            kept = longer
            operations += in_turn(names, [4 * MIB, 4 * MIB, 17 * MIB, 4 * MIB, 1 * MIB])
        operations += free_all(kept)
        operations += in_turn(names, codec, wanted)
        yield operations + free_all(prompt)
        step += 1


@generator(UNSEEN, "unseen_quarry", "demand")
def progressive_resizing(rng, capacity, growth):
    """Image classification with progressive resizing (fastai, FFCV): each phase of epochs has larger images."""
    names = Names()
    room = room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (12, 16))
    layers = activations_of(rng, room * rng.uniform(0.1, 0.3), rng.choice((16, 24)))
    layers = [[at_least(size * 1.9 * 0.93 ** i) for size in layer] for i, layer in enumerate(layers)]  # early layers are large
    batches = rng.randrange(15, 250)
    larger = rng.uniform(1.1, 1.6)
    evaluation = split(rng, sum(map(sum, layers)) * rng.uniform(0.2, 0.6), 20, 6)
    averaged = rng.random() < 0.5
    yield load(names, sizes)[1] + (load(names, sizes)[1] if averaged else [])
    yield adam_states(names, sizes)
    step, ahead = 0, []
    while True:
        scale = larger ** (step // batches if growth else 0)
        last = rng.uniform(0.2, 0.95)
        part = last if step % batches == batches - 1 else 1.0  # the last batch of an epoch is not full
        fresh = [names() for _ in range(2)]
        operations = [("a", name, at_least(layers[0][0] * 0.2 * scale), 1) for name in fresh]  # the loader's stream
        more, kept = forward(names, layers, [layers[0][0] // 5], scale * part)
        operations += more
        more, gradients = backward(names, kept, buckets_of(sizes, 5))
        operations += more + free_all(gradients) + free_all(ahead)
        ahead = fresh
        if step % batches == batches - 1:
            for _ in range(3):
                operations += in_turn(names, evaluation, scale)
        yield operations
        step += 1


@generator(UNSEEN, "unseen_quarry", "demand")
def assistants_morning(rng, capacity, growth):
    """A coding assistant's server in the morning: more and more users at once, each with blocks of a key-value cache."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.2, 0.45)), (24, 32, 40)))[1]
    chance = rng.uniform(0.03, 0.08)
    rate = 10 ** rng.uniform(-2.7, -1.2)
    every = rng.randrange(3, 9)
    block = room * rng.uniform(0.1, 0.18) / (24 * chance * 30 * 6)
    prefill = [room * rng.uniform(0.0005, 0.005) for _ in range(6)]
    decode = split(rng, room * rng.uniform(0.002, 0.02), 15, 10)
    users, step = [], 0
    while True:
        now = chance * (1 + (rate * step if growth else 0))
        operations = []
        for _ in range(24):
            comes, prompt, answer = rng.random(), min(4.0, rng.lognormvariate(0, 0.5)), rng.randrange(8, 60)
            if comes < now:
                operations += in_turn(names, prefill, prompt)
                kept = [names() for _ in range(4)]
                operations += [("a", name, at_least(block * prompt)) for name in kept]
                users.append([step, step + answer, kept])
        staying = []
        for user in users:
            began, until, kept = user
            if step >= until:
                operations += free_all(kept)
                continue
            if step > began and (step - began) % every == 0:
                kept.append(names())
                operations.append(("a", kept[-1], at_least(block * 0.8)))
            staying.append(user)
        users = staying
        yield operations + in_turn(names, decode, min(6.0, 0.5 + len(users) / 60))
        step += 1


# --- no growth of its own ---

@generator(UNSEEN, "unseen_quarry", "")
def sampled_neighbours(rng, capacity, _growth):
    """GraphSAGE on sampled neighbourhoods with historical embeddings (PyG's GNNAutoScale): no two batches are alike."""
    names = Names()
    room = room_of(capacity)
    yield [("a", names(), size) for size in split(rng, room * rng.uniform(0.1, 0.25), 12, 9)]
    parts = rng.randrange(60, 240)
    history_bytes = room * rng.uniform(0.14, 0.3) / parts
    peak = room * rng.uniform(0.3, 0.42)
    spread = rng.uniform(0.3, 0.8)
    pushes = rng.randrange(2, 8)
    history = {}
    while True:
        hops = [rng.lognormvariate(0, spread) * weight for weight in (0.15, 0.4, 1.0)]
        total = peak * min(1.0, max(0.2, rng.lognormvariate(-0.5, 0.4)))
        operations, batch = [], []
        for hop in hops:
            for share in (0.06, 0.03, 0.25, 0.36, 0.2, 0.1):  # edges, weights, gathered, messages, output, mask
                size = total * hop / sum(hops) * share
                name, ids = names(), names()
                operations += [("a", ids, at_least(size * 0.02)), ("a", name, at_least(size)), ("f", ids)]
                batch.append(name)
        rng.shuffle(batch)
        for i, name in enumerate(batch):
            operations.append(("f", name))
            if i < pushes:
                part, size = rng.randrange(parts), at_least(history_bytes * min(2.2, rng.lognormvariate(-0.1, 0.5)))
                pushed = names()
                operations.append(("a", pushed, size))
                if part in history:
                    operations.append(("f", history[part]))
                history[part] = pushed
        yield operations


@generator(UNSEEN, "unseen_quarry", "")
def particles_that_clump(rng, capacity, _growth):
    """A particle simulation (TorchMD, schnetpack): neighbour lists are rebuilt; now and then matter clumps and lists are long."""
    names = Names()
    room = room_of(capacity)
    yield [("a", names(), size) for size in split(rng, room * rng.uniform(0.08, 0.2), rng.randrange(14, 30), 6)]
    domains = rng.randrange(12, 40)
    usual = room * rng.uniform(0.12, 0.24) / domains
    work = split(rng, room * rng.uniform(0.03, 0.1), 16, 12)
    chance, tail, relaxes = 10 ** rng.uniform(-2.3, -1.4), rng.uniform(1.1, 2.2), rng.uniform(0.6, 0.93)
    rebuild = rng.randrange(1, 6)
    lists, density, step = [None] * domains, 1.0, 0
    while True:
        clumps, how = rng.random() < chance, rng.paretovariate(tail)
        density = max(1 + (density - 1) * relaxes, min(how, 20.0) if clumps else 1.0)
        operations = []
        for domain in range(domains):
            here, moved = rng.lognormvariate(0, 0.12), rng.random() < 0.6
            if lists[domain] is None or (moved and step % rebuild == 0) or clumps:
                size = usual * density * here
                cells, order, fresh = names(), names(), names()
                operations += [("a", cells, at_least(size * 0.3)), ("a", order, at_least(size * 0.5)),
                               ("a", fresh, at_least(size)), ("f", order), ("f", cells)]
                if lists[domain] is not None:
                    operations.append(("f", lists[domain]))
                lists[domain] = fresh
        operations += in_turn(names, work, 0.7 + 0.3 * min(3.0, density))
        yield operations
        step += 1


@generator(UNSEEN, "unseen_quarry", "")
def notebook_beside_a_colleague(rng, capacity, _growth):
    """A notebook on a shared card: a U-Net is trained cell by cell; while it rests, a colleague's job takes memory."""
    names = Names()
    room = room_of(capacity)
    sizes = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.04)), (12,))
    down = activations_of(rng, room * rng.uniform(0.3, 0.55), 10)
    plots = split(rng, room * rng.uniform(0.01, 0.06), 14, 10)
    aims = rng.uniform(0.25, 0.85) * room
    arrives = int(10 ** rng.uniform(1.4, 2.8))
    grows = rng.uniform(0.05, 0.5)
    yield load(names, sizes)[1] + adam_states(names, sizes) + [("o", 0)]
    step, training, left, other, outputs = 0, True, rng.randrange(8, 40), 0, []
    while True:
        operations = []
        if left == 0:
            training = not training
            left = rng.randrange(10, 80) if training else rng.randrange(5, 40)
            if not training:
                operations.append(("e",))
        left -= 1
        jump, leaves, again = rng.random(), rng.random(), rng.uniform(0.4, 1.1)
        if step >= arrives and not training:
            # the colleague's process: its context, then its weights, then what its allocator takes piece by piece
            if other == 0:
                other = 420 * MIB
            elif jump < grows:
                other = min(int(aims), other + int(aims * jump))
            elif leaves < 0.01:
                other, aims = 0, min(room * 0.85, aims * (0.7 + again / 2))
            operations.append(("o", other))
        if training:
            batch = [names() for _ in range(3)]
            operations += [("a", name, at_least(down[0][0] * 0.3)) for name in batch]
            more, kept = forward(names, down, [down[0][-1] // 2 + 512], rng.choice((1.0, 1.0, 1.0, 0.97)))
            operations += more
            more, gradients = backward(names, kept, buckets_of(sizes, 6))
            operations += more + free_all(gradients) + free_all(batch)
        else:
            operations += in_turn(names, plots, rng.uniform(0.3, 1.0))
            outputs.append(names())  # what Out[n] holds, of the last cells
            operations.append(("a", outputs[-1], at_least(rng.uniform(0.1, 8) * MIB)))
            if len(outputs) > 12:
                operations.append(("f", outputs.pop(0)))
        yield operations
        step += 1


@generator(UNSEEN, "unseen_quarry", "")
def renderer_beside_the_denoiser(rng, capacity, _growth):
    """A path tracer in one process with a denoiser in PyTorch: OptiX holds acceleration structures and textures by itself."""
    names = Names()
    room = room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.03)), (12,)))[1] + [("x", 200 * MIB)]
    frame = split(rng, room * rng.uniform(0.03, 0.1), 9, 4)  # colour, albedo, normals, motion, history
    tile = activations_of(rng, room * rng.uniform(0.12, 0.3), 9)
    scene_frames = rng.randrange(15, 120)
    base = room * rng.uniform(0.1, 0.3)
    texture = room * 10 ** rng.uniform(-3.3, -2.2)
    held, before, step = base, [], 0
    while True:
        if step % scene_frames == 0:
            held = base * rng.uniform(0.7, 1.3)
            base *= rng.uniform(0.95, 1.12)  # scenes of a film: the later, the richer
        for _ in range(rng.randrange(0, 6)):
            held += texture * rng.uniform(0.2, 1.8)
        held = min(held, room * 0.8)
        operations = [("e",)] if step % scene_frames == 0 and step else []
        operations.append(("x", 200 * MIB + int(held)))
        buffers = [names() for _ in frame]
        operations += [("a", name, size) for name, size in zip(buffers, frame)]
        for _ in range(rng.choice((1, 2, 2, 4))):
            more, kept = forward(names, tile, (), rng.uniform(0.7, 1.0))
            operations += more + [("f", name) for layer in kept for name in layer]
        yield operations + free_all(before)
        before = buffers
        step += 1


@generator(UNSEEN, "unseen_quarry", "")
def translator_that_loads_beside(rng, capacity, _growth):
    """A translation server that changes models without a pause: the new one is loaded before the old goes; one is huge."""
    names = Names()
    room = room_of(capacity)
    share = rng.uniform(0.05, 0.11)
    served = []
    operations = []
    for _ in range(rng.randrange(2, 5)):
        kept, more = load(names, sizes_of_model(rng, int(room * share * rng.uniform(0.6, 1.3)), (12, 16)))
        served.append([name for name, _ in kept])
        operations += more
    yield operations
    hidden = split(rng, room * rng.uniform(0.03, 0.1), 16, 8)
    beam = room * rng.uniform(0.002, 0.006)
    gap, huge_at = rng.randrange(15, 120), int(10 ** rng.uniform(1.5, 2.9))
    huge = rng.uniform(0.7, 1.25)
    step, until_change = 0, gap
    while True:
        operations = []
        if until_change == 0 or step == huge_at:
            until_change = gap
            total = huge if step == huge_at else share * rng.uniform(0.6, 1.4)
            sizes = sizes_of_model(rng, int(room * total), (12, 16, 24))
            staging = names()
            operations.append(("a", staging, min(256 * MIB, max(sizes)), 1))
            kept, more = load(names, sizes)
            operations += more + [("f", staging)]
            operations += free_all(served.pop(pick(rng, len(served))))
            served.append([name for name, _ in kept])
            if rng.random() < 0.5:
                operations.append(("e",))
        until_change -= 1
        for _ in range(rng.randrange(1, 5)):
            words = min(2.5, rng.lognormvariate(0, 0.5))
            beams = []
            operations += in_turn(names, hidden, words * 0.6)
            for _ in range(rng.randrange(2, 9)):
                fresh = [names() for _ in range(3)]
                operations += [("a", name, at_least(beam * words * (1 + len(beams) / 12))) for name in fresh]
                operations += free_all(beams)
                beams = fresh
            operations += free_all(beams)
        yield operations
        step += 1
