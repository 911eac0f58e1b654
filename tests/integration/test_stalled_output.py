# SPDX-License-Identifier: Apache-2.0
"""A stderr that takes nothing: the caller still gets the program's end, and there is a bundle. Only our words may be lost."""

import os
import pty
import signal
import subprocess
import termios

import support
from support import PYTHON

CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
EXIT = "import os; os._exit(3)"


class StalledOutput(support.Case):
    def end_of(self, code, **streams):
        process = subprocess.Popen(self.command(PYTHON, "-S", "-c", code), stdin=subprocess.DEVNULL, env=self.environ,
                                   cwd=self.outdir, **streams)
        self.addCleanup(process.kill)
        return process.wait(timeout=support.PATIENCE_S)

    def stopped_terminal(self):
        reader, end = pty.openpty()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, end)
        termios.tcflow(end, termios.TCOOFF)  # as Ctrl-S does
        return end

    def full_pipe(self):
        reader, end = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, end)
        os.set_blocking(end, False)
        try:
            while True:
                os.write(end, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(end, True)
        return end

    def test_a_crash_on_a_stopped_terminal(self):
        end = self.stopped_terminal()
        self.assertEqual(self.end_of(CRASH, stdout=end, stderr=end), -signal.SIGSEGV)
        self.assertEqual(len(self.bundles()), 1)

    def test_a_status_on_a_stopped_terminal(self):
        end = self.stopped_terminal()
        self.assertEqual(self.end_of(EXIT, stdout=end, stderr=end), 3)

    def test_a_crash_with_a_full_pipe(self):
        self.assertEqual(self.end_of(CRASH, stdout=subprocess.DEVNULL, stderr=self.full_pipe()), -signal.SIGSEGV)
        self.assertEqual(len(self.bundles()), 1)

    def test_words_come_where_there_is_room(self):
        reader, end = os.pipe()
        self.addCleanup(os.close, reader)
        self.assertEqual(self.end_of(CRASH, stdout=subprocess.DEVNULL, stderr=end), -signal.SIGSEGV)
        os.close(end)
        with os.fdopen(os.dup(reader), "rb") as words:
            self.assertIn(b"rocmcrash: bundle: ", words.read())


if __name__ == "__main__":
    support.main()
