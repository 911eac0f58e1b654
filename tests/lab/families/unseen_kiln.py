# SPDX-License-Identifier: Apache-2.0
"""Post-training, long-context serving, mixtures of experts, quantisation, embedding and agent servers, audio generation."""
import collections
import math

from program import GIB, MIB, UNSEEN, Names, at_least, free_all, generator, load, room_of

Shape = collections.namedtuple("Shape", "layers hidden ffn kv vocab")

# decoders from 0.5 to 70 billion parameters, by size
DECODERS = (Shape(24, 896, 4864, 128, 151936), Shape(22, 2048, 5632, 256, 32000), Shape(28, 1536, 8960, 256, 151936),
            Shape(36, 2048, 11008, 256, 151936), Shape(28, 3072, 8192, 1024, 128256), Shape(32, 4096, 11008, 4096, 32000),
            Shape(32, 4096, 14336, 1024, 128256), Shape(40, 5120, 13824, 1024, 152064), Shape(64, 5120, 27648, 1024, 152064),
            Shape(80, 8192, 28672, 1024, 128256))
ENCODERS = (Shape(12, 384, 1536, 384, 30522), Shape(12, 768, 3072, 768, 30522), Shape(24, 1024, 4096, 1024, 250002),
            Shape(28, 1536, 8960, 256, 151936), Shape(32, 4096, 14336, 1024, 32000))


def add(intent=""):
    return generator(UNSEEN, "unseen_kiln", intent)


def weights(shape, element=2.0):
    """Embedding, then per layer q, k, v, o, gate, up, down and two norms."""
    h, kv, ffn = shape.hidden, shape.kv, shape.ffn
    layer = [at_least(n * element) for n in (h * h, h * kv, h * kv, h * h, h * ffn, h * ffn, h * ffn)] + [at_least(h * 2)] * 2
    return [shape.vocab * h * 2] + layer * shape.layers


def pick(rng, budget, element=2.0, shapes=DECODERS):
    """One of the largest three that fit into the budget."""
    fitting = [shape for shape in shapes if sum(weights(shape, element)) <= budget]
    return rng.choice(fitting[-3:] or shapes[:1])


def within(rng, low, high):
    """A number of steps, even on a logarithmic scale."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def length_like(rng, median, spread, longest):
    """Lengths of texts or clips: log-normal, cut off."""
    return max(8, min(longest, int(median * rng.lognormvariate(0, spread))))


def passing(names, *sizes):
    mine = [(names(), at_least(size)) for size in sizes]
    return [("a", *each) for each in mine] + [("f", name) for name, _ in reversed(mine)]


def peak_of(operations):
    live, peak, sizes = 0, 0, {}
    for operation in operations:
        if operation[0] == "a":
            sizes[operation[1]] = operation[2]
            live += operation[2]
            peak = max(peak, live)
        elif operation[0] == "f":
            live -= sizes.pop(operation[1], 0)
    return peak


def infer_pass(names, shape, tokens, parts):
    """Without gradients: hidden states of one part replace those before. Leaves the last ones."""
    wide, hidden, operations = tokens * shape.ffn * 2, names(), []
    operations.append(("a", hidden, at_least(tokens * shape.hidden * 2)))
    for _ in range(parts):
        operations += passing(names, tokens * (shape.hidden + 2 * shape.kv) * 2, tokens * shape.hidden * 2)
        gate, up, new = names(), names(), names()
        operations += [("a", gate, at_least(wide)), ("a", up, at_least(wide)), ("f", up)]
        operations += [("a", new, at_least(tokens * shape.hidden * 2)), ("f", gate), ("f", hidden)]
        hidden = new
    return operations, hidden


def train_pass(names, shape, tokens, parts, scored=None, gradients=()):
    """With checkpoints: each part keeps its input and is computed again in the backward pass. `scored` tokens have logits."""
    hidden, mixed, wide = (at_least(tokens * n * 2) for n in (shape.hidden, shape.hidden + 2 * shape.kv, shape.ffn))
    operations, kept, left = [], [], []
    for _ in range(parts):
        kept.append(names())
        operations.append(("a", kept[-1], hidden))
        operations += passing(names, mixed, hidden) + passing(names, wide, wide)
    logits = (tokens if scored is None else scored) * shape.vocab
    out = names()
    operations.append(("a", out, at_least(logits * 2)))
    operations += passing(names, logits * 4, logits * 4) + [("f", out)]
    flow = names()
    operations.append(("a", flow, hidden))
    for at, checkpoint in enumerate(reversed(kept)):
        inner = [(names(), size) for size in (mixed, wide, wide)]
        new = names()
        operations += [("a", *each) for each in inner] + [("a", new, hidden)]
        if at < len(gradients):
            left.append(names())
            operations.append(("a", left[-1], at_least(gradients[at])))
        operations += free_all([name for name, _ in inner] + [checkpoint, flow])
        flow = new
    return operations + [("f", flow)], left


def tokens_for(a_pass, budget):
    """How many tokens a pass may have; `a_pass(names, tokens)` is nearly linear in them."""
    return max(128, int(budget * 2048 / peak_of(a_pass(Names(), 2048)[0])))


# --- kept by mistake ---

@add("leak")
def grpo_logprobs_in_metrics(rng, capacity, growth):
    """GRPO with LoRA: per-token tensors of each completion group are appended to the metrics, on the GPU and not reduced."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.15, 0.45))
    sizes, parts = weights(shape), rng.choice((6, 8))
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    longest = tokens_for(lambda n, t: train_pass(n, shape, t, parts), free * rng.uniform(0.25, 0.5))
    adapter = [shape.layers // parts * rng.choice((16, 32, 64)) * (shape.hidden * 10 + shape.ffn * 3) * 4] * parts
    yield [("a", names(), size) for size in adapter * 3]
    group = rng.choice((4, 8, 16))
    cache = min(shape.layers, 20)
    per_token = free * rng.uniform(0.35, 0.6) / within(rng, 15, 250) / (longest * 0.5)
    middle = longest * rng.uniform(0.35, 0.6)
    while True:
        tokens = length_like(rng, middle, 0.35, longest) // group * group
        kv = at_least(tokens * shape.kv * 4 * shape.layers / cache)
        rollout = [(names(), kv) for _ in range(cache)]
        operations = [("a", *each) for each in rollout]
        operations += passing(names, group * shape.vocab * 4, group * shape.vocab * 4)
        operations += free_all([name for name, _ in rollout])
        reference, last = infer_pass(names, shape, tokens, 3)
        operations += reference + [("f", last)]
        scored = tokens // rng.choice((1, 2, 2, 4))
        done, left = train_pass(names, shape, tokens, parts, scored, adapter)
        if growth:
            operations += [("a", names(), at_least(tokens * per_token / 2)) for _ in range(2)]
        yield operations + done + free_all(left)


@add("leak")
def dpo_evaluation_keeps_logits(rng, capacity, growth):
    """DPO with a reference model: every evaluation leaves its sampled logits in a callback's list."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.12, 0.28))
    sizes, parts = weights(shape), rng.choice((6, 8, 10))
    yield load(names, sizes)[1] + load(names, sizes)[1]
    free = room - 2 * sum(sizes)
    longest = tokens_for(lambda n, t: train_pass(n, shape, t, parts), free * rng.uniform(0.3, 0.5))
    adapter = [shape.layers // parts * 16 * shape.hidden * 16] * parts
    yield [("a", names(), size) for size in adapter * 3]
    batches, every = rng.randrange(4, 17), rng.randrange(8, 36)
    kept = free * rng.uniform(0.3, 0.45) / rng.randrange(2, 10) / batches
    step = 0
    while True:
        tokens = 2 * length_like(rng, longest * 0.3, 0.3, longest // 2)
        operations, last = infer_pass(names, shape, tokens, 2)
        operations.append(("f", last))
        done, left = train_pass(names, shape, tokens, parts, None, adapter)
        yield operations + done + free_all(left)
        step += 1
        if step % every:
            continue
        rewards = []
        for _ in range(batches):
            tokens = 2 * length_like(rng, longest * 0.25, 0.3, longest // 2)
            operations, last = infer_pass(names, shape, tokens, 4)
            operations += passing(names, tokens // 2 * shape.vocab * 4, tokens // 2 * shape.vocab * 4)
            rewards.append(names())
            operations.append(("a", rewards[-1], at_least(tokens * 4)))
            if growth:
                operations.append(("a", names(), at_least(kept * tokens / (longest * 0.5))))
            yield operations + [("f", last)]
        yield free_all(rewards)


@add("leak")
def moe_router_monitor_from_late(rng, capacity, growth):
    """Fine-tuning of a mixture of experts: after the warm-up a load monitor keeps router outputs with their graph."""
    names, room = Names(), room_of(capacity)
    experts = rng.choice((8, 16, 32, 64))
    hidden, ffn = rng.choice(((2048, 1408), (2048, 1024), (4096, 1536), (4096, 14336)))
    expert = 3 * hidden * ffn * 2
    local = max(2, min(experts, 8, int(room * 0.3 / expert)))
    layers = max(2, min(16, int(room * rng.uniform(0.25, 0.45) / expert / local)))
    sizes = [32000 * hidden * 2] + [size for _ in range(layers) for size in [4 * hidden * hidden * 2] + [expert] * local]
    yield load(names, sizes)[1]
    free = max(GIB, room - sum(sizes))
    width = 6 * hidden + 4 * (hidden + 2 * ffn)
    tokens = int(free * rng.uniform(0.3, 0.5) / layers / width)
    start, every = rng.randrange(10, 80), rng.choice((1, 1, 2, 5))
    kept = free * rng.uniform(0.3, 0.5) / within(rng, 8, 80) / layers
    step = 0
    while True:
        operations, saved = [], []
        watched = growth and step >= start and step % every == 0
        for _ in range(layers):
            shares = [rng.gammavariate(4, 1) for _ in range(min(local, 4))]
            routed = [int(tokens * 2 * share / sum(shares)) for share in shares]
            mine = [(names(), tokens * hidden * 2), (names(), tokens * 2 * hidden * 2), (names(), tokens * experts * 4)]
            mine += [(names(), at_least(n * ffn * 4)) for n in routed]
            operations += [("a", *each) for each in mine]
            operations += passing(names, tokens * 2 * hidden * 2)
            if watched:
                operations.append(("a", names(), at_least(kept)))
            saved.append([name for name, _ in mine])
        operations += passing(names, tokens // 4 * 32000 * 4)
        for mine in reversed(saved):
            operations += passing(names, tokens * hidden * 4) + free_all(reversed(mine))
        step += 1
        yield operations


@add("leak")
def embedding_views_in_cache(rng, capacity, growth):
    """An embedding server caches hidden[:, 0] of some texts: a view, by which all of the hidden states stay."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.1, 0.5), shapes=ENCODERS)
    sizes, parts = weights(shape), rng.choice((6, 8, 12))
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    most = tokens_for(lambda n, t: infer_pass(n, shape, t, parts), free * rng.uniform(0.1, 0.4))
    median, spread = rng.choice((128, 256, 512)), rng.uniform(0.6, 1.2)
    workers = max(1, round(most / 100 / median))  # requests are batched together
    mean = most * 0.2 * shape.hidden * 2
    share = max(0.02, min(0.9, free * 0.5 / within(rng, 60, 700) / mean))
    while True:
        batch = workers * rng.choice((1, 1, 2, 4, 8, 16, 32, 64, 128))
        tokens = min(most, batch * length_like(rng, median, spread, 8192))
        operations, last = infer_pass(names, shape, tokens, parts)
        pooled = passing(names, batch * shape.hidden * 4)
        cached = rng.random() < share
        yield operations + pooled + ([] if cached and growth else [("f", last)])


# --- growth that is meant or demanded ---

@add("design")
def speculative_long_context(rng, capacity, growth):
    """Speculative decoding of a long text: the caches of target and draft are copied into larger ones, block by block."""
    names, room = Names(), room_of(capacity)
    element = rng.choice((2.0, 2.0, 1.0, 0.56))
    target = pick(rng, room * rng.uniform(0.35, 0.65), element)
    draft = pick(rng, room * 0.06)
    sizes = weights(target, element) + weights(draft)
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    per_token = 4 * (target.layers * target.kv + draft.layers * draft.kv)
    reach = int(free * 0.85 / per_token)
    prompt = int(reach * rng.uniform(0.05, 0.5))
    block = max(16, (reach - prompt) // within(rng, 15, 300))
    caches = [(shape, min(shape.layers, most)) for shape, most in ((target, 40), (draft, 16))]
    chunk = min(prompt, rng.choice((512, 1024, 2048, 4096)))
    prefill, last = infer_pass(names, target, chunk, 8)
    yield prefill + [("f", last)]
    held = []
    for shape, count in caches:
        held.append([(names(), at_least(prompt * shape.kv * 4 * shape.layers / count)) for _ in range(count)])
        yield [("a", *each) for each in held[-1]]
    length, guesses = prompt, rng.randrange(3, 9)
    while True:
        accepted = block * rng.randrange(guesses // 2, guesses + 1) // guesses
        length += max(8, accepted) if growth else 0
        operations = []
        for at, (shape, count) in enumerate(caches):
            size, larger = at_least(length * shape.kv * 4 * shape.layers / count), []
            for name, _ in held[at]:
                larger.append((names(), size))
                operations += [("a", *larger[-1]), ("f", name)]
            held[at] = larger
        operations += passing(names, (guesses + 1) * target.vocab * 4, guesses * draft.vocab * 4)
        yield operations + passing(names, (guesses + 1) * length * 32 * 2)


@add("demand")
def distillation_length_curriculum(rng, capacity, growth):
    """Distillation with both models' full logits; the curriculum makes the sequences longer from stage to stage."""
    names, room = Names(), room_of(capacity)
    teacher = pick(rng, room * rng.uniform(0.2, 0.45))
    student = pick(rng, room * rng.uniform(0.03, 0.07))._replace(vocab=teacher.vocab)
    own, parts = weights(student), rng.choice((6, 8, 10))
    fixed = weights(teacher) + own
    yield load(names, fixed)[1]
    gradients = [sum(own) // parts] * parts
    batch, length = rng.choice((1, 2, 4, 8)), rng.choice((128, 256, 512))
    free = max(GIB, room - sum(fixed) - 3 * sum(own))
    logits_share = peak_of(train_pass(Names(), student, batch * length, parts)[0]) + batch * length * teacher.vocab * 6
    batch = max(1, int(batch * free * rng.uniform(0.1, 0.3) / logits_share))
    stage, factor = rng.randrange(4, 25), rng.uniform(1.1, 1.5)
    step = 0
    moments = []
    while True:
        reached = length * factor ** (step // stage if growth else 0)
        tokens = batch * int(reached * rng.uniform(0.85, 1.0))
        operations, last = infer_pass(names, teacher, tokens, 4)
        soft = names()
        operations += [("a", soft, tokens * teacher.vocab * 2), ("f", last)]
        done, left = train_pass(names, student, tokens, parts, None, gradients)
        if not moments:
            moments = [("a", names(), size) for size in gradients * 2]
            done += moments
        step += 1
        yield operations + done + [("f", soft)] + free_all(left)


@add("demand")
def agent_server_more_users(rng, capacity, growth):
    """A server of agents with a cache per conversation, extended turn by turn; through the day more users are active."""
    names, room = Names(), room_of(capacity)
    element = rng.choice((2.0, 1.0))
    shape = pick(rng, room * rng.uniform(0.25, 0.5), element)
    sizes = weights(shape, element)
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    per_token = shape.layers * shape.kv * 4
    page = rng.choice((128, 256, 512)) * per_token
    turns = rng.uniform(5, 14)
    talk = max(page * 3, int(free * rng.uniform(0.004, 0.02)))  # of a whole conversation
    usual = max(3, int(free * rng.uniform(0.15, 0.35) / (talk * 0.6)))
    day = max(20, within(rng, 60, 1200) if usual < 40 else within(rng, 40, 300))
    chunk = rng.choice((512, 1024, 2048))
    conversations, step = [], 0

    def turn():
        return max(page, int(talk / turns * rng.lognormvariate(-0.2, 0.6)) // page * page)

    while True:
        operations, last = infer_pass(names, shape, rng.randrange(chunk // 8, chunk), 6)
        operations += passing(names, 32 * shape.vocab * 4) + [("f", last)]
        wanted = usual * (1 + 4 * step / day)
        for _ in range(4):
            extra = sum(not each[0] for each in conversations) >= usual
            if len(conversations) < wanted and rng.random() < 0.8:
                conversations.append([extra, 1 + int(rng.expovariate(1 / turns)), []])
        for talked in rng.sample(conversations, min(len(conversations), 6)):
            extra, _, pages = talked
            size = turn()
            talked[1] -= 1
            if talked[1] < 0:
                conversations.remove(talked)
                operations += free_all(pages)
            elif growth or not extra:
                pages.append(names())
                operations.append(("a", pages[-1], size))
        step += 1
        yield operations


# --- without growth ---

@add()
def moe_dropless_hot_experts(rng, capacity, growth):
    """Dropless training of experts in parallel: a batch that sends too many tokens to the experts of this GPU."""
    names, room = Names(), room_of(capacity)
    hidden, ffn = rng.choice(((1024, 2816), (2048, 1408), (2048, 5632), (4096, 14336)))
    expert = 3 * hidden * ffn * 2
    local = max(1, min(8, int(room * 0.2 / expert / 4)))
    layers = max(2, min(12, int(room * rng.uniform(0.1, 0.2) / expert / local)))
    sizes = [64000 * hidden * 2] + [size for _ in range(layers) for size in [8 * hidden * hidden] + [expert] * local]
    yield load(names, sizes)[1]
    moments = [sum(sizes) // 8] * 8
    yield [("a", names(), size) for size in moments]
    free = max(GIB, room - 2 * sum(sizes))
    spread = rng.uniform(0.3, 0.6)
    tokens = int(free * rng.uniform(0.3, 0.55) / layers / (hidden * 8 + 4 * (hidden + ffn)))
    top = rng.choice((1, 2, 4))
    slots = max(1, tokens // 2)
    while True:
        skew = rng.lognormvariate(0, spread)  # the kind of text in this batch
        operations, saved = [], []
        for _ in range(layers):
            mine = [(names(), tokens * hidden * 4), (names(), tokens * hidden * 4)]
            for _ in range(min(local, top)):
                routed = int(slots * 2 / min(local, top) * skew * rng.uniform(0.7, 1.3))
                mine += [(names(), at_least(routed * hidden * 4)), (names(), at_least(routed * ffn * 4))]
            operations += [("a", *each) for each in mine]
            saved.append([name for name, _ in mine])
        operations += passing(names, tokens // 8 * 64000 * 4)
        for mine in reversed(saved):
            operations += passing(names, tokens * hidden * 4) + free_all(reversed(mine))
        gradients = [names() for _ in range(4)]
        yield operations + [("a", name, sum(sizes) // 32) for name in gradients] + free_all(gradients)


@add()
def music_clips_of_any_length(rng, capacity, growth):
    """Music by diffusion and a decoder of convolutions: clips of any length, finished ones wait to be written as a batch."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.1, 0.3))
    sizes = weights(shape)
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    channels = rng.choice((512, 1024, 1536))
    strides = rng.choice(((8, 8, 4, 2), (8, 5, 4, 2), (4, 4, 4, 4), (5, 4, 4, 2, 2)))
    widest, grown = 0, 1
    for at, stride in enumerate(strides):
        grown *= stride
        widest = max(widest, grown * channels * 4 // 2 ** (at + 1))
    longest = int(free * rng.uniform(0.6, 0.9) / (widest * 3.2))  # in frames of the latent
    waiting, queue = collections.deque(), rng.randrange(6, 40)
    while True:
        frames = length_like(rng, longest * rng.uniform(0.2, 0.6), 0.5, longest)
        latent, guided = names(), names()
        operations = [("a", latent, at_least(frames * 128 * 4)), ("a", guided, at_least(frames * shape.hidden * 4))]
        for _ in range(3):
            operations += passing(names, frames * shape.hidden * 8, frames * shape.ffn * 2)
        operations.append(("f", guided))
        now, length, width = latent, frames, channels
        for stride in strides:
            length, width = length * stride, width // 2
            new = names()
            operations += [("a", new, at_least(length * width * 4)), ("f", now)]
            operations += passing(names, length * width * 4, length * width * 4)
            now = new
        wave = names()
        operations += [("a", wave, at_least(length * 8)), ("f", now)]
        waiting.append(wave)
        if len(waiting) > queue:
            operations += free_all(waiting.popleft() for _ in range(rng.randrange(1, queue // 2)))
        yield operations


@add()
def gptq_layer_by_layer(rng, capacity, growth):
    """GPTQ: matrix after matrix is loaded, quantised with its Hessian and packed; the packed ones stay on the GPU."""
    names, room = Names(), room_of(capacity)
    bits = rng.choice((3, 4, 4, 8))
    shape = pick(rng, room * rng.uniform(0.5, 1.0), bits / 8)
    sequence = rng.choice((1024, 2048, 4096)) * shape.hidden * 2
    # as many samples as the first layers leave room for
    samples = room * rng.uniform(0.87, 1.03) - sum(weights(shape, bits / 8)) * rng.uniform(0.75, 1) - 14 * shape.hidden * shape.ffn
    inputs = [(names(), sequence * max(8, int(samples / 2 / sequence))) for _ in range(2)]
    yield [("a", names(), shape.vocab * shape.hidden * 2)] + [("a", *each) for each in inputs]
    h, kv, ffn = shape.hidden, shape.kv, shape.ffn
    matrices = ((h, h), (h, kv), (h, kv), (h, h), (h, ffn), (h, ffn), (ffn, h))
    for _ in range(shape.layers):
        layer = [(names(), rows * columns * 2) for rows, columns in matrices]
        yield [("a", *each) for each in layer]
        for (rows, columns), (name, size) in zip(matrices, layer):
            hessian, copy = names(), names()
            operations = [("a", hessian, rows * rows * 4)]
            for _ in range(rng.randrange(4, 9)):
                operations += passing(names, sequence, sequence // h * ffn, sequence // h * rows * 2)
            operations += [("a", copy, rows * columns * 4)] + passing(names, rows * rows * 4, rows * rows * 4)
            new = [(names(), at_least(rows * columns * bits / 8)), (names(), at_least(rows // 128 * columns * 2)),
                   (names(), at_least(rows // 128 * columns * bits / 8))]
            yield operations + [("a", *each) for each in new] + free_all((copy, hessian, name))
        yield [each for _ in range(8) for each in passing(names, sequence, sequence // h * ffn)]
    yield free_all([name for name, _ in inputs])
    length = rng.choice((2048, 4096))
    while True:
        operations, last = infer_pass(names, shape, length * rng.randrange(1, 9), 8)
        yield operations + passing(names, length * shape.vocab * 4, length * shape.vocab * 4) + [("f", last)]


@add()
def rlhf_generate_then_train(rng, capacity, growth):
    """PPO: caches of a generation phase, then activations of a training phase; experiences of many sizes lie between."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.1, 0.25))
    sizes, parts = weights(shape), rng.choice((5, 6, 8))
    yield load(names, sizes)[1] + load(names, [sum(sizes) // 4] * 4)[1]
    free = room - 2 * sum(sizes)
    longest = tokens_for(lambda n, t: train_pass(n, shape, t, parts), free * rng.uniform(0.55, 0.75))
    layers, rounds = min(shape.layers, 16), rng.randrange(3, 9)
    per_cache = free * rng.uniform(0.45, 0.65) / layers
    stored = free * rng.uniform(0.05, 0.12) / rounds / 3
    tidy = rng.random() < 0.3
    old = []
    while True:
        new = []
        for _ in range(rounds):
            reached = rng.uniform(0.3, 1.0)
            cache, operations = [], []
            for stage in (0.25, 0.5, 1.0):
                larger = []
                for at in range(layers):
                    larger.append(names())
                    operations.append(("a", larger[-1], at_least(per_cache * reached * stage * 0.9)))
                    if cache:
                        operations.append(("f", cache[at]))
                cache = larger
            for _ in range(3):
                new.append(names())
                operations.append(("a", new[-1], at_least(stored * reached * rng.uniform(0.5, 1.2))))
            yield operations + free_all(cache)
        yield free_all(old) + ([("e",)] if tidy else [])
        for _ in range(rounds * rng.randrange(1, 3)):
            tokens = length_like(rng, longest * 0.6, 0.35, longest)
            done, left = train_pass(names, shape, tokens, parts, tokens // rng.randrange(1, 4), [sum(sizes) // 16 // parts] * parts)
            yield done + free_all(left)
        old = new


# --- other processes, and memory beside the allocator ---

@add()
def reranker_beside_notebooks(rng, capacity, growth):
    """A reranker on a shared GPU: notebooks load models and go, a nightly indexing job takes as much as it finds useful."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.08, 0.3), shapes=ENCODERS)
    sizes, parts = weights(shape), rng.choice((6, 8, 12))
    yield load(names, sizes)[1]
    most = tokens_for(lambda n, t: infer_pass(n, shape, t, parts), (room - sum(sizes)) * rng.uniform(0.3, 0.7))
    notebooks, rate = [], 1 / within(rng, 10, 90)
    night, job = within(rng, 40, 400), room * rng.uniform(0.3, 0.6)
    idle = rng.uniform(0.02, 0.2)  # the server gives its cache back when nothing waits
    step = 0
    while True:
        operations = []
        if rng.random() < rate:
            # a process begins with its context, and its model follows over some steps
            notebooks.append([400 * MIB, room * rng.uniform(0.1, 0.4), within(rng, 20, 300)])
        for each in notebooks:
            each[0] = min(each[1], each[0] + each[1] * rng.uniform(0, 0.3))
            each[2] -= 1
        notebooks = [each for each in notebooks if each[2] > 0]
        nightly = job * min(1.0, step % (2 * night) / night * 1.5 - 1.0) if step % (2 * night) > night * 0.7 else 0
        operations.append(("o", int(sum(each[0] for each in notebooks) + max(0, nightly))))
        pairs = rng.choice((8, 16, 32, 64, 100))
        tokens = min(most, pairs * length_like(rng, most / 250, 0.7, most // 20))
        done, last = infer_pass(names, shape, tokens, parts)
        step += 1
        done += passing(names, pairs * 4) + [("f", last)]
        yield operations + done + ([("e",)] if rng.random() < idle else [])


@add("leak")
def speech_plans_for_each_length(rng, capacity, growth):
    """A speech server whose vocoder runs in another library, which keeps a plan and a workspace for every length it meets."""
    names, room = Names(), room_of(capacity)
    shape = pick(rng, room * rng.uniform(0.1, 0.4))
    sizes = weights(shape)
    yield load(names, sizes)[1] + [("x", 220 * MIB)]
    free = room - sum(sizes)
    longest = int(min(30 * 86, free * 0.2 / (80 * 1024)))
    batch = max(1, int(free * rng.uniform(0.2, 0.5) / (longest * (shape.hidden * 4 + shape.kv * 4 * shape.layers))))
    rounding = rng.choice((1, 4, 8, 16))
    expected = within(rng, 15, max(16, min(250, longest // rounding // 3)))
    plan = free * rng.uniform(0.5, 0.8) / expected / (longest * 0.5)
    known, taken = set(), 220 * MIB
    while True:
        frames = max(rounding, length_like(rng, longest * 0.4, 0.5, longest) // rounding * rounding)
        speakers = max(1, min(batch, round(batch * 0.25 * rng.lognormvariate(0, 0.7))))
        cache = [(names(), at_least(speakers * frames * shape.kv * 4 * shape.layers / 8)) for _ in range(8)]
        operations = [("a", *each) for each in cache]
        for _ in range(4):
            operations += passing(names, speakers * frames * shape.hidden * 2, speakers * 4 * shape.vocab * 4)
        if frames not in known:
            known.add(frames)
            taken += int(plan * frames) if growth else 0
        operations.append(("x", taken))
        yield operations + passing(names, speakers * frames * 256 * 4) + free_all([name for name, _ in cache])


# --- and one more ---

@add("design")
def adapters_of_all_tenants(rng, capacity, growth):
    """One base model serves many tenants: an adapter is loaded at its first request and stays, the limit is set too high."""
    names, room = Names(), room_of(capacity)
    element = rng.choice((2.0, 1.0, 0.56))
    shape = pick(rng, room * rng.uniform(0.3, 0.65), element)
    sizes = weights(shape, element)
    yield load(names, sizes)[1]
    free = room - sum(sizes)
    pool = free * rng.uniform(0.25, 0.5)
    yield [("a", names(), int(pool / 16)) for _ in range(16)]  # pages of the cache, once for all
    tenants, skew = rng.randrange(300, 3000), rng.uniform(0.6, 1.1)
    share = (free - pool) * 0.8 / within(rng, 50, 700)
    ranks = (8, 16, 16, 32, 64)
    usual = shape.layers * (shape.hidden * 8 + shape.ffn * 2) * 2 * 24
    scale = max(1, round(share / usual))  # how many targets and how fine: an adapter has its share
    most = tokens_for(lambda n, t: infer_pass(n, shape, t, 6), (free - pool) * rng.uniform(0.08, 0.2))
    loaded = set()
    while True:
        operations = []
        for _ in range(rng.randrange(1, 5)):
            tenant = int(tenants ** (rng.random() ** skew))
            rank = ranks[tenant * 7919 % len(ranks)]
            if tenant in loaded:
                continue
            loaded.add(tenant)
            operations += passing(names, shape.layers * shape.hidden * rank * 2)
            if growth:
                layer = (shape.hidden * 8 + shape.ffn * 2) * 2 * rank * scale
                operations += [("a", names(), at_least(layer * shape.layers / 16)) for _ in range(16)]
        tokens = length_like(rng, most * 0.3, 0.7, most)
        done, last = infer_pass(names, shape, tokens, 6)
        yield operations + done + passing(names, 64 * shape.vocab * 4) + [("f", last)]
