# SPDX-License-Identifier: Apache-2.0
"""Helpers of a run are killed and stopped at every stage: the target must not notice, and a bundle
(or an honest part of one) is left."""

import contextlib
import os
import resource
import signal
import subprocess
import time
import unittest

import programs
import support
from programs import Reader, all_of_ours, find, gone, helper
from support import PYTHON, ROCMCRASH, is_running, wait_for

KILL, STOP = signal.SIGKILL, signal.SIGSTOP
HELPERS = ("tracer", "sampler", "relay", "recorder")
GO_ON_S = 1.1

# Writes numbered lines to stderr until a line comes, tells how many, and dies of SIGABRT.
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


class Attack(support.Case):
    def launch(self, *argv, options=()):
        # A group of its own below us: it is not orphaned, whoever runs the tests, so SIGTSTP stops it.
        process = self.start(*argv, options=options, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=os.setpgrp)
        self.addCleanup(self.end, process)
        return process, Reader(process.stdout, process.stderr)

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(timeout=20)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    def first_after(self, reader, what):
        """The target is seen to have written after now, by its own write counter."""
        target = self.target
        before = self.written(target)
        began = time.monotonic()

        def more():
            reader.pump()
            return self.written(target) > before
        wait_for(more, f"the target to write: {what}", 20)
        self.assertLess(time.monotonic() - began, GO_ON_S, what)

    def written(self, pid):
        text = support.read(f"/proc/{pid}/io")
        return int(text.split("syscw: ")[1].split()[0]) if "syscw: " in text else 0

    def finish_writer(self, process, reader, what):
        process.stdin.write(b"\n")
        process.stdin.flush()
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


class WhileItWrites(Attack):
    def attack(self, names, how, again=1):
        what = f"{'+'.join(names)} {how.name}"
        process, reader = self.start_writer()
        self.find_target(process, reader)
        for _ in range(again):
            for name in names:
                pid = find(process.pid, name)
                if pid:
                    os.kill(pid, how)
            self.first_after(reader, what)
        for name in names:
            if name != "tracer":
                wait_for(lambda n=name: reader.pump() or find(process.pid, n),
                         f"a new {name} after {what}")
        self.finish_writer(process, reader, what)
        return self.check_bundle(what, "tracer" in names)

    def test_one_helper_at_a_time(self):
        for name in HELPERS:
            for how in (KILL, STOP):
                with self.subTest(helper=name, how=how.name):
                    self.attack([name], how)

    def test_all_helpers_at_once(self):
        for how in (KILL, STOP):
            with self.subTest(how=how.name):
                self.attack(HELPERS, how)

    def test_relay_again_and_again(self):
        """More often than the others are replaced; no byte is lost or doubled."""
        self.attack(["relay"], KILL, again=25)

    def test_target_can_be_killed_while_a_helper_is_stopped(self):
        for name in HELPERS:
            with self.subTest(helper=name):
                process, reader = self.start_writer()
                self.find_target(process, reader)
                os.kill(helper(process.pid, name), STOP)
                began = time.monotonic()
                os.kill(self.target, KILL)
                wait_for(lambda: reader.pump() or gone(self.target), "the target to be gone")
                self.assertLess(time.monotonic() - began, GO_ON_S)
                reader.drain()
                self.assertEqual(process.wait(timeout=30), -signal.SIGKILL)
                self.assertEqual(len(self.bundles()), 1)
                os.unlink(self.bundles()[0].path)

    def test_job_control_without_the_tracer(self):
        process, reader = self.start_writer()
        self.find_target(process, reader)
        os.kill(helper(process.pid, "tracer"), KILL)
        self.first_after(reader, "tracer")
        os.kill(self.target, signal.SIGTSTP)
        wait_for(lambda: reader.pump() or support.state(process.pid) == "T", "us to stop as it did")
        self.assertEqual(support.state(self.target), "T")
        os.kill(process.pid, signal.SIGCONT)
        self.first_after(reader, "SIGCONT")
        self.finish_writer(process, reader, "job control")
        self.check_bundle("job control", True)


class AtTheStart(Attack):
    def test_killed_as_soon_as_it_is_there(self):
        """The moments between fork and exec of the target among them."""
        for name in HELPERS:
            for how in (KILL, STOP):
                for delay_turns in (0, 1, 3, 10):
                    with self.subTest(helper=name, how=how.name, turns=delay_turns):
                        self.attack(name, how, delay_turns)

    def attack(self, name, how, turns):
        process, reader = self.launch(
            "/bin/sh", "-c", "echo out; echo err >&2; exit 3", options=["--quiet"])
        order = {"relay": 0, "tracer": 1, "recorder": 2, "sampler": 3}[name]

        def kth_child():
            found = support.children(process.pid)
            return found[order] if len(found) > order else process.poll() is not None and -1
        pid = 0
        while not pid:
            pid = kth_child()
        for _ in range(turns):
            support.children(process.pid)
        if pid > 0 and process.poll() is None:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                pass
        reader.drain()
        self.assertEqual(process.wait(timeout=20), 3)
        self.assertEqual(reader.text(process.stdout), b"out\n")
        err = [line for line in reader.text(process.stderr).splitlines()
               if not line.startswith(b"rocmcrash: ")]
        self.assertEqual(err, [b"err"])

    def test_recorder_and_sampler_that_were_lost_at_once_are_replaced(self):
        process, reader = self.start_writer()
        for name in ("recorder", "sampler"):
            os.kill(helper(process.pid, name), KILL)
        self.find_target(process, reader)
        self.finish_writer(process, reader, "start")
        self.check_bundle("start", False)


class InAStorm(Attack):
    def test_forks_threads_and_signals(self):
        for kind in ("forks", "threads", "signals"):
            for how in (KILL, STOP):
                with self.subTest(kind=kind, how=how.name):
                    self.attack(kind, how)

    def attack(self, kind, how):
        # Eager: children that are traced as well are the harder case.
        process, reader = self.launch(programs.program(), "storm", kind,
                                      options=["--trace=eager", "--quiet"])
        reader.until(process.stdout, b"started")
        for name in HELPERS:
            os.kill(helper(process.pid, name), how)
            already = len(reader.text(process.stdout))
            began = time.monotonic()

            def more(had=already):
                reader.pump(0.01)
                return len(reader.text(process.stdout)) > had + 4
            wait_for(more, f"{kind} to go on after {name}")
            self.assertLess(time.monotonic() - began, GO_ON_S)
        process.stdin.write(b"\n")
        process.stdin.flush()
        reader.drain()
        self.assertEqual(process.wait(timeout=20), 7)

    ROUNDS, SIGNALS = 20, 2000

    def test_no_queued_signal_is_lost(self):
        """20 x 2000 real-time signals to the traced target, the tracer killed on the way."""
        limit = resource.getrlimit(resource.RLIMIT_SIGPENDING)
        if limit[0] != resource.RLIM_INFINITY and limit[0] < self.SIGNALS + 100:
            self.skipTest(f"RLIMIT_SIGPENDING is {limit[0]}")
        traced_kills = 0
        for turn in range(self.ROUNDS):
            process, reader = self.launch(programs.program(), "receive", str(self.SIGNALS),
                                          options=["--quiet"])
            reader.until(process.stdout, b"\n")
            target = int(reader.text(process.stdout).split()[1])
            tracer = helper(process.pid, "tracer")
            traced = f"TracerPid:\t{tracer}\n"
            wait_for(lambda t=target, m=traced: m in support.read(f"/proc/{t}/status"), "tracing")
            sender = subprocess.Popen([programs.program(), "send", str(target), str(self.SIGNALS)])
            wanted = len(reader.text(process.stdout)) + 2 * (1 + turn % 15)
            while len(reader.text(process.stdout)) < wanted:
                self.assertTrue(reader.open)
                reader.pump(1)
            try:
                traced_kills += traced in support.read(f"/proc/{target}/status")
                os.kill(tracer, KILL if turn % 3 else STOP)
            except ProcessLookupError:
                pass  # all had arrived already
            self.assertEqual(sender.wait(timeout=20), 0)
            reader.drain()
            self.assertEqual(process.wait(timeout=20), 0)
            self.assertIn(b"in order\n", reader.text(process.stdout))
        print(f"{self.ROUNDS * self.SIGNALS} queued signals, {traced_kills} tracers ended while "
              "tracing, 0 lost ", end="", flush=True)
        self.assertGreater(traced_kills, 0)

    def test_queued_signals_through_us_wait_for_room(self):
        """Forwarded ones, where the target's queue is shorter than what is sent."""
        process, reader = self.launch(programs.program(), "receive", "3000", options=["--quiet"])
        reader.until(process.stdout, b"\n")
        target = int(reader.text(process.stdout).split()[1])
        wait_for(lambda: reader.pump() or
                 "TracerPid:\t0\n" not in support.read(f"/proc/{target}/status"), "tracing")
        sent = subprocess.run([programs.program(), "send", str(process.pid), "3000"], check=False,
                              timeout=60)
        self.assertEqual(sent.returncode, 0)
        reader.drain()
        self.assertEqual(process.wait(timeout=20), 0)
        self.assertIn(b"in order\n", reader.text(process.stdout))


    def test_waiting_for_room_takes_no_cpu(self):
        code = ("import resource, signal, sys\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, signal.SIGRTMAX + 1))\n"
                "resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))\n"
                "print('ready', flush=True)\n"
                "sys.stdin.readline()\n")
        process, reader = self.launch(PYTHON, "-c", code, options=["--quiet"])
        reader.until(process.stdout, b"ready")
        sent = subprocess.run([programs.program(), "send", str(process.pid), "10"], check=False,
                              timeout=60)
        self.assertEqual(sent.returncode, 0)
        before = self.switches(process.pid), time.monotonic()
        time.sleep(0.5)  # so long it may wait
        turns, seconds = self.switches(process.pid) - before[0], time.monotonic() - before[1]
        self.assertGreater(turns, 10 * seconds)  # asleep for a millisecond, again and again
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.wait(timeout=20), 0)

    def switches(self, pid):
        """How often it went to sleep by itself."""
        status = support.read(f"/proc/{pid}/status")
        return int(status.split("\nvoluntary_ctxt_switches:\t")[1].split()[0])


class AtImpact(Attack):
    def test_during_the_copy(self):
        """A target with many threads and mappings is held long enough to be met."""
        for name in ("tracer", "sampler", "relay", "recorder"):
            for how in (KILL, STOP):
                with self.subTest(helper=name, how=how.name):
                    hits = sum(self.attack(name, how) for _ in range(3))
                    print(f"[{name} {how.name}: {hits} of 3 met] ", end="", flush=True)

    def attack(self, name, how):
        process, reader = self.launch(programs.program(), "many", "300", "40000")
        reader.until(process.stdout, b"\n")
        target = int(reader.text(process.stdout).split()[1])
        pid = helper(process.pid, name)
        process.stdin.write(b"\n")
        process.stdin.flush()
        met = False
        began = time.monotonic()
        while not gone(target):
            if not met and support.state(target) == "t":
                try:
                    os.kill(pid, how)
                except ProcessLookupError:
                    break
                met = True
            self.assertLess(time.monotonic() - began, 10, "the target was held for good")
        held = time.monotonic() - began
        self.assertLess(held, GO_ON_S + 0.5)
        reader.drain()
        self.assertEqual(process.wait(timeout=30), -signal.SIGSEGV)
        bundles = self.bundles()
        self.assertEqual(len(bundles), 1, reader.text(process.stderr))
        self.assertEqual(bundles[0].value("target.signal_name"), "SEGV")
        os.unlink(bundles[0].path)
        return met


class WhileItFinishes(Attack):
    def test_the_finisher(self):
        for how in (KILL, STOP):
            with self.subTest(how=how.name):
                process, reader = self.launch("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")
                first = helper(process.pid, "finisher")
                os.kill(first, how)
                reader.drain()
                self.assertEqual(process.wait(timeout=30), -signal.SIGSEGV)
                self.assertEqual(len(self.bundles()), 1, reader.text(process.stderr))
                os.unlink(self.bundles()[0].path)

    def test_a_finisher_that_is_killed_each_time(self):
        process, reader = self.launch("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")
        killed = set()

        def kill_it():
            pid = find(process.pid, "finisher")
            if pid and pid not in killed:
                os.kill(pid, KILL)
                killed.add(pid)
            reader.pump(0.001)
            return process.poll() is not None
        wait_for(kill_it, "the end")
        reader.drain()
        self.assertEqual(process.returncode, -signal.SIGSEGV)
        self.assertEqual(self.bundles(), [])
        self.assertIn(b"the run is kept in", reader.text(process.stderr))
        self.assertEqual(self.verb("recover").returncode, 0)

    def test_the_other_helpers(self):
        for name in ("sampler", "relay"):
            for how in (KILL, STOP):
                with self.subTest(helper=name, how=how.name):
                    # The grandchild holds stderr, so that the relay stays.
                    process, reader = self.launch(
                        "/bin/sh", "-c", "sleep 1000 & echo $! >&1; ulimit -c 0; kill -SEGV $$")
                    helper(process.pid, "finisher")
                    pid = find(process.pid, name)
                    if pid:
                        os.kill(pid, how)
                    self.assertEqual(process.wait(timeout=30), -signal.SIGSEGV)
                    reader.until(process.stdout, b"\n")
                    os.kill(int(reader.text(process.stdout).split()[0]), KILL)
                    reader.drain()
                    self.assertEqual(len(self.bundles()), 1)
                    os.unlink(self.bundles()[0].path)

    def test_supervisor(self):
        process, reader = self.launch("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")
        helper(process.pid, "finisher")
        process.kill()
        self.assertEqual(process.wait(timeout=20), -KILL)
        wait_for(lambda: reader.pump() or self.complete_bundles(), "the bundle")

    def complete_bundles(self):
        try:
            return self.bundles()
        except OSError:
            return []


class ProcessTheCallerStarted(Attack):
    def ended(self, pids):
        wait_for(lambda: all(gone(pid) for pid in pids), f"{pids} to end")

    def bundle_there(self):
        def there():
            try:
                return self.bundles()
            except (OSError, KeyError):
                return []
        return wait_for(there, "the bundle")

    def test_killed(self):
        process, reader = self.start_writer()
        self.find_target(process, reader)
        ours = all_of_ours(process.pid)
        self.assertGreaterEqual(len(ours), 4)
        process.kill()
        self.ended([self.target])
        bundle = self.bundle_there()[0]
        self.assertEqual(bundle.value("run.supervisor_killed"), True)
        self.assertEqual(bundle.value("target.signal_name"), "KILL")
        reader.drain()
        self.ended(ours)

    def test_killed_without_pidfds(self):
        """As before Linux 5.3, and under gVisor."""
        code = ("import ctypes, os, struct, sys\n"
                "def op(c, jt, jf, k): return struct.pack('HBBI', c, jt, jf, k)\n"
                "prog = op(0x20,0,0,0)+op(0x15,0,1,434)+op(6,0,0,0x50026)+op(6,0,0,0x7fff0000)\n"
                "buf = ctypes.create_string_buffer(prog)\n"
                "class F(ctypes.Structure): _fields_=[('n',ctypes.c_ushort),('p',ctypes.c_void_p)]\n"
                "libc = ctypes.CDLL(None)\n"
                "assert libc.prctl(38,1,0,0,0)==0\n"
                "assert libc.prctl(22,2,ctypes.byref(F(4,ctypes.addressof(buf))))==0\n"
                "os.execv(sys.argv[1], sys.argv[1:])")
        process = subprocess.Popen([PYTHON, "-c", code, *self.command("/bin/sleep", "1000")],
                                   env=self.environ, start_new_session=True)
        self.addCleanup(process.wait)
        target = self.target_pid(process.pid)
        helper(process.pid, "recorder")
        ours = all_of_ours(process.pid)
        process.kill()
        self.ended([target])
        self.assertEqual(self.bundle_there()[0].value("run.supervisor_killed"), True)
        self.ended(ours)

    def test_killed_with_orphan_keep(self):
        process, reader = self.launch(PYTHON, "-c", WRITER, options=["--orphan=keep"])
        self.find_target(process, reader)
        ours = all_of_ours(process.pid)
        process.kill()
        process.wait(timeout=20)
        self.first_after(reader, "supervisor")
        process.stdin.write(b"\n")
        process.stdin.flush()
        reader.drain()
        self.ended([self.target])
        count = int(reader.text(process.stdout).split(b"wrote ")[1].split()[0])
        self.assertEqual(reader.text(process.stderr).splitlines(),
                         [b"line %07d" % i for i in range(count)])
        self.assertEqual(self.bundle_there()[0].value("target.signal_name"), "ABRT")
        self.ended(ours)

    def test_stopped_tracer_of_an_orphan_is_ended(self):
        process, reader = self.launch(PYTHON, "-c", WRITER, options=["--orphan=keep"])
        self.find_target(process, reader)
        tracer = helper(process.pid, "tracer")
        process.kill()
        process.wait(timeout=20)
        os.kill(tracer, STOP)
        os.kill(self.target, signal.SIGUSR1)
        wait_for(lambda: reader.pump() or gone(self.target), "the target to take its signal")
        self.bundle_there()

    def test_killed_while_the_tracer_is_stopped(self):
        process, reader = self.start_writer()
        self.find_target(process, reader)
        helper(process.pid, "recorder")  # it stands in; the target may be a moment ahead of it
        ours = all_of_ours(process.pid)
        for pid in (helper(process.pid, "tracer"), process.pid):
            os.kill(pid, STOP if pid != process.pid else KILL)
        process.wait(timeout=20)
        began = time.monotonic()
        wait_for(lambda: reader.pump() or gone(self.target), "the target to die with us")
        self.assertLess(time.monotonic() - began, 2 * GO_ON_S)
        self.bundle_there()
        self.ended(ours)

    def test_together_with_a_helper(self):
        for name in ("tracer", "relay", "sampler"):
            with self.subTest(helper=name):
                process, reader = self.start_writer()
                self.find_target(process, reader)
                ours = all_of_ours(process.pid)
                for pid in (helper(process.pid, name), process.pid):
                    os.kill(pid, KILL)
                process.wait(timeout=20)
                wait_for(lambda: reader.pump() or gone(self.target), "the target to die with us")
                bundle = self.bundle_there()[0]
                self.assertEqual(bundle.value("run.supervisor_killed"), True)
                os.unlink(bundle.path)
                self.ended(ours)

    def test_together_with_the_recorder(self):
        """Nobody is left to make the bundle: the next start says so, and recover makes it."""
        self.everything(lambda process: [helper(process.pid, "recorder"), process.pid])

    def test_everything_at_once(self):
        self.everything(lambda process: [process.pid, *all_of_ours(process.pid)])

    def everything(self, victims):
        process, reader = self.start_writer()
        self.find_target(process, reader)
        runs = self.path("state", "runs")
        wait_for(lambda: reader.pump() or (os.path.isdir(runs) and os.listdir(runs) and
                 os.path.exists(os.path.join(runs, os.listdir(runs)[0], "run.json"))),
                 "the run directory")
        ours = all_of_ours(process.pid)
        dying = victims(process)
        os.kill(process.pid, signal.SIGSTOP)  # or it replaces what is killed before it
        for pid in dying:
            with contextlib.suppress(ProcessLookupError):  # gone with the one before
                os.kill(pid, KILL)
        wait_for(lambda: reader.pump() or all(gone(pid) for pid in ours), f"{ours} to end")
        if is_running(self.target):  # by SIGPIPE soon; not waited for by any of us
            os.kill(self.target, KILL)
        wait_for(lambda: gone(self.target), "the target")
        process.wait(timeout=20)
        self.assertEqual(self.bundles(), [])
        # A run that takes longer than the recorder is quiet.
        done = self.run_it("/bin/sleep", "0.3")
        self.assertIn("1 earlier run left no bundle", done.stderr)
        recovered = self.verb("recover")
        self.assertEqual(recovered.returncode, 0, recovered.stderr)
        bundle = self.only_bundle(done) if done.bundles else self.bundle_there()[0]
        self.assertEqual(bundle.fact("target.exit_code").get("status"), "unreadable")
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        self.assertIn("every run is finished", self.verb("recover").stdout)


class Limits(support.Case):
    """The caller's limits are the target's: they must not make us fail it, nor change."""

    CODE = ("import resource as r;print([r.getrlimit(i) for i in (r.RLIMIT_FSIZE,r.RLIMIT_AS,"
            "r.RLIMIT_NOFILE,r.RLIMIT_NPROC,r.RLIMIT_CORE,r.RLIMIT_DATA)])")

    def compare(self, limits, user=None):
        def prepare():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
        plain = subprocess.run([PYTHON, "-c", self.CODE], preexec_fn=prepare, capture_output=True,
                               check=True)
        done = subprocess.run([ROCMCRASH, "--output-dir", "/", "--", PYTHON, "-c", self.CODE],
                              preexec_fn=prepare, capture_output=True, check=False, timeout=60,
                              env=self.environ)
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
        return done.stderr

    def test_limits_that_hold_for_root(self):
        for limits in ([(resource.RLIMIT_FSIZE, 4096)], [(resource.RLIMIT_NOFILE, 12)],
                       [(resource.RLIMIT_NOFILE, 64)], [(resource.RLIMIT_AS, 40 << 20)],
                       [(resource.RLIMIT_DATA, 30 << 20)]):
            with self.subTest(limits=limits):
                self.compare(limits)

    def test_limits_of_an_ordinary_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        if not os.access(os.path.dirname(ROCMCRASH), os.X_OK):
            self.skipTest("the program cannot be reached")
        user = 60123  # nobody else's, so that RLIMIT_NPROC counts us alone
        for limits in ([(resource.RLIMIT_FSIZE, 4096)], [(resource.RLIMIT_NPROC, 1)],
                       [(resource.RLIMIT_NPROC, 2)], [(resource.RLIMIT_NPROC, 3)],
                       [(resource.RLIMIT_NPROC, 4)], [(resource.RLIMIT_NPROC, 5)]):
            with self.subTest(limits=limits):
                self.compare(limits, user)

    def test_relay_that_cannot_be_forked_is_none(self):
        """Then stderr goes straight through, whatever is written."""
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")

        def prepare():
            resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
            os.setgroups([])
            os.setgid(60124)
            os.setuid(60124)
        done = subprocess.run([ROCMCRASH, "--", PYTHON, "-c",
                               "import sys; sys.stderr.write('x'*300000)"], preexec_fn=prepare,
                              capture_output=True, check=False, timeout=60, env=self.environ)
        self.assertEqual(done.returncode, 0, done.stderr[:200])
        self.assertEqual(done.stderr.count(b"x"), 300000)

    def test_bundle_under_a_small_file_size_limit(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        done = self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", preexec_fn=prepare)
        self.assertEqual(done.status, -signal.SIGSEGV)
        self.only_bundle(done)

    def test_bundle_with_closed_streams(self):
        done = subprocess.run(["/bin/sh", "-c", '"$@" <&- >&- 2>&-', "sh",
                               *self.command("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")],
                              env=self.environ, check=False, timeout=30)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertEqual(len(self.bundles()), 1)


if __name__ == "__main__":
    support.main()
