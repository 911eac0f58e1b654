# SPDX-License-Identifier: Apache-2.0
"""Research training at a university: reinforcement learning, graphs, diffusion, proteins, speech, long contexts, distillation."""
import collections
import functools
import math

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load, room_of,
                     sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_glade")


class Net:
    """A model. `activations` are its bytes for a batch of the `usual` length; the share `square` grows with its square."""

    def __init__(self, rng, names, weights, activations, *, depth, usual=1, square=0.0):
        self.names, self.usual = names, usual
        self.sizes = sizes_of_model(rng, int(weights), layers=depth)
        self.linear = activations_of(rng, activations * (1 - square), rng.choice(depth))
        self.square = activations * square / len(self.linear)
        self.temporary = max(map(max, self.linear)) * rng.uniform(0.2, 1.0)
        self.input = activations * rng.uniform(0.002, 0.02)
        self.to_none = rng.random() < 0.7  # zero_grad() drops the gradients
        self.gradients, self.adam = [], False
        self.weights = []

    def load(self):
        self.weights, operations = load(self.names, self.sizes)
        return operations

    def drop(self):
        return free_all(name for name, _ in self.weights)

    def layers(self, length):
        share = length / self.usual
        more = [at_least(self.square * share * share)] if self.square else []
        return [[at_least(size * share) for size in layer] + more for layer in self.linear]

    def train(self, length, within=(), adam=True):
        """One step. `within` happens between the forward and the backward pass."""
        names, share, batch, loss = self.names, length / self.usual, self.names(), self.names()
        more, kept = forward(names, self.layers(length), [at_least(self.temporary * share)])
        operations = [("a", batch, at_least(self.input * share)), *more, ("a", loss, 512), *within]
        if self.to_none:
            operations += free_all(self.gradients)
            self.gradients = []
        more, made = backward(names, kept, () if self.gradients else self.sizes)
        operations += more
        self.gradients = self.gradients or made
        if adam and not self.adam:
            operations += [("a", names(), size) for size in self.sizes for _ in range(2)]
            self.adam = True
        return operations + [("f", loss), ("f", batch)]

    def infer(self, length, output=0, stream=0):
        """A pass without gradients: a layer goes when the next one is there. Gives the operations and the name of its output."""
        operations, before, result = [], [], self.names()
        for layer in self.layers(length):
            mine = [(self.names(), size) for size in (*layer[:2], layer[-1])]
            operations += [("a", name, size, stream) for name, size in mine] + free_all(before)
            before = [name for name, _ in mine]
        operations.append(("a", result, at_least(output), stream))
        return operations + free_all(before), result


def length_of(rng, median, sigma, low, high):
    """Lengths of real data: most are near the median, some are far above."""
    return max(low, min(high, int(median * math.exp(rng.gauss(0, sigma)))))


def between(rng, low, high):
    """Even over the orders of magnitude."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def make(names, sizes):
    """New tensors: their names and the operations."""
    made = [(names(), at_least(size)) for size in sizes]
    return [name for name, _ in made], [("a", name, size) for name, size in made]


# --- leaks ---

@add(intent="leak")
def episodes_cut_off(rng, capacity, growth):
    """Policy gradients: an episode's graph goes when the episode ends, but one cut off at the time limit is never cleared."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.01, 0.05), room * rng.uniform(0.05, 0.3), depth=(2, 3, 4), usual=256)
    workers, limit = rng.choice((4, 8, 12)), rng.choice((200, 500, 1000))
    unit = room / workers / limit * between(rng, 0.006, 0.08)
    start, learns = rng.uniform(0.1, 0.3), rng.uniform(0.004, 0.03)
    yield net.load()
    step = 0
    while True:
        mean = limit * (start + (0.7 - start) * (1 - math.exp(-learns * step)))  # a better policy lives longer
        operations, over = [], []
        for _ in range(workers):
            length = min(limit, 4 + int(rng.expovariate(1 / mean)))
            graph, more = make(names, [unit * length * part for part in (1, 0.5, 0.12)])
            operations += more
            if length < limit or not growth:
                over += graph
        yield operations + net.train(rng.choice((256, 256, 256, 192))) + free_all(over)
        step += 1


@add(intent="leak")
def contact_maps_kept(rng, capacity, growth):
    """A protein language model: each evaluation's contact maps stay in the history on the GPU."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.04, 0.1), room * rng.uniform(0.15, 0.35), depth=(4, 6, 8), usual=384, square=0.3)
    every, proteins = rng.randrange(8, 40), rng.randrange(6, 20)
    lengths = [length_of(rng, 260, 0.45, 60, 700) for _ in range(proteins)]
    unit = room * between(rng, 0.012, 0.12) / sum(length ** 2 for length in lengths)
    yield net.load()
    step = 0
    while True:
        yield net.train(rng.choice((384, 384, 384, 320, 256)))
        step += 1
        if step % every == 0:
            operations, maps = [], []
            for length in lengths:
                more, contacts = net.infer(length * 0.5, unit * length ** 2)
                operations += more
                maps.append(contacts)
            yield operations + ([] if growth else free_all(maps)) + [("e",)]


@add(intent="leak")
def best_students_kept(rng, capacity, growth):
    """Distillation: each time that the student is better than before, a deep copy of it is put into a list."""
    names, room = Names(), room_of(capacity)
    teacher = Net(rng, names, room * rng.uniform(0.1, 0.25), room * rng.uniform(0.08, 0.2), depth=(4, 6), usual=512)
    student = Net(rng, names, room * between(rng, 0.016, 0.06), room * rng.uniform(0.08, 0.2), depth=(2, 3, 4), usual=512)
    every, with_optimizer = rng.randrange(4, 16), rng.random() < 0.3
    logits, luck = room * rng.uniform(0.01, 0.04), rng.uniform(0.15, 0.35)
    yield teacher.load() + student.load()
    evaluations = 0
    while True:
        for _ in range(every):
            length = length_of(rng, 420, 0.3, 64, 512)
            operations, target = teacher.infer(length, logits * length / 512)
            yield operations + student.train(length) + [("f", target)]
        operations = []
        for _ in range(3):
            more, output = student.infer(512, logits)
            operations += more + [("f", output)]
        evaluations += 1
        if rng.random() < max(luck, 1 / (1 + 0.2 * evaluations)):
            copy, more = make(names, student.sizes * (3 if with_optimizer else 1))
            operations += more + ([] if growth else free_all(copy))
        yield operations + [("e",)]


@add(intent="leak")
def memory_not_detached(rng, capacity, growth):
    """A temporal graph network: its nodes' memory holds the graphs of earlier batches, until the epoch resets the memory."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.01, 0.03), room * rng.uniform(0.1, 0.3), depth=(2, 3), usual=600)
    epoch, warm_up = rng.randrange(120, 900), rng.randrange(5, 30)
    unit = room * between(rng, 0.0008, 0.014)
    yield net.load() + [("a", names(), int(room * rng.uniform(0.02, 0.1)))]
    held = collections.deque()
    while True:
        for step in range(epoch):
            events = length_of(rng, 500, 0.25, 150, 900)
            nodes = events / 500 * (min(1, 0.4 + step / warm_up))  # at first few nodes have neighbours
            graph, operations = make(names, [unit * nodes * part for part in (0.5, 0.25, 0.25, 0.06)])
            operations = net.train(events, operations)
            forgotten = rng.random() < 0.25  # all nodes of an old batch were seen again
            held.append(graph)
            while held and (forgotten or not growth):
                operations += free_all(held.popleft())
                forgotten = False
            yield operations
        yield [operation for graph in held for operation in free_all(graph)]
        held.clear()
        for _ in range(epoch // 8):
            operations, scores = net.infer(length_of(rng, 500, 0.25, 150, 900), MIB)
            yield operations + [("f", scores)]


# --- caches and buffers by design ---

@add(intent="design")
def replay_on_gpu(rng, capacity, growth):
    """Off-policy learning from pixels: the replay buffer lies on the GPU, in chunks, and fills during the run."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.01, 0.04), room * rng.uniform(0.1, 0.3), depth=(2, 3), usual=1)
    chunks, warm_up = rng.randrange(80, 900), rng.randrange(5, 60)
    chunk = room * rng.uniform(0.5, 1.3) / chunks
    target = Net(rng, names, sum(net.sizes), room * 0.02, depth=(2, 3))
    yield net.load() + target.load()
    held, step = collections.deque(), 0
    while True:
        acted, action = net.infer(0.02, 4096)
        new, operations = make(names, (chunk * 0.98, chunk * 0.01, 4096, 4096))
        if len(held) == chunks:
            operations = free_all(held.popleft()) + operations
        if growth:
            held.append(new)
        if step >= warm_up:
            value, critic = target.infer(1, 65536)
            operations += value + net.train(1) + [("f", critic)]
        yield acted + operations + [("f", action)] + ([] if growth else free_all(new))
        step += 1


@add(intent="design")
def latents_of_first_epoch(rng, capacity, growth):
    """Diffusion: the first epoch keeps each picture's latents and its text's embedding; then the encoders are deleted."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.06, 0.12), room * rng.uniform(0.15, 0.3), depth=(4, 6), usual=64 * 64)
    encoder = Net(rng, names, room * rng.uniform(0.02, 0.08), room * rng.uniform(0.1, 0.3), depth=(3, 4), usual=64 * 64)
    buckets = [(64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (48, 64)]
    epoch, batch = rng.randrange(60, 500), rng.choice((2, 4, 8))
    share = rng.uniform(0.3, 1.2) / epoch / batch
    yield net.load() + encoder.load()
    for _ in range(epoch):
        height, width = rng.choice(buckets)
        operations, latents = [], []
        for _ in range(batch):
            more, latent = encoder.infer(height * width * 0.5, room * share * 0.3 * height * width / 4096)
            text, embedded = make(names, (room * share * 0.7,))
            operations += more + embedded
            latents += [latent, *text]
        yield operations + net.train(height * width) + ([] if growth else free_all(latents))
    yield encoder.drop() + [("e",)]
    while True:
        height, width = rng.choice(buckets)
        yield net.train(height * width)


# --- demand that grows ---

@add(intent="demand")
def shortest_utterances_first(rng, capacity, growth):
    """Speech: the first epoch goes from the shortest utterances to the longest, with the same number in each batch."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.04, 0.1), room * rng.uniform(0.2, 0.4), depth=(4, 6), usual=900, square=0.15)
    epoch, every = rng.randrange(80, 600), rng.randrange(40, 120)
    lengths = sorted(length_of(rng, 700, 0.55, 80, 3000) for _ in range(epoch))
    yield net.load()
    step = 0
    while True:
        place = step if step < epoch else rng.randrange(epoch)
        length = lengths[place if growth else min(epoch // 6, place)]
        yield net.train(length + 4 * rng.randrange(8))
        step += 1
        if step % every == 0:
            decoded, output = net.infer(600, MIB)
            yield decoded + [("f", output)]


@add(intent="demand")
def context_in_stages(rng, capacity, growth):
    """Fine-tuning for long contexts: the context grows in stages; logits in full precision grow with it."""
    names, room = Names(), room_of(capacity)
    start, factor = rng.choice((2048, 4096, 8192)), rng.choice((1.25, 1.5, 2))
    net = Net(rng, names, room * rng.uniform(0.06, 0.15), room * rng.uniform(0.06, 0.16), depth=(4, 6, 8), usual=start)
    vocabulary = room * rng.uniform(0.008, 0.025) / start
    stages, steps = rng.randrange(3, 8), rng.randrange(15, 70)
    yield net.load()
    length, stage = start, 0
    while True:
        for _ in range(steps):
            packed = int(length * rng.choice((1, 1, 1, 1, 0.97, 0.85)))
            logits, operations = make(names, (vocabulary * packed, vocabulary * packed * 2, vocabulary * packed * 2))
            yield net.train(packed, operations + free_all(reversed(logits)))
        operations, output = net.infer(length, vocabulary * length * 2)  # perplexity after the stage
        yield operations + [("f", output), ("e",)]
        stage += 1
        if growth and stage < stages:
            length = int(length * factor) // 64 * 64


# --- fragmentation without growth ---

@add()
def embeddings_of_templates(rng, capacity, _growth):
    """Protein structure: pair tensors of any length, and among them a cache of template embeddings with a fixed budget."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.02, 0.05), room * rng.uniform(0.12, 0.2), depth=(3, 4, 6), usual=256, square=0.5)
    budget, unit = room * rng.uniform(0.15, 0.28), room * rng.uniform(0.0008, 0.003)
    yield net.load()
    cache, used = [], 0
    while True:
        length = length_of(rng, 230, 0.35, 64, 448)
        within = []
        for _ in range(rng.randrange(1, 5)):
            size = at_least(unit * (length_of(rng, 240, 0.4, 64, 480) / 240) ** 2)
            name = names()
            within.append(("a", name, size))
            cache.append((name, size))
            used += size
        operations = net.train(length, within)
        while used > budget:  # the one used longest ago is often not the oldest
            name, size = cache.pop(min(len(cache) - 1, int(rng.expovariate(0.1))))
            used -= size
            operations.append(("f", name))
        yield operations


@add()
def graphs_prefetched(rng, capacity, _growth):
    """Graph networks: sampled neighbourhoods of all sizes are copied ahead on a second stream; hard ones are kept for later."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.01, 0.03), room * rng.uniform(0.12, 0.2), depth=(3, 4), usual=10000)
    ahead, hard = rng.randrange(2, 6), rng.randrange(15, 60)
    unit = room * rng.uniform(0.08, 0.18) / (ahead + hard) / 10000
    yield net.load() + [("a", names(), int(room * rng.uniform(0.05, 0.15)))]  # the features of the frequent nodes
    waiting, kept = collections.deque(), []
    while True:
        operations = []
        while len(waiting) <= ahead:
            nodes = length_of(rng, 9000, 0.4, 1500, 26000)
            batch = [(names(), at_least(unit * nodes * part)) for part in (0.7, 0.2, 0.08, 0.02)]
            operations += [("a", name, size, 1) for name, size in batch]
            waiting.append((nodes, [name for name, _ in batch]))
        nodes, batch = waiting.popleft()
        hidden, more = make(names, (unit * nodes * 0.8, unit * nodes * 0.1))
        operations += net.train(nodes, more)
        gone = batch + hidden
        if rng.random() < 0.3:  # its loss was large
            kept.append(gone)
            gone = kept.pop(rng.randrange(len(kept))) if len(kept) > hard else []
        yield operations + free_all(gone)


@add()
def answers_then_updates(rng, capacity, _growth):
    """Reinforcement learning of a language model: caches that grow by concatenation, then updates; answers wait in a queue."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.04, 0.08), room * rng.uniform(0.14, 0.24), depth=(3, 4, 6), usual=1024)
    layers, waits = rng.randrange(2, 5), rng.randrange(12, 48)
    token = room * rng.uniform(0.08, 0.16) / layers / 1024
    score = room * rng.uniform(0.14, 0.28) / waits / 1024
    clears = rng.random() < 0.4
    yield net.load() + net.load()  # the policy and its reference
    queue = collections.deque()
    while True:
        length = length_of(rng, 200, 0.3, 32, 512)
        end = length + length_of(rng, 500, 0.5, 60, 1400)
        operations, caches = [], [None] * layers
        while length < end:
            for layer, old in enumerate(caches):
                caches[layer] = names()
                operations.append(("a", caches[layer], at_least(token * length)))
                operations += [("f", old)] if old else []
            wanted, more = make(names, (score * length * 0.3,))
            operations += more
            queue.append(wanted)
            length += rng.randrange(90, 200)
        yield operations + free_all(caches) + ([("e",)] if clears else [])
        chosen, more = make(names, (score * end, score * end * 0.25))
        queue.append(chosen)
        operations = net.train(end, more)
        while len(queue) > waits * 3:
            middle = min(len(queue) - 1, int(rng.expovariate(0.2)))
            operations += free_all(queue[middle])
            del queue[middle]
        yield operations


# --- peaks ---

@add()
def tail_of_the_recordings(rng, capacity, _growth):
    """Speech without a filter of lengths: a batch is as long as its longest recording, and a few are very long."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.03, 0.08), room * rng.uniform(0.2, 0.36), depth=(3, 4, 6), usual=800, square=0.2)
    sigma, together, longest = rng.uniform(0.28, 0.42), rng.choice((4, 8, 16)), rng.choice((2000, 4000, 8000))
    epoch = rng.randrange(60, 250)
    yield net.load()
    while True:
        for _ in range(epoch):
            yield net.train(max(length_of(rng, 500, sigma, 60, longest) for _ in range(together)))
        for _ in range(epoch // 10):
            operations, output = net.infer(max(length_of(rng, 500, sigma, 60, longest) for _ in range(together)), 2 * MIB)
            yield operations + [("f", output)]


@add()
def both_vocabularies(rng, capacity, _growth):
    """Distillation with full logits of teacher and student: too large from the start, or at the first update."""
    names, room = Names(), room_of(capacity)
    teacher = Net(rng, names, room * rng.uniform(0.2, 0.35), room * rng.uniform(0.05, 0.1), depth=(6, 8), usual=1024)
    student = Net(rng, names, room * rng.uniform(0.08, 0.16), room * rng.uniform(0.08, 0.2), depth=(4, 6), usual=1024)
    logits, accumulated = room * rng.uniform(0.015, 0.06), rng.choice((1, 16, 32, 64, 128))
    yield teacher.load() + student.load()
    step = 0
    while True:
        length = rng.choice((1024, 1024, 1024, 960, 832))
        size = logits * length / 1024
        operations, target = teacher.infer(length, size)
        parts, more = make(names, (size, size, size, size * 0.5))  # float copies, log-softmax of both, their difference
        step += 1
        yield operations + student.train(length, more + free_all(reversed(parts)), step >= accumulated) + [("f", target)]


# --- others ---

@add()
def shared_workstation(rng, capacity, _growth):
    """Diffusion on a workstation of the group: other people's jobs come, warm up, and go; pictures are sampled now and then."""
    names, room = Names(), room_of(capacity)
    net = Net(rng, names, room * rng.uniform(0.05, 0.1), room * rng.uniform(0.15, 0.35), depth=(4, 6), usual=4096)
    every, arrives, jobs = rng.randrange(15, 60), 1 / rng.uniform(30, 250), []
    yield [("x", rng.randrange(8, 300) * MIB)] + net.load()
    step = 0
    while True:
        if rng.random() < arrives and len(jobs) < 3:
            jobs.append([room * between(rng, 0.06, 0.5), 0, rng.randrange(3, 60), rng.randrange(20, 400)])
        for job in jobs:
            job[1] += 1
        jobs = [job for job in jobs if job[1] < job[3]]
        others = [("o", int(sum(size * min(1, age / ramp) for size, age, ramp, _ in jobs)))]
        yield others + net.train(rng.choice((4096, 4096, 4032, 3840, 3072)))
        step += 1
        if step % every == 0:
            operations = []
            for _ in range(2):
                more, picture = net.infer(4096 * 1.5, room * 0.01)
                operations += more + [("f", picture)]
            yield others + operations + [("e",)]
