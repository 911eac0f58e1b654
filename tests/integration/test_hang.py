# SPDX-License-Identifier: Apache-2.0
"""--hang-after: a program that stands still is looked at once, and goes on; --on-hang=kill ends it. One that works, says
something, reads or writes is left alone."""

import os
import signal
import subprocess

import support
from support import PYTHON, Case, wait_for

STUCK = """
import sys, threading
lock = threading.Lock()
lock.acquire()
def stuck():
    lock.acquire()
print('begins', file=sys.stderr, flush=True)
stuck()
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STUCK
GOES_ON = """
import os, sys
print('begins', file=sys.stderr, flush=True)
os.read(0, 1)
print('goes on', file=sys.stderr, flush=True)
"""
WORKS = {
    "it computes": "import time\nend = time.monotonic() + 6\nwhile time.monotonic() < end: pass",
    "it prints": "import sys, time\nfor _ in range(30):\n    print('.', end='', file=sys.stderr, flush=True)\n    time.sleep(.2)",
    "it writes": "import time\nfor _ in range(30):\n    open('log', 'a').write('x' * 9000)\n    time.sleep(.2)",
    "its children come and go": "import subprocess, time\nfor _ in range(30):\n    subprocess.run(['true'])\n    time.sleep(.2)",
    "a child computes": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\nend = time.monotonic() + 6\\n"
                        "while time.monotonic() < end: pass'])",
}


class Hang(Case):
    def hang(self, code, *options, **kwargs):
        self.done = self.run_it(PYTHON, "-c", code, options=("--hang-after=2s", *options), **kwargs)
        return [bundle for bundle in self.done.bundles if "-snapshot" in bundle.name]

    def test_it_is_looked_at_and_ended(self):
        bundle, = self.hang(STUCK, "--on-hang=kill")
        self.assertEqual(self.done.status, -signal.SIGTERM)
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertIn("stood still and was ended", self.done.stderr)
        self.assertIn(bundle.path, self.done.stderr)
        self.assertIn("no output, CPU time or I/O for", bundle.value("run.snapshot_why"))
        if os.geteuid() == 0:  # others may not read what Yama protects
            self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-self-wait")
            self.assertIn("in stuck", bundle.value("snap.python_stack"))
            self.assertRegex(bundle.value("snap.native_stack"), "PyThread_acquire_lock_timed|_PySemaphore_Wait")

    def test_one_that_ignores_sigterm(self):
        self.hang(STUBBORN, "--on-hang=kill", timeout=60)
        self.assertEqual(self.done.status, -signal.SIGKILL)

    def test_it_goes_on(self):
        process = self.start(PYTHON, "-c", GOES_ON, options=("--hang-after=2s",), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(self.bundles, "the snapshot", timeout_s=60)
        out, err = process.communicate(b"x", timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual(done.status, 0)
        self.assertIn("goes on", done.stderr)
        self.assertEqual(len(done.bundles), 1)

    def test_what_works_is_left_alone(self):
        for why, code in WORKS.items():
            with self.subTest(why=why):
                self.assertEqual(self.hang(code, cwd=self.folder), [])
                self.assertEqual(self.done.status, 0, self.done.stderr)

    def test_one_that_job_control_stopped(self):
        code = "import os, signal, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import os, signal, time; time.sleep(6);" \
               "os.kill(' + str(os.getpid()) + ', signal.SIGCONT)'])\nos.kill(os.getpid(), signal.SIGSTOP)"
        process = self.start(PYTHON, "-c", code, options=("--hang-after=2s",), stderr=subprocess.PIPE)
        while True:  # as a shell does not: it shows its stop, and goes on when its program does
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
        process.returncode = os.waitstatus_to_exitcode(status)
        done = self.finished(process, b"", process.stderr.read())
        process.stderr.close()
        self.assertEqual((done.status, done.bundles), (0, []))

    def test_wrong_values(self):
        for option in ("--hang-after=soon", "--on-hang=restart"):
            done = self.verb(option, "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(option.split("=", maxsplit=1)[0], done.stderr)


if __name__ == "__main__":
    support.main()
