# SPDX-License-Identifier: Apache-2.0
"""Several programs that write to one terminal, pipe or socket: what each of them writes at once stays together, as without us."""

import os
import pty
import re
import shlex
import socket
import subprocess
import time

import support
from support import PYTHON

RANKS = 8
# (bytes of a line, lines); a line of 3,000 bytes is more than the kernel hands to a terminal at once.
LINES = (50, 300), (300, 300), (1000, 200), (3000, 100)
WRITES = f"""
import os, sys
rank, fd = map(int, sys.argv[1:])
for length, count in {LINES!r}:
    for n in range(count):
        line = (b"<%d %d %d " % (rank, length, n)).ljust(length - 2, b"abcdefgh"[rank:rank + 1]) + b">\\n"
        while line:
            line = line[os.write(fd, line):]
"""
LINE = re.compile(rb"<(\d) (\d+) (\d+) ([a-h])\4*>\Z")


class SharedOutput(support.Case):
    def setUp(self):
        super().setUp()
        self.program = self.write("writes.py", WRITES)

    def ranks(self, fd, command):
        """A shell that runs the program in the background several times."""
        return "".join(f"{shlex.join(command(PYTHON, '-S', self.program, str(rank), str(fd)))} & "
                       for rank in range(RANKS)) + "wait"

    def take(self, reader, pause_s):
        """Reads to the end; with a pause, no faster than a slow terminal."""
        seen = []
        while True:
            try:
                data = os.read(reader, 4096 if pause_s else 65536)
            except OSError:  # EIO: the last one has closed the terminal
                data = b""
            if not data:
                return b"".join(seen)
            seen.append(data)
            time.sleep(pause_s)  # not to wait for something: the reader is slow

    def start_on(self, kind, fd, command):
        """Returns the shell and the descriptor at which its output arrives."""
        if kind == "terminal":
            reader, end = pty.openpty()
        elif kind == "pipe":
            reader, end = os.pipe()
        else:
            reader, end = (side.detach() for side in socket.socketpair())
        own = {"stdout": end, "stderr": end} if kind == "terminal" else {
            "stdout": end if fd == 1 else subprocess.DEVNULL, "stderr": end if fd == 2 else subprocess.DEVNULL}
        shell = subprocess.Popen(["sh", "-c", self.ranks(fd, command)], stdin=subprocess.DEVNULL, env=self.environ,
                                 cwd=self.outdir, **own)
        os.close(end)
        self.addCleanup(os.close, reader)
        return shell, reader

    def assert_whole_lines(self, kind, fd, command, pause_s):
        shell, reader = self.start_on(kind, fd, command)
        seen = self.take(reader, pause_s).replace(b"\r\n", b"\n")
        self.assertEqual(shell.wait(timeout=support.PATIENCE_S), 0)
        lines = [LINE.match(line) for line in seen.split(b"\n")[:-1]]
        torn = [line for line, match in zip(seen.split(b"\n"), lines) if match is None or len(line) + 1 != int(match[2])]
        self.assertEqual(len(torn), 0, torn[:3])
        for rank in range(RANKS):
            self.assertEqual([(int(match[2]), int(match[3])) for match in lines if int(match[1]) == rank],
                             [(length, n) for length, count in LINES for n in range(count)])

    def assert_as_without_us(self, kind, fd, options=()):
        for pause_s in (0, 0.001):
            with self.subTest(pause_s=pause_s):
                self.assert_whole_lines(kind, fd, lambda *argv: argv, pause_s)
                self.assert_whole_lines(kind, fd, lambda *argv: self.command(*argv, options=options), pause_s)

    def test_a_terminal(self):
        self.assert_as_without_us("terminal", 1)

    def test_a_pipe(self):
        """A write of up to PIPE_BUF bytes (4,096)."""
        self.assert_as_without_us("pipe", 2)
        self.assert_as_without_us("pipe", 1, options=("--follow=all",))

    def test_a_socket(self):
        self.assert_as_without_us("socket", 2)

    def test_a_slow_terminal_and_a_program_without_us(self):
        """Nobody gets in between while the terminal has no room for the rest of our line."""
        ours = self.command(PYTHON, "-S", self.program, "0", "2")
        shell, reader = self.start_on("terminal", 2, lambda *argv: ours if argv[-2] == "0" else argv)
        seen = self.take(reader, 0.001)
        self.assertEqual(shell.wait(timeout=support.PATIENCE_S), 0)
        self.assertEqual([line for line in seen.split(b"\r\n")[:-1] if not LINE.match(line)][:3], [])


if __name__ == "__main__":
    support.main()
