# SPDX-License-Identifier: Apache-2.0
"""Runs a program until its first refusal, and again under one change each: a change that lets it go on is the cause."""
import dataclasses
import itertools

from caching_allocator import CachingAllocator, Device, IdealAllocator, OutOfMemory

OPERATIONS_MAX = 120000  # of a run that is searched for its end
LONGER = 2.0             # a change that lets it run this many times as long is a cause
HORIZON = 4.0            # a run is followed for this many times as long
FIRST_STEPS = 12         # at least this many steps are tried
TOGETHER = " + "         # between the names of two changes that help only together
NEAR_BEST = 0.75         # changes that help nearly as much as the best one count as well
ROOMIER = 1.05           # a GPU with a twentieth more; capacity's advice is to make the program smaller


@dataclasses.dataclass
class Outcome:
    failed: bool
    steps: int           # complete ones
    operations: int
    requested: int = 0
    free: int = 0
    peak_live: int = 0   # bytes asked for, with the request that was refused
    others: int = 0      # the most that other processes held
    outside: int = 0     # the most that this process held beside the allocator


@dataclasses.dataclass
class Change:
    """`others` and `outside`: is that memory there?"""
    ideal: bool = False
    growth: bool = True
    others: bool = True
    outside: bool = True
    room: float = 1.0


CHANGES = {"fragmentation": Change(ideal=True), "growth": Change(growth=False),
           "held-by-other": Change(others=False), "outside": Change(outside=False)}
BASE = Change()


class Machine:
    """One run: allocator, device, and the tensors by name."""

    def __init__(self, program, change=BASE):
        self.device = Device(int(program.capacity * change.room), program.base, program.context)
        self.allocator = (IdealAllocator if change.ideal else CachingAllocator)(self.device)
        self.change = change
        self.tensors = {}
        self.live = self.peak_live = 0
        self.others = self.outside = 0  # their largest values

    def do(self, operation):
        what = operation[0]
        if what == "a":
            size, stream = operation[2], operation[3] if len(operation) > 3 else 0
            self.peak_live = max(self.peak_live, self.live + size)
            self.tensors[operation[1]] = (self.allocator.allocate(size, stream), size)
            self.live += size
        elif what == "f":
            block, size = self.tensors.pop(operation[1])
            self.allocator.release(block)
            self.live -= size
        elif what == "o" and self.change.others:
            # another process gets what is free and no more
            self.device.others = min(operation[1], self.device.others + max(0, self.device.free()))
            self.others = max(self.others, self.device.others)
        elif what == "x" and self.change.outside:
            self.device.outside += max(0, min(operation[1] - self.device.outside, self.device.free()))
            self.outside = max(self.outside, self.device.outside)
        elif what == "e":
            self.allocator.empty_cache()


def run(program, change=BASE, *, steps_max=None, operations_max=OPERATIONS_MAX, watch=None):
    """`watch(machine, step number, index, operations of the step)` is called before each operation."""
    machine = Machine(program, change)
    done = 0
    steps = program.steps(change.growth)
    for number, step in enumerate(itertools.islice(steps, steps_max)):
        for index, operation in enumerate(step):
            if watch is not None:
                watch(machine, number, index, len(step))
            try:
                machine.do(operation)
            except OutOfMemory as refused:
                if watch is not None:
                    watch(machine, number, index, len(step), refused)
                return Outcome(True, number, done, refused.requested, refused.free, machine.peak_live, machine.others,
                               machine.outside)
            done += 1
        if done > operations_max:
            return Outcome(False, number + 1, done, peak_live=machine.peak_live)
    return Outcome(False, number + 1, done, peak_live=machine.peak_live)


@dataclasses.dataclass
class Truth:
    cause: str           # of CHANGES; two of them with TOGETHER between; "capacity": no change helps
    intent: str          # of the growth, where that is a cause
    ratios: dict         # how many times as long it ran under each change, at most HORIZON
    classes: tuple       # of the verdict that are right; the first is the best
    base: Outcome
    also: tuple = ()     # classes whose advice would have helped as well


def classes_of(cause, intent):
    if cause == "growth":
        return {"leak": ("leak",), "design": ("capacity", "leak"), "demand": ("capacity",)}[intent]
    return {"outside": ("leak",)}.get(cause, (cause,))


def both(first, second):
    """The change that does what both do."""
    return Change(first.ideal or second.ideal, first.growth and second.growth, first.others and second.others,
                  first.outside and second.outside)


def causes_of(ratios):
    """The changes that let it run LONGER, and nearly as long as the best one."""
    best = max(ratios.values(), default=0)
    return [name for name, ratio in ratios.items() if ratio >= LONGER and ratio >= best * NEAR_BEST]


def find_truth(program, operations_max=OPERATIONS_MAX):
    """None: it does not fail. If `outside` is the cause, it counts as removed growth: a library's leak. If no change
    helps, two together may: then each is half of the cause, and making the program smaller (capacity) helps, too.
    If idle pieces are the cause, a little more room may do as well."""
    base = run(program, operations_max=operations_max)
    if not base.failed:
        return None
    horizon = max(FIRST_STEPS, int(base.steps * HORIZON))
    limit = max(operations_max, int(base.operations * HORIZON * 1.5) + 10000)
    there = {"growth": program.generator.intent, "held-by-other": base.others, "outside": base.outside}
    changes = {name: change for name, change in CHANGES.items() if there.get(name, True)}

    def ratio(change):
        other = run(program, change, steps_max=horizon, operations_max=limit)
        return HORIZON if not other.failed else min(HORIZON, (other.steps + 1) / (base.steps + 1))

    intent = program.generator.intent
    ratios = {name: ratio(change) for name, change in changes.items()}
    causes = causes_of(ratios)
    if causes:
        classes = [each for cause in causes for each in classes_of(cause, intent)]
        also = ()
        if "fragmentation" in causes:
            ratios["capacity"] = ratio(Change(room=ROOMIER))
            also = ("capacity",) if "capacity" in causes_of(ratios) else ()
        return Truth(causes[0], intent, ratios, tuple(dict.fromkeys(classes)), base, also)
    pairs = {pair: ratio(both(*(changes[name] for name in pair))) for pair in itertools.combinations(changes, 2)}
    found = causes_of(pairs)
    halves = [each for pair in found for cause in pair for each in classes_of(cause, intent)]
    return Truth(TOGETHER.join(found[0]) if found else "capacity", intent, ratios,
                 tuple(dict.fromkeys(["capacity", *halves])), base)
