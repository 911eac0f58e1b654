#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the CPU time of the Python hook, without a GPU: the start of a Python, and one sample of the allocator.

usage: hook_cost.py [--starts N] [--hook FOLDER] [PYTHON...]

A start is what Python's own -X importtime says of `sitecustomize`, in turn with and without the hook; a sample is
timed beside the stand-in of tests/fixtures/hook with PyTorch's own call taken out, and counted with eight devices of
which one is used; 2,000 refusals that a program catches go through the stand-in, too. Compare two versions of the hook by --hook.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUB = os.path.join(ROOT, "tests", "fixtures", "hook")

SAMPLE = """
import gc, time, torch
keep = torch.empty(1 << 20)
names = next(o for o in gc.get_objects() if type(o) is dict and "_sample" in o and "all_stats" in o)
stats, asked = torch._C._cuda_memoryStats(0), []
idle = {name: {pool: dict.fromkeys(value, 0) for pool, value in pools.items()}
        for name, pools in stats.items() if isinstance(pools, dict)}
def known(device):
    asked.append(device)
    return idle if device else stats
torch._C._cuda_memoryStats = known
time.sleep(3.2)
print("calls of PyTorch in 3.2 s, 8 devices of which one is used:", len(asked))
best = 1e9
for _ in range(500):
    start = time.perf_counter_ns()
    names["_sample"]()
    best = min(best, time.perf_counter_ns() - start)
print("one sample without PyTorch's part: %.1f us" % (best / 1000))
"""

# As a search for the largest batch that goes on for ever: each refusal is caught, and 2 ms of work follow.
REFUSALS = """
import time, torch
keep = [torch.empty(8 << 20) for _ in range(400)]
spent_ns = 0
for i in range(2000):
    start = time.perf_counter_ns()
    try:
        torch.empty((50 << 30) + (i % 7 << 20))
    except torch.OutOfMemoryError:
        pass
    spent_ns += time.perf_counter_ns() - start
    time.sleep(0.002)
print(spent_ns / 2000e3)
"""


def refusal_us(python, hook, run_dir):
    run = subprocess.run([python, "-c", REFUSALS], env=environ(hook, run_dir), check=True, capture_output=True, text=True)
    return float(run.stdout)


def environ(hook, run_dir, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ROCMCRASH"))}
    paths = [hook] if hook else []
    if hook:
        env["ROCMCRASH_HOOK"] = f"{os.getpid()}::{run_dir}"
    return dict(env, PYTHONPATH=":".join([*paths, STUB]), **more)


def start_us(python, hook, run_dir):
    run = subprocess.run([python, "-X", "importtime", "-c", "pass"], env=environ(hook, run_dir), check=True,
                         capture_output=True, text=True)
    return int(re.findall(r"\| +(\d+) \| +sitecustomize", run.stderr)[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--starts", type=int, default=60)
    p.add_argument("--hook", default=os.path.join(ROOT, "src", "inject", "python"))
    p.add_argument("pythons", nargs="*", default=[sys.executable])
    a = p.parse_args()
    for python in a.pythons:
        with tempfile.TemporaryDirectory() as folder:
            pairs = [(start_us(python, None, folder), start_us(python, a.hook, folder)) for _ in range(a.starts)]
            more = [b - a for a, b in pairs[1:]]  # the first compiles
            print(f"{python}: a start is {statistics.median(more):.0f} us longer in the median, {min(b for _, b in pairs)}"
                  f" for {min(a for a, _ in pairs)} us at best")
            plain, hooked = refusal_us(python, None, folder), refusal_us(python, a.hook, folder)
            print(f"one of 2,000 refusals: {hooked:.0f} us, without the hook {plain:.0f} us")
            subprocess.run([python, "-c", SAMPLE], env=environ(a.hook, folder, STUB_TORCH_DEVICES="8"), check=True)


if __name__ == "__main__":
    main()
