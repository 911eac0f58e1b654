# SPDX-License-Identifier: Apache-2.0
"""A helper, the program, all processes or the machine die at any moment: the target is not harmed, and a
bundle or an honest part of one is left. Ends with a table: faults tried, bundles lost, targets
harmed, archives invalid. The seed of random choices is printed; tests/long/kills makes ten times the attacks."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import losses
import programs
import support
from losses import LossCase, Table
from support import PYTHON, wait_for

EFFORT = int(os.environ.get("RC_LOSS_EFFORT") or 1)
ABORTED = -signal.SIGABRT


class RandomMoments(LossCase):
    """Each helper, the supervisor, the target and all at once, killed and stopped at any moment."""

    RUN_MS = 500
    VICTIMS = ("tracer", "sampler", "relay", "recorder", "finisher", "supervisor", "target", "all")

    def test_moments(self):
        losses.target()  # compiled once, before there are threads
        self.side_by_side(RandomMoments.attack, [(self.VICTIMS[i % len(self.VICTIMS)], i)
                                                 for i in range(16 * EFFORT)])

    def attack(self, name, number):
        how = signal.SIGKILL if name in ("supervisor", "target", "all") else \
            self.random.choice((signal.SIGKILL, signal.SIGSTOP))
        # A second after the end the last counters are read, then the bundle is made.
        latest = self.RUN_MS / 1000 + (1.6 if name != "target" else 0)
        moment = self.random.uniform(0, latest)
        if name == "finisher":
            moment = self.random.uniform(self.RUN_MS / 1000, latest)
        elif self.random.random() < 0.6:
            moment = self.random.uniform(0, self.RUN_MS / 1000)
        what = f"attack {number}: {name} {how.name} at {moment:.4f} s"
        with open(self.path("err"), "wb") as err, open(self.path("out.txt"), "wb") as out:
            process = self.start(losses.target(), "lines", str(self.RUN_MS), stdout=out, stderr=err,
                                 process_group=0)
        began = time.monotonic()
        pid = 0
        while time.monotonic() - began < moment and process.poll() is None:
            tracer = programs.find(process.pid, "tracer")
            pid = next(iter(support.children(tracer)), pid) if tracer else pid
            time.sleep(0.0005)  # the moment decides that
        had_run_dir = bool(glob.glob(self.path("state", "runs", "*", "run.json")))
        met = self.strike(process, name, how, pid)
        status = process.wait(timeout=60)
        if met and name in ("supervisor", "all"):
            self.let_it_end(pid)
        harmed = "" if name in ("supervisor", "target", "all") and met else self.harm(status)
        # If everything was killed before the run directory existed, there is no bundle to expect.
        nothing = met and (name == "all" or name == "supervisor") and not had_run_dir
        self.harvest("helpers killed and stopped at random moments", what, harmed, nothing)

    def strike(self, process, name, how, target):
        if process.poll() is not None:
            return False
        if name == "target":
            victims = [target] if target else []
        elif name == "supervisor":
            victims = [process.pid]
        elif name == "all":
            os.kill(process.pid, signal.SIGSTOP)  # else it replaces the helpers that were killed before it
            victims = [*programs.all_of_ours(process.pid), process.pid, target]
        else:
            victims = [programs.find(process.pid, name)]
        met = False
        for pid in victims:
            if pid and not programs.gone(pid):
                try:
                    os.kill(pid, how)
                    met = True
                except ProcessLookupError:
                    pass
        return met

    def let_it_end(self, target):
        """The recorder stands in for the supervisor. We cannot wait for its finisher, which is no child of ours."""
        seen = time.monotonic()

        def alive():
            names = [name for words in programs.NAMES.values() for name in words]
            for path in glob.glob("/proc/[0-9]*/environ"):
                text = support.read(path)
                if f"ROCMCRASH_STATE_DIR={self.environ['ROCMCRASH_STATE_DIR']}" in text and \
                        support.comm(path.split("/")[2]) in names + ["rocmcrash"] and \
                        not programs.gone(int(path.split("/")[2])):
                    return True
            return bool(target) and not programs.gone(target)

        def over():
            nonlocal seen
            if alive():
                seen = time.monotonic()
            return time.monotonic() - seen > 0.3  # during execve(2) a process shows no environment
        wait_for(over, "the stand-in to finish", 30)

    def harm(self, status):
        if status != ABORTED:
            return f"status {status}"
        said = re.search(r"wrote (\d+)", support.read(self.path("out.txt")))
        lines = [line for line in support.read(self.path("err")).splitlines()
                 if not line.startswith("rocmcrash: ")]
        if said is None or lines != ["line %07d" % i for i in range(int(said.group(1)))]:
            return f"{len(lines)} lines of {said and said.group(1)} came through"
        return ""


class MachineReset(LossCase):
    """`recover` reads a run directory that a machine left when it went down."""

    KIND = "machine reset: "

    def recover(self, kind, what, run_dir, files, may_be_nothing=False):
        """`files`: {name: bytes}, the contents of the run directory."""
        shutil.rmtree(run_dir, ignore_errors=True)
        os.makedirs(run_dir, mode=0o700)
        os.chmod(self.path("state", "runs"), 0o700)
        for name, data in files.items():
            with open(os.path.join(run_dir, name), "wb") as file:
                file.write(data)
        self.forget_bundles()
        done = self.verb("recover")
        found = self.everywhere()
        invalid = [path for path in found if not self.is_valid(path)]
        honest = may_be_nothing and done.returncode == 0 and "every run is finished" in done.stdout
        Table.add(self.KIND + kind, lost=not found and not honest, invalid=invalid)
        self.assertEqual(invalid, [], what)
        self.assertTrue(found or honest, f"{what} (seed {losses.SEED}): {done.stdout}{done.stderr}")
        return support.Bundle(found[0]) if found else None

    def load(self, run_dir):
        files = {}
        for path in glob.glob(os.path.join(run_dir, "*")):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    files[os.path.basename(path)] = file.read()
        return files

    def test_every_prefix(self):
        """Each file cut at many points, with its end missing, or zeros instead of it (a file system's allocation)."""
        run_dir = self.kept_run(losses.target(), "lines", "1500")
        whole = self.load(run_dir)
        for name in ("run.json", "impact.0", "samples.0000", "output.1", "boot"):
            self.assertIn(name, sorted(whole))
        evidence = [name for name in whole if whole[name] and
                    name not in ("state", "boot", "gpus", "moved")]
        bundle = self.recover("nothing missing", "whole", run_dir, whole)
        self.assertEqual(bundle.value("target.failed_signal"), signal.SIGABRT)
        for name, data in whole.items():
            cuts = {0, len(data) // 2, max(len(data) - 1, 0)}
            cuts |= {self.random.randrange(len(data) + 1) for _ in range(EFFORT)}
            for cut in sorted(cuts):
                for zeros in {cut == len(data) // 2, False}:
                    torn = data[:cut] + (bytes(len(data) - cut) if zeros else b"")
                    self.recover("a file cut short", f"{name} cut at {cut}, zeros: {zeros}", run_dir,
                                 {**whole, name: torn})
            without = {key: value for key, value in whole.items() if key != name}
            self.recover("a file missing", f"without {name}", run_dir, without)
            only = {key: value for key, value in whole.items() if key in (name, "state")}
            self.recover("only one file left", f"only {name}", run_dir, only,
                         may_be_nothing=name not in evidence)
        self.recover("nothing left", "an empty folder", run_dir, {}, may_be_nothing=True)

    def test_torn_run_json_keeps_the_rest(self):
        """Other files than run.json have the signal, the output and the time of the failure, too."""
        run_dir = self.kept_run(losses.target(), "lines", "1500")
        whole = self.load(run_dir)
        bundle = self.recover("a file cut short", "run.json", run_dir,
                              {**whole, "run.json": whole["run.json"][:40]})
        self.assertEqual(bundle.value("target.failed_signal"), signal.SIGABRT)
        self.assertIn("line 0000001", bundle.text("output/stderr.txt"))
        self.assertEqual(bundle.row("run")["status"], "failed")
        self.assertIn("run.json", bundle.row("run")["reason"])
        self.assertEqual(bundle.fact("run.traced")["status"], "unreadable")
        # Without run.json the start of the run is unknown, so older lines of the machine's log must not count.
        alone = {**whole, "run.json": b""}
        alone.pop("kmsg", None)
        alone.pop("boot", None)
        bundle = self.recover("a file cut short", "run.json, without a kernel log", run_dir, alone)
        self.assertEqual(bundle.fact("kmsg.readable")["status"], "unreadable")
        self.assertIn("when the run began is not known", bundle.row("kernel_log")["reason"])
        # A bad sector: the end of the file is intact, and what precedes it is no JSON.
        bad = whole["run.json"][:60] + b'!"\n' + whole["run.json"][63:]
        bundle = self.recover("a file damaged", "run.json, in its middle", run_dir, {**whole, "run.json": bad})
        self.assertEqual(bundle.value("target.failed_signal"), signal.SIGABRT)
        self.assertIn("damaged", bundle.row("run")["reason"])

    def test_another_boot(self):
        """The kernel log of this boot is not that of the run."""
        run_dir = self.kept_run(losses.target(), "lines", "1500")
        whole = self.load(run_dir)
        boot = b"00000000-1111-2222-3333-444444444444 1000000000\n"
        run = json.loads(whole["run.json"])
        record = (f"6,{run['kmsg_start_seq']},{int(run['target_end_ns']) // 1000},-;"
                  "the machine said this before it went down\n").encode()
        try:  # this boot's kernel says something in the window of the run, too
            for i in range(2):  # the first record may have the number of the made-up one
                with open("/dev/kmsg", "w", encoding="ascii") as kernel:
                    kernel.write(f"rocmcrash's tests: record {i} of another boot than the run's\n")
        except OSError:
            pass
        bundle = self.recover("another boot", "boot", run_dir,
                              {**whole, "boot": boot, "kmsg": record})
        self.assertIs(bundle.value("run.machine_restarted"), True)
        self.assertEqual(bundle.value("run.boot_time_s"), 1000000000)
        log = bundle.files.get("kernel_log/kernel.log", b"").decode()
        self.assertIn("before it went down", log)
        self.assertEqual(len([line for line in log.splitlines() if line[:1] == "["]), 1, log)
        self.assertIsNone(self.recover("another boot", "the same one", run_dir, whole)
                          .value("run.machine_restarted"))

    def test_what_was_synced(self):
        """The disk as it was at the last fsync, with any part of the later writes."""
        shadow = self.path("shadow")
        os.mkdir(shadow)
        env = {**support.preloaded(self.environ, losses.durable()), "RC_DURABLE": shadow,
               "RC_DURABLE_OF": self.path("state", "runs")}
        run_dir = self.kept_run(PYTHON, "-c", "import sys, time\n"
                                "for i in range(30):\n"
                                "    print('x' * 99, file=sys.stderr); time.sleep(0.1)\n"
                                "import ctypes; ctypes.string_at(16)", env=env)
        folder = os.path.join(shadow, f"names.{os.stat(run_dir).st_ino}")
        self.assertTrue(os.path.exists(folder), "the folder itself was synced")
        alive = self.load(run_dir)
        names = dict(reversed(line.split(" ", 1)) for line in support.read(folder).splitlines())
        synced = {}
        for name, inode in names.items():
            path = os.path.join(shadow, f"data.{inode}")
            if name != "state" and os.path.exists(path):
                with open(path, "rb") as file:
                    synced[name] = file.read()
            else:
                synced[name] = b""
        for name in ("run.json", "impact.0"):
            self.assertTrue(synced.get(name), f"{name} is on the disk")
        bundle = self.recover("as at the last fsync", "worst", run_dir, synced)
        self.assertEqual(bundle.value("target.failed_signal"), signal.SIGSEGV)
        self.assertIn("x" * 99, bundle.text("output/stderr.txt"))
        for i in range(4 * EFFORT):
            files = {}
            for name, data in synced.items():
                rest = alive.get(name, b"")[len(data):]
                more = rest[:self.random.randrange(len(rest) + 1)]
                files[name] = data + (bytes(len(more)) if self.random.random() < 0.3 else more)
            self.recover("as at the last fsync", f"and some more, {i}", run_dir, files)


class Killed(LossCase):
    """Slurm and Kubernetes: SIGTERM, and after a while SIGKILL to every process."""

    def test_within_the_grace(self):
        model = self.path("model.safetensors")
        with open(model, "wb") as file:  # a file that takes long to hash, named on the command line
            file.write((2).to_bytes(8, "little") + b"{}")
            file.truncate(64 << 30)
        for grace_s, lives_on_s in ((30, 6), (5, 0)):
            process = self.start(losses.target(), "term", model, str(lives_on_s), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, preexec_fn=os.setpgrp)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            os.killpg(process.pid, signal.SIGTERM)
            began = time.monotonic()
            try:
                status = process.wait(timeout=grace_s)
            except subprocess.TimeoutExpired:
                for pid in [*programs.all_of_ours(process.pid), process.pid]:
                    os.kill(pid, signal.SIGKILL)
                status = process.wait(timeout=20)
            took = time.monotonic() - began
            process.stdout.close()
            process.stderr.close()
            self.assertTrue(self.bundles(), f"{took:.1f} s of {grace_s} s")
            self.harvest("SIGTERM, then SIGKILL", f"{grace_s} s, {lives_on_s} s lived on", "" if status == ABORTED else
                         f"status {status} after {took:.1f} s")
            self.forget_bundles()
            print(f"[{took:.1f} s of {grace_s} s] ", end="", flush=True)


class Ranks(LossCase):
    @staticmethod
    def has_open(pid, path):
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if os.readlink(link) == path:
                    return True
            except OSError:
                pass
        return False

    def test_eight_that_fail_together(self):
        gate = self.path("gate")
        os.mkfifo(gate)
        code = (f"import os\nopen({gate!r}).read()\n"
                "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()")
        ranks = []
        for rank in range(8):
            env = {**self.environ, "RANK": str(rank), "WORLD_SIZE": "8", "LOCAL_RANK": str(rank)}
            ranks.append(self.start(PYTHON, "-c", code, env=env, stderr=subprocess.PIPE))
        writer = os.open(gate, os.O_WRONLY)
        pids = [self.target_pid(process.pid) for process in ranks]
        wait_for(lambda: all(self.has_open(pid, gate) for pid in pids), "every rank at the gate")
        os.close(writer)
        for process in ranks:
            process.communicate(timeout=120)
            harmed = process.returncode != ABORTED
            Table.add("eight ranks at once", harmed=harmed)
        found = self.everywhere()
        invalid = [path for path in found if not self.is_valid(path)]
        row = Table.rows["eight ranks at once"]
        row[1] += 8 - len(found)
        row[3] += len(invalid)
        self.assertEqual((len(found), invalid, row[2]), (8, [], 0))
        self.assertEqual([os.path.dirname(path) for path in found], [self.outdir] * 8)
        self.assertEqual(sorted(support.Bundle(path).value("job.rank") for path in found),
                         list(range(8)))
        self.assertEqual([name for name in os.listdir(self.outdir) if name.startswith(".")], [])


if __name__ == "__main__":
    losses.main()
