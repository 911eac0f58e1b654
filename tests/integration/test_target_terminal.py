# SPDX-License-Identifier: Apache-2.0
"""The target on a terminal: it sees, sets and does what it would without rocmcrash."""

import ctypes
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time

import support
from support import HIP_OOM, PYTHON, ROCMCRASH, WAKES, wait_for

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
# A program that draws on the terminal, and reads a key from fd 2 as vim does; and what it is linked with.
DRAWS = """
#include <unistd.h>
int tputs(const char *text, int lines, int (*put)(int));
int main(void)
{
    char key = '?';
    tputs("", 1, NULL);
    if (write(2, "press a key\\n", 12) == 12 && read(2, &key, 1) == 1 && write(1, "key ", 4) == 4)
        return write(1, &key, 1) == 1 ? tcgetpgrp(2) != getpgrp() : 3;
    return 2;
}
"""
TERMINAL_LIBRARY = "int tputs(const char *t, int n, int (*p)(int)) { return (t != 0) + n + (p != 0); }\n"


class Terminal(support.Case):
    """rocmcrash as the foreground job of a terminal that the test holds."""

    def spawn(self, *argv, size=(37, 91)):
        pid, master = pty.fork()
        if pid == 0:
            os.environ.update(self.environ)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background of a script
            os.execv(argv[0], argv)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.addCleanup(os.close, master)
        return pid, master

    def read_until(self, master, *texts):
        """Reads until the terminal shows one of them."""
        seen = b""

        def more():
            nonlocal seen
            if select.select([master], [], [], 0)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:
                    pass
            return any(text in seen for text in texts)
        try:
            wait_for(more, repr(texts))
        except AssertionError as error:
            raise AssertionError(f"{error}; the terminal shows {seen!r}") from None
        return seen

    def test_isatty_size_and_bytes(self):
        code = ("import os,sys\n"
                "print([os.isatty(i) for i in (0,1,2)], os.get_terminal_size(2), flush=True)\n"
                "sys.stderr.write('\\r 10%\\r 20%\\r100%\\n'); sys.stderr.flush(); print('END')\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c",
                                               "import sys; sys.stdin.readline()\n" + code))
        os.write(master, b"\n")
        seen = self.read_until(master, b"END\r\n")
        self.assertIn(b"[True, True, True] os.terminal_size(columns=91, lines=37)\r\n", seen)
        self.assertIn(b"\r 10%\r 20%\r100%\r\n", seen)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_ctrl_c_arrives_once(self):
        code = (WAKES + "import sys\nn=[0]\n"
                "def h(s,f): n[0]+=1; os.write(1,b'INT\\n')\n"
                "signal.signal(2,h); os.write(1,b'ready\\n')\n"
                "signal.signal(15,lambda s,f:(os.write(1,b'count %d\\n'%n[0]),sys.exit(0)))\n"
                "while True: wait()\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"ready")
        os.write(master, b"\x03")
        self.read_until(master, b"INT\r\n")
        os.kill(pid, signal.SIGTERM)
        self.read_until(master, b"count 1\r\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_a_shell_at_a_prompt_has_job_control(self):
        if shutil.which("bash") is None:
            self.skipTest("no bash here")
        code = "echo hi; sleep 0.1 & fg; echo status $?"
        shell = ["bash", "--norc", "--noprofile"]
        for argv in ([*shell, "-ic", code], shell, ["env", *shell, "-i"], ["env", *shell],
                     ["sh", "-c", "echo A; " + shlex.join([*shell, "-i"]) + "; echo B"],
                     [PYTHON, "-c", f"import os; os.execvp('bash', {['-bash', *shell[1:]]})"]):
            with self.subTest(argv=argv):
                pid, master = self.spawn(*self.command(*argv))
                if code not in argv:
                    os.write(master, (code + "; exit\n").encode())
                seen = self.read_until(master, b"status 0")
                self.assertNotIn(b"no job control", seen)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_a_script_of_a_shell_is_read(self):
        """A shell is linked with the library of terminals, too, but draws only at a prompt."""
        if shutil.which("bash") is None:
            self.skipTest("no bash here")
        script = self.write("train", f"#!{shutil.which('bash')}\necho {shlex.quote(HIP_OOM)} >&2; exit 1\n", 0o755)
        for argv in (["bash", script], [script], ["sh", "-c", "bash " + script + "; exit $?"], ["env", script]):
            with self.subTest(argv=argv):
                pid, master = self.spawn(*self.command(*argv))
                self.read_until(master, b"bundle")
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 1)
                self.assertEqual([b.text("output/stderr.txt").strip() for b in self.bundles()], [HIP_OOM.strip()])
                for bundle in self.bundles():
                    os.unlink(bundle.path)

    def drawing_program(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler here")
        library, program = self.path("libtinfo.so.6"), self.path("draws")
        subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libtinfo.so.6", "-o", library,
                        self.write("library.c", TERMINAL_LIBRARY)], check=True)
        subprocess.run([compiler, "-o", program, self.write("draws.c", DRAWS), library,
                        "-Wl,-rpath," + os.path.dirname(library)], check=True)
        return program

    def test_who_draws_has_the_terminal(self):
        """Its stdin is a pipe; it has job control and reads keys on fd 2. What was printed before comes first."""
        program = self.drawing_program()
        code = f"echo before; echo text | {program}; echo status $?"
        for argv in (["/bin/sh", "-c", 'echo text | "$@"; echo status $?', "sh", *self.command(program)],
                     self.command("/bin/sh", "-c", code), self.command("bash", "-c", code),
                     self.command(PYTHON, "-c", "import os, subprocess; print('before', flush=True)\n"
                                  f"r = subprocess.run({[program]}, stdin=subprocess.PIPE)\n"
                                  "print('status', r.returncode, flush=True)")):
            with self.subTest(argv=argv):
                pid, master = self.spawn(*argv)
                seen = self.read_until(master, b"press a key")
                if b"before" in " ".join(argv).encode():
                    self.assertIn(b"before", seen)
                os.write(master, b"k\n")
                self.assertIn(b"key k", self.read_until(master, b"status 0"))
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_who_cannot_be_started_changes_nothing(self):
        program = self.drawing_program()
        os.chmod(program, 0o644)
        code = ("import os\n"
                "def all(): return [(os.fstat(f).st_rdev, os.get_inheritable(f)) for f in (0, 1, 2)], os.listdir('/proc/self/fd')\n"
                "before = all()\n"
                f"try: os.execv({program!r}, ['draws'])\n"
                "except PermissionError: print('same', all() == before, flush=True)\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"same True")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_keys_for_an_editor(self):
        if shutil.which("vim") is None:
            self.skipTest("no vim here")
        self.environ["TERM"] = "xterm"
        vim = ["vim", "-u", "NONE", "-i", "NONE", "-n", "-"]
        for argv in (["/bin/sh", "-c", 'echo text | "$@"; echo status $?', "sh", *self.command(*vim)],
                     self.command("/bin/sh", "-c", "echo text | " + shlex.join(vim) + "; echo status $?")):
            with self.subTest(argv=argv):
                pid, master = self.spawn(*argv)
                self.read_until(master, b"text")
                os.write(master, b":q!\r")
                self.read_until(master, b"status 0")
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_keys_for_a_pager(self):
        """Its stdin is a pipe or a file: it reads keys from the terminal that stderr leads to. One that system() starts
        has our pty there."""
        for pager, last, by_system in (("less", b"(END)", False), ("less", b"(END)", True), ("more", b"line 999", False)):
            with self.subTest(pager=pager, by_system=by_system):
                if shutil.which(pager) is None:
                    self.skipTest(f"no {pager} here")
                self.environ["TERM"] = "xterm"
                code = "for n in $(seq 1000); do echo line $n; done | " + pager + "; echo the end"
                argv = [PYTHON, "-c", f"import os; os.system({code!r})"] if by_system else ["/bin/sh", "-c", code]
                pid, master = self.spawn(*self.command(*argv))
                self.read_until(master, b"line 20")
                os.write(master, b"G" if pager == "less" else b"9999\x0d")
                self.read_until(master, last)
                os.write(master, b"q")
                self.read_until(master, b"the end")
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_keys_for_all_others(self):
        """Who draws on the terminal and reads stdin (curses) gets every key, also those typed while it computes."""
        code = ("import os, subprocess, sys, termios, tty\n"
                "worker = subprocess.Popen(['cat'], stdin=subprocess.PIPE, close_fds=True)\n"
                "before = termios.tcgetattr(1); tty.setcbreak(1)\n"
                "os.write(1, b'ready\\n'); os.read(0, 1); keys = b''\n"
                "while not keys.endswith(b'.'):\n"
                "    sum(i * i for i in range(1000000)); keys += os.read(0, 1)\n"
                "termios.tcsetattr(1, termios.TCSANOW, before)\n"
                "print('keys', keys.decode(), flush=True); worker.stdin.close(); worker.wait()\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"ready")
        os.write(master, b"xabcdefghij.")
        self.read_until(master, b"keys abcdefghij.")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_new_size(self):
        """The target sees the new size at once, and gets SIGWINCH again when its own terminal has it."""
        code = (WAKES +
                "signal.signal(28, lambda *_: os.write(1, b'size %d %d\\n' % os.get_terminal_size(2)))\n"  # print() is not reentrant
                "print('ready', flush=True)\n"
                "while True: wait()")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"ready")
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: support.state(pid) == "T", "us to stop")
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self.read_until(master, b"size 120 50")  # from the terminal, which knows nothing of ours
        os.kill(pid, signal.SIGCONT)
        self.read_until(master, b"size 120 50")
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)

    def test_owner_and_mode(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        code = ("import os, sys; sys.stdin.readline(); st = os.stat('/proc/self/fd/2')\n"
                "print('is', st.st_uid, st.st_gid, oct(st.st_mode & 0o777), flush=True)")
        pid, master = self.spawn("/bin/sh", "-c", 'chown 65534:65533 /proc/self/fd/2; '
                                 'chmod 0641 /proc/self/fd/2; exec "$@"', "sh",
                                 *self.command(PYTHON, "-c", code))
        os.write(master, b"\n")
        self.read_until(master, b"is 65534 65533 0o641\r\n")
        os.waitpid(pid, 0)

    def test_modes_of_both_terminals_agree(self):
        """curses sets modes on stdout, and getpass() asks /dev/tty right after it; and the other way round."""
        code = ("import fcntl, os, termios, tty\n"
                "ends = 1, os.open('/dev/tty', os.O_RDWR)\n"
                "def modes(fd): return termios.tcgetattr(fd)[0], termios.tcgetattr(fd)[3], termios.tcgetattr(fd)[6]\n"
                "def out(): return bool(termios.tcgetattr(0)[1] & termios.OPOST)\n"
                "before = termios.tcgetattr(1); wrong = 0; outs = set()\n"
                "raw_before = fcntl.ioctl(1, termios.TCGETS, bytes(36))\n"
                "for n in range(400):\n"
                "    fd = ends[n // 2 % 2]\n"
                "    tty.setraw(fd, when=n % 3) if n % 2 == 0 else termios.tcsetattr(fd, n % 3, before)\n"
                "    wrong += modes(ends[0]) != modes(ends[1])\n"
                "    outs.add((n % 2, out())) if fd == 1 else None\n"
                "tty.setcbreak(1); fcntl.ioctl(1, termios.TCSETSW, raw_before)\n"
                "wrong += fcntl.ioctl(1, termios.TCGETS, bytes(36)) != fcntl.ioctl(0, termios.TCGETS, bytes(36))\n"
                "old = termios.tcgetattr(ends[1])\n"
                "print('wrong', wrong, 'echo', bool(old[3] & termios.ECHO), sorted(outs), flush=True)\n"
                "os.read(0, 1)\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"wrong 0 echo True [(0, False), (1, True)]\r\n")
        os.write(master, b"\n")
        os.waitpid(pid, 0)

    def test_output_comes_before_what_is_written_to_the_terminal(self):
        """A question on /dev/tty after a line on stdout; new modes of output after a line that is for the old ones."""
        asks = ("import os, sys\n"
                "for n in range(30):\n"
                "    print('line', n, flush=True); fd = os.open('/dev/tty', os.O_WRONLY)\n"
                "    os.write(fd, b'ask %d\\n' % n); os.close(fd)\n"
                "print('END'); sys.stdin.readline()")
        modes = ("import os, sys, termios, tty\n"
                 "before = termios.tcgetattr(0)\n"
                 "for n in range(30):\n"
                 "    tty.setraw(n % 2); os.write(1, b'raw\\n')\n"
                 "    termios.tcsetattr(n % 2, termios.TCSADRAIN, before); os.write(1, b'cooked\\n')\n"
                 "print('END'); sys.stdin.readline()")
        for code, wanted in ((asks, b"".join(b"line %d\r\nask %d\r\n" % (n, n) for n in range(30))),
                             (modes, b"raw\ncooked\r\n" * 30)):
            with self.subTest(code=code):
                pid, master = self.spawn(*self.command(PYTHON, "-c", code))
                self.assertEqual(self.read_until(master, b"END\r\n"), wanted + b"END\r\n")
                os.write(master, b"\n")
                os.waitpid(pid, 0)

    def test_only_our_own_pipe_is_asked(self):
        """In another PID namespace our pid may be another process, and our number a pipe of its own."""
        code = "import os; os.close(os.open('/dev/tty', os.O_WRONLY)); print('END', flush=True)"
        library = os.path.join(os.path.dirname(ROCMCRASH), "librocmcrash-ledger.so")
        asked = os.pipe()
        self.addCleanup(os.close, asked[0])
        self.addCleanup(os.close, asked[1])
        os.set_blocking(asked[0], False)
        for wrong, wanted in ((0, b"\0"), (1, None)):
            with self.subTest(wrong=wrong):
                self.environ.update(LD_PRELOAD=library, ROCMCRASH_LEDGER=(
                    f"{os.getpid()}:0:1:1:1:1:{asked[1]}:{os.fstat(asked[1]).st_ino + wrong}"))
                pid, master = self.spawn(PYTHON, "-c", code)
                self.read_until(master, b"END")
                os.waitpid(pid, 0)
                try:
                    got = os.read(asked[0], 10)
                except BlockingIOError:
                    got = None
                self.assertEqual(got, wanted)

    def test_size_and_queue_are_those_of_the_terminal(self):
        code = ("import fcntl, os, select, struct, termios\n"
                "fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 34, 77, 0, 0))\n"
                "print('size', os.get_terminal_size(0), flush=True)\n"
                "select.select([0], [], [])\n"
                "termios.tcflush(1, termios.TCIFLUSH)\n"
                "print('typed', select.select([0], [], [], 0)[0], flush=True); os.read(0, 1)")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"size os.terminal_size(columns=77, lines=34)")
        os.write(master, b"x\n")
        self.read_until(master, b"typed []")
        os.write(master, b"\n")
        os.waitpid(pid, 0)

    def test_a_program_that_allows_itself_few_calls(self):
        """It ends at any other call: read, write, ioctl and the ends of a process are all that it may make."""
        code = ("import ctypes, os, struct, termios\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                "allowed = 0, 1, 16, 60, 231\n"
                "rules = [(0x20, 0, 0, 0)]\n"
                "rules += [(0x15, len(allowed) - i, 0, n) for i, n in enumerate(allowed)]\n"
                "rules += [(6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000)]\n"
                "body = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *r) for r in rules))\n"
                "filter = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(body))\n"
                "libc.prctl(38, 1, 0, 0, 0)\n"
                "modes = ctypes.create_string_buffer(256)\n"
                "assert libc.prctl(22, 2, ctypes.c_char_p(filter), 0, 0) == 0\n"
                "for fd in 0, 1: libc.tcgetattr(fd, modes); libc.tcsetattr(fd, 0, modes)\n"
                "libc.write(1, b'done', 4); libc._exit(0)\n")
        pid, master = self.spawn(*self.command(PYTHON, "-c", code))
        self.read_until(master, b"done")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_modes_of_a_background_job(self):
        """Setting them stops it, as without rocmcrash. In the foreground they are the terminal's."""
        setter = ("import os, termios, time\n"
                  "modes = termios.tcgetattr(2)\n"
                  "modes[0] ^= termios.IXANY\n"
                  "termios.tcsetattr(2, termios.TCSANOW, modes)\n"
                  "for word in ('one', 'two', 'three'): time.sleep(0.3); os.write(2, word.encode())")
        starter = ("import os, signal, sys\n"
                   "pid = os.fork()\n"
                   "if pid == 0:\n"
                   "    if sys.argv[1] == 'background': os.setpgid(0, 0)\n"
                   "    os.execv(sys.argv[2], sys.argv[2:])\n"
                   "status = os.waitpid(pid, os.WUNTRACED)[1]\n"
                   "print('END', os.WIFSTOPPED(status) and signal.Signals(os.WSTOPSIG(status)).name, flush=True)\n"
                   "if os.WIFSTOPPED(status): os.killpg(pid, 9)\n"
                   "sys.stdin.readline()")
        for where, stop, changed in (("background", b"SIGTTOU", False), ("foreground", b"False", True)):
            for ours in (False, True):
                with self.subTest(where=where, ours=ours):
                    command = self.command(PYTHON, "-c", setter) if ours else [PYTHON, "-c", setter]
                    pid, master = self.spawn(PYTHON, "-c", starter, where, *command)
                    before = termios.tcgetattr(master)[0]
                    self.read_until(master, b"END " + stop)
                    self.assertEqual(termios.tcgetattr(master)[0] ^ before, termios.IXANY if changed else 0)
                    os.write(master, b"\n")
                    os.waitpid(pid, 0)

    def prompt(self):
        """A shell with job control. Returns its pid and its terminal."""
        pid, master = self.spawn("/bin/bash", "--norc", "-i")
        # Typed in two pieces: only the prompt itself reads like that, whatever readline echoes.
        os.write(master, b"PS1='rea''dy> '\n")
        self.read_until(master, b"ready> ")
        return pid, master

    def leave(self, pid, master):
        """Leaves that shell, whose job has ended."""
        self.read_until(master, b"ready> ")
        os.write(master, b"exit\n")
        os.waitpid(pid, 0)

    def type_command(self, master, *argv):
        os.write(master, shlex.join(argv).encode() + b"\n")

    def test_ctrl_z_and_fg(self):
        pid, master = self.prompt()
        self.type_command(master, *self.command(
            PYTHON, "-c", "import sys; print('up',flush=True); print('got '+sys.stdin.readline())"))
        self.read_until(master, b"up\r\n")
        os.write(master, b"\x1a")
        self.read_until(master, b"Stopped")
        os.write(master, b"fg\nhello\n")
        self.read_until(master, b"got hello")
        os.write(master, b"exit\n")
        os.waitpid(pid, 0)

    def test_new_size_while_stopped(self):
        """The shell gets that SIGWINCH, not the job. After fg the whole job gets one."""
        code = (WAKES +
                "signal.signal(28, lambda *_: os.write(1, b'size %d %d\\n' % os.get_terminal_size(2)))\n"
                "print('up', flush=True)\n"
                "while True: wait()")
        script = self.write("script.py", code)
        for rows, argv in ((50, (PYTHON, script)), (51, ("/bin/sh", "-c", f"{PYTHON} {script}; :"))):
            with self.subTest(argv=argv):
                pid, master = self.prompt()
                self.type_command(master, *self.command(*argv))
                self.read_until(master, b"up\r\n")
                os.write(master, b"\x1a")
                self.read_until(master, b"ready> ")
                fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 120, 0, 0))
                os.write(master, b"fg\n")
                self.read_until(master, b"size 120 %d" % rows)
                os.write(master, b"\x03")
                self.leave(pid, master)

    # Says when it goes on, and what it reads.
    TALKER = (WAKES + "import sys\n"
              "signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'on\\n'))\n"
              "def leave(*_): os.write(1, b'x' * int(sys.argv[1]) + b'\\nlast\\n'); signal.raise_signal(signal.SIGSTOP)\n"
              "signal.signal(signal.SIGTSTP, leave)\n"
              "print('group', os.getpgrp(), 'is up', flush=True); line = b''\n"
              "while line != b'end\\n':\n"
              "    if wait(0): line = os.read(0, 100); os.write(1, b'got ' + line)\n")

    def test_stop_of_the_whole_job(self):
        """The first fg goes on, although we were stopped before we read that the target stopped."""
        script = self.write("talker.py", self.TALKER)
        for option in ("--quiet", "--follow=none", "--trace=none", "--trace=late", "--trace=eager"):
            with self.subTest(option=option):
                pid, master = self.prompt()
                self.type_command(master, *self.command(PYTHON, script, "0", options=[option]))
                group = int(self.read_until(master, b"is up").split()[-3])
                for turn in range(10):
                    os.killpg(group, signal.SIGSTOP)
                    self.read_until(master, b"ready> ")
                    os.write(master, b"fg\n")
                    seen = self.read_until(master, b"on\r\n", b"Stopped")
                    os.write(master, b"%d\n" % turn)
                    seen += self.read_until(master, b"got %d" % turn, b"Stopped", b"not found")
                    self.assertNotRegex(seen, b"Stopped|not found", turn)
                os.write(master, b"end\n")
                self.leave(pid, master)

    def test_last_output_before_the_prompt(self):
        """A program writes and stops. The terminal shows all of it before the prompt."""
        script = self.write("talker.py", self.TALKER)
        pid, master = self.prompt()
        self.type_command(master, *self.command(PYTHON, script, "20000"))
        self.read_until(master, b"is up")
        for turn in range(10):
            os.write(master, b"\x1a")
            seen = self.read_until(master, b"ready> ")
            self.assertIn(b"\nlast\r\n", seen.split(b"Stopped")[0], turn)
            os.write(master, b"fg\n")
            self.read_until(master, b"on\r\n")
        os.write(master, b"end\n")
        self.leave(pid, master)

    def go_on_after_ctrl_s(self, pid, master, group):
        wait_for(lambda: support.state(group) == "T", "us to stop")
        os.write(master, b"\x11")
        self.read_until(master, b"last\r\n")
        os.write(master, b"fg\n")
        self.read_until(master, b"on\r\n")
        os.write(master, b"end\n")
        self.leave(pid, master)

    def test_stop_while_the_terminal_takes_no_bytes(self):
        """After Ctrl-S the last output has to wait. The stop has not."""
        script = self.write("talker.py", self.TALKER)
        pid, master = self.prompt()
        self.type_command(master, *self.command(PYTHON, script, "200"))
        group = int(self.read_until(master, b"is up").split()[-3])
        os.write(master, b"\x13")
        os.killpg(group, signal.SIGTSTP)
        self.go_on_after_ctrl_s(pid, master, group)

    @staticmethod
    def is_pending(pid, number):
        """Real line: "ShdPnd:\t0000000000020000"."""
        return int(support.read(f"/proc/{pid}/status").split("ShdPnd:")[1].split()[0], 16) >> number - 1 & 1 != 0

    def test_stop_after_a_signal_to_go_on(self):
        """A stop cancels a SIGCONT before it, also one that we keep to see whether the target got it, too."""
        script = self.write("talker.py", self.TALKER)
        pid, master = self.prompt()
        self.type_command(master, *self.command(PYTHON, script, "200"))
        group = int(self.read_until(master, b"is up").split()[-3])
        os.write(master, b"\x13")  # Ctrl-S: the last output has to wait, and we wait for it
        os.kill(group, signal.SIGCONT)
        while self.is_pending(group, signal.SIGCONT):  # it is kept for 20 ms only
            pass
        os.killpg(group, signal.SIGTSTP)
        self.go_on_after_ctrl_s(pid, master, group)

    def test_fg_after_a_stop_that_we_read_late(self):
        """A SIGCONT cancels a stop before it, also one that we keep because the target took it long before us."""
        libc = ctypes.CDLL(None)
        libc.ptrace.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
        script = self.write("talker.py", self.TALKER)
        pid, master = self.prompt()
        self.type_command(master, *self.command(PYTHON, script, "0"))
        group = int(self.read_until(master, b"is up").split()[-3])
        target = self.target_pid(group)
        if libc.ptrace(PTRACE_SEIZE, group, None, None) != 0:
            self.skipTest("may not hold it by ptrace here")
        libc.ptrace(PTRACE_INTERRUPT, group, None, None)
        os.waitpid(group, WALL)
        os.killpg(group, signal.SIGTSTP)
        wait_for(lambda: support.state(target) in ("t", "T"), "the target to stop")
        time.sleep(0.1)  # so late are we
        libc.ptrace(PTRACE_DETACH, group, None, None)
        self.read_until(master, b"ready> ")
        os.write(master, b"fg\n")
        seen = self.read_until(master, b"on\r\n")
        for turn in range(20):
            os.write(master, b"%d\n" % turn)
            seen += self.read_until(master, b"got %d" % turn, b"Stopped")
            self.assertNotIn(b"Stopped", seen, turn)
        os.write(master, b"end\n")
        self.leave(pid, master)


if __name__ == "__main__":
    support.main()
