#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's test-suites with and without rocmcrash: does any test end in another way?

    ROCMCRASH=build/dev/bin/rocmcrash tests/long/suites.py [--only python,bash,...] [--nobody] [--table FILE]

Each suite runs twice bare (what differs there is unstable and not compared), then under
`rocmcrash --inject=none` and under `rocmcrash` as it is (--variants late: with --trace=late). A test
that ends in another way is run again, alone, three times each way: only what always differs then is a
difference. Ends with 1 when there is one that README.md does not tell of.

Needs, and skips with a word what is not there: libpythonX.Y-testsuite, gcc, stress-ng, busybox, strace,
gdb, perl; the sources of bash, busybox and coreutils (--sources DIR with their .orig.tar files, else `apt-get source`
from the mirror that the machine uses, in a folder of this script's own).
"""

import argparse
import collections
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROCMCRASH = os.environ.get("ROCMCRASH", "")
PYTHON = "/usr/bin/python3"
VARIANTS = {"bare": None, "again": None, "plain": ["--inject=none"], "inject": []}
# Differences that README.md tells of: (suite, test) and what it says.
TOLD = {("debuggers", "PTRACE_TRACEME of a child"):
        "as root a child that calls ptrace(2) itself needs --trace=late"}
CONFIRM = 3
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

PYTHON_MODULES = ("test_signal test_subprocess test_pty test_threading test_posix test_os "
                  "test_faulthandler test_wait4 test_asyncio").split()
STRESSORS = ("affinity chdir clone close daemon dnotify dup epoll eventfd exec exit-group fifo fork "
             "futex getrandom hrtimers itimer kill mmapfork msg nice open personality pidfd pipe "
             "pkey poll prctl procfs pthread ptrace resched rlimit schedpolicy seccomp sem session "
             "shm sigabrt sigchld sigfd sigfpe sigio signal signest sigpending sigpipe sigq sigrt "
             "sigsegv sigsuspend sigtrap sleep sock splice switch tee timer timerfd vfork vm-splice "
             "wait yield zombie").split()
CRASHER = "int main(int argc, char **argv) { volatile int *p = 0; (void)argv; return argc > 1 ? 3 : *p; }\n"


class Skip(Exception):
    pass


class Runner:
    """Runs a command bare or under rocmcrash, in a folder of its own."""

    def __init__(self, top, nobody):
        self.top, self.nobody = top, nobody
        self.bundles = collections.Counter()

    def folder(self, name):
        path = os.path.join(self.top, name)
        os.makedirs(path, exist_ok=True)
        if self.nobody:
            os.chown(path, 65534, 65534)
        return path

    def prefix(self, variant):
        before = NOBODY if self.nobody else []
        if VARIANTS[variant] is None:
            return list(before)
        return [*before, ROCMCRASH, "--quiet", f"--output-dir={self.folder('out-' + variant)}",
                "--hash-budget=0s", *VARIANTS[variant], "--"]

    def run(self, variant, command, cwd, environ=None, timeout=900):
        """(status, output, seconds); everything of the run's session is ended at the timeout."""
        env = dict(os.environ, LC_ALL="C", TMPDIR=self.folder("tmp"),
                   ROCMCRASH_STATE_DIR=self.folder("state"), XDG_CACHE_HOME=self.folder("cache"),
                   HOME=self.folder("home"))
        env.update(environ or {})
        start = time.monotonic()
        with subprocess.Popen(self.prefix(variant) + command, cwd=cwd, env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                output += b"\n(ended by the timeout)\n"
        if VARIANTS[variant] is not None:
            made = glob.glob(os.path.join(self.folder("out-" + variant), "*.tar.gz"))
            self.bundles[variant] += len(made)
            for path in made:
                os.unlink(path)
        return process.returncode, output.decode("utf-8", "replace"), time.monotonic() - start


# --- the suites: each gives {test: result} for a variant, and can run some tests alone ---

class Suite:
    def __init__(self, runner):
        self.runner = runner
        self.seconds = collections.Counter()

    def timed(self, variant, *arguments, **keywords):
        done = self.runner.run(variant, *arguments, **keywords)
        self.seconds[variant] += done[2]
        return done

    def alone(self, variant, test):
        """The result of one test."""
        return self.results(variant, [test]).get(test, "missing")


class Python(Suite):
    """CPython's tests, by their JUnit report."""

    def __init__(self, runner):
        super().__init__(runner)
        if subprocess.run([PYTHON, "-c", "import test.test_signal"], check=False,
                          capture_output=True).returncode:
            raise Skip("no libpythonX.Y-testsuite")

    def module(self, variant, module, matches=()):
        work = self.runner.folder("python")
        report = os.path.join(work, "report.xml")
        if os.path.exists(report):
            os.unlink(report)
        options = [word for match in matches for word in ("-m", match)]
        status, output, _ = self.timed(
            variant, [PYTHON, "-m", "test", "--timeout=240", f"--junit-xml={report}", *options, module],
            cwd=work)
        results = {f"{module} (whole)": str(status) if not matches else "-"}
        if not os.path.exists(report):
            results[f"{module} (whole)"] = f"{status}, no report: {output[-200:]}"
            return results
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            name = case.get("name")
            while name in results:
                name += "+"
            results[name] = kinds[0] if kinds else "ok"
        return results

    def results(self, variant, tests=None):
        found = {}
        for module in PYTHON_MODULES:
            own = [t for t in tests or [] if f".{module}." in f".{t}"]
            if tests is not None and not own:
                continue
            matches = [t.rstrip("+") for t in own if "(whole)" not in t]
            found.update(self.module(variant, module, matches))
        return found


def sources_of(runner, package, pattern, given):
    """The unpacked upstream source of a Debian package."""
    folder = given or runner.folder("sources")
    if not glob.glob(os.path.join(folder, pattern)):
        if given or shutil.which("apt-get") is None:
            raise Skip(f"no {pattern} in {folder}")
        lists = glob.glob("/etc/apt/sources.list.d/*.sources") + ["/etc/apt/sources.list"]
        text = "".join(open(p, encoding="utf-8").read() for p in lists if os.path.exists(p))
        uri = re.search(r"(?m)^URIs:\s*(\S+)|^deb (?:\[[^]]*\] )?(\S+)", text)
        suite = re.search(r"(?m)^Suites:\s*(\S+)|^deb (?:\[[^]]*\] )?\S+ (\S+)", text)
        key = re.search(r"(?m)^Signed-By:\s*(\S+)", text)
        if not uri or not suite:
            raise Skip("the machine's package sources are not understood")
        signed = f"[signed-by={key.group(1)}] " if key else ""
        own = os.path.join(folder, "sources.list")
        with open(own, "w", encoding="utf-8") as file:
            file.write(f"deb-src {signed}{uri.group(1) or uri.group(2)} "
                       f"{suite.group(1) or suite.group(2)} main\n")
        os.makedirs(os.path.join(folder, "lists/partial"), exist_ok=True)
        options = ["-q", "-o", f"Dir::Etc::SourceList={own}", "-o", "Dir::Etc::SourceParts=/dev/null",
                   "-o", f"Dir::State::Lists={folder}/lists"]
        for verb in (["update"], ["source", "--download-only", package]):
            done = subprocess.run(["apt-get", *options, *verb], cwd=folder, check=False,
                                  capture_output=True, text=True)
            if done.returncode:
                raise Skip(f"apt-get {verb[0]}: {done.stderr.strip().splitlines()[-1:]}")
    target = runner.folder("src-" + package)
    for archive in sorted(glob.glob(os.path.join(folder, pattern))):
        strip = [] if ".debian.tar" in archive else ["--strip-components=1"]
        subprocess.run(["tar", "xf", archive, "-C", target, *strip], check=True)
    inner = glob.glob(os.path.join(target, f"{package}-*.tar*"))
    if inner:
        subprocess.run(["tar", "xf", inner[0], "-C", target, "--strip-components=1"], check=True)
    return target


# Parts of a test's output that differ from run to run.
NOISE = [(re.compile(r"\b\d{3,}\b"), "#"), (re.compile(r"0x[0-9a-f]+"), "0x#"),
         (re.compile(r"(bashtst|sh-np|bash|tmp)[-.]?\w+"), r"\1#"), (re.compile(r"\d+\.\d+s?"), "#.#")]


def normal(text):
    for pattern, replacement in NOISE:
        text = pattern.sub(replacement, text)
    return text


class Bash(Suite):
    """Bash's own tests against the installed bash: a run-* script prints what differs from what is
    expected, so its output and status are its result."""

    def __init__(self, runner, given=None):
        super().__init__(runner)
        if shutil.which("gcc") is None:
            raise Skip("no gcc")
        self.top = sources_of(runner, "bash", "bash_*.orig.tar*", given)
        self.tests = os.path.join(self.top, "tests")
        for helper in ("recho", "zecho", "printenv", "xcase"):
            source = os.path.join(self.top, "support", helper + ".c")
            if os.path.exists(source):
                subprocess.run(["gcc", "-w", "-DHAVE_STDLIB_H", "-DHAVE_STRING_H", "-DHAVE_UNISTD_H",
                                f"-I{self.top}", f"-I{self.top}/include", "-o",
                                os.path.join(self.tests, helper), source], check=False,
                               capture_output=True)
        self.names = sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.tests, "run-*")))
        self.names = [n for n in self.names if n not in ("run-all", "run-minimal", "run-gprof")]

    def results(self, variant, tests=None):
        """All in one shell, as `make tests` has them."""
        loop = ('for x in "$@"; do echo "== $x"; BASH_TSTOUT=$TMPDIR/out sh ./$x; '
                'echo "-- $x: $?"; done')
        environ = {"THIS_SH": "/bin/bash", "BUILD_DIR": self.top,
                   "PATH": f".:{os.environ['PATH']}"}
        _, output, _ = self.timed(variant, ["/bin/sh", "-c", loop, "sh", *(tests or self.names)],
                                  cwd=self.tests, environ=environ)
        found = {}
        for name, text, status in re.findall(r"(?ms)^== (\S+)\n(.*?)^-- \1: (\d+)$", output):
            found[name] = f"{status} {normal(text)}"
        for name in tests or self.names:
            found.setdefault(name, "missing")
        return found


class Busybox(Suite):
    """Busybox's tests against the installed busybox."""

    def __init__(self, runner, given=None):
        super().__init__(runner)
        busybox = shutil.which("busybox")
        if busybox is None:
            raise Skip("no busybox")
        self.top = sources_of(runner, "busybox", "busybox_*.tar*", given)
        self.bin = runner.folder("busybox-bin")
        shutil.copy(busybox, os.path.join(self.bin, "busybox"))
        configs = glob.glob(os.path.join(self.top, "debian/config/pkg/deb"))
        if not configs:
            raise Skip("no configuration of the package")
        shutil.copy(configs[0], os.path.join(self.bin, ".config"))
        self.tests = os.path.join(self.top, "testsuite")
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        there = {os.path.basename(p).removesuffix(".tests")
                 for p in glob.glob(os.path.join(self.tests, "*")) if not p.endswith((".sh", ".c"))}
        # bc's are minutes of arithmetic in one process.
        self.applets = sorted(there & set(listed.stdout.split()) - {"bc"})

    def results(self, variant, tests=None):
        """All applets in one shell; a test is "applet: name #n"."""
        applets = sorted({t.split(": ")[0] for t in tests}) if tests else self.applets
        loop = 'for a in "$@"; do echo "== $a"; ./runtest $a; done'
        _, output, _ = self.timed(variant, ["/bin/sh", "-c", loop, "sh", *applets], cwd=self.tests,
                                  environ={"bindir": self.bin, "tsdir": self.tests})
        found, seen, applet = {}, collections.Counter(), ""
        for line in output.splitlines():
            if line.startswith("== "):
                applet = line[3:]
            hit = re.fullmatch(r"(PASS|FAIL|SKIPPED|UNTESTED): (.*)", line)
            if hit:
                name = f"{applet}: {hit.group(2)}"
                seen[name] += 1
                found[f"{name} #{seen[name]}"] = hit.group(1)
        return found


# tests/init.sh needs the build's config.h, and its program that prints limits. These stand in for them.
COREUTILS_CONFIG = "".join(f"#define {name} 1\n" for name in (
    "HAVE_INOTIFY HAVE_UTIMENSAT HAVE_LUTIMES HAVE_LINKAT HAVE_PTHREAD_T USE_ACL USE_XATTR").split())
COREUTILS_INTEGERS = {"CHAR": 8, "SCHAR": 8, "SHRT": 16, "INT": 32, "LONG": 64, "SSIZE": 64, "TIME_T": 64,
                      "PID_T": 32, "OFF_T": 64, "INTMAX": 64, "-UCHAR": 8, "-USHRT": 16, "-UINT": 32,
                      "-ULONG": 64, "-SIZE": 64, "-UID_T": 32, "-GID_T": 32, "-UINTMAX": 64}
# Not for root: they mount, or try to remove /. They are skipped by themselves for others.
COREUTILS_NEVER = {"tests/rm/r-root.sh"}


class Coreutils(Suite):
    """Coreutils' tests against the installed coreutils; a test's exit status is its result."""

    SECONDS_EACH = 60

    def __init__(self, runner, given=None):
        super().__init__(runner)
        if shutil.which("perl") is None:
            raise Skip("no perl")
        self.endings = {}
        self.top = sources_of(runner, "coreutils", "coreutils_*.orig.tar*", given)
        self.bin = runner.folder("coreutils-bin")
        programs = []
        for source in sorted(glob.glob(os.path.join(self.top, "src", "*.c"))) + ["[.c"]:
            name = os.path.basename(source)[:-2]
            path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL).stdout if path else ""
            if "GNU coreutils" in said:
                programs.append(name)
                os.symlink(path, os.path.join(self.bin, name))
        self.version = re.search(r"coreutils\) (\S+)", subprocess.run(
            ["ls", "--version"], capture_output=True, text=True, check=True).stdout).group(1)
        with open(os.path.join(self.bin, "getlimits"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\ncat <<'END'\n" + "".join(self.limits()) + "END\n")
        os.chmod(file.name, 0o755)
        with open(os.path.join(self.bin, "config.h"), "w", encoding="ascii") as file:
            file.write(COREUTILS_CONFIG)
        with open(os.path.join(self.top, "tests", "local.mk"), encoding="utf-8") as file:
            text = file.read()
        roots = re.search(r"(?s)all_root_tests =(.*?[^\\])\n", text).group(1).split()
        self.names = [name for name in dict.fromkeys(re.findall(r"(?m)^  (tests/\S+\.x?(?:sh|pl))", text))
                      if name not in COREUTILS_NEVER and name not in roots]
        self.environ = {
            "VERSION": self.version, "PACKAGE_VERSION": self.version, "srcdir": ".", "top_srcdir": ".",
            "abs_srcdir": self.top, "abs_top_srcdir": self.top, "abs_top_builddir": self.top,
            "built_programs": " ".join(programs), "fail": "0", "host_os": "linux-gnu",
            "host_triplet": "x86_64-pc-linux-gnu", "CONFIG_HEADER": os.path.join(self.bin, "config.h"),
            "LOCALE_FR": "none", "LOCALE_FR_UTF8": "none", "CC": "gcc", "AWK": "awk", "EGREP": "grep -E",
            "EXEEXT": "", "MAKE": "make", "PERL": "perl", "SHELL": "/bin/bash",
            "PATH": f"{self.bin}:{os.environ['PATH']}"}
        if runner.nobody:
            subprocess.run(["chown", "-R", "65534:65534", self.top, self.bin], check=True)

    @staticmethod
    def limits():
        for name, bits in COREUTILS_INTEGERS.items():
            low = 0 if name[0] == "-" else -(1 << (bits - 1))
            high = low + (1 << bits) - 1
            name = name.lstrip("-")
            yield f"{name}_MAX={high}\n{name}_OFLOW={high + 1}\n"
            yield f"{name}_MIN={low}\n{name}_UFLOW={low - 1}\n" if low else ""
        yield ("FLT_MIN=1.175494e-38\nFLT_MAX=3.402823e+38\nDBL_MIN=2.225074e-308\n"
               "DBL_MAX=1.797693e+308\nLDBL_MIN=3.362103e-4932\nLDBL_MAX=1.189731e+4932\n")

    def results(self, variant, tests=None):
        """All in one shell, as `make check` has them."""
        loop = ('for t in "$@"; do export CU_TEST_NAME=coreutils,$(echo $t | sed s,/,-,g); case $t in '
                '*.sh) set -- /bin/bash ./$t;; '
                '*.xpl) set -- perl -T -w -I./tests -MCuSkip -MCoreutils "-MCuTmpdir qw($t)" ./$t;; '
                '*) set -- perl -w -I./tests -MCuSkip -MCoreutils "-MCuTmpdir qw($t)" ./$t;; esac; '
                f'/usr/bin/timeout --foreground -k 5 {self.SECONDS_EACH} "$@" >$TMPDIR/log 2>&1 9>&2; '
                'echo "-- $t: $?"; done')
        status, output, _ = self.timed(variant, ["/bin/bash", "-c", loop, "sh", *(tests or self.names)],
                                       cwd=self.top, environ=self.environ, timeout=3600)
        found = dict(re.findall(r"(?m)^-- (\S+): (\d+)$", output))
        found["(whole)" if tests is None else "(some)"] = str(status)
        found = {name: {"0": "ok", "77": "skipped"}.get(result, result) if "(" not in name else result
                 for name, result in found.items()}
        self.endings.setdefault(variant, collections.Counter(found.values()))
        return found

    def extra(self):
        for variant, endings in self.endings.items():
            yield f"coreutils {variant}: " + ", ".join(f"{n} x {e}" for e, n in endings.most_common())


class Stress(Suite):
    """stress-ng's process, signal and IPC stressors, a second each, with verification."""

    def __init__(self, runner):
        super().__init__(runner)
        if shutil.which("stress-ng") is None:
            raise Skip("no stress-ng")
        self.ratio = {}

    def results(self, variant, tests=None):
        found = {}
        for stressor in tests or STRESSORS:
            status, output, _ = self.timed(
                variant, ["stress-ng", f"--{stressor}", "1", "--timeout", "1s", "--verify",
                          "--metrics-brief", "--temp-path", self.runner.folder("tmp")],
                cwd=self.runner.folder("stress"), timeout=60)
            passed = re.search(r"passed: (\d+)", output)
            found[stressor] = f"{status}, passed {passed.group(1) if passed else '-'}"
            rate = re.search(rf"(?m)\] {stressor} +\d+ +\d+\.\d+ +\S+ +\S+ +(\S+)", output)
            if rate:
                self.ratio.setdefault(stressor, {})[variant] = float(rate.group(1))
        return found

    def extra(self):
        for stressor, rates in sorted(self.ratio.items()):
            if rates.get("bare") and rates.get("inject"):
                yield (f"{stressor:14} {rates['bare']:12.0f} operations/s bare, "
                       f"{rates['inject'] / rates['bare']:5.2f} x under rocmcrash")


class Debuggers(Suite):
    """strace and gdb inside the command; attaching from outside before and after a release."""

    def __init__(self, runner):
        super().__init__(runner)
        for program in ("strace", "gdb", "gcc"):
            if shutil.which(program) is None:
                raise Skip(f"no {program}")
        self.work = runner.folder("debuggers")
        self.crasher = os.path.join(self.work, "crasher")
        with open(self.crasher + ".c", "w", encoding="utf-8") as file:
            file.write(CRASHER)
        subprocess.run(["gcc", "-g", "-O0", "-o", self.crasher, self.crasher + ".c"], check=True)
        crash = self.crasher
        gdb = ["gdb", "-q", "-nx", "-batch", "-ex", "set debuginfod enabled off"]
        trace = os.path.join(self.work, "trace")
        self.commands = {
            "strace -f of a shell": ["sh", "-c", f"strace -f -o {trace} sh -c 'true; (exit 3)'; echo $?; "
                                     f"grep -c exit_group {trace}"],
            "strace directly": ["strace", "-e", "trace=exit_group", "-o", trace, "sh", "-c", "exit 4"],
            "strace -c": ["sh", "-c", f"strace -c -o {trace} true; echo $?"],
            "strace of a crash": ["sh", "-c", f"strace -o {trace} {crash}; echo $?; grep -c SIGSEGV {trace}"],
            "gdb runs and breaks": [*gdb, "-ex", "break main", "-ex", "run", "-ex", "bt", "-ex", "continue",
                                    "--args", crash, "x"],
            "gdb sees a crash": [*gdb, "-ex", "run", "-ex", "bt", "-ex", "info registers rip", crash],
            "gdb in a shell": ["sh", "-c", " ".join(f"'{w}'" for w in [*gdb, "-ex", "run", "-ex", "bt",
                                                                      crash]) + "; echo $?"],
            "gdb attaches to its own child": [*gdb, "-ex", "start", "-ex", "next", "-ex", "kill", crash],
            "gdb follows a fork": [*gdb, "-ex", "set follow-fork-mode child", "-ex", "run", "--args", "sh",
                                   "-c", "(exit 5); exit 6"],
            "PTRACE_TRACEME of a child": [PYTHON, "-c", TRACEME],
        }

    def results(self, variant, tests=None):
        found = {}
        for name, command in self.commands.items():
            if tests is None or name in tests:
                status, output, _ = self.timed(variant, command, cwd=self.work, timeout=60)
                found[name] = f"{status} {normal(output)}"
        if VARIANTS[variant] is not None and (tests is None or "attach from outside" in tests):
            found["attach from outside"] = self.attach(variant)
        elif tests is None or "attach from outside" in tests:
            found["attach from outside"] = "refused with a reason, works after the release"
        return found

    def attach(self, variant):
        """gdb -p of the command from outside: refused by the kernel, allowed after the release."""
        words = self.runner.prefix(variant)
        env = dict(os.environ, ROCMCRASH_STATE_DIR=self.runner.folder("state"))
        gdb = ["gdb", "-q", "-nx", "-batch", "-ex", "info inferiors", "-p"]
        with subprocess.Popen([*words, "/bin/sh", "-c", "echo $$; exec sleep 60"], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            pid = run.stdout.readline().strip()
            time.sleep(1.5)  # a child is observed when it is a second old
            before = subprocess.run([*gdb, pid], capture_output=True, text=True, check=False)
            subprocess.run([ROCMCRASH, "release", pid], check=False, capture_output=True)
            after, deadline = "", time.monotonic() + 10
            while time.monotonic() < deadline and f"process {pid}" not in after:
                done = subprocess.run([*gdb, pid], capture_output=True, text=True, check=False)
                after = done.stdout
            os.kill(int(pid), signal.SIGKILL)
            run.wait()
        why = "already traced" in before.stdout + before.stderr
        works = f"process {pid}" in after
        return (("refused with a reason" if why else "refused without a reason: " + before.stderr[-200:])
                + (", works after the release" if works else ", fails after the release too"))


TRACEME = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    if libc.ptrace(0, 0, None, None) < 0:
        os._exit(40 + min(ctypes.get_errno(), 50))
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
_, status = os.waitpid(pid, 0)
print(os.WIFSTOPPED(status) and os.WSTOPSIG(status), os.WIFEXITED(status) and os.WEXITSTATUS(status))
if os.WIFSTOPPED(status):
    libc.ptrace(7, pid, None, None)
    print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
"""

SUITES = {"python": Python, "bash": Bash, "busybox": Busybox, "coreutils": Coreutils, "stress": Stress,
          "debuggers": Debuggers}


# --- comparing ---

def confirmed(suite, variant, test):
    """Does it always differ, run alone? -> (bare, under rocmcrash) or None."""
    pairs = {(suite.alone("bare", test), suite.alone(variant, test)) for _ in range(CONFIRM)}
    bare, under = {p[0] for p in pairs}, {p[1] for p in pairs}
    return (bare.pop(), under.pop()) if len(bare) == len(under) == 1 and bare != under else None


def compare(name, suite, table):
    results = {variant: suite.results(variant) for variant in VARIANTS}
    tests = sorted(set().union(*results.values()))
    unstable = [t for t in tests if results["bare"].get(t) != results["again"].get(t)]
    bad = 0
    for variant, options in VARIANTS.items():
        if options is None:
            continue
        suspects = [t for t in tests if t not in unstable
                    and results[variant].get(t) != results["bare"].get(t)]
        differences = []
        for test in suspects:
            pair = confirmed(suite, variant, test)
            if pair:
                differences.append(test)
                print(f"{name} {variant}: {test}\n  bare:  {pair[0][:600]}\n  under: {pair[1][:600]}",
                      flush=True)
            else:
                print(f"{name} {variant}: {test} differed once and not again", flush=True)
        told = [t for t in differences if (name, t) in TOLD and variant != "late"]
        bad += len(differences) - len(told)
        ran = sum(1 for r in results["bare"].values() if r not in ("skipped", "SKIPPED", "UNTESTED"))
        row = (f"| {name} | {variant} | {len(tests)} | {ran} | {len(unstable)} | "
               f"{len(suspects) - len(differences)} | {len(differences) - len(told)} | {len(told)} | "
               f"{suite.seconds['bare']:.0f} s | {suite.seconds[variant]:.0f} s | "
               f"{suite.runner.bundles[variant]} |")
        print(row, flush=True)
        table.append(row)
    if hasattr(suite, "extra"):
        print("\n".join(suite.extra()))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(SUITES), help="suites, by commas")
    parser.add_argument("--variants", default="plain,inject", help="plain, inject, late by commas")
    parser.add_argument("--every", type=int, default=1, help="coreutils: only every Nth test")
    parser.add_argument("--modules", help="CPython's tests, by commas")
    parser.add_argument("--sources", help="folder with the .orig.tar files of bash, busybox and coreutils")
    parser.add_argument("--nobody", action="store_true", help="as the user nobody (started by root)")
    parser.add_argument("--table", help="append the table to this file")
    arguments = parser.parse_args()
    if not os.access(ROCMCRASH, os.X_OK):
        sys.exit("ROCMCRASH names no program")
    for variant in list(VARIANTS):
        if VARIANTS[variant] is not None and variant not in arguments.variants.split(","):
            del VARIANTS[variant]
    if "late" in arguments.variants.split(","):
        VARIANTS["late"] = ["--trace=late"]
    if arguments.modules:
        PYTHON_MODULES[:] = arguments.modules.split(",")
    table = ["| suite | variant | tests | run | unstable bare | once only | differ | told of | bare "
             "| under | bundles |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    bad, ran = 0, 0
    with tempfile.TemporaryDirectory(prefix="rc-suites-", ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        for name in arguments.only.split(","):
            runner = Runner(os.path.join(top, name), arguments.nobody)
            runner.folder(".")
            try:
                extra = [arguments.sources] if name in ("bash", "busybox", "coreutils") else []
                suite = SUITES[name](runner, *extra)
            except Skip as reason:
                print(f"skipped: {name}: {reason}")
                continue
            if name == "coreutils":
                suite.names = suite.names[::arguments.every]
            ran += 1
            bad += compare(name, suite, table)
    print("\n" + "\n".join(table))
    if arguments.table:
        with open(arguments.table, "a", encoding="utf-8") as file:
            file.write("\n".join(table) + "\n")
    sys.exit(1 if bad else 0 if ran else 77)


if __name__ == "__main__":
    main()
