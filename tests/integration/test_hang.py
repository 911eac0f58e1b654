# SPDX-License-Identifier: Apache-2.0
"""--hang-after: a program that stands still is looked at once, and goes on; --on-hang=kill ends it. One that works, says
something, reads or writes is left alone. test_hang_ended.py has what a signal leaves that ends it meanwhile."""

import os
import signal
import subprocess
import time

import support
from hangs import IN_LOCK, STUCK, HangCase
from support import PATIENCE_S, PYTHON, read, wait_for

STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STUCK
GOES_ON = """
import os, sys
print('begins', file=sys.stderr, flush=True)
os.read(0, 1)
print('goes on', file=sys.stderr, flush=True)
"""
STEPS_WHEN_TOLD = """
import sys
print('begins', file=sys.stderr, flush=True)
while sys.stdin.read(1):
    sum(range(10000000))
"""
COMPUTES = "import time\nend = time.monotonic() + 5\nwhile time.monotonic() < end: pass"
READS_A_MAPPED_FILE = """
import mmap, os, resource, sys, time
with open('model', 'w+b') as file:
    file.write(bytes(8 << 20))
    file.flush()
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    for page in range(0, 8 << 20, 80 << 10):
        pages[page]
        time.sleep(.06)
print('faults:', resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before, file=sys.stderr)
"""


class Hang(HangCase):
    def hang(self, code, *options, **kwargs):
        self.done = self.run_it(PYTHON, "-c", code, options=("--hang-after=2s", *options), **kwargs)
        return self.snapshots()

    def spoken_with(self, code, option):
        return self.start(PYTHON, "-c", code, options=(option,), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          bufsize=0)

    def rest(self, process, told=b"x"):
        out, err = process.communicate(told, timeout=PATIENCE_S)
        return self.finished(process, out or b"", err)


class StandsStill(Hang):
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
            self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)

    def test_the_heartbeat_of_another_thread_is_no_work(self):
        beat = ("import os, threading, time\ndef beat():\n    with open('beats', 'wb', 0) as beats:\n        while True:\n"
                "            beats.write(b'x' * 3000)\n            time.sleep(.25)\nthreading.Thread(target=beat, daemon=True).start()\n")
        bundle, = self.hang(beat + STUCK, "--on-hang=kill", cwd=self.folder)
        self.assertIn("in stuck", bundle.value("snap.python_stack"))

    def test_one_that_ignores_sigterm(self):
        self.hang(STUBBORN, "--on-hang=kill")
        self.assertEqual(self.done.status, -signal.SIGKILL)

    def test_what_a_script_started_ends_too(self):
        self.done = self.run_it("/bin/sh", "-c", "sleep 600 & echo $! >pid; wait; echo never", cwd=self.folder,
                                options=("--hang-after=2s", "--on-hang=kill"))
        self.assertIn("stood still and was ended", self.done.stderr)
        self.assertFalse(support.is_running(int(read(self.path("pid")))), "the script's child lives")

    def test_a_bundle_that_is_never_made_does_not_keep_it_alive(self):
        process = self.start(PYTHON, "-c", STUCK, options=("--hang-after=2s", "--on-hang=kill", "--finish-within=1s"),
                             stderr=subprocess.PIPE)
        finisher = self.stopped_finisher(process.pid)
        try:
            self.done = self.rest(process, told=None)
        finally:
            os.kill(finisher, signal.SIGKILL)
        self.assertEqual(self.done.status, -signal.SIGTERM)
        self.assertIn("stood still and was ended (attach the bundle of its end); the bundle of that moment is still being made", self.done.stderr)

    def stopped_finisher(self, supervisor):
        finisher = wait_for(lambda: self.finisher_below(supervisor), "what makes the bundle")
        try:
            os.kill(finisher, signal.SIGSTOP)
        except ProcessLookupError:
            self.skipTest("the bundle was made before this test could stop its maker")
        return finisher

    @staticmethod
    def finisher_below(supervisor):
        for maker in support.children(supervisor):
            for child in support.children(maker):
                if support.comm(child).startswith("rocmcrash-fin"):
                    return child
        return None

    def test_it_goes_on(self):
        process = self.spoken_with(GOES_ON, "--hang-after=2s")
        wait_for(self.snapshots, "the snapshot")
        done = self.rest(process)
        self.assertEqual(done.status, 0)
        self.assertIn("goes on", done.stderr)
        self.assertEqual(len(done.bundles), 1)

    def test_each_bundle_is_named(self):
        """Of a program that stands still more than once."""
        process = self.spoken_with("import os, sys\nfor i in range(2):\n    os.read(0, 1)\n    print('works', file=sys.stderr, flush=True)",
                                   "--hang-after=1s")
        first = wait_for(self.snapshots, "the first snapshot")[0].path
        process.stdin.write(b"x")
        second = wait_for(lambda: [b.path for b in self.snapshots() if b.path != first], "the second")[0]
        done = self.rest(process)
        named = [line.rsplit(" ", 1)[-1] for line in done.stderr.splitlines() if "bundle of that moment: " in line]
        self.assertEqual(named, [first, second])

    def test_one_that_goes_on_while_its_bundle_is_made(self):
        """It stands still again behind that: a second bundle is made."""
        process = self.spoken_with(GOES_ON + "os.read(0, 1)\n", "--hang-after=1s")
        finisher = self.stopped_finisher(process.pid)
        try:
            process.stdin.write(b"x")
            self.assertEqual([process.stderr.readline() for _ in range(2)], [b"begins\n", b"goes on\n"])
            turns = support.switches(process.pid)
            wait_for(lambda: support.switches(process.pid) >= turns + 3, "rocmcrash to see it")
        finally:
            os.kill(finisher, signal.SIGCONT)
        wait_for(lambda: len(self.snapshots()) == 2, "the second snapshot")
        self.assertEqual(self.rest(process).status, 0)

    def test_wrong_values(self):
        for option in ("--hang-after=soon", "--on-hang=restart"):
            done = self.verb(option, "--", "true")
            self.assertEqual(done.returncode, 125)
            self.assertIn(option.split("=", maxsplit=1)[0], done.stderr)


class LeftAlone(Hang):
    """The pauses of each are far shorter than the time after which it would be looked at: it may also wait for a CPU."""

    def is_left_alone(self, code, *options):
        self.assertEqual(self.hang(code, *options, cwd=self.folder), [])
        self.assertEqual(self.done.status, 0, self.done.stderr)

    def test_it_computes(self):
        self.is_left_alone(COMPUTES)

    def test_a_child_computes(self):
        self.is_left_alone(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {COMPUTES!r}])")

    def test_it_works_a_little(self):
        """1.3 % of a CPU: below the noise of all threads together."""
        self.is_left_alone("import time\nfor _ in range(8):\n    end = time.process_time() + .008\n"
                           "    while time.process_time() < end: pass\n    time.sleep(.6)")

    def test_it_logs_a_line(self):
        self.is_left_alone("import os, time\nfor _ in range(10):\n    os.write(1, b'x' * 40)\n    time.sleep(.5)")

    def test_it_prints(self):
        self.is_left_alone("import sys, time\nfor _ in range(25):\n    print('.', end='', file=sys.stderr, flush=True)\n    time.sleep(.2)")

    def test_it_writes(self):
        self.is_left_alone("import time\nfor _ in range(25):\n    open('log', 'a').write('x' * 9000)\n    time.sleep(.2)")

    def test_its_children_come_and_go(self):
        """Too short for a look to find one, and their start takes less CPU time than noise."""
        self.is_left_alone("import os, time\nfor _ in range(7):\n    os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n    time.sleep(1.1)",
                           "--hang-after=4s", "--inject=none")

    def test_it_reads_a_mapped_file(self):
        found = self.hang(READS_A_MAPPED_FILE, cwd=self.folder)
        if "faults: 0\n" in self.done.stderr:
            self.skipTest("this file system has no pages that must be read")
        self.assertEqual((self.done.status, found), (0, []), self.done.stderr)

    def test_it_waits_for_a_cpu(self):
        """It has the lowest priority on a CPU that four others want for themselves."""
        cpu = min(os.sched_getaffinity(0))
        for _ in range(4):
            other = subprocess.Popen([PYTHON, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
        self.is_left_alone(f"import os\nos.sched_setaffinity(0, {{{cpu}}})\n"
                           "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n" + COMPUTES + "\nos._exit(0)")

    def test_time_in_which_we_did_not_run_is_no_standstill(self):
        """A paused container: neither the program nor rocmcrash ran."""
        process = self.spoken_with(STEPS_WHEN_TOLD, "--hang-after=6s")
        self.assertEqual(process.stderr.readline(), b"begins\n")
        before = self.bytes_read(process.pid)
        wait_for(lambda: self.bytes_read(process.pid) > before + 400, "its first look at the program")
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: support.state(process.pid) == "T", "the stop")
        time.sleep(6.5)  # the pause: alone it is longer than --hang-after
        turns = support.switches(process.pid)
        os.kill(process.pid, signal.SIGCONT)
        wait_for(lambda: support.switches(process.pid) >= turns + 2, "its turn behind the pause")
        done = self.rest(process)
        self.assertEqual((done.status, done.bundles), (0, []), done.stderr)

    @staticmethod
    def bytes_read(pid):
        """Real line: "rchar: 4711"."""
        return int(read(f"/proc/{pid}/io").split()[1])

    def test_it_is_stopped_by_job_control(self):
        code = "import os, signal, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import os, signal, time; time.sleep(5);" \
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


if __name__ == "__main__":
    support.main(side_by_side=6)
