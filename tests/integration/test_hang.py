# SPDX-License-Identifier: Apache-2.0
"""--hang-after: a program that stands still is looked at once, and goes on; --on-hang=kill ends it. One that works, says
something, reads or writes is left alone. A signal that ends it while it stands still leaves a bundle of what it did.
--bundle-at: a bundle when a condition comes to hold."""

import os
import signal
import subprocess
import time

import support
from support import PYTHON, Case, wait_for

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
WORKS = {
    "it computes": "import time\nend = time.monotonic() + 6\nwhile time.monotonic() < end: pass",
    "it works a little": "import time\nfor _ in range(6):\n    end = time.process_time() + .015\n    while time.process_time() < end: pass\n"
                         "    time.sleep(1.2)",
    "it logs a line": "import os, time\nfor _ in range(14):\n    os.write(1, b'x' * 40)\n    time.sleep(.5)",
    "it prints": "import sys, time\nfor _ in range(30):\n    print('.', end='', file=sys.stderr, flush=True)\n    time.sleep(.2)",
    "it writes": "import time\nfor _ in range(30):\n    open('log', 'a').write('x' * 9000)\n    time.sleep(.2)",
    "its children come and go": "import subprocess, time\nfor _ in range(30):\n    subprocess.run(['true'])\n    time.sleep(.2)",
    "a child computes": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\nend = time.monotonic() + 6\\n"
                        "while time.monotonic() < end: pass'])",
}
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
            self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)

    def test_the_heartbeat_of_another_thread_is_no_work(self):
        beat = ("import os, threading, time\ndef beat():\n    with open('beats', 'wb', 0) as beats:\n        while True:\n"
                "            beats.write(b'x' * 3000)\n            time.sleep(.25)\nthreading.Thread(target=beat, daemon=True).start()\n")
        bundle, = self.hang(beat + STUCK, "--on-hang=kill", cwd=self.folder)
        self.assertIn("in stuck", bundle.value("snap.python_stack"))

    def test_one_that_ignores_sigterm(self):
        self.hang(STUBBORN, "--on-hang=kill", timeout=60)
        self.assertEqual(self.done.status, -signal.SIGKILL)

    def test_what_a_script_started_ends_too(self):
        self.done = self.run_it("/bin/sh", "-c", "sleep 600 & echo $! >pid; wait; echo never", cwd=self.folder,
                                options=("--hang-after=2s", "--on-hang=kill"))
        self.assertIn("stood still and was ended", self.done.stderr)
        with open(os.path.join(self.folder, "pid"), encoding="ascii") as file:
            self.assertFalse(os.path.exists(f"/proc/{int(file.read())}"), "the script's child lives")

    def test_a_bundle_that_is_never_made_does_not_keep_it_alive(self):
        process = self.start(PYTHON, "-c", STUCK, options=("--hang-after=2s", "--on-hang=kill", "--finish-within=1s"),
                             stderr=subprocess.PIPE)
        finisher = wait_for(lambda: self.finisher_below(process.pid), "what makes the bundle", timeout_s=60)
        os.kill(finisher, signal.SIGSTOP)
        try:
            _, err = process.communicate(timeout=90)
        finally:
            os.kill(finisher, signal.SIGKILL)
        self.done = self.finished(process, b"", err)
        self.assertEqual(self.done.status, -signal.SIGTERM)
        self.assertIn("stood still and was ended; the bundle of that moment is still being made", self.done.stderr)

    @staticmethod
    def finisher_below(supervisor):
        for maker in support.children(supervisor):
            for child in support.children(maker):
                if support.comm(child).startswith("rocmcrash-fin"):
                    return child
        return None

    def test_it_goes_on(self):
        process = self.start(PYTHON, "-c", GOES_ON, options=("--hang-after=2s",), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(self.bundles, "the snapshot", timeout_s=60)
        out, err = process.communicate(b"x", timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual(done.status, 0)
        self.assertIn("goes on", done.stderr)
        self.assertEqual(len(done.bundles), 1)

    def test_each_bundle_is_named(self):
        """Of a program that stands still more than once."""
        code = "import os, sys\nfor i in range(2):\n    os.read(0, 1)\n    print('works', file=sys.stderr, flush=True)"
        process = self.start(PYTHON, "-c", code, options=("--hang-after=1s",), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = wait_for(self.bundles, "the first snapshot", timeout_s=60)[0].path
        process.stdin.write(b"x")
        process.stdin.flush()
        second = wait_for(lambda: [b.path for b in self.bundles() if b.path != first], "the second", timeout_s=60)[0]
        out, err = process.communicate(b"x", timeout=60)
        done = self.finished(process, out, err)
        named = [line.rsplit(" ", 1)[-1] for line in done.stderr.splitlines() if "bundle of that moment: " in line]
        self.assertEqual(named, [first, second])

    def test_what_works_is_left_alone(self):
        for why, code in WORKS.items():
            with self.subTest(why=why):
                self.assertEqual(self.hang(code, cwd=self.folder), [])
                self.assertEqual(self.done.status, 0, self.done.stderr)

    def test_one_that_reads_a_mapped_file_is_left_alone(self):
        found = self.hang(READS_A_MAPPED_FILE, cwd=self.folder)
        if "faults: 0\n" in self.done.stderr:
            self.skipTest("this file system has no pages that must be read")
        self.assertEqual((self.done.status, found), (0, []), self.done.stderr)

    def test_one_that_waits_for_a_cpu_is_left_alone(self):
        """It has the lowest priority on a CPU that four others want for themselves."""
        cpu = min(os.sched_getaffinity(0))
        for _ in range(4):
            other = subprocess.Popen([PYTHON, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
        code = f"import os, time\nos.sched_setaffinity(0, {{{cpu}}})\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n" \
               "end = time.monotonic() + 12\nwhile time.monotonic() < end: pass"
        self.assertEqual(self.hang(code), [])
        self.assertEqual(self.done.status, 0, self.done.stderr)

    def test_time_in_which_we_did_not_run_is_no_standstill(self):
        """A paused container: neither the program nor rocmcrash ran."""
        process = self.start(PYTHON, "-c", STEPS_WHEN_TOLD, options=("--hang-after=6s",), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stderr.readline(), b"begins\n")
        time.sleep(3.5)  # it has looked twice by then
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: support.state(process.pid) == "T", "the stop")
        time.sleep(6)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(1.5)  # it has looked by then
        out, err = process.communicate(b"x", timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual((done.status, done.bundles), (0, []), done.stderr)

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


HANDLES = """
import os, signal, sys, threading
taken = []
def handler(signo, frame):
    taken.append(signo)
    print('took', len(taken), file=sys.stderr, flush=True)
    if len(taken) == LAST:
        os._exit(STATUS)
signal.signal(signal.SIGINT, handler)
print('begins', file=sys.stderr, flush=True)
def stuck():
    while True:
        signal.pause()
stuck()
"""
LISTENS = """
import select, socket, sys
s = socket.create_server(('127.0.0.1', 0))
print('begins', file=sys.stderr, flush=True)
WAIT
"""
WAITS_FOR_CLIENTS = {
    "accept": "s.accept()",
    "epoll": "e = select.epoll(); e.register(s, select.EPOLLIN); e.poll()",
    "poll": "p = select.poll(); p.register(s, select.POLLIN); p.poll()",
    "select": "select.select([s], [], [])",
}


class EndedWhileItStoodStill(Case):
    """The snapshot of --hang-after says that the program stands still by now."""

    def end(self, code, signo, stdin=None):
        process = self.start(PYTHON, "-c", code, options=("--hang-after=1s",), stdin=stdin, stderr=subprocess.PIPE,
                             start_new_session=True)
        wait_for(self.snapshots, "the snapshot", timeout_s=60)
        os.killpg(process.pid, signo)  # as a terminal and a scheduler do
        _, err = process.communicate(timeout=60)
        self.done = self.finished(process, b"", err)
        return [bundle for bundle in self.done.bundles if "-snapshot" not in bundle.name]

    def snapshots(self):
        return [bundle for bundle in self.bundles() if "-snapshot" in bundle.name]

    def test_ctrl_c_leaves_what_it_did(self):
        bundle, = self.end(STUCK, signal.SIGINT)
        self.assertEqual(self.done.status, -signal.SIGINT)
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertEqual(bundle.value("run.still_signal"), "SIGINT")
        self.assertGreaterEqual(bundle.value("run.still_ms"), 1000)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-self-wait", bundle.verdict["sentence"])
        self.assertIn("in stuck", bundle.value("snap.python_stack"))
        self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)
        self.assertIn("alive: a snapshot", bundle.text("impact/0/impact.txt"))
        self.assertNotIn("missing:", self.done.stderr)

    def test_its_tree_is_in_it(self):
        code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {STUCK!r}]).wait()"
        bundle, = self.end(code, signal.SIGTERM)
        self.assertEqual(bundle.value("snap.processes_count"), 2)
        self.assertIn("in stuck", "".join(bundle.text(f"waits/python.{i}.txt") for i in range(2)))

    def test_its_own_handler_decides(self):
        bundle, = self.end(HANDLES.replace("LAST", "1").replace("STATUS", "3"), signal.SIGINT)
        self.assertEqual(self.done.status, 3)
        self.assertIn("took 1", self.done.stderr)
        self.assertIn("in stuck", bundle.value("snap.python_stack"))

    def test_one_that_takes_it_and_ends_well_leaves_none(self):
        self.assertEqual(self.end(HANDLES.replace("LAST", "1").replace("STATUS", "0"), signal.SIGINT), [])
        self.assertEqual(self.done.status, 0)

    def test_a_second_signal_comes_through(self):
        process = self.start(PYTHON, "-c", HANDLES.replace("LAST", "2").replace("STATUS", "3"),
                             options=("--hang-after=1s",), stderr=subprocess.PIPE)
        wait_for(self.snapshots, "the snapshot", timeout_s=60)
        os.kill(process.pid, signal.SIGINT)
        said = b""
        while b"took 1" not in said:
            said += os.read(process.stderr.fileno(), 4096)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn(b"took 2", said + err)
        self.assertEqual(process.returncode, 3)

    def test_a_server_that_nobody_calls_leaves_none(self):
        for how, wait in WAITS_FOR_CLIENTS.items():
            with self.subTest(how=how):
                self.setUp()
                self.assertEqual(self.end(LISTENS.replace("WAIT", wait), signal.SIGTERM), [])
                self.assertEqual(self.done.status, -signal.SIGTERM)
        self.setUp()  # a client waits for somebody, too: but not to be called
        pair = LISTENS.replace("WAIT", "a, b = socket.socketpair(); a.recv(1)")
        self.assertEqual(len(self.end(pair, signal.SIGTERM)), 1)

    def test_a_prompt_leaves_none(self):
        master, slave = os.openpty()
        try:
            code = "import sys\nprint('begins', file=sys.stderr, flush=True)\nsys.stdin.readline()"
            self.assertEqual([bundle.verdict["sentence"] for bundle in self.end(code, signal.SIGINT, stdin=slave)], [])
        finally:
            os.close(master)
            os.close(slave)

    def test_a_message_of_failure_comes_first(self):
        bundle, = self.end(f"import sys\nsys.stderr.write({support.HIP_OOM!r})\n" + STUCK, signal.SIGINT)
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertEqual(bundle.value("run.still_signal"), "SIGINT")

    def test_one_that_works_leaves_none(self):
        code = "import sys, time\nprint('begins', file=sys.stderr, flush=True)\nwhile True: pass"
        process = self.start(PYTHON, "-c", code, options=("--hang-after=1s",), stderr=subprocess.PIPE)
        self.assertEqual(process.stderr.readline(), b"begins\n")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(self.bundles(), [])

    def test_of_an_ordinary_user(self):
        """As an ordinary user, whom Yama lets trace his children only."""
        support.need_ordinary_user(self)
        os.chmod(self.folder, 0o777)
        os.chmod(self.outdir, 0o777)
        process = self.start(PYTHON, "-c", STUCK, options=("--hang-after=1s",), stderr=subprocess.PIPE,
                             user=support.NOBODY, group=support.NOBODY, extra_groups=[])
        bundle = wait_for(self.snapshots, "the snapshot", timeout_s=60)[0]
        self.assertIn("in stuck", bundle.value("snap.python_stack"))
        self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


class BundleAt(Case):
    GROWS = ("import os, sys\nheld = bytearray(b'x' * (200 << 20))\nprint('begins', file=sys.stderr, flush=True)\n"
             "os.read(0, 1)\nprint('goes on', file=sys.stderr, flush=True)")

    def test_a_bundle_once_a_crossing_and_the_program_goes_on(self):
        process = self.start(PYTHON, "-c", self.GROWS, options=("--bundle-at=fds>100000,rss>150MiB",),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        bundle = wait_for(self.bundles, "the bundle", timeout_s=60)[0]
        out, err = process.communicate(b"x", timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual(done.status, 0)
        self.assertIn("goes on", done.stderr)
        self.assertIn(f"a condition of --bundle-at was met; bundle of that moment: {bundle.path}", done.stderr)
        self.assertEqual(len(done.bundles), 1)
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertIn("rss>150MiB (it is ", bundle.value("run.snapshot_why"))
        self.assertIn("stacks/stacks.0.txt", bundle.files)

    SPINS = "import sys\nprint('begins', file=sys.stderr, flush=True)\ndef spins():\n    while True: pass\nspins()"

    def test_one_that_spins_says_nothing(self):
        """No standstill, for it works; its user knows how often it speaks."""
        with open(self.path("stdout"), "wb") as stdout:
            process = self.start(PYTHON, "-c", self.SPINS, options=("--bundle-at=silent>2s", "--hang-after=1s"), stdout=stdout,
                                 stderr=subprocess.PIPE)
        bundle = wait_for(self.bundles, "the bundle", timeout_s=60)[0]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertRegex(bundle.value("run.snapshot_why"), r"^silent>2s \(it is [\d.]+ s\)$")
        self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-runs", bundle.verdict["sentence"])
        if os.geteuid() == 0:
            self.assertIn("in spins", bundle.value("snap.python_stack"))

    def test_one_that_speaks_is_not_silent(self):
        for stream in ("stderr", "stdout"):
            with self.subTest(stream=stream), open(self.path("stdout"), "wb") as stdout:
                code = f"import sys, time\nfor _ in range(20):\n    print('.', file=sys.{stream}, flush=True)\n    time.sleep(.2)"
                process = self.start(PYTHON, "-c", code, options=("--bundle-at=silent>2s",), stdout=stdout, stderr=subprocess.PIPE)
                _, err = process.communicate(timeout=60)
                done = self.finished(process, b"", err)
                self.assertEqual((done.status, done.bundles), (0, []), done.stderr)

    def test_what_goes_past_us_is_not_called_silence(self):
        for options, known in (((), False), (("--follow=all",), True), (("--follow=none",), False)):
            with self.subTest(options=options):
                self.setUp()
                # It waits for the bundle of that moment, which a busy machine makes slowly.
                code = (f"import glob, time\nend = time.monotonic() + {60 if known else 3}\n"
                        f"while time.monotonic() < end and not glob.glob({self.outdir + '/*.tar.gz'!r}): time.sleep(0.1)")
                done = self.run_it(PYTHON, "-c", code, options=("--bundle-at=silent>1s", *options))  # stdout is a pipe
                self.assertEqual((done.status, len(done.bundles)), (0, int(known)), done.stderr)
                self.assertEqual("--bundle-at=silent>1s: that was never known here" in done.stderr, not known)
        for verb, option in (("snap", "--watch"), ("watch", "--bundle-at")):
            done = self.verb(verb, f"{option}=silent>1s", str(os.getpid()))
            self.assertEqual(done.returncode, 125)
            self.assertIn("known only of a program that rocmcrash starts", done.stderr)

    def test_what_is_never_known_is_said(self):
        self.write("machine/dev/kmsg", "")
        done = self.run_it(PYTHON, "-c", "pass", options=("--bundle-at=vram>1%", "--sysroot", self.path("machine")))
        self.assertEqual((done.status, done.bundles), (0, []))
        self.assertIn("--bundle-at=vram>1%: that was never known here", done.stderr)

    def test_wrong_conditions(self):
        for text in ("", "vram", "vram>90", "x>1%", "rss>9%", "vram_growth>1GiB", "vram>1%," * 5):
            done = self.verb(f"--bundle-at={text}", "--", "true")
            self.assertEqual(done.returncode, 125, text)
            self.assertIn("condition" if "GiB" not in text and "90" not in text and "9%" not in text else "compared",
                          done.stderr, text)


if __name__ == "__main__":
    support.main()
