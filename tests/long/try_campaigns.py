#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rocmcrash try and fit on real programs with planted causes, at the error that it has by default.

usage: try_campaigns.py plain --rocmcrash PROGRAM [--repeat N]      plain programs, a GPU is not needed (about 15 minutes a time)
       try_campaigns.py real --rocmcrash PROGRAM [--repeat N]       five programs with real defects of five kinds; C, C++ and OpenMP (5 minutes)
       try_campaigns.py emulated --build FOLDER                     SDMA on the emulated GPU (6 minutes)
       try_campaigns.py gpu --rocmcrash PROGRAM                     PyTorch on a real GPU (4 minutes; try_programs/)

A line a campaign; exit 1 when one is judged wrongly. "undecided" is no wrong answer for a flaky failure.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(HERE, "try_programs")
PYTHON = sys.executable
FLAKY = "import os, random, sys; sys.exit(random.SystemRandom().random() < 0.3 {})"
NO_HELP = {"no-help", "undecided"}
# name: (options, program, environment, descriptors, right statuses, right finding of the first change)
PLAIN = {
    "descriptors": (["--with-limit", "nofile=4096", "--with", "A=1"],
                    "kept = [open('/dev/null') for _ in range(1100)]", {}, 1024,
                    {"confirmed"}, {"cures"}),
    "one setting": (["--without", "SETTING", "--with", "A=1"], "import os, sys; sys.exit('SETTING' in os.environ)", {"SETTING": "1"}, 0,
                    {"confirmed"}, {"cures"}),
    "cured": (["--with", "EXPAND=1", "--with", "A=1"], "import os, sys; sys.exit('EXPAND' not in os.environ)", {}, 0, {"confirmed"}, {"cures"}),
    "postponed": (["--with", "EXPAND=1", "--with", "A=1"],
                  "import os, sys\nfor step in range(102 if 'EXPAND' in os.environ else 100): print(step)\nsys.exit(1)", {}, 0,
                  {"no-help"}, {"postpones"}),
    "flaky": (["--with", "A=1", "--runs", "120"], FLAKY.format(""), {}, 0, NO_HELP, {"undecided", "refuted"}),
    "halved": (["--with", "HALF=1", "--runs", "240"], FLAKY.format("* (0.5 if 'HALF' in os.environ else 1)"), {}, 0,
               {"confirmed", "undecided"}, {"lowers", "undecided"}),
}
# name: (options, source or script, compiler's words, environment). The right change comes first, then one that has nothing to do with it.
REAL = {
    "stack": (["--with-limit", "stack=unlimited", "--with", "A=1"], "log_scan.cc", ["c++", "-O0"], {}),
    "race": (["--with", "OMP_NUM_THREADS=1", "--with", "A=1"], "histogram.c", ["cc", "-O1", "-fopenmp"], {}),
    "memory that nobody cleared": (["--without", "MALLOC_PERTURB_", "--with", "A=1"], "matrix_report.c", ["cc", "-O0"], {"MALLOC_PERTURB_": "165"}),
    "order of a set": (["--with", "PYTHONHASHSEED=0", "--with", "A=1"], "columns.py", None, {}),
    "no folder": (["--without", "TMPDIR", "--with", "A=1"], "merge_logs.sh", None, {"TMPDIR": "/nonexistent"}),
}
GPU = {
    "setting": (["--first"], "setting.py", {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:1"}, {"confirmed"}),
    "fragments": (["--first"], "fragments.py", {}, {"confirmed"}),
    "postponed": (["--with", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"], "fragments.py --grow", {}, {"no-help"}),
    "flaky": (["--with", "CUDA_LAUNCH_BLOCKING=1", "--runs", "30"], "flaky.py", {}, NO_HELP),
}


def limit_to(descriptors):
    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def campaign(rocmcrash, options, command, environ, descriptors=0, around=()):
    with tempfile.TemporaryDirectory(prefix="rc-try-") as folder:
        env = {**os.environ, **environ, "ROCMCRASH_STATE_DIR": os.path.join(folder, "state")}
        done = subprocess.run([*around, rocmcrash, "try", "--json", "-o", folder, *options, "--", *command], env=env, check=False,
                              preexec_fn=lambda: limit_to(descriptors), capture_output=True, text=True)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"status": done.stderr.strip()[-300:], "cells": []}


class Tally:
    def __init__(self):
        self.wrong, self.lock = 0, threading.Lock()

    def note(self, name, result, statuses, findings=None):
        good = result["status"] in statuses and (findings is None or len(result["cells"]) > 1 and result["cells"][1]["finding"] in findings)
        cells = ", ".join(f"{c['change'] or 'as it is'} {c['failed']}/{c['runs']} {c.get('finding', '')}" for c in result["cells"])
        with self.lock:
            self.wrong += not good
            print("right" if good else "WRONG", f"{name}: {result['status']}; {cells}", flush=True)


def at_once(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def plain(rocmcrash, tally):
    def one(name):
        options, program, environ, descriptors, statuses, findings = PLAIN[name]
        tally.note(name, campaign(rocmcrash, options, [PYTHON, "-c", program], environ, descriptors), statuses, findings)
    at_once([lambda name=name: one(name) for name in PLAIN])


def command_of(source, compiler, folder):
    path = os.path.join(PROGRAMS, source)
    if compiler is None:
        return [PYTHON if source.endswith(".py") else "sh", path]
    program = os.path.join(folder, source.split(".", maxsplit=1)[0])
    subprocess.run([*compiler, "-o", program, path], check=True)
    return [program]


def real(rocmcrash, tally):
    """The change of the other kind must not be found to cure anything."""
    def one(name, folder):
        options, source, compiler, environ = REAL[name]
        result = campaign(rocmcrash, options, command_of(source, compiler, folder), environ)
        other = result["cells"][2]["finding"] if len(result["cells"]) > 2 else ""
        tally.note(name, result, {"confirmed"} if other not in ("cures", "lowers") else set(), {"cures"})
    with tempfile.TemporaryDirectory(prefix="rc-try-real-") as folder:
        at_once([lambda name=name: one(name, folder) for name in REAL])


def gpu(rocmcrash, tally):
    def one(name):
        options, program, environ, statuses = GPU[name]
        words = program.split()
        tally.note(name, campaign(rocmcrash, options, [PYTHON, os.path.join(PROGRAMS, words[0]), *words[1:]], environ), statuses)
    at_once([lambda name=name: one(name) for name in GPU])


def emulated(build, tally):
    sys.path.insert(0, os.path.join(SOURCE, "samples"))
    import on_emulator  # pylint: disable=import-outside-toplevel
    for near_miss, statuses in ((False, {"confirmed"}), (True, {"refuted", "no-help"})):
        with tempfile.TemporaryDirectory(prefix="rc-try-machine-") as folder:
            run = on_emulator.Run("copy_engine", build, folder, near_miss=near_miss)
            words = ["--with", "HSA_ENABLE_SDMA=0", "--with", "AMD_SERIALIZE_KERNEL=3"]
            command = [run.program, *(["--near-miss"] if near_miss else [])]
            result = campaign(os.path.join(build, "bin", "rocmcrash"), words, command, run.environ(), around=[run.keeper, run.machine])
            tally.note("kernel hangs" if near_miss else "SDMA", result, statuses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["plain", "real", "emulated", "gpu"])
    parser.add_argument("--rocmcrash", default="rocmcrash")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "dev"))
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    tally = Tally()
    for _ in range(options.repeat):
        if options.what == "emulated":
            emulated(options.build, tally)
        else:
            {"plain": plain, "real": real, "gpu": gpu}[options.what](options.rocmcrash, tally)
    print(f"{tally.wrong} wrong")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
