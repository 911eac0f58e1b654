# SPDX-License-Identifier: Apache-2.0
"""--hang-after=auto: the hook knows how long a step of training takes, so a standstill is seen sooner; where no steps are
known it takes as long as without. With PyTorch's stand-in, or a real PyTorch (2 or newer) of ROCMCRASH_TORCH_PYTHON."""

import glob
import os
import subprocess
import time

import support
from hooked import HOOK, STUB
from support import PATIENCE_S, PYTHON, Case, wait_for

TRAINS = """
import threading, time
if TORCH:
    import torch
    try:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=.1)
    except AttributeError:
        optimizer = torch.optim.Optimizer()
for _ in range(40):
    time.sleep(.1)
    if TORCH:
        optimizer.step()
print('trained', time.monotonic(), flush=True)
lock = threading.Lock()
lock.acquire()
def stuck():
    lock.acquire()
END
"""
STEPS = """
names = {}
exec(open(PATH).read(), names)
clock, pid, told = [0], [7], []
names["hook"] = {"flags": ("history", "steps=640"), "guarded": lambda where, step: step(), "monotonic_ns": lambda: clock[0],
                 "getpid": lambda: pid[0], "write_slot": lambda at, size, data: told.append((at, size, data))}
called = []
class optimizer:
    register_optimizer_step_post_hook = staticmethod(called.append)
class sys:
    modules = {"torch.optim.optimizer": optimizer}
names["hook"]["sys"] = sys
names["install"](names["hook"])
def steps(*lengths_ms):
    for length in lengths_ms:
        clock[0] += int(length * 1e6)
        called[0](None, (), {})
"""


def snapshots(folder):
    return [support.Bundle(path) for path in glob.glob(os.path.join(folder, "*.tar.gz"))]


class Steps(Case):
    def setUp(self):
        super().setUp()
        self.python = os.environ.get("ROCMCRASH_TORCH_PYTHON")
        if self.python is None:
            self.environ["PYTHONPATH"] = STUB

    def trains(self, name, with_torch, option="--hang-after=auto", end="stuck()"):
        folder = self.path(name)
        os.mkdir(folder)
        process = self.start(self.python or PYTHON, "-c", TRAINS.replace("TORCH", str(with_torch)).replace("END", end), cwd=folder,
                             options=(option, f"--output-dir={folder}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process, folder

    def test_sooner_where_steps_are_known(self):
        process, with_steps = self.trains("steps", True)
        _, without = self.trains("none", False)
        word, trained = process.stdout.readline().split()
        self.assertEqual(word, b"trained")
        bundle = wait_for(lambda: snapshots(with_steps), "the snapshot")[0]
        self.assertGreaterEqual(time.monotonic() - float(trained), 29)
        self.assertRegex(bundle.value("run.snapshot_why"),
                         r"^no output, CPU time or I/O for 3\d s; 99 of 100 of its steps took at most \d\.\d\d s$")
        self.assertEqual(snapshots(without), [])

    def test_no_step_while_it_spins_and_speaks(self):
        spins = "import sys\nwhile True:\n    print('.', file=sys.stderr, flush=True)\n    sum(range(1000000))"
        _, folder = self.trains("steps", True, "--bundle-at=step>3s", spins)
        process, without = self.trains("none", False, "--bundle-at=step>3s", spins)
        bundle = wait_for(lambda: snapshots(folder), "the bundle")[0]
        self.assertRegex(bundle.value("run.snapshot_why"), r"^step>3s \(it is [\d.]+ s\)$")
        self.assertEqual(snapshots(without), [])
        process.terminate()
        self.assertIn(b"--bundle-at=step>3s: that was never known here", process.communicate(timeout=PATIENCE_S)[1])

    def test_a_compiled_step_works_as_before(self):
        if self.python is None:
            self.skipTest("ROCMCRASH_TORCH_PYTHON names no Python with PyTorch")
        code = "import torch\nw = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(w.parameters(), lr=.1)\n" \
               "@torch.compile(backend='eager')\ndef step():\n    optimizer.step()\n" \
               "for _ in range(3):\n    w(torch.ones(2, 4)).sum().backward()\n    step()\nprint('stepped')"
        done = self.run_it(self.python, "-c", code, options=("--hang-after=auto",), timeout=300)
        self.assertEqual((done.status, done.stdout), (0, "stepped\n"), done.stderr[-2000:])

    def steps(self, code):
        done = subprocess.run([PYTHON, "-c", STEPS.replace("PATH", repr(os.path.join(HOOK, "rocmcrash_steps.py"))) + code],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_how_long_a_step_takes(self):
        self.assertEqual(self.steps("steps(5000, *[10] * 300)\nprint(told[-1])"),  # what came before the first step is none
                         [str((640, 64, b"7 201 10000 7010000000\n"))])
        self.assertEqual(self.steps("steps(0, *[10] * 198, 1000, 3000)\nprint(names['usual_us'](), len(told))"), ["1000000 3"])
        self.assertEqual(self.steps("steps(0, *[9000] * 9, *[10] * 256)\nprint(names['usual_us']())"), ["10000"])  # long ago

    def test_told_once_a_second(self):
        self.assertEqual(self.steps("steps(0, *[1] * 10500)\nprint(len(told))"), ["10"])

    def test_a_forked_process_has_its_own(self):
        self.assertEqual(self.steps("steps(0, *[10] * 30)\npid[0] = 8\nsteps(60000, 2000)\nprint(told[-1])"),
                         [str((640, 64, b"8 1 2000000 62300000000\n"))])

    def test_a_memory_that_cannot_be_written_is_asked_once(self):
        self.assertEqual(self.steps("tries = []\ndef refuse(*_):\n    tries.append(1)\n    raise OSError(13, 'no')\n"
                                    "names['hook']['write_slot'] = refuse\n"
                                    "def guarded(where, step):\n    try:\n        step()\n    except OSError: pass\n"
                                    "names['hook']['guarded'] = guarded\nsteps(0, *[2000] * 9)\nprint(len(tries))"), ["1"])


if __name__ == "__main__":
    support.main(side_by_side=4)
