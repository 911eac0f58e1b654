# SPDX-License-Identifier: Apache-2.0
"""System calls and allocations of the finisher and of the helpers fail, are cut short, or meet a full disk.
test_loss.py explains the table and the seed."""

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
import replay
import support
from support import PYTHON, ROCMCRASH

EFFORT = int(os.environ.get("RC_LOSS_EFFORT") or 1)
ABORTED = -signal.SIGABRT


class FinisherFails(losses.Shimmed):
    """Faults in the finisher, on copies of one run directory."""

    def setUp(self):
        super().setUp()
        self.kept = self.path("kept")  # also shows which files of the shared folders are ours
        shutil.copytree(self.kept_run(losses.target(), "lines", "1500"), self.kept)

    def finish(self, kind, fault, elsewhere=False):
        """With the fault there must be a valid bundle or a message on stderr; then, without the fault, a valid bundle.
        `elsewhere`: some place for the bundle works."""
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

    def test_no_process_for_a_rank(self):
        """No collector says which rank it is. The lines that PyTorch marks as another rank's are left out all the same."""
        lines = ["[rank1]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which "
                 "1.00 GiB is free.\n",
                 "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3977\n"]
        self.environ.update({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"})
        done = self.run_it(PYTHON, "-c", f"import sys; sys.stderr.writelines({lines!r}); sys.exit(1)", env=self.fault("forks:0", "rocmcrash-finish"))
        self.assertGreater(self.faults_met(), 0)
        path = self.harvest("no processes for the finisher of a rank", "forks:0", "" if done.status == 1 else f"status {done.status}")
        bundle = support.Bundle(path)
        self.assertEqual((bundle.value("job.rank"), bundle.verdict["class"]), (0, "collective"))

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
        """Our bundles in the folder that is used when no other one works."""
        with open(os.path.join(self.kept, "run.json"), encoding="utf-8") as file:
            second = int(json.load(file)["start_wall_ns"]) // 1000000000
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        return [path for folder in ("/tmp", "/dev/shm") for path in
                glob.glob(f"{folder}/rocmcrash-{os.geteuid()}/rocmcrash-{stamp}-target-*.tar.gz")]

    def everywhere(self):
        return super().everywhere() + (self.shared_bundles() if os.path.isdir(self.kept) else [])


class HelpersFail(losses.Shimmed):
    """The same faults in the processes beside a living target, which must not notice them."""

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
        # Without a tracer or shared memory nothing can be recorded; a line says so.
        unobserved = b"running without observation" in err
        self.harvest(kind, f"{fault} {comm}", done, may_be_nothing=unobserved)

    def finished_text(self, process, out, err):
        """The defects of the target's output and status; '' = none."""
        if process.returncode != ABORTED:
            return f"status {process.returncode}: {err[-300:]}"
        said = re.search(rb"wrote (\d+)", out)
        # Our message begins on a new line: if the output ends within a line, an empty line appears.
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
        """The bundle has all output of the target in its order. Output to a file does not pass through us."""
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
        """The program fails without a message while the recorder waits for the disk: the supervisor waits for the
        recorder."""
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
        """A program fails at once: its bundle has the kernel lines from before we opened the log."""
        log = self.write("machine/dev/kmsg", replay.QUIET_LOG)
        line = self.write("line", replay.PAGE_FAULT.replace("{comm}", "sh"))
        env = {**self.fault("late::1200", "rocmcrash", "rocmcrash-R"),
               "ROCMCRASH_SYSROOT": self.path("machine")}
        done = self.run_it("/bin/sh", "-c", 'sed "s/{victim}/$$/" "$0" >> "$1"; exit 1', line, log, env=env)
        self.assertEqual(self.faults_met(), 1)
        harmed = "" if done.status == 1 else f"status {done.status}"
        path = self.harvest("a kernel log that is opened late", "1.2 s", harmed)
        self.assertEqual(support.Bundle(path).verdict["class"], "page-fault")

    def test_disk_that_fills_up_during_the_run(self):
        """The disk is really full, but only after the recorder has begun."""
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


if __name__ == "__main__":
    losses.main()
