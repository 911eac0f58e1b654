# SPDX-License-Identifier: Apache-2.0
"""Unseen: loops of training with more than one phase. Written when the rules were fixed; nothing is tuned on these."""
import functools
import itertools

from program import (UNSEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_loops")


class Trainee:
    """A model with gradients and Adam; `micro()` is one forward and backward pass."""

    def __init__(self, rng, capacity, *, weights=(0.03, 0.12), activations=(0.08, 0.3)):
        self.names = Names()
        self.sizes = sizes_of_model(rng, int(capacity * rng.uniform(*weights)), (8, 12, 16))
        self.layers = activations_of(rng, int(capacity * rng.uniform(*activations)), rng.choice((8, 12, 16)))
        self.stepped = False

    def load(self):
        return load(self.names, self.sizes)[1]

    def micro(self, scale=1.0, gradients=True):
        """(operations, names of the gradients)"""
        operations, kept = forward(self.names, self.layers, [self.layers[0][0] // 2], scale)
        more, made = backward(self.names, kept, self.sizes if gradients else ())
        return operations + more, made

    def optimizer(self):
        first, self.stepped = not self.stepped, True
        return [("a", self.names(), size) for size in self.sizes for _ in range(2)] if first else []

    def step(self, scale=1.0):
        operations, gradients = self.micro(scale)
        return operations + self.optimizer() + free_all(gradients)

    def look(self, scale=1.0):
        """(a forward pass without a graph, nothing of it stays)"""
        operations, kept = forward(self.names, self.layers, (), scale)
        return operations + free_all(name for mine in kept for name in mine)


def generate(names, layers, token, lengths):
    """Answers by a cache that is copied into a larger one every few tokens; the answers and the cache are left."""
    cache, operations = [(names(), token) for _ in range(layers)], []
    operations += [("a", *each) for each in cache]
    for length in range(2, max(lengths) + 1):
        alive = sum(1 for each in lengths if each >= length)
        larger = [(names(), max(512, token * length * alive // len(lengths))) for _ in cache]
        for old, new in zip(cache, larger):
            operations += [("a", *new), ("f", old[0])]
        cache = larger
    return operations, [name for name, _ in cache]


def reinforce(rng, capacity, length, kept, *, clears):
    """Generate, score, train. `kept(names, answers)`: operations that leave something of a round for good."""
    trainee = Trainee(rng, capacity, activations=(0.1, 0.25))
    names, layers = trainee.names, rng.choice((4, 8, 12))
    token = int(capacity * rng.uniform(0.05, 0.15) / layers / 12)
    yield trainee.load()
    for number in itertools.count():
        lengths = [max(2, int(length(number) * rng.uniform(0.3, 1))) for _ in range(8)]
        operations, cache = generate(names, layers, token, lengths)
        operations += kept(names, lengths) + free_all(cache)
        yield operations + ([("e",)] if clears else [])
        for _ in range(2):
            yield trainee.step(max(lengths) / 16)


@add(intent="leak", weight=2)
def rollouts_kept(rng, capacity, growth):
    """Log-probabilities of all answers go into a list of statistics, which nobody empties."""
    size = capacity * rng.uniform(0.0005, 0.01)
    return reinforce(rng, capacity, lambda _: 16, lambda names, lengths: [
        ("a", names(), max(512, int(size * each / 16))) for each in lengths[:3]] if growth else [],
        clears=rng.random() < 0.5)


@add(intent="demand", weight=2)
def longer_answers(rng, capacity, growth):
    """The policy learns to answer at length."""
    rate = rng.uniform(0.1, 1.0)
    return reinforce(rng, capacity, lambda number: 12 + (number * rate if growth else 0), lambda names, lengths: [],
                     clears=rng.random() < 0.5)


@add()
def one_long_answer(rng, capacity, _growth):
    """An answer that does not end: the batch is padded to it."""
    at, times = rng.randrange(5, 40), rng.uniform(4, 8)
    return reinforce(rng, capacity, lambda number: 14 * (times if number >= at else 1), lambda names, lengths: [],
                     clears=rng.random() < 0.3)


@add(intent="design", weight=2)
def outputs_until_the_end(rng, capacity, growth):
    """An evaluation holds the logits of all batches until its end; the set is too large for that."""
    trainee = Trainee(rng, capacity)
    yield trainee.load()
    for _ in range(rng.randrange(5, 60)):
        yield trainee.step(rng.uniform(0.7, 1))
    logits = capacity * 10 ** rng.uniform(-2.7, -1.7)
    while True:
        length = rng.uniform(0.4, 1)
        yield trainee.look(length) + ([("a", trainee.names(), int(logits * length))] if growth else [])


@add(intent="leak")
def graph_of_validation(rng, capacity, growth):
    """The validation loss of each epoch is kept with its graph."""
    trainee = Trainee(rng, capacity, activations=(0.04, 0.12))
    yield trainee.load()
    every = rng.randrange(4, 20)
    for number in itertools.count(1):
        yield trainee.step(rng.uniform(0.7, 1))
        if number % every == 0:
            operations, kept = forward(trainee.names, trainee.layers, (), 0.5)
            yield operations + ([] if growth else free_all(name for mine in kept for name in mine))


@add(intent="leak", weight=2)
def state_not_detached(rng, capacity, growth):
    """The state of a recurrent network goes from batch to batch with the graph behind it."""
    trainee = Trainee(rng, capacity, activations=(0.05, 0.3))
    yield trainee.load()
    pieces = [capacity * 10 ** rng.uniform(-5, -3) for _ in range(rng.randrange(6, 30))]
    while True:
        length = rng.uniform(0.5, 1)
        held = [("a", trainee.names(), max(512, int(size * length))) for size in pieces]
        operations, gradients = trainee.micro(length)
        yield held + operations + trainee.optimizer() + free_all(gradients) + (
            [] if growth else free_all(name for _, name, _ in held))


@add(weight=2)
def odd_last_batch(rng, capacity, _growth):
    """Gradients are accumulated; the last batch of an epoch takes what the others left over, and is larger."""
    trainee = Trainee(rng, capacity, activations=(0.15, 0.35))
    yield trainee.load()
    micros, batches, last = rng.randrange(2, 8), rng.randrange(10, 60), rng.uniform(1.5, 5)
    for number in itertools.count(1):
        operations, gradients = trainee.micro(rng.uniform(0.9, 1))
        for _ in range(micros - 1):
            operations += trainee.micro(rng.uniform(0.9, 1), gradients=False)[0]
        if number % batches == 0:
            operations += trainee.micro(last, gradients=False)[0]
        yield operations + trainee.optimizer() + free_all(gradients)


@add(intent="demand")
def accumulates_more(rng, capacity, growth):
    """The losses of all micro-batches are summed before backward; a schedule makes them more."""
    trainee = Trainee(rng, capacity, activations=(0.02, 0.06))
    yield trainee.load()
    every = rng.randrange(2, 12)
    for number in itertools.count():
        operations, graphs = [], []
        for _ in range(2 + (number // every if growth else 0)):
            more, kept = forward(trainee.names, trainee.layers, (), 1.0)
            operations += more
            graphs += kept
        more, gradients = backward(trainee.names, graphs, trainee.sizes)
        yield operations + more + trainee.optimizer() + free_all(gradients)


@add(intent="demand")
def progressive_resizing(rng, capacity, growth):
    """Pictures of higher resolution in each stage."""
    trainee = Trainee(rng, capacity, activations=(0.05, 0.15))
    yield trainee.load()
    every, factor = rng.randrange(5, 60), rng.uniform(1.2, 1.6)
    for number in itertools.count():
        yield trainee.step((factor ** (number // every) if growth else 1) * rng.uniform(0.97, 1))


@add(weight=2)
def hub_in_the_batch(rng, capacity, _growth):
    """Neighbours of a batch of nodes: their number has a long tail."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.02, 0.3))))[1]
    mean, tail = capacity * rng.uniform(0.02, 0.06), rng.uniform(0.4, 0.9)
    while True:
        edges = rng.lognormvariate(0, tail)
        operations, held = [], []
        for part in (0.3, 1, 1.5):
            size = mean * edges * part
            messages, out = names(), names()
            operations += [("a", messages, max(512, int(size))), ("a", out, max(512, int(size * rng.uniform(0.1, 0.5)))),
                           ("f", messages)]
            held.append(out)
        yield operations + free_all(reversed(held))


@add(weight=2)
def evaluator_beside(rng, capacity, _growth):
    """At each checkpoint another process evaluates on the same GPU, and goes; one time it takes far more."""
    trainee = Trainee(rng, capacity, weights=(0.03, 0.08), activations=(0.1, 0.2))
    every, usual, large = rng.randrange(5, 20), rng.uniform(0.05, 0.15), rng.uniform(0.7, 0.9)
    at = rng.randrange(1, 6)
    yield [("o", 0)] + trainee.load()
    for number in itertools.count(1):
        there = number % every >= every // 2
        share = (large if number // every >= at else usual) if there else 0
        yield [("o", int(capacity * share))] + trainee.step(rng.uniform(0.6, 1))
