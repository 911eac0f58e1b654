#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of the laboratory on a real GPU: PyTorch's allocator decides, and the laboratory's has to agree.

usage: replay_on_gpu.py [--count N] [--seed S] [--seconds S]

Each program gets as much of the GPU as its own GPU had free (a memory fraction). Compared are allocated and reserved
bytes at every step and at the refusal, and the step of it. Memory is not touched: a program takes a second.
"""
import argparse
import collections
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import caching_allocator  # noqa: E402
import families  # noqa: E402,F401
from program import SEEN, UNSEEN, make_programs  # noqa: E402

OPERATIONS_MAX = 30000
LARGEST = 100 << 30
TOLERANCE = 0.02


class Real:
    """PyTorch's allocator with the calls of ours."""

    def __init__(self, allowed):
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(0).total_memory)
        self.held = set()

    def allocate(self, size):
        block = torch.cuda.caching_allocator_alloc(size, 0)
        self.held.add(block)
        return block

    def release(self, block):
        self.held.remove(block)
        torch.cuda.caching_allocator_delete(block)

    def figures(self):
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    def close(self):
        for block in list(self.held):
            self.release(block)
        torch.cuda.empty_cache()


class Ours(caching_allocator.CachingAllocator):
    def figures(self):
        return self.allocated.current[0], self.reserved.current[0]


def run(program, allocator):
    """Figures at the end of each step, and ("refused", figures) where memory was refused."""
    blocks, said, done = {}, [], 0
    for step in program.steps():
        for operation in step:
            try:
                if operation[0] == "a":
                    blocks[operation[1]] = allocator.allocate(operation[2])
                elif operation[0] == "f":
                    allocator.release(blocks.pop(operation[1]))
            except (torch.OutOfMemoryError, caching_allocator.OutOfMemory):
                return said + [("refused", *allocator.figures())]
            done += 1
        said.append(("step", *allocator.figures()))
        if done > OPERATIONS_MAX:
            break
    return said


def difference(real, ours, allowed):
    """The largest difference in shares of what is allowed; 1 where they end in different ways."""
    if len(real) != len(ours) or real[-1][0] != ours[-1][0]:
        return 1.0
    return max(abs(a - b) / allowed for one, other in zip(real, ours) for a, b in zip(one[1:], other[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    torch.cuda.init()
    end = time.monotonic() + options.seconds
    found = collections.Counter()
    chosen = [g for g in SEEN + UNSEEN if g.family != "neighbours" and "beside" not in g.name]
    for program in make_programs(chosen, options.count, options.seed):
        allowed = program.capacity - program.base - program.context
        if program.capacity > LARGEST:
            continue
        if time.monotonic() > end:
            break
        real = Real(allowed)
        theirs = run(program, real)
        real.close()
        mine = run(program, Ours(caching_allocator.Device(1 << 50), allowed=allowed))
        worst = difference(theirs, mine, allowed)
        found["programs"] += 1
        found["steps"] += len(theirs)
        found["refused"] += theirs[-1][0] == "refused"
        found["equal"] += worst == 0
        found["agree"] += worst <= TOLERANCE
        print(f"{worst:8.5f} {program.name} {len(theirs)} {theirs[-1]} {mine[-1] if worst else ''}", flush=True)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}: {dict(found)}")
    return 0 if found["agree"] == found["programs"] else 1


if __name__ == "__main__":
    sys.exit(main())
