# SPDX-License-Identifier: Apache-2.0
"""Helpers of a run are killed and stopped at every stage: the target must not notice, and a bundle
(or an honest part of one) is left."""

import os
import resource
import signal
import subprocess
import time

import programs
import support
from attack_table import Attacks
from attacks import GO_ON_S, HELPERS, KILL, STOP, Attack
from programs import find, gone, helper
from support import PYTHON, Stopwatch, wait_for


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
        with Attacks("helpers killed or stopped") as attacks:
            for name in HELPERS:
                for how in (KILL, STOP):
                    with attacks.one(f"{name} {how.name}"):
                        self.attack([name], how)

    def test_all_helpers_at_once(self):
        for how in (KILL, STOP):
            with self.subTest(how=how.name):
                self.attack(HELPERS, how)

    def kill_ours(self, pids):
        for pid in pids:
            if support.comm(pid).startswith("rocmcrash-"):
                os.kill(pid, KILL)

    def test_all_of_us_stopped(self):
        """Nobody is left who would notice: the supervisor is continued by a timer of the kernel."""
        with Attacks("all of our processes stopped") as attacks:
            for last in (False, True):
                with attacks.one(f"supervisor last: {last}"):
                    process, reader = self.start_writer()
                    self.find_target(process, reader)
                    ours = programs.all_of_ours(process.pid)
                    self.addCleanup(self.kill_ours, ours)
                    for pid in [*ours, process.pid] if last else [process.pid, *ours]:
                        os.kill(pid, STOP)
                    self.finish_writer(process, reader, "all stopped")
                    self.check_bundle("all stopped", False)

    def test_relay_again_and_again(self):
        """It is replaced more often than the others; no byte is lost or doubled."""
        self.attack(["relay"], KILL, again=25)

    def test_one_that_dies_for_ever_is_done_without(self):
        process, reader = self.start_writer()
        self.find_target(process, reader)
        killed = []

        def given_up():
            reader.pump()
            pid = find(process.pid, "sampler")
            if pid and pid not in killed:
                killed.append(pid)
                os.kill(pid, KILL)
            return len(killed) > 20 or "sampler ended" in support.read(events) and len(killed) >= 9
        events = os.path.join(wait_for(lambda: self.run_dir(), "the run directory"), "events")
        wait_for(given_up, "an end of samplers")
        self.finish_writer(process, reader, "samplers")
        self.assertEqual(len(killed), 9)
        self.check_bundle("samplers", False)

    def run_dir(self):
        runs = self.path("state", "runs")
        return next((os.path.join(runs, name) for name in os.listdir(runs)), "") if \
            os.path.isdir(runs) else ""

    def test_target_can_be_killed_while_a_helper_is_stopped(self):
        for name in HELPERS:
            with self.subTest(helper=name):
                process, reader = self.start_writer()
                self.find_target(process, reader)
                os.kill(helper(process.pid, name), STOP)
                watch = Stopwatch()
                os.kill(self.target, KILL)
                wait_for(lambda: reader.pump() or gone(self.target), "the target to be gone")
                self.assertLess(watch.seconds(), GO_ON_S)
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


# Overwrites the shared memory of the run, again and again for a while, and ends.
SCRIBBLER = """
import os, random, sys, time
kind = sys.argv[1]
fill = {"ones": b"\\xff", "zeros": b"\\0"}.get(kind)
draw = random.Random(kind)
folder = f"/proc/{os.getppid()}/fd/"
shared = next(folder + fd for fd in os.listdir(folder) if os.readlink(folder + fd).startswith("/memfd:rocmcrash ("))
fd = os.open(shared, os.O_RDWR)
size = os.fstat(fd).st_size
for turn in range(4):
    for at in range(0, size, 1 << 20):
        n = min(1 << 20, size - at)
        os.pwrite(fd, fill * n if fill else draw.randbytes(n), at)
    time.sleep(0.1)
os.write(2, b"HIP out of memory. Tried to allocate 2.00 GiB\\n")
os._exit(3)
"""


class SharedMemory(support.Case):
    def test_a_target_that_overwrites_it_ends_as_it_would(self):
        """Only root or the same user can do that. It may cost the bundle, not the exit status; and no figure comes from there."""
        with Attacks("shared memory overwritten") as attacks:
            for kind in ("ones", "zeros", "seed 1", "seed 2"):
                with attacks.one(kind):
                    finished = self.python(SCRIBBLER, kind)
                    self.assertEqual(finished.status, 3, f"{kind}: {finished.stderr}")
                    self.assertNotRegex(finished.stderr, "earlier runs? left", kind)


class AtTheStart(Attack):
    def test_killed_as_soon_as_it_is_there(self):
        """Some of these moments lie between fork and exec of the target."""
        with Attacks("helpers killed or stopped") as attacks:
            for name in HELPERS:
                for how in (KILL, STOP):
                    for delay_turns in (0, 1, 3, 10):
                        with attacks.one(f"{name} {how.name} {delay_turns}"):
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
        # Eager tracing is the harder case: the children are traced, too.
        process, reader = self.launch(programs.program(), "storm", kind,
                                      options=["--trace=eager", "--quiet"])
        reader.until(process.stdout, b"started")
        for name in HELPERS:
            os.kill(helper(process.pid, name), how)
            already = len(reader.text(process.stdout))
            watch = Stopwatch()

            def more(had=already):
                reader.pump(0.01)
                return len(reader.text(process.stdout)) > had + 4
            wait_for(more, f"{kind} to go on after {name}")
            self.assertLess(watch.seconds(), GO_ON_S)
        self.line(process)
        reader.drain()
        self.assertEqual(process.wait(timeout=20), 7)

    ROUNDS, SIGNALS = 20, 2000

    def test_no_queued_signal_is_lost(self):
        """20 x 2000 real-time signals to the traced target. The tracer is killed meanwhile."""
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
        """We forward more signals than the target's queue holds."""
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

    def test_more_than_we_keep_wait_in_order(self):
        process, reader = self.launch(programs.program(), "receive-later", "100", options=["--quiet"])
        reader.until(process.stdout, b"ready\n")
        self.assertEqual(subprocess.run([programs.program(), "send", str(process.pid), "100"],
                                        check=False, timeout=60).returncode, 0)
        before = support.switches(process.pid)
        wait_for(lambda: support.switches(process.pid) > before + 5, "us to ask for room")
        self.line(process)
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
        before = support.switches(process.pid), time.monotonic()
        time.sleep(0.5)  # it may wait that long
        turns, seconds = support.switches(process.pid) - before[0], time.monotonic() - before[1]
        self.assertGreater(turns, 10 * seconds)  # it sleeps for a millisecond, again and again
        self.line(process)
        self.assertEqual(process.wait(timeout=20), 0)


class AtImpact(Attack):
    """A target with many threads and mappings is held long enough for the attack to meet the copy."""

    def meets(self, name):
        for how in (KILL, STOP):
            with self.subTest(how=how.name):
                hits = sum(self.attack(name, how) for _ in range(3))
                print(f"[{name} {how.name}: {hits} of 3 met] ", end="", flush=True)

    def test_tracer(self):
        self.meets("tracer")

    def test_sampler(self):
        self.meets("sampler")

    def test_relay(self):
        self.meets("relay")

    def test_recorder(self):
        self.meets("recorder")

    def attack(self, name, how):
        process, reader = self.launch(programs.program(), "many", "300", "40000")
        reader.until(process.stdout, b"\n")
        target = int(reader.text(process.stdout).split()[1])
        pid = helper(process.pid, name)
        self.line(process)
        met = False
        watch = Stopwatch()
        while not gone(target):
            if not met and support.state(target) == "t":
                try:
                    os.kill(pid, how)
                except ProcessLookupError:
                    break
                met = True
            self.assertLess(watch.seconds(), 10, "the target was held for good")
        self.assertLess(watch.seconds(), GO_ON_S + 0.5)
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


if __name__ == "__main__":
    support.main(side_by_side=4)
