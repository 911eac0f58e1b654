# SPDX-License-Identifier: Apache-2.0
"""Film, sound, games, medicine and earth observation: batch jobs and small services, with desktops beside them."""
import functools
import itertools
import math

from program import MIB, UNSEEN, Names, at_least, free_all, generator, room_of, sizes_of_model

add = functools.partial(generator, UNSEEN, "unseen_fjord")


def between(rng, low, high):
    """Evenly spread over orders of magnitude."""
    return low * (high / low) ** rng.random()


def about(rng, sigma, most=4.0):
    """A factor around 1."""
    return min(most, rng.lognormvariate(0, sigma))


class Pass:
    """Memory that one pass of a network allocates and frees. Its sizes are shares of its peak."""

    def __init__(self):
        self.parts, self.sizes, self.live, self.peak = [], [], 0.0, 0.0

    def new(self, size, *gone):
        """Makes a tensor; after that, those that it was made from go."""
        key = len(self.sizes)
        self.parts += [("a", key, size)] + [("f", each) for each in gone]
        self.sizes.append(size)
        self.peak = max(self.peak, self.live + size)
        self.live += size - sum(self.sizes[each] for each in gone)
        return key

    def play(self, names, peak, until):
        """Operations and the names that are left. `until`: the share of the operations that is done."""
        operations, alive = [], {}
        for part in self.parts[:max(1, int(len(self.parts) * until))]:
            if part[0] == "a":
                alive[part[1]] = names()
                operations.append(("a", alive[part[1]], at_least(part[2] / self.peak * peak)))
            else:
                operations.append(("f", alive.pop(part[1])))
        return operations, list(alive.values())


def unet(rng, levels, shrink):
    """Down with skips, up again. `shrink`: how much smaller each level is (2 for images, 3 for volumes)."""
    p, width, skips = Pass(), 1.0, []
    x = p.new(rng.uniform(0.05, 0.3))
    for _ in range(levels):
        normed = p.new(width * rng.uniform(0.8, 1.1))
        skips.append((p.new(width, normed, x), width))
        width /= shrink * rng.uniform(0.85, 1.1)
        x = p.new(width)
    for skip, width in reversed(skips):
        up = p.new(width, x)
        joined = p.new(2 * width, up, skip)
        x = p.new(width * rng.uniform(0.7, 1.0), joined)
    p.new(rng.uniform(0.04, 0.15), x)
    return p


def transformer(rng, layers, wide=4.0):
    """Layer after layer, without gradients."""
    p = Pass()
    x = p.new(1.0)
    for _ in range(layers):
        qkv = p.new(3.0)
        seen = p.new(rng.uniform(0.8, 1.6), qkv)
        added = p.new(1.0, seen, x)
        hidden = p.new(wide)
        x = p.new(1.0, hidden, added)
    return p


class Job:
    """A program's room, its names, and the step that it is at. Weights and work are given as ranges of shares."""

    def __init__(self, rng, capacity, weights, work):
        self.names, self.room, self.step = Names(), room_of(capacity), []
        self.weights, self.work = self.room * rng.uniform(*weights), self.room * rng.uniform(*work)

    def model(self, rng):
        """Loads weights; the few layers stand for groups of layers."""
        self.put(sizes_of_model(rng, int(self.weights), (6, 8, 12, 16)))
        return self.done()

    def put(self, sizes, stream=0):
        made = [(self.names(), at_least(size)) for size in sizes]
        self.step += [("a", name, size, stream) for name, size in made]
        return [name for name, _ in made]

    def free(self, kept):
        self.step += free_all(kept)

    def run(self, p, peak, until=1.0):
        """A pass; its result is what is left."""
        operations, left = p.play(self.names, peak, until)
        self.step += operations
        return left

    def pass_by(self, p, peak):
        """A pass whose result goes at its end."""
        self.free(self.run(p, peak))

    def done(self):
        step, self.step = self.step, []
        return step


@add(intent="leak")
def shot_references(rng, capacity, growth):
    """Film upscaling: each cut makes reference features of the shot; a table by shot keeps those of the earlier shots."""
    job = Job(rng, capacity, (0.03, 0.12), (0.15, 0.4))
    net = unet(rng, rng.choice((3, 4)), 2)
    cuts, chance = between(rng, 25, 220), between(rng, 0.04, 0.5)
    reference = (job.room - job.weights - job.work) / cuts
    formats = [rng.choice((0.28, 0.5, 0.75)), 1.0]
    yield job.model(rng)
    scale, kept = formats[0], []
    while True:
        if rng.random() < 0.012:
            scale = rng.choice(formats)
        if rng.random() < chance or not kept:
            size = reference * scale * about(rng, 0.25) / 1.33
            job.free([] if growth else kept)
            kept = job.put([size * 0.25 ** level for level in range(4)])
        job.pass_by(net, job.work * scale)
        yield job.done()


@add(intent="leak")
def hung_up_callers(rng, capacity, growth):
    """Voice conversion: each caller has rings and states; those of a caller who drops the line are never closed."""
    job = Job(rng, capacity, (0.05, 0.2), (0.05, 0.15))
    net = transformer(rng, rng.choice((3, 4, 5)))
    steps, arrival, lost = between(rng, 180, 2200), rng.uniform(0.25, 0.9), rng.uniform(0.08, 0.28)
    size = (job.room - job.weights - job.work) / max(30, steps * arrival * lost)
    life = min(rng.uniform(6, 40), 0.2 * steps * lost)
    layers, day = rng.choice((3, 4, 6)), rng.uniform(80, 400)
    yield job.model(rng)
    callers = []
    for number in itertools.count():
        rush = 1 + 0.5 * math.sin(number / day * 2 * math.pi)
        for _ in range(2):
            if rng.random() < arrival * rush / 2:
                stereo = rng.choice((0.7, 0.7, 1.0, 1.6))
                held = job.put([size * stereo / (layers + 0.2)] * layers + [size * 0.1, size * 0.1])
                callers.append((number + 1 + rng.expovariate(1 / life), rng.random() < lost, held))
        job.pass_by(net, job.work * (0.15 + 0.85 * min(1.0, len(callers) / (2.5 * arrival * life + 1))))
        job.free([name for end, dropped, held in callers if end <= number and not (dropped and growth) for name in held])
        callers = [each for each in callers if each[0] > number]
        yield job.done()


@add(intent="leak")
def failed_scenes(rng, capacity, growth):
    """Satellite scenes: a corrupt one raises; its exception goes into the list for the report, with frames and tensors."""
    job = Job(rng, capacity, (0.04, 0.15), (0.04, 0.22))
    net = unet(rng, rng.choice((4, 5)), 2)
    chance, retries = between(rng, 0.012, 0.09), rng.choice((0, 0, 1))
    orbit = rng.randrange(40, 400)
    yield job.model(rng)
    for number in itertools.count():
        scale, draw, until = about(rng, 0.2, 1.6) / 1.2, rng.random(), rng.uniform(0.1, 0.9)
        if draw < chance * (4 if number % orbit > 0.93 * orbit else 1):
            left = job.run(net, job.work * scale, until)
            job.free([] if growth else left)
            for _ in range(retries):  # it fails again; only the first exception is written down
                job.free(job.run(net, job.work * scale, until))
        else:
            job.pass_by(net, job.work * scale)
        yield job.done()


@add(intent="leak")
def sliced_fields(rng, capacity, growth):
    """Weather rollouts: the score keeps one variable of some fields, a view that holds the whole field."""
    job = Job(rng, capacity, (0.08, 0.25), (0.15, 0.4))
    net = transformer(rng, rng.choice((3, 4)), rng.uniform(2, 4))
    every, leads = rng.choice((1, 2, 4, 4, 8)), rng.choice((20, 28, 40, 60))
    field = (job.room - job.weights - job.work) / (between(rng, 120, 1600) / every + 4)
    yield job.model(rng)
    while True:
        states, views = job.put([field, field]), set()
        for lead in range(leads):
            job.pass_by(net, job.work)
            states += job.put([field])
            if growth and (lead + 1) % every == 0:
                views.add(states[-1])
            gone = states.pop(0)
            job.free({gone} - views)
            if lead == leads - 1:
                job.free([name for name in states if name not in views])
            yield job.done()


@add(intent="design")
def captured_shapes(rng, capacity, growth):
    """Image service: each new format and batch is captured as a graph, with its own buffers, and kept for its next use."""
    job = Job(rng, capacity, (0.15, 0.35), (0.06, 0.16))
    decoder = unet(rng, 3, 2)
    shapes = [rng.choice((0.4, 0.6, 0.8, 1.0)) * rng.choice((0.5, 0.75, 1, 1, 1.3)) * rng.choice((1, 1, 2, 4))
              for _ in range(rng.randrange(24, 140))]
    unit = (job.room - job.weights - job.work) * rng.uniform(0.5, 2.2) / sum(shapes)
    tail = rng.uniform(0.7, 1.5)
    popular = [1 / (rank + 1) ** tail for rank in range(len(shapes))]
    parts = [rng.uniform(0.2, 1) for _ in range(rng.randrange(3, 7))]
    yield job.model(rng)
    captured = set()
    while True:
        shape, held = rng.choices(range(len(shapes)), popular)[0], []
        if shape not in captured:
            held = job.put([shapes[shape] * unit * part / sum(parts) for part in parts])
        job.pass_by(decoder, job.work * min(1.0, shapes[shape] / 3))
        job.free([] if growth else held)
        if growth:
            captured.add(shape)
        yield job.done()


@add(intent="design")
def scene_browser(rng, capacity, growth):
    """Earth observation desktop: decoded tiles stay up to a limit, set as a share of the card; the view is segmented."""
    job = Job(rng, capacity, (0.03, 0.12), (0.06, 0.25))
    net = unet(rng, 4, 2)
    limit = capacity * rng.choice((0.5, 0.6, 0.7, 0.75, 0.8, 0.9))
    tile = limit / between(rng, 120, 1500)
    yield job.model(rng)
    cache, total, x, y, zoom = {}, 0, 0, 0, 0
    while True:
        if rng.random() < 0.06:
            x, y, zoom = rng.randrange(4000), rng.randrange(4000), rng.randrange(3)
        x, y = x + rng.choice((-1, 0, 0, 1)), y + rng.choice((-1, 0, 1))
        for place in [(x + i, y + j, zoom) for i in range(3) for j in range(2)]:
            if place in cache:
                cache[place] = cache.pop(place)
                continue
            # bands differ by scene; the same place has always the same size
            size = at_least(tile * (0.6, 1.0, 1.0, 1.4)[(place[0] // 16 + place[1] // 16 * 3 + zoom) % 4])
            cache[place] = (job.put([size]), size)
            total += size
        segmented, detail = rng.random() < 0.4, rng.choice((0.4, 0.7, 1.0))
        if segmented:
            job.pass_by(net, job.work * detail)
        while total > (limit if growth else 0):
            old, size = cache.pop(next(iter(cache)))
            job.free(old)
            total -= size
        yield job.done()


@add(intent="demand")
def longer_clips(rng, capacity, growth):
    """Video generation: the team asks for longer clips, first trials and then the shots of the cut; all is freed."""
    job = Job(rng, capacity, (0.15, 0.4), (0.08, 0.2))
    net, decoder = transformer(rng, rng.choice((3, 4)), rng.uniform(2, 4)), unet(rng, 3, 2)
    steps, trials, tidy = between(rng, 50, 1300), rng.randrange(5, 40), rng.random() < 0.5
    most = (job.room - job.weights) / job.work
    yield job.model(rng)
    for number in itertools.count():
        frames = 1 + (max(0, number - trials) / steps * (most - 1) if growth else 0)
        bytes_now = job.work * frames * rng.choice((0.5, 0.75, 0.75, 1.0)) * rng.uniform(0.9, 1.1)
        latents = job.put([bytes_now * 0.04, bytes_now * 0.02])
        for _ in range(2):
            job.pass_by(net, bytes_now * 0.9)
        job.pass_by(decoder, bytes_now * 0.7)
        job.free(latents)
        if tidy and number % 10 == 9:
            job.step.append(("e",))
        yield job.done()


@add(intent="demand")
def deeper_water(rng, capacity, growth):
    """Seismic inversion: along the line the sea gets deeper, records longer, the model around a shot wider."""
    job = Job(rng, capacity, (0.02, 0.08), (0.2, 0.4))
    shots, slope = between(rng, 60, 1300), [rng.uniform(0.2, 2.0) for _ in range(12)]
    checkpoints = rng.randrange(9, 20)
    job.put([job.weights] * rng.choice((3, 4, 5)))
    yield job.done()
    depth = 1.0
    for shot in itertools.count():
        if growth:
            depth += slope[int(shot * 12 / shots) % 12] * (job.room * 0.85 / job.work - 1) / shots
        count = checkpoints + int(3 * (depth - 1))
        unit = job.work * depth * about(rng, 0.08, 1.25) / (count * 2 + 7)
        fields = job.put([unit, unit, unit, unit * 0.6, unit * 0.6, unit * rng.uniform(0.5, 1.5)])
        saved = [job.put([unit, unit]) for _ in range(count)]
        while saved:
            again = job.put([unit * 0.8])
            job.free(saved.pop() + again)
        job.free(fields)
        yield job.done()


@add()
def patients_in_flight(rng, capacity, _growth):
    """Segmentation of scans of all sizes; masks of the latest patients stay until their reports are written."""
    job = Job(rng, capacity, (0.03, 0.1), (0.15, 0.24))
    net = unet(rng, rng.choice((3, 4)), rng.choice((2, 3)))
    sigma, life = rng.uniform(0.25, 0.5), rng.uniform(5, 30)
    share = rng.uniform(0.13, 0.3) * job.room / life
    yield job.model(rng)
    waiting = []
    for number in itertools.count():
        scale = about(rng, sigma, 1.9)
        volume = job.put([job.work * scale * 0.12])
        left = job.run(net, job.work * scale * 0.9)
        held = job.put([share * scale * part for part in (0.55, 0.35, 0.1)])
        job.free(left + volume)
        waiting.append((number + life * rng.uniform(0.3, 1.7), held))
        job.free([name for end, written in waiting if end <= number for name in written])
        waiting = [each for each in waiting if each[0] > number]
        yield job.done()


@add()
def decode_and_model(rng, capacity, _growth):
    """Clips through decoder, network and encoder on three streams; frames wait in queues, key frames for the next clips."""
    job = Job(rng, capacity, (0.04, 0.12), (0.26, 0.4))
    net = unet(rng, 3, 2)
    queue, keys_most = rng.randrange(3, 9), rng.randrange(6, 24)
    frame, key = job.room * rng.uniform(0.1, 0.18) / queue, job.room * rng.uniform(0.12, 0.24) / keys_most
    formats = [rng.uniform(0.25, 0.6), rng.uniform(0.6, 0.8), 0.9, 1.0]
    yield job.model(rng)
    scale, left, decoded, encoded, keys = 1.0, 0, [], [], []
    while True:
        if left == 0:
            scale, left = rng.choice(formats) * rng.uniform(0.85, 1.0), rng.randrange(4, 30)
        left -= 1
        for _ in range(rng.randrange(1, 4)):
            if len(decoded) < queue:
                decoded += job.put([frame * scale * rng.uniform(0.9, 1.0)], 1)
        job.pass_by(net, job.work * scale)
        encoded += job.put([frame * scale * 1.2], 2)
        job.free([decoded.pop(0)])
        if rng.random() < 0.35:
            keys += job.put([key * scale * about(rng, 0.3, 1.8)], rng.choice((0, 1, 2)))
        while len(encoded) > queue // 2:
            job.free([encoded.pop(0)])
        while len(keys) > keys_most:
            job.free([keys.pop(rng.randrange(len(keys) // 2))])
        yield job.done()


@add()
def parts_swapped(rng, capacity, _growth):
    """Image desktop: parts go to the card as needed, the oldest ones back for a budget of live bytes; prompts stay cached."""
    job = Job(rng, capacity, (0.0, 0.0), (0.12, 0.24))
    shares = {"encoder": rng.uniform(0.08, 0.2), "denoiser": rng.uniform(0.28, 0.4), "refiner": rng.uniform(0.2, 0.36),
              "upscaler": rng.uniform(0.04, 0.1), "control": rng.uniform(0.06, 0.14)}
    parts = {what: sizes_of_model(rng, int(job.room * share), (3, 4, 6)) for what, share in shares.items()}
    net, budget = unet(rng, 3, 2), rng.uniform(0.74, 0.92) - job.work / job.room
    cached_most, prompt = rng.randrange(16, 48), rng.uniform(0.02, 0.08)
    tidy, there, cached = rng.choice((0.0, 0.0, 0.05, 0.3)), {}, []
    while True:
        wanted = ["encoder", "denoiser"] + [what for what in ("control", "refiner", "upscaler") if rng.random() < 0.3]
        size = rng.choice((0.35, 0.5, 0.7, 1.0)) * rng.uniform(0.8, 1.0)
        for what in wanted:
            while what not in there and there and sum(map(shares.get, there)) + shares[what] > budget - prompt:
                job.free(there.pop(next(iter(there))))
            if rng.random() < tidy:
                job.step.append(("e",))
            there[what] = there.pop(what, None) or job.put(parts[what])
            small = what in ("encoder", "control")
            job.pass_by(net, job.work * size * (0.2 if small else 1.0))
            if small:
                cached += job.put([job.room * prompt / cached_most * about(rng, 0.5, 2.5)])
        while len(cached) > cached_most:
            job.free([cached.pop(rng.randrange(4))])
        yield job.done()


@add()
def long_recordings(rng, capacity, _growth):
    """Sound separation: whole recordings, most of them short; attention makes the rare long one very large."""
    job = Job(rng, capacity, (0.04, 0.15), (0.06, 0.2))
    net, attention = unet(rng, 4, 2), transformer(rng, 2, 3)
    most = (job.room - job.weights) / job.work
    rare, sigma, tidy = between(rng, 0.0008, 0.02), rng.uniform(0.3, 0.7), rng.random() < 0.3
    yield job.model(rng)
    while True:
        # songs and speech are cut at half of what fits; a concert in one piece is not
        length, draw, concert = min(most * 0.45, rng.lognormvariate(0, sigma)), rng.random(), rng.uniform(0.5, 2.0) * most
        length = concert if draw < rare else length
        wave = job.put([job.work * length * 0.03, job.work * length * 0.06])
        job.pass_by(net, job.work * length * 0.6)
        job.pass_by(attention, job.work * (0.5 * length + 0.4 * length ** 1.3))
        job.free(wave)
        if tidy and length > 2.5:
            job.step.append(("e",))
        yield job.done()


@add()
def untiled_decode(rng, capacity, _growth):
    """Film frames: previews are small; the last pass decodes whole frames at once, for some formats too large."""
    job = Job(rng, capacity, (0.2, 0.45), (0.05, 0.15))
    net, decoder = transformer(rng, 3, 3), unet(rng, 4, 2)
    final = (job.room - job.weights) * (rng.uniform(1.0, 1.7) if rng.random() < 0.8 else rng.uniform(0.5, 0.75))
    formats = [1.0, 1.0] if rng.random() < 0.25 else [0.25, 0.4, 0.4, rng.uniform(0.3, 0.5), 1.0]
    every, wide = rng.choice((1, 3, 10, 25)), between(rng, 0.004, 0.2)
    yield job.model(rng)
    for number in itertools.count():
        shape, usual = rng.random(), rng.choice(formats[:-1])
        scale = formats[-1] if shape < wide else usual
        latents = job.put([4 * MIB * scale, 4 * MIB * scale])
        job.pass_by(net, job.work * scale)
        if number % every == every - 1:
            job.pass_by(decoder, final * scale)
        job.free(latents)
        yield job.done()


@add()
def editor_beside(rng, capacity, _growth):
    """Denoising of game captures on an artist's desktop: the editor beside it opens levels and takes what the job gave back."""
    job = Job(rng, capacity, (0.04, 0.12), (0.35, 0.62))
    net = unet(rng, rng.choice((3, 4)), 2)
    desktop, level = job.room * rng.uniform(0.02, 0.06), job.room * rng.uniform(0.05, 0.16)
    opens, loads, most = 1 / between(rng, 10, 300), between(rng, 0.02, 0.2), job.room * rng.uniform(0.25, 0.6)
    formats = [rng.uniform(0.3, 0.5), rng.uniform(0.4, 0.7), 0.8, 1.0]
    job.step.append(("o", int(desktop)))
    yield job.model(rng)
    levels, left, scale = 0.0, 0, 0.5
    while True:
        if left == 0:
            scale, left = rng.choice(formats) * rng.uniform(0.9, 1.0), rng.randrange(10, 60)
            job.step.append(("e",))
        left -= 1
        draw, more = rng.random(), rng.uniform(0.4, 1.6)
        if levels == 0:
            levels = more * 2 if draw < opens else 0.0
        elif draw < loads:
            levels += more
        elif draw > 1 - loads * 0.12:
            levels = 0.0
        job.step.append(("o", int(desktop * rng.uniform(0.8, 1.2) + min(levels * level, most))))
        job.pass_by(net, job.work * scale)
        yield job.done()
