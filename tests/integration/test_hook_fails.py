# SPDX-License-Identifier: Apache-2.0
"""The Python hook fails in every way that we could think of: the program ends as without rocmcrash, to the byte,
and the row "hook" of the manifest says what was not collected and why. Each is a whole run; PyTorch is the stand-in of
tests/fixtures/hook."""
import concurrent.futures
import os
import re
import subprocess
import sys
import unittest

import losses
import support
from support import PYTHON, ROCMCRASH
from hooked import STUB

GIB = 1 << 30
AT_ONCE = 6  # most of a run is waiting

# The end of every program: an out-of-memory error that is not caught.
OOM = "\nkeep = torch.empty(10 << 30)\ntorch.empty(9 << 30)\n"
# Or one that is caught, so that no uncaught exception makes the hook write again.
CAUGHT = "\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\nexcept torch.OutOfMemoryError:\n" \
         "    raise SystemExit(3)\n"


class Way:
    """A program in which the hook fails (or might), and what the manifest's row must say."""

    def __init__(self, code, status, reason="", *, env=None, options=(), stdout=None, oom=OOM, facts=None):
        self.code = code + (oom or "")
        options = ("--bundle-on=oom",) if oom == CAUGHT else options
        self.status, self.reason, self.env, self.options = status, reason, env or {}, options
        self.stdout, self.facts = stdout, facts or {}


def replaced(name, body):
    """PyTorch with one function replaced; it is imported, but no device is used yet."""
    return f"import torch, torch.cuda.memory\ndef replacement(*_, **__):\n    {body}\n{name} = replacement\n"


RAISES = "raise {}('not in this build')"
# In both runs, on a small file system that is mounted for each.
FILLS = """import os, torch
begun = torch.empty(1 << 20)
with open(os.environ["SMALL"] + "/filler", "wb", 0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError as error:
        print(error.strerror)
"""
JAX = "import jax, time\nkeep = jax.zeros(15 << 30)\ntime.sleep(0.3)\njax.zeros(9 << 30)\n"
CUPY = "import cupy\nkeep = cupy.zeros(15 << 30)\ncupy.zeros(9 << 30)\n"

WAYS = {
    # --- an old or another PyTorch ---
    "no_observer": Way("import torch\ndel torch._C._cuda_attach_out_of_memory_observer\n", "partial",
                       "out-of-memory observer: AttributeError", facts={"torch.allocated_bytes": 10 * GIB}),
    "no_memory_stats": Way("import torch\ndel torch._C._cuda_memoryStats\n", "partial",
                           "memory_stats: AttributeError", facts={"torch.requested_bytes": 9 * GIB}),
    "memory_stats_raise": Way(replaced("torch._C._cuda_memoryStats", RAISES.format("RuntimeError")), "partial",
                              "memory_stats: RuntimeError: not in this build",
                              facts={"torch.requested_bytes": 9 * GIB}),
    "memory_stats_raise_later": Way("import torch\nbegun = torch.empty(1)\n" + replaced(
        "torch._C._cuda_memoryStats", RAISES.format("RuntimeError")), "partial",
        "^memory_stats: RuntimeError: not in this build$", facts={"torch.requested_bytes": 9 * GIB}, oom=CAUGHT),
    "memory_stats_of_another_type": Way(replaced("torch._C._cuda_memoryStats", "return [1]"), "partial",
                                        "memory_stats: AttributeError"),
    "device_count_is_no_function": Way("import torch\ntorch.cuda.device_count = 1\n", "partial",
                                       "number of devices: TypeError"),
    "snapshot_raises": Way(replaced("torch.cuda.memory.memory_snapshot", RAISES.format("RuntimeError")), "partial",
                           "snapshot: RuntimeError: not in this build",
                           facts={"torch.allocated_bytes": 10 * GIB}, oom=CAUGHT),
    "snapshot_is_of_another_type": Way(replaced("torch.cuda.memory.memory_snapshot", "return 7"), "partial",
                                       "snapshot: TypeError", oom=CAUGHT),
    "no_memory_for_the_snapshot": Way(replaced("torch.cuda.memory.memory_snapshot", "raise MemoryError"),
                                      "partial", "snapshot: MemoryError", oom=CAUGHT),
    "snapshot_is_enormous": Way("import torch\nask = torch._C._cuda_memoryStats\ndef stats(device):\n"
                                "    found = ask(device)\n    found['allocation']['all']['current'] = 5000000\n"
                                "    return found\ntorch._C._cuda_memoryStats = stats\n", "partial",
                                r"snapshot: ValueError: 500\d+ blocks are more than",
                                facts={"torch.allocated_bytes": 10 * GIB}),
    "no_lazy_call": Way("import torch\n", "partial", "hook of torch: AttributeError: module 'torch.cuda' has",
                        env={"STUB_TORCH_NO_LAZY_CALL": "1"}),
    # --- JAX and TensorFlow ---
    "jax_memory_stats_raise": Way(JAX, "partial", "^jax: RuntimeError: memory_stats is not implemented$", oom=None,
                                  env={"STUB_JAX": "raises"}, facts={"jax.in_use_bytes": None}),
    "jax_keeps_its_backends_otherwise": Way(JAX, "partial", r"^hook of jax: TypeError: .*_backends is a list$",
                                            oom=None, env={"STUB_JAX": "list"}),
    "tensorflow_has_no_context": Way("import tensorflow.python.eager.context as c\ndel c._context\nimport tensorflow\n"
                                     "1 / 0\n", "partial", "tensorflow: AttributeError: .*has no attribute '_context'$",
                                     oom=None),
    "tensorflow_asks_otherwise": Way(
        "import tensorflow, time\nfrom tensorflow.python.eager import context\ntensorflow.zeros(1)\n"
        "context.Context.get_memory_info = lambda *_: {}\ntime.sleep(0.3)\n1 / 0\n", "partial",
        "^tensorflow: KeyError: 'current'$", oom=None),
    # --- CuPy and ONNX Runtime ---
    "cupy_is_broken": Way(CUPY, "partial", "cupy: RuntimeError: the pool is broken", oom=None, env={"STUB_CUPY": "raises"},
                          facts={"cupy.in_use_bytes": None}),
    "cupys_exception_cannot_be_watched": Way(CUPY, "partial", "^refusals of cupy: TypeError: immutable type$", oom=None,
                                             env={"STUB_CUPY": "immutable"}, facts={"cupy.in_use_bytes": 15 * GIB}),
    "onnxruntime_has_no_sessions": Way("import onnxruntime\nerror = onnxruntime.RuntimeException\n"
                                       "del onnxruntime.InferenceSession\nraise error('out of memory')\n", "partial",
                                       "^onnxruntime: AttributeError: .*InferenceSession'$", oom=None),
    # --- where to write ---
    "run_directory_is_a_file": Way("import os, time\nhook = os.environ.get('ROCMCRASH_HOOK', '::').split(':', 2)[2]\n"
                                   "while hook and not os.path.isdir(hook): time.sleep(0.01)\n"
                                   "if hook: open(hook + '/hook', 'w').close()\nimport torch\n",
                                   "failed", "NotADirectoryError"),
    "run_directory_is_removed": Way("import os, shutil, torch\nbegun = torch.empty(1 << 20)\n"
                                    "hook = os.environ.get('ROCMCRASH_HOOK', '::').split(':', 2)[2]\n"
                                    "if hook: shutil.rmtree(hook)\n", "ok", facts={"torch.requested_bytes": 9 * GIB}),
    "no_descriptors": Way("import resource, torch\nbegun = torch.empty(1 << 20)\n"
                          "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n",
                          "partial", "out of memory: OSError: Too many open files"),
    "no_file_may_grow": Way("import resource, torch\nbegun = torch.empty(1 << 20)\n"
                            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n", "partial",
                            "out of memory: OSError: File too large"),
    "a_file_that_grows_is_the_end": Way("import resource, signal, torch\nbegun = torch.empty(1 << 20)\n"
                                        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
                                        "resource.setrlimit(resource.RLIMIT_FSIZE, (9, resource.RLIM_INFINITY))\n",
                                        "partial", "out of memory: OSError: the size of files is limited"),
    "an_audit_hook_forbids_files": Way("import sys, torch\nbegun = torch.empty(1 << 20)\ndef audit(event, _):\n"
                                       "    if event in ('open', 'mmap.__new__', 'sys._current_frames'):\n"
                                       "        raise PermissionError('not in this sandbox')\n"
                                       "sys.addaudithook(audit)\n", "partial",
                                       "out of memory: PermissionError: not in this sandbox"),
    # --- threads, forks, signals, the end ---
    "no_thread": Way("import threading, torch\nthreading.stack_size(1 << 46)\n", "partial",
                     "samples: RuntimeError: can't start new thread"),
    "sleep_fork_and_threads_are_others": Way(
        "import os, threading, time, _thread, torch\ndef patched(*_, **__):\n    raise AssertionError('ours')\n"
        "fork = os.fork\nthreading.Thread = threading.Lock = time.sleep = _thread.start_new_thread = patched\n"
        "time.monotonic_ns = patched\nbegun = torch.empty(1 << 20)\n"
        "if fork() == 0: os._exit(0)\nos.wait()\n", "ok"),
    "forks_while_it_samples": Way(
        "import os, time, torch\nask = torch._C._cuda_memoryStats\ndef slow(device):\n    time.sleep(0.02)\n"
        "    return ask(device)\ntorch._C._cuda_memoryStats = slow\nbegun = torch.empty(1 << 20)\nfor i in range(6):\n    time.sleep(0.03 * i)\n    pid = os.fork()\n    if pid == 0:\n"
        "        time.sleep(0.15)\n        os._exit(len(os.listdir('/proc/self/task')) - 1)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\nassert len(os.listdir('/proc/self/task')) <= 2\n", "ok"),
    "forks_while_a_sample_hangs": Way(
        "import os, time, torch\nask, hanging = torch._C._cuda_memoryStats, [True]\ndef hangs(device):\n"
        "    while hanging: time.sleep(0.01)\n    return ask(device)\ndef tasks():\n"
        "    return len(os.listdir('/proc/self/task'))\nbegun = torch.empty(1 << 20)\n"
        "torch._C._cuda_memoryStats = hangs\ntime.sleep(0.15)\nfor _ in range(3):\n    if os.fork() == 0: os._exit(0)\n"
        "    os.wait()\nhanging.clear()\nend = time.monotonic() + 10\nwhile tasks() > 2 and time.monotonic() < end:\n"
        "    time.sleep(0.01)\nassert tasks() <= 2\n", "ok", env={"PYTHONWARNINGS": "ignore"}),
    "a_fork_handler_fails": Way(
        "import os, torch\nbegun = torch.empty(1 << 20)\ndef before():\n    1 / 0\n"
        "class Before:\n    __repr__ = lambda self: 'before'\n    __call__ = lambda self: before()\n"
        "os.register_at_fork(before=Before())\nif os.fork() == 0: os._exit(0)\nos.wait()\n", "ok"),
    "a_key_is_pressed_while_it_writes": Way(
        replaced("torch.cuda.memory.memory_snapshot", "time.sleep(5)") + "import signal, time\n"
        "keep = torch.empty(10 << 30)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))\ntry:\n    try:\n"
        "        torch.empty(9 << 30)\n    except torch.OutOfMemoryError:\n        time.sleep(5)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n    raise SystemExit(5)\n", "partial",
        "^snapshot: InterruptedError: by the program's own KeyboardInterrupt$", oom=None,
        options=("--bundle-on=oom",), stdout="interrupted\n"),
    "little_memory_is_left": Way(
        "import resource, torch\nbegun = [torch.empty(3 << 20) for _ in range(3000)]\ndel begun[::2]\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))\n", ("ok", "partial"),
        "^$|MemoryError"),
    "forks_in_its_handler": Way(
        "import os, torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n"
        "except torch.OutOfMemoryError:\n    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n"
        "    print(os.waitpid(pid, 0)[1])\n    raise\n", "ok", stdout="0\n", oom=None,
        facts={"torch.requested_bytes": 9 * GIB}),
    "forks_in_an_observer": Way(
        "import os, torch\nbegun = torch.empty(1)\ndef observer(*_):\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n"
        "torch._C._cuda_attach_out_of_memory_observer(observer)\n", "ok"),
    "another_thread_forks_while_it_writes": Way(
        replaced("torch.cuda.memory.memory_snapshot", "time.sleep(0.3); return []") + "import os, sys, threading, time\n"
        "keep = torch.empty(10 << 30)\nsaid = []\ndef fork():\n    time.sleep(0.1)\n    pid = os.fork()\n"
        "    if pid == 0:\n        sys.exit() if len(os.listdir('/proc/self/task')) == 1 else os._exit(9)\n"
        "    said.append(os.waitpid(pid, 0)[1])\nthread = threading.Thread(target=fork)\nthread.start()\n"
        "try:\n    torch.empty(9 << 30)\nexcept torch.OutOfMemoryError:\n    thread.join()\n    print(said)\n"
        "    raise SystemExit(3)\n", "ok", oom=None, options=("--bundle-on=oom",), stdout="[0]\n",
        env={"PYTHONWARNINGS": "ignore"},
        facts={"torch.requested_bytes": 9 * GIB}),
    "a_handler_exits": Way(
        replaced("torch.cuda.memory.memory_snapshot", "time.sleep(5)") + "import signal, sys, time\n"
        "signal.signal(signal.SIGALRM, lambda *_: sys.exit(7))\nkeep = torch.empty(10 << 30)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\ntry:\n    torch.empty(9 << 30)\n"
        "except torch.OutOfMemoryError:\n    time.sleep(5)\nprint('never')\n", "partial",
        "^snapshot: InterruptedError: by the program's own SystemExit$", oom=None,
        options=("--bundle-on=oom",), stdout=""),
    "a_handler_raises": Way(
        replaced("torch.cuda.memory.memory_snapshot", "time.sleep(5)") + "import signal, time\n"
        "def handler(*_):\n    raise TimeoutError('of the program')\nsignal.signal(signal.SIGALRM, handler)\n"
        "keep = torch.empty(10 << 30)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)\ntry:\n    try:\n"
        "        torch.empty(9 << 30)\n    except torch.OutOfMemoryError:\n        time.sleep(5)\n"
        "except TimeoutError as error:\n    print(error)\ntorch.cuda.memory.memory_snapshot = lambda: []\n"
        "torch.empty(9 << 30)\n", "partial", "^snapshot: InterruptedError: by the program's own TimeoutError$", oom=None,
        stdout="of the program\n"),
    "a_handler_raises_at_a_fork": Way(
        "import os, signal, time, torch\nask = torch._C._cuda_memoryStats\ndef slow(device):\n    time.sleep(0.15)\n"
        "    return ask(device)\ndef handler(*_):\n    print('handler')\n    raise TimeoutError('of the program')\n"
        "signal.signal(signal.SIGALRM, handler)\nbegun = torch.empty(1 << 20)\ntorch._C._cuda_memoryStats = slow\n"
        "time.sleep(0.13)\ntry:\n    signal.setitimer(signal.ITIMER_REAL, 0.02)\n    pid = os.fork()\n"
        "    if pid == 0:\n        os._exit(0)\n    time.sleep(5)\n    print('never')\n"
        "except TimeoutError as error:\n    print(error)\nassert signal.getsignal(signal.SIGALRM) is handler\n"
        "torch._C._cuda_memoryStats = ask\n", "ok", stdout="handler\nof the program\n"),
    "no_room_for_frames": Way(
        "import sys, torch\nkeep = torch.empty(10 << 30)\ndef deep(n):\n"
        "    return deep(n - 1) if n else torch.empty(9 << 30)\n"
        "try:\n    deep(sys.getrecursionlimit() - 15)\nexcept torch.OutOfMemoryError as error:\n"
        "    error.__traceback__ = None\n    print(type(error))\nkeep = None\nsys.exit(3)\n", ("ok", "partial"),
        "^$|^memory_stats: RecursionError", oom=None,  # CPython 3.13 counts other frames
        options=("--bundle-on=oom",), stdout="<class 'torch.OutOfMemoryError'>\n",
        facts={"torch.requested_bytes": 9 * GIB}),
    "the_end_while_it_samples": Way(
        "import atexit, os, time, torch\nask = torch._C._cuda_memoryStats\ndef slow(device):\n    time.sleep(0.05)\n"
        "    return ask(device)\ntorch._C._cuda_memoryStats = slow\nbegun = torch.empty(1 << 20)\natexit._clear()\n"
        "atexit.register(time.sleep, 0.1)\n", "ok"),
    "a_fork_after_the_end": Way(
        "import atexit, os, torch\ndef last():\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n"
        "    print(len(os.listdir('/proc/self/task')))\natexit.register(last)\nbegun = torch.empty(1 << 20)\n", "ok",
        stdout=None if sys.version_info[:2] == (3, 12) else "1\n"),
    "subinterpreters": Way(
        "try:\n    import _interpreters as many\nexcept ImportError:\n    import _xxsubinterpreters as many\n"
        "for code in ('import sys; print(sys.excepthook is sys.__excepthook__)',\n"
        "             'import torch, time; begun = torch.empty(1 << 20); time.sleep(0.15)'):\n"
        "    one = many.create()\n    many.run_string(one, code)\n    many.destroy(one)\nimport torch\n", ("ok", "partial"),
        "^$|RuntimeError: thread is not supported|faulthandler does not support", stdout="True\n"),
    # --- the program's own code, where an exception or a module is looked at ---
    "args_is_a_property": Way("import os\nclass Error(Exception):\n    args = property(lambda error: os._exit(7))\n"
                              "raise Error('HIP out of memory')\n", "ok", oom=None, facts={"hook.exception_type": "Error"}),
    "cause_is_a_property": Way("import os\nclass Error(Exception):\n    __cause__ = property(lambda error: os._exit(7))\n"
                               "    __context__ = property(lambda error: os._exit(8))\n"
                               "raise Error('HIP out of memory')\n", "ok", oom=None, facts={"hook.exception_type": "Error"}),
    "a_lazy_module_is_not_loaded": Way(
        "import importlib.util, os, sys\nspec = importlib.util.find_spec('jax')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\nlazy = importlib.util.module_from_spec(spec)\n"
        "sys.modules['jax'] = lazy\nspec.loader.exec_module(lazy)\n"
        "import atexit\natexit.register(lambda: print(object.__getattribute__(lazy, '__class__').__name__))\n1 / 0\n", "ok",
        oom=None, stdout="_LazyModule\n"),
    # --- what a program does to Python ---
    "modules_are_gone": Way("import sys\nfor name in list(sys.modules):\n"
                            "    if name in ('posix', 'time', '_thread', '_signal', '_frozen_importlib_external'):\n"
                            "        del sys.modules[name]\nimport torch\n", "partial", "hook of torch: KeyError"),
    "torch_is_imported_again": Way("import sys, torch\nbegun = torch.empty(1 << 20)\nfor name in list(sys.modules):\n"
                                   "    if name.partition('.')[0] == 'torch':\n        del sys.modules[name]\n"
                                   "import torch\n", "ok"),
    "an_import_hook_raises": Way(
        "import sys\nclass Finder:\n    def __init__(self, name):\n        self.name = name\n"
        "    def find_spec(self, name, path=None, target=None):\n        if name == 'torch':\n"
        "            raise RuntimeError(self.name + ' forbids it')\nsys.meta_path.insert(0, Finder('first'))\n"
        "try:\n    import torch\nexcept RuntimeError as error:\n    print(error)\ndel sys.meta_path[0]\n"
        "sys.meta_path.append(Finder('last'))\nsys.meta_path.insert(-2, Finder('middle'))\nimport torch\n", "ok",
        oom=None, stdout="first forbids it\n", facts={"hook.exception_type": "RuntimeError"}),
    "threads_hardly_change": Way("import sys, torch, time\nsys.setswitchinterval(100)\nbegun = torch.empty(1 << 20)\n"
                                 "time.sleep(0.3)\n", "ok"),
    "threads_always_change": Way("import sys, torch, time\nsys.setswitchinterval(1e-6)\nbegun = torch.empty(1 << 20)\n"
                                 "time.sleep(0.3)\n", "ok"),
    "warnings_are_errors": Way("import torch\n", "ok", env={"PYTHONWARNINGS": "error", "PYTHONHASHSEED": "0",
                                                         "PYTHONSAFEPATH": "1", "PYTHONOPTIMIZE": "2"}),
    "nothing_is_cached": Way("import torch\n", "ok", env={"PYTHONPYCACHEPREFIX": "/proc/no/such", "PYTHONDEVMODE": "1",
                                                       "PYTHONMALLOC": "debug", "PYTHONUTF8": "0", "LC_ALL": "C"}),
}
# Older Pythons end every thread with pthread_exit(), which loads libgcc_s. The real PyTorch has
# loaded it already, the stand-in has not.
if sys.version_info < (3, 9, 6):
    del WAYS["no_descriptors"], WAYS["little_memory_is_left"]
# It cannot end a subinterpreter that has a thread (PyTorch cannot run in one), and prints about its locks.
if sys.version_info < (3, 9):
    del WAYS["subinterpreters"], WAYS["sleep_fork_and_threads_are_others"]
# The disk of the run directory is full, also for our own processes.
MOUNTED = {"small_disk_is_filled": Way(FILLS, ("partial", "failed"), "No space left", stdout="No space left on device\n")}
if os.geteuid() == 0 and os.path.isdir("/dev/shm"):
    WAYS.update(MOUNTED)
# The C library fails as with a broken disk (faults/shim.c), in the Python only.
BROKEN_DISKS = {"disk_is_full": (28, 1, "No space left"), "disk_is_read_only": (30, 1, "Read-only file system"),
                "disk_is_broken": (5, 1, "Input/output error"), "quota_is_used_up": (122, 1, "quota"),
                "disk_becomes_full": (28, 5, "No space left"),
                "disk_becomes_read_only": (30, 7, "Read-only file system")}
if os.environ.get("ROCMCRASH_LONG") != "1":
    del BROKEN_DISKS["disk_is_broken"], BROKEN_DISKS["quota_is_used_up"], WAYS["threads_always_change"]
for _name, (_number, _time, _text) in BROKEN_DISKS.items():
    WAYS[_name] = Way("import torch\n", ("partial", "failed"), _text,
                      env={"RC_FAULT": f"output:{_number}:{_time}:STATE"})


class Fails(support.Case):
    results = {}

    @classmethod
    def setUpClass(cls):
        wanted = [name for name in WAYS if any(name in word for word in sys.argv[1:])] or list(WAYS)
        losses.shim()  # compiled once, before there are threads
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            futures = {name: pool.submit(cls.both, WAYS[name]) for name in wanted}
        cls.results = {name: future.result() for name, future in futures.items()}

    @classmethod
    def both(cls, way):
        """The run without rocmcrash and that with it, in folders of their own."""
        case = cls("test_no_more_ways_than_tests")
        case.setUp()
        case.environ.update(PYTHONPATH=STUB, PYTHONDONTWRITEBYTECODE="1", ROCMCRASH_SYSROOT=case.path("machine"))
        case.environ.update({k: v.replace("STATE", case.environ["ROCMCRASH_STATE_DIR"]) for k, v in way.env.items()})
        os.mkdir(case.path("machine"))  # no kernel log: it may have other tests' faults
        if "RC_FAULT" in way.env:
            case.environ.update(LD_PRELOAD=losses.shim(), RC_FAULT_EXE=os.path.basename(os.path.realpath(PYTHON)))
        if way in MOUNTED.values():
            cls.mount(case)
        script = case.write("program.py", way.code)
        try:
            plain = subprocess.run([PYTHON, script], capture_output=True, text=True, check=False, timeout=60,
                                   env={k: v.replace("/state", "/plain") if k == "SMALL" else v
                                        for k, v in case.environ.items() if k != "ROCMCRASH_HOOK"})
            return plain, case.run_it(PYTHON, script, options=way.options)
        finally:
            case.doCleanups()

    @staticmethod
    def mount(case):
        for name in ("plain", "state"):
            os.mkdir(case.path(name))
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", case.path(name)], check=True)
            case.addCleanup(subprocess.run, ["umount", "-l", case.path(name)], check=True)
        case.environ["SMALL"] = case.path("state")

    def check(self, name):
        way = WAYS[name]
        plain, done = self.results[name]
        printed = [re.sub(r"0x[0-9a-f]{8,}", "0x", text) for text in (plain.stderr, done.target_stderr)]
        if name == "little_memory_is_left":  # CPython 3.13 quotes the source with the memory that is left (LIMITS.md)
            printed = [re.findall(r"^(?:  File|(?!Traceback)\S).*", text, re.M) for text in printed]
        self.assertEqual([plain.returncode, plain.stdout, printed[0]], [done.status, done.stdout, printed[1]])
        self.assertNotIn("AssertionError", plain.stderr)
        if way.stdout is not None:
            self.assertEqual(plain.stdout, way.stdout)
        row = self.only_bundle(done).row("hook")
        if way.status is not None:
            self.assertIn(row["status"], way.status if isinstance(way.status, tuple) else (way.status,), row)
            self.assertRegex(row["reason"], way.reason or "^$")
        for fact, value in way.facts.items():
            self.assertEqual(done.bundles[0].value(fact), value, fact)

    def test_no_more_ways_than_tests(self):
        self.assertEqual(len(WAYS), sum(name.startswith("test_way_") for name in dir(self)))


for _name in WAYS:
    setattr(Fails, "test_way_" + _name, lambda self, name=_name: self.check(name))


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    unittest.TestCase.maxDiff = 2000
    support.main()
