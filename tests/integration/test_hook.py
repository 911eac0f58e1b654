# SPDX-License-Identifier: Apache-2.0
"""The Python hook (src/inject/python): the program does not notice it, and what it writes becomes facts.

PyTorch is the stand-in of tests/fixtures/hook, whose allocator really runs full; tests/long/hook_gpu.py uses a real
PyTorch."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import zipfile

import support
from support import PYTHON, ROCMCRASH, wait_for
from hooked import Direct, FRAGMENT, STUB, pythons

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
                # With -S site.py does not run, so nothing removes our folder from sys.path.
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

    def test_the_text_of_an_exception_is_asked_for_by_python_alone(self):
        """A __str__ of the program may count, wait, or end the process."""
        own = "import os\nclass Own(Exception):\n    def __str__(self):\n        os.write(1, b'asked\\n')\n        return 'own'\n"
        for raised, message in (("Own('how', 7, [Own()])", "how, 7"), ("RuntimeError(Own())", ""), ("RuntimeError('plain')", "plain"),
                                ("KeyError('key')", "'key'"), ("FileNotFoundError(2, 'No such', 'x')", "[Errno 2] No such: 'x'")):
            with self.subTest(raised=raised):
                self.same("-c", f"{own}raise {raised}")
                self.assertEqual(self.events("exception")[-1]["chain"][0]["message"], message)

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
        """The same output as STATE has, and with PyTorch in use; -X importtime prints each import."""
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
        """A prefix like conda's that was not activated, and a python that is a shell script."""
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
        """It ignores PYTHONPATH, so it has no hook, and runs unchanged. It takes long to make."""
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
        """The run directory is a file, was removed, or is full."""
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


class Signals(Direct):
    # The thread is in that line of idle() at the fault: start() returns earlier.
    CRASH = "import numpy, ctypes, threading, time\n" \
            "begins = threading.Lock(); begins.acquire()\n" \
            "def idle():\n    begins.release(); time.sleep(60)\n" \
            "threading.Thread(target=idle, daemon=True).start()\nbegins.acquire()\n" \
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

    def test_a_program_that_asks_first_has_its_own_faulthandler(self):
        for begin in ("import numpy, faulthandler\n", "import faulthandler, numpy\n"):
            code = begin + "print(faulthandler.is_enabled(), faulthandler.__loader__, faulthandler.__spec__)\n" \
                "if not faulthandler.is_enabled():\n    faulthandler.enable(all_threads=False)\n" \
                "print(faulthandler.is_enabled())\n" + self.CRASH
            plain = self.go("-c", code, hooked=False, path=[self.path("site")])
            done = self.go("-c", code, path=[self.path("site")])
            self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout))
            drop = [[line for line in run.stderr.splitlines() if "0x" not in line] for run in (plain, done)]
            self.assertIn("Fatal Python error: Segmentation fault", drop[0])
            self.assertEqual(drop[0], drop[1])

    def test_faulthandler_is_imported_whatever_the_program_does_to_finders(self):
        code = ("import sys, numpy\nfinders = list(sys.meta_path)\nsys.meta_path = [f for f in finders if 'rocmcrash' not in f.__module__]\n"
                "found = [f.find_spec('faulthandler', None) for f in finders]\nimport faulthandler\nprint(faulthandler.is_enabled.__name__)\n")
        self.same("-c", code, path=[self.path("site")])

    def test_handlers_of_native_code_stay(self):
        """One that looks at what the kernel told it, and goes on. Python does not know of it."""
        code = ("import ctypes, os, signal\nclass Action(ctypes.Structure):\n"
                "    _fields_ = [('handler', ctypes.c_void_p), ('mask', ctypes.c_char * 128), ('flags', ctypes.c_int), "
                "('restorer', ctypes.c_void_p)]\n"
                "@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)\n"
                "def mends(number, info, context):\n    print(number, ctypes.c_int.from_address(info + 8).value)\n"
                "SA_SIGINFO, KILL = 4, {0}\n"
                "action = Action(ctypes.cast(mends, ctypes.c_void_p), b'', SA_SIGINFO, None)\n"
                "assert ctypes.CDLL(None).sigaction(KILL, ctypes.byref(action), None) == 0\n"
                "import numpy\nos.kill(os.getpid(), KILL)\nprint('end')\n")
        for number in (signal.SIGSEGV, signal.SIGILL, 58):
            done = self.same("-c", code.replace("{0}", str(int(number))), path=[self.path("site")])
            self.assertEqual(done.stdout, f"{int(number)} 0\nend\n")

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


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    unittest.TestCase.maxDiff = 2000
    support.main()
