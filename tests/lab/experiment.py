# SPDX-License-Identifier: Apache-2.0
"""A program on a GPU until its first refusal, and again under one change each: what lets it go on is the cause."""
import dataclasses
import itertools

from caching_allocator import CachingAllocator, Device, IdealAllocator, OutOfMemory

OPERATIONS_MAX = 120000  # of a run whose end is looked for
LONGER = 2.0             # a change that lets it run so many times as long is a cause
HORIZON = 4.0            # how far it is looked
FIRST_STEPS = 12         # of a program that failed before it had done so many
NEAR_BEST = 0.75         # changes that help nearly as much as the best one count as well


@dataclasses.dataclass
class Outcome:
    failed: bool
    steps: int           # done whole
    operations: int
    requested: int = 0
    free: int = 0
    peak_live: int = 0   # bytes asked for, with the request that was refused


@dataclasses.dataclass
class Change:
    """`others` and `outside`: is that memory there?"""
    ideal: bool = False
    growth: bool = True
    others: bool = True
    outside: bool = True


CHANGES = {"fragmentation": Change(ideal=True), "growth": Change(growth=False),
           "held-by-other": Change(others=False), "outside": Change(outside=False)}
BASE = Change()


class Machine:
    """One run: allocator, device, and the tensors by name."""

    def __init__(self, program, change=BASE):
        self.device = Device(program.capacity, program.base, program.context)
        self.allocator = (IdealAllocator if change.ideal else CachingAllocator)(self.device)
        self.change = change
        self.tensors = {}
        self.live = self.peak_live = 0

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
        elif what == "x" and self.change.outside:
            self.device.outside += max(0, min(operation[1] - self.device.outside, self.device.free()))
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
                return Outcome(True, number, done, refused.requested, refused.free, machine.peak_live)
            done += 1
        if done > operations_max:
            return Outcome(False, number + 1, done, peak_live=machine.peak_live)
    return Outcome(False, number + 1, done, peak_live=machine.peak_live)


@dataclasses.dataclass
class Truth:
    cause: str           # of CHANGES, or "capacity": no change helps
    intent: str          # of the growth, where that is the cause
    ratios: dict         # how many times as long it ran under each change, at most HORIZON
    classes: tuple       # of the verdict that are right; the first is the one to be wanted
    base: Outcome


def classes_of(cause, intent):
    if cause == "growth":
        return {"leak": ("leak",), "design": ("capacity", "leak"), "demand": ("capacity",)}[intent]
    return {"outside": ("leak",)}.get(cause, (cause,))


def find_truth(program, operations_max=OPERATIONS_MAX):
    """None: it does not fail. `outside` counts as growth that was removed: a library's leak."""
    base = run(program, operations_max=operations_max)
    if not base.failed:
        return None
    horizon = max(FIRST_STEPS, int(base.steps * HORIZON))
    limit = max(operations_max, int(base.operations * HORIZON * 1.5) + 10000)
    ratios = {}
    for name, change in CHANGES.items():
        if name == "growth" and not program.generator.intent:
            continue
        other = run(program, change, steps_max=horizon, operations_max=limit)
        ratios[name] = HORIZON if not other.failed else min(HORIZON, (other.steps + 1) / (base.steps + 1))
    best = max(ratios.values())
    causes = [name for name, ratio in ratios.items() if best >= LONGER and ratio >= best * NEAR_BEST]
    classes = [each for cause in causes for each in classes_of(cause, program.generator.intent)]
    return Truth(causes[0] if causes else "capacity", program.generator.intent, ratios,
                 tuple(dict.fromkeys(classes)) or ("capacity",), base)
