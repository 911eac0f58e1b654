# SPDX-License-Identifier: Apache-2.0
"""Stops, continuations and signals reach a traced program as they reach an untraced one."""

import os
import signal
import subprocess
import time

import programs
import support
from support import PYTHON, read, wait_for


class JobControl(programs.Traced):
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
            # An orphaned process group ignores SIGTSTP: then the target goes on.
            if turn % 2:
                self.stopped(process.pid, target)
            os.killpg(process.pid, signal.SIGCONT)
            wait_for(lambda: support.state(process.pid) not in "Tt" and
                     support.state(target) not in "Tt", "both to go on")
        # One more signal to us alone arrives after all signals that could be doubled.
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
        """We stop with it and continue with it, several times."""
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

    def test_signals_right_after_a_continuation(self):
        """After a SIGCONT we must not swallow the stop that follows: the target would stay stopped for ever."""
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
        # Not before we have read the first: two pending signals of one number become one.
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


if __name__ == "__main__":
    support.main()
