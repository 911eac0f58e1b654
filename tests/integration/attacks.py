# SPDX-License-Identifier: Apache-2.0
"""Shared by the attacks on a run's processes: a target that counts what it writes, and the checks of the target, of its
output and of the bundle."""

import os
import signal

import programs
import support
from programs import helper
from support import PYTHON, Stopwatch, wait_for

KILL, STOP = signal.SIGKILL, signal.SIGSTOP
HELPERS = ("tracer", "sampler", "relay", "recorder")
GO_ON_S = 1.1

# Writes numbered lines to stderr until it reads a line, prints their number, and dies of SIGABRT.
WRITER = """
import os, select, sys
n = 0
os.write(1, b'started\\n')
while not select.select([0], [], [], 0.0005)[0]:
    for i in range(8):
        os.write(2, b'line %07d\\n' % n)
        n += 1
os.write(1, b'wrote %d\\n' % n)
os.abort()
"""


class Attack(programs.Interactive):
    def launch(self, *argv, options=()):
        # A process group of its own whose parent is this process: it is never orphaned, so SIGTSTP stops it.
        return self.interactive(*argv, options=options, preexec_fn=os.setpgrp)

    def first_after(self, reader, what):
        """Waits until the target has written more, by its own write counter."""
        target = self.target
        before = self.written(target)
        watch = Stopwatch()

        def more():
            reader.pump()
            return self.written(target) > before
        wait_for(more, f"the target to write: {what}", 20)
        self.assertLess(watch.seconds(), GO_ON_S, what)

    def written(self, pid):
        text = support.read(f"/proc/{pid}/io")
        return int(text.split("syscw: ")[1].split()[0]) if "syscw: " in text else 0

    def finish_writer(self, process, reader, what):
        self.line(process)
        reader.drain()
        self.assertEqual(process.wait(timeout=30), -signal.SIGABRT, what)
        count = int(reader.text(process.stdout).split(b"wrote ")[1].split()[0])
        lines = [line for line in reader.text(process.stderr).splitlines()
                 if not line.startswith(b"rocmcrash: ")]
        self.assertEqual(lines, [b"line %07d" % i for i in range(count)], what)

    def check_bundle(self, what, lost):
        bundles = self.bundles()
        self.assertEqual(len(bundles), 1, what)
        bundle = bundles[0]
        self.assertEqual(bundle.value("target.signal_name"), "ABRT", what)
        if lost:
            self.assertIn("tracer ended", bundle.value("run.trace_lost"), what)
        os.unlink(bundle.path)
        return bundle

    def start_writer(self):
        process, reader = self.launch(PYTHON, "-c", WRITER)
        self.target = 0
        return process, reader

    def find_target(self, process, reader):
        reader.until(process.stdout, b"started")
        tracer = helper(process.pid, "tracer")
        self.target = wait_for(lambda: next(iter(support.children(tracer)), 0), "the target")
