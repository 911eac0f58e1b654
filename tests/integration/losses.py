# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of losses: compiled helpers, the table of faults, a kept run directory, and the check whether
anything was lost."""

import atexit
import concurrent.futures
import copy
import glob
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import programs
import support

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = os.path.join(HERE, "faults")
FUSE = os.path.join(HERE, "..", "unit", "telemetry")
SEED = int(os.environ.get("RC_LOSS_SEED") or "1")

_folder = ""
_built = {}


def compiled(name, *argv):
    """Path of the program that `cc argv` makes. Raises SkipTest if it cannot be made."""
    global _folder  # one per test file
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise unittest.SkipTest("no C compiler here")
    if not _folder:
        _folder = tempfile.mkdtemp(prefix="rc-faults-")
        atexit.register(shutil.rmtree, _folder, True)
        os.chmod(_folder, 0o755)
    if name not in _built:
        path = os.path.join(_folder, name)
        done = subprocess.run([compiler, "-O1", "-fno-omit-frame-pointer", "-o", path, *argv], capture_output=True, text=True,
                              check=False)
        _built[name] = path if done.returncode == 0 else None
    if _built[name] is None:
        raise unittest.SkipTest(f"the compiler cannot make {name} here")
    return _built[name]


def target():
    return compiled("target", "-Wall", os.path.join(FAULTS, "targets.c"))


def static_target():
    return compiled("target-static", "-static", os.path.join(FAULTS, "targets.c"))


def program_of_32_bits():
    return compiled("abort32", "-m32", "-nostdlib", "-static", os.path.join(FAULTS, "abort32.s"))


def shim():
    return compiled("shim.so", "-shared", "-fPIC", *(os.path.join(FAULTS, name) for name in ("shim.c", "fault.c")))


def durable():
    return compiled("durable.so", "-shared", "-fPIC", os.path.join(FAULTS, "durable.c"))


def hang_file():
    return compiled("hang_file", "-I" + FUSE, os.path.join(FAULTS, "hang_file.c"),
                    os.path.join(FUSE, "fuse_file.c"))


class Table:
    """A line for each kind of fault; tests/tally adds them up."""

    rows = {}
    lock = threading.Lock()

    @classmethod
    def add(cls, kind, lost=False, harmed=False, invalid=False):
        with cls.lock:
            cls.add_locked(kind, lost, harmed, invalid)

    @classmethod
    def add_locked(cls, kind, lost, harmed, invalid):
        row = cls.rows.setdefault(kind, [0, 0, 0, 0])
        for i, value in enumerate((True, lost, harmed, invalid)):
            row[i] += bool(value)

    @classmethod
    def show(cls):
        for kind, row in cls.rows.items():
            print("loss-table: %s | %d | %d | %d | %d" % (kind, *row), flush=True)


class LossCase(support.Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(f"{SEED} {self.id()}")
        self.environ["XDG_STATE_HOME"] = self.path("xdg")
        self.environ["HOME"] = self.path("home")

    def sandbox(self, number):
        """This case with a folder of its own below ours, for attacks that run at the same time."""
        clone = copy.copy(self)
        clone.folder = self.path(f"s{number}")
        clone.outdir = clone.path("out")
        os.makedirs(clone.outdir)
        clone.environ = {**self.environ, "ROCMCRASH_STATE_DIR": clone.path("state"),
                         "XDG_CACHE_HOME": clone.path("cache"), "XDG_STATE_HOME": clone.path("xdg"),
                         "HOME": clone.path("home")}
        clone.random = random.Random(f"{SEED} {self.id()} {number}")
        return clone

    def side_by_side(self, attack, arguments):
        """Runs attack(sandbox, *argument) for each argument, several at a time: most of a run is waiting."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            tries = [pool.submit(attack, self.sandbox(i), *argument)
                     for i, argument in enumerate(arguments)]
            failures = [one.exception() for one in tries if one.exception() is not None]
            for failure in failures[1:]:
                print(failure, flush=True)
            if failures:
                raise failures[0]

    def everywhere(self):
        """Every bundle below the test's folder, also in the fallback places."""
        found = []
        for root, _, names in os.walk(self.folder):
            found += [os.path.join(root, name) for name in names if name.endswith(".tar.gz")]
        return sorted(found)

    def forget_bundles(self):
        for path in self.everywhere():
            os.unlink(path)

    def is_valid(self, path):
        return self.verb("verify", path).returncode == 0

    def harvest(self, kind, what, harmed="", may_be_nothing=False):
        """Checks that there is a valid bundle, or that `recover` makes one, and counts it in the table. Returns the
        bundle's path."""
        found = self.everywhere()
        recovered = None
        if not found:
            recovered = self.verb("recover")
            found = self.everywhere()
        invalid = [path for path in found if not self.is_valid(path)]
        lost = not found and not may_be_nothing
        Table.add(kind, lost=lost, harmed=harmed, invalid=invalid)
        self.assertEqual(harmed, "", f"{what} (seed {SEED})")
        self.assertEqual(invalid, [], f"{what} (seed {SEED})")
        if lost:
            self.fail(f"{what} (seed {SEED}): no bundle; recover said {recovered}")
        return found[0] if found else None

    def kept_run(self, *argv, env=None):
        """The run directory of a failure whose finisher was killed each time."""
        process = subprocess.Popen(self.command(*argv), env=env or self.environ,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        killed = set()
        while process.poll() is None:
            pid = programs.find(process.pid, "finisher")
            if pid and pid not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.0005)  # the polling interval
        process.communicate()
        runs = glob.glob(self.path("state", "runs", "*"))
        self.assertEqual(len(runs), 1, "no run was kept")
        return runs[0]


class Shimmed(LossCase):
    """Runs with a C library that fails as on a broken machine (faults/shim.c)."""

    def setUp(self):
        super().setUp()
        self.log = self.path("fault-log")

    def fault(self, what, exe, comm=None):
        env = {**support.preloaded(self.environ, shim()), "RC_FAULT": what, "RC_FAULT_EXE": exe,
               "RC_FAULT_LOG": self.log}
        # libarchive never closes an archive after a failed allocation: zlib's state leaks.
        if what.startswith("alloc:") and support.is_sanitized():
            env["ASAN_OPTIONS"] += ":detect_leaks=0"
        if comm is not None:
            env["RC_FAULT_COMM"] = comm
        return env

    def faults_met(self):
        """How many faults were met since the last call."""
        return len(self.calls_told_of())

    def calls_told_of(self):
        numbers = [int(line) for line in support.read(self.log).split()]
        if numbers:
            os.unlink(self.log)
        return numbers


def main():
    print(f"seed: RC_LOSS_SEED={SEED}", flush=True)
    atexit.register(Table.show)
    support.main()
