# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning and alignment of language models by small teams: adapters, pairs, rollouts, evaluation between epochs."""
import functools
import itertools
import math

from program import GIB, MIB, UNSEEN, Names, at_least, free_all, generator, load, room_of, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_lagoon")


class Tape:
    """The operations of a step, in the order in which they come."""

    def __init__(self):
        self.names, self.written = Names(), []

    def new(self, *sizes, stream=0):
        kept = [self.names() for _ in sizes]
        self.written += [("a", name, at_least(size), stream) for name, size in zip(kept, sizes)]
        return kept

    def drop(self, kept):
        self.written += free_all(kept)

    def step(self):
        done, self.written = self.written, []
        return done


class Net:
    """The blocks of a model. `size` is always what one hidden state of the batch takes."""

    def __init__(self, rng, tape, most=7):
        self.tape, self.blocks = tape, rng.randrange(3, most)
        self.parts = rng.choice(((1, 1, 2.7), (1, 3, 0.1, 4), (1, 1.5, 2.7, 2.7), (1, 0.02, 3, 1), (1, 1, 0.5, 4)))
        self.recomputes, self.head = rng.random() < 0.6, rng.choice((0.3, 1, 2.5, 5))
        self.peak = self._peak()

    def forward(self, size):
        """Returns what the backward pass needs, block by block; the last are the logits, in float32 too."""
        kept = []
        for _ in range(self.blocks):
            block = self.tape.new(*(size * part for part in self.parts))
            if self.recomputes:
                self.tape.drop(block[1:])
                block = block[:1]
            kept.append(block)
        return kept + [self.tape.new(size * self.head, size * self.head * 2)]

    def backward(self, kept, size):
        *blocks, logits = kept
        loss = self.tape.new(size * self.head * 2)
        self.tape.drop(logits)
        gradient = self.tape.new(size)
        self.tape.drop(loss)
        for block in reversed(blocks):
            again = self.tape.new(*(size * part for part in self.parts[1:])) if self.recomputes else []
            below = self.tape.new(size)
            self.tape.drop(again + block + gradient)
            gradient = below
        self.tape.drop(gradient)

    def look(self, size):
        """A pass without gradients; it leaves the log-probabilities of the tokens."""
        state = self.tape.new(size)
        for _ in range(self.blocks):
            middle, after = self.tape.new(*(size * part for part in self.parts[1:])), self.tape.new(size)
            self.tape.drop(middle + state)
            state = after
        logits = self.tape.new(size * self.head)
        chosen = self.tape.new(size * 0.002)
        self.tape.drop(logits + state)
        return chosen

    def _peak(self):
        """How much a pass takes at its highest, for each byte of a hidden state."""
        own, self.tape = self.tape, Tape()
        self.backward(self.forward(GIB), GIB)
        sizes, live, peak = {}, 0, 0
        for what, name, *more in self.tape.written:
            if what == "a":
                sizes[name] = more[0]
            live += sizes[name] if what == "a" else -sizes[name]
            peak = max(peak, live)
        self.tape = own
        return peak / GIB


class Trained:
    """An adapter, or layers: the gradients live until the update, Adam's moments (float32) from the first update on."""
    TIMES = 6  # all of it, against the weights alone

    def __init__(self, tape, total, pieces):
        self.tape, self.sizes = tape, [total / pieces * part for _ in range(pieces) for part in (0.4, 0.6)]
        self.weights, self.gradients, self.moments = tape.new(*self.sizes), [], []

    def train(self, net, size):
        net.backward(net.forward(size), size)
        self.collect()

    def collect(self):
        self.gradients = self.gradients or self.tape.new(*self.sizes)

    def update(self):
        self.moments = self.moments or self.tape.new(*(2 * size for size in self.sizes for _ in range(2)))
        self.tape.drop(self.gradients)
        self.gradients = []

    def end(self):
        self.tape.drop(self.weights + self.gradients + self.moments)


class Data:
    """A batch is as long as its longest example, cut at a limit; if examples are packed, all batches are of that length."""

    def __init__(self, rng):
        self.packed, self.spread = rng.random() < 0.3, rng.uniform(0.3, 0.9)
        self.batch, self.longest = rng.choice((1, 2, 4, 8)), rng.uniform(1.4, 3)
        self.multiple = rng.choice((0.001, 1 / 64, 1 / 16))

    def length(self, rng):
        longest = max(rng.lognormvariate(-self.spread, self.spread) for _ in range(self.batch))
        cut = self.longest if self.packed else min(self.longest, max(0.05, longest))
        return math.ceil(cut / self.multiple) * self.multiple


def begin(rng, capacity, *shares):
    """A tape that starts with loading the models, and the room on the GPU."""
    tape, room = Tape(), room_of(capacity)
    for share in shares:
        tape.written += load(tape.names, sizes_of_model(rng, int(room * share)))[1]
    return tape, room


def steps_until(rng, low=12, high=1500):
    """About how many steps a program runs: as often tens as hundreds."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def write_answer(tape, size, chunks):
    """Generation: the attention cache becomes longer by chunks, each token's scores come and go."""
    cache = []
    for _ in range(chunks):
        cache += tape.new(size / chunks / 2, size / chunks / 2)
        tape.drop(tape.new(size * 0.05, size * 0.01))
    return cache


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


@add(intent="leak")
def skipped_batches(rng, capacity, growth):
    """Preference pairs: a batch without a finite loss is skipped, and the loss goes into a list with its whole graph."""
    weights, passes = rng.uniform(0.2, 0.5), 10 ** rng.uniform(-1.9, -0.9)
    tape, room = begin(rng, capacity, weights)
    net, data = Net(rng, tape), Data(rng)
    size, micro = room * passes / data.longest / net.peak, rng.choice((1, 1, 2, 3))
    adapter = Trained(tape, room * 10 ** rng.uniform(-3.2, -2.2), rng.randrange(3, 12))
    graph = size / room * (3 * net.head + net.blocks * (1 if net.recomputes else sum(net.parts)))
    bad = min(0.4, (0.9 - weights - passes) / graph / micro / steps_until(rng, 30))
    yield tape.step()
    while True:
        for _ in range(micro):
            batch, broken = size * data.length(rng), rng.random() < bad
            reference = net.look(batch)
            if not broken:
                adapter.train(net, batch)
            elif growth:
                net.forward(batch)
            else:
                tape.drop(flat(net.forward(batch)))
            tape.drop(reference)
        adapter.update()
        yield tape.step()


@add(intent="leak")
def stale_rollouts(rng, capacity, growth):
    """Rollouts wait for their turn; those that are too old by then are passed over, but stay in the table of open ones."""
    weights, judge = rng.uniform(0.15, 0.4), rng.uniform(0.02, 0.15)
    tape, room = begin(rng, capacity, weights, judge)
    net, data, rate = Net(rng, tape, 6), Data(rng), rng.randrange(1, 4)
    size = room * rng.uniform(0.04, 0.15) / data.longest / net.peak
    adapter = Trained(tape, room * 10 ** rng.uniform(-3.2, -2.2), rng.randrange(3, 9))
    stale, patience = rng.uniform(0.08, 0.6), rng.uniform(1, 8)
    most = 0.2 / data.longest / rate / (1 + patience)
    record = room * min(most, (0.75 - weights - judge) / stale / rate / steps_until(rng, 25))
    pieces, waiting = rng.choice(((0.5, 0.5), (0.7, 0.1, 0.1, 0.1), (0.3, 0.3, 0.39, 0.01))), []
    for step in itertools.count():
        for _ in range(rate):
            length, ends, old = data.length(rng), step + 1 + rng.expovariate(1 / patience), rng.random() < stale
            cache = write_answer(tape, size * length * 2, 3)
            kept = tape.new(*(record * length * piece for piece in pieces))
            tape.drop(cache + net.look(size * length * 0.5))
            waiting.append((ends, kept, old, length))
        due = [each for each in waiting if each[0] <= step]
        waiting = [each for each in waiting if each[0] > step]
        if any(not old for _, _, old, _ in due):
            adapter.train(net, size * max(length for _, _, old, length in due if not old))
            adapter.update()
        tape.drop(flat(kept for _, kept, old, _ in due if not (old and growth)))
        yield tape.step()


@add(intent="leak")
def hooks_registered_again(rng, capacity, growth):
    """Each evaluation registers its hooks anew and reads their lists; older hooks still write, and nobody reads theirs."""
    weights, passes = rng.uniform(0.2, 0.45), rng.uniform(0.06, 0.2)
    tape, room = begin(rng, capacity, weights)
    net, data, taps = Net(rng, tape), Data(rng), rng.randrange(1, 6)
    size = room * passes / data.longest / net.peak
    adapter = Trained(tape, room * 10 ** rng.uniform(-3, -2.2), rng.randrange(3, 12))
    long, evaluated = steps_until(rng, 40, 1400), rng.randrange(2, 9)
    every = max(3, int(long / rng.uniform(4, 14)))
    seen_1 = room * (0.9 - weights - passes) * 2 * every / taps / long ** 2
    seen, forgotten = [], 0
    for step in itertools.count(1):
        batch = data.length(rng)
        adapter.train(net, size * batch)
        seen += tape.new(*[seen_1] * taps)
        if growth:
            tape.new(*[seen_1] * (taps * forgotten))
        adapter.update()
        yield tape.step()
        if step % every == 0:
            for _ in range(evaluated):
                tape.drop(net.look(size * data.length(rng)))
            tape.drop(seen)
            seen, forgotten = [], forgotten + 1
            yield tape.step()


@add(intent="leak")
def trials_in_one_process(rng, capacity, growth):
    """A search for good settings: a trial that ran to its end is kept with adapter and optimizer, a stopped one goes."""
    weights, passes = rng.uniform(0.2, 0.5), rng.uniform(0.05, 0.2)
    tape, room = begin(rng, capacity, weights)
    net, data, lasts = Net(rng, tape), Data(rng), rng.randrange(3, 40)
    size = room * passes / data.longest / net.peak
    stopped, pieces = rng.uniform(0.1, 0.75), rng.randrange(4, 16)
    ranks, halves = rng.choice(((4, 8, 16), (8, 16, 32, 64), (16,), (32, 64, 128))), rng.random() < 0.3
    trials = max(4, min(80, steps_until(rng, 40) / lasts))
    rank_1 = room * (0.92 - weights - passes) / Trained.TIMES / trials / (1 - stopped) / (sum(ranks) / len(ranks))
    while True:
        rank, early, share = rng.choice(ranks), rng.random() < stopped, rng.uniform(0.1, 0.7)
        adapter = Trained(tape, min(rank_1 * rank, room * 0.01), pieces)
        for _ in range(max(1, int(lasts * (share if early else 1)))):
            adapter.train(net, size * data.length(rng))
            adapter.update()
            yield tape.step()
        for _ in range(3):
            tape.drop(net.look(size * data.length(rng) * (0.5 if halves else 1)))
        if early or not growth:
            adapter.end()
        yield tape.step()


@add(intent="design")
def collected_predictions(rng, capacity, growth):
    """An evaluation collects the logits of all its batches on the GPU to the end; the one after an epoch is the whole set."""
    weights, passes = rng.uniform(0.25, 0.5), rng.uniform(0.06, 0.2)
    tape, room = begin(rng, capacity, weights)
    net, data = Net(rng, tape), Data(rng)
    size = room * passes / data.longest / net.peak
    adapter = Trained(tape, room * 10 ** rng.uniform(-3.2, -2.2), rng.randrange(3, 12))
    every, batches = int(steps_until(rng, 5, 300)), int(steps_until(rng, 12, 500))
    logits = room * (0.95 - weights - passes) * rng.uniform(1, 3) / batches
    epoch, quick = rng.randrange(1, 5), rng.uniform(0.05, 0.4)
    for round_ in itertools.count(1):
        for _ in range(every):
            adapter.train(net, size * data.length(rng))
            adapter.update()
            yield tape.step()
        collected = []
        for _ in range(max(1, int(batches * (1 if round_ % epoch == 0 else quick)))):
            length = data.length(rng)
            shown = net.look(size * length)
            predicted = tape.new(logits * length * 0.98, logits * length * 0.02)
            tape.drop(shown + ([] if growth else predicted))
            collected += predicted if growth else []
            yield tape.step()
        tape.drop(collected)


@add(intent="design")
def teacher_cache(rng, capacity, growth):
    """Distillation: what the teacher says of a batch is kept from the first epoch on, up to a budget, for the later ones."""
    teacher, student, passes = rng.uniform(0.2, 0.4), rng.uniform(0.03, 0.1), rng.uniform(0.05, 0.18)
    tape, room = begin(rng, capacity, teacher, student)
    net, big, data = Net(rng, tape), Net(rng, tape), Data(rng)
    size = room * passes / data.longest / net.peak
    adapter = Trained(tape, room * rng.uniform(0.002, 0.01), rng.randrange(3, 12))
    batches, free = int(steps_until(rng, 50, 1300)), 0.93 - teacher - student - passes
    lengths = [data.length(rng) for _ in range(batches)]
    entry, budget = room * free * rng.uniform(1.1, 2.8) / sum(lengths), room * free * rng.uniform(1, 2.2)
    cached, held, shards = set(), 0, rng.choice((1, 2, 4))
    while True:
        for batch in rng.sample(range(batches), batches):
            length = lengths[batch]
            if batch not in cached:
                tape.drop(big.look(size * length * 1.5))
                told = tape.new(*[entry * length / shards] * shards)
            adapter.train(net, size * length)
            if batch not in cached and growth and held + entry * length <= budget:
                cached.add(batch)
                held += entry * length
            elif batch not in cached:
                tape.drop(told)
            adapter.update()
            yield tape.step()


@add(intent="demand")
def length_curriculum(rng, capacity, growth):
    """The examples become longer by a plan, in stages or little by little; the plan ends far above what fits."""
    weights = rng.uniform(0.15, 0.5)
    tape, room = begin(rng, capacity, weights)
    net, adapter = Net(rng, tape), Trained(tape, room * rng.uniform(0.001, 0.015), rng.randrange(3, 16))
    first, last = rng.uniform(0.03, 0.15), rng.uniform(1.2, 2.5)
    planned, stages = steps_until(rng, 40, 2200), rng.choice((0, 0, 4, 6, 10))
    square, noise = rng.choice((0, 0, 0.3)), rng.uniform(0, 0.25)  # attention without a fused kernel
    micro, every = rng.choice((1, 1, 2)), rng.randrange(20, 200)
    for step in itertools.count():
        done = min(1.0, step / planned) if growth else 0.0
        done = math.floor(done * stages) / stages if stages else done
        length = first * (last / first) ** done
        for _ in range(micro):
            drawn = length * (1 - noise * rng.random())
            size = room * (1 - weights) * drawn / net.peak
            mask = tape.new(size * square * drawn * net.peak)
            adapter.train(net, size)
            tape.drop(mask)
        adapter.update()
        if step % every == every - 1:
            tape.drop(net.look(size))
        yield tape.step()


@add(intent="demand")
def answers_become_longer(rng, capacity, growth):
    """The policy learns that longer answers are rewarded: attention caches and training batches grow with them."""
    weights, judge = rng.uniform(0.15, 0.4), rng.choice((0, 0.05, 0.12))
    tape, room = begin(rng, capacity, weights, judge or 0.01)
    net, free = Net(rng, tape, 6), room * (1 - weights - max(judge, 0.01))
    adapter = Trained(tape, room * rng.uniform(0.0005, 0.008), rng.randrange(3, 9))
    first, limit, spread = rng.uniform(0.08, 0.25), rng.uniform(1.2, 3), rng.uniform(0.1, 0.4)
    learnt, late, group = steps_until(rng, 30, 1400), rng.uniform(0, 0.5), rng.randrange(2, 6)
    cache, bend = rng.uniform(0.3, 1.1), rng.choice((1, 1, 2))
    for step in itertools.count():
        progress = max(0.0, step / learnt - late) if growth else 0.0
        usual = min(limit, first + (1.1 - first) * progress ** bend)
        lengths = [min(limit, usual * rng.lognormvariate(0, spread)) for _ in range(group)]
        answers = [write_answer(tape, free * cache / group * length, 4) for length in lengths]
        scores = tape.new(*(free * 0.002 * length for length in lengths))
        tape.drop(flat(answers))
        for length in (max(lengths), sum(lengths) / group):
            size = free * length * 0.9 / net.peak
            reference = net.look(size)
            adapter.train(net, size)
            tape.drop(reference)
        adapter.update()
        tape.drop(scores)
        yield tape.step()


@add(intent="demand")
def jobs_of_more_users(rng, capacity, growth):
    """A service tunes an adapter for each user over one base, all in one batch; more and more users hand in jobs."""
    weights = rng.uniform(0.15, 0.4)
    tape, room = begin(rng, capacity, weights)
    net, long, life = Net(rng, tape), steps_until(rng, 60), rng.uniform(8, 60)
    free, at_first = room * (1 - weights), rng.uniform(2, 8)
    share, own = rng.uniform(0.1, 0.25), rng.uniform(0.3, 0.8)  # the part that is a job's adapter, the rest are batches
    adapter_1 = free * share * own / at_first / Trained.TIMES
    batch_1 = free * share * (1 - own) / at_first / net.peak
    rate, more, jobs = at_first / life, rng.uniform(4, 10) / share / 10, []
    for step in itertools.count():
        for ends, adapter in jobs:
            if ends <= step:
                adapter.end()
        jobs = [job for job in jobs if job[0] > step]
        level = rate * (1 + (more * step / long if growth else 0))
        for _ in range(8):
            comes, rank, lasts = rng.random() < level / 8, rng.choice((0.25, 0.5, 1, 1, 2)), rng.expovariate(1 / life)
            if comes:
                jobs.append((step + 1 + lasts, Trained(tape, adapter_1 * rank, 3)))
        size = batch_1 * max(1, len(jobs)) * rng.uniform(0.7, 1.1)
        net.backward(net.forward(size), size)
        for _, adapter in jobs:
            adapter.collect()
        for _, adapter in jobs:
            adapter.update()
        yield tape.step()


@add()
def unfreezing(rng, capacity, _growth):
    """Layers are unfrozen one by one; their moments come to lie between freed activations, and the batch is set anew to fit."""
    weights, budget = rng.uniform(0.1, 0.2), rng.uniform(0.9, 0.97)
    tape, room = begin(rng, capacity, weights)
    net, layers = Net(rng, tape), rng.randrange(10, 30)
    layer, every = room * weights / layers, int(steps_until(rng, 3, 90))
    most, pieces, micro = rng.uniform(0.35, 0.6), rng.randrange(2, 5), rng.choice((1, 2))
    shapes = rng.choice(((0.55, 0.7, 0.8, 0.9, 1), (0.3, 0.6, 1, 1), (0.83, 0.91, 0.96, 1)))
    trained, held = [], weights * room
    for step in itertools.count():
        more = layer * Trained.TIMES
        if step % every == 0 and held + more < room * (weights + most) and len(trained) < layers:
            trained.append(Trained(tape, layer, pieces))
            held += more
        for _ in range(micro):
            size = (room * budget - held) / (net.peak + 0.01) * rng.choice(shapes) * rng.uniform(0.94, 1)
            net.backward(net.forward(size), size)
            for part in trained:
                part.collect()
        for part in trained:
            part.update()
        yield tape.step()


@add()
def replayed_rollouts(rng, capacity, _growth):
    """Rollouts of all lengths are kept for replay and go in no order; the training batch takes what the budget leaves."""
    weights, budget = rng.uniform(0.1, 0.35), rng.uniform(0.88, 0.96)
    tape, room = begin(rng, capacity, weights)
    net, kept_most = Net(rng, tape), room * rng.uniform(0.25, 0.45)
    usual = kept_most / rng.randrange(20, 150)
    spread, fresh = rng.uniform(0.4, 1.0), rng.randrange(1, 5)
    pieces, oldest = rng.choice(((1,), (0.6, 0.4), (0.45, 0.45, 0.05, 0.05))), rng.random() < 0.3
    adapter = Trained(tape, room * rng.uniform(0.0005, 0.004), rng.randrange(3, 12))
    fixed = room * weights + adapter.TIMES * sum(adapter.sizes)
    kept, held = [], 0
    while True:
        for _ in range(fresh):
            size = usual * min(4, rng.lognormvariate(-spread * spread / 2, spread))
            kept.append((size, tape.new(*(size * piece for piece in pieces))))
            held += size
            while held > kept_most:
                # by reward: chance, seen from here
                size, names = kept.pop(0 if oldest and rng.random() < 0.7 else rng.randrange(len(kept)))
                held -= size
                tape.drop(names)
        left = room * budget - fixed - held
        adapter.train(net, min(left, room * 0.5) / net.peak * rng.uniform(0.75, 1))
        adapter.update()
        yield tape.step()


@add()
def ranks_by_importance(rng, capacity, _growth):
    """Ranks move from matrix to matrix within a fixed sum; each move makes new tensors where activations were before."""
    weights, total, budget = rng.uniform(0.1, 0.35), rng.uniform(0.15, 0.35), rng.uniform(0.9, 0.97)
    tape, room = begin(rng, capacity, weights)
    net, matrices = Net(rng, tape), rng.randrange(8, 30)
    unit, every = room * total / matrices, int(steps_until(rng, 2, 40))
    shares, moves, step_of_rank = [1.0] * matrices, rng.randrange(1, 5), rng.uniform(0.08, 0.3)
    parts = (0.2, 0.4, 0.4)  # weights and two moments
    held = [tape.new(*(unit * part for part in parts)) for _ in shares]
    size = room * (budget - weights - total * 1.2) / net.peak
    even = rng.random() < 0.4  # packed
    for step in itertools.count():
        batch = size * (rng.uniform(0.97, 1) if even else rng.uniform(0.5, 1))
        net.backward(net.forward(batch), batch)
        tape.drop(tape.new(*(unit * share * parts[0] for share in shares)))
        for _ in range(moves if step % every == every - 1 else 0):
            loses, gains = rng.sample(range(matrices), 2)
            moved = min(step_of_rank * rng.uniform(0.5, 1.5), shares[loses] - 0.1)
            for which, change in ((loses, -moved), (gains, moved)):
                shares[which] += change
                after = tape.new(*(unit * shares[which] * part for part in parts))
                tape.drop(held[which])
                held[which] = after
        yield tape.step()


@add()
def sampler_beside(rng, capacity, _growth):
    """A server for rollouts shares the GPU and sleeps while we train; a colleague's notebook there holds more and more."""
    weights, asleep, awake = rng.uniform(0.12, 0.3), rng.uniform(0.02, 0.08), rng.uniform(0.15, 0.3)
    tape, room = begin(rng, capacity, weights)
    net, data, adapter = Net(rng, tape), Data(rng), Trained(tape, room * rng.uniform(0.001, 0.01), rng.randrange(3, 12))
    size = room * rng.uniform(0.15, 0.35) / data.longest / net.peak
    round_, polite, slow = rng.randrange(3, 30), rng.random() < 0.5, rng.choice((0, 0, 1, 2))
    cells = rng.uniform(0.01, 0.06)
    often, restarts = min(0.5, 0.7 / cells / steps_until(rng, 30)), rng.choice((0, 0, 0.002))
    notebook = 0.0
    for step in itertools.count():
        runs, grows, closed = rng.random() < often, rng.uniform(0.4, 1.6), rng.random() < restarts
        notebook = 0.0 if closed else min(0.85, notebook + (cells * grows if runs else 0.0))
        sampling = step % round_ == 0
        if sampling and polite:
            tape.written.append(("e",))
        other = awake if step % round_ <= slow else asleep
        tape.written.append(("o", int(room * min(0.95, other + notebook))))
        length = data.length(rng)
        if sampling:
            tape.drop(tape.new(*adapter.sizes, stream=1))  # the new weights go over to the server
        else:
            adapter.train(net, size * length)
            adapter.update()
        yield tape.step()


@add()
def longest_example(rng, capacity, _growth):
    """A shuffled data set without a limit of length: most examples are short, and some day the longest one comes."""
    weights = rng.uniform(0.2, 0.6)
    tape, room = begin(rng, capacity, weights)
    net, adapter = Net(rng, tape), Trained(tape, room * rng.uniform(0.0005, 0.01), rng.randrange(3, 16))
    free, tail = room * (1 - weights), rng.uniform(1.6, 3.2)
    longest, micro = free * rng.uniform(0.9, 2.5), rng.choice((1, 1, 2, 3))
    usual = free / (2 * micro * steps_until(rng, 15, 1200)) ** (1 / tail)
    peers, buffer = rng.randrange(1, 8), rng.choice((8, 32, 96)) * MIB
    # a reward model may run in another runtime, whose arena only grows
    arena, scores_most = 0, rng.choice((0, 0, free * 0.2, free * 0.45))
    for step in itertools.count():
        for _ in range(micro):
            size = min(longest, usual * rng.paretovariate(tail))
            tokens = tape.new(size * 0.0005, size * 0.0005)
            adapter.train(net, size / net.peak)
            tape.drop(tokens)
        adapter.update()
        arena = max(arena, scores_most * min(1.0, 2 * size / free))
        tape.written.append(("x", int(arena) + buffer * min(peers, step + 1)))
        yield tape.step()
