#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many random schedules of allocate, map, free, fork, exec, thread exit and kill -9 on the emulator:
does the ledger say what the driver decided, to the byte?

usage: ledger_schedules.py [--count N] [--first SEED] BUILD     BUILD: a build folder, e.g. build/dev
"""

import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "integration"), os.path.join(ROOT, "tests", "emulator")]


def kind_of(seed):
    """Mostly processes one after the other; some are killed at any moment, some have threads that
    allocate at the same moment."""
    if seed % 5 == 3:
        return {"steps": 100000, "kill_after_s": 0.03 + seed % 50 * 0.004}
    if seed % 10 in (2, 7):
        return {"steps": 120, "threads": 4}
    return {"steps": 40 + seed % 60}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=100000)
    parser.add_argument("build")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    os.environ["EMULATOR_BUILD"] = os.path.join(build, "tests", "emulator")
    import emulated
    import ledger_oracle
    failed, decisions, images = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="rc-long-") as folder:
        runner = ledger_oracle.Runner(emulated, os.path.join(build, "bin", "librocmcrash-ledger.so"),
                                      os.path.join(build, "tests/unit/inject/ledger_schedule"),
                                      folder)
        for seed in range(options.first, options.first + options.count):
            wrong, count, processes = runner.run(seed, **kind_of(seed))
            decisions, images, failed = decisions + count, images + processes, failed + bool(wrong)
            for text in wrong:
                print(text[:2000], flush=True)
    print(f"{options.count} schedules, {images} process images, {decisions} decisions of the driver: "
          f"{failed} schedules disagree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
