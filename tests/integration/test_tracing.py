# SPDX-License-Identifier: Apache-2.0
"""The tracer sees how processes fail, and releases others."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import time

import programs
import support
from attack_table import Attacks
from support import PYTHON, read, wait_for

CC = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
# ptrace(2) fails as for a thread that the kernel does not find.
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
HELD_MAX_MS = 200
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Crashes(programs.Traced):
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

    def test_exit_while_a_thread_ends_by_itself(self):
        """The kernel may report that thread only after it is gone: the program is copied nevertheless."""
        for i in range(6):
            with self.subTest(run=i):
                bundle = self.only_bundle(self.run_it(programs.program(), "end-together", options=["--always"]))
                self.assertEqual(bundle.value("target.exit_code"), 1)
                self.assertEqual(bundle.row("limits")["status"], "ok")
                os.unlink(bundle.path)

    def grandchild(self, seconds, mode):
        crash = f"sleep {seconds}; ulimit -c 0; kill -SEGV $$"
        done = self.run_it(self.shell(), "-c", f"sh -c 'sh -c \"{crash}\"; exit 3'; exit 4".replace(
            "$$", "\\$\\$"), options=["--trace=" + mode])
        self.assertEqual(done.status, 4)
        return done

    def test_in_a_young_grandchild(self):
        bundle = self.only_bundle(self.grandchild(0, "eager"))
        self.assertEqual(bundle.value("target.failed_is_child"), True)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")
        self.assertEqual(bundle.value("target.exit_code"), 4)

    def test_of_children_that_fail_or_are_killed(self):
        """A grep that finds nothing is no failure of the job. A worker that is killed is one."""
        bundle = self.only_bundle(self.run_it(
            self.shell(), "-c", "ulimit -c 0; for i in 1 2 3; do sh -c 'exit 1'; done; kill -ABRT $$",
            options=["--trace=eager"]))
        self.assertEqual([name for name in bundle.files if name.endswith("/impact.txt")],
                         ["impact/0/impact.txt"])
        os.unlink(bundle.path)
        done = self.run_it(self.shell(), "-c", "sh -c 'kill -KILL $$'; exit 1", options=["--trace=eager"])
        bundle = self.only_bundle(done)
        self.assertEqual((done.status, bundle.value("target.failed_signal_name"),
                          bundle.value("target.failed_is_child")), (1, "KILL", True))

    def test_in_a_child_of_one_that_ends_politely(self):
        """SIGTERM alone means that somebody ended a program that worked. After a crash it does not."""
        code = "ulimit -c 0; sh -c 'kill -SEGV $$'; kill -TERM $$"
        done = self.run_it(self.shell(), "-c", code, options=["--trace=eager"])
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
        """After an exec the fault's address and registers mean nothing."""
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
        """Their exits must not take all the space."""
        code = ("i=0; while [ $i -lt 20 ]; do (sleep 1.2; exit 1) & i=$((i + 1)); done; wait\n"
                "ulimit -c 0; sh -c 'kill -SEGV $$'; exit 1")
        bundle = self.only_bundle(self.run_it(self.shell(), "-c", code, options=["--trace=eager"]))
        self.assertGreater(len([name for name in bundle.files if name.endswith("/impact.txt")]), 10)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")

    def held_briefly(self, crash, what):
        """The bundle of crash(), which held the target for a short time. Other programs that want the CPU make it longer,
        and the load of the last minute may not show them yet. So the shortest of three counts."""
        shortest_ms = None
        for _ in range(3):
            if shortest_ms is not None:
                os.unlink(bundle.path)
            bundle = self.only_bundle(crash())
            held_ms = bundle.value("target.held_us") / 1000
            shortest_ms = min(held_ms, shortest_ms or held_ms)
            print(f"held {held_ms:.1f} ms at {what} ", end="", flush=True)
            if held_ms < HELD_MAX_MS:
                return bundle
        self.not_in_time(f"held {shortest_ms:.1f} ms at {what}")
        return bundle

    def test_stack_of_many_frames(self):
        """The first 64 KiB of a stack are kept. A longer one is marked as cut."""
        for depth, cut in ((10, False), (200, True)):
            with self.subTest(depth=depth):
                bundle = self.only_bundle(self.run_it(self.shell(), "-c", 'ulimit -c 0; exec "$@"', "sh",
                                                      programs.program(), "deep", str(depth)))
                text = bundle.text("stacks/stacks.0.txt")
                self.assertIn(" deep+", text)
                self.assertEqual("stack truncated at 65536 bytes" in text, cut, text)
                os.unlink(bundle.path)

    def test_many_threads_and_mappings(self):
        def crash():
            process, reader = self.interactive(programs.program(), "many", "200", "5000")
            reader.until(process.stdout, b"\n")
            self.line(process)
            done = self.rest(process, reader)
            self.assertEqual(done.status, -signal.SIGSEGV)
            return done
        bundle = self.held_briefly(crash, "200 threads and 5,000 mappings")
        self.assertEqual(bundle.value("proc.0.threads_count"), 201)
        self.assertGreater(bundle.value("proc.0.maps_count"), 5000)
        self.assertIsNone(bundle.value("run.trace_lost"))

    def test_more_than_is_copied(self):
        """The first 4 MiB of mappings and 4,096 descriptors are kept. Either all are counted, or no count is given."""
        path = self.write("mapped-" + "x" * 64, "one page")
        there = {}

        def crash():
            done = self.run_it(self.shell(), "-c", 'ulimit -c 0; exec "$@"', "sh",
                               programs.program(), "hoard", path, "60000", "6000")
            self.assertEqual(done.status, -signal.SIGSEGV)
            there.update(re.findall(r"(mapped|opened) (\d+)", done.stdout))
            return done
        bundle = self.held_briefly(crash, "60,000 mappings and 6,000 descriptors")
        for name, word in (("proc.0.maps_count", "mapped"), ("proc.0.fds_count", "opened")):
            with self.subTest(name):
                fact = bundle.fact(name)
                print(f"[{name}: {fact.get('value', fact.get('reason'))}] ", end="", flush=True)
                if fact.get("value") is None:
                    self.assertIn("more than could be counted", fact["reason"])
                else:
                    self.assertIn(fact["value"] - int(there[word]), range(100))
        self.assertIsNone(bundle.value("run.trace_lost"))


class Unusual(programs.Traced):
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
        # The scan that finds a child of ours has seen the older one, too. It may take more than one, as their time is bounded.
        code = ("import os, time\n"
                "def is_traced(): return 'TracerPid:\\t0\\n' not in open('/proc/self/status').read()\n"
                "def wait_for_a_scan():\n"
                "    pid = os.fork()\n"
                "    while pid == 0:\n"
                "        if is_traced(): os._exit(0)\n"
                "        time.sleep(0.05)\n"
                "    os.waitpid(pid, 0)\n"
                "ready, go = os.pipe(), os.pipe()\n"
                "other = os.fork()\n"
                "if other == 0:\n"
                "    os.setuid(65534); os.write(ready[1], b'x'); os.read(go[0], 1); os._exit(is_traced())\n"
                "os.read(ready[0], 1)\n"
                "for _ in range(3): wait_for_a_scan()\n"
                "os.write(go[1], b'x')\n"
                "print('traced', os.waitpid(other, 0)[1] != 0)\n")
        done = self.python(code, options=["--trace=late"])
        self.assertEqual((done.status, done.stdout), (0, "traced False\n"))

    def test_a_target_that_traces(self):
        for mode in ("late", "none", "eager"):
            for argv in ([], [self.shell(), "-c", '"$@"; exit $?', "sh"]):
                with self.subTest(mode=mode, argv=argv):
                    done = self.run_it(*argv, programs.compiled("tracing_program"), options=["--trace=" + mode], timeout=60)
                    self.assertEqual(done.status, 9)

    def static_program(self, name, *options):
        try:
            return programs.compiled(name, "-static", *options)
        except subprocess.CalledProcessError:
            self.skipTest("no static C library here")

    def test_a_static_target_that_traces(self):
        """No loader has to find ptrace() for it. Its instructions say it, or in Go the names of its functions."""
        for options in ((), ("-s",), ("-DAS_IN_GO", "-s")):
            program = self.static_program("tracing_program", *options)
            for argv in ([], [self.shell(), "-c", '"$@"; exit $?', "sh"]):
                with self.subTest(options=options, argv=argv):
                    self.assertEqual(self.run_it(*argv, program, options=["--trace=eager"], timeout=60).status, 9)

    def test_a_target_of_another_libc_that_traces(self):
        """Its loader has another name, as musl's has."""
        real = "/lib64/ld-linux-x86-64.so.2"
        loader = self.path("ld-other.so")
        if not os.path.exists(real):
            self.skipTest("glibc's loader is not there")
        os.symlink(real, loader)
        program = programs.compiled("tracing_program", "-Wl,--dynamic-linker=" + loader)
        self.assertEqual(self.run_it(program, options=["--trace=eager"], timeout=60).status, 9)

    def test_a_static_target_that_does_not_trace(self):
        """Its children are observed from their start, although number and name of the call are in its file."""
        if os.geteuid() != 0:
            self.skipTest("needs root: for others a static program is not traced")
        done = self.run_it(self.static_program("quiet_program"), options=["--trace=eager"])
        bundle = self.only_bundle(done)
        self.assertEqual((done.status, bundle.value("target.failed_signal_name")), (4, "SEGV"))
        self.assertIsNone(bundle.value("run.trace_lost"))

    def test_a_program_that_looks_for_a_tracer(self):
        """Test programs (doctest, Catch2) stop for a debugger if TracerPid is not 0."""
        for mode in ("late", "eager"):
            for argv in ([], [self.shell(), "-c", '"$@"; exit $?', "sh"]):
                with self.subTest(mode=mode, argv=argv):
                    done = self.run_it(*argv, programs.compiled("wary_program"), options=["--trace=" + mode, "--always"])
                    self.assertEqual(done.status, 3)
                    said = re.findall("^rocmcrash: bundle: (.*)$", done.stderr, re.M)
                    self.assertEqual(len(said), 1)
                    if mode == "eager" or not argv:
                        self.assertIn("look for a tracer or call ptrace(2) were left alone (1)", support.Bundle(said[0]).value("run.trace_lost"))

    def test_a_program_that_protects_itself(self):
        """PTRACE_TRACEME fails where somebody traces the program already."""
        for mode in ("late", "eager"):
            for argv in ([], [self.shell(), "-c", '"$@"; exit $?', "sh"]):
                with self.subTest(mode=mode, argv=argv):
                    done = self.run_it(*argv, programs.compiled("tracing_program"), "myself", options=["--trace=" + mode])
                    self.assertEqual(done.status, 3)

    def test_a_target_that_holds_the_tracer(self):
        """It traces and stops what traces it: it goes on without a tracer, and ends as it would alone."""
        with Attacks("our processes held by ptrace") as attacks, attacks.one("tracer"):
            process, reader = self.interactive(programs.compiled("tracing_program", "-DBY_SYSCALL"), "parent", options=["--always"])
            done = self.rest(process, reader)
            if done.status == 77:
                self.skipTest("may not trace its parent here")
            self.assertEqual((done.status, done.target_stderr), (-signal.SIGTERM, "held\n"))
            self.assertIn("tracer ended", self.only_bundle(done).value("run.trace_lost"))

    def test_a_target_that_holds_all_of_us_and_crashes(self):
        """The tracer waits for the target, and the target for the tracer. The recorder, which we trace ourselves, ends that."""
        with Attacks("our processes held by ptrace") as attacks, attacks.one("all"):
            process, reader = self.interactive(self.shell(), "-c", 'ulimit -c 0; exec "$@"', "sh",
                                               programs.compiled("tracing_program", "-DBY_SYSCALL"), "all", options=["--always"])
            done = self.rest(process, reader)
            if done.status == 77:
                self.skipTest("may not trace its parent here")
            self.assertEqual((done.status, done.target_stderr), (-signal.SIGSEGV, ""))
            self.assertIn("tracer ended", self.only_bundle(done).value("run.trace_lost"))

    def hold(self, pid):
        """Stops it as a debugger does; returns what lets it go. None = refused."""
        libc = ctypes.CDLL(None)
        libc.ptrace.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
        if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
            return None
        libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
        os.waitpid(pid, WALL)
        return lambda: libc.ptrace(PTRACE_DETACH, pid, None, None)

    def test_a_tracer_that_is_held_for_a_moment(self):
        """A short hold is no reason to kill it."""
        process, reader = self.interactive(self.shell(), "-c", "ulimit -c 0; read line; kill -SEGV $$")
        tracer = self.helper(process.pid, "tracer")
        wait_for(lambda: self.traced_by(self.target_pid(process.pid)) == tracer, "the target to be traced")
        let_go = self.hold(tracer)
        if let_go is None:
            self.skipTest("may not hold it by ptrace here")
        time.sleep(1)
        let_go()
        self.line(process)
        bundle = self.only_bundle(self.rest(process, reader))
        self.assertIsNone(bundle.value("run.trace_lost"))
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")

    def traced_by(self, pid):
        return int(read(f"/proc/{pid}/status").split("TracerPid:")[1].split()[0])

    def test_the_recorder_has_its_tracer(self):
        """Nobody else gets it, and no signal stops it. A run without tracing has no need of that."""
        for mode in ("auto", "none"):
            with self.subTest(mode=mode):
                process, reader = self.interactive(self.shell(), "-c", "read line; exit 3", options=["--trace=" + mode, "--quiet"])
                recorder = self.helper(process.pid, "recorder")
                if mode == "none":
                    self.target_pid(process.pid)
                    before = support.switches(recorder)
                    wait_for(lambda r=recorder, n=before: support.switches(r) > n, "a turn of the recorder")
                    self.assertEqual(self.traced_by(recorder), 0)
                else:
                    wait_for(lambda r=recorder, p=process: self.traced_by(r) == p.pid, "the supervisor to trace it")
                    self.assertIsNone(self.hold(recorder))
                    os.kill(recorder, signal.SIGSTOP)
                    before = support.switches(recorder)
                    wait_for(lambda r=recorder, n=before: support.switches(r) > n + 2, "a turn of the recorder")
                    self.assertEqual(self.helper(process.pid, "recorder"), recorder)
                self.line(process)
                self.assertEqual(self.rest(process, reader).status, 3)

    def test_a_stop_that_cannot_be_answered(self):
        """The kernel refuses again and again: the target goes on without a tracer."""
        if CC is None:
            self.skipTest("no C compiler here")
        library = self.path("refused.so")
        subprocess.run([CC, "-shared", "-fPIC", "-o", library, self.write("refused.c", REFUSED)],
                       check=True)
        done = self.run_it(self.shell(), "-c", "kill -USR1 $$; exit 3", options=["--always"],
                           env=support.preloaded(self.environ, library))
        self.assertEqual(done.status, -signal.SIGUSR1)
        # It may also be released first because of its many stops.
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
        """It is tried every ten seconds, so that it costs little meanwhile."""
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
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):  # these options may send the report to a file
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
        """Some hundred threads at once, as numerical libraries start them, are no reason to release it."""
        process, reader = self.interactive(programs.program(), "many", "300", "10")
        reader.until(process.stdout, b"\n")
        target = self.word(reader.text(process.stdout).decode(), "pid")
        self.assertNotIn("TracerPid:\t0\n", read(f"/proc/{target}/status"))
        os.kill(target, signal.SIGKILL)
        self.assertEqual(self.rest(process, reader).status, -signal.SIGKILL)

    def test_many_short_children_are_let_go_and_that_is_said(self):
        # On a busy machine one process starts 35 a second. Sixteen keep the tracer busy, until a child has no tracer.
        code = ("import os\n"
                "def child_is_traced():\n"
                "    pid = os.fork()\n"
                "    if pid == 0: os._exit('TracerPid:\\t0\\n' not in open('/proc/self/status').read())\n"
                "    return os.waitpid(pid, 0)[1] != 0\n"
                "workers = []\n"
                "for _ in range(16):\n"
                "    workers.append(os.fork())\n"
                "    if workers[-1] == 0:\n"
                "        while child_is_traced(): pass\n"
                "        os._exit(0)\n"
                "for worker in workers: assert os.waitpid(worker, 0)[1] == 0\n"
                "os.abort()")
        done = self.python(code, options=["--trace=eager"])
        self.assertEqual(done.status, -signal.SIGABRT)
        bundle = self.only_bundle(done)
        self.assertIn("ended within a second", bundle.value("run.trace_lost"))
        # The parent itself is still traced.
        self.assertEqual(bundle.value("target.failed_signal_name"), "ABRT")
        self.assertGreater(bundle.value("proc.0.rss_bytes"), 0)

    def test_released_process_stays_released(self):
        """The kernel attaches its new threads for a moment."""
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


if __name__ == "__main__":
    support.main()
