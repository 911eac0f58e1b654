# SPDX-License-Identifier: Apache-2.0
"""The hook reads PyTorch's memory. PyTorch and the program do not notice."""

import ast
import json
import os
import pickle
import sys
import unittest

import support
from support import ROCMCRASH
from hooked import Direct, FRAGMENT, HOOK, STUB, pythons


class Torch(Direct):
    def test_nothing_before_the_device_is_used(self):
        self.same("-c", "import torch; print(torch.cuda.is_initialized(), torch.__spec__.loader,"
                        "torch.__loader__.__dict__)", path=[STUB])
        self.assertEqual([e["build"] for e in self.events("torch")], ["hip"])
        self.assertEqual(self.events("device") + self.events("trouble"), [])
        self.same("-c", "import torch", path=[STUB], more={"STUB_TORCH_BUILD": "cpu"})
        self.assertEqual(self.written("*.csv"), [])

    def test_looking_for_torch_is_not_importing_it(self):
        self.same("-c", "import importlib.util as u; print(u.find_spec('torch').loader); import torch;"
                        "torch.empty(1 << 20); import sys; print([f for f in sys.meta_path if getattr(f, '__name__', '') != 'FaulthandlerFinder'])", path=[STUB])
        self.assertEqual(len(self.events("device")), 1)
        self.same("-c", "\ntry:\n    import torch\nexcept ImportError as e:\n    print(e, e.name)\n")

    def test_figures_are_torchs_own(self):
        code = FRAGMENT + """
told = []
import json
torch.empty(1)
torch._C.observers.append(lambda *values: told.append(values))
def inner():
    while True:
        large.append(torch.empty(6 << 30))
try:
    inner()
except torch.OutOfMemoryError:
    print(json.dumps([told, torch.cuda.memory_stats()]))
"""
        done = self.go("-c", code, path=[STUB], more={"STUB_TORCH_DEVICES": "2"})
        told, stats = json.loads(done.stdout)
        wrote = self.one_json("*.oom.first.json")
        self.assertEqual([wrote[k] for k in ("device", "requested", "total", "free")], told[0])
        self.assertEqual(wrote["stats"], {"0": stats})
        self.assertEqual([f[2] for f in wrote["stacks"][0]["frames"]][-2:], ["inner", "<module>"])
        for own in (HOOK, "rocmcrash_hook", "rocmcrash_torch", "rocmcrash_blocks"):
            self.assertNotIn(own, json.dumps(wrote["stacks"]))
        blocks = [b for s in self.one_json("*.snapshot.first.json")["segments"] for b in s["blocks"]]
        self.assertEqual(sum(b["size"] for b in blocks), stats["reserved_bytes"]["all"]["current"])
        self.assertEqual(sum(b["size"] for b in blocks if b["state"] != "inactive"),
                         stats["allocated_bytes"]["all"]["current"])

    def test_many_failures_cost_little_and_the_last_is_kept(self):
        code = "import time, torch\nkeep = torch.empty(12 << 30)\nstart = time.monotonic()\n" \
               "for i in range(3000):\n    try:\n        torch.empty((5 << 30) + (i << 20))\n" \
               "    except torch.OutOfMemoryError:\n        pass\nprint(time.monotonic() - start)"
        plain = float(self.go("-c", code, path=[STUB], hooked=False).stdout)
        hooked = float(self.go("-c", code, path=[STUB]).stdout)
        self.assertLess(hooked - plain, 1.5)
        self.assertEqual(self.one_json("*.oom.first.json")["count"], 1)
        self.assertGreater(self.one_json("*.oom.last.json")["count"], 1)
        self.assertEqual(self.events("trouble"), [])

    def test_old_torch_says_so(self):
        self.same("-c", "import torch; torch.empty(1 << 20)", path=[STUB], more={"STUB_TORCH_OLD": "1"})
        self.assertIn("AttributeError", self.events("trouble")[0]["error"])
        self.assertIn("start_sampler", self.events("device")[0]["steps"])

    def test_forks_see_no_thread(self):
        code = """
import os, sys, time, torch, warnings
warnings.simplefilter("error", DeprecationWarning)
torch.empty(1 << 20)
path = sys.argv[1] + "/%d.torch.csv" % os.getpid()
def rows():
    return sum(1 for _ in open(path)) if os.path.exists(path) else 0
for i in range(20):
    pid = os.fork()
    if pid == 0:
        names = os.listdir("/proc/self/task")
        try:
            torch.cuda.is_initialized()
            os._exit(0 if len(names) == 1 else 5)
        except BaseException:
            os._exit(6)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(os.listdir("/proc/self/task")) <= 2
before = rows()
end = time.monotonic() + 20
while rows() < before + 3 and time.monotonic() < end:
    time.sleep(0.01)
print(rows() >= before + 3)
"""
        for version, python in pythons().items():
            done = self.go("-c", code, self.hook, path=[STUB], python=python)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""), version)
        self.assertEqual(self.events("trouble"), [])

    def test_functions_at_forks(self):
        """Python 3.13 counts threads after these functions have run, and prints a warning if there are two."""
        code = "import os, sys, torch\ndef other():\n    x = 1\n    return x\nkeep = torch.empty(1 << 20)\n" \
               "os.register_at_fork(after_in_parent=other)\ndef fork():\n    return os.fork()\nfor i in range(3):\n" \
               "    if fork() == 0: os._exit(0)\n    os.wait()\nif hasattr(sys, 'monitoring'):\n" \
               "    print([sys.monitoring.get_tool(i) for i in range(6)])\n" \
               "    sys.monitoring.use_tool_id(3, 'a'), sys.monitoring.use_tool_id(4, 'b')\n" \
               "    if fork() == 0: os._exit(0)\n    os.wait()\n"
        for python in pythons().values():
            self.same("-W", "always", "-c", code, python=python, path=[STUB])
        self.assertEqual([e["error"] for e in self.events("trouble")],
                         ["RuntimeError: no number is free in sys.monitoring"] * sum(v > (3, 12) for v in pythons()))

    def test_a_slow_sample_is_followed_by_a_pause(self):
        """A sample that waits for the allocator's lock holds the GIL. Devices that are not used are sampled less
        often."""
        code = "import os, sys, time, torch\nask, asked = torch._C._cuda_memoryStats, []\ndef stats(device):\n" \
               "    asked.append(device)\n    time.sleep(float(sys.argv[1]))\n    return ask(device)\n" \
               "keep = torch.empty(1 << 20)\ntorch._C._cuda_memoryStats = stats\ndel asked[:]\ntime.sleep(1.6)\n" \
               "print([asked.count(device) for device in range(4)])"
        quick, slow = (ast.literal_eval(self.go("-c", code, seconds, path=[STUB], more={"STUB_TORCH_DEVICES": "4"}).stdout)
                       for seconds in ("0", "0.03"))
        self.assertGreaterEqual(quick[0], 8)
        self.assertLessEqual(max(quick[1:]), quick[0] // 4)  # the first time, and then every eighth time
        self.assertLessEqual(slow[0], 4)
        self.assertEqual(self.events("trouble"), [])

    def test_samples_go_on_after_a_slow_mark(self):
        """With --torch-history the first mark takes seconds in a real PyTorch. The samples show the growth
        meanwhile."""
        code = "import time, torch\nask, look, asked, marks = torch._C._cuda_memoryStats, torch.cuda.memory.memory_snapshot, [], []\n" \
               "def stats(device):\n    asked.append(device)\n    return ask(device)\n" \
               "def slow():\n    time.sleep(0.2)\n    marks.append(len(asked))\n    return look()\n" \
               "keep = torch.empty(1 << 20)\ntorch._C._cuda_memoryStats, torch.cuda.memory.memory_snapshot = stats, slow\n" \
               "end = time.monotonic() + 8\n" \
               "while time.monotonic() < end and not (marks and len(asked) - marks[0] >= 6):\n    time.sleep(0.02)\n" \
               "print(bool(marks) and len(asked) - marks[0] >= 6, len(marks))"
        self.assertEqual(self.go("-c", code, path=[STUB], words="history").stdout, "True 1\n")

    def test_series_is_thinned(self):
        code = """
import json, os, sys, time, torch
keep = torch.empty(1 << 30)
sys.stdout.flush()
path = sys.argv[1] + "/%d.torch.csv" % os.getpid()
end = time.monotonic() + 20
while not os.path.exists(path) and time.monotonic() < end:
    time.sleep(0.01)
with open(path, "a") as file:
    for i in range(9000):
        for device in (0, 1):
            file.write("%d,%d,%s\\n" % (1000 + i, device, ",".join(["5" * 8] * 16)))
before = os.path.getsize(path)
while os.path.getsize(path) >= before and time.monotonic() < end:
    time.sleep(0.01)
print(before, os.path.getsize(path))
"""
        done = self.go("-c", code, self.hook, path=[STUB])
        before, after = map(int, done.stdout.split())
        self.assertGreater(before, 1 << 20)
        self.assertLess(after, 0.6 * before)
        name = self.written("*.torch.csv")[0]
        times = [line.split(",")[:2] for line in support.read(os.path.join(self.hook, name)).splitlines()]
        first = [t for t, device in times if device == "0"]
        second = [t for t, device in times if device == "1"]
        self.assertEqual([t for t in first if len(t) < 6], second)  # both devices of a moment, or none
        self.assertEqual(self.events("trouble"), [])

    def test_history(self):
        self.same("-c", FRAGMENT + "try:\n    torch.empty(20 << 30)\nexcept RuntimeError:\n    pass",
                  path=[STUB], words="history")
        with open(os.path.join(self.hook, self.written("*.history.pickle")[0]), "rb") as file:
            history = pickle.load(file)
        self.assertEqual([f["filename"] for f in history["device_traces"][0][0]["frames"]],
                         ["torch/nn/linear.py", "project/train.py"])  # and the project's name is not in it
        self.assertGreater(len(history["segments"]), 100)
        self.assertEqual(self.events("trouble"), [])

    def test_an_import_that_fails_looks_as_ever(self):
        for text in ("import no_such_part_of_torch\n", "def f():\n    1 / 0\nf()\n", "(\n"):
            self.write("broken/torch/__init__.py", text)
            for python in list(pythons().values())[:2]:
                done = self.same("-c", "import torch", path=[self.path("broken")], python=python)
                self.assertEqual(done.returncode, 1)

    def test_exit_leaves_no_thread_behind(self):
        code = "import torch, os, sys, atexit\ntorch.empty(1 << 20)\n" \
               "atexit._run_exitfuncs()\nprint(len(os.listdir('/proc/self/task')))"
        self.assertEqual(self.go("-c", code, path=[STUB]).stdout, "1\n")


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    unittest.TestCase.maxDiff = 2000
    support.main()
