# SPDX-License-Identifier: Apache-2.0
"""Unseen: programs of a harbour town: its ships, its weather and tides, its grid and turbines, its robots, and the studios
that make games and sound there. Nothing is tuned on these."""
import collections
import functools
import itertools

from program import MIB, UNSEEN, Names, activations_of, backward, forward, free_all, generator, load, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_harbour")


# --- what these programs share ---

def usable(capacity):
    """About what a program has, when the driver and the runtime have theirs."""
    return capacity - 560 * MIB


def whole(size):
    return max(512, int(size))


def hold(names, sizes):
    kept, operations = load(names, [whole(size) for size in sizes])
    return [name for name, _ in kept], operations


def together(names, sizes):
    """All at the same time, then none."""
    kept, operations = hold(names, sizes)
    return operations + free_all(kept)


def in_turn(names, sizes):
    """Each is made of the one before, which then goes."""
    operations, before = [], None
    for size in sizes:
        name = names()
        operations.append(("a", name, whole(size)))
        if before is not None:
            operations.append(("f", before))
        before = name
    return operations + ([("f", before)] if before is not None else [])


def with_adam(names, network):
    return load(names, network + network + network)[1]


def learn(names, layers, network, scale):
    operations, kept = forward(names, layers, (layers[0][0] // 3 + 512,), scale)
    more, gradients = backward(names, kept, network)
    return operations + more + free_all(gradients)


# --- ships and engineering ---

@add(intent="demand")
def hull_flow_refined(rng, capacity, growth):
    """The flow about a hull, on patches of cells: where the waves are steep there are more. The wake gets longer, and the
    solver's vectors are as long as there are cells."""
    names, room = Names(), usable(capacity)
    fields = rng.choice(((3, 1, 1), (3, 1, 1, 2), (3, 1, 1, 1, 1, 5)))
    first, vectors = rng.randrange(30, 160), rng.randrange(6, 20)
    patch = room * rng.uniform(0.1, 0.25) / first / sum(fields)
    longer, regrid = 10 ** rng.uniform(-2.9, -1.2), rng.randrange(2, 9)
    moved = rng.randrange(2, max(4, first // 8))
    patches, operations = [], []
    for _ in range(first):
        mine, more = hold(names, [patch * part for part in fields])
        patches.append(mine)
        operations += more
    yield operations
    wanted = float(first)
    for number in itertools.count(1):
        operations = []
        places = [rng.random() for _ in range(moved)]
        if number % regrid == 0:
            for place in places:
                old = int(place * len(patches))
                new, more = hold(names, [patch * part for part in fields])
                operations += more + free_all(patches[old])
                patches[old] = new
            if growth:
                wanted += first * longer * regrid
            while len(patches) < int(wanted):
                mine, more = hold(names, [patch * part for part in fields])
                patches.append(mine)
                operations += more
        used = 2 + int(rng.random() * (vectors - 1))
        yield operations + together(names, [patch * len(patches) * 0.9] * used)


@add(intent="leak")
def moored_ships_histories(rng, capacity, growth):
    """When will each ship be at its berth? A ship's reports are put one behind the other, and the oldest are cut off; but
    a ship that is laid up has another state in the program, and neither its reports are cut nor it is ever taken out."""
    names, room = Names(), usable(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.01, 0.06)), (4, 6, 8))
    fleet, window, turns = rng.randrange(24, 120), rng.randrange(10, 40), rng.choice((1, 2, 3))
    report = room * rng.uniform(0.1, 0.28) / fleet / window
    laid_up, stays = rng.uniform(0.04, 0.25), rng.uniform(60, 400)
    work = room * rng.uniform(0.04, 0.2)
    ships, coming = [], 0                        # [tensor, reports, laid up, leaves at step, number]
    yield load(names, network)[1]
    for number in itertools.count():
        operations, arrive = [], 0
        if number == 0:
            arrive = fleet
        elif rng.random() < fleet / stays:
            arrive = 1 + int(fleet / stays)
        for _ in range(arrive):
            lies, leaves = rng.random() < laid_up, number + 5 + rng.expovariate(1 / stays)
            reports = rng.randrange(1, window)
            name = names()
            operations.append(("a", name, whole(report * reports)))
            coming += 1
            ships.append([name, reports, lies, leaves, coming])
        here = []
        for ship in ships:
            without_limit = ship[2] and growth
            if number >= ship[3] and not without_limit:
                operations.append(("f", ship[0]))
                continue
            here.append(ship)
            if (number + ship[4]) % turns == 0:
                length = ship[1] + 1 if without_limit else min(window, ship[1] + 1)
                name = names()
                operations += [("a", name, whole(report * length)), ("f", ship[0])]
                ship[0], ship[1] = name, length
        ships = here
        part = rng.uniform(0.5, 1)
        yield operations + in_turn(names, [work * part * each for each in (0.3, 0.6, 0.4, 0.05)])


@add(intent="design")
def stowage_table_doubles(rng, capacity, growth):
    """Which container goes where? A search that remembers the loadings it has seen in a table, so as not to see them
    again. A table that is full is put into one of twice its size."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.005, 0.05)), (4, 6)))[1]
    parts = rng.choice(((8, 4, 4), (16, 4, 2), (8, 32, 4, 1)))
    table, fill = room * rng.uniform(0.008, 0.03), rng.uniform(0.6, 0.9)
    found = fill / rng.uniform(2, 25)            # of the first table, in each step
    width, crane = room * rng.uniform(0.03, 0.15), rng.randrange(3, 8)
    size, entries = 1.0, 0.0
    arrays, operations = hold(names, [table * part / sum(parts) for part in parts])
    yield operations
    while True:
        branch, new = rng.uniform(0.3, 1), rng.uniform(0.5, 1.5)
        operations = []
        for depth in range(crane):
            operations += in_turn(names, [width * branch * (0.2 + 0.8 * depth / crane) * each for each in (0.3, 1, 0.5)])
        if growth:
            entries += found * new
            if entries > size * fill:
                size *= 2
                larger, more = hold(names, [table * size * part / sum(parts) for part in parts])
                operations += more + free_all(arrays)
                arrays = larger
        yield operations


@add(weight=2)
def quay_cameras_beside(rng, capacity, _growth):
    """Cameras above the quay count containers: a few pictures while it is empty, all of them while a ship is there. On the
    same GPU somebody else's service is rolled out: copy after copy, or one that has a leak itself."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.04, 0.12)), (8, 12, 16)))[1]
    cameras = rng.choice((4, 8, 12, 16))
    picture, remembered = room * rng.uniform(0.3, 0.5) / cameras, rng.randrange(2, 6)
    kept_part, gives_back = rng.uniform(0.1, 0.3) / remembered, rng.random() < 0.5
    begins, every, copies = rng.randrange(10, 250), rng.randrange(4, 50), rng.randrange(3, 9)
    most, slow = capacity * rng.uniform(0.5, 0.8), rng.random() < 0.4
    before = capacity * rng.choice((0, 0, 0.03, 0.06))
    last, quiet, ship = collections.deque(), rng.randrange(15, 80), 0
    for number in itertools.count():
        since = max(0, number - begins)
        if slow:
            theirs = most * min(1, since / (every * copies))
        else:
            # a copy takes more while it loads than it does later
            loads = 1.2 if since and since % every < 2 else 1
            theirs = most * min(copies, -(-since // every)) / copies * loads
        operations = [("o", int(min(capacity * 0.85, before + theirs)))]
        quiet -= 1
        if quiet < 0:
            ship, quiet = rng.randrange(10, 50), rng.randrange(70, 200)
        ship -= 1
        looking = cameras if ship > 0 else max(1, cameras // 4)
        seen = [rng.choice((0.5, 0.5, 1, 1, 1)) for _ in range(looking)]
        features, more = hold(names, [picture * kept_part * each for each in seen])
        operations += more
        operations += together(names, [picture * each * part for each in seen for part in (0.25, 0.6)])
        last.append(features)
        if len(last) > remembered:
            operations += free_all(last.popleft())
        yield operations + ([("e",)] if ship == 0 and gives_back else [])


# --- weather and tides ---

@add(intent="leak")
def emulator_scores_with_graph(rng, capacity, growth):
    """A network learns the weather. Now and then it is scored on another year, day after day, and the scores are put into
    a list for the plot; nobody said that no gradients are wanted there, and each score holds its graph."""
    names, room = Names(), usable(capacity)
    network = sizes_of_model(rng, int(room * rng.uniform(0.02, 0.06)), (6, 8, 12))
    layers = activations_of(rng, int(room * rng.uniform(0.15, 0.4)), rng.choice((6, 8, 12)))
    leads, every = rng.randrange(1, 6), rng.randrange(3, 20)
    # a coarser grid is scored than is learnt
    graph = room * 10 ** rng.uniform(-2.4, -1.4) / leads
    scored = activations_of(rng, max(4096, int(graph)), rng.choice((4, 6)))
    yield with_adam(names, network)
    for number in itertools.count(1):
        yield learn(names, layers, network, rng.uniform(0.97, 1))
        if number % every == 0:
            for _ in range(leads):
                truth, operations = hold(names, [graph * 0.2, graph * 0.2])
                more, kept = forward(names, scored)
                operations += more + free_all(truth)
                operations.append(("a", names(), 512))           # the score
                if growth:
                    yield operations
                else:
                    yield operations[:-1] + backward(names, kept)[0]


@add()
def tide_adjoint_windows(rng, capacity, _growth):
    """The state of the sea is found from what the gauges measured: the model runs through a window of time, keeping each
    of its states, and its adjoint runs back. When a surge is expected the window is a longer one."""
    names, room = Names(), usable(capacity)
    grid = [rng.choice((1, 1, 1, 0.5, 2)) for _ in range(rng.randrange(3, 7))]
    window, pairs = rng.randrange(8, 32), rng.randrange(3, 8)
    share = rng.uniform(0.22, 0.45)
    state = room * share / window
    storm, longer = rng.randrange(3, 14), rng.uniform(1.0, 1.9) / share
    unit = state / sum(grid)
    fixed, operations = hold(names, [unit * 2, unit, unit, room * rng.uniform(0.005, 0.03)])
    yield operations
    history = collections.deque()
    for cycle in itertools.count(1):
        steps = int(window * longer) + 1 if cycle >= storm else window - rng.randrange(0, 3)
        trajectory = []
        for _ in range(steps):
            mine, operations = hold(names, [unit * part for part in grid])
            trajectory.append(mine)
            yield operations + in_turn(names, [unit, unit, unit])
        adjoint, operations = hold(names, [unit * part for part in grid])
        yield operations
        while trajectory:
            operations = together(names, [unit * part for part in grid])
            yield operations + free_all(trajectory.pop())
        pair, operations = hold(names, [unit * 0.8, unit * 0.8])
        history.append(pair)
        if len(history) > pairs:
            operations += free_all(history.popleft())
        yield operations + free_all(adjoint)


# --- energy ---

@add(intent="leak")
def unsolved_cases_kept(rng, capacity, growth):
    """What if this line failed? Each case of the grid is solved by Newton's method. Where it does not converge an exception
    is raised, and kept for the report, with the frames in which the matrices are."""
    names, room = Names(), usable(capacity)
    fail, lasts = 10 ** rng.uniform(-1.7, -0.4), 10 ** rng.uniform(1.6, 3.2)
    case = min(room * 0.09, room * 0.8 / fail / lasts)
    fixed, operations = hold(names, [room * rng.uniform(0.02, 0.15), room * rng.uniform(0.01, 0.06), case * 0.1])
    yield operations
    deeper, screening = rng.uniform(0.15, 0.5), room * rng.uniform(0.05, 0.25)
    while True:
        fill, rounds, fails = rng.lognormvariate(0, 0.25), rng.randrange(3, 8), rng.random() < fail
        voltages, operations = hold(names, [case * 0.02, case * 0.02])
        matrix = factor = None
        for _ in range(rounds * 2 if fails else rounds):
            again, more = hold(names, [case * 0.25])
            operations += more + (free_all(matrix) if matrix else [])
            matrix = again
            again, more = hold(names, [case * deeper * fill, case * deeper * fill * 0.5])
            operations += more + (free_all(factor) if factor else [])
            factor = again
            operations += together(names, [case * 0.02] * 3)
        if not (fails and growth):
            operations += free_all(voltages + matrix + factor)
        if rng.random() < 0.2:
            operations += in_turn(names, [screening * 0.5, screening])
        yield operations


@add(intent="demand")
def covariance_of_all_days(rng, capacity, growth):
    """How much wind there will be, from all days that were measured: a matrix of all against all, and its factor. Every
    day there are more rows, and more columns."""
    names, room = Names(), usable(capacity)
    farms = rng.randrange(1, 4)
    first = [room * rng.uniform(0.008, 0.05) / farms for _ in range(farms)]
    a_day, tries = 10 ** rng.uniform(-2.6, -1.1), rng.randrange(1, 4)
    asked = rng.uniform(0.1, 0.6)
    factors, rows = [[] for _ in range(farms)], 1.0
    yield hold(names, [each * 0.02 for each in first])[1]
    while True:
        missing = rng.uniform(0.93, 1)           # some of the gauges' values
        for i in range(farms):
            matrix = first[i] * (rows * missing) ** 2
            operations = []
            for _ in range(tries):
                covariance, more = hold(names, [matrix])
                factor, again = hold(names, [matrix])
                operations += more + again + together(names, [matrix * 0.03, matrix * 0.03])
                operations += free_all(covariance) + free_all(factors[i])
                factors[i] = factor
            yield operations + together(names, [first[i] * rows * missing * asked, first[i] * rows * missing * asked * 0.5])
        if growth:
            rows += a_day


@add(weight=2)
def blades_photographed(rng, capacity, _growth):
    """Drones photograph the blades of a wind farm. Each camera has its own format; where a crack may be, the piece is cut
    out of what the network sees at that moment, and stays until the report of the farm is written."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.08)), (8, 12)))[1]
    formats = [rng.uniform(0.25, 1) for _ in range(rng.randrange(4, 12))]
    work = room * rng.uniform(0.42, 0.62)
    scales, cracks = rng.choice((3, 4, 5)), rng.uniform(0.6, 3)
    photographs = rng.randrange(60, 400)
    piece = room * rng.uniform(0.1, 0.22) / photographs / cracks
    while True:
        report = []
        for _ in range(photographs):
            size = work * rng.choice(formats) * rng.uniform(0.9, 1)
            pyramid, operations = [], []
            for scale in range(scales):
                mine, more = hold(names, [size * 0.55 * 0.45 ** scale, size * 0.2 * 0.45 ** scale])
                pyramid += mine
                operations += more
                if rng.random() < cracks / scales:
                    found, more = hold(names, [piece * rng.uniform(0.4, 1.6)])
                    report += found
                    operations += more
            yield operations + free_all(pyramid)
        yield together(names, [piece * 3, piece]) + free_all(report)


# --- robots ---

@add(intent="design")
def seabed_map_submaps(rng, capacity, growth):
    """A diving robot surveys the harbour's bed, line by line: a tile of the map for each place it has been at, to know the
    place again. Now and then all tiles are fitted to one another."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.005, 0.05)), (4, 6)))[1]
    tile, near = room * 10 ** rng.uniform(-3.1, -1.9), rng.randrange(4, 12)
    levels = rng.choice(((1, 0.25), (1, 0.25, 0.06), (0.5, 0.5, 0.1)))
    again, fits = rng.uniform(0, 0.6), rng.randrange(8, 60)
    ping, fit = room * rng.uniform(0.02, 0.15), tile * rng.uniform(0.05, 0.4)
    here = collections.deque()
    for number in itertools.count(1):
        known, part = rng.random() < again, rng.uniform(0.6, 1)
        operations = in_turn(names, [ping * part * each for each in (0.2, 0.7, 1, 0.3)])
        if not known:
            mine, more = hold(names, [tile * level / sum(levels) for level in levels])
            operations += more
            here.append(mine)
            if len(here) > near and not growth:
                operations += free_all(here.popleft())
        if number % fits == 0:
            operations += together(names, [fit * len(here) * 0.5, fit * len(here) * 0.5, fit])
        yield operations


@add(intent="leak")
def scenes_reset_callbacks(rng, capacity, growth):
    """Arms learn to grasp in many simulated scenes. A scene that is over is built anew, and tells the recorder what to call
    at a contact; the recorder keeps every such function, and each knows the contacts and the picture of its scene."""
    names, room = Names(), usable(capacity)
    policy = sizes_of_model(rng, int(room * rng.uniform(0.005, 0.03)), (4, 6))
    layers = activations_of(rng, int(room * rng.uniform(0.08, 0.3)), rng.choice((4, 6)))
    scenes, lives, horizon = rng.randrange(8, 64), rng.uniform(8, 60), rng.randrange(4, 24)
    lasts = 10 ** rng.uniform(1.9, 3.1)
    known = min(room * 0.2 / scenes, room * 0.75 / lasts / (scenes / lives))
    contacts, other = rng.randrange(3, 9), [rng.uniform(0.05, 0.4) for _ in range(rng.randrange(2, 5))]
    running = []                                 # [what a function knows, the rest, over at step]
    yield with_adam(names, policy)
    for number in itertools.count():
        operations = []
        for i in range(scenes):
            if i < len(running) and number < running[i][2]:
                continue
            mine, more = hold(names, [known * 0.5 / contacts] * contacts + [known * 0.5])
            rest, again = hold(names, [known * each for each in other])
            operations += more + again
            if i == len(running):
                running.append(None)
            else:
                operations += free_all(running[i][1]) + ([] if growth else free_all(running[i][0]))
            running[i] = [mine, rest, number + 1 + int(rng.expovariate(1 / lives))]
        operations += together(names, [known * 0.1] * 4)
        yield operations
        if number % horizon == horizon - 1:
            yield learn(names, layers, policy, rng.uniform(0.95, 1))


# --- games and sound ---

@add(weight=2)
def regions_streamed(rng, capacity, _growth):
    """A game's world comes to the GPU region by region, on the stream for copies, up to a bound in bytes; what was not
    seen for longest goes. A wood has other sizes than a town, and the picture's resolution follows the load."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.01, 0.04)), (4, 6)))[1]
    bound, region = room * rng.uniform(0.55, 0.63), room * 10 ** rng.uniform(-2.4, -1.7)
    lands = [[rng.uniform(0.2, 2.5) for _ in range(rng.randrange(2, 6))] for _ in range(rng.randrange(3, 8))]
    picture, moves = room * rng.uniform(0.24, 0.31), rng.uniform(0.02, 0.12)
    copies = rng.choice((0, 1))
    land, resolution, held = rng.randrange(len(lands)), 1.0, 0
    here = collections.OrderedDict()             # by place: [tensors, bytes]
    place = 0
    buffers = []
    while True:
        operations = []
        if rng.random() < moves:
            land = rng.randrange(len(lands))
        place += rng.choice((-1, 0, 1, 1, 2))
        for at in (place, place + 1):
            detail = rng.choice((0.25, 1, 1, 1)) * rng.uniform(0.7, 1.2)
            if at in here:
                here.move_to_end(at)
                continue
            sizes = [whole(region * part * detail / 2) for part in lands[land]]
            while here and held + sum(sizes) > bound:
                _, (gone, size) = here.popitem(last=False)
                operations += free_all(gone)
                held -= size
            mine = [names() for _ in sizes]
            operations += [("a", name, size, 1) if copies else ("a", name, size) for name, size in zip(mine, sizes)]
            here[at] = (mine, sum(sizes))
            held += sum(sizes)
        if not buffers or rng.random() < 0.08:
            resolution = rng.choice((0.44, 0.56, 0.69, 0.85, 1))
            operations += free_all(buffers)
            buffers, more = hold(names, [picture * 0.2 * resolution, picture * 0.1 * resolution])
            operations += more
        yield operations + in_turn(names, [picture * resolution * part for part in (0.15, 0.65, 0.1)])


@add(intent="leak")
def positions_remembered(rng, capacity, growth):
    """A program plays against itself. What the network thinks of a position is remembered, under the position; that is a
    row of what it thought of a whole batch, and the batch stays for the row. Openings are known already."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.1)), (8, 12, 16)))[1]
    batch, recent = room * 10 ** rng.uniform(-3.2, -2), rng.randrange(4, 20)
    moves, opening = rng.randrange(20, 120), rng.randrange(3, 20)
    tree, work = room * rng.uniform(0.02, 0.2), room * rng.uniform(0.02, 0.2)
    heads = rng.choice(((1,), (0.97, 0.03), (0.8, 0.15, 0.05)))
    remembered = collections.deque()
    while True:
        nodes, ends = [], max(4, int(moves * rng.uniform(0.5, 1.3)))
        for move in range(ends):
            operations = in_turn(names, [work * part for part in (0.1, 1, 1, 0.4)])
            thought, more = hold(names, [batch * head for head in heads])
            operations += more
            if rng.random() < min(1, move / opening):            # one of its positions is new
                remembered.append(thought)
                if len(remembered) > recent and not growth:
                    operations += free_all(remembered.popleft())
            else:
                operations += free_all(thought)
            mine, more = hold(names, [tree / moves * 0.6, tree / moves * 0.15])
            nodes += mine
            yield operations + more
        yield free_all(nodes)


@add()
def concert_after_songs(rng, capacity, _growth):
    """Voices and instruments of a recording are taken apart, piece by piece, and put together over the whole length. All
    goes well with songs; then comes a whole evening in the opera."""
    names, room = Names(), usable(capacity)
    yield load(names, sizes_of_model(rng, int(room * rng.uniform(0.02, 0.1)), (6, 8, 12)))[1]
    stems, usual = rng.choice((2, 4, 6)), room * rng.uniform(0.05, 0.14)
    piece, pieces = room * rng.uniform(0.05, 0.25), rng.randrange(2, 10)
    songs, evening = rng.randrange(8, 90), room * rng.uniform(0.9, 2.2)
    at_once = rng.random() < 0.6                 # all the stems are one tensor
    for number in itertools.count():
        length = min(2.2, rng.lognormvariate(0, 0.35))
        total = evening if number >= songs else usual * length
        sound, operations = hold(names, [total / (stems + 2)])
        taken, more = hold(names, [total * stems / (stems + 2)] if at_once else [total / (stems + 2)] * stems)
        weight, again = hold(names, [total / (stems + 2)])
        yield operations + more + again
        for _ in range(max(1, round(pieces * length))):
            last = rng.uniform(0.9, 1)
            yield in_turn(names, [piece * 0.1, piece * last, piece * 0.6 * last]) + together(names, [piece * 0.2, piece * 0.1])
        yield free_all(sound + weight) + free_all(taken)
