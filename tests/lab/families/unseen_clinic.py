# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of a hospital's research: slides, volumes, sequences, patients. Nothing is tuned on these."""
import functools
import itertools

from program import (UNSEEN, Names, activations_of, at_least, backward, forward, free_all, generator, load, room_of,
                     sizes_of_model)

add = functools.partial(generator, UNSEEN, "unseen_clinic")


def take(names, sizes):
    """(names, operations) of new tensors."""
    mine = [(names(), at_least(size)) for size in sizes]
    return [name for name, _ in mine], [("a", name, size) for name, size in mine]


def come_and_go(names, sizes):
    """All of them at once, and all of them gone."""
    mine, operations = take(names, sizes)
    return operations + free_all(reversed(mine))


def train(names, layers, weights, scale=1.0):
    """A batch: forward, backward, and the gradients are set to None after the optimizer's step."""
    batch = names()
    operations, kept = forward(names, layers, [layers[0][0] // 3], scale)
    more, gradients = backward(names, kept, weights)
    return [("a", batch, at_least(layers[0][0] * scale / 4))] + operations + more + free_all(gradients) + [("f", batch)]


def trained_model(names, weights):
    """The weights and Adam's two moments."""
    return load(names, weights)[1] + [("a", names(), size) for size in weights for _ in range(2)]


@add()
def slides_of_all_sizes(rng, capacity, _growth):
    """Pathology: the tiles of a slide are encoded in batches, the features are joined, and attention looks at all of
    them. Most slides are biopsies; now and then one is the section of a whole organ."""
    names, room = Names(), room_of(capacity)
    encoder = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.12)), (12, 24))
    batch, features = room * rng.uniform(0.04, 0.15), room * rng.uniform(0.002, 0.006)
    usual, spread = rng.uniform(6, 20), rng.uniform(0.5, 0.9)
    gates = rng.uniform(0.5, 1.5)
    yield load(names, encoder)[1]
    while True:
        tiles = min(600, usual * rng.lognormvariate(0, spread))
        operations, found = [], []
        for number in range(int(tiles) + 1):
            part = 1 if number < int(tiles) else max(0.02, tiles - int(tiles))   # the last batch is not full
            passing, more = take(names, (batch * part, batch * part * 0.5, batch * part * 0.25))
            found.append(names())
            operations += more + [("a", found[-1], at_least(features * part))] + free_all(reversed(passing))
        joined = names()
        operations += [("a", joined, at_least(features * tiles))] + free_all(found)
        operations += come_and_go(names, [features * tiles * gates, features * tiles * gates, features * tiles / 64])
        yield operations + [("f", joined)]


@add()
def window_over_volumes(rng, capacity, _growth):
    """Segmentation of scans by a sliding window: the scores of all classes are added up in the size of the scan. What is
    found waits for the thread that writes it."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (6, 8, 12))
    classes = rng.choice((3, 5, 14, 24))
    usual, most = rng.uniform(0.25, 0.5), rng.uniform(0.7, 1.05)
    voxels = room / (2 * classes + 3)            # a scan of this size would need everything
    patch, waits = room * rng.uniform(0.03, 0.12), rng.randrange(1, 7)
    waiting = []
    yield load(names, network)[1]
    while True:
        size = voxels * min(most, usual * rng.lognormvariate(0, 0.45))
        held, operations = take(names, (size, size, size * classes))             # the scan, the weights, the scores
        for _ in range(rng.randrange(3, 12)):
            operations += come_and_go(names, (patch * 0.1, patch * 0.4, patch * 0.4, patch * 0.1))
        shares, labels = names(), names()
        operations += [("a", shares, at_least(size * classes)), ("a", labels, at_least(size / 4)), ("f", shares)]
        waiting.append(labels)
        while len(waiting) > waits:
            operations.append(("f", waiting.pop(0)))
        yield operations + free_all(reversed(held))


@add(weight=2)
def lesions_cropped(rng, capacity, _growth):
    """Crops around lesions are cut from scans that lie on the GPU, as many as a bound in bytes allows; each is replaced
    after some use. Now and then a whole scan is gone through in full resolution."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.03)), (4, 6, 8))
    bound, whole = room * rng.uniform(0.44, 0.5), room * rng.uniform(0.29, 0.35)
    usual, spread = room * rng.uniform(0.006, 0.02), rng.uniform(0.4, 0.9)
    crop, every = room * rng.uniform(0.01, 0.04), rng.randrange(2, 9)
    scans, total = [], 0
    yield trained_model(names, network)
    for number in itertools.count():
        size = min(room * 0.07, usual * rng.lognormvariate(0, spread))
        operations = []
        while total + size * 1.75 > bound:
            mine, was = scans.pop(rng.randrange(len(scans)))
            operations += free_all(mine)
            total -= was
        mine, more = take(names, (size, size * 0.25, size * 0.5))                # picture, labels, distances
        scans.append((mine, size * 1.75))
        total += size * 1.75
        operations += more
        for _ in range(rng.randrange(1, 4)):
            part = rng.uniform(0.3, 1)
            operations += come_and_go(names, [crop * part * each for each in (1, 0.5, 0.5, 0.25)])
        if number % every == 0:
            operations += come_and_go(names, (whole * rng.uniform(0.5, 1),))
        yield operations


@add(intent="design", weight=2)
def cohort_on_device(rng, capacity, growth):
    """Each scan is put on the GPU when it is first used, and stays there for all epochs. The cohort has an end."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 5, 6)))
    patients, all_of_them = rng.randrange(30, 300), room * rng.uniform(0.4, 1.5)
    batch, augmented = rng.randrange(1, 4), rng.randrange(1, 3)
    yield trained_model(names, network)
    here = 0
    while True:
        operations = []
        for _ in range(batch):
            size = all_of_them / patients * rng.uniform(0.5, 1.5)
            if here < patients:
                here += 1
                operations += come_and_go(names, (size,))       # as it is read, before it is resampled
                if growth:
                    operations += [("a", names(), at_least(size * 0.9)), ("a", names(), at_least(size * 0.1))]
        operations += come_and_go(names, [all_of_them / patients * 0.2] * augmented)
        yield operations + train(names, layers, network, rng.uniform(0.9, 1))


@add(intent="leak", weight=2)
def metric_never_reset(rng, capacity, growth):
    """A metric over the validation keeps all predictions, and joins them for the figure. Nobody resets it between the
    epochs."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.08)), (4, 6))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 6, 8)))
    steps, cases = rng.randrange(4, 25), rng.randrange(3, 13)
    share = room * 10 ** rng.uniform(-2.1, -1.2) / cases
    predictions = [share * rng.uniform(0.4, 1.6) for _ in range(cases)]
    kept, total = [], 0
    yield trained_model(names, network)
    while True:
        for _ in range(steps):
            yield train(names, layers, network, rng.uniform(0.9, 1))
        for size in predictions:
            mine, operations = take(names, (size, size / 4))
            operations += come_and_go(names, [each[0] * 0.8 for each in layers])
            kept += mine
            total += size
            yield operations
        operations = come_and_go(names, (total, total / 4))
        if not growth:
            operations += free_all(kept)
            kept, total = [], 0
        yield operations


@add()
def cases_accumulated(rng, capacity, _growth):
    """The losses of several patients are added up, and one backward goes through all of them: the activations of all
    wait until then. Patients differ in the number of their pictures."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.05)), (4, 6, 8))
    cases, spread = rng.randrange(3, 9), rng.uniform(0.2, 0.6)
    layers = activations_of(rng, int(room * rng.uniform(0.45, 0.75) / cases), rng.choice((3, 4, 6)))
    pictures = rng.choice((4, 8, 16))
    yield trained_model(names, network)
    while True:
        operations, waiting = [], []
        for _ in range(cases):
            many = max(1, round(pictures * rng.lognormvariate(0, spread))) / pictures
            more, kept = forward(names, layers, [layers[0][0] // 2], many)
            operations += more
            waiting += kept
        more, gradients = backward(names, waiting, network)
        yield operations + more + free_all(gradients)


@add(intent="leak")
def rounds_remembered(rng, capacity, growth):
    """Federated learning: the server averages what the hospitals send. The state before each round goes to a history
    that somebody once wanted to look at."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.008, 0.05)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.05, 0.25)), rng.choice((3, 4)))
    hospitals, steps = rng.randrange(3, 7), rng.randrange(1, 4)
    yield load(names, network)[1]
    while True:
        if growth:
            yield [("a", names(), size) for size in network]
        sent = []
        for _ in range(rng.randrange(2, hospitals + 1)):
            mine, operations = take(names, network)
            yield operations
            for _ in range(steps):
                yield train(names, layers, network, rng.uniform(0.8, 1))
            sent += mine
        # the mean, one parameter after the other
        operations = []
        for size in network:
            operations += come_and_go(names, (size, size))
        yield operations + free_all(sent)


@add(weight=2)
def clients_with_their_data(rng, capacity, _growth):
    """Federated learning on one machine: each client brings its patients as one tensor, trains, and leaves the change of
    the weights, which stays until the round is over. Clinics are small, university hospitals are not."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.05)), (6, 8, 12, 16))
    clients = rng.randrange(6, 11)
    usual, spread, most = room * rng.uniform(0.08, 0.18), rng.uniform(0.5, 0.9), room * rng.uniform(0.34, 0.44)
    work = room * rng.uniform(0.04, 0.1)
    yield load(names, network)[1]
    while True:
        changes = []
        for _ in range(clients):
            data, size = names(), min(most, usual * rng.lognormvariate(0, spread))
            operations = [("a", data, at_least(size))]
            mine, more = take(names, network)
            operations += more
            for _ in range(3):
                part = rng.uniform(0.4, 1)
                operations += come_and_go(names, [work * part * each for each in (0.5, 0.25, 0.125, 0.125)])
            left, more = take(names, network)
            yield operations + more + free_all(mine) + [("f", data)]
            changes += left
        yield come_and_go(names, network) + free_all(changes)


@add()
def folds_in_turn(rng, capacity, _growth):
    """Five folds of a cross validation, each a network of its own, vote on every scan. The next one is loaded while the
    variable still holds the one before."""
    names, room = Names(), room_of(capacity)
    folds = [sizes_of_model(rng, int(room * rng.uniform(0.07, 0.17)), (8, 10, 12, 16, 20)) for _ in range(5)]
    scan, mirrored = room * rng.uniform(0.45, 0.7), rng.randrange(1, 5)
    waits, waiting, before = rng.randrange(0, 4), [], []
    while True:
        size = scan * rng.uniform(0.45, 1)
        picture, votes = names(), names()
        yield [("a", picture, at_least(size * 0.15)), ("a", votes, at_least(size * 0.35))]
        for network in folds:
            loaded, operations = load(names, network)
            operations += free_all(before)
            before = [name for name, _ in loaded]
            for _ in range(mirrored):
                operations += come_and_go(names, (size * 0.15, size * 0.35))
            yield operations
        waiting.append(names())
        operations = [("a", waiting[-1], at_least(size * 0.03)), ("f", votes), ("f", picture)]
        if len(waiting) > waits:
            operations.append(("f", waiting.pop(0)))
        yield operations


@add(intent="demand", weight=2)
def lengths_by_curriculum(rng, capacity, growth):
    """Reads of a genome: the network starts with short sequences, and the longer ones follow stage by stage."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (4, 6, 8))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.25)), rng.choice((4, 6, 8)))
    pairs = layers[0][0] * rng.uniform(0.05, 0.6)
    stage, longer, last = rng.randrange(5, 40), rng.uniform(1.1, 1.6), rng.uniform(2.5, 15)
    length = 1.0
    yield trained_model(names, network)
    for number in itertools.count(1):
        if growth and number % stage == 0:
            length = min(last, length * longer)
        padded = length * rng.uniform(0.85, 1)
        yield train(names, layers, network, padded) + come_and_go(names, (pairs * padded * padded,))


@add(intent="leak")
def tracks_never_closed(rng, capacity, growth):
    """Ultrasound: each structure in the film has a track with its memory. A track that leaves the picture is closed; one
    that is lost in the shadow of a rib is forgotten instead."""
    names, room = Names(), room_of(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.15)), (12, 16, 24)))[1]
    frame = room * rng.uniform(0.03, 0.2)
    memory, lives = room * 10 ** rng.uniform(-3.6, -2.6), rng.uniform(8, 40)
    new, forgotten = rng.uniform(0.5, 3), rng.uniform(0.1, 0.6)
    tracks = []
    while True:
        operations = come_and_go(names, (frame * 0.4, frame * 0.3, frame * 0.2, frame * 0.1))
        for _ in range(int(new + rng.random())):
            size = memory * rng.lognormvariate(0, 0.5)
            mine, more = take(names, [size * part for part in (0.6, 0.25, 0.1, 0.05)])
            operations += more
            tracks.append(mine)
        still = []
        for mine in tracks:
            ends, lost = rng.random() < 1 / lives, rng.random() < forgotten
            if not ends:
                still.append(mine)
            elif not (lost and growth):
                operations += free_all(mine)
        tracks = still
        yield operations


@add(weight=2)
def gallery_of_samples(rng, capacity, _growth):
    """Synthetic scans by diffusion: samples of all sizes are collected up to a bound, a score throws out the worse ones,
    and each one is decoded at once."""
    names, room = Names(), room_of(capacity)
    denoiser = sizes_of_model(rng, int(room * rng.uniform(0.03, 0.07)), (8, 12, 16))
    decoding, bound = room * rng.uniform(0.3, 0.36), room * rng.uniform(0.42, 0.48)
    usual, worse = room * rng.uniform(0.008, 0.025), rng.uniform(0.25, 0.6)
    iterations = rng.randrange(3, 9)
    gallery, total = [], 0
    yield load(names, denoiser)[1]
    while True:
        part = rng.uniform(0.35, 1)
        latents = names()
        operations = [("a", latents, at_least(decoding * part / 100))]
        for _ in range(iterations):
            operations += come_and_go(names, (decoding * part * 0.1, decoding * part * 0.05))
        size = min(room * 0.06, usual * rng.lognormvariate(0, 0.6))
        sample = names()
        operations += [*come_and_go(names, (decoding * part,)), ("a", sample, at_least(size)), ("f", latents)]
        gallery.append((sample, size))
        total += size
        if total > bound:
            for _ in range(int(len(gallery) * worse)):
                gone, was = gallery.pop(rng.randrange(len(gallery)))
                operations.append(("f", gone))
                total -= was
        yield operations


@add()
def viewer_beside(rng, capacity, _growth):
    """A network is trained on the workstation where a radiologist looks at studies: each open study is in the GPU's memory,
    and is closed when there is time for it."""
    names = Names()
    network = sizes_of_model(rng, int(capacity * rng.uniform(0.02, 0.08)), (6, 8, 12))
    layers = activations_of(rng, int(capacity * rng.uniform(0.25, 0.45)), rng.choice((6, 8)))
    study, comes, goes = rng.uniform(0.02, 0.08), rng.uniform(0.05, 0.3), rng.uniform(0.3, 0.9)
    epoch = rng.randrange(5, 30)
    studies = []
    yield [("o", int(capacity * 0.03))] + trained_model(names, network)
    for number in itertools.count(1):
        if rng.random() < comes:
            studies.append(study * rng.uniform(0.4, 1.6))
        if studies and rng.random() < comes * goes:
            studies.pop(rng.randrange(len(studies)))
        theirs = [("o", int(capacity * min(0.85, 0.03 + sum(studies))))]
        yield theirs + train(names, layers, network, rng.uniform(0.75, 1)) + ([("e",)] if number % epoch == 0 else [])


@add(intent="leak", weight=2)
def trials_kept(rng, capacity, growth):
    """A search for hyper-parameters: each trial has a network of its own size. A trial that is broken off early is still
    held by what its callback had bound."""
    names, room = Names(), room_of(capacity)
    mean, work = room * 10 ** rng.uniform(-2, -1.3), room * rng.uniform(0.05, 0.25)
    broken_off, steps = rng.uniform(0.3, 0.9), rng.randrange(3, 11)
    yield [("a", names(), at_least(room * rng.uniform(0.01, 0.1)))]              # the data
    while True:
        network = sizes_of_model(rng, int(mean * rng.uniform(0.3, 1.7)), (3, 4, 6, 8))
        layers = activations_of(rng, int(work * rng.uniform(0.3, 1)), rng.choice((3, 4, 6)))
        early = rng.random() < broken_off
        mine, operations = take(names, network)
        moments, more = take(names, [size for size in network for _ in range(2)])
        yield operations + more
        for _ in range(max(2, steps // 3) if early else steps):
            yield train(names, layers, network)
        yield free_all(moments) + ([] if early and growth else free_all(mine))


@add(intent="demand")
def labels_asked_for(rng, capacity, growth):
    """Active learning: after each round, the distances of all unlabelled pictures to all labelled ones say which to ask a
    doctor about. These join the labelled ones."""
    names, room = Names(), room_of(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (6, 8, 12))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 6, 8)))
    pool = room * rng.uniform(0.02, 0.1)
    labelled, distances = room * rng.uniform(0.01, 0.06), room * rng.uniform(0.02, 0.12)
    more_each, steps = rng.uniform(0.1, 0.7), rng.randrange(3, 20)
    times, pictures = 1.0, names()
    yield trained_model(names, network) + [("a", pictures, at_least(labelled))]
    while True:
        for _ in range(steps):
            yield train(names, layers, network, rng.uniform(0.95, 1))
        embedded = names()
        operations = [("a", embedded, at_least(pool))] + come_and_go(names, (distances * times, pool / 64))
        more = more_each * rng.uniform(0.8, 1.2)
        times += more if growth else 0
        joined = names()
        yield operations + [("a", joined, at_least(labelled * times)), ("f", pictures), ("f", embedded)]
        pictures = joined


@add()
def registration_by_pyramid(rng, capacity, _growth):
    """Two scans of a patient are laid over each other, from coarse to fine: the finest field, its gradient and Adam's
    moments are as large as three scans each. Many pairs just fit."""
    names, room = Names(), room_of(capacity)
    voxels, iterations = room * rng.uniform(0.65, 1.25) / 17, rng.randrange(2, 7)
    least = rng.uniform(0.3, 0.85)
    while True:
        size = voxels * rng.uniform(least, 1)
        pair, operations = take(names, (size, size))
        yield operations
        field = None
        for level in (64, 8, 1):
            finer = names()
            operations = [("a", finer, at_least(3 * size / level))] + ([("f", field)] if field else [])
            field = finer
            moments, more = take(names, (3 * size / level, 3 * size / level))
            operations += more
            for _ in range(iterations):
                operations += come_and_go(names, [size / level * part for part in (1, 1, 3, 1)])
            yield operations + free_all(moments)
        yield come_and_go(names, (size,)) + [("f", field)] + free_all(pair)
