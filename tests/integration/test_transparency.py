# SPDX-License-Identifier: Apache-2.0
"""The target and its caller see what they would see without rocmcrash."""

import glob
import json
import os
import shutil
import signal
import socket
import subprocess

import support
from support import HIP_OOM, PYTHON, ROCMCRASH, wait_for


# mkdir(2) that logs its caller and may never return.
MKDIR = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int mkdir(const char *path, mode_t mode)
{
    char line[16];
    int fd = open(getenv("MKDIR_LOG"), O_WRONLY | O_APPEND | O_CLOEXEC);
    int n = snprintf(line, sizeof line, "%d\\n", (int)getpid());
    if (fd >= 0 && write(fd, line, n) == n)
        close(fd);
    while (getenv("MKDIR_HANGS") != NULL)
        pause();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
"""


class ExitStatus(support.Case):
    def test_codes_pass_through(self):
        for code in (0, 1, 2, 3, 77, 124, 125, 126, 127, 128, 137, 255):
            with self.subTest(code=code):
                self.assertEqual(self.run_it("/bin/sh", "-c", f"exit {code}").status, code)

    def test_signals_pass_through(self):
        """Signals by which people and schedulers end a working program leave no bundle."""
        def not_ignored():  # as in a background job of a shell, or under nohup
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
        polite = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
        for number in (*polite, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGABRT,
                       signal.SIGRTMIN + 3):
            with self.subTest(number=number):
                done = self.run_it("/bin/sh", "-c", f"ulimit -c 0; kill -{int(number)} $$",
                                   options=["--quiet"], preexec_fn=not_ignored)
                self.assertEqual((done.status, len(done.bundles)), (-number, number not in polite))
                for bundle in done.bundles:
                    os.unlink(bundle.path)

    def test_not_found_is_127_and_not_executable_126(self):
        done = self.run_it("/no/such/program")
        self.assertEqual(done.status, 127)
        self.assertEqual(done.stderr,
                         "rocmcrash: cannot run '/no/such/program': No such file or directory\n")
        done = self.run_it(self.write("data", "x"))
        self.assertEqual(done.status, 126)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(done.bundles, [])

    def test_script_with_bad_shebang(self):
        script = self.write("script", "#!/no/such/interpreter\n", 0o755)
        plain = subprocess.run(["env", script], capture_output=True, check=False)
        self.assertEqual(self.run_it(script).status, plain.returncode)

    def test_our_own_failures_are_125(self):
        for argv in ([], ["--no-such-option"], ["--trace=perhaps", "--", "true"], ["--trace"],
                     ["--finish-within", "soon", "--", "true"], ["--"]):
            done = subprocess.run([ROCMCRASH, *argv], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 125, argv)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Streams(support.Case):
    def test_silent_and_traceless_on_success(self):
        done = self.run_it("/bin/sh", "-c", "cat; echo out; echo err >&2", stdin=b"from stdin\n")
        self.assertEqual((done.status, done.stdout, done.stderr, done.bundles),
                         (0, "from stdin\nout\n", "err\n", []))
        runs = self.path("state", "runs")
        self.assertEqual(os.listdir(runs) if os.path.isdir(runs) else [], [])

    def test_who_makes_folders(self):
        """A disk that hangs must not keep the process that the caller waits for."""
        self.skip_if_sanitized("which makes the folder of its reports before there is an environment")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler here")
        library = self.path("mkdir.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, self.write("mkdir.c", MKDIR)], check=True)
        log = self.path("log")
        environ = {**self.environ, "LD_PRELOAD": library, "MKDIR_LOG": log}
        for options, made in (((), True), (("--inject=none",), False)):
            for program in ("true", "false"):
                with self.subTest(options=options, program=program):
                    open(log, "w", encoding="ascii").close()
                    process = self.start(program, options=options, env=environ)
                    self.assertEqual(process.wait(timeout=60), int(program == "false"))
                    makers = set(support.read(log).split())
                    self.assertNotIn(str(process.pid), makers)
                    if made:  # otherwise the test proves nothing
                        self.assertNotEqual(makers, set())
        process = self.start("/bin/sh", "-c", 'echo "<$ROCMCRASH_HOOK>"; exit 3', stdout=subprocess.PIPE,
                             env={**environ, "MKDIR_HANGS": "1"})
        self.assertEqual(process.communicate(timeout=60)[0], b"<>\n")  # no process waits for that disk
        self.assertEqual(process.returncode, 3)

    def test_order_on_one_pipe(self):
        process = self.start("/bin/sh", "-c",
                             'i=0; while [ $i -lt 300 ]; do echo "o$i"; echo "e$i" >&2; i=$((i+1)); done',
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=60)
        expected = "".join(f"o{i}\ne{i}\n" for i in range(300))
        self.assertEqual(out.decode(), expected)

    def test_environment_cwd_group_session_and_umask(self):
        code = ("import os,json;print(json.dumps([dict(os.environ),os.getcwd(),os.getpgrp(),"
                "os.getsid(0),os.umask(0),sorted(os.listdir('/proc/self/fd')),os.nice(0)]))")
        own = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True,
                             env=self.environ, cwd="/")
        done = self.python(code, cwd="/", options=("--inject=none",))
        self.assertEqual(done.stdout, own.stdout)
        seen, plain = json.loads(self.python(code, cwd="/").stdout), json.loads(own.stdout)
        self.assertTrue(seen[0].pop("PYTHONPATH").endswith("/python"))  # with these two a Python
        self.assertTrue(seen[0].pop("ROCMCRASH_HOOK"))  # that the target starts finds the hook
        self.assertEqual(seen, plain)

    def test_module_path(self):
        """An empty part of PYTHONPATH is the working directory, but an empty PYTHONPATH has no part."""
        script = self.write("script.py", "import sys; print([p for p in sys.path if not p.endswith('/python')])")
        for value in ("", ":", "/a", "/a:", ":/a"):
            with self.subTest(value=value):
                env = {**self.environ, "PYTHONPATH": value}
                plain = subprocess.run([PYTHON, script], capture_output=True, text=True, check=True,
                                       env=env, cwd="/")
                done = self.run_it(PYTHON, script, env=env, cwd="/")
                self.assertEqual((done.stdout, done.stderr), (plain.stdout, ""))
        show = ("/bin/sh", "-c", 'echo "$PYTHONPATH"')  # a path that has the hook already is unchanged
        env = {**self.environ, "PYTHONPATH": "/a"}
        once = self.run_it(*show, env=env).stdout.rstrip("\n")
        self.assertTrue(once.endswith("/python:/a"), once)
        env["PYTHONPATH"] = once
        self.assertEqual(self.run_it(*show, env=env).stdout.rstrip("\n"), once)

    def test_signal_dispositions_and_mask(self):
        code = ("print([l for l in open('/proc/self/status') "
                "if l.startswith(('SigBlk','SigIgn','SigCgt','ShdPnd'))])")

        def prepare():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        own = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True,
                             preexec_fn=prepare)
        done = self.python(code, preexec_fn=prepare)
        self.assertEqual(done.stdout, own.stdout)

    def test_inherited_descriptors_reach_the_target_and_only_it(self):
        reader, writer = os.pipe()
        process = self.start("/bin/sh", "-c", f"echo through >&{writer}; exec {writer}>&-; read x",
                             stdin=subprocess.PIPE, pass_fds=[writer])
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            # End of file although the target still runs: no copy is left with us.
            self.assertEqual(pipe.read(), b"through\n")
        self.assertIsNone(process.poll())
        process.communicate(b"\n", timeout=20)

    def test_reader_that_goes_away_ends_the_writer(self):
        process = self.start("/bin/sh", "-c", "while :; do echo x >&2; done", stderr=subprocess.PIPE,
                             options=["--quiet"])
        self.assertEqual(process.stderr.readline(), b"x\n")
        process.stderr.close()
        self.assertEqual(process.wait(timeout=30), -signal.SIGPIPE)

    def test_output_to_a_socket(self):
        """As in a service of systemd: one socket for both streams. The order is kept, and the failure is seen."""
        ours, theirs = socket.socketpair()
        script = f"for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done; printf '%s\\n' '{HIP_OOM.strip()}' >&2; exit 1"
        with ours, theirs:
            process = self.start("/bin/sh", "-c", script, stdout=theirs, stderr=theirs, options=["--quiet"])
            theirs.close()
            said = b"".join(iter(lambda: ours.recv(65536), b""))
        self.assertEqual(process.wait(timeout=60), 1)
        self.assertEqual(said.decode(), "".join(f"out {n}\nerr {n}\n" for n in range(1, 6)) + HIP_OOM.strip() + "\n")
        (bundle,) = self.bundles()
        self.assertEqual(bundle.verdict["class"], "capacity")

    def test_output_that_is_not_read(self):
        """A conversation on one socket is left alone, and so is /dev/null. The bundle does not say that nothing was written."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for stream in (theirs, subprocess.DEVNULL):
                process = self.start("/bin/sh", "-c", "echo x >&2; kill -SEGV $$", stdin=stream, stdout=stream, stderr=stream)
                self.assertEqual(process.wait(timeout=60), -signal.SIGSEGV)
                (bundle,) = self.bundles()
                self.assertRegex(bundle.row("output")["reason"], "stderr is a (socket|device), which is not read")
                os.unlink(bundle.path)

    def test_closed_streams(self):
        for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closing=closing):
                done = subprocess.run(["/bin/sh", "-c", f'"$@" {closing}', "sh",
                                       *self.command("/bin/sh", "-c", "exit 4")],
                                      env=self.environ, check=False, timeout=30)
                self.assertEqual(done.returncode, 4)

    def test_quiet_file_is_watched_for_one_write(self):
        """Polling of a file that nobody writes to ends; the next message is still seen."""
        with open(self.path("stderr"), "wb") as stderr:
            process = self.start("/bin/sh", "-c", "read x; echo HIP out of memory >&2; read x",
                                 stdin=subprocess.PIPE, stderr=stderr)
        self.addCleanup(process.stdin.close)
        relay = self.helper(process.pid, "relay")
        def armed():
            return any("inotify wd" in support.read(path)
                       for path in glob.glob(f"/proc/{relay}/fdinfo/*"))
        self.assertFalse(armed(), "the target pays for each write while it writes")
        support.wait_for(armed, "the watch")
        process.stdin.write(b"\n")
        process.stdin.flush()
        support.wait_for(lambda: any("first oom message" in support.read(path) for path in
                                     glob.glob(f"{self.environ['ROCMCRASH_STATE_DIR']}/runs/*/events")),
                         "the message to be noticed")
        self.assertFalse(armed())
        process.communicate(b"\n", timeout=20)

    def test_daemon_does_not_hold_the_caller(self):
        pid_file = self.path("pid")
        process = self.start("/bin/sh", "-c",
                             f"sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > {pid_file}")
        self.assertEqual(process.wait(timeout=30), 0)
        daemon = int(support.read(pid_file))
        self.addCleanup(os.kill, daemon, signal.SIGKILL)
        self.assertTrue(support.is_running(daemon))
        self.assertEqual(support.read(f"/proc/{daemon}/status").split("TracerPid:\t")[1][0], "0")


class Signals(support.Case):
    COUNTER = (support.WAKES + "import sys\n"
               "n=[0]\n"
               "def h(s,f):\n"
               "    n[0]+=1; os.write(2,b'got %d\\n'%s)\n"
               "for s in (1,2,10,12,15,28): signal.signal(s,h)\n"
               "os.write(1,b'ready\\n')\n"
               "while not wait(0): pass\n"
               "os.write(1,b'%d\\n'%n[0])\n")

    def start_counter(self, **kwargs):
        process = self.start(PYTHON, "-c", self.COUNTER, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def finish_counter(self, process):
        out, _ = process.communicate(b"\n", timeout=20)
        return int(out)

    def test_signal_to_us_reaches_the_target_once(self):
        process = self.start_counter()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH, signal.SIGUSR1):
            process.send_signal(number)
            self.assertEqual(process.stderr.readline(), b"got %d\n" % number)
        self.assertEqual(self.finish_counter(process), 5)

    def test_signal_to_the_group_arrives_once(self):
        process = self.start_counter(start_new_session=True)
        for number in (signal.SIGTERM, signal.SIGWINCH, signal.SIGUSR2):
            os.killpg(process.pid, number)
            self.assertEqual(process.stderr.readline(), b"got %d\n" % number)
        # A signal to us alone, sent after the group's, closes the window in which a second copy
        # of those could still arrive.
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stderr.readline(), b"got 10\n")
        self.assertEqual(self.finish_counter(process), 4)

    def test_sigterm_ends_target_and_us(self):
        process = self.start("/bin/sleep", "1000", stderr=subprocess.PIPE)
        target = self.target_pid(process.pid)
        wait_for(lambda: support.comm(target) == "sleep", "exec")
        process.terminate()
        self.assertEqual(process.wait(timeout=20), -signal.SIGTERM)
        self.assertEqual(self.bundles(), [])

    def test_signal_to_the_parent_harms_nobody(self):
        done = self.python("import os,signal\nfor s in (10,12,14,1,15): os.kill(os.getppid(), s)\n"
                           "print('alive')")
        self.assertEqual((done.status, done.stdout), (0, "alive\n"))

    def test_stopped_target_that_is_killed(self):
        process = self.start(PYTHON, "-c", "import sys; print('up',flush=True); sys.stdin.readline()",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=os.setpgrp,
                             options=["--quiet"])
        self.assertEqual(process.stdout.readline(), b"up\n")
        target = self.target_pid(process.pid)
        os.kill(target, signal.SIGSTOP)
        wait_for(lambda: support.state(process.pid) == "T", "us to stop as it did")
        os.kill(target, signal.SIGKILL)
        self.assertEqual(process.wait(timeout=20), -signal.SIGKILL)

    def test_target_that_ignores_sigterm(self):
        process = self.start(PYTHON, "-c", "import signal,sys,os\n"
                             "signal.signal(15,signal.SIG_IGN); os.write(1,b'r\\n'); sys.stdin.readline()",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        process.terminate()
        self.assertIsNone(process.poll())
        process.communicate(b"\n", timeout=20)
        self.assertEqual(process.returncode, 0)


class Nesting(support.Case):
    def test_inside_itself(self):
        done = self.run_it(*self.command("/bin/sh", "-c", "echo x >&2; exit 6"))
        self.assertEqual((done.status, done.stderr), (6, "x\n"))

    def test_debuggers_inside(self):
        for argv in (["gdb", "-batch", "-ex", "run", "/bin/true"],
                     ["strace", "-f", "-o", "/dev/null", "/bin/true"]):
            plain = subprocess.run(["which", argv[0]], capture_output=True, check=False)
            if plain.returncode != 0:
                self.skipTest(f"no {argv[0]} here")
            for words in (argv, ["/bin/sh", "-c", " ".join(argv) + "; exit $?"]):
                done = self.run_it(*words)
                self.assertEqual(done.status, 0, done.stderr)
                self.assertNotIn("not permitted", done.stderr)

    def test_release_lets_a_debugger_attach(self):
        process = self.start("/bin/sleep", "1000")
        target = self.target_pid(process.pid)
        traced = lambda: f"TracerPid:\t{self.helper(process.pid, 'tracer')}" in \
            support.read(f"/proc/{target}/status")
        wait_for(traced, "the target to be traced")
        self.assertEqual(self.verb("release", str(target)).returncode, 0)
        wait_for(lambda: not traced(), "the target to be released")
        os.kill(target, signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), -signal.SIGTERM)

    def test_as_pid_1(self):
        support.need_unshare(self, "--pid", "--fork", "--mount-proc")
        for code, want in (("exit 5", 5), ("ulimit -c 0; kill -9 $$", 137)):
            done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc",
                                   *self.command("/bin/sh", "-c", code, options=["--quiet"])],
                                  env=self.environ, timeout=60, check=False)
            self.assertEqual(done.returncode, want)


if __name__ == "__main__":
    support.main()
