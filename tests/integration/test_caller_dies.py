# SPDX-License-Identifier: Apache-2.0
"""The process that the caller started is killed, alone and together with helpers: the target dies with it (or goes on,
with --orphan=keep), and the processes that are left make the bundle, or `recover` does."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import support
from attacks import GO_ON_S, KILL, STOP, WRITER, Attack
from programs import all_of_ours, gone, helper
from support import PYTHON, Stopwatch, is_running, wait_for


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
        self.assertIn("rocmcrash ended the program with it", bundle.verdict["sentence"])
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
        self.line(process)
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
        helper(process.pid, "recorder")  # the recorder stands in; the target may be a moment ahead of it
        ours = all_of_ours(process.pid)
        for pid in (helper(process.pid, "tracer"), process.pid):
            os.kill(pid, STOP if pid != process.pid else KILL)
        process.wait(timeout=20)
        watch = Stopwatch()
        wait_for(lambda: reader.pump() or gone(self.target), "the target to die with us")
        self.assertLess(watch.seconds(), 2 * GO_ON_S)
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
        rank = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "a name"}
        self.environ.update(rank)
        process, reader = self.start_writer()
        self.find_target(process, reader)
        runs = self.path("state", "runs")
        wait_for(lambda: reader.pump() or (os.path.isdir(runs) and os.listdir(runs) and
                 os.path.exists(os.path.join(runs, os.listdir(runs)[0], "run.json"))),
                 "the run directory")
        ours = all_of_ours(process.pid)
        dying = victims(process)
        os.kill(process.pid, signal.SIGSTOP)  # else it replaces the helpers that were killed before it
        for pid in dying:
            with contextlib.suppress(ProcessLookupError):  # it ended with the one before
                os.kill(pid, KILL)
        wait_for(lambda: reader.pump() or all(gone(pid) for pid in ours), f"{ours} to end")
        if is_running(self.target):  # SIGPIPE ends it soon; none of us waits for it
            os.kill(self.target, KILL)
        wait_for(lambda: gone(self.target), "the target")
        process.wait(timeout=20)
        self.assertEqual(self.bundles(), [])
        # Printed only after a failure, and only if the recorder has been silent for long enough.
        self.assertEqual(self.run_it("/bin/sleep", "0.3").stderr, "")
        done = self.run_it("/bin/sh", "-c", "sleep 0.3; exit 3")
        self.assertIn("1 earlier run left no bundle", done.stderr)
        for name in rank:
            del self.environ[name]
        self.environ["HIP_VISIBLE_DEVICES"] = "7"  # from the shell of `recover`, not from the program
        recovered = self.verb("recover", "--json")
        self.assertEqual(recovered.returncode, 0, recovered.stderr)
        told = json.loads(recovered.stdout)
        bundle = self.only_bundle(done) if done.bundles else self.bundle_there()[0]
        self.assertEqual((told["verb"], told["status"], told["class"]), ("recover", 0, bundle.verdict["class"]))
        self.assertEqual(os.path.realpath(told["bundle"]), os.path.realpath(bundle.path))
        self.assertEqual(bundle.fact("target.exit_code").get("status"), "unreadable")
        self.assertIsNone(bundle.value("env.HIP_VISIBLE_DEVICES"))
        # The launcher had said who it is; that was kept.
        self.assertEqual([bundle.value(f"job.{name}") for name in ("rank", "local_rank", "world_size", "launcher")], [5, 1, 8, "torchrun"])
        self.assertIn("-r5-", os.path.basename(bundle.path))
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        self.assertIn("every run is finished", self.verb("recover").stdout)


class TwoFinishers(support.Case):
    """When the caller kills the process group just after the finisher has left it, the recorder starts another finisher.
    Here a script in the finisher's place starts both."""

    def finished_by(self, script):
        """The run's folder is gone at the end, and one bundle is there."""
        real = os.path.join(os.path.dirname(support.ROCMCRASH), "rocmcrash-finish")
        shutil.copy(support.ROCMCRASH, self.path("rocmcrash"))
        self.write("rocmcrash-finish", f"#!/bin/sh\nfinish() {{ exec '{real}' \"$@\"; }}\n{script}\n", 0o755)
        command = self.command("/bin/sh", "-c", "kill -SEGV $$")
        done = subprocess.run([self.path("rocmcrash"), *command[1:]], env=self.environ, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
        self.assertEqual(len(self.bundles()), 1, done.stderr)
        self.assertEqual(os.listdir(self.path("state", "runs")), [])
        self.assertEqual(self.verb("verify", self.bundles()[0].path).returncode, 0)

    def first_is_held(self, until):
        """A collector of the site's tells that the first one is at work, and keeps it there."""
        at_work = self.path("at-work")
        os.makedirs(self.path("site", "collectors"), 0o755)
        self.write("site/collectors/slow", f"#!/bin/sh\n[ -e {at_work} ] && exit 0\necho >{at_work}\n{until}\n", 0o755)
        self.environ["ROCMCRASH_SITE"] = self.path("site")
        return f'finish "$@" & first=$!\nuntil [ -e {at_work} ]; do sleep 0.02; done\n'

    def test_both_live(self):
        second = self.path("second")
        begin = self.first_is_held(f"until [ -e {second} ]; do sleep 0.02; done")
        self.finished_by(begin + f'(echo >{second}; finish "$@") & wait')

    def test_one_is_killed_while_the_other_one_waits(self):
        begin = self.first_is_held("exec sleep 600")
        self.finished_by(begin + 'finish "$@" & kill -KILL $first; wait')


if __name__ == "__main__":
    support.main()
