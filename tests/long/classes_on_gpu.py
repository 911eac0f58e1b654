#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The laboratory's verdicts on a real GPU: the same programs run again, at their own speed, under rocmcrash.

usage: classes_on_gpu.py TABLE... --rocmcrash PROGRAM [--keep FOLDER] [--workers N] [--within SECONDS] [--longest SECONDS]

TABLE: what `tests/lab/laboratory.py --table` wrote. A program of it runs here if it needs neither another process nor
memory beside the allocator, and if it is short and small enough. It gets as much of the GPU as its own GPU had free (a
memory fraction); PyTorch allocates and frees what the program says, and does no work on it. Compared are the class, and
the allocated bytes at the refusal.
"""
import argparse
import concurrent.futures
import csv
import glob
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import experiment  # noqa: E402
import families  # noqa: E402,F401
from program import Pace, program_named  # noqa: E402

OPERATIONS_MAX = 30000
SHARE = 0.9  # of the GPU, for all programs that run at the same time
TOLERANCE = 0.02


def allowed(program):
    return program.capacity - program.base - program.context


class Clock:
    """Lets each operation wait for its time."""

    def __init__(self, program):
        self.pace, self.due = Pace(program), time.monotonic()

    def wait(self, number, operations):
        self.due += self.pace.step_s(number, operations) / max(1, operations)
        if self.due - time.monotonic() > 0.001:
            time.sleep(self.due - time.monotonic())


def play(program):
    """Runs it with PyTorch until memory is refused; the error is not caught."""
    import torch
    torch.cuda.set_per_process_memory_fraction(allowed(program) / torch.cuda.get_device_properties(0).total_memory)
    blocks, clock = {}, Clock(program)
    for number, step in enumerate(program.steps()):
        for operation in step:
            clock.wait(number, len(step))
            if operation[0] == "a":
                blocks[operation[1]] = torch.cuda.caching_allocator_alloc(operation[2], 0)
            elif operation[0] == "f":
                torch.cuda.caching_allocator_delete(blocks.pop(operation[1]))
            elif operation[0] == "e":
                torch.cuda.empty_cache()


class Watch:
    """The laboratory's own run: seconds, bytes allocated at the end, what a GPU alone cannot do."""

    def __init__(self, program):
        self.pace, self.seconds, self.allocated, self.special = Pace(program), 0.0, 0, False

    def __call__(self, machine, number, index, operations, refused=None):
        if index == 0:
            self.seconds += self.pace.step_s(number, operations)
        self.special = self.special or machine.device.others > 0 or machine.device.outside > 0
        self.allocated = machine.allocator.allocated.current[0]


def is_plain(program, steps):
    """One stream, no other process, nothing beside the allocator."""
    return all(operation[0] in "fe" or (operation[0] == "a" and len(operation) == 3)
               for step in itertools.islice(program.steps(), steps + 1) for operation in step)


def candidates(tables, longest_s):
    """(row, program, what the laboratory saw), the shortest first."""
    rows, found = [], []
    for table in tables:
        with open(table, encoding="ascii", newline="") as file:
            rows += csv.DictReader(file)
    for row in rows:
        program = program_named(row["name"])
        if int(row["operations"]) <= OPERATIONS_MAX and is_plain(program, int(row["steps"])):
            watch = Watch(program)
            experiment.run(program, watch=watch)
            found.append((row, program, watch))
    return sorted((each for each in found if each[2].seconds <= longest_s), key=lambda each: each[2].seconds)


class Room:
    """The bytes of the GPU that are not promised to a program."""

    def __init__(self, size):
        self.free, self.changed = size, threading.Condition()

    def take(self, size):
        with self.changed:
            self.changed.wait_for(lambda: self.free >= size)
            self.free -= size

    def give(self, size):
        with self.changed:
            self.free += size
            self.changed.notify_all()


def verdict_of(folder):
    """(verdict, facts by name) of the bundle, (None, None) if there is none."""
    found = glob.glob(os.path.join(folder, "*.tar.gz"))
    if not found:
        return None, None
    with tarfile.open(found[0]) as bundle:
        files = {os.path.basename(m.name): m for m in bundle.getmembers() if m.isfile()}
        facts = json.load(bundle.extractfile(files["facts.json"]))["facts"]
        return json.load(bundle.extractfile(files["verdict.json"])), {
            (f["name"], f["when"]): f.get("value") for f in facts}


class Campaign:
    def __init__(self, options, size):
        self.options, self.room, self.over = options, Room(size), time.monotonic() + options.within

    def one(self, candidate):
        """(row, class, confidence, allocated bytes here / in the laboratory); None: no time was left."""
        row, program, watch = candidate
        folder = os.path.join(self.options.keep, row["name"])
        os.makedirs(folder, exist_ok=True)
        self.room.take(allowed(program))
        try:
            if time.monotonic() + watch.seconds > self.over:
                return None
            command = [self.options.rocmcrash, "--output-dir", folder, "--", sys.executable, __file__, "--play", row["name"]]
            with open(os.path.join(folder, "output"), "wb") as output:
                subprocess.run(command, stdout=output, stderr=output, check=False, timeout=watch.seconds * 3 + 120,
                               env={**os.environ, "ROCMCRASH_STATE_DIR": os.path.join(folder, "state")})
        finally:
            self.room.give(allowed(program))
        verdict, facts = verdict_of(folder)
        if verdict is None:
            return row, "no bundle", "", 0.0
        here = facts.get(("torch.allocated_bytes", "impact")) or 0
        return row, verdict["class"], verdict["confidence"], here / max(1, watch.allocated)


def told(found):
    """Prints a line for each; returns how many agree in both."""
    for row, name, confidence, ratio in found:
        agree = name == row["class"] or name in row["accepted"].split("|")
        print(f"{'same' if name == row['class'] else 'right' if agree else 'OTHER':6} {abs(ratio - 1):8.5f} {row['name']} "
              f"laboratory {row['class']} {row['confidence']}, here {name} {confidence}, right {row['accepted']}")
    same = sum(name == row["class"] for row, name, _, _ in found)
    near = sum(abs(ratio - 1) <= TOLERANCE for *_, ratio in found)
    wrong = [row["name"] for row, name, confidence, _ in found
             if confidence == "high" and name not in row["accepted"].split("|")]
    right = sum(name in row["accepted"].split("|") for row, name, _, _ in found)
    print(f"{len(found)} programs: the laboratory's class {same}, a right class {right}, bytes within 2 % {near}, "
          f"wrong at high {len(wrong)}")
    return 0 if same == len(found) == near else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--play", metavar="NAME", help="run this program (used by the script itself)")
    parser.add_argument("--rocmcrash", default="rocmcrash")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the bundles there")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--within", type=float, default=480, metavar="SECONDS")
    parser.add_argument("--longest", type=float, default=60, metavar="SECONDS")
    options = parser.parse_args()
    if options.play:
        play(program_named(options.play))
        return 0
    options.keep = options.keep or tempfile.mkdtemp(prefix="rocmcrash-classes-")
    size = SHARE * int(subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.get_device_properties(0).total_memory)"],
        stdout=subprocess.PIPE, check=True).stdout)
    campaign = Campaign(options, size)
    chosen = [each for each in candidates(options.tables, options.longest) if allowed(each[1]) <= size]
    print(f"{len(chosen)} programs are short and small enough", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        return told([each for each in pool.map(campaign.one, chosen) if each is not None])


if __name__ == "__main__":
    sys.exit(main())
