# SPDX-License-Identifier: Apache-2.0
"""A call of the driver hangs while its thread holds the lock of PyTorch's allocator: the program's Python goes on."""

import os
import shutil
import subprocess
import sys

import preloaded
import support
from attack_table import Attacks
from hooked import Direct, STUB, pythons

CXX = shutil.which("c++") or shutil.which("g++")

# PyTorch's part: a std::recursive_mutex, and every C++ exception becomes a RuntimeError.
ALLOCATOR = """
#include <exception>
#include <mutex>
extern "C" {
extern void *PyExc_RuntimeError;
void PyErr_SetString(void *, const char *);
void *PyObject_CallFunctionObjArgs(void *, ...);
void *PyCFunction_NewEx(void *, void *, void *);
int hipFree(void *);
static std::recursive_mutex locks[2];
int refused = 0;
static void *ask(void *function, void *argument)
{
    try {
        for (auto &each : locks)
            std::lock_guard<std::recursive_mutex> lock(each);
    } catch (const std::exception &e) {
        refused++;
        PyErr_SetString(PyExc_RuntimeError, e.what());
        return nullptr;
    }
    return PyObject_CallFunctionObjArgs(function, argument, nullptr);
}
static struct { const char *name; void *function; int flags; const char *text; } method = {
    "asked", (void *)ask, 8 /* METH_O */, nullptr};
void *guarded(void *function)
{
    return PyCFunction_NewEx(&method, function, nullptr);
}
int free_cached(void)
{
    std::lock_guard<std::recursive_mutex> lock(locks[1]);
    return hipFree(nullptr);
}
}
"""
# hipFree() writes a byte to 8 and returns 0 at a byte on 9, or 1 after 20 s.
RUNTIME = """
#include <poll.h>
#include <unistd.h>
int hipMalloc(void **p, unsigned long size) { (void)p; return size != 0; }
int hipFree(void *p)
{
    struct pollfd end = {9, POLLIN, 0};
    (void)p;
    return write(8, "", 1) == 1 && poll(&end, 1, 20000) == 1 ? 0 : 1;
}
"""
PROGRAM = """
import ctypes, gc, os, sys, threading, time
there, there_fd = os.pipe()
end_fd, end = os.pipe()
os.dup2(there_fd, 8), os.dup2(end_fd, 9)
import torch
allocator = ctypes.PyDLL(sys.argv[1])
allocator.guarded.restype = ctypes.py_object
allocator.guarded.argtypes = [ctypes.py_object]
snapshots = []
def snapshot(pool):  # as PyTorch 2.6
    if pool is not None:
        raise RuntimeError("mempool_id must be a tuple of size 2")
    snapshots.append(torch._C.snapshot())
    return {"segments": snapshots[-1]}
torch._C._cuda_memoryStats = allocator.guarded(torch._C._cuda_memoryStats)
torch._C._cuda_memorySnapshot = allocator.guarded(snapshot)
refused = ctypes.c_int.in_dll(allocator, "refused")
free = ctypes.CDLL(sys.argv[1]).free_cached  # without the GIL
keep = torch.empty(1 << 20)
def sampler_of():  # our thread
    for frame in sys._current_frames().values():
        while frame is not None:
            own = frame.f_locals.get("self")
            if hasattr(own, "pause_s"):
                return own
            frame = frame.f_back
def counted():  # a refusal holds the GIL, too: for 20 pauses of 50 us
    sampler = sampler_of()
    return sampler.look.__globals__["held_ns"] >= 1000000 and sampler.at_most_s is None
hung = []
thread = threading.Thread(target=lambda: hung.append(free()))
thread.start()
os.read(there, 1)
until = time.monotonic() + 10
while refused.value < 3 and time.monotonic() < until:
    time.sleep(0.01)
asked = refused.value >= 3 and counted()
os.write(end, b".")
thread.join()
rows = lambda: os.path.exists(sys.argv[2]) and sum(1 for _ in open(sys.argv[2]))
sys.argv[2] = "%s/%d.torch.csv" % (sys.argv[2], os.getpid())
before, until = rows(), time.monotonic() + 20
while rows() < before + 2 and time.monotonic() < until:
    time.sleep(0.01)
print("stopped" if hung[0] else "went on", asked, rows() >= before + 2, len(snapshots) > 0, gc.isenabled())
"""


class Lock(Direct):
    def setUp(self):
        super().setUp()
        if CXX is None:
            self.skipTest("no C++ compiler here")
        preloaded.need_preload()
        runtime = self.build("libamdhip64.so", RUNTIME, "-xc")
        self.allocator = self.build("libc10_hip.so", ALLOCATOR, "-xc++", runtime, "-Wl,-z,now",
                                    f"-Wl,-rpath,{os.path.dirname(runtime)}")

    def build(self, name, source, language, *flags):
        path = self.path("libraries", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([CXX, "-shared", "-fPIC", "-o", path, language, "-", "-xnone", *flags],
                       input=source, text=True, check=True)
        return path

    def test_python_goes_on_while_the_driver_hangs(self):
        with Attacks("hung driver") as attacks:
            for version, python in pythons().items():
                if version < (3, 10):
                    continue  # without PyGC_Disable() the hook guards nothing
                with attacks.one(version):
                    done = self.go("-c", PROGRAM, self.allocator, self.hook, path=[STUB], python=python,
                                   more={"LD_PRELOAD": preloaded.LIBRARY})
                    self.assertEqual((done.stdout, done.stderr, done.returncode), ("went on True True True True\n", "", 0))
                    self.assertEqual(self.events("trouble"), [])


if __name__ == "__main__":
    if not support.ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    support.main()
