# SPDX-License-Identifier: Apache-2.0
"""When a bundle is left: 40 ways in which a program ends, and which of them leave a bundle by default."""

import glob
import os
import pty
import signal
import shutil
import subprocess

import support
from support import PYTHON, ROCMCRASH

NO_CORE = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"


def raises(text, kind="RuntimeError"):
    return f"raise {kind}({text!r})"


def says(text, status=1):
    return f"import sys; sys.stderr.write({text + chr(10)!r}); sys.exit({status})"


# Errors of the program itself. They have nothing to do with GPU, memory, resources or driver.
PLAIN = {
    "value": raises("could not convert", "ValueError"),
    "shapes": raises("mat1 and mat2 shapes cannot be multiplied (3x11 and 10x10)"),
    "key": "{}['learning_rate']",
    "index": "[][3]",
    "type": "len(3)",
    "attribute": "object().forward",
    "zero": "1 / 0",
    "assertion": "assert 1 == 2, 'loss is not finite'",
    "import": "import a_module_that_nobody_has",
    "import from": "from os import a_name_that_nobody_has",
    "file": "open('/nonexistent/config.yaml')",
    "called process": "import subprocess; subprocess.run(['false'], check=True)",
    "failing test": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 2)\nunittest.main()",
    "in a thread": "import threading, sys\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); sys.exit(1)",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e",
}
# Other endings that leave no bundle.
SILENT = {
    "ends well": "pass",
    "status only": "import sys; sys.exit(3)",
    "usage": "import argparse; argparse.ArgumentParser().parse_args(['--nothing'])",
    "make": says("make: *** [Makefile:2: all] Error 2", 2),
    "handled": "try:\n    raise RuntimeError('no')\nexcept RuntimeError:\n    pass",
    "says and ends well": says("Traceback (most recent call last):", 0),
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "hung up": "import os, signal; os.kill(os.getpid(), signal.SIGHUP)",
    "handler leaves": "import os, signal, sys\nsignal.signal(15, lambda *_: sys.exit(0)); os.kill(os.getpid(), 15)",
}
# These have to do with the GPU, memory or resources, or are crashes.
KEPT = {
    "refused": raises("HIP out of memory. Tried to allocate 20.00 GiB."),
    "refused by XLA": raises("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 30.45MiB"),
    "device assertion": raises("HIP error: device-side assert triggered"),
    "illegal access": raises("HIP error: an illegal memory access was encountered"),
    "asynchronous": raises("HIP error: invalid argument\nHIP kernel errors might be asynchronously reported"),
    "no device": raises("No HIP GPUs are available"),
    "wrong code": raises("HIP error: invalid device function"),
    "library missing": raises("libamdhip64.so.6: cannot open shared object file: No such file", "ImportError"),
    "graphs": raises("accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"),
    "RAM refused": "bytearray(1 << 62)\n" + raises("Unable to allocate 512. MiB for an array", "MemoryError"),
    "descriptors": raises("[Errno 24] Too many open files", "OSError"),
    "worker killed": raises("DataLoader worker (pid 12) is killed by signal: Killed."),
    "segmentation fault": NO_CORE + "import ctypes; ctypes.string_at(16)",
    "abort": NO_CORE + "import os; os.abort()",
    "killed": "import os; os.kill(os.getpid(), 9)",
}


# Failures of other programs below the command: (command, its status, whether it leaves a bundle).
COMMANDS = {
    "nested shells": (["sh", "-c", "sh -c 'sh -c \"exit 7\"'"], 7, False),
    "make -k": (["make", "-k", "-f", "{file}"], 2, False),
    "time is up": (["timeout", "0.3", "sleep", "20"], 124, False),
    "xargs": (["sh", "-c", "echo a b | xargs -n1 false"], 123, False),
    "a pipe is closed": (["sh", "-c", "yes | head -n 1 >/dev/null"], 0, False),
    "says 137": (["sh", "-c", "exit 137"], 137, False),
    "a child crashes and is coped with": (["sh", "-c", "ulimit -c 0; sh -c 'kill -ABRT $$'; exit 0"], 0, False),
    "interrupted while workers run": ([PYTHON, "-c", "import multiprocessing as m, os, time\nw = m.Process(target=time.sleep, args=(0.2,))\n"
                                       "w.start(); os.kill(os.getpid(), 2); w.join()"], None, False),
    "a daemon crashes behind it": ([PYTHON, "-c", NO_CORE + "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
                                    "        os.kill(os.getpid(), 11)\n    os._exit(0)\nos.wait()"], 0, False),
    "refused, then status 3": ([PYTHON, "-c", "import sys\ntry:\n    raise RuntimeError('HIP out of memory. Tried to allocate 2.00 GiB.')\n"
                                "except RuntimeError as e:\n    print(e, file=sys.stderr); sys.exit(3)"], 3, True),
    "killed by timeout": (["timeout", "-s", "KILL", "0.3", "sleep", "20"], -9, True),
    "a child is killed": ([PYTHON, "-c", "import subprocess, sys\n"
                           "sys.exit(subprocess.run(['sh', '-c', 'kill -9 $$']).returncode & 255)"], 247, True),
}


EAGER = ["--trace=eager"]  # an ordinary user's children are traced only after a while; these end at once


class Policy(support.Case):
    def leaves(self, code, *options):
        return self.run_of([PYTHON, "-c", code], *options)[0]

    def run_of(self, program, *options):
        """(whether a bundle is left, exit status, what our last lines say)"""
        command = [ROCMCRASH, "--output-dir", self.outdir, *options, "--", *program]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=support.PATIENCE_S)
        bundles = glob.glob(os.path.join(self.outdir, "*.tar.gz"))
        for path in bundles:
            os.unlink(path)
        own = [line for line in done.stderr.splitlines() if line.startswith("rocmcrash:")]
        self.assertEqual(bool(bundles), bool(own), done.stderr)
        return bool(bundles), done.returncode, " ".join(own)

    def test_through_other_programs(self):
        makefile = self.path("Makefile")
        with open(makefile, "w", encoding="ascii") as file:
            file.write("all: a b\na: ; @false\nb: ; @true\n")
        for name, (command, status, kept) in COMMANDS.items():
            with self.subTest(name):
                if shutil.which(command[0]) is None:
                    self.skipTest(f"no {command[0]} here")
                left, ended, _ = self.run_of([part.replace("{file}", makefile) for part in command], *EAGER)
                self.assertEqual((left, ended if status is not None else None), (kept, status))

    def test_sigkill_from_outside_is_said_to_be_that(self):
        """It is not blamed on the limit of locked memory, which every machine has."""
        for name in ("killed by timeout", "a child is killed"):
            _, _, said = self.run_of(COMMANDS[name][0], *EAGER)
            self.assertIn("SIGKILL ended the program", said)
            self.assertNotIn("rocmcrash issue", said)  # no issue is needed until the sender is known
            self.assertNotIn("resource-limit", said)

    def check(self, endings, kept, *options):
        wrong = [name for name, code in endings.items() if self.leaves(code, *options) != kept]
        self.assertEqual(wrong, [])

    def test_there_are_forty(self):
        self.assertEqual((len(PLAIN), len(PLAIN) + len(SILENT) + len(KEPT)), (15, 40))

    def test_plain_errors_leave_nothing(self):
        self.check(PLAIN, False)

    def test_others_leave_nothing(self):
        self.check(SILENT, False)

    def test_what_has_to_do_with_gpu_memory_or_crashes_is_kept(self):
        self.check(KEPT, True)

    def test_on_error_and_on_signal(self):
        self.check({name: PLAIN[name] for name in ("value", "import")}, True, "--bundle-on=error")
        self.check({"terminated": SILENT["terminated"]}, True, "--bundle-on=signal")
        self.check({name: SILENT[name] for name in ("ends well", "terminated")}, False, "--bundle-on=error")

    def test_a_signal_to_one_that_was_failing_leaves_a_bundle(self):
        self.assertTrue(self.leaves("import os, sys\nsys.stderr.write('HIP out of memory. Tried to allocate 2 GiB\\n')\n"
                                    "sys.stderr.flush()\nimport time; time.sleep(0.3)\nos.kill(os.getpid(), 15)"))

    def test_a_terminal_is_told_how_to_get_one(self):
        for code, told in ((PLAIN["value"], "an error of the program itself"), ("import sys; sys.exit(1)", "exit status 1"),
                           ("import sys; sys.exit(130)", None), ("import sys; sys.exit(200)", "exit status 200"),
                           ("import sys; sys.exit(255)", "exit status 255")):
            command = [ROCMCRASH, "--output-dir", self.outdir, "--", PYTHON, "-c", code]
            _, text = self.on_terminal(command, self.environ)
            lines = [line for line in text.splitlines() if line.startswith("rocmcrash:")]
            self.assertEqual(lines, [f"rocmcrash: {told}: no bundle (--always makes one)"] if told else [], text)
            self.assertEqual(self.bundles(), [])


class Preview(support.Case):
    """The owner decides on the terminal whether the bundle stays."""
    FAILS = "import os, sys\nsys.stderr.write('password=PLANTED-value-77\\n')\nsys.stderr.flush()\nos.abort()"

    def answered(self, answer, before=None):
        pid, ours = pty.fork()
        if pid == 0:
            os.execve(ROCMCRASH, [ROCMCRASH, "--preview", "--output-dir", self.outdir, "--", PYTHON, "-c", self.FAILS],
                      self.environ)
        text, said = b"", False
        while data := support.read_terminal(ours):
            text += data
            if not said and text.endswith(b"keep the bundle? [Y/n] "):
                said = True
                if before is not None:
                    os.kill(pid, before)
                os.write(ours, answer)
        os.close(ours)
        self.assertEqual(os.waitpid(pid, 0)[1] & 0x7f, signal.SIGABRT, text)
        self.assertTrue(said, text)
        self.assertLess(text.index(b"preview: secret"), text.index(b"keep the bundle?"))
        return text

    def test_no_removes_it(self):
        self.assertIn(b"the bundle was removed", self.answered(b"n\n"))
        self.assertEqual(self.bundles(), [])

    def test_a_helper_that_ends_is_no_answer(self):
        for _ in range(5):  # either the signal or the answer may come first
            self.assertIn(b"the bundle was removed", self.answered(b"n\n", before=signal.SIGCHLD))

    def test_anything_else_keeps_it(self):
        for answer in (b"\n", b"yes\n", b"\x04", b"\x03"):
            self.assertIn(b"the bundle is kept", self.answered(answer))
            self.assertEqual(len(self.bundles()), 1, answer)
            os.unlink(self.bundles()[0].path)

    def test_nothing_is_asked_without_a_terminal(self):
        done = self.run_it(PYTHON, "-c", self.FAILS, options=["--preview"])
        self.assertIn("no terminal to ask on: the bundle is kept", "\n".join(done.own_lines))
        self.assertEqual(len(self.bundles()), 1)


if __name__ == "__main__":
    support.main(side_by_side=4)
