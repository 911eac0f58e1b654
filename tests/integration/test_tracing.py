# SPDX-License-Identifier: Apache-2.0
"""What the tracer sees of failing processes, what it lets go, and what it must not change."""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import programs
import support
from support import PYTHON, ROCMCRASH, read, wait_for

NOBODY = 65534
CC = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
# The tracer is shown a stop, and before it looks at that, its timer fires.
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
# As of a thread that the kernel does not find.
REFUSED = """
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
long ptrace(enum __ptrace_request request, ...)
{
    va_list list;
    va_start(list, request);
    long pid = va_arg(list, long);
    void *at = va_arg(list, void *);
    void *data = va_arg(list, void *);
    va_end(list);
    errno = ESRCH;
    return request == PTRACE_CONT && data == (void *)SIGUSR1 ? -1 : syscall(SYS_ptrace, (long)request, pid, at, data);
}
"""


class Traced(programs.Interactive):
    def rest(self, process, reader):
        reader.drain()
        process.wait(timeout=60)
        return self.finished(process, reader.text(process.stdout), reader.text(process.stderr))

    def word(self, text, key):
        return int(text.split(key + " ")[1].split()[0])


class Crashes(Traced):
    def test_in_a_thread(self):
        done = self.run_it(programs.program(), "thread-crash")
        self.assertEqual(done.status, -signal.SIGSEGV)
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("target.failed_tid"), self.word(done.stdout, "tid"))
        self.assertNotEqual(bundle.value("target.failed_tid"), bundle.value("target.failed_pid"))
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")
        self.assertEqual(bundle.value("target.si_code"), 1)  # SEGV_MAPERR
        self.assertEqual(bundle.value("target.fault_address"), "0x1230")
        self.assertEqual(bundle.value("target.failed_is_child"), False)
        self.assertGreater(bundle.value("proc.0.rss_bytes"), 0)
        self.assertEqual(bundle.value("proc.0.threads_count"), 2)

    def test_long_after_the_leader_ended(self):
        for mode in ("eager", "late"):
            with self.subTest(mode=mode):
                process, reader = self.interactive(programs.program(), "leader-gone",
                                                   options=["--trace=" + mode])
                reader.until(process.stdout, b"\n")
                pid = self.word(reader.text(process.stdout).decode(), "pid")
                wait_for(lambda: support.state(pid) == "Z", "the leader's end")
                self.assertIsNone(process.poll())
                self.line(process)
                done = self.rest(process, reader)
                self.assertEqual(done.status, -signal.SIGSEGV)
                bundle = self.only_bundle(done)
                self.assertEqual(bundle.value("target.failed_pid"), pid)
                self.assertEqual(bundle.value("target.failed_tid"), self.word(done.stdout, "tid"))
                self.assertEqual(bundle.value("target.fault_address"), "0x1230")
                self.assertGreater(bundle.value("proc.0.fds_count"), 2)
                os.unlink(bundle.path)

    def grandchild(self, seconds, mode):
        crash = f"sleep {seconds}; ulimit -c 0; kill -SEGV $$"
        done = self.run_it("/bin/sh", "-c", f"sh -c 'sh -c \"{crash}\"; exit 3'; exit 4".replace(
            "$$", "\\$\\$"), options=["--trace=" + mode])
        self.assertEqual(done.status, 4)
        return done

    def test_in_a_young_grandchild(self):
        bundle = self.only_bundle(self.grandchild(0, "eager"))
        self.assertEqual(bundle.value("target.failed_is_child"), True)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")
        self.assertEqual(bundle.value("target.exit_code"), 4)

    def test_of_children_that_fail_or_are_killed(self):
        """A grep that finds nothing is no failure of the job, a worker that is killed is."""
        bundle = self.only_bundle(self.run_it(
            "/bin/sh", "-c", "ulimit -c 0; for i in 1 2 3; do sh -c 'exit 1'; done; kill -ABRT $$",
            options=["--trace=eager"]))
        self.assertEqual([name for name in bundle.files if name.endswith("/impact.txt")],
                         ["impact/0/impact.txt"])
        os.unlink(bundle.path)
        done = self.run_it("/bin/sh", "-c", "sh -c 'kill -KILL $$'; exit 1", options=["--trace=eager"])
        bundle = self.only_bundle(done)
        self.assertEqual((done.status, bundle.value("target.failed_signal_name"),
                          bundle.value("target.failed_is_child")), (1, "KILL", True))

    def test_in_a_child_of_one_that_ends_politely(self):
        """SIGTERM alone is how somebody ends a program that works; beside a crash it is not."""
        code = "ulimit -c 0; sh -c 'kill -SEGV $$'; kill -TERM $$"
        done = self.run_it("/bin/sh", "-c", code, options=["--trace=eager"])
        self.assertEqual(done.status, -signal.SIGTERM)
        self.assertEqual(self.only_bundle(done).value("target.failed_signal_name"), "SEGV")

    def test_in_a_grown_grandchild(self):
        bundle = self.only_bundle(self.grandchild(2.5, "late"))
        self.assertEqual(bundle.value("target.failed_is_child"), True)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")

    def test_handler_that_raises_again(self):
        code = "import faulthandler,ctypes; faulthandler.enable(); ctypes.string_at(0x4560)"
        done = self.python(code)
        self.assertEqual(done.status, -signal.SIGSEGV)
        self.assertIn("Fatal Python error", done.stderr)
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("target.fault_address"), "0x4560")
        self.assertEqual(bundle.value("target.si_code"), 1)

    def test_a_handled_fault_is_not_blamed_for_a_foreign_signal(self):
        process, reader = self.interactive(programs.program(), "handled-fault")
        reader.until(process.stdout, b"up")
        target = self.target_pid(process.pid)
        os.kill(target, signal.SIGSEGV)
        bundle = self.only_bundle(self.rest(process, reader))
        self.assertIsNone(bundle.value("target.fault_address"))
        self.assertEqual(bundle.value("target.signal_sender_pid"), os.getpid())

    def test_a_fault_is_that_of_the_program_as_it_was(self):
        """After an exec neither its address nor its registers mean anything."""
        bundle = self.only_bundle(self.run_it(programs.program(), "handled-fault", "/bin/sh", "-c",
                                              "ulimit -c 0; kill -SEGV $$"))
        self.assertIsNone(bundle.value("target.fault_address"))
        self.assertRegex(bundle.text("stacks/stacks.0.txt"), r"#0 .* kill\+")

    def test_sigkill_from_outside(self):
        code = ("import os,sys; keep=[bytes(64<<20)]; fds=[os.open('/dev/null',0) for _ in range(37)]\n"
                "b=bytearray(64<<20)\n"
                "for i in range(0,len(b),4096): b[i]=1\n"
                "sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.readline()")
        process, reader = self.interactive(PYTHON, "-c", code)
        reader.until(process.stdout, b"up")
        os.kill(self.target_pid(process.pid), signal.SIGKILL)
        done = self.rest(process, reader)
        self.assertEqual(done.status, -signal.SIGKILL)
        bundle = self.only_bundle(done)
        self.assertGreater(bundle.value("proc.0.rss_bytes"), 64 << 20)
        self.assertGreaterEqual(bundle.value("proc.0.fds_count"), 40)
        self.assertGreater(bundle.value("proc.0.maps_count"), 10)

    def test_after_many_failing_children(self):
        """Their ends must not take all the room there is."""
        code = ("i=0; while [ $i -lt 20 ]; do (sleep 1.2; exit 1) & i=$((i + 1)); done; wait\n"
                "ulimit -c 0; sh -c 'kill -SEGV $$'; exit 1")
        bundle = self.only_bundle(self.run_it("/bin/sh", "-c", code, options=["--trace=eager"]))
        self.assertGreater(len([name for name in bundle.files if name.endswith("/impact.txt")]), 10)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")

    def test_stack_of_many_frames(self):
        """Of a stack the first 64 KiB are kept; where that was not all, it is said."""
        for depth, cut in ((10, False), (200, True)):
            with self.subTest(depth=depth):
                bundle = self.only_bundle(self.run_it("/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh",
                                                      programs.program(), "deep", str(depth)))
                text = bundle.text("stacks/stacks.0.txt")
                self.assertIn(" deep+", text)
                self.assertEqual("stack truncated at 65536 bytes" in text, cut, text)
                os.unlink(bundle.path)

    def test_many_threads_and_mappings(self):
        process, reader = self.interactive(programs.program(), "many", "200", "5000")
        reader.until(process.stdout, b"\n")
        self.line(process)
        done = self.rest(process, reader)
        self.assertEqual(done.status, -signal.SIGSEGV)
        bundle = self.only_bundle(done)
        held_ms = bundle.value("target.held_us") / 1000
        print(f"held {held_ms:.1f} ms at 200 threads and 5,000 mappings ", end="", flush=True)
        self.assertEqual(bundle.value("proc.0.threads_count"), 201)
        self.assertGreater(bundle.value("proc.0.maps_count"), 5000)
        self.assertLess(held_ms, 200)
        self.assertIsNone(bundle.value("run.trace_lost"))

    def test_more_than_is_copied(self):
        """The first 4 MiB of mappings and 4,096 descriptors are kept; all are counted, or none."""
        path = self.write("mapped-" + "x" * 64, "one page")
        done = self.run_it("/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh",
                           programs.program(), "hoard", path, "60000", "6000")
        self.assertEqual(done.status, -signal.SIGSEGV)
        bundle = self.only_bundle(done)
        there = dict(re.findall(r"(mapped|opened) (\d+)", done.stdout))
        for name, word in (("proc.0.maps_count", "mapped"), ("proc.0.fds_count", "opened")):
            with self.subTest(name):
                fact = bundle.fact(name)
                print(f"[{name}: {fact.get('value', fact.get('reason'))}] ", end="", flush=True)
                if fact.get("value") is None:
                    self.assertIn("more than could be counted", fact["reason"])
                else:
                    self.assertIn(fact["value"] - int(there[word]), range(100))
        self.assertLess(bundle.value("target.held_us"), 200000)
        self.assertIsNone(bundle.value("run.trace_lost"))


class Unusual(Traced):
    def test_ways_to_start_something(self):
        for what in ("exec-from-thread", "vfork", "clone"):
            for mode in ("eager", "late", "none"):
                with self.subTest(what=what, mode=mode):
                    done = self.run_it(programs.program(), what, options=["--trace=" + mode])
                    self.assertEqual((done.status, done.stderr), (9, ""))

    def test_crash_after_exec_from_a_thread(self):
        code = ("import threading,os,time\n"
                "t=threading.Thread(target=lambda: os.execv('/bin/sh',"
                "['/bin/sh','-c','ulimit -c 0; kill -SEGV $$']))\n"
                "t.start(); time.sleep(1000)")
        done = self.python(code)
        self.assertEqual(done.status, -signal.SIGSEGV)
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("target.failed_pid"), bundle.value("target.failed_tid"))
        self.assertEqual(bundle.value("target.failed_comm"), "sh")

    def test_a_child_of_another_user_is_left_alone(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        look = ("import os, sys, time\nos.setuid(int(sys.argv[1]))\ntime.sleep(2.5)\n"
                "alone = 'TracerPid:\\t0\\n' in open('/proc/self/status').read()\n"
                "os.write(1, f'{sys.argv[1]} {alone}\\n'.encode())")
        done = self.run_it("/bin/sh", "-c", '"$0" -c "$1" 0 & "$0" -c "$1" 65534 & wait', PYTHON, look,
                           options=["--trace=late"])
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 False", "65534 True"])

    def test_a_target_that_traces(self):
        for mode in ("late", "none"):
            done = self.run_it(programs.program(), "ptrace", options=["--trace=" + mode])
            self.assertEqual(done.status, 9)

    def test_a_stop_that_cannot_be_answered(self):
        """The kernel goes on refusing: without a tracer the target goes on."""
        if CC is None:
            self.skipTest("no C compiler here")
        library = self.path("refused.so")
        subprocess.run([CC, "-shared", "-fPIC", "-o", library, self.write("refused.c", REFUSED)],
                       check=True)
        done = self.run_it("/bin/sh", "-c", "kill -USR1 $$; exit 3", options=["--always"],
                           env=support.preloaded(self.environ, library))
        self.assertEqual(done.status, -signal.SIGUSR1)
        # Its stops may also be so many that it is let go for them first.
        self.assertRegex(self.only_bundle(done).value("run.trace_lost"), "tracer ended|were let go")

    def test_busy_process_is_let_go_and_that_is_said(self):
        process, reader = self.interactive(programs.program(), "storm", "signals",
                                           options=["--always"])
        reader.until(process.stdout, b"started")
        target = self.target_pid(process.pid)
        wait_for(lambda: reader.pump() or "TracerPid:\t0\n" in read(f"/proc/{target}/status"),
                 "the target to be let go")
        self.line(process)
        done = self.rest(process, reader)
        self.assertEqual(done.status, 7)
        self.assertIn("busy processes were let go (1)",
                      self.only_bundle(done).value("run.trace_lost"))

    def traced_again(self, mode):
        """In pauses of ten seconds, so that it costs little while it is not."""
        code = ("import os, signal, time\n"
                "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
                "traced = lambda: 'TracerPid:\\t0\\n' not in open('/proc/self/status').read()\n"
                "assert traced()\n"
                "while traced(): os.kill(os.getpid(), signal.SIGUSR1)\n"
                "print('let go', flush=True)\n"
                "while not traced(): time.sleep(0.05)\n"
                "os.kill(os.getpid(), signal.SIGSEGV)\n")
        done = self.python(code, options=["--trace=" + mode])
        self.assertEqual((done.status, done.stdout), (-signal.SIGSEGV, "let go\n"))
        self.assertGreater(self.only_bundle(done).value("proc.0.rss_bytes"), 0)

    def test_busy_process_is_traced_again_when_it_is_calm(self):
        self.traced_again("eager")

    def test_busy_process_is_traced_again_by_an_ordinary_user(self):
        self.traced_again("late")

    def test_leak_sanitizer_works(self):
        """It traces its own process at the end, and fails under ptrace."""
        folder = self.path("sanitized")
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):  # by them the report may go into a file
            self.environ.pop(name, None)
        os.makedirs(folder)
        source = os.path.join(folder, "leak.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <stdlib.h>\nvoid *volatile kept;\n"
                       "int main(int n, char **v) { kept = malloc(7); if (n > 1) kept = 0; return 0; }\n")
        tried = 0
        for compiler, *flags in (("gcc",), ("gcc", "-static-libasan"), ("clang",)):
            program = os.path.join(folder, "-".join((compiler, *flags)))
            if not shutil.which(compiler) or subprocess.run(
                    [compiler, "-fsanitize=address", *flags, "-o", program, source],
                    capture_output=True, check=False).returncode != 0:
                continue
            tried += 1
            for mode in ("eager", "late"):
                clean = self.run_it("/bin/sh", "-c", program, options=["--trace=" + mode])
                self.assertEqual((clean.status, clean.stderr), (0, ""))
                leak = self.run_it(program, "leak", options=["--quiet", "--trace=" + mode])
                self.assertIn("7 byte(s) leaked in 1 allocation(s)", leak.stderr)
        if tried == 0:
            self.skipTest("no compiler with AddressSanitizer here")

    def test_threads_at_the_start_are_not_busy(self):
        """Some hundred threads at once, as numerical libraries start them, are no reason."""
        process, reader = self.interactive(programs.program(), "many", "300", "10")
        reader.until(process.stdout, b"\n")
        target = self.word(reader.text(process.stdout).decode(), "pid")
        self.assertNotIn("TracerPid:\t0\n", read(f"/proc/{target}/status"))
        os.kill(target, signal.SIGKILL)
        self.assertEqual(self.rest(process, reader).status, -signal.SIGKILL)

    def test_many_short_children_are_let_go_and_that_is_said(self):
        code = ("import os\n"
                "for i in range(600):\n"
                "    p=os.fork()\n"
                "    if p==0: os._exit(0)\n"
                "    assert os.waitpid(p,0)[1]==0\n"
                "os.abort()")
        done = self.python(code, options=["--trace=eager"])
        self.assertEqual(done.status, -signal.SIGABRT)
        bundle = self.only_bundle(done)
        self.assertIn("many short children", bundle.value("run.trace_lost"))
        # The parent itself is still traced.
        self.assertEqual(bundle.value("target.failed_signal_name"), "ABRT")
        self.assertGreater(bundle.value("proc.0.rss_bytes"), 0)

    def test_released_process_stays_released(self):
        """Its new threads are attached by the kernel for a moment."""
        process, reader = self.interactive(programs.program(), "storm", "threads",
                                           options=["--quiet"])
        reader.until(process.stdout, b"started")
        target = self.target_pid(process.pid)
        released = self.verb("release", str(target))
        if "is not traced" in released.stderr:
            self.skipTest("it was let go as busy before it could be released")
        self.assertEqual(released.returncode, 0)

        def traced():
            reader.pump()
            return sum("TracerPid:\t0\n" not in (read(f"/proc/{target}/task/{tid}/status") or
                                                 "TracerPid:\t0\n")
                       for tid in os.listdir(f"/proc/{target}/task"))
        wait_for(lambda: traced() + traced() == 0, "the target to be let go, with every thread")
        before = len(reader.text(process.stdout))
        while len(reader.text(process.stdout)) < before + 200:
            self.assertEqual(traced(), 0)
        self.line(process)
        self.assertEqual(self.rest(process, reader).status, 7)

    def test_without_tracing(self):
        done = self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", options=["--trace=none"])
        self.assertEqual(done.status, -signal.SIGSEGV)
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("run.traced"), False)
        self.assertIn("switched off", bundle.value("run.trace_lost"))
        self.assertEqual(bundle.value("target.signal_name"), "SEGV")


class JobControl(Traced):
    def counter(self, mode):
        process, reader = self.interactive(programs.program(), "count",
                                           options=["--trace=" + mode], start_new_session=True)
        reader.until(process.stdout, b"pid")
        reader.until(process.stdout, b"\n")
        return process, reader, self.word(reader.text(process.stdout).decode(), "pid")

    def stopped(self, *pids):
        wait_for(lambda: all(support.state(pid) in "Tt" for pid in pids), f"{pids} to stop")

    def test_continue_arrives_once(self):
        process, reader, target = self.counter("eager")
        for turn in range(5):
            os.killpg(process.pid, signal.SIGSTOP if turn % 2 else signal.SIGTSTP)
            # An orphaned group ignores SIGTSTP: then it just goes on.
            if turn % 2:
                self.stopped(process.pid, target)
            os.killpg(process.pid, signal.SIGCONT)
            wait_for(lambda: support.state(process.pid) not in "Tt" and
                     support.state(target) not in "Tt", "both to go on")
        # One more to us alone comes after all that could be doubled.
        process.send_signal(signal.SIGUSR1)
        reader.until(process.stdout, b"user\n")
        self.line(process)
        done = self.rest(process, reader)
        self.assertEqual(self.word(done.stdout, "users"), 1)
        self.assertLessEqual(self.word(done.stdout, "continued"), 5)

    def nothing_pending(self, pid):
        status = read(f"/proc/{pid}/status")
        return all(int(line.split()[1], 16) == 0 for line in status.splitlines()
                   if line.startswith(("ShdPnd", "SigPnd")))

    def test_target_stopped_and_continued_alone(self):
        """We stop with it and go on with it, time and again."""
        for mode in ("eager", "none"):
            with self.subTest(mode=mode):
                process, reader, target = self.counter(mode)
                for _ in range(10):
                    os.kill(target, signal.SIGSTOP)
                    self.stopped(process.pid, target)
                    os.kill(target, signal.SIGCONT)
                    wait_for(lambda: support.state(process.pid) not in "Tt" and
                             support.state(target) not in "Tt", "both to go on")
                self.line(process)
                self.assertEqual(self.rest(process, reader).status, 0)

    def test_signals_right_behind_a_continuation(self):
        """A continuation must not be answered by taking the stop that follows it: the target would
        stay there for good."""
        process, reader, target = self.counter("eager")
        for turn in range(300):
            os.kill(target, signal.SIGSTOP)
            while support.state(target) not in "Tt":
                reader.pump()
            os.kill(target, signal.SIGCONT)
            os.kill(target, signal.SIGUSR1)
            self.count_reaches(process, reader, b"cont", turn + 1)
            self.count_reaches(process, reader, b"user", turn + 1)
        process.send_signal(signal.SIGCONT)
        self.line(process)
        done = self.rest(process, reader)
        self.assertEqual((done.status, self.word(done.stdout, "users")), (0, 300))

    def count_reaches(self, process, reader, word, count):
        deadline = time.monotonic() + 20
        while reader.text(process.stdout).count(word) < count:
            self.assertLess(time.monotonic(), deadline, f"{word} {count}")
            reader.pump(0.5)

    def test_two_signals_are_two(self):
        """One to the group and one to us alone, of the same number and from the same sender."""
        process, reader, target = self.counter("eager")
        os.killpg(process.pid, signal.SIGUSR1)
        reader.until(process.stdout, b"user\n")
        # Not before we have read the first: two of a number that are pending become one.
        wait_for(lambda: self.nothing_pending(process.pid), "the first")
        process.send_signal(signal.SIGUSR1)
        reader.until(process.stdout, b"user\nuser\n")
        self.line(process)
        self.assertEqual(self.word(self.rest(process, reader).stdout, "users"), 2)

    def test_alarm_set_before_exec(self):
        code = ("import os,signal,sys; signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
                "os.execv(sys.argv[1], sys.argv[1:])")
        for argv in (["/bin/sleep", "1000"], self.command("/bin/sleep", "1000")):
            done = subprocess.run([PYTHON, "-c", code, *argv], env=self.environ, check=False,
                                  timeout=30)
            self.assertEqual(done.returncode, -signal.SIGALRM)

    def test_hangup_of_the_session_we_lead(self):
        import pty  # needs a terminal system; not used elsewhere here
        pid, master = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
            os.environ.update(self.environ)
            argv = self.command("/bin/sleep", "1000", options=["--no-follow"])
            os.execv(argv[0], argv)
        target = self.target_pid(pid)
        wait_for(lambda: support.comm(target) == "sleep", "exec")
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGHUP)


class Rights(Traced):
    """As an ordinary user, from a copy of the programs that it can reach."""

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
                     ["env", "A=1", path], ["/bin/bash", "-c", path],
                     ["/bin/sh", "-c", f"{path}; exit 0"]):
            with self.subTest(argv=argv):
                done = self.run_it(*argv)
                self.assertIn("euid=0(root)", done.stdout, done.stderr)

    def test_other_programs_that_gain_privilege(self):
        """The kernel gives nothing to what an ordinary user traces."""
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
                if argv == [script]:  # id takes it for a user's name, and says who it is otherwise
                    bundle = self.only_bundle(self.run_it(*argv, options=["--always"]))
                    self.assertIn("gains privilege", bundle.value("run.trace_lost"))

    def test_set_uid_target_is_said_to_be_untraced(self):
        path, _ = self.set_uid_id()
        bundle = self.only_bundle(self.run_it(path, options=["--always"]))
        self.assertIn("gains privilege", bundle.value("run.trace_lost"))

    def test_seized_in_the_moment_of_its_stop(self):
        """The stop that was shown is then another's: a ptrace stop, which must be answered."""
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


class NoProc(Traced):
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
        """Numbers there mean other processes: nothing of them may be taken for ours."""
        done = self.unshare("--pid", "--fork", script='exec "$@"')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "out\n", "err\n"))


if __name__ == "__main__":
    support.main()
