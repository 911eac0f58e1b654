# SPDX-License-Identifier: Apache-2.0
"""Shared by all programs: the entry in the list, its limits, and the line it prints at its end."""
import json
import os
import sys
import time
from typing import NamedTuple

MIB, GIB = 1 << 20, 1 << 30
ENDINGS = {"leak": "refused", "fragmentation": "refused", "growth": "refused", "capacity": "refused",
           "held": "refused", "healthy": "completes"}
PROGRAMS = []


class Program(NamedTuple):
    name: str
    family: str
    ending: str
    description: str
    claim: str
    library: str
    scales: str
    cures: tuple
    function: object


def program(family, claim, scales="sizes", cures=(), library="torch"):
    """Registers a function as a program.

    claim    why the author holds that the family is the true cause
    scales   what TRUTH_FRACTION does: "sizes" (the memory limit, and all sizes follow it: the same number of
             steps), "limit" (the memory limit only: fewer steps) or "none" (needs the whole card, alone)
    cures    what TRUTH_CURE understands: "growth" (nothing grows), "holes" (the survivors are moved
             together, the same bytes stay alive), "size" (all is smaller), "other" (no second process)
    """
    def register(function):
        PROGRAMS.append(Program(function.__name__, family, ENDINGS[family], function.__doc__.strip(), claim,
                                library, scales, tuple(cures), function))
        return function
    return register


def unseen(name):
    """Every third program of its family, in the order of the files, is kept from those who write rules."""
    family = next(p.family for p in PROGRAMS if p.name == name)
    return [p.name for p in PROGRAMS if p.family == family].index(name) % 3 == 2


def listing():
    return [dict(p._asdict(), function=p.function.__name__, unseen=unseen(p.name)) for p in PROGRAMS]


class Stopped(BaseException):
    """The harness wanted no more steps. Not an Exception, so that no program's handler takes it."""


class Run:
    """One run of one program: what it may take, how long it goes on, what it has done."""

    def __init__(self, entry):
        self.entry = entry
        self.device = "cuda"
        self.fraction = 1.0 if entry.scales == "none" else float(os.environ.get("TRUTH_FRACTION") or 1)
        self.cure = os.environ.get("TRUTH_CURE", "")
        self.most_steps = int(os.environ.get("TRUTH_STEPS") or 0)
        self.most_seconds = float(os.environ.get("TRUTH_LIMIT") or 90)
        self.patience = float(os.environ.get("TRUTH_PAUSE") or 1)
        self.began = self.told = time.monotonic()
        self.done = 0
        self.budget = 0
        self.cupy_total = None
        if self.cure and self.cure not in entry.cures:
            sys.exit(f"{entry.name} has no cure '{self.cure}', only: {', '.join(entry.cures) or 'none'}")

    def cured(self, what="growth"):
        return self.cure == what

    def torch(self):
        """torch, limited to the fraction; the budget is what it may take."""
        import torch
        free, total = torch.cuda.mem_get_info()
        if self.fraction < 1:
            torch.cuda.set_per_process_memory_fraction(self.fraction)
        self.budget = min(free, int(total * self.fraction))
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("high")
        self.start_clock()
        return torch

    def jax(self):
        """jax, whose pool is its usual three quarters of the card, times the fraction."""
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.75 * self.fraction:.4f}"
        import jax
        self.budget = jax.local_devices()[0].memory_stats()["bytes_limit"]
        self.start_clock()
        return jax

    def cupy(self):
        """cupy, its pool limited to the fraction; a hook counts the bytes it hands out."""
        import cupy
        free, total = cupy.cuda.runtime.memGetInfo()
        self.budget = min(free, int(total * self.fraction))
        if self.fraction < 1:
            cupy.get_default_memory_pool().set_limit(size=self.budget)
        self.count_cupy(cupy)
        self.start_clock()
        return cupy

    def count_cupy(self, cupy):
        run = self

        class Count(cupy.cuda.MemoryHook):
            name = "Count"

            def malloc_postprocess(self, **call):
                run.cupy_total += call["mem_size"]
        self.cupy_total = 0
        Count().__enter__()

    def start_clock(self):
        self.began = self.told = time.monotonic()

    def share(self, part):
        """Bytes: a part of what the program may take, whole kilobytes."""
        return int(self.budget * part) >> 10 << 10

    def rows(self, part, row_bytes):
        """How many rows of a table make up a part of what the program may take."""
        return max(1, int(self.budget * part / row_bytes))

    def pause(self, seconds):
        """As a data loader or a person makes a program wait."""
        time.sleep(seconds * self.patience)

    def step(self):
        """Counts one finished step, and leaves the program where the harness wants no more."""
        self.done += 1
        now = time.monotonic()
        if now - self.told > 1:
            self.told = now
            print(f"step {self.done}", flush=True)
        if self.done == self.most_steps or now - self.began > self.most_seconds:
            raise Stopped

    def steps(self, count=None, pause=0.0):
        """Numbers of steps from 0, without an end unless count is given; pause is waited before each."""
        number = 0
        while count is None or number < count:
            if pause:
                self.pause(pause)
            yield number
            number += 1
            self.step()


def is_refusal(error):
    """Whether an error, or one that it hides, says that memory was refused."""
    while error is not None:
        text = f"{type(error).__name__}: {error}"
        if "OutOfMemory" in text or "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
            return True
        error = error.__cause__ or error.__context__
    return False


def memory_of(run):
    """The library's own figures of its memory; allocated_in_all is null if the library does not count it."""
    if run.entry.library == "torch":
        stats = sys.modules["torch"].cuda.memory_stats()
        return {"allocated_in_all": stats.get("allocated_bytes.all.allocated"),
                "allocated": stats.get("allocated_bytes.all.current"),
                "requested": stats.get("requested_bytes.all.current"),
                "reserved": stats.get("reserved_bytes.all.current"),
                "peak": stats.get("allocated_bytes.all.peak"),
                "refusals": stats.get("num_ooms")}
    if run.entry.library == "cupy":
        pool = sys.modules["cupy"].get_default_memory_pool()
        return {"allocated_in_all": run.cupy_total, "allocated": pool.used_bytes(), "reserved": pool.total_bytes()}
    stats = sys.modules["jax"].local_devices()[0].memory_stats()
    return {"allocated_in_all": None, "allocated": stats.get("bytes_in_use"), "peak": stats.get("peak_bytes_in_use"),
            "allocations": stats.get("num_allocs"), "reserved": stats.get("bytes_limit")}


def report(run, ending, error=None):
    line = {"truth": run.entry.name, "family": run.entry.family, "ending": ending, "steps": run.done,
            "seconds": round(time.monotonic() - run.began, 2), "budget": run.budget, "fraction": run.fraction,
            "cure": run.cure, "unseen": unseen(run.entry.name)}
    if error is not None:
        line["error"] = f"{type(error).__name__}: {error}"[:1500]
    try:
        line.update(memory_of(run))
    except Exception as problem:  # A library that failed to start has nothing to tell.
        line["no_memory_figures"] = repr(problem)[:200]
    print(json.dumps(line), flush=True)


def execute(entry):
    """Runs a program to its end. An error leaves this function as it left the program."""
    run = Run(entry)
    try:
        entry.function(run)
    except Stopped:
        report(run, "stopped")
    except Exception as error:
        report(run, "refused" if is_refusal(error) else "failed", error)
        raise
    else:
        report(run, "completes")
