# SPDX-License-Identifier: Apache-2.0
"""Limits and closed streams of the caller: the target gets them unchanged, and rocmcrash works with them."""

import ctypes
import os
import resource
import shutil
import signal
import subprocess

import support
from attack_table import Attacks
from support import PYTHON, ROCMCRASH


class Limits(support.Case):
    """The target gets the caller's limits unchanged, and rocmcrash works with them."""

    # Prints whether the process adopts orphans (prctl 37), and its limits.
    CODE = ("import ctypes, resource as r;n = ctypes.c_int(-1);"
            "ctypes.CDLL(None).prctl(37, ctypes.byref(n), 0, 0, 0);print(n.value, [r.getrlimit(i) for i in (r.RLIMIT_FSIZE,r.RLIMIT_AS,"
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
                if limits[0][0] in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
                    self.skip_if_sanitized("which needs terabytes of address space")
                self.compare(limits)

    def test_address_space_of_a_program(self):
        """Python's MemoryError does not say how much was asked for."""
        self.skip_if_sanitized("which needs terabytes of address space")
        def prepare():
            resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
        done = self.run_it(PYTHON, "-c", "x = bytearray(10**10)", preexec_fn=prepare)
        verdict = self.only_bundle(done).verdict
        self.assertEqual((verdict["class"], verdict["subclass"]), ("resource-limit", "address space"), verdict)

    ABORTS = "ulimit -c 0; echo before; kill -ABRT $$"

    def aborted(self, script, limits=()):
        def prepare():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
        done = self.run_it("/bin/sh", "-c", script, preexec_fn=prepare)
        self.assertEqual((done.status, done.stdout), (-signal.SIGABRT, "before\n"), done.stderr)
        return done

    def test_a_small_stack_for_good(self):
        """The finisher makes its own stack where the limit forbids a larger one."""
        self.skip_if_sanitized("which makes stack frames larger")
        self.only_bundle(self.aborted(self.ABORTS, [(resource.RLIMIT_STACK, 64 << 10)]))

    def test_a_tiny_stack_for_good(self):
        """We need no more of it than a small program. Without randomised addresses all of it can be used."""
        self.skip_if_sanitized("which makes stack frames larger")
        plain = ctypes.CDLL(None).personality

        def prepare():
            plain(0x0040000)  # ADDR_NO_RANDOMIZE
            resource.setrlimit(resource.RLIMIT_STACK, (14 << 10, 14 << 10))
        state = {"ROCMCRASH_STATE_DIR": self.environ["ROCMCRASH_STATE_DIR"]}
        with Attacks("limits that leave us little") as attacks, attacks.one("stack of 14 KiB"):
            done = self.run_it("/bin/sh", "-c", self.ABORTS, preexec_fn=prepare, env=state)
            self.assertEqual((done.status, done.stdout), (-signal.SIGABRT, "before\n"), done.stderr)
            self.only_bundle(done)

    def test_little_data(self):
        """The program runs. If the limit is too small for the finisher, the run is kept and a line says so."""
        self.skip_if_sanitized("which needs more memory than that")
        with Attacks("limits that leave us little") as attacks:
            for limit in (1 << 20, 2 << 20):
                with attacks.one(f"data {limit}"):
                    done = self.aborted(self.ABORTS, [(resource.RLIMIT_DATA, limit)])
                    kept = [line.split("the run is kept in ", 1)[1] for line in done.stderr.splitlines()
                            if "the run is kept in " in line]
                    self.assertTrue(self.bundles() or (kept and os.path.isdir(kept[0])), done.stderr)
            for which, limit in (("NOFILE", 4), ("NOFILE", 16), ("FSIZE", 0), ("CPU", 1)):
                with attacks.one(f"{which} {limit}"):
                    self.aborted(self.ABORTS, [(getattr(resource, "RLIMIT_" + which), limit)])

    def test_an_allocation_above_the_limit_of_data(self):
        """The limit refused the memory, not the RAM. Without a limit it is not named."""
        self.skip_if_sanitized("which needs more memory than that")
        code = ("raise RuntimeError(\"[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: \"\n"
                "                   'you tried to allocate 536870912 bytes. Error code 12 (Cannot allocate memory)')")
        for limit, is_named in ((400 << 20, True), (1 << 40, False)):
            done = self.run_it(PYTHON, "-c", code,
                               preexec_fn=lambda value=limit: resource.setrlimit(resource.RLIMIT_DATA, (value, value)))
            self.assertEqual("refused by the process's data limit" in done.stderr, is_named, done.stderr)
            self.assertEqual("resource-limit, high" in done.stderr, is_named, done.stderr)

    def test_the_run_folder_is_removed(self):
        """The program removes the folder while it runs: the bundle has what was in memory."""
        state = self.environ["ROCMCRASH_STATE_DIR"]
        links = f"mkdir -p $d; for f in run.json output.1 output.head events; do ln -s {__file__} $d/$f; done; "
        for after in ("", f"touch {state}; ", links):
            script = (f"echo last words >&2; while ! ls {state}/runs/*/run.json; do sleep 0.05; done >/dev/null 2>&1; "
                      f"d=$(echo {state}/runs/*); rm -rf {state}; {after}{self.ABORTS}")
            bundle = self.only_bundle(self.aborted(script))
            self.assertEqual(bundle.text("output/stderr.txt"), "last words\n")
            os.unlink(bundle.path)
            (os.unlink if os.path.isfile(state) else shutil.rmtree)(state)

    def test_no_signal_waits_in_our_processes(self):
        """It would count among those that the user may queue (RLIMIT_SIGPENDING)."""
        state = self.environ["ROCMCRASH_STATE_DIR"]
        script = f"while ! ls {state}/runs/*/run.json >/dev/null 2>&1; do sleep 0.05; done; echo ready; read x"
        process = self.start("/bin/sh", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for name in ("tracer", "recorder", "relay", "sampler"):
            status = f"/proc/{self.helper(process.pid, name)}/status"
            support.wait_for(lambda s=status: "ShdPnd:\t0000000000000000" in support.read(s),
                             f"the {name} to take its signals")
        process.communicate(b"\n", timeout=support.PATIENCE_S)
        self.assertEqual(process.returncode, 0)

    FOLDERS = r"""
import glob, os, time
state = os.environ["ROCMCRASH_STATE_DIR"]
while not glob.glob(state + "/runs/*/run.json"):
    time.sleep(0.05)
for path in glob.glob(state + "/runs/*/*"):
    if os.path.isfile(path):
        os.unlink(path)
        os.makedirs(path + "/deep")
os.write(2, b"last words\n")
os.abort()
"""

    def test_folders_in_the_place_of_files(self):
        """The program replaces each file of the run by a folder."""
        bundle = self.only_bundle(self.run_it(PYTHON, "-c", self.FOLDERS))
        self.assertEqual(bundle.text("output/stderr.txt"), "last words\n")
        runs = self.path("state", "runs", "20260101T000000Z-1")
        for name in ("run.json", "state", "kmsg"):
            os.makedirs(os.path.join(runs, name, "deep"))
        self.write("state/runs/20260101T000000Z-1/output.1", "HIP out of memory\n", 0o600)
        os.chmod(runs, 0o700)
        self.assertEqual(self.verb("recover").returncode, 0)
        self.assertEqual(os.listdir(self.path("state", "runs")), [])

    OVERWRITES = r"""
import glob, os, sys
ours = [os.getppid()]
ours += [int(line.split()[1]) for line in open(f"/proc/{ours[0]}/status") if line.startswith("PPid")]
for path in (path for pid in ours for path in glob.glob(f"/proc/{pid}/fd/*")):
    if os.readlink(path).startswith("/memfd:rocmcrash ("):
        fd = os.open(path, os.O_RDWR)
        size = os.fstat(fd).st_size
        for at in range(0, size, 4096):
            os.pwrite(fd, bytes([int(sys.argv[1])]) * min(4096, size - at), at)
        break
os.abort()
"""

    def test_the_shared_memory_is_overwritten(self):
        """No bundle, and the user is told so. The status stays."""
        for byte in ("0", "255", "77"):
            done = self.run_it(PYTHON, "-c", self.OVERWRITES, byte)
            self.assertEqual(done.status, -signal.SIGABRT, done.stderr)
            self.assertIn("overwrote the memory that it shares with rocmcrash", done.stderr)

    # Its state, pid, status and the error of exec stand behind each other (struct shared).
    SAYS_THAT_IT_ENDED = r"""
import glob, os, struct, sys, time
ours = [os.getppid()]
ours += [int(line.split()[1]) for line in open(f"/proc/{ours[0]}/status") if line.startswith("PPid")]
path = next(path for pid in ours for path in glob.glob(f"/proc/{pid}/fd/*")
            if os.readlink(path).startswith("/memfd:rocmcrash ("))
fd = os.open(path, os.O_RDWR)
at = os.pread(fd, 1 << 18, 0).index(struct.pack("<Ii", 1, os.getpid()))
if sys.argv[1] == "state":
    os.pwrite(fd, struct.pack("<I", 2), at)
    end = time.monotonic() + 10
    while os.pread(fd, 4, at) != struct.pack("<I", 1) and time.monotonic() < end:
        time.sleep(0.01)
else:
    os.pwrite(fd, struct.pack("<i", 2), at + 12)
os.abort()
"""

    def test_the_program_says_that_it_has_ended(self):
        """Or that it never began. It is believed in neither."""
        for what in ("state", "exec"):
            done = self.run_it(PYTHON, "-c", self.SAYS_THAT_IT_ENDED, what)
            self.assertEqual(done.status, -signal.SIGABRT, done.stderr)
            self.assertIn("overwrote the memory that it shares with rocmcrash", done.stderr)
            self.assertEqual(done.bundles, [])

    def test_many_unfinished_runs(self):
        """They are not mentioned after a success. Each run removes some of the oldest. recover says how many remain."""
        runs = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "runs")
        os.makedirs(runs, mode=0o700)
        for i in range(320):
            folder = os.path.join(runs, f"20200101T{i // 60:02}{i % 60:02}00Z-1")
            os.mkdir(folder, mode=0o700)
            for name in ("state", "events"):
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write("running\n" if name == "state" else "1 x y\n")
        # Without a lock (a file system without flock(2)) it is unknown whether the run has ended.
        unknown = os.path.join(runs, "20200101T000100Z-1")
        os.unlink(os.path.join(unknown, "state"))
        os.mkdir(os.path.join(unknown, "state"))
        os.makedirs(os.path.join(unknown, "state.folder", "deep"))  # so that the folder cannot be put aside
        self.assertEqual(self.run_it("/bin/sh", "-c", "sleep 0.5").stderr, "")
        self.assertEqual(len(os.listdir(runs)), 221)
        self.assertTrue(os.path.exists(os.path.join(unknown, "events")))
        self.assertFalse(os.path.exists(os.path.join(runs, "20200101T000000Z-1")), "the oldest go first")
        done = self.aborted("sleep 0.5; " + self.ABORTS)
        self.assertRegex(done.stderr, r"rocmcrash: 200 earlier runs left no bundle")
        done = self.verb("recover", timeout=300)  # 200 bundles
        self.assertRegex(done.stdout[-80:], "rocmcrash: 168 more unfinished runs remain")

    def test_limits_of_an_ordinary_user(self):
        support.need_ordinary_user(self)
        user = 60123  # a user without other processes, so that RLIMIT_NPROC counts ours alone
        for limits in ([(resource.RLIMIT_FSIZE, 4096)], [(resource.RLIMIT_NPROC, 1)],
                       [(resource.RLIMIT_NPROC, 2)], [(resource.RLIMIT_NPROC, 3)],
                       [(resource.RLIMIT_NPROC, 4)], [(resource.RLIMIT_NPROC, 5)]):
            with self.subTest(limits=limits):
                self.compare(limits, user)

    def test_relay_that_cannot_be_forked_is_none(self):
        """Then stderr goes directly to the caller, whatever is written."""
        support.need_ordinary_user(self)

        def prepare():
            resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
            os.setgroups([])
            os.setgid(60124)
            os.setuid(60124)
        done = subprocess.run([ROCMCRASH, "--", PYTHON, "-c",
                               "import sys; sys.stderr.write('x'*300000)"], preexec_fn=prepare,
                              capture_output=True, check=False, timeout=60, env=self.environ)
        self.assertEqual(done.returncode, 0, done.stderr[:200])
        self.assertIn(b"x" * 300000, done.stderr)

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
