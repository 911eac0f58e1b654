# SPDX-License-Identifier: Apache-2.0
"""When a bundle is left: 40 ways in which a program ends, and which of them leave one by default."""

import glob
import os
import pty
import subprocess
import unittest

import support
from support import PYTHON, ROCMCRASH

NO_CORE = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"


def raises(text, kind="RuntimeError"):
    return f"raise {kind}({text!r})"


def says(text, status=1):
    return f"import sys; sys.stderr.write({text + chr(10)!r}); sys.exit({status})"


# Errors of the program itself: no GPU, no memory, no resource, no driver has a part in them.
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
# Others that leave none.
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
# These have to do with the GPU, memory or resources, or crash.
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


class Policy(support.Case):
    def leaves(self, code, *options):
        command = [ROCMCRASH, "--output-dir", self.outdir, *options, "--", PYTHON, "-c", code]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=60)
        bundles = glob.glob(os.path.join(self.outdir, "*.tar.gz"))
        for path in bundles:
            os.unlink(path)
        own = [line for line in done.stderr.splitlines() if line.startswith("rocmcrash:")]
        self.assertEqual(bool(bundles), bool(own), done.stderr)
        return bool(bundles)

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
        ours, theirs = pty.openpty()
        done = subprocess.Popen([ROCMCRASH, "--output-dir", self.outdir, "--", PYTHON, "-c", PLAIN["value"]],
                                env=self.environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            text += data
        os.close(ours)
        self.assertEqual(done.wait(), 1)
        lines = [line for line in text.decode().splitlines() if line.startswith("rocmcrash:")]
        self.assertEqual(len(lines), 1, text)
        self.assertIn("--always", lines[0])
        self.assertEqual(self.bundles(), [])


if __name__ == "__main__":
    unittest.main()
