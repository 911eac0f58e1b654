# SPDX-License-Identifier: Apache-2.0
"""A program as the allocator sees it: steps of allocations and frees, made from a seed.

A step is a list of operations:

    ("a", name, bytes)            allocate            ("o", bytes)  other processes hold that much now
    ("f", name)                   free                ("x", bytes)  this process holds that much beside the allocator
    ("a", name, bytes, stream)    on another stream   ("e",)        empty_cache()

A family's generator is a function of (rng, capacity, growth): an iterator of steps, without end unless the program has
one. `rng` is random.Random. If growth is False, what grows is left out, and everything else must stay the same: draw the
same numbers in the same order.
"""
import dataclasses
import random
import zlib

MIB = 1 << 20
GIB = 1 << 30
CAPACITIES = tuple(n * GIB for n in (8, 12, 16, 24, 32, 48, 64, 80, 128, 192, 288))

SEEN, UNSEEN = [], []


@dataclasses.dataclass(frozen=True)
class Generator:
    family: str
    name: str
    make: object         # (rng, capacity, growth) -> iterator of steps
    intent: str          # of the growth: "leak", "design", "demand", "" = it has none
    weight: int = 1      # how often, against the others


@dataclasses.dataclass(frozen=True)
class Program:
    generator: Generator
    seed: int
    capacity: int
    base: int            # what the driver holds
    context: int         # what the runtime of this process holds
    step_s: float
    load_s: float        # how long the first step takes
    busy: float = 0.0    # share of a step's time that grows with its operations

    @property
    def name(self):
        return f"{self.generator.family}.{self.generator.name}.{self.seed}"

    def steps(self, growth=True):
        return self.generator.make(random.Random(self.seed), self.capacity, growth)


class Pace:
    """How long each step takes. The usual number of operations is the largest of the first steps."""
    FIRST_STEPS = 3

    def __init__(self, program):
        self.program, self.usual = program, 0

    def step_s(self, number, operations):
        if number == 0:
            return self.program.load_s
        if number <= self.FIRST_STEPS:
            self.usual = max(self.usual, operations)
        return self.program.step_s * (1 - self.program.busy + self.program.busy * operations / max(1, self.usual))


def generator(registry, family, intent="", weight=1):
    def add(function):
        registry.append(Generator(family, function.__name__, function, intent, weight))
        return function
    return add


def make_programs(generators, count, seed):
    """The same programs for the same seed; every generator in its turn, by weight. If there are fewer programs than turns, they
    are taken from all families, not from the first ones."""
    turns = [g for g in generators for _ in range(g.weight)]
    for i in range(count):
        chosen = turns[i * max(count, len(turns)) // count % len(turns)]
        yield program_from(chosen, zlib.crc32(f"{seed}.{i}.{chosen.family}.{chosen.name}".encode()))


def program_from(chosen, seed):
    rng = random.Random(seed ^ 0x5bd1e995)
    return Program(chosen, seed, rng.choice(CAPACITIES), rng.randrange(16, 128) * MIB,
                   rng.randrange(180, 700) * MIB, 10 ** rng.uniform(-2.3, 0.3), 10 ** rng.uniform(-0.5, 1.3),
                   rng.uniform(0, 1))


def program_named(name):
    """The program of a name in a table of the laboratory."""
    family, generator_name, seed = name.split(".")
    chosen = next(g for g in SEEN + UNSEEN if (g.family, g.name) == (family, generator_name))
    return program_from(chosen, int(seed))


# --- what programs are made of ---

class Names:
    """A new name for each tensor."""

    def __init__(self):
        self.last = 0

    def __call__(self):
        self.last += 1
        return self.last


def at_least(size):
    """PyTorch hands out 512 bytes and more."""
    return max(512, int(size))


def room_of(capacity):
    """Leaves room for the memory of driver and runtime."""
    return capacity - 900 * MIB


def sizes_of_model(rng, total, layers=(12, 16, 24, 32, 40)):
    """Parameters of a transformer of some `total` bytes: embedding, per layer four to six matrices and norms."""
    layers = rng.choice(layers)
    embedding = int(total * rng.uniform(0.03, 0.12))
    layer = (total - embedding) // layers
    parts = rng.choice(((1, 1, 1, 1, 4, 4), (1, 1, 1, 1, 2.7, 2.7, 2.7), (3, 1, 4, 4)))
    matrices = [int(layer * part / sum(parts)) for part in parts]
    norm = max(1024, int((layer ** 0.5) // 2))
    return [embedding] + [size for _ in range(layers) for size in (*matrices, norm, norm)]


def load(names, sizes):
    kept = [(names(), size) for size in sizes]
    return kept, [("a", name, size) for name, size in kept]


def activations_of(rng, total, layers):
    """A layer's activations: a few large, some small; about `total` bytes over all layers."""
    shape = [rng.choice((1, 1, 2, 4, 0.25, 0.01)) for _ in range(rng.randrange(4, 9))]
    share = total / layers / sum(shape)
    return [[max(512, int(part * share)) for part in shape] for _ in range(layers)]


def forward(names, layers, temporaries=(), scale=1.0):
    """Operations and what they leave: each layer keeps its activations; a temporary goes within the layer."""
    operations, kept = [], []
    for layer in layers:
        mine = []
        for size in layer:
            name = names()
            operations.append(("a", name, int(size * scale)))
            mine.append(name)
        for size in temporaries:
            name = names()
            operations += [("a", name, int(size * scale)), ("f", name)]
        kept.append(mine)
    return operations, kept


def backward(names, kept, gradients=()):
    """Layers in reverse: a gradient of the layer's size comes and goes, its activations go; parameters' gradients stay."""
    operations, left, per_layer = [], [], max(1, -(-len(gradients) // max(1, len(kept))))
    waiting = list(gradients)
    for mine in reversed(kept):
        for size in waiting[:per_layer]:
            name = names()
            operations.append(("a", name, size))
            left.append(name)
        del waiting[:per_layer]
        operations += [("f", name) for name in reversed(mine)]
    return operations, left


def free_all(kept):
    return [("f", name) for name in kept]
