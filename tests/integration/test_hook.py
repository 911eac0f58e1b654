# SPDX-License-Identifier: Apache-2.0
"""The Python hook (src/inject/python): seen by nobody, and what it writes becomes facts.

PyTorch is the stand-in of tests/fixtures/hook, whose allocator runs full for real; a real one is
used by tests/long/hook_gpu.py."""
import ast
import csv
import glob
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import unittest
import zipfile

import support
from support import PYTHON, ROCMCRASH, SOURCE, wait_for

HOOK = os.path.join(SOURCE, "src", "inject", "python")
STUB = os.path.join(SOURCE, "tests", "fixtures", "hook")
MIB, GIB = 1 << 20, 1 << 30

FRAGMENT = """
import random, sys, torch
rng = random.Random(7)
blocks = [torch.empty(rng.randint(2, 9) << 20) for _ in range(2500)]
rng.shuffle(blocks)
del blocks[:1400]
large = []
"""


def pythons():
    """Every Python 3.8 or newer that is installed here, the system's first."""
    found = {}
    for path in [PYTHON, *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))),
                 *sorted(glob.glob("/usr/bin/python3.[0-9]*"))]:
        run = subprocess.run([path, "-I", "-c", "import sys; print(sys.version_info[:2])"],
                             capture_output=True, text=True, check=False)
        if run.returncode == 0:
            version = ast.literal_eval(run.stdout)
            if version >= (3, 8):
                found.setdefault(version, path)
    return found


class Direct(support.Case):
    """A Python with the hook's variables, without rocmcrash around it."""

    def setUp(self):
        super().setUp()
        self.run_dir = self.path("run")
        self.hook = self.path("run", "hook")
        for name in ("PYTHONPATH", "ROCMCRASH_HOOK"):
            self.environ.pop(name, None)

    def env(self, hooked=True, path=(), words="", **more):
        env = dict(self.environ)
        parts = ([HOOK] if hooked else []) + list(path)
        if parts:
            env["PYTHONPATH"] = ":".join(parts)
        if hooked:
            env["ROCMCRASH_HOOK"] = f"{os.getpid()}:{words}:{self.run_dir}"
        return dict(env, PYTHONDONTWRITEBYTECODE="1", **more)

    def go(self, *argv, hooked=True, python=PYTHON, path=(), words="", more=None, **kwargs):
        return subprocess.run([python, *argv], capture_output=True, text=True, check=False,
                              env=self.env(hooked, path, words, **(more or {})), timeout=120, **kwargs)

    def same(self, *argv, **kwargs):
        """Status, stdout and stderr are those without the hook; returns the run with it."""
        plain, hooked = self.go(*argv, hooked=False, **kwargs), self.go(*argv, **kwargs)
        seen = [re.sub(r"0x[0-9a-f]{6,}|PYI-\d+", "0x", repr((run.returncode, run.stdout, run.stderr)))
                for run in (plain, hooked)]
        self.assertEqual(seen[0], seen[1], argv)
        return hooked

    def events(self, what):
        text = support.read(os.path.join(self.hook, "events"))
        return [e for e in map(json.loads, text.splitlines()) if e["what"] == what]

    def written(self, pattern):
        return sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.hook, pattern)))

    def one_json(self, pattern):
        paths = glob.glob(os.path.join(self.hook, pattern))
        self.assertEqual(len(paths), 1, (pattern, self.written("*")))
        with open(paths[0], encoding="utf-8") as file:
            return json.load(file)

    def lines(self, pattern):
        names = self.written(pattern)
        self.assertEqual(len(names), 1, (pattern, self.written("*")))
        return support.read(os.path.join(self.hook, names[0])).splitlines()


STATE = ("import sys, os; e = dict(os.environ); e.pop('ROCMCRASH_HOOK', 0); e.pop('PYTHONPATH', 0);"
         "print(sorted(sys.modules), sys.path, sys.excepthook is sys.__excepthook__, sys.argv,"
         "sorted(sys.path_importer_cache), sys.flags, sorted(e.items()), os.listdir('/proc/self/fd'),"
         "[n for n in dir(__builtins__)], [w for w in sys.warnoptions])")


class Unseen(Direct):
    def test_state_of_every_python(self):
        for version, python in pythons().items():
            with self.subTest(version=version):
                rest = ((("-I",), ("-E",), ("-s",), ("-O",), ("-W", "error"))
                        if python == PYTHON or os.environ.get("ROCMCRASH_LONG") == "1" else ())
                for options in ((), *rest):
                    self.same(*options, "-c", STATE, python=python)
                # Nobody takes the folder out where site.py is not run.
                self.same("-S", "-c", "import sys; print(sorted(sys.modules), sys.meta_path,"
                                      "sys.excepthook is sys.__excepthook__)", python=python)

    def test_uncaught_exceptions_print_as_before(self):
        script = self.write("fails.py", "def f(n):\n    1 / n\ntry:\n    f(0)\nexcept Exception as e:\n"
                                        "    raise KeyError('cl\\u00e9 \\ud800') from e\n")
        for python in pythons().values():
            done = self.same(script, python=python)
            self.assertEqual(done.returncode, 1)
        chain = self.events("exception")[-1]["chain"]
        self.assertEqual([link["type"] for link in chain], ["KeyError", "ZeroDivisionError"])
        self.assertEqual(chain[1]["frames"][0], [script, 2, "f"])
        for argv in (["-c", "import sys; sys.exit(3)"], ["-c", "raise SystemExit('bye')"],
                     ["-c", "raise KeyboardInterrupt"], ["-c", "("], ["no-such-file.py"]):
            self.same(*argv)

    def test_exceptions_of_threads_print_as_before(self):
        code = "import threading, sys\nassert getattr(threading, '__excepthook__', threading.excepthook) is " \
               "threading.excepthook\ndef f():\n    raise ValueError('in a thread')\n" \
               "t = threading.Thread(target=f, name='loader')\nt.start()\nt.join()\n" \
               "t = threading.Thread(target=sys.exit)\nt.start()\nt.join()\n"
        for python in pythons().values():
            self.same("-c", code, python=python)
        found = self.events("thread exception")
        self.assertEqual(len(found), len(pythons()))
        self.assertEqual((found[0]["thread"], found[0]["chain"][0]["message"]), ("loader", "in a thread"))

    def test_the_users_sitecustomize(self):
        user = self.path("user")
        self.write("user/sitecustomize.py", "import sys\nsys.mine = __file__\n")
        done = self.same("-c", "import sys, sitecustomize as s; print(sys.mine, s.__file__, s.__spec__,"
                               "sys.modules['sitecustomize'] is s)", path=[user])
        self.assertIn(user, done.stdout)
        self.write("user/sitecustomize.py", "raise RuntimeError('mine is broken')\n")
        done = self.same("-c", "print(1)", path=[user])
        self.assertIn("mine is broken", done.stderr)
        self.write("user/sitecustomize.py", "import no_such_module_of_mine\n")
        self.assertIn("no_such_module_of_mine", self.same("-c", "print(1)", path=[user]).stderr)

    def test_options_and_variables_of_python(self):
        """As in STATE, and with PyTorch at work; -X importtime tells of each import."""
        code = "import torch, os, sys\nkeep = torch.empty(1 << 20)\nif os.fork() == 0: os._exit(0)\n" \
               "os.wait()\nprint(sys.flags)\n1 / 0\n"
        ways = [["-bb"], ["-X", "dev"], ["-X", "utf8=0"], ["-OO"], ["-W", "error"], ["-X", "tracemalloc"], ["-B"],
                ["-X", "warn_default_encoding"], ["-X", "frozen_modules=off"], ["-P"], ["-u"]]
        variables = [{"PYTHONWARNINGS": "error"}, {"PYTHONSAFEPATH": "1"}, {"PYTHONHASHSEED": "0"},
                     {"PYTHONNOUSERSITE": "1"}, {"PYTHONINSPECT": "", "PYTHONASYNCIODEBUG": "1"}]
        for version, python in pythons().items():
            some = python == PYTHON or os.environ.get("ROCMCRASH_LONG") == "1"
            for options in ways if some else ways[:2]:
                self.same(*options, "-c", code, python=python, path=[STUB])
            for more in variables if some else variables[:1]:
                self.same("-c", code, python=python, path=[STUB], more=more)
            told = [re.sub(r" *\d+ \| +\d+", "", self.go("-X", "importtime", "-c", "import this, torch", python=python,
                                                       hooked=hooked, path=[STUB]).stderr) for hooked in (False, True)]
            self.assertEqual(told[0], told[1], version)

    def test_what_measures_the_program_sees_no_file_of_ours(self):
        code = "import sys\nseen = set()\ndef look(frame, *_):\n    seen.add(frame.f_code.co_filename)\n    return look\n" \
               "def more():\n    import torch, threading\n    keep = torch.empty(1 << 20)\n    threading.excepthook\n" \
               "    try:\n        torch.empty(99 << 30)\n    except torch.OutOfMemoryError:\n        pass\n" \
               "sys.settrace(look)\nmore()\nsys.settrace(None)\n" \
               "print(sorted(name for name in seen if name[0] != '<'))\n"
        for python in pythons().values():
            self.same("-c", code, python=python, path=[STUB])

    def test_zipapp_and_folder_of_modules(self):
        with zipfile.ZipFile(self.path("app.pyz"), "w") as archive:
            archive.writestr("__main__.py", "import sys, inner; print(inner.x, sys.path[1:])")
            archive.writestr("inner.py", "x = 4")
        self.assertIn("4", self.same(self.path("app.pyz")).stdout)

    def shell_python(self):
        path = self.write("python", f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    def test_other_layouts(self):
        """A prefix of conda's shape that nobody activated, and a python that is a shell script."""
        os.makedirs(self.path("conda/bin"))
        os.makedirs(self.path("conda/conda-meta"))
        prefix = subprocess.run([PYTHON, "-I", "-c", "import sys; print(sys.base_prefix)"],
                                capture_output=True, text=True, check=True).stdout.strip()
        os.symlink(os.path.join(prefix, "lib"), self.path("conda/lib"))
        shutil.copy(os.path.realpath(PYTHON), self.path("conda/bin/python3"))
        conda = self.path("conda/bin/python3")
        done = self.same("-c", "import sys; print(sys.prefix, sys.path); 1 / 0", python=conda)
        self.assertIn(self.path("conda"), done.stdout)
        self.same("-c", "1 / 0", python=self.shell_python())
        self.assertEqual(len(self.events("exception")), 2)
        self.same("-S", "-I", "-E", "-c", STATE, python=conda)

    def test_frozen_program(self):
        """It reads no PYTHONPATH: no hook, and nothing else either. Slow to make."""
        tool = shutil.which("pyinstaller") or os.environ.get("ROCMCRASH_PYINSTALLER")
        if tool is None or os.environ.get("ROCMCRASH_LONG") != "1":
            self.skipTest("ROCMCRASH_LONG=1 and pyinstaller wanted")
        script = self.write("app.py", "import sys, subprocess\nprint(sorted(sys.modules), sys.path[1:], sys.frozen)\n"
                                      "print(subprocess.run(['/bin/echo', 'child'], capture_output=True).stdout)\n1 / 0\n")
        subprocess.run([tool, "-y", "--log-level", "ERROR", "--distpath", self.path("dist"), "--workpath",
                        self.path("work"), "--specpath", self.path("spec"), script], check=True)
        done = self.same(python=self.path("dist/app/app"))
        self.assertIn("ZeroDivisionError", done.stderr)
        self.assertFalse(os.path.exists(self.run_dir))

    def test_venv_pip_and_pytest(self):
        if subprocess.run([PYTHON, "-m", "venv", "--without-pip", self.path("a")],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("no venv module in this Python")
        self.assertEqual(self.go("-m", "venv", "--without-pip", self.path("b")).returncode, 0)

        def listing(top):
            return sorted(os.path.relpath(os.path.join(d, f), top)
                          for d, _, files in os.walk(top) for f in files)
        self.assertEqual(listing(self.path("a")), listing(self.path("b")))
        self.same("-c", STATE, python=self.path("a", "bin", "python"))
        test = self.write("t/test_x.py", "import faulthandler\ndef test_a(tmp_path):\n    assert tmp_path\n"
                                         "def test_b():\n    assert 1 == 2\n")
        for module, argv in (("pip", ["list", "--format=freeze", "--disable-pip-version-check"]),
                             ("pytest", ["-q", "-p", "no:cacheprovider", "--durations=0",
                                         "--durations-min=9", test])):
            python = next((p for p in pythons().values() if subprocess.run(
                [p, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0), None)
            if python is None:
                print(f"skipped: no {module} in any Python here")
                continue
            plain = self.go("-m", module, *argv, hooked=False, python=python)
            hooked = self.go("-m", module, *argv, python=python)
            drop_times = [[line.split(" in ")[0] for line in run.stdout.splitlines()]
                          for run in (plain, hooked)]
            self.assertEqual(drop_times[0], drop_times[1])
            self.assertEqual((plain.returncode, plain.stderr), (hooked.returncode, hooked.stderr))

    def test_old_pythons_run_without_it(self):
        old = glob.glob(os.path.expanduser("~/.pyenv/versions/2.*/bin/python")) + \
            glob.glob(os.path.expanduser("~/.pyenv/versions/3.[67].*/bin/python"))
        if not old:
            self.skipTest("no Python older than 3.8 here")
        for python in old:
            self.same("-c", "import sys; print(sorted(sys.modules), sys.path)", python=python)

    def test_a_short_python_touches_no_disk(self):
        self.same("-c", "import json, threading, ctypes, subprocess")
        self.assertFalse(os.path.exists(self.run_dir))

    def test_cpythons_own_tests(self):
        names = ["test_site", "test_sys", "test_import", "test_importlib", "test_threading",
                 "test_faulthandler", "test_subprocess", "test_fork1", "test_atexit"]
        python = next((p for p in pythons().values() if subprocess.run(
            [p, "-c", "import test.test_site, test.test_sys, test.libregrtest"],
            capture_output=True, check=False).returncode == 0), None)
        if python is None:
            self.skipTest("no Python with its tests here (libpython3-testsuite)")
        if os.environ.get("ROCMCRASH_LONG") != "1":
            names = names[:2]

        def outcome(hooked):
            done = self.go("-m", "test", "-u", "none", *names, hooked=hooked, python=python,
                           cwd=self.folder)
            return {line.split()[0] for line in done.stdout.splitlines() if " failed" in line} | \
                {line for line in done.stderr.splitlines() if line.startswith(("FAIL:", "ERROR:"))}
        plain = outcome(False)
        self.assertEqual(outcome(True) - plain, set())

    def test_nowhere_to_write(self):
        """The run directory is a file, has been removed with its supervisor, or is full."""
        code = FRAGMENT + "try:\n    while True: large.append(torch.empty(6 << 30))\nexcept RuntimeError as e:\n" \
                          "    print(e)\n1 / 0\n"
        blocked = self.write("run", "no folder\n")
        self.same("-c", code, path=[STUB])
        os.remove(blocked)
        self.same("-c", code, path=[STUB], more={"ROCMCRASH_HOOK": f"999999999::{self.run_dir}"})
        self.assertFalse(os.path.exists(self.run_dir))
        for words in ("", "garbage", "1:2", "x::/tmp", "::", "1::relative"):
            self.same("-c", code, path=[STUB], more={"ROCMCRASH_HOOK": words}, cwd=self.folder)
        if os.geteuid() == 0 and os.path.isdir("/dev/shm"):
            os.mkdir(self.path("small"))
            mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "none", self.path("small")],
                                   capture_output=True, check=False)
            if mount.returncode == 0:
                self.addCleanup(subprocess.run, ["umount", self.path("small")], check=False)
                self.run_dir = self.path("small", "run")
                self.hook = self.path("small", "run", "hook")
                self.same("-c", code, path=[STUB])
                self.assertIn("No space left", self.events("trouble")[0]["error"])


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
                        "torch.empty(1 << 20); import sys; print(len(sys.meta_path))", path=[STUB])
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
        for own in (HOOK, "rocmcrash_hook", "rocmcrash_torch"):
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
        """Python 3.13 counts threads when these have run, and prints a warning where there are two."""
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
        """The allocator's lock is waited for with the GIL; and devices that are not used are asked less often."""
        code = "import os, sys, time, torch\nask, asked = torch._C._cuda_memoryStats, []\ndef stats(device):\n" \
               "    asked.append(device)\n    time.sleep(float(sys.argv[1]))\n    return ask(device)\n" \
               "keep = torch.empty(1 << 20)\ntorch._C._cuda_memoryStats = stats\ndel asked[:]\ntime.sleep(1.6)\n" \
               "print([asked.count(device) for device in range(4)])"
        quick, slow = (ast.literal_eval(self.go("-c", code, seconds, path=[STUB], more={"STUB_TORCH_DEVICES": "4"}).stdout)
                       for seconds in ("0", "0.03"))
        self.assertGreaterEqual(quick[0], 8)
        self.assertLessEqual(max(quick[1:]), quick[0] // 4)  # each eighth time, and at the first
        self.assertLessEqual(slow[0], 4)
        self.assertEqual(self.events("trouble"), [])

    def test_samples_go_on_behind_a_slow_mark(self):
        """With --torch-history the first one holds a real PyTorch for seconds; what grows is seen by the samples."""
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
                         ["torch/nn/linear.py", "project/train.py"])  # and not whose project
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


class Signals(Direct):
    CRASH = "import numpy, ctypes, threading, time\n" \
            "def idle():\n    time.sleep(60)\n" \
            "threading.Thread(target=idle, daemon=True).start()\n" \
            "def innermost():\n    ctypes.string_at(1)\ninnermost()\n"

    def setUp(self):
        super().setUp()
        self.write("site/numpy.py", "")  # a library with native code, for the hook

    def test_fatal_signal_leaves_the_stacks(self):
        done = self.same("-c", self.CRASH, path=[self.path("site")])
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGSEGV, ""))
        text = support.read(os.path.join(self.hook, "faults"))
        self.assertIn("Segmentation fault", text)
        self.assertIn("innermost", text)
        self.assertIn("in idle", text)

    def test_the_programs_own_faulthandler_stays_its_own(self):
        for more in ({"PYTHONFAULTHANDLER": "1"}, {}):
            code = self.CRASH if more else "import faulthandler; faulthandler.enable()\n" + self.CRASH
            plain = self.go("-c", code, hooked=False, path=[self.path("site")], more=more)
            done = self.go("-c", code, path=[self.path("site")], more=more)
            self.assertEqual(done.returncode, -signal.SIGSEGV)
            drop = [[line for line in run.stderr.splitlines() if "0x" not in line] for run in (plain, done)]
            self.assertEqual(drop[0], drop[1])

    def test_stacks_on_demand(self):
        code = "import numpy, time\nprint(1, flush=True)\ndef hanging():\n    while True:\n" \
               "        time.sleep(60)\nhanging()\n"
        process = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE,
                                   env=self.env(path=[self.path("site")]))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.stdout.close()
        wait_for(lambda: "time.sleep" in support.read(f"/proc/{process.pid}/stack") or
                 support.state(process.pid) == "S", "the sleep")
        os.kill(process.pid, 58)
        wait_for(lambda: "in hanging" in support.read(os.path.join(self.hook, "faults")), "its stacks")
        self.assertIsNone(process.poll())

    def test_descriptor_is_far_away_and_not_inherited(self):
        code = "import numpy, os, subprocess, sys\nprint('faulthandler' in sys.modules, [n for n in sorted(map(int, os.listdir('/proc/self/fd'))) if n < 256])\n" \
               "subprocess.run(['ls', '-1', '/proc/self/fd'], close_fds=False)"
        self.same("-c", code, path=[self.path("site")])


class Bundles(support.Case):
    def setUp(self):
        super().setUp()
        self.environ["PYTHONPATH"] = STUB
        os.mkdir(self.path("machine"))  # no kernel log: it may tell of other tests' faults
        self.environ["ROCMCRASH_SYSROOT"] = self.path("machine")
        self.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    def test_fragmentation(self):
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.verdict["class"], "fragmentation")
        self.assertNotEqual(bundle.verdict["confidence"], "low")
        self.assertEqual(bundle.value("torch.requested_bytes"), 6 * GIB)
        self.assertEqual(bundle.value("oom.requested_bytes"), 6 * GIB)
        self.assertLess(bundle.value("torch.largest_inactive_bytes"), 20 * MIB + 1)
        self.assertEqual(bundle.value("torch.inactive_bytes"),
                         bundle.value("torch.reserved_bytes") - bundle.value("torch.allocated_bytes"))
        self.assertEqual(bundle.value("hook.exception_type"), "torch.OutOfMemoryError")
        self.assertEqual(bundle.row("hook")["status"], "ok")
        self.assertIn("in empty", bundle.text("hook/stacks.txt"))
        self.assertTrue(bundle.text("hook/torch-stats.csv").startswith("time_s,device,allocated_bytes,"))
        self.assertIn("torch.OutOfMemoryError", bundle.text("hook/exception.txt"))

    def test_leak(self):
        code = "import time, torch\nkeep, work = [], None\nwhile True:\n    work = torch.empty(2 << 30)\n" \
               "    keep.append(torch.empty(60 << 20))\n    time.sleep(0.05)\n    work = None\n"
        bundle = self.only_bundle(self.python(code))
        self.assertEqual(bundle.verdict["class"], "leak")
        self.assertGreaterEqual(bundle.value("torch.growth.samples"), 20)
        self.assertEqual(bundle.value("f.growth.total_bytes"), bundle.value("torch.growth.total_bytes"))
        self.assertEqual(bundle.value("torch.growth.steady"), True)
        self.assertEqual(bundle.value("f.torch_grown_block_bytes"), 60 * MIB)
        self.assertRegex(bundle.value("torch.grown_by_size"), r"^\d+ MiB in \d+ blocks up to 100 MiB")
        self.assertIsNone(bundle.value("torch.grown_site"))
        self.assertIsNone(bundle.value("f.torch_full_in_min"))  # it is full
        self.assert_memory_rows(bundle)

    def assert_memory_rows(self, bundle):
        """Before, peak, at the failure: what the allocator itself said."""
        last = json.loads(bundle.text("hook/oom-first.json"))["stats"]["0"]
        for what in ("allocated", "reserved"):
            row = next(line for line in bundle.text("SUMMARY.md").splitlines()
                       if line.startswith(f"| PyTorch, {what} |")).split(" | ")
            figures = last[f"{what}_bytes"]["all"]
            self.assertEqual(row[1:6], ["16.00 GiB", "0 bytes", f"{figures['peak'] / GIB:.2f} GiB",
                                        f"{figures['current'] / GIB:.2f} GiB", "–"])
            self.assertRegex(row[6], r"^PyTorch in process \d+, at the out-of-memory observer")

    def test_who_grew(self):
        script = self.write("train.py", "import time, torch\nkeep, work = [], None\nsteady = torch.empty(3 << 30)\n"
                            "def remember():\n    keep.append(torch.empty(120 << 20))\nwhile True:\n"
                            "    work = torch.empty(2 << 30)\n    remember()\n    time.sleep(0.05)\n    work = None\n")
        bundle = self.only_bundle(self.run_it(PYTHON, script, options=("--torch-history",)))
        self.assertRegex(bundle.value("torch.grown_site"), r"train\.py:5 remember < .*train\.py:8 <module>$")
        grew = bundle.value("torch.grown_site_bytes")
        self.assertEqual(grew, bundle.value("torch.grown_site_blocks_count") * (120 << 20))
        self.assertGreater(bundle.value("torch.grown_ms"), 1900)
        self.assertRegex(bundle.text("SUMMARY.md").split("## What to try")[0], r"train\.py:5`? remember")

    def test_swallowed_out_of_memory(self):
        swallow = "import os, torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
                  "except torch.OutOfMemoryError:\n    os._exit(%d)"
        bundle = self.only_bundle(self.python(swallow % 3))
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertEqual(bundle.value("oom.free_bytes"), 6 * GIB)
        os.remove(bundle.path)
        self.assertEqual(self.python(swallow % 0).bundles, [])  # it may have been asked for
        self.only_bundle(self.python(swallow % 0, options=("--bundle-on=oom",)))

    def test_killed_while_the_exception_unwinds(self):
        code = "import os, signal, torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
               "finally:\n    os.kill(os.getpid(), signal.SIGKILL)"
        bundle = self.only_bundle(self.python(code))
        self.assertEqual(bundle.value("target.signal"), signal.SIGKILL)
        self.assertEqual(bundle.value("torch.requested_bytes"), 9 * GIB)

    def test_another_failure_after_a_handled_one(self):
        code = "import torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
               "except torch.OutOfMemoryError:\n    pass\nassert keep is None, 'wrong shape'\n"
        bundle = self.only_bundle(self.python(code))
        self.assertNotEqual(bundle.verdict["class"], "capacity")
        self.assertIsNone(bundle.value("oom.seen"))
        self.assertEqual(bundle.value("torch.ooms_count"), 1)

    def test_healthy_leaves_nothing(self):
        done = self.python("import torch\nfor _ in range(100): torch.empty(1 << 30)\nprint('done')")
        self.assertEqual((done.status, done.stdout, done.stderr, done.bundles), (0, "done\n", "", []))
        done = self.python("import torch; raise SystemExit(4)")
        self.assertEqual((done.status, done.stderr, done.bundles), (4, "", []))
        runs = self.path("state", "runs")
        wait_for(lambda: not os.path.isdir(runs) or os.listdir(runs) == [], "the folder of runs to be empty")

    def test_trouble_is_in_the_manifest(self):
        self.environ["STUB_TORCH_OLD"] = "1"
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.row("hook")["status"], "partial")
        self.assertIn("AttributeError", bundle.row("hook")["reason"])
        # By the uncaught exception.
        self.assertEqual(bundle.value("torch.inactive_bytes"),
                         bundle.value("torch.reserved_bytes") - bundle.value("torch.allocated_bytes"))

    def test_nowhere_to_write_is_in_the_manifest(self):
        """The folder of the hook cannot be made: the program goes on, the bundle says what is missing."""
        code = "import os, time\nrun = os.environ['ROCMCRASH_HOOK'].split(':', 2)[2]\n" \
               "while not os.path.isdir(run): time.sleep(0.01)\nopen(run + '/hook', 'w').close()\n"
        done = self.python(code + FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual((done.status, done.stderr.count("Traceback")), (1, 1))
        self.assertEqual(bundle.row("hook")["status"], "failed")
        self.assertIn("version of torch: NotADirectoryError: Not a directory", bundle.row("hook")["reason"])
        self.assertEqual(bundle.verdict["class"], "fragmentation")  # by the message alone

    def test_a_python_that_is_a_shell_script(self):
        python = self.write("python", f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
        os.chmod(python, 0o755)
        code = self.write("fails.py", FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(self.run_it(python, code))
        self.assertEqual(bundle.value("torch.requested_bytes"), 6 * GIB)

    def test_native_stack_is_that_of_the_fault(self):
        """faulthandler raises the signal again, on a stack of its own: the first one counts."""
        self.write("site/numpy.py", "")
        self.environ["PYTHONPATH"] = self.path("site")
        bundle = self.only_bundle(self.python("import numpy, ctypes; ctypes.string_at(1)"))
        stacks = [text for name, text in bundle.files.items() if name.startswith("stacks/stacks.")]
        if bundle.row("stacks").get("status") not in ("ok", "partial") or not stacks:
            self.skipTest("no stacks: " + bundle.row("stacks").get("reason", ""))
        text = stacks[0].decode()
        self.assertIn("SIGSEGV at 0x1", text)
        self.assertIn("in _start", text)
        self.assertNotIn("truncated", text)
        self.assertIn(b"Segmentation fault", bundle.files["hook/faults.txt"])

    def test_export_and_one_clock(self):
        done = self.python(FRAGMENT + "import time; time.sleep(0.5)\nwhile True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        trace = self.path("trace.json")
        for argv in (["export", bundle.path, "--trace", "-o", trace], ["export", "--trace", bundle.path]):
            run = self.verb(*argv)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(trace, encoding="utf-8") as file:
            self.assertEqual(file.read(), run.stdout)
        events = json.loads(run.stdout)["traceEvents"]
        at = {e["name"]: e["ts"] / 1e6 for e in events if e["ph"] == "i"}
        rows = list(csv.DictReader(bundle.text("telemetry/telemetry.csv").splitlines()))
        torch_rows = list(csv.DictReader(bundle.text("hook/torch-stats.csv").splitlines()))
        self.assertFalse([row for row in rows + torch_rows if None in row or None in row.values()])
        for table in (rows, torch_rows):
            times = [float(row["time_s"]) for row in table]
            self.assertEqual(times, sorted(times))
        oom = next(time for name, time in at.items() if name.startswith("out of memory: 6442450944 bytes"))
        flagged = {row["flags"]: float(row["time_s"]) for row in rows if row["flags"]}
        self.assertLess(flagged["baseline"], float(torch_rows[0]["time_s"]))
        self.assertLess(float(torch_rows[0]["time_s"]), oom)
        self.assertLess(oom, flagged["after"])
        counted = {e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "allocated_bytes"}
        self.assertEqual(counted, {int(row["allocated_bytes"]) for row in torch_rows})
        self.assertIn("torch 2.11.0+stub", at)
        for argv, status in ((["export", bundle.path], 125), (["export", "--trace"], 125),
                             (["export", "--trace", bundle.path, "x"], 125),
                             (["export", "--trace", trace], 2), (["export", "--trace", "/no/such"], 2),
                             (["export", "--trace", "-o", "/no/such/x", bundle.path], 2)):
            run = self.verb(*argv)
            self.assertEqual((run.returncode, run.stdout), (status, ""), argv)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)

    def test_stacks_of_a_hanging_program(self):
        self.write("site/numpy.py", "")
        self.environ["PYTHONPATH"] = self.path("site")
        code = "import numpy, threading, time\ndef worker():\n    time.sleep(600)\n" \
               "threading.Thread(target=worker, daemon=True).start()\ndef hanging():\n    print('there', flush=True)\n" \
               "    while True: pass\nhanging()\n"
        process = self.start(PYTHON, "-c", code, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        process.stdout.readline()
        target = self.target_pid(process.pid)
        for pid in (target, target, process.pid):  # of rocmcrash itself the program that it runs
            done = self.verb("stacks", str(pid))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("in hanging", done.stdout)
            self.assertIn("in worker", done.stdout)
            self.assertEqual(done.stdout.count("most recent call first"), 2)
        self.assertIsNone(process.poll())
        for word, status in ((str(self.helper(process.pid, "sampler")), 2), ("999999999", 2), ("x", 125), ("0", 125)):
            done = self.verb("stacks", word)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (status, "", 1))

    def test_inject_none(self):
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))",
                           options=("--inject=none",))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.row("hook")["status"], "skipped")
        done = self.run_it("/bin/sh", "-c", "echo $ROCMCRASH_HOOK$PYTHONPATH", options=("--inject=ledger",))
        self.assertEqual(done.stdout, STUB + "\n")

    def test_workers_are_told_apart(self):
        code = "import os, subprocess, sys, torch\nif len(sys.argv) > 1:\n    keep = torch.empty(10 << 30)\n" \
               "    torch.empty(9 << 30)\nelse:\n    keep = torch.empty(1 << 30)\n" \
               "    sys.exit(subprocess.call([sys.executable, __file__, 'worker'], env=dict(os.environ)))\n"
        done = self.run_it(PYTHON, self.write("train.py", code))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("torch.allocated_bytes"), 10 * GIB)
        self.assertEqual(bundle.verdict["class"], "capacity")


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    unittest.TestCase.maxDiff = 2000
    support.main()
