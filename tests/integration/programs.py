# SPDX-License-Identifier: Apache-2.0
"""Compiles programs.c and finds every process of a run, for tests that attack processes."""

import atexit
import functools
import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest

import support
from support import children, comm, wait_for

NAMES = {"tracer": ("rocmcrash-T",), "sampler": ("rocmcrash-M",),
         "relay": ("rocmcrash-O", "rocmcrash-relay"), "recorder": ("rocmcrash-R",),
         "finisher": ("rocmcrash-finis",)}


@functools.cache
def compiled(name, *options):
    """Path of the program `name`, compiled from NAMEs.c of this folder, once in each test file."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise unittest.SkipTest("no C compiler here")
    folder = tempfile.mkdtemp(prefix="rc-programs-")
    atexit.register(shutil.rmtree, folder, True)
    os.chmod(folder, 0o755)
    path = os.path.join(folder, name)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}s.c")
    subprocess.run([compiler, "-O1", "-g", "-pthread", *options, "-o", path, source], check=True)
    return path


def program():
    return compiled("program")


def find(supervisor, name):
    """Pid of the present helper of this name; 0 if there is none."""
    return next((pid for pid in children(supervisor) if comm(pid) in NAMES[name]), 0)


def helper(supervisor, name):
    return wait_for(lambda: find(supervisor, name), f"the {name} of {supervisor}")


def all_of_ours(supervisor):
    """Every process of a run except the target's tree."""
    names = [word for words in NAMES.values() for word in words]
    return [pid for pid in children(supervisor) if comm(pid) in names]


def gone(pid):
    return support.state(pid) in ("", "Z", "X")


class Reader:
    """Reads descriptors when data comes, for tests that wait for a text."""

    def __init__(self, *files):
        self.seen = {file.fileno(): b"" for file in files}
        self.open = set(self.seen)

    def pump(self, timeout_s=0.0):
        """Returns None, so that `pump() or condition` is the condition."""
        ready = select.select(list(self.open), [], [], timeout_s)[0] if self.open else []
        for fd in ready:
            data = os.read(fd, 1 << 16)
            self.seen[fd] += data
            if not data:
                self.open.discard(fd)

    def text(self, file):
        return self.seen[file.fileno()]

    def until(self, file, text, what=None, timeout_s=20.0):
        def found():
            self.pump()
            return text in self.text(file)
        wait_for(found, what or repr(text), timeout_s)

    def drain(self, timeout_s=60.0):
        """Reads all descriptors to their end."""
        deadline = time.monotonic() + timeout_s
        while self.open:
            self.pump(1.0)
            if time.monotonic() > deadline:
                raise AssertionError("timed out waiting for the end of file")


class Interactive(support.Case):
    """Runs of rocmcrash to which the test writes while they last."""

    def interactive(self, *argv, options=(), **kwargs):
        process = self.start(*argv, options=options, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **kwargs)
        self.addCleanup(self.end, process)
        return process, Reader(process.stdout, process.stderr)

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(timeout=20)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    def line(self, process):
        process.stdin.write(b"\n")
        process.stdin.flush()


class Traced(Interactive):
    def rest(self, process, reader):
        reader.drain()
        process.wait(timeout=60)
        return self.finished(process, reader.text(process.stdout), reader.text(process.stderr))

    def word(self, text, key):
        return int(text.split(key + " ")[1].split()[0])
