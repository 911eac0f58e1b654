# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of programs that stand still."""

import glob
import time

import support
from support import Case, read, wait_for

IN_LOCK = "PyThread_acquire_lock_timed|_PySemaphore_Wait"  # of CPython up to 3.12, from 3.13
STUCK = """
import sys, threading
lock = threading.Lock()
lock.acquire()
def stuck():
    lock.acquire()
print('begins', file=sys.stderr, flush=True)
stuck()
"""
SEEN_AFTER_S = 4  # with --hang-after=1s, and a supervisor that takes a turn a second
SEEN_AFTER_TURNS = 4


def tree(pid):
    return [pid] + [below for child in support.children(pid) for below in tree(child)]


def cpu_used(pid):
    """What the threads of its tree have run and waited: it changes with anything that they do."""
    return [read(path) for each in tree(pid) for path in glob.glob(f"/proc/{each}/task/*/schedstat")]


class HangCase(Case):
    def setUp(self):
        """A GPU's fault in the kernel log of this machine would be the cause: somebody's test may write one."""
        super().setUp()
        self.write("machine/dev/kmsg", "")
        self.environ["ROCMCRASH_SYSROOT"] = self.path("machine")

    def snapshots(self):
        return [bundle for bundle in self.bundles() if "-snapshot" in bundle.name]

    def others(self):
        return [bundle for bundle in self.bundles() if "-snapshot" not in bundle.name]

    def is_seen_to_stand_still(self, supervisor):
        """Waits until rocmcrash must have seen that, with --hang-after=1s. A look at the program makes that run for a moment, and
        it stands still anew."""
        target = self.target_pid(supervisor)
        wait_for(self.snapshots, "the snapshot")
        last = {"used": None}

        def for_long():
            used = cpu_used(target)
            if used != last["used"]:
                last.update(used=used, since=time.monotonic(), turns=support.switches(supervisor))
            return time.monotonic() - last["since"] > SEEN_AFTER_S and \
                support.switches(supervisor) >= last["turns"] + SEEN_AFTER_TURNS
        wait_for(for_long, "it to stand still")
