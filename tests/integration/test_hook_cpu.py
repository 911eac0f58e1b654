# SPDX-License-Identifier: Apache-2.0
"""The Python hook beside a real PyTorch that has no device: no observer, no context, no thread, no
other output. Any build will do (Debian's python3-torch, a wheel); ROCMCRASH_TORCH_PYTHON names a Python that has it.
Without one the tests are skipped."""
import ast
import functools
import glob
import os
import re
import subprocess
import sys

import support
from support import PYTHON, ROCMCRASH
from hooked import Direct, HOOK

TIMEOUT_S = 900  # a wheel's import reads gigabytes

# A CPU program's use of PyTorch. `spawn` starts new Pythons, `fork` copies this one.
WORK = """
import hashlib, io, os, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.full((3,), float(i * i))


class Broken(Squares):
    def __getitem__(self, i):
        raise ValueError("no item %d" % i)


def saved():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimiser.step()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert all(torch.equal(loaded[k], v) for k, v in model.state_dict().items())
    return ["%.6f" % float(v.sum()) for v in loaded.values()]


def loaded(method):
    loader = DataLoader(Squares(), batch_size=5, num_workers=2, multiprocessing_context=method)
    return [int(batch.sum()) for batch in loader]


def state():
    frames = [str(f) for _, stack in getattr(torch.cuda, "_queued_calls", []) for f in stack]
    return {"modules": sorted(n for n in sys.modules if "rocmcrash" in n),
            "meta_path": [str(f) for f in sys.meta_path if "FaulthandlerFinder" not in str(f)],
            "initialised": torch.cuda.is_initialized(),
            "devices": [w for w in ("/dev/nvidia", "/dev/kfd", "/dev/dri") if w in open("/proc/self/maps").read()],
            "loader": type(torch.__loader__).__name__, "loader_dict": sorted(torch.__loader__.__dict__),
            "excepthook": sys.excepthook is sys.__excepthook__}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(saved())
    print(loaded("fork"))
    print(state())
    try:
        torch.cuda.init()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
    if "spawn" in sys.argv:
        print(loaded("spawn"))
    if "broken" in sys.argv:
        list(DataLoader(Broken(), num_workers=1))
"""


@functools.lru_cache(None)
def torch_python():
    """(path, version) of the first Python here that has PyTorch, without its help."""
    named = os.environ.get("ROCMCRASH_TORCH_PYTHON")
    for path in [named] if named else [PYTHON, *sorted(glob.glob("/usr/bin/python3.[0-9]*")),
                                       *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))]:
        # It is searched for, not imported: an import takes seconds, and the tests do it anyway.
        run = subprocess.run([path, "-c", "import importlib.util as u, importlib.metadata as m;"
                              "print(m.version('torch') if u.find_spec('torch') else '')"],
                             capture_output=True, text=True, check=False, cwd="/")
        if run.returncode == 0 and run.stdout.strip():
            return path, run.stdout.strip()
    return None, None


class Cpu(Direct):
    def setUp(self):
        super().setUp()
        self.torch_python, version = torch_python()
        if self.torch_python is None:
            self.skipTest("no Python with PyTorch here (python3-torch, or ROCMCRASH_TORCH_PYTHON)")
        print(f"PyTorch {version} of {self.torch_python}", file=sys.stderr)
        self.script = self.write("work.py", WORK)
        self.environ.update(PYTHONDONTWRITEBYTECODE="1", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")

    def go(self, *words, hooked, run_dir=None):
        env = dict(self.environ)
        if hooked:
            env.update(PYTHONPATH=HOOK, ROCMCRASH_HOOK=f"{os.getpid()}::{run_dir or self.path('run')}")
        return subprocess.run([self.torch_python, self.script, *words], capture_output=True, text=True,
                              check=False, env=env, timeout=TIMEOUT_S)

    def seen(self, run):
        """The output without addresses, process numbers and times of log lines, which differ in each run."""
        text = re.sub(r"0x[0-9a-f]{6,}|pid \d+|\d+:\d+:\d+(\.\d+)?", "#", run.stdout + run.stderr)
        return run.returncode, text

    def test_all_that_a_cpu_program_does(self):
        plain = self.go("spawn", "broken", hooked=False)
        hooked = self.go("spawn", "broken", hooked=True)
        self.assertEqual(self.seen(plain), self.seen(hooked))
        batches = [range(at, min(at + 5, 24)) for at in range(0, 24, 5)]
        self.assertEqual(ast.literal_eval(plain.stdout.splitlines()[1]),
                         [3 * sum(i * i for i in batch) for batch in batches])
        self.assertEqual(plain.returncode, 1)
        self.assertIn("ValueError: Caught ValueError in DataLoader worker process 0", plain.stderr)
        self.assertEqual(self.events("device") + self.events("trouble"), [])
        said = {e["pid"]: e for e in self.events("torch")}
        self.assertEqual(len(said), 3)  # ours and two that were spawned; a fork imports nothing
        self.assertNotEqual({e["version"] for e in said.values()}, {""})
        self.assertEqual([e["chain"][0]["type"] for e in self.events("exception")], ["ValueError"])
        self.assertEqual(sorted(set(os.listdir(self.hook)) - {"events", "faults"}), [])

    def test_nowhere_to_write(self):
        blocked = self.write("blocked", "no folder\n")
        self.assertEqual(self.seen(self.go(hooked=False)), self.seen(self.go(hooked=True, run_dir=blocked)))

    def test_bundle_of_an_uncaught_exception(self):
        done = self.run_it(self.torch_python, self.script, "broken", timeout=TIMEOUT_S)
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("hook.exception_type"), "ValueError")
        self.assertIn("no item 0", bundle.text("hook/exception.txt"))
        self.assertIn(bundle.value("hook.torch_build"), ("cpu", "cuda", "hip"))
        self.assertIsNone(bundle.value("torch.allocated_bytes"))
        self.assertEqual(bundle.verdict["class"], "app-bug")


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    support.main()
