# SPDX-License-Identifier: Apache-2.0
"""Whatever dies, fills up, lies or hangs: the target is not harmed, and a bundle or an honest part of
one is left. Ends with a table: faults tried, bundles lost, targets harmed, archives invalid. What is
random is of a seed that is printed; tests/long/kills makes the same attacks by the hundred."""

import contextlib
import errno
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
import replay
import support
from losses import LossCase, Table
from support import PYTHON, ROCMCRASH, wait_for

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
            time.sleep(0.0005)  # the moment decides
        had_run_dir = bool(glob.glob(self.path("state", "runs", "*", "run.json")))
        met = self.strike(process, name, how, pid)
        status = process.wait(timeout=60)
        if met and name in ("supervisor", "all"):
            self.let_it_end(pid)
        harmed = "" if name in ("supervisor", "target", "all") and met else self.harm(status)
        # Where nothing was on the disk yet there is nothing; the target's own end is told.
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
            os.kill(process.pid, signal.SIGSTOP)  # or it replaces what is killed before it
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
        """The recorder stands in, and its finisher has no parent that we could wait for."""
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
            return time.monotonic() - seen > 0.3  # in execve(2) a process shows no environment
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
    """What `recover` makes of a run directory that a machine left when it went down."""

    KIND = "machine reset: "

    def recover(self, kind, what, run_dir, files, may_be_nothing=False):
        """`files`: {name: bytes} of the run directory as it is found."""
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
        """Each file cut at many points, with its end missing or zeros (a file system's allocation)."""
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
        """The signal, the output and the moment of the failure are not in run.json alone."""
        run_dir = self.kept_run(losses.target(), "lines", "1500")
        whole = self.load(run_dir)
        bundle = self.recover("a file cut short", "run.json", run_dir,
                              {**whole, "run.json": whole["run.json"][:40]})
        self.assertEqual(bundle.value("target.failed_signal"), signal.SIGABRT)
        self.assertIn("line 0000001", bundle.text("output/stderr.txt"))
        self.assertEqual(bundle.row("run")["status"], "failed")
        self.assertIn("run.json", bundle.row("run")["reason"])
        self.assertEqual(bundle.fact("run.traced")["status"], "unreadable")
        # Nobody knows since when: what the machine's log says of others is not blamed on it.
        alone = {**whole, "run.json": b""}
        alone.pop("kmsg", None)
        alone.pop("boot", None)
        bundle = self.recover("a file cut short", "run.json, without a kernel log", run_dir, alone)
        self.assertEqual(bundle.fact("kmsg.readable")["status"], "unreadable")
        self.assertIn("when the run began is not known", bundle.row("kernel_log")["reason"])
        # A sector gone bad: the end is there, what comes before it is no JSON.
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
            for i in range(2):  # the first may have the number of the one that is made up
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
        """The disk as it was at the last fsync, with any part of what was written after it."""
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


class FinisherFails(losses.Shimmed):
    """Faults in the finisher, on copies of one run directory."""

    def setUp(self):
        super().setUp()
        self.kept = self.path("kept")  # also tells what of the shared folders is ours
        shutil.copytree(self.kept_run(losses.target(), "lines", "1500"), self.kept)

    def finish(self, kind, fault, elsewhere=False):
        """With the fault: a valid bundle, or words on stderr; and then one without the fault.
        `elsewhere`: there are places for the bundle that do not fail."""
        run_dir = self.path("state", "runs", "20261121T120000Z-1")
        shutil.rmtree(self.path("state"), ignore_errors=True)
        shutil.copytree(self.kept, run_dir)
        os.chmod(self.path("state", "runs"), 0o700)
        self.forget_bundles()
        done = subprocess.run([ROCMCRASH, "recover"], env=self.fault(fault, "rocmcrash-finish"),
                              capture_output=True, text=True, check=False, timeout=120)
        met = self.faults_met()
        self.assertGreaterEqual(done.returncode, 0, f"{fault}: a crash: {done.stderr}")
        if not self.everywhere():
            self.assertFalse(elsewhere, f"{fault}: no bundle: {done.stderr}")
            self.assertNotEqual(done.returncode, 0, f"{fault}: no bundle, and not a word")
            self.assertGreater(len(done.stderr), 20, fault)
            self.assertGreater(met, 0, fault)
        self.harvest(kind, f"finisher, {fault}")
        self.said = done.stdout + done.stderr
        return met

    def sweep(self, kind, faults):
        met = [fault for fault in faults if self.finish(kind, fault)]
        self.assertTrue(met, f"{kind}: nothing was met")
        print(f"[{kind}: {len(met)} of {len(faults)} met] ", end="", flush=True)

    def numbers(self, low, high, count):
        return sorted(self.random.sample(range(low, high), min(count * EFFORT, high - low)))

    def test_interrupted_and_short(self):
        for seed in self.numbers(1, 1 << 30, 6):
            self.finish("interrupted calls, short reads and writes", f"short:{seed}")
            self.assertEqual(os.path.dirname(self.everywhere()[0]), self.outdir,
                             f"short:{seed}: not where it belongs: {self.said}")

    def test_no_processes(self):
        self.sweep("no processes for the finisher",
                   [f"forks:{seed}" for seed in self.numbers(1, 1 << 30, 3)])

    def test_clock(self):
        self.sweep("the clock stepped under the finisher",
                   [f"clock:{seed}" for seed in self.numbers(1, 1 << 30, 4)])

    def test_disk_of_the_output(self):
        self.disk("the output's disk", self.outdir)

    def test_disk_of_the_state(self):
        self.disk("the state's disk", self.path("state"))

    def test_disk_of_both(self):
        self.disk("every disk of ours", self.folder)

    def disk(self, which, prefix):
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            for first in {1, *self.numbers(2, 60, 1)}:
                self.finish(f"{errno.errorcode[code]} on {which}", f"output:{code}:{first}:{prefix}",
                            elsewhere=True)
        for path in self.shared_bundles():
            os.unlink(path)

    def shared_bundles(self):
        """Where bundles go when nothing of ours takes them; with names that are ours."""
        with open(os.path.join(self.kept, "run.json"), encoding="utf-8") as file:
            second = int(json.load(file)["start_wall_ns"]) // 1000000000
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        return [path for folder in ("/tmp", "/dev/shm") for path in
                glob.glob(f"{folder}/rocmcrash-{os.geteuid()}/rocmcrash-{stamp}-target-*.tar.gz")]

    def everywhere(self):
        return super().everywhere() + (self.shared_bundles() if os.path.isdir(self.kept) else [])


class HelpersFail(losses.Shimmed):
    """The same in the processes beside a living target: it must not notice."""

    def live(self, kind, fault, comm=None, met=True):
        self.log = self.path("fault-log")
        fault = fault.replace("STATE", self.path("state"))
        process = subprocess.Popen(self.command(losses.target(), "lines", "600"),
                                   env=self.fault(fault, "rocmcrash", comm), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=60)
        done = self.finished_text(process, out, err)
        if met:
            self.assertGreater(self.faults_met(), 0, f"{fault} {comm}")
        # Without a tracer or memory to share there is nothing to record, and that is said.
        unobserved = b"running without observation" in err
        self.harvest(kind, f"{fault} {comm}", done, may_be_nothing=unobserved)

    def finished_text(self, process, out, err):
        """What is wrong with what the target gave; '' = nothing."""
        if process.returncode != ABORTED:
            return f"status {process.returncode}: {err[-300:]}"
        said = re.search(rb"wrote (\d+)", out)
        # Our lines begin on a line of their own: where our copy of the output ends within a line, one is empty.
        err = err.replace(b"\n\nrocmcrash: ", b"\nrocmcrash: ", 1)
        lines = [line for line in err.splitlines() if not line.startswith(b"rocmcrash: ")]
        if said is None or lines != [b"line %07d" % i for i in range(int(said.group(1)))]:
            odd = [line for i, line in enumerate(lines) if line != b"line %07d" % i][:2]
            return f"{len(lines)} lines of {said and said.group(1)}, first odd ones {odd}"
        return ""

    def test_side_by_side(self):
        cases = []
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            for first in (1, *self.random.sample(range(2, 40), EFFORT)):
                cases.append((f"{errno.errorcode[code]} on the recorder's disk",
                              f"output:{code}:{first}:STATE", None, first == 1))
        for comm in (None, "rocmcrash-T", "rocmcrash-M", "rocmcrash-O", "rocmcrash-R") * EFFORT:
            cases.append(("interrupted calls beside the target", f"short:{self.seed()}", comm, True))
        for first in (1, 16, *self.random.sample(range(2, 60), 3 * EFFORT)):
            for count in (1, 1000000000):
                cases.append(("no descriptors beside the target", f"files:{first}:{count}", None,
                              False))
        for _ in range(4 * EFFORT):
            cases.append(("no processes beside the target", f"forks:{self.seed()}", None, False))
            cases.append(("the clock stepped during the run", f"clock:{self.seed()}", None, False))
        losses.target(), losses.shim()  # compiled once, before there are threads
        self.side_by_side(HelpersFail.live, cases)

    def seed(self):
        return self.random.randrange(1, 1 << 30)

    def test_copy_of_the_output_under_short_reads(self):
        """The bundle has what the target wrote, in its order and to its end; a file is not carried."""
        for stream in ("pipe", "file"):
            with open(self.path("err"), "wb") as file:
                done = subprocess.run(self.command(losses.target(), "lines", "300"), check=False, timeout=60,
                                      env=self.fault(f"short:{self.seed()}", "rocmcrash", "rocmcrash-O"),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE if stream == "pipe" else file)
            self.assertGreater(self.faults_met(), 0, stream)
            lines = int(re.search(rb"wrote (\d+)", done.stdout).group(1))
            path = self.harvest("interrupted calls beside the target", stream,
                                "" if done.returncode == ABORTED else f"status {done.returncode}")
            self.assertEqual(support.Bundle(path).text("output/stderr.txt").splitlines(),
                             ["line %07d" % i for i in range(lines)], stream)
            self.forget_bundles()

    def test_slow_disk_at_an_end_that_only_the_kernel_tells_of(self):
        """The recorder waits for the disk when the program fails without a word: it is waited for."""
        log = self.write("machine/dev/kmsg", replay.QUIET_LOG)
        line = replay.PAGE_FAULT.replace("{comm}", "python3")
        code = ("import os, sys, time\n"
                f"while not os.path.exists({self.log!r}): time.sleep(0.01)\n"
                f"with open({log!r}, 'a') as file: file.write({line!r}.replace('{{victim}}', str(os.getpid())))\n"
                "os._exit(1)")
        env = {**self.fault("slow::1500", "rocmcrash", "rocmcrash-R"),
               "ROCMCRASH_SYSROOT": self.path("machine")}
        done = self.run_it(PYTHON, "-c", code, env=env)
        harmed = "" if done.status == 1 else f"status {done.status}"
        path = self.harvest("a slow disk at the end", "1.5 s", harmed)
        self.assertEqual(support.Bundle(path).verdict["class"], "page-fault")

    def test_kernel_log_that_is_opened_after_the_end(self):
        """Of a program that fails at once: what the kernel said before we listened."""
        log = self.write("machine/dev/kmsg", replay.QUIET_LOG)
        line = self.write("line", replay.PAGE_FAULT.replace("{comm}", "sh"))
        env = {**self.fault("late::400", "rocmcrash", "rocmcrash-R"),
               "ROCMCRASH_SYSROOT": self.path("machine")}
        done = self.run_it("/bin/sh", "-c", 'sed "s/{victim}/$$/" "$0" >> "$1"; exit 1', line, log, env=env)
        self.assertEqual(self.faults_met(), 1)
        harmed = "" if done.status == 1 else f"status {done.status}"
        path = self.harvest("a kernel log that is opened late", "0.4 s", harmed)
        self.assertEqual(support.Bundle(path).verdict["class"], "page-fault")

    def test_disk_that_fills_up_during_the_run(self):
        """Full for real, and only after the recorder has begun."""
        state = self.path("state")
        os.mkdir(state)
        prefix = ["unshare", "--mount", "/bin/sh", "-c",
                  f'mount -t tmpfs -o size=512k none {state} && exec "$@"', "sh"]
        if os.geteuid() != 0 or subprocess.run([*prefix, "true"], capture_output=True,
                                               check=False).returncode != 0:
            self.skipTest("no private mount can be made")
        code = ("import os, sys, time\n"
                "os.write(2, b'early\\n')\n"
                "time.sleep(0.4)\n"
                f"f = open({state!r} + '/filler', 'wb')\n"
                "try:\n"
                "    while True: f.write(b'x' * 4096); f.flush()\n"
                "except OSError: pass\n"
                "os.write(2, b'late ' * 20000)\n"
                "time.sleep(1.5)\n"
                "os.abort()")
        done = subprocess.run([*prefix, *self.command(PYTHON, "-c", code)], env=self.environ,
                              capture_output=True, check=False, timeout=60)
        harmed = "" if done.returncode == ABORTED else f"status {done.returncode}"
        path = self.harvest("a disk that fills up during the run", "tmpfs", harmed)
        text = support.Bundle(path).text("output/stderr.txt")
        self.assertEqual(text, "early\n" + "late " * 20000, "what came, once")
        self.assertEqual(os.path.dirname(path), self.outdir)


class Sources(LossCase):
    """What the machine answers: garbage, zeros, far too much, nothing, never."""

    def tree(self):
        source = os.path.join(support.RECORDED, "machines", "lact-phoenix-gfx1103")
        root = self.path("root")
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(source, root, symlinks=True)
        return root

    def files(self, root):
        found = []
        for folder, _, names in os.walk(root):
            found += [os.path.join(folder, name) for name in names
                      if not os.path.islink(os.path.join(folder, name))]
        return sorted(found)

    def run_on(self, kind, root):
        began = time.monotonic()
        done = self.run_it(losses.target(), "lines", "400", options=["--sysroot", root])
        harmed = "" if done.status == ABORTED else f"status {done.status}"
        bundle = support.Bundle(self.harvest("machine files: " + kind, kind, harmed))
        crashed = [item for item in bundle.manifest["items"] if item["status"] == "crashed"]
        self.assertEqual(crashed, [], kind)
        self.forget_bundles()
        self.assertLess(time.monotonic() - began, 20, kind)

    def test_what_files_hold(self):
        fills = {"4096 NULs": bytes(4096), "empty": b"",
                 "garbage": self.random.randbytes(5000), "huge numbers": b"9" * 4000 + b"\n",
                 "negative": b"-1\n", "no end of line": b"x" * 4095,
                 "escape sequences": b"\x1b[31m\x07" * 500}
        chosen = fills if EFFORT > 1 else {"4096 NULs", self.random.choice(list(fills))}
        for kind in sorted(chosen):
            data = fills[kind]
            root = self.tree()
            for path in self.files(root):
                with open(path, "wb") as file:
                    file.write(data)
            self.run_on(kind, root)

    def test_a_gigabyte(self):
        root = self.tree()
        for path in self.files(root):
            os.truncate(path, 1 << 30)  # sparse
        self.run_on("1 GB each", root)

    def test_gone_or_a_folder(self):
        root = self.tree()
        for path in self.files(root):
            os.unlink(path)
            if self.random.random() < 0.5:
                os.mkdir(path)
        self.run_on("gone, or a folder", root)

    @contextlib.contextmanager
    def hanging(self, paths):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and /dev/fuse")
        server = subprocess.Popen([losses.hang_file(), *paths], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        try:
            if server.stdout.readline() != b"ready\n":
                self.skipTest("no FUSE here")
            yield
        finally:
            server.stdin.close()
            server.stdout.close()
            server.wait(timeout=30)

    def test_never_returns(self):
        root = self.tree()
        with self.hanging(self.random.sample([path for path in self.files(root) if "/sys/" in path], 6)):
            self.run_on("reads that never return", root)

    def test_an_id_that_never_comes(self):
        """Redaction asks the machine for its ids: what one GPU withholds does not cost another's."""
        root = self.tree()
        other = f"{self.random.getrandbits(64) | 1 << 63:016x}"
        device = self.write("root/sys/class/drm/card7/device/unique_id", other + "\n")
        code = f"import os; os.write(2, b'of the other one: {other[:16]}, failed\\n'); os.abort()"
        with self.hanging([device.replace("card7", "card1")]):
            done = self.run_it(PYTHON, "-c", code, options=["--sysroot", root])
        harmed = "" if done.status == ABORTED else f"status {done.status}"
        bundle = support.Bundle(self.harvest("an id that never comes", "unique_id", harmed))
        self.assertIn("of the other one: ", bundle.text("output/stderr.txt"))
        self.assertEqual([name for name, data in bundle.files.items() if other.encode() in data], [])

    def test_later_than_the_verdict(self):
        """What the first verdict could not wait for is in the bundle, and in its verdict."""
        program = os.path.join(os.path.dirname(os.path.dirname(support.ROCMCRASH)), "tests", "unit",
                               "telemetry", "slow_files")
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not os.path.exists(program):
            self.skipTest("needs root, /dev/fuse and a build with tests")
        root = self.tree()
        path = next(path for path in self.files(root) if path.endswith("/device/vbios_version"))
        with subprocess.Popen([program, "150000", path], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as server:
            if server.stdout.readline() != "ready\n":
                self.skipTest("no FUSE here")
            done = self.run_it(losses.target(), "lines", "400", options=["--sysroot", root])
            server.stdin.close()
        bundle = support.Bundle(self.harvest("machine files: slow", "0.15 s", "" if done.status == ABORTED
                                             else f"status {done.status}"))
        rows = [item for item in bundle.manifest["items"] if item["name"] == "gpu"]
        self.assertEqual([row["status"] for row in rows], ["ok"], rows)
        self.assertGreater(rows[0]["ms"], 450)  # all that the first look has
        self.assertTrue([fact["value"] for facts in bundle.facts.values() for fact in facts
                         if fact["name"].endswith(".vbios") and "value" in fact])

    FDINFO = ("pos:\t0\nflags:\t02100002\nmnt_id:\t27\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\n"
              "drm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t123456 KiB\ndrm-memory-gtt:\t4096 KiB\n")

    def run_with_fdinfo(self, kind, path, milliseconds=700):
        log = self.path("fault-log")
        env = {**support.preloaded(self.environ, losses.shim()), "RC_FAULT": "fdinfo:" + path,
               "RC_FAULT_EXE": "rocmcrash", "RC_FAULT_LOG": log}
        began = time.monotonic()
        done = self.run_it(losses.target(), "lines", str(milliseconds), env=env)
        self.assertLess(time.monotonic() - began, 20, kind)
        self.assertTrue(os.path.exists(log), kind)
        path = self.harvest("fdinfo: " + kind, kind, "" if done.status == ABORTED
                            else f"status {done.status}")
        return support.Bundle(path)

    def fdinfo_of(self, kind, data, size):
        path = self.write("fdinfo", "")
        with open(path, "wb") as file:
            file.write(data)
        os.truncate(path, max(size, len(data)))
        if kind == "gone":
            os.unlink(path)
        table = self.run_with_fdinfo(kind, path).text("telemetry/telemetry.csv")
        self.assertEqual(str(123456 << 10) in table, kind == "as it should be", kind)

    def test_what_fdinfo_holds(self):
        losses.target(), losses.shim()  # compiled once, before there are threads
        self.side_by_side(Sources.fdinfo_of, [
            ("as it should be", self.FDINFO.encode(), 0), ("4096 NULs", b"", 4096), ("gone", b"", 0),
            ("garbage", self.random.randbytes(5000), 0), ("a gigabyte", b"", 1 << 30)])

    def test_fdinfo_that_never_returns(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and /dev/fuse")
        path = self.write("fdinfo", self.FDINFO)
        server = subprocess.Popen([losses.hang_file(), path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        try:
            if server.stdout.readline() != b"ready\n":
                self.skipTest("no FUSE here")
            bundle = self.run_with_fdinfo("a read that never returns", path, 3000)
            self.assertIn("replacing the sampler", bundle.text("run/events.txt"))
        finally:
            server.stdin.close()
            server.stdout.close()
            server.wait(timeout=30)

    def test_processes_that_vanish(self):
        """A storm of children that live for a moment, under the sampler's eyes."""
        code = ("import os, time\n"
                "end = time.monotonic() + 2\n"
                "while time.monotonic() < end:\n"
                "    pids = [os.fork() or os._exit(0) for _ in range(20)]\n"
                "    for pid in pids: os.waitpid(pid, 0)\n"
                "os.abort()")
        done = self.run_it(PYTHON, "-c", code)
        self.harvest("/proc entries that vanish", "storm",
                     "" if done.status == ABORTED else f"status {done.status}")

    def test_many_processes(self):
        count = int(os.environ.get("RC_LOSS_PROCESSES") or 1500)
        done = self.run_it(losses.target(), "many", str(count), timeout=300)
        made = int(done.stdout.split()[0])
        print(f"[{made} processes at once] ", end="", flush=True)
        self.assertGreater(made, min(count, 1000) // 2)
        self.harvest("thousands of processes", f"{made} processes",
                     "" if done.status == ABORTED else f"status {done.status}")


class Output(LossCase):
    KIND = "odd output"

    def test_line_without_end(self):
        with open(self.path("err"), "wb") as err:
            process = self.start(losses.target(), "longline", "100", stderr=err)
            status = process.wait(timeout=120)
        with open(self.path("err"), "rb") as err:
            seen = err.read()
        harmed = "" if status == ABORTED and seen.count(b"x", 0, 100 << 20) == 100 << 20 else \
            f"status {status}, {len(seen)} bytes"
        path = self.harvest(self.KIND, "a line of 100 MB", harmed)
        self.assertLess(len(support.Bundle(path).files["output/stderr.txt"]), 2 << 20)

    def test_as_fast_as_it_comes(self):
        """>= 0.9 of what `| cat` reaches, the best of several tries: the machine may be busy."""
        for words in (["flood", "1000"], ["flood", "50", "by lines"]):
            ratios = []
            for _ in range(8):
                plain = self.rate(["/bin/sh", "-c", '"$@" 2>&1 >&3 | cat | cat >/dev/null', "sh",
                                   losses.target(), *words])
                ours = self.rate(["/bin/sh", "-c", '"$@" 2>&1 >&3 | cat >/dev/null', "sh",
                                  *self.command(losses.target(), *words)])
                ratios.append(round(ours / plain, 2))
                if max(ratios) >= 0.9:
                    break
            print(f"[{max(ratios):.2f} of cat] ", end="", flush=True)
            Table.add("stderr as fast as it comes", harmed=max(ratios) < 0.9)
            self.assertGreaterEqual(max(ratios), 0.9, (words, ratios))

    def rate(self, argv):
        """MB/s by the writer's own clock."""
        reader, writer = os.pipe()
        subprocess.run(["/bin/sh", "-c", f'exec 3>&{writer}; exec "$@"', "sh", *argv],
                       pass_fds=[writer], check=True, env=self.environ, timeout=120)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            return float(pipe.read())

    def test_little_is_held(self):
        """A reader that pauses finds the writer stopped after one pipe more than without us."""
        def taken(argv):
            reader, writer = os.pipe()
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=writer, env=self.environ,
                                  check=True, timeout=60)
            os.close(reader)
            os.close(writer)
            return int(done.stdout.split()[0])
        plain = taken([losses.target(), "fill"])
        ours = taken(self.command(losses.target(), "fill", options=["--quiet"]))
        self.assertGreater(plain, 4096)
        print(f"[{plain} bytes without us, {ours} with] ", end="", flush=True)
        Table.add("stderr as fast as it comes", harmed=ours - plain > 65536)
        self.assertLessEqual(ours - plain, 65536)

    def test_closed_and_replaced(self):
        for what, argv in (("closed", ["close"]), ("replaced", ["replace", self.path("else")])):
            done = self.run_it(losses.target(), *argv)
            harmed = "" if (done.status, done.target_stderr) == (ABORTED, "before\n") else \
                f"{what}: status {done.status}, {done.stderr}"
            path = self.harvest(self.KIND, what, harmed)
            self.assertEqual(support.Bundle(path).text("output/stderr.txt"), "before\n")
            self.forget_bundles()
        self.assertEqual(support.read(self.path("else")), "after\n")


class Targets(LossCase):
    KIND = "unusual targets"

    def one(self, what, argv, status=ABORTED, stdout="", signo=signal.SIGABRT, options=()):
        done = self.run_it(*argv, options=options)
        harmed = "" if (done.status, done.stdout) == (status, stdout) else \
            f"{what}: status {done.status}, {done.stdout!r} {done.stderr!r}"
        bundle = support.Bundle(self.harvest(self.KIND, what, harmed))
        self.assertEqual(bundle.value("target.failed_signal") or bundle.value("target.signal"), signo)
        self.forget_bundles()
        return bundle

    def test_they_end_as_ever(self):
        exe = losses.target()
        # As root its children are traced from their fork: README.md says so.
        self.one("traces its child", [exe, "trace"], stdout="traced\n", options=["--trace=late"])
        if os.geteuid() == 0:
            self.one("changes its user", [exe, "user"], stdout="changed\n")

    def test_static(self):
        self.one("static", [losses.static_target(), "abort"])

    def test_32_bits(self):
        exe = losses.program_of_32_bits()
        plain = subprocess.run([exe], capture_output=True, check=False, preexec_fn=no_core)
        if plain.returncode != -signal.SIGSEGV:
            self.skipTest("this kernel runs no 32-bit programs")
        bundle = self.one("32 bits", [exe], status=-signal.SIGSEGV, signo=signal.SIGSEGV)
        self.assertEqual(bundle.value("target.fault_address"), "0x10")

    def test_set_uid(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        path = self.path("set-uid")
        shutil.copy(losses.target(), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o6755)
        os.chmod(self.folder, 0o755)
        self.one("set-uid", [path, "abort"])

    def test_daemon(self):
        """We end with the parent; the daemon, which dies later, is nobody's."""
        done = self.run_it(losses.target(), "daemon")
        Table.add(self.KIND, harmed=done.status != 0)
        self.assertEqual((done.status, done.stderr), (0, ""))

    def test_bad_interpreter(self):
        script = self.write("script", "#!/no/such/interpreter\n", 0o755)
        done = self.run_it(script)
        Table.add(self.KIND, harmed=done.status != 127)
        self.assertEqual((done.status, self.everywhere()), (127, []))
        self.assertEqual(len(done.own_lines), 1, done.stderr)


def no_core():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Killed(LossCase):
    """Slurm and Kubernetes: SIGTERM, and SIGKILL to every process after a while."""

    def test_within_the_grace(self):
        model = self.path("model.safetensors")
        with open(model, "wb") as file:  # long to hash, and said on the command line
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
