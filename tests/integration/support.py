# SPDX-License-Identifier: Apache-2.0
"""Shared by the integration tests: running rocmcrash in a folder of its own, reading its bundle,
finding its helper processes, and waiting for a condition without a fixed sleep."""

import functools
import glob
import hashlib
import io
import json
import os
import pty
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import cases  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus"))
import fact_types  # noqa: E402

ROCMCRASH = os.environ.get("ROCMCRASH", "")
SOURCE = os.environ.get("ROCMCRASH_SOURCE", "")
SHARED = os.path.join(SOURCE, "..", "shared")
RECORDED = os.path.join(os.path.dirname(os.path.dirname(ROCMCRASH)), "recorded")  # tests/CMakeLists.txt
PYTHON = sys.executable
POLL_S = 0.005
# A longer wait is a hang: on a busy machine a minute may pass instead of two seconds. ctest waits 600 s.
PATIENCE_S = 200
os.umask(0o022)  # another user must be able to read what a test makes for him, whatever the caller's umask is
HIP_OOM = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
           "capacity of 15.98 GiB of which 4.00 MiB is free. Of the allocated memory 15.20 GiB is "
           "allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n")

# Begins a program that handles signals: wait() returns after one, or when one of the files can be read. A read() or signal.pause()
# that begins just after a signal came does not: Python runs the handler only when the next signal ends it.
WAKES = ("import os, select, signal\n"
         "woken, wake = os.pipe(); os.set_blocking(wake, False); signal.set_wakeup_fd(wake)\n"
         "def wait(*files):\n"
         "    ready = select.select([woken, *files], [], [])[0]\n"
         "    if woken in ready: os.read(woken, 100)\n"
         "    return woken not in ready\n")

# The shared memory's helpers name themselves (launch/helpers.c).
HELPERS = {"tracer": "rocmcrash-T", "sampler": "rocmcrash-M", "relay": "rocmcrash-O",
           "recorder": "rocmcrash-R"}
SECOND_RELAY = {"stdout relay": "rocmcrash-O1"}  # with --follow=all only


@functools.lru_cache(maxsize=None)
def is_sanitized():
    with open(ROCMCRASH, "rb") as file:
        return b"__asan_report_" in file.read()


def preloaded(environ, library):
    """The environment that preloads the library into our programs, and after it the sanitizer's."""
    env = {**environ, "LD_PRELOAD": library, "ROCMCRASH_LOADER": "keep"}
    if is_sanitized():
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return env


def cpu_seconds_of(work):
    """CPU seconds of the children that work() waited for. Other work on the machine does not change them."""
    def now():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = now()
    work()
    return now() - before


def wait_for(condition, what, timeout_s=PATIENCE_S):
    """Polls until condition() is true. Fails with `what` after the time limit."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("timed out waiting for " + what)
        time.sleep(POLL_S)  # the polling interval; the condition decides


def stalled_s():
    """Seconds in which a process of this machine waited for a CPU; 0 if the kernel does not report it.
    Real line: "some avg10=0.00 avg60=0.15 avg300=0.30 total=9083372192"."""
    line = read("/proc/pressure/cpu").split("\n")[0]
    return int(line.rpartition("total=")[2]) / 1e6 if "total=" in line else 0.0


class Stopwatch:
    """Measures the time in which the program could run, without the time in which other work had the CPU."""

    def __init__(self):
        self.start, self.stalled = time.monotonic(), stalled_s()

    def seconds(self):
        return time.monotonic() - self.start - (stalled_s() - self.stalled)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_terminal(master):
    """The next bytes; empty when the last program has closed the terminal."""
    try:
        return os.read(master, 65536)
    except OSError:  # EIO
        return b""


def comm(pid):
    return read(f"/proc/{pid}/comm").strip()


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        found += [int(word) for word in read(path).split()]
    return found


def state(pid):
    """One letter of /proc/PID/stat; '' when the process is gone."""
    text = read(f"/proc/{pid}/stat")
    return text.rsplit(")", 1)[1].split()[0] if ")" in text else ""


def switches(pid):
    """The number of its voluntary context switches."""
    status = read(f"/proc/{pid}/status")
    return int(status.split("\nvoluntary_ctxt_switches:\t")[1].split()[0])


def is_running(pid):
    return state(pid) not in ("", "Z", "X")


NOBODY = 65534


def need_ordinary_user(test):
    """Skips the test unless root can become an ordinary user who reaches the programs and the test's folder. He does
    not reach what lies below root's home."""
    if os.geteuid() != 0:
        test.skipTest("needs root to become another user")
    for path in (ROCMCRASH, SOURCE, PYTHON, tempfile.gettempdir()):
        if subprocess.run(["test", "-r", path], user=NOBODY, group=NOBODY, extra_groups=[], check=False).returncode != 0:
            test.skipTest(f"an ordinary user cannot reach {path}: for this test the checkout must lie elsewhere")


def need_visible_processes(test):
    """An ordinary user sees processes of others, unless /proc is mounted with hidepid."""
    need_ordinary_user(test)
    if subprocess.run(["test", "-e", f"/proc/{os.getpid()}"], user=NOBODY, group=NOBODY, extra_groups=[], check=False).returncode != 0:
        test.skipTest("/proc hides the processes of others here")


def need_unshare(test, *options):
    """Skips the test unless it may make namespaces: it needs to be root, and its root folder must be a mount point (a
    plain chroot's is not)."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        test.skipTest("needs root and unshare")
    done = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        test.skipTest(done.stderr.strip() or "unshare is not allowed here")


def with_dead_folder(test, folder, *argv):
    """The command, run where the folder is on a file system that never answers."""
    words = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--mount", PYTHON, "-B",
             os.path.join(os.path.dirname(os.path.abspath(__file__)), "dead_file_system.py"), folder]
    done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        test.skipTest("no file system by FUSE here: " + (done.stderr.strip().splitlines() or [""])[-1])
    return [*words, *argv]


def verbs():
    """The verbs, from the program's own table."""
    text = subprocess.run([ROCMCRASH, "--help"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in text.split("\nVerbs:\n")[1].split("\n\n")[0].splitlines()]


REGULAR, LINK, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE


def archive(*entries):
    """Bytes of a .tar.gz: (name, kind, contents)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, data in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            member.size = len(data) if kind == REGULAR else 0
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Bundle:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[: -len(".tar.gz")]
        with tarfile.open(path) as tar:
            self.files = {member.name.split("/", 1)[1]: tar.extractfile(member).read()
                          for member in tar.getmembers() if member.isfile()}
        self.manifest = json.loads(self.files["manifest.json"])
        self.verdict = json.loads(self.files["verdict.json"])
        self.facts = {}
        for fact in json.loads(self.files["facts.json"])["facts"]:
            self.facts.setdefault(fact["name"], []).append(fact)

    def wrong_facts(self):
        """Facts that are not registered, or have another type than registered (tests/corpus/fact_types.py)."""
        lint, known = fact_types.registry()
        return list(fact_types.wrong_facts(json.loads(self.files["facts.json"])["facts"], lint, known))

    def fact(self, name, when=None):
        """The fact as a dict, of the moment `when` or the first one; {} if it is unknown."""
        for fact in self.facts.get(name, []):
            if when is None or fact.get("when") == when:
                return fact
        return {}

    def value(self, name, when=None):
        return self.fact(name, when).get("value")

    def row(self, name):
        return next((item for item in self.manifest["items"] if item["name"] == name), {})

    def text(self, name):
        return self.files[name].decode("utf-8", "replace")


class Finished:
    def __init__(self, process, stdout, stderr, bundles, outdir):
        self.status = process.returncode
        self.stdout, self.stderr = stdout, stderr
        self.bundles, self.outdir = bundles, outdir

    @property
    def own_lines(self):
        return [line for line in self.stderr.splitlines() if line.startswith("rocmcrash: ")]

    @property
    def target_stderr(self):
        return "".join(line for line in self.stderr.splitlines(True)
                       if not line.startswith("rocmcrash: "))


class Case(unittest.TestCase):
    """A test with its own folder. It writes nothing outside."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rc-test-")
        self.addCleanup(self.remove_folder)
        self.outdir = os.path.join(self.folder, "out")
        os.mkdir(self.outdir)
        # A developer's own settings (ROCMCRASH_QUIET) must not reach a test.
        self.environ = {name: value for name, value in os.environ.items()
                        if not name.startswith("ROCMCRASH_") or name in ("ROCMCRASH_SOURCE", "ROCMCRASH_TEMPLATES")}
        self.environ["ROCMCRASH_STATE_DIR"] = os.path.join(self.folder, "state")
        self.environ["XDG_CACHE_HOME"] = os.path.join(self.folder, "cache")
        self.environ["XDG_CONFIG_HOME"] = os.path.join(self.folder, "config")

    def remove_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def command(self, *argv, options=()):
        """With --bundle-on=error, because these tests use a plain exception for any failure; test_bundle_policy.py
        tests the default."""
        return [ROCMCRASH, "--output-dir", self.outdir, "--bundle-on=error", *options, "--", *argv]

    def start(self, *argv, options=(), **kwargs):
        kwargs.setdefault("env", self.environ)
        return subprocess.Popen(self.command(*argv, options=options), **kwargs)

    @staticmethod
    def is_busy():
        return os.getloadavg()[0] > 2 * os.cpu_count()

    def not_in_time(self, what):
        """Times mean nothing where other programs want more CPUs than there are."""
        if self.is_busy():
            self.skipTest(f"a busy machine, load {os.getloadavg()[0]:.1f}: {what}")
        self.fail(what)

    def skip_if_sanitized(self, why):
        if is_sanitized():
            self.skipTest("our programs carry a sanitizer, " + why)

    def run_it(self, *argv, options=(), stdin=None, timeout=PATIENCE_S, **kwargs):
        process = self.start(*argv, options=options, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        out, err = process.communicate(stdin, timeout=timeout)
        return self.finished(process, out, err)

    def finished(self, process, out=b"", err=b""):
        return Finished(process, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"),
                        self.bundles(), self.outdir)

    def python(self, code, *arguments, **kwargs):
        return self.run_it(PYTHON, "-c", code, *arguments, **kwargs)

    def bundles(self):
        return [Bundle(path) for path in sorted(glob.glob(os.path.join(self.outdir, "*.tar.gz")))]

    def only_bundle(self, finished):
        self.assertEqual(len(finished.bundles), 1, finished.stderr)
        return finished.bundles[0]

    def changed_bundle(self, bundle, change):
        """A copy of the bundle with change(name, bytes) -> bytes applied to every file. Its hashes are right."""
        path = self.path("changed.tar.gz")
        unpacked = self.path("unpacked")
        with tarfile.open(bundle.path) as tar:
            tar.extractall(unpacked, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(unpacked)
        top = os.path.join(unpacked, bundle.name)
        with open(os.path.join(top, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        for folder, _, names in os.walk(top):
            for name in names:
                full = os.path.join(folder, name)
                with open(full, "rb") as file:
                    new = change(os.path.relpath(full, top), file.read())
                with open(full, "wb") as file:
                    file.write(new)
                for row in manifest["files"]:
                    if row["path"] == os.path.relpath(full, top):
                        row.update(bytes=len(new), sha256=hashlib.sha256(new).hexdigest())
        with open(os.path.join(top, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        with tarfile.open(path, "w:gz") as tar:
            tar.add(top, arcname=bundle.name)
        return path

    def helper(self, supervisor_pid, name):
        """Pid of a helper, once it has named itself."""
        def find():
            return next((pid for pid in children(supervisor_pid) if comm(pid) == {**HELPERS, **SECOND_RELAY}[name]), 0)
        return wait_for(find, f"the {name} of {supervisor_pid}")

    def target_pid(self, supervisor_pid):
        tracer = self.helper(supervisor_pid, "tracer")
        return wait_for(lambda: next(iter(children(tracer)), 0), "the target")

    def wait_for_file(self, path):
        return wait_for(lambda: os.path.exists(path), path)

    def shell(self):
        """/bin/sh under a name that no launcher has: an ordinary user's shell is not observed."""
        path = self.path("job-shell")
        if not os.path.lexists(path):
            os.symlink("/bin/sh", path)
        return path

    def verb(self, *argv, timeout=PATIENCE_S, **kwargs):
        return subprocess.run([ROCMCRASH, *argv], capture_output=True, text=True, timeout=timeout,
                              env=self.environ, check=False, **kwargs)

    def stages(self):
        """The folders into which verbs unpack bundles, also those of tests that run at the same time."""
        return set(glob.glob("/tmp/rocmcrash-stage-*"))

    def assert_no_stage_left(self, before):
        """Folders of other tests disappear when those tests end. A folder that we forgot stays."""
        wait_for(lambda: not (self.stages() - before), "the last rocmcrash-stage in /tmp to go")

    def on_terminal(self, argv, environ, columns=80, rows=24, raw=False, keys=b"", **kwargs):
        """Runs the program on a terminal on which `keys` are typed. Returns its exit status and its output."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        termios.tcsetwinsize(slave, (rows, columns))
        if raw:
            modes = termios.tcgetattr(slave)
            modes[1] &= ~termios.OPOST
            termios.tcsetattr(slave, termios.TCSANOW, modes)
        process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environ, **kwargs)
        os.close(slave)
        os.write(master, keys)
        seen = b"".join(iter(lambda: read_terminal(master), b""))
        return process.wait(timeout=PATIENCE_S), seen.decode()

    def tar_member(self, path, name):
        with tarfile.open(path) as tar:
            top = tar.getnames()[0].split("/")[0]
            return io.BytesIO(tar.extractfile(f"{top}/{name}").read())


class BundleCase(Case):
    """One real bundle for all tests of the class. Each test uses it in place or copies it."""

    program = f"import sys, time; time.sleep(1.2); sys.stderr.write({HIP_OOM!r}); sys.exit(1)"

    @classmethod
    def setUpClass(cls):
        maker = cls("make_bundle")
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        cls.maker = maker
        cls.done = maker.python(cls.program)
        cls.bundle = maker.only_bundle(cls.done)

    def make_bundle(self):
        """The name of the instance that makes the bundle; this is no test."""


main = cases.main
