# SPDX-License-Identifier: Apache-2.0
"""Tracing as an ordinary user, of programs that gain privilege, and without /proc."""

import os
import shutil
import signal
import struct
import subprocess
import sys

import losses
import programs
import support
from support import PYTHON, ROCMCRASH, read, wait_for

NOBODY = 65534
CC = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
# The tracer is told of a stop, and its timer fires before it examines that stop.
SLOW_TRACER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
int waitid(idtype_t type, id_t id, siginfo_t *si, int options)
{
    static int (*next)(idtype_t, id_t, siginfo_t *, int);
    if (next == 0)
        *(void **)&next = dlsym(RTLD_NEXT, "waitid");
    int r = next(type, id, si, options);
    struct timespec wait = {5, 0};
    if (r == 0 && type == P_ALL && (options & WNOWAIT) != 0 && si->si_code == CLD_STOPPED)
        nanosleep(&wait, 0);
    return r;
}
"""


class Rights(programs.Traced):
    """As an ordinary user, with a copy of the programs that the user can reach."""

    def setUp(self):
        super().setUp()
        support.need_ordinary_user(self)
        os.chmod(self.folder, 0o755)
        for name in ("out", "state", "bin", "cache"):
            os.makedirs(self.path(name), exist_ok=True)
            os.chown(self.path(name), NOBODY, NOBODY)
        os.chmod(self.path("state"), 0o700)
        folder = os.path.dirname(ROCMCRASH)
        for name in ("rocmcrash", "rocmcrash-finish", "rocmcrash-probe", "rocmcrash-unwind"):
            if os.path.exists(os.path.join(folder, name)):
                shutil.copy(os.path.join(folder, name), self.path("bin", name))
        templates = self.environ.get("ROCMCRASH_TEMPLATES",
                                     os.path.join(support.SOURCE, "templates"))
        shutil.copytree(templates, self.path("templates"))
        self.environ["ROCMCRASH_TEMPLATES"] = self.path("templates")

    def command(self, *argv, options=()):
        return [self.path("bin", "rocmcrash"), "--output-dir", self.outdir, *options, "--", *argv]

    def run_it(self, *argv, **kwargs):
        return super().run_it(*argv, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", **kwargs)

    def set_uid_id(self):
        path = self.path("bin", "id")
        shutil.copy("/usr/bin/id", path)
        os.chmod(path, 0o4755)
        probe = subprocess.run([path], user=NOBODY, group=NOBODY, capture_output=True, text=True,
                               check=False)
        if "euid=0(root)" not in probe.stdout:
            self.skipTest("this file system or container ignores set-uid")
        return path, probe.stdout

    def test_set_uid_program_keeps_its_rights(self):
        path, plain = self.set_uid_id()
        for argv in ([path], ["/bin/sh", "-c", f"sleep 2.5; {path}"],
                     ["/bin/bash", "-c", f"sleep 2.5; {path}"], ["env", "A=1", path], ["/bin/bash", "-c", path],
                     ["/bin/sh", "-c", f"{path}; exit 0"]):
            with self.subTest(argv=argv):
                done = self.run_it(*argv)
                self.assertIn("euid=0(root)", done.stdout, done.stderr)

    def test_a_program_that_replaces_itself(self):
        """The library asks the tracer to let go: at once, when it has been traced for a while, with a blocked signal, and from a
        thread. The program is then like one that is left alone."""
        path, _ = self.set_uid_id()
        library = "librocmcrash-ledger.so"
        shutil.copy(os.path.join(os.path.dirname(ROCMCRASH), library), self.path("bin", library))
        go = f"os.execv({path!r}, [{path!r}])"
        for code in (go, f"import time; time.sleep(1.5); {go}", f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG]); {go}",
                     f"import threading; threading.Thread(target=lambda: {go}).start(); import time; time.sleep(9)"):
            with self.subTest(code=code):
                done = self.run_it(PYTHON, "-c", "import os; " + code)
                self.assertEqual(done.status, 0, done.stderr)
                self.assertIn("euid=0(root)", done.stdout, done.stderr)
        os.chmod(path, 0o4711)  # as sudo in some distributions: it may be executed and not read
        done = self.run_it(PYTHON, "-c", f"import os; {go}")
        self.assertIn("euid=0(root)", done.stdout, done.stderr)
        crashed = self.run_it(PYTHON, "-c", "import os, ctypes\ntry: os.execv('/nonexist', ['x'])\nexcept OSError: ctypes.string_at(16)")
        self.assertEqual(crashed.status, -signal.SIGSEGV)

    def replacing(self, *options):
        """A program that executes another one, which our library cannot see."""
        try:
            return programs.compiled("replacing_program", *options)
        except subprocess.CalledProcessError:
            self.skipTest("this compiler has not all that " + " ".join(options) + " needs")

    def test_a_program_that_replaces_itself_unseen(self):
        """A static one and one in Go with cgo: as the target, and as a child that is older than a second."""
        path, _ = self.set_uid_id()
        for options in (("-static",), ("-static", "-s"), ("-static-pie",), ("-DAS_IN_GO", "-DWITH_EXEC", "-rdynamic", "-s")):
            for before in ([], ["/bin/sh", "-c", '"$@"; exit $?', "sh"]):
                with self.subTest(options=options, before=before):
                    done = self.run_it(*before, self.replacing(*options), "2500" if before else "0", path)
                    self.assertIn("euid=0(root)", done.stdout, done.stderr)

    def test_a_launcher_that_is_static(self):
        """It is not traced and the bundle says so. What it becomes is traced."""
        launcher = self.replacing("-static")
        bundle = self.only_bundle(self.run_it(launcher))
        self.assertEqual((bundle.value("target.signal_name"), bundle.value("run.traced")), ("ABRT", False))
        self.assertIn("our library cannot guard", bundle.value("run.trace_lost"))
        process, _ = self.interactive(launcher, "0", shutil.which("sleep"), "60", cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])
        target = self.target_pid(process.pid)
        wait_for(lambda: support.comm(target) == "sleep", "its exec")
        wait_for(lambda: self.traced_by(target) != "0", "the scan to seize it")

    def test_a_program_of_32_bits(self):
        """It cannot have our library."""
        program = losses.program_of_32_bits()
        if subprocess.run([program], check=False, cwd=self.folder).returncode != -signal.SIGSEGV:
            self.skipTest("this kernel runs no 32-bit programs")
        self.assertEqual(self.only_bundle(self.run_it(program)).value("run.traced"), False)

    def test_a_program_in_go_that_only_starts_others(self):
        bundle = self.only_bundle(self.run_it(self.replacing("-DAS_IN_GO", "-rdynamic", "-s")))
        self.assertEqual((bundle.value("target.failed_signal_name"), bundle.value("run.traced")), ("ABRT", True))
        self.assertIsNone(bundle.value("run.trace_lost"))

    def test_other_programs_that_gain_privilege(self):
        """The kernel grants no privilege to a program that an ordinary user traces."""
        group = self.write("bin/group", "")
        shutil.copy("/usr/bin/id", group)
        os.chmod(group, 0o2755)
        capable = self.path("bin", "capable")
        shutil.copy("/bin/grep", capable)
        try:  # VFS_CAP_REVISION_2, effective: CAP_NET_RAW
            os.setxattr(capable, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        except OSError:
            capable = None
        script = self.write("bin/script", f"#!{self.set_uid_id()[0]}\n", 0o755)
        for argv in ([group], [capable, "CapEff", "/proc/self/status"], [script]):
            if argv[0] is None:
                continue
            with self.subTest(argv=argv):
                plain = subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                                       capture_output=True, text=True, check=False)
                done = self.run_it(*argv)
                self.assertEqual((done.status, done.stdout), (plain.returncode, plain.stdout))
                if argv == [script]:  # id takes its argument for a user's name; without one it prints its own user
                    bundle = self.only_bundle(self.run_it(*argv, options=["--always"]))
                    self.assertIn("gains privilege", bundle.value("run.trace_lost"))

    def test_set_uid_target_is_said_to_be_untraced(self):
        path, _ = self.set_uid_id()
        bundle = self.only_bundle(self.run_it(path, options=["--always"]))
        self.assertIn("gains privilege", bundle.value("run.trace_lost"))

    def test_seized_in_the_moment_of_its_stop(self):
        """The reported stop is then a ptrace stop, which must be answered."""
        if CC is None:
            self.skipTest("no C compiler here")
        library = self.path("bin", "slow.so")
        subprocess.run([CC, "-shared", "-fPIC", "-o", library, self.write("slow.c", SLOW_TRACER),
                        "-ldl"], check=True)
        environ = support.preloaded(self.environ, library)
        process, _ = self.interactive("/bin/sh", "-c", "exec sleep 60", env=environ, cwd="/",
                                      user=NOBODY, group=NOBODY, extra_groups=[],
                                      start_new_session=True)
        target = self.target_pid(process.pid)
        wait_for(lambda: support.comm(target) == "sleep", "its exec")
        os.kill(target, signal.SIGSTOP)
        wait_for(lambda: self.traced_by(target) != "0", "the scan to seize it")
        wait_for(lambda: support.state(process.pid) == "T", "the stop to be shown")
        os.killpg(process.pid, signal.SIGCONT)
        wait_for(lambda: support.state(target) == "S", "it to go on")

    def traced_by(self, pid):
        return read(f"/proc/{pid}/status").split("TracerPid:")[1].split()[0]

    def test_ordinary_user_gets_the_crash(self):
        done = self.python("import os,resource; resource.setrlimit(resource.RLIMIT_CORE,(0,0));"
                           "os.kill(os.getpid(),11)")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")
        self.assertGreater(bundle.value("proc.0.rss_bytes"), 0)

    def test_refused(self):
        """A seccomp filter as of a container: ptrace(2) is EPERM."""
        code = ("import ctypes, os, struct, sys, platform\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                "nr = {'x86_64': 101, 'aarch64': 117}[platform.machine()]\n"
                "def op(c, jt, jf, k): return struct.pack('HBBI', c, jt, jf, k)\n"
                "prog = op(0x20,0,0,0)+op(0x15,0,1,nr)+op(6,0,0,0x50001)+op(6,0,0,0x7fff0000)\n"
                "buf = ctypes.create_string_buffer(prog)\n"
                "class F(ctypes.Structure): _fields_=[('n',ctypes.c_ushort),('p',ctypes.c_void_p)]\n"
                "f = F(4, ctypes.addressof(buf))\n"
                "assert libc.prctl(38,1,0,0,0)==0\n"
                "assert libc.prctl(22,2,ctypes.byref(f))==0, ctypes.get_errno()\n"
                "os.execv(sys.argv[1], sys.argv[1:])")
        argv = self.command(PYTHON, "-c", "import os,resource; print('out',flush=True);"
                            "resource.setrlimit(resource.RLIMIT_CORE,(0,0)); os.kill(os.getpid(),11)")
        done = subprocess.run([sys.executable, "-c", code, *argv], user=NOBODY, group=NOBODY,
                              extra_groups=[], cwd="/", capture_output=True, text=True, check=False,
                              env=self.environ, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGSEGV, "out\n"), done.stderr)
        bundle = self.bundles()[0]
        self.assertEqual(bundle.value("run.traced"), False)
        self.assertIn("refused ptrace: Operation not permitted", bundle.value("run.trace_lost"))
        self.assertEqual(bundle.value("target.signal_name"), "SEGV")


class NoProc(programs.Traced):
    def unshare(self, *options, script):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        if subprocess.run(["unshare", *options, "true"], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("unshare is not allowed here")
        return subprocess.run(["unshare", *options, "/bin/sh", "-c", script, "sh",
                               *self.command("/bin/sh", "-c", "echo out; echo err >&2; exit 5")],
                              env=self.environ, capture_output=True, text=True, timeout=60,
                              check=False)

    def test_no_proc(self):
        self.skip_if_sanitized("which itself needs /proc")
        done = self.unshare("--mount", script='mount -t tmpfs none /proc && exec "$@"')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "out\n", "err\n"))

    def test_proc_of_another_pid_namespace(self):
        """The numbers there are those of other processes: none may be taken for ours."""
        done = self.unshare("--pid", "--fork", script='exec "$@"')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "out\n", "err\n"))


if __name__ == "__main__":
    support.main()
