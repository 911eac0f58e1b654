# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of the field: simulations, graphs, agents, pictures and films. Nothing is tuned on these."""
import functools
import itertools

from program import (MIB, UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load,
                     room_of, sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_field")


def come_and_go(names, sizes):
    """All of them at once, and all of them gone."""
    held = [("a", names(), at_least(size)) for size in sizes]
    return held + free_all(name for _, name, _ in reversed(held))


@add(intent="demand")
def particles_multiply(rng, capacity, growth):
    """A plasma code: ionisation makes particles, and their arrays are copied into longer ones when they are full."""
    names = Names()
    grids = [at_least(capacity * rng.uniform(0.003, 0.02)) for _ in range(6)]
    columns = [1, 1, 1, 1, 1, 1, 0.5, 0.25]      # positions, momenta, weight, cell
    share = capacity * rng.uniform(0.08, 0.18) / sum(columns)
    rate, spare = rng.uniform(0.01, 0.08), rng.uniform(1.05, 1.35)
    length = spare
    arrays = [names() for _ in columns]
    yield load(names, grids)[1] + [("a", name, at_least(share * part * length)) for name, part in zip(arrays, columns)]
    for number in itertools.count():
        particles = 1 + (rate * number if growth else 0)
        operations = []
        if particles > length:
            length = particles * spare
            for i, part in enumerate(columns):
                longer = names()
                operations += [("a", longer, at_least(share * part * length)), ("f", arrays[i])]
                arrays[i] = longer
        moved = particles * rng.uniform(0.9, 1)
        # keys, order and one column as the sort by cells needs it; then the currents, scattered to the grid
        operations += come_and_go(names, (share * moved * 0.5, share * moved * 0.5, share * moved))
        operations += come_and_go(names, grids[:3])
        yield operations


@add()
def patches_regridded(rng, capacity, _growth):
    """An adaptive mesh: patches of all sizes come and go, never more than a budget of cells; between two meshes, the
    unknowns of all patches are put into one flat vector for the solver."""
    names, room = Names(), room_of(capacity)
    budget, flat = room * rng.uniform(0.48, 0.54), room * rng.uniform(0.33, 0.37)
    usual, spread = room * rng.uniform(0.003, 0.009), rng.uniform(0.6, 1.0)
    part, fields = rng.uniform(0.1, 0.35), rng.randrange(2, 5)
    patches, total = [], 0

    def refine():
        """New patches until there is no budget for one more."""
        nonlocal total
        operations = []
        while True:
            size = at_least(min(usual * rng.lognormvariate(0, spread), room * 0.05) / fields)
            if total + size * fields > budget:
                return operations
            mine = [names() for _ in range(fields)]
            operations += [("a", name, size) for name in mine]
            patches.append((mine, size * fields))
            total += size * fields

    yield refine()
    while True:
        operations = []
        for _ in range(rng.randrange(1, 4)):
            operations += come_and_go(names, (flat * rng.uniform(0.55, 1),))
        for _ in range(max(1, int(len(patches) * part))):
            mine, size = patches.pop(rng.randrange(len(patches)))
            operations += free_all(mine)
            total -= size
        yield operations + refine()


@add(intent="design", weight=2)
def replay_on_device(rng, capacity, growth):
    """Off-policy learning: episodes of all lengths go to a replay buffer on the GPU, whose limit lies beyond it."""
    names = Names()
    actor = sizes_of_model(rng, int(capacity * rng.uniform(0.004, 0.02)), (4, 6, 8))
    layers = activations_of(rng, int(capacity * rng.uniform(0.04, 0.15)), rng.choice((4, 6, 8)))
    episode = capacity * 10 ** rng.uniform(-2.5, -1.9)
    updates = rng.randrange(1, 4)
    yield load(names, actor)[1] + [("a", names(), size) for size in actor for _ in range(2)]
    while True:
        length = rng.uniform(0.15, 1)
        # the rollout: frames as they come, then one tensor of the whole episode
        frames = [("a", names(), at_least(episode * length / 8)) for _ in range(8)]
        yield frames + ([("a", names(), at_least(episode * length)), ("a", names(), at_least(episode * length / 90)),
                         ("a", names(), at_least(episode * length / 900))] if growth else []) + free_all(
                             name for _, name, _ in frames)
        for _ in range(updates):
            batch, scale = names(), rng.uniform(0.95, 1)
            operations, kept = forward(names, layers, (), scale)
            more, gradients = backward(names, kept, actor)
            yield [("a", batch, at_least(layers[0][0] * scale))] + operations + more + free_all(gradients) + [("f", batch)]


@add()
def whole_graph_at_the_end(rng, capacity, _growth):
    """A graph network learns from sampled neighbourhoods; after each epoch, it is applied to the whole graph."""
    names = Names()
    weights = sizes_of_model(rng, int(capacity * rng.uniform(0.002, 0.02)), (2, 3, 4))
    features = at_least(capacity * rng.uniform(0.12, 0.3))
    sampled, shrink = capacity * rng.uniform(0.03, 0.12), rng.uniform(0.2, 0.5)
    steps, hops = rng.randrange(12, 60), rng.randrange(2, 5)
    hidden, messages = capacity * rng.uniform(0.08, 0.25), capacity * rng.uniform(0.95, 1.7)
    yield load(names, weights)[1] + [("a", names(), features)] + [("a", names(), size) for size in weights for _ in range(2)]
    while True:
        for _ in range(steps):
            operations, held, size = [], [], sampled * rng.uniform(0.4, 1)
            for _ in range(hops):
                edges, gathered, out = names(), names(), names()
                operations += [("a", edges, at_least(size / 32)), ("a", gathered, at_least(size)),
                               ("a", out, at_least(size * shrink)), ("f", gathered)]
                held += [edges, out]
                size *= shrink * rng.uniform(0.7, 1)
            yield operations + free_all(reversed(held))
        yield come_and_go(names, (hidden, messages, hidden))


@add()
def film_of_a_minute(rng, capacity, _growth):
    """Text encoder, denoiser and decoder are moved in and out of the GPU in turn. The films are short; then somebody
    asks for a long one."""
    names = Names()
    encoder = sizes_of_model(rng, int(capacity * rng.uniform(0.15, 0.35)), (12, 24))
    denoiser = sizes_of_model(rng, int(capacity * rng.uniform(0.25, 0.42)), (16, 24, 32))
    decoder = sizes_of_model(rng, int(capacity * rng.uniform(0.01, 0.03)), (8, 12))
    attention, pixels = capacity * rng.uniform(0.08, 0.2), capacity * rng.uniform(0.35, 0.5)
    at, long, iterations = rng.randrange(4, 25), rng.uniform(3.5, 7), rng.randrange(2, 6)
    yield [("a", names(), 64 * MIB)]
    for number in itertools.count():
        frames = long if number >= at else rng.uniform(0.5, 1)
        loaded, operations = load(names, encoder)
        prompt = names()
        yield operations + [("a", prompt, 4 * MIB)] + free_all(name for name, _ in loaded) + [("e",)]
        loaded, operations = load(names, denoiser)
        latents = names()
        operations.append(("a", latents, at_least(pixels * frames / 48)))
        for _ in range(iterations):
            operations += come_and_go(names, [attention * frames * part for part in (0.2, 0.2, 0.2, 0.4)])
        yield operations + free_all(name for name, _ in loaded) + [("e",)]
        loaded, operations = load(names, decoder)
        # the decoder makes the film larger, stage by stage
        before = latents
        for part in (0.06, 0.15, 0.35, 0.65):
            after = names()
            operations += [("a", after, at_least(pixels * frames * part)), ("f", before)]
            before = after
        yield operations + [("f", before), ("f", prompt)] + free_all(name for name, _ in loaded) + [("e",)]


@add()
def checkpoints_swapped(rng, capacity, _growth):
    """Pictures by many checkpoints of different architectures: as many stay loaded as a bound in bytes allows, the one
    used longest ago goes. Each picture is decoded at the size that the user wants."""
    names, room = Names(), room_of(capacity)
    bound, decoding = room * rng.uniform(0.5, 0.54), room * rng.uniform(0.31, 0.35)
    models = [sizes_of_model(rng, int(room * rng.uniform(0.06, 0.17)), (8, 10, 12, 16, 20))
              for _ in range(rng.randrange(7, 13))]
    small = room * rng.uniform(0.003, 0.012)
    loaded = {}                                  # in the order of their use
    while True:
        operations, wanted = [], int(len(models) * rng.random() ** 1.3)
        if wanted not in loaded:
            while loaded and sum(models[wanted]) + sum(sum(models[each]) for each in loaded) > bound:
                operations += free_all(name for name, _ in loaded.pop(next(iter(loaded))))
            loaded[wanted], more = load(names, models[wanted])
            operations += more
        else:
            loaded[wanted] = loaded.pop(wanted)
        aspect = rng.uniform(0.55, 1)
        operations += come_and_go(names, [small * aspect * part for part in (1, 0.5, 0.25)])
        yield operations + come_and_go(names, (decoding * aspect,))


@add(intent="leak")
def energies_with_their_graph(rng, capacity, growth):
    """Molecular dynamics by a learned potential: the energies that are written down keep the edges that they came from."""
    names = Names()
    yield load(names, sizes_of_model(rng, int(capacity * rng.uniform(0.002, 0.02)), (4, 6)))[1] + [
        ("a", names(), at_least(capacity * rng.uniform(0.002, 0.03))) for _ in range(3)]
    layers = activations_of(rng, int(capacity * rng.uniform(0.05, 0.25)), rng.choice((3, 4, 5, 6)))
    recorded = capacity * 10 ** rng.uniform(-2.7, -1.8)
    every, pieces = rng.randrange(1, 5), rng.randrange(2, 8)
    for number in itertools.count():
        near = rng.uniform(0.85, 1)              # pairs within the cut-off
        neighbours, energy = names(), names()
        operations, kept = forward(names, layers, [layers[0][0] // 3], near)
        edges = [("a", names(), at_least(recorded * near / pieces)) for _ in range(pieces)]
        stays = growth and number % every == 0
        more, forces = backward(names, kept, (layers[0][-1] // 4,))
        yield [("a", neighbours, at_least(layers[0][0] * near / 4))] + edges + operations + [
            ("a", energy, 512)] + more + free_all(forces) + [("f", neighbours)] + (
                [] if stays else free_all(name for _, name, _ in edges) + [("f", energy)])


@add(weight=2)
def renderer_beside(rng, capacity, _growth):
    """An agent learns from pictures that a renderer makes on the same GPU, in a process of its own; the renderer loads
    scene after scene and drops none. The agent gives its cache back after each iteration."""
    names = Names()
    policy = sizes_of_model(rng, int(capacity * rng.uniform(0.01, 0.04)), (6, 8, 12))
    layers = activations_of(rng, int(capacity * rng.uniform(0.2, 0.32)), rng.choice((6, 8, 12)))
    first, scene, most = rng.uniform(0.05, 0.2), rng.uniform(0.006, 0.03), rng.uniform(0.8, 0.84)
    theirs, every = first, rng.randrange(1, 4)
    yield [("o", int(capacity * theirs))] + load(names, policy)[1] + [
        ("a", names(), size) for size in policy for _ in range(2)]
    for number in itertools.count():
        if number % every == 0:
            theirs = min(most, theirs + scene * rng.uniform(0.2, 1.8))
        length = rng.uniform(0.8, 1)
        rollout = [("a", names(), at_least(capacity * 0.005 * length)) for _ in range(8)]
        operations, kept = forward(names, layers, (), length)
        more, gradients = backward(names, kept, policy)
        yield [("o", int(capacity * theirs))] + rollout + operations + more + free_all(gradients) + free_all(
            name for _, name, _ in rollout) + [("e",)]
