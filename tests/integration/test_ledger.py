# SPDX-License-Identifier: Apache-2.0
"""The ledger that is preloaded into the target: it says what the (emulated) driver decided, and no
program notices it."""

import contextlib
import glob
import os
import shutil
import struct
import subprocess
import sys
import unittest

import ledger_file
import ledger_oracle
import support

BUILD = os.path.dirname(os.path.dirname(support.ROCMCRASH))
LIBRARY = os.path.join(BUILD, "bin", "librocmcrash-ledger.so")
SCHEDULE = os.path.join(BUILD, "tests", "unit", "inject", "ledger_schedule")
EMULATOR = os.path.join(BUILD, "tests", "emulator")
os.environ["EMULATOR_BUILD"] = EMULATOR
sys.path.insert(0, os.path.join(support.SOURCE, "tests", "emulator"))
import emulated  # noqa: E402

SCHEDULES = 40
# LeakSanitizer traces its own process, and says so when it cannot.
CC = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
HELLO = """
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
    /* What a library that was not quite invisible would change. */
    char *p = malloc(100);
    strcpy(p, argc > 1 ? argv[1] : "world");
    errno = 0;
    int fd = open("/nowhere/at/all", O_RDONLY);
    printf("hello %s %d %d\\n", p, fd, errno);
    for (char **e = environ; *e != NULL; e++)
        printf("%s\\n", *e);
    fflush(stdout);
    fprintf(stderr, "an error line\\n");
    free(p);
    if (argc > 2)
        execlp(argv[2], argv[2], argc > 3 ? argv[3] : NULL, (char *)NULL);
    return 3;
}
"""


def need(path, package):
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{os.path.basename(path)} is not built here: it needs {package}")
    return path


def need_preload():
    """A rocmcrash with a sanitizer of its own cannot have anything preloaded."""
    done = subprocess.run([support.ROCMCRASH, "--version"], capture_output=True, text=True,
                          check=False, env={**os.environ, "LD_PRELOAD": LIBRARY})
    if done.returncode != 0:
        raise unittest.SkipTest("this rocmcrash cannot be preloaded: " + done.stderr[:80])


class Oracle(support.Case):
    """Ledger against the driver's journal."""

    def setUp(self):
        super().setUp()
        need(SCHEDULE, "libdrm-dev")
        need(emulated.LIBRARY, "libdrm-dev")
        self.runner = ledger_oracle.Runner(emulated, LIBRARY, SCHEDULE, self.folder)

    def check(self, seeds, **kwargs):
        decisions, processes = 0, 0
        for seed in seeds:
            wrong, count, images = self.runner.run(seed, **kwargs)
            self.assertEqual(wrong, [])
            decisions += count
            processes += images
        return decisions, processes

    def test_random_schedules(self):
        decisions, processes = self.check(range(SCHEDULES))
        self.assertGreater(decisions, SCHEDULES * 20)
        self.assertGreater(processes, SCHEDULES)  # there were forks and execs

    def test_killed_at_any_moment(self):
        for step in range(10):
            self.check([5000 + step], steps=100000, kill_after_s=0.05 + step * 0.01)

    def test_threads_at_the_same_moment(self):
        self.check(range(9000, 9005), steps=150, threads=4)


class Alone(emulated.Case):
    """Without rocmcrash around the program."""

    def setUp(self):
        super().setUp()
        need(emulated.LIBRARY, "libdrm-dev")
        self.ledger = ledger_file.Fresh(LIBRARY)
        self.addCleanup(self.ledger.close)


class Noted(Alone):
    """What a program does, on the emulated machine."""

    def environ(self):
        return {**self.ledger.environ, "LD_PRELOAD": f"{LIBRARY}:{emulated.LIBRARY}"}

    def program(self, name, host=None, **kwargs):
        host = host or self.machine("gfx90a", vram=1 * emulated.GIB)
        return self.start(host, emulated.program(name), environ=self.environ(), **kwargs)

    def test_retry_and_success(self):
        one = self.program("kfd_memory")
        first = one.ask("vram", 900 << 20)
        self.assertEqual(first, ["vram", "1", "0"])
        self.assertEqual(one.ask("vram", 200 << 20)[2], "12")
        self.assertEqual(one.ask("vram", 200 << 20)[2], "12")
        self.assertEqual(one.ask("free", 0)[2], "0")
        self.assertEqual(one.ask("vram", 200 << 20)[2], "0")
        self.assertEqual(one.ask("gtt", 4096)[2], "0")
        ledger = self.ledger.read()
        self.assertEqual([(r.retry_of, r.size, r.error, r.live) for r in ledger.refusals],
                         [(0, 200 << 20, 12, 900 << 20), (1, 200 << 20, 12, 900 << 20)])
        self.assertGreater(ledger.refusals[0].satisfied_ns, ledger.refusals[1].time_ns)
        self.assertEqual(ledger.gpus[0].live[0], 200 << 20)
        self.assertEqual(ledger.gpus[0].peak[0], 900 << 20)
        sizes = {(s.bytes, s.kind): (s.allocations, s.frees) for s in ledger.sizes}
        self.assertEqual(sizes, {(900 << 20, 0): (1, 1), (200 << 20, 0): (1, 0), (4096, 1): (1, 0)})
        self.assertEqual([ledger_file.EVENTS[e.type] for e in ledger.events],
                         ["alloc", "refused", "refused", "free", "alloc", "alloc"])

    def test_mapping_and_descriptor_limits(self):
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.program("kfd_memory", host, faults="alloc kind=gtt errno=EMFILE")
        self.assertEqual(one.ask("gtt", 4096)[2], "24")
        refusal = self.ledger.read().refusals[0]
        self.assertEqual((refusal.error, refusal.operation), (24, 0))
        self.assertGreater(refusal.fds, 4)
        self.assertGreater(refusal.fds_limit, refusal.fds)
        self.assertGreater(refusal.mappings, 10)
        self.assertGreater(refusal.mappings_limit, refusal.mappings)

    def test_exec_into_a_program_without_gpu(self):
        code = ("import fcntl, os, struct\n"
                "kfd = os.open('/dev/kfd', os.O_RDWR)\n"
                "args = struct.pack('=QQQQII', 1 << 32, 1 << 20, 0, 0, 51966, 1)\n"
                "fcntl.ioctl(kfd, 0xc0284b16, args)\n"
                "try: os.execv('/nowhere', ['x'])\n"
                "except OSError: print('alive', flush=True)\n"
                "if input() == 'go': os.execv('/bin/cat', ['cat'])\n")
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.start(host, "/usr/bin/python3", "-S", "-c", code, environ=self.environ())
        self.assertEqual(one.ready, ["alive"])
        ledger = self.ledger.read()
        self.assertEqual(ledger_file.LIVES[ledger.processes[0].life], "alive")
        self.assertEqual(ledger.gpus[0].live[0], 1 << 20)
        one.send("go")
        support.wait_for(lambda: support.comm(one.process.pid) == "cat", "the exec")
        self.assertEqual(one.ask("still", "there"), ["still", "there"])
        ledger = self.ledger.read()
        self.assertEqual(ledger_file.LIVES[ledger.processes[0].life], "execed")
        self.assertEqual((ledger.gpus[0].live[0], ledger.accounts[0].live), (0, 1 << 20))

    def test_mmap_that_fails(self):
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.program("kfd_memory", host)
        with open(f"/proc/{one.process.pid}/maps", encoding="ascii") as maps:
            lines = len(maps.readlines())
        with open(host.path("emulator/faults"), "w", encoding="ascii") as file:
            file.write(f"mappings max={lines + 4}\n")
        errors = []
        for number in range(8):
            self.assertEqual(one.ask("gtt", 8192)[2], "0")
            errors.append(one.ask("map", number)[2])
        self.assertIn("12", errors)
        failed = self.ledger.read().refusals
        self.assertEqual(len(failed), errors.count("12"))
        self.assertEqual({(r.operation, r.error, r.size, r.kind) for r in failed},
                         {(ledger_file.OPERATIONS.index("mmap"), 12, 8192, 1)})
        self.assertGreaterEqual(failed[0].mappings, lines)

    def test_gem_and_one_gpu(self):
        """The render node and the KFD are joined by what ROCr tells the driver."""
        one = self.program("hsa_memory")
        self.assertEqual(one.ready[0], "ready")
        ledger = self.ledger.read()
        self.assertEqual([(g.kfd_gpu_id, g.render_minor) for g in ledger.gpus.values()],
                         [(51966, 128)])

    def test_refused_inside_hip(self):
        done = self.machine("gfx90a", vram=1 * emulated.GIB).run(
            emulated.program("hip_memory"), str(3 << 30), environ=self.environ())
        self.assertEqual(done.returncode, 1)
        ledger = self.ledger.read()
        self.assertEqual(ledger.refusals, [])
        self.assertEqual([(r.function, r.size, r.error, r.kernel_refusals)
                          for r in ledger.hip_refusals], [(b"hipMalloc", 3 << 30, 2, 0)])

    def test_refused_by_the_driver_below_hip(self):
        done = self.machine("gfx90a", vram=1 * emulated.GIB).run(
            emulated.program("hip_memory"), str(100 << 20), environ=self.environ())
        self.assertEqual(done.returncode, 1)
        ledger = self.ledger.read()
        self.assertEqual([(r.size, r.error, r.retry_of) for r in ledger.refusals],
                         [(100 << 20, 12, 0), (100 << 20, 12, 1)])
        self.assertEqual([(r.function, r.size, r.kernel_refusals, r.kernel_refusal)
                          for r in ledger.hip_refusals], [(b"hipMalloc", 100 << 20, 2, 2)])

    def test_hip_by_address(self):
        """A runtime of a local scope, its functions by dlsym(): Python's way, and Triton's."""
        emulated.program("hip_memory")
        code = ("import ctypes, sys\n"
                "hip = ctypes.CDLL('libamdhip64.so.5')\n"
                "p, n = ctypes.c_void_p(), ctypes.c_size_t\n"
                "class Extent(ctypes.Structure):\n"
                " _fields_ = [('w', n), ('h', n), ('d', n)]\n"
                "print(hip.hipMalloc(ctypes.byref(p), n(4 << 30)), hip.hipGetLastError())\n"
                "print(hip.hipMalloc3D((n * 4)(), Extent(1 << 20, 1 << 10, 4)))\n"
                "print(hip.hipMalloc(ctypes.byref(p), n(1 << 20)))\n")
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        plain = host.run("/usr/bin/python3", "-S", "-c", code)
        if plain.returncode != 0:
            self.skipTest("no libamdhip64.so.5 here")
        done = host.run("/usr/bin/python3", "-S", "-c", code, environ=self.environ())
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))
        self.assertEqual(done.stdout, "2 2\n2\n0\n")
        self.assertEqual([(r.function, r.size, r.kernel_refusals)
                          for r in self.ledger.read().hip_refusals],
                         [(b"hipMalloc", 4 << 30, 0), (b"hipMalloc3D", 4 << 30, 0)])

    def test_no_symbol_of_hip_where_there_is_none(self):
        code = ("import ctypes\n"
                "try: print(ctypes.CDLL(None).hipMalloc)\n"
                "except AttributeError as error: print(error)\n")
        environ = dict(os.environ)
        plain = subprocess.run(["/usr/bin/python3", "-S", "-c", code], env=environ,
                               capture_output=True, text=True, check=False)
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", code], capture_output=True,
                              text=True, check=False, env={**environ, **self.ledger.environ})
        self.assertIn("undefined symbol", plain.stdout)
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))
        self.assertEqual(self.ledger.read().raw.attached, 0)  # nothing to write

    def test_silent_sampler_costs_once(self):
        self.ledger.add_counters()
        one = self.program("kfd_memory")
        self.assertEqual(one.ask("vram", 4 << 30)[2], "12")
        raw = self.ledger.read().raw
        self.assertEqual((raw.counters_asked, raw.counters_late), (1, 1))
        self.assertGreaterEqual(raw.counters_waited_ns, 50e6)
        self.assertLess(raw.counters_waited_ns, 500e6)
        self.assertEqual(self.ledger.read().refusals[0].counters_ns, 0)
        for times in range(2, 14):
            self.ledger.write(counters_asked_ns=1)  # as if a second had passed
            self.assertEqual(one.ask("vram", 4 << 30)[2], "12")
            again = self.ledger.read().raw
            self.assertEqual((again.counters_asked, again.counters_late), (min(times, 10), 1))
            self.assertEqual(again.counters_waited_ns, raw.counters_waited_ns)

    def test_models(self):
        folder = os.path.join(self.folder, "models")
        os.mkdir(folder)
        for name, size in (("small.gguf", 10), ("list.pth", 10), ("weights.pt", 1 << 20),
                           ("firmware.bin", 1 << 20), ("pytorch_model-1.bin", 1 << 20)):
            with open(os.path.join(folder, name), "wb") as file:
                file.truncate(size)
        code = ("import os, sys\n"
                "os.chdir(sys.argv[1])\n"
                "for name in sorted(os.listdir('.')) * 2: open(name, 'rb').close()\n"
                "try: open('missing.safetensors')\n"
                "except OSError: pass\n")
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", code, folder], check=False,
                              env={**os.environ, **self.ledger.environ})
        self.assertEqual(done.returncode, 0)
        self.assertEqual([(m.path.decode(), m.error) for m in self.ledger.read().models],
                         [(os.path.join(folder, "pytorch_model-1.bin"), 0),
                          (os.path.join(folder, "small.gguf"), 0),
                          (os.path.join(folder, "weights.pt"), 0), ("missing.safetensors", 2)])


FAKE_RUNTIME = """
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
int hipMalloc(void **p, size_t size) { *p = (void *)(size_t)ID; return size > 1 << 30 ? 2 : 0; }
int hipInit(unsigned flags) { char version[8]; ioctl(-1, 0x80084b01ul, version); return (int)flags; }
int hipGetProcAddress(const char *name, void **f, int version, unsigned long flags, void *status)
{
    (void)version; (void)flags; (void)status;
    *f = strcmp(name, "hipMalloc") == 0 ? (void *)hipMalloc : NULL;
    return *f == NULL;
}
"""
FAKE_CALLER = """
#include <stddef.h>
int hipMalloc(void **p, size_t size);
int hipInit(unsigned flags);
int hipGetProcAddress(const char *name, void **f, int version, unsigned long flags, void *status);
int (*pointer)(void **, size_t) = hipMalloc;
volatile int calls = 1; /* beside the addresses of functions */
int start(void) { return hipInit(0); }
int call(void **p, size_t size)
{
    int r = hipMalloc(p, size);
    calls++;
    return r;
}
int call_by_pointer(void **p, size_t size) { return pointer(p, size); }
int call_by_name(void **p, size_t size)
{
    void *f;
    hipGetProcAddress("hipMalloc", &f, 0, 0, NULL);
    return ((int (*)(void **, size_t))f)(p, size);
}
"""
FAKE_MAIN = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void *libraries[8];
static int count;
static void call(const char *function, size_t size)
{
    for (int i = 0; i < count; i++) {
        void *p = NULL;
        int (*f)(void **, size_t) = (int (*)(void **, size_t))dlsym(libraries[i], function);
        int r = f(&p, size);
        printf("(%d %d) ", r, (int)(size_t)p);
    }
    printf("\\n");
}
static void start(void)
{
    for (int i = 0; i < count; i++) ((int (*)(void))dlsym(libraries[i], "start"))();
}
int main(int argc, char **argv)
{
    const struct timespec pause = {0, 150000000};
    for (int i = 2; i < argc; i++) {
        libraries[count++] = dlopen(argv[i], RTLD_LAZY | RTLD_LOCAL);
        if (libraries[count - 1] == NULL) return puts(dlerror());
    }
    start();
    for (int i = 0; i < atoi(argv[1]); i++) { /* more than once: the first call binds */
        call("call", 1u << 31);
        nanosleep(&pause, NULL); /* the library looks again after a tenth of a second */
        start();
    }
    call("call_by_pointer", 1u << 31);
    call("call_by_name", 1u << 31);
    call("call", 10);
    return 0;
}
"""

# Bound at once, and in the middle of that: the loader asks which of the functions `slow` is.
SLOW_LIBRARY = """
#include <time.h>
#include <unistd.h>
static int slow_function(void) { return 0; }
static void *resolve(void)
{
    const struct timespec pause = {0, 300000000};
    (void)!write(9, "", 1);
    nanosleep(&pause, NULL);
    return slow_function;
}
int slow(void) __attribute__((ifunc("resolve")));
"""
SLOW_CALLER = """
#include <stddef.h>
#include <stdlib.h>
int hipMalloc(void **p, size_t size);
int slow(void);
int call_slowly(void **p, size_t size)
{
    int r = hipMalloc(p, size) + slow();
    return r + abs(0);
}
"""
SLOW_MAIN = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *load(void *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
int main(int argc, char **argv)
{
    char byte;
    int ends[2];
    void *library, *p = NULL;
    pthread_t thread;
    void *caller = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*call)(void **, size_t) = (int (*)(void **, size_t))dlsym(caller, "call");
    ((int (*)(void))dlsym(caller, "start"))();
    if (pipe(ends) != 0 || dup2(ends[1], 9) != 9) return 1;
    pthread_create(&thread, NULL, load, argv[argc - 1]);
    (void)!read(ends[0], &byte, 1);
    call(&p, 10); /* the library looks at what is being loaded */
    pthread_join(thread, &library);
    if (library == NULL) return puts(dlerror());
    for (int i = 0; i < 2; i++) {
        call(&p, 10);
        printf("%d\\n", ((int (*)(void **, size_t))dlsym(library, "call_slowly"))(&p, 1u << 31));
        usleep(150000);
    }
    return 0;
}
"""


class Runtimes(Alone):
    """Which function of which runtime is called, with runtimes that only say who they are."""

    def build(self, path, source, *flags, shared=("-shared", "-fPIC")):
        if CC is None:
            self.skipTest("no compiler here")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([CC, "-x", "c", "-O1", *shared, "-o", path, "-", "-x", "none", *flags],
                       input=source, text=True, check=True)
        return path

    def command(self, rounds, *callers):
        main = self.build(os.path.join(self.folder, "main"), FAKE_MAIN, "-ldl", shared=())
        return [main, str(rounds), *callers]

    def runtime(self, number):
        return self.build(os.path.join(self.folder, f"rt{number}", f"libamdhip64.so.{number}"),
                          FAKE_RUNTIME, f"-DID={number}", f"-Wl,-soname,libamdhip64.so.{number}")

    def caller(self, runtime, *flags):
        self.callers = getattr(self, "callers", 0) + 1
        return self.build(os.path.join(self.folder, f"user{self.callers}.so"), FAKE_CALLER, runtime,
                          f"-Wl,-rpath,{os.path.dirname(runtime)}", *flags)

    def both_ways(self, *callers, rounds=1, preload=""):
        """What it printed, the same with the library; the functions noted."""
        argv = self.command(rounds, *callers)
        plain = subprocess.run(argv, env={**os.environ, "LD_PRELOAD": preload}, text=True,
                               capture_output=True, check=True)
        environ = {**os.environ, **self.ledger.environ}
        environ["LD_PRELOAD"] += ":" + preload if preload else ""
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))
        ledger = self.ledger.read()
        self.assertEqual({r.size for r in ledger.hip_refusals}, {1 << 31})
        return done.stdout.splitlines(), ledger

    def test_bound_at_once_and_later(self):
        for flags in (("-Wl,-z,now",), ("-Wl,-z,lazy",), ("-Wl,-z,now,-z,relro",),
                      ("-Wl,-z,lazy", "-fno-plt")):
            with self.subTest(flags=flags):
                before = len(self.ledger.read().hip_refusals)
                lines, ledger = self.both_ways(self.caller(self.runtime(5), *flags))
                self.assertEqual(lines[0], "(2 5) ")
                # By name and by the call; a pointer in the program's own data stays its own.
                self.assertEqual(len(ledger.hip_refusals) - before, 2)
                self.assertEqual(ledger.raw.hip_runtimes, before // 2 + 1)

    def test_relro_that_ends_within_a_page(self):
        """The loader makes whole pages read-only; what lies on the last one is still written to."""
        path = self.caller(self.runtime(5), "-Wl,-z,lazy,-z,relro")
        with open(path, "r+b") as file:
            elf = bytearray(file.read())
            at, = struct.unpack_from("<Q", elf, 32)
            size, count = struct.unpack_from("<HH", elf, 54)
            for header in range(at, at + size * count, size):
                kind, address, memory = struct.unpack_from("<I12xQ16xQ", elf, header)
                if kind == 0x6474e552:  # PT_GNU_RELRO
                    self.assertEqual((address + memory) % 4096, 0)
                    struct.pack_into("<Q", elf, header + 40, memory + 256)
            file.seek(0)
            file.write(elf)
        lines, ledger = self.both_ways(path, rounds=2)
        self.assertEqual(lines[0], "(2 5) ")
        self.assertGreaterEqual(len(ledger.hip_refusals), 2)

    def test_library_that_is_being_loaded(self):
        """The loader writes to its addresses still, and makes them read-only itself."""
        runtime = self.runtime(5)
        folder = os.path.dirname(runtime)
        slow = self.build(os.path.join(folder, "libslow.so"), SLOW_LIBRARY)
        path = self.build(os.path.join(self.folder, "slow_user.so"), SLOW_CALLER, slow, runtime,
                          f"-Wl,-rpath,{folder}", "-Wl,-z,now,-z,relro")
        main = self.build(os.path.join(self.folder, "slow_main"), SLOW_MAIN, "-ldl", "-pthread",
                          shared=())
        environ = {**os.environ, **self.ledger.environ}
        done = subprocess.run([main, self.caller(runtime, "-Wl,-z,now"), path], env=environ,
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "2\n2\n"), done.stderr)
        # It is seen once it is loaded, and a tenth of a second has passed.
        self.assertGreaterEqual(len(self.ledger.read().hip_refusals), 1)

    def test_two_runtimes_each_with_its_own_caller(self):
        callers = [self.caller(self.runtime(n), "-Wl,-z,now") for n in (5, 6)]
        lines, ledger = self.both_ways(*callers)
        self.assertEqual(lines[0], "(2 5) (2 6) ")
        self.assertEqual(lines[-1], "(0 5) (0 6) ")
        self.assertEqual(len(ledger.hip_refusals), 4)
        self.assertEqual(ledger.raw.hip_runtimes, 2)

    def test_two_runtimes_bound_later(self):
        callers = [self.caller(self.runtime(n), "-Wl,-z,lazy") for n in (5, 6)]
        lines, ledger = self.both_ways(*callers, rounds=3)
        self.assertEqual(lines[:3], ["(2 5) (2 6) "] * 3)
        self.assertEqual(len(ledger.hip_refusals), 2 * 2)  # all but the calls that bound

    def test_somebody_else_before_the_runtime(self):
        """A profiler's preload that defines hipMalloc is called by all, and calls the runtime."""
        other = self.build(os.path.join(self.folder, "profiler.so"), """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
int hipMalloc(void **p, size_t size)
{
    int r = size > 1 << 30 ? 77 : 0;
    *p = (void *)(uintptr_t)99;
    return r;
}
""")
        callers = [self.caller(self.runtime(5), "-Wl,-z,lazy")]
        argv = self.command(2, *callers)
        environ = {**os.environ, **self.ledger.environ}
        environ["LD_PRELOAD"] += ":" + other
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.splitlines()[0], "(77 99) ")
        self.assertEqual(done.stdout.splitlines()[1], "(77 99) ")


class Recorded(support.Case):
    """With rocmcrash around it, on the emulated machine."""

    def setUp(self):
        super().setUp()
        need(emulated.LIBRARY, "libdrm-dev")
        need_preload()
        self.host = emulated.Machine(emulated.machine.make(
            self.path("machine"), ("gfx90a",), vram=1 << 30, base=32 << 20))

    def on_machine(self, *argv, ours=False, options=(), **kwargs):
        command = self.command(*argv, options=options) if ours else list(argv)
        return [emulated.KEEPER, self.host.root, *command]

    def ledger_in_run_dir(self):
        found = glob.glob(self.path("state", "runs", "*", "ledger"))
        return found[0] if found else None

    def test_tools_print_the_same(self):
        for tool, *options in (("rocminfo",), ("rocm-smi",), ("rocm-smi", "--showmeminfo", "vram"),
                               ("rocm-smi", "--showpids"), ("rocm-smi", "-a")):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed here")
            runs = [subprocess.run(self.on_machine(tool, *options, ours=ours), env=self.environ,
                                   capture_output=True, timeout=60, check=False)
                    for ours in (False, True)]
            plain, ours = runs
            with self.subTest(tool=tool, options=options):
                self.assertEqual(plain.returncode, ours.returncode)
                self.assertEqual(plain.stdout.decode(), ours.stdout.decode())
                self.assertEqual(plain.stderr.decode(), ours.stderr.decode())

    def silent(self, status, *lines):
        """A program that says nothing, and ends with the status."""
        code = "printf '%s\\n' \"$@\" | " + emulated.program("kfd_memory") + f" >/dev/null; exit {status}"
        done = subprocess.run(self.on_machine("/bin/sh", "-c", code, "sh", *lines, ours=True),
                              env=self.environ, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return self.bundles()

    def test_refusal_that_nobody_printed(self):
        bundles = self.silent(5, "vram 838860800", "vram 419430400")
        self.assertEqual(len(bundles), 1)
        self.assertEqual(bundles[0].verdict["class"], "capacity", bundles[0].verdict["sentence"])
        self.assertIn("400", bundles[0].verdict["sentence"])

    def test_no_bundle_without_a_refusal_that_lasted(self):
        self.assertEqual(self.silent(5, "vram 838860800"), [])
        self.assertEqual(self.silent(5, "vram 838860800", "vram 419430400", "free 0",
                                     "vram 419430400"), [])
        self.assertEqual(self.silent(0, "vram 838860800", "vram 419430400"), [])

    def test_copy_survives_everybody(self):
        """The sampler answers at the refusal; the copy on disk has it when all are killed."""
        process = subprocess.Popen(
            self.on_machine(emulated.program("kfd_memory"), ours=True), env=self.environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.communicate)
        for line in ("vram 104857600\n", "gtt 8192\n", "vram 3221225472\n"):
            process.stdin.write(line)
        process.stdin.flush()
        answers = [process.stdout.readline().split() for _ in range(4)]
        self.assertEqual(answers[3], ["vram", "2", "12"])
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: len(ledger_file.read(path).refusals) == 1, "the refusal in it")
        supervisor = support.children(process.pid)[0]
        target = self.target_pid(supervisor)
        ours = [supervisor, target] + [self.helper(supervisor, name) for name in support.HELPERS]
        for pid in ours:
            with contextlib.suppress(ProcessLookupError):  # one takes others along
                os.kill(pid, 9)
        support.wait_for(lambda: not any(map(support.is_running, ours)), "their ends")
        ledger = ledger_file.read(path)
        refusal = ledger.refusals[0]
        self.assertEqual((refusal.size, refusal.error, refusal.live), (3 << 30, 12, 100 << 20))
        self.assertGreater(refusal.counters_ns, refusal.time_ns)
        self.assertEqual(ledger.raw.counters_late, 0)
        self.assertEqual({(ledger_file.KINDS[e.kind], e.size) for e in ledger.live},
                         {("vram", 100 << 20), ("gtt", 8192)})
        self.assertEqual(list(ledger.processes.values())[0].pid, target)

    def start_silent(self, *options):
        """A program that ends with 5 when its input does."""
        process = subprocess.Popen(
            self.on_machine("/bin/sh", "-c", emulated.program("kfd_memory") + "; exit 5", ours=True,
                            options=options),
            env=self.environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        return process, support.wait_for(lambda: support.children(process.pid), "rocmcrash")[0]

    def answers(self, process, *lines):
        for line in lines:
            process.stdin.write(line + "\n")
        process.stdin.flush()
        return [process.stdout.readline() for _ in lines]

    def test_no_recorder_at_the_end(self):
        """What the recorder did not get to disk the finisher takes from the supervisor."""
        process, supervisor = self.start_silent()
        process.stdout.readline()
        last = 0
        for _ in range(9):  # it is replaced eight times
            last = support.wait_for(
                lambda: next((pid for pid in support.children(supervisor) if pid != last and
                              support.comm(pid) == support.HELPERS["recorder"]), 0), "a recorder")
            os.kill(last, 9)
        support.wait_for(lambda: not support.is_running(last), "its end")
        self.answers(process, "vram 838860800", "vram 419430400")
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 5)
        bundles = self.bundles()
        self.assertEqual(len(bundles), 1)
        self.assertEqual(bundles[0].verdict["class"], "capacity", bundles[0].verdict["sentence"])

    def test_what_changed_before_the_supervisor_was_killed(self):
        """Without a failure a copy is made every half minute; the last one is of the end."""
        process, supervisor = self.start_silent("--trace=none")
        process.stdout.readline()
        self.answers(process, "vram 3221225472")
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: ledger_file.read(path).refusals, "the refusal in it")
        self.answers(process, "vram 10485760")
        kept = ledger_file.read(path).accounts
        os.kill(supervisor, 9)
        bundle = support.wait_for(self.bundles_that_are_whole, "the bundle")[0]
        self.assertEqual([a.live for a in kept if a.live], [])  # else this shows nothing
        self.assertEqual(bundle.value("run.supervisor_killed"), True)
        self.assertIn(10485760, [fact["value"] for facts in bundle.facts.values() for fact in facts
                                 if fact["name"].startswith("ledger.") and "value" in fact])

    def bundles_that_are_whole(self):
        try:
            return self.bundles()
        except (OSError, KeyError, EOFError):
            return []

    def test_end_of_a_process_is_noticed(self):
        """What a child held when it was killed stays in its account, and leaves the GPU's sum."""
        code = ("import os, subprocess, sys\n"
                "def run(*lines):\n"
                "  p = subprocess.Popen([sys.argv[1]], stdin=-1, stdout=-1, text=True)\n"
                "  for line in lines: print(line, file=p.stdin, flush=True)\n"
                "  for _ in range(len(lines) + 1): p.stdout.readline()\n"
                "  return p\n"
                "p = run('vram 10485760'); p.kill(); p.wait()\n"
                "p = run('vram 4096', 'vram 3221225472')\n"
                "print('ready', flush=True)\n"
                "sys.stdin.read()\n")
        process = subprocess.Popen(
            self.on_machine("/usr/bin/python3", "-S", "-c", code, emulated.program("kfd_memory"),
                            ours=True), env=self.environ, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), "ready\n")
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: ledger_file.read(path).refusals, "the refusal in it")
        ledger = ledger_file.read(path)
        lives = [ledger_file.LIVES[p.life] for _, p in sorted(ledger.processes.items())]
        self.assertEqual(lives, ["ended", "alive"])
        self.assertEqual(sorted(a.live for a in ledger.accounts), [4096, 10485760])
        self.assertEqual(ledger.gpus[0].live[0], 4096)


class Unnoticed(support.Case):
    """Programs of every kind print and return the same with the library as without."""

    def build(self, name, *flags, source=HELLO, compiler=CC):
        if compiler is None or shutil.which(compiler) is None:
            self.skipTest("no compiler for it here")
        path = self.path(name)
        done = subprocess.run([compiler, "-x", "c", "-o", path, "-", *flags], input=source,
                              text=True, capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"{name} cannot be built here: {done.stderr.strip().splitlines()[-1]}")
        return path

    def both(self, *argv, env=None, options=("--inject=ledger",), **kwargs):
        """Without rocmcrash and with it."""
        env = {**self.environ, **(env or {})}
        plain = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60,
                               check=False, stdin=subprocess.DEVNULL, **kwargs)
        ours = subprocess.run(self.command(*argv, options=options), env=env, capture_output=True,
                              text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, **kwargs)
        return plain, ours

    def same(self, *argv, status=None, **kwargs):
        plain, ours = self.both(*argv, **kwargs)
        # "_" is what a shell ran last: rocmcrash. libfaketime names its memory by the process.
        strip = lambda text: [line for line in text.splitlines()
                              if not line.startswith(("_=", "FAKETIME_SHARED="))]
        self.assertEqual(strip(ours.stdout), strip(plain.stdout))
        own = [line for line in ours.stderr.splitlines() if not line.startswith("rocmcrash: ")]
        self.assertEqual(own, plain.stderr.splitlines())
        self.assertEqual(ours.returncode, plain.returncode)
        if status is not None:
            self.assertEqual(plain.returncode, status)
        return plain

    def each_way(self, program, *arguments, status=3, **kwargs):
        """Directly, below a shell, with an empty environment, from Python's subprocess."""
        self.same(program, *arguments, status=status, **kwargs)
        self.same("/bin/sh", "-c", '"$0" "$@"; exit $?', program, *arguments, status=status, **kwargs)
        self.same("/usr/bin/env", "-i", program, *arguments, status=status, **kwargs)
        self.same("/usr/bin/python3", "-S", "-c",
                  "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)",
                  program, *arguments, status=status, **kwargs)

    def test_plain(self):
        program = self.build("hello")
        self.each_way(program)
        self.each_way(program, "again", program)
        self.each_way(program, "again", "/bin/echo", "done", status=0)

    def test_the_library_is_there(self):
        """Otherwise the other tests here prove nothing."""
        code = "import sys; sys.exit('ledger.so' in open('/proc/self/maps').read())"
        program = ("/usr/bin/python3", "-S", "-c", code)
        shell = ("/bin/sh", "-c", 'exec "$0" "$@"')
        python = ("/usr/bin/python3", "-S", "-c",
                  "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")
        for around in ((), shell, ("/usr/bin/env", "-i"), ("/usr/bin/nice",), python):
            plain, ours = self.both(*around, *program)
            self.assertEqual((plain.returncode, ours.returncode), (0, 1), around)
            plain, ours = self.both(*around, *program, options=("--inject=none",))
            self.assertEqual((plain.returncode, ours.returncode), (0, 0), around)

    def test_static(self):
        self.each_way(self.build("static", "-static"))

    def test_32_bit(self):
        source = """
void _start(void)
{
    static const char text[] = "32 bits\\n";
    int n;
    __asm__ volatile("int $0x80" : "=a"(n) : "a"(4), "b"(1), "c"(text), "d"(8) : "memory");
    __asm__ volatile("int $0x80" : : "a"(1), "b"(3));
}
"""
        self.each_way(self.build("bits32", "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie",
                                 "-fno-stack-protector", source=source))

    def test_32_bit_with_a_loader(self):
        self.each_way(self.build("dynamic32", "-m32"))

    def test_musl(self):
        self.each_way(self.build("musl", compiler="musl-gcc"))

    def test_sanitizers(self):
        for name in ("address", "undefined", "thread", "leak"):
            with self.subTest(sanitizer=name):
                self.each_way(self.build(name, f"-fsanitize={name}"))

    def test_sanitizers_of_clang(self):
        for name in ("address", "thread", "memory"):
            with self.subTest(sanitizer=name):
                self.each_way(self.build(f"clang-{name}", f"-fsanitize={name}", compiler="clang"))

    def test_sanitizer_that_finds_something(self):
        source = "#include <stdlib.h>\nint main(void) { char *p = malloc(4); free(p); return p[1]; }"
        program = self.build("faulty", "-fsanitize=address", source=source)
        plain, ours = self.both("/bin/sh", "-c", f"{program} 2>&1 | grep -c ERROR:.AddressSanitizer")
        self.assertEqual((plain.stdout, ours.stdout), ("1\n", "1\n"))

    def test_sanitizer_of_a_preload(self):
        """What people do with a program that is not instrumented."""
        need_preload()
        found = subprocess.run([CC, "-print-file-name=libasan.so"], capture_output=True, text=True,
                               check=False).stdout.strip()
        if not os.path.isabs(found):
            self.skipTest("no shared libasan here")
        self.each_way(self.build("hello"), env={"LD_PRELOAD": os.path.realpath(found),
                                                "ASAN_OPTIONS": "detect_leaks=0"})

    def test_other_preloads(self):
        need_preload()
        places = ("/usr/lib/*/libjemalloc.so.2", "/usr/lib/*/libtcmalloc_minimal.so.4",
                  "/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/*/faketime/libfaketimeMT.so.1")
        libraries = [path for place in places for path in glob.glob(place)]
        if not libraries:
            self.skipTest("none of libjemalloc2, libtcmalloc-minimal4, libfaketime is installed")
        program = self.build("hello")
        for library in libraries:
            with self.subTest(library=os.path.basename(library)):
                env = {"LD_PRELOAD": library, "FAKETIME": "@2001-02-03 04:05:06"}
                self.each_way(program, env=env)
                self.same("/bin/date", "+%Y", env=env, status=0)

    def test_preload_of_its_own(self):
        """One that replaces what the library replaces: it still does, and sees every call once."""
        need_preload()
        source = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
static void say(const char *what) { (void)!write(2, what, strlen(what)); }
int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    if (strncmp(path, "/nowhere", 8) == 0) say("[open]\\n");
    return next(path, flags, 0);
}
int execve(const char *path, char *const argv[], char *const env[])
{
    int (*next)(const char *, char *const *, char *const *) = dlsym(RTLD_NEXT, "execve");
    say("[execve]\\n");
    return next(path, argv, env);
}
"""
        other = self.build("other.so", "-shared", "-fPIC", "-ldl", source=source)
        done = self.same(self.build("hello"), "x", env={"LD_PRELOAD": other}, status=3)
        self.assertEqual(done.stderr.count("[open]"), 1)
        self.each_way("/bin/sh", "-c", "exec /bin/true", status=0, env={"LD_PRELOAD": other})

    def test_chroot(self):
        if os.geteuid() != 0:
            self.skipTest("chroot needs root")
        root = self.path("root")
        program = self.build("hello")
        loader = "/lib64/ld-linux-x86-64.so.2"
        libc = next(iter(glob.glob("/lib/*/libc.so.6")), "")
        if not os.path.exists(loader) or not libc:
            self.skipTest("another libc than expected here")
        for path, place in ((program, "/hello"), (loader, loader), (libc, libc)):
            os.makedirs(root + os.path.dirname(place), exist_ok=True)
            shutil.copy(path, root + place)
        for chroot in (("chroot", root), ("unshare", "-m", "chroot", root)):
            self.same(*chroot, "/hello", status=3)
            self.same("/bin/sh", "-c", '"$@"; exit $?', "sh", *chroot, "/hello", "x", "/hello", status=3)

    def test_set_uid(self):
        if os.geteuid() != 0:
            self.skipTest("making a set-uid program needs root")
        program = self.path("id")
        shutil.copy("/usr/bin/id", program)
        os.chmod(self.folder, 0o755)
        os.chmod(program, 0o4755)
        run = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", program)
        done = self.same(*run, status=0)
        if "euid=0" not in done.stdout:
            self.skipTest("set-uid programs do nothing in this folder (nosuid)")
        self.same(*run[:-1], "/bin/sh", "-c", f"{program}; exec {program}", status=0)

    def test_crash_reporter(self):
        """On a signal stack of 8 KiB, in all three ways."""
        source = """
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void start(int how)
{
    char *argv[] = {"echo", "crashed", NULL};
    pid_t pid;
    if (how == 0)
        (void)posix_spawn(&pid, "/bin/echo", NULL, NULL, argv, environ);
    else if ((pid = how == 1 ? fork() : vfork()) == 0) {
        if (how == 1) execlp("echo", "echo", "crashed", (char *)NULL);
        execv("/bin/echo", argv);
        _exit(9);
    }
    (void)waitpid(pid, NULL, 0);
}
static int how;
static void handler(int signo) { (void)signo; start(how); _exit(7); }
int main(int argc, char **argv)
{
    how = argc > 1 ? atoi(argv[1]) : 0;
    stack_t stack = {.ss_sp = malloc(how == 2 ? 65536 : 8192), .ss_size = how == 2 ? 65536 : 8192};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    *(volatile int *)8 = 1;
    return 0;
}
"""
        program = self.build("reporter", source=source)
        for how in ("0", "1", "2"):
            done = self.same(program, how, status=7)
            self.assertEqual(done.stdout, "crashed\n")

    def test_many_children_by_vfork_leave_nothing(self):
        source = """
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int count(void)
{
    int pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r"); /* mappings side by side are one line of maps */
    (void)!fscanf(statm, "%d", &pages);
    fclose(statm);
    return pages;
}
static void children(void)
{
    for (int i = 0; i < 100; i++) {
        char *argv[] = {"true", NULL};
        pid_t pid = vfork();
        if (pid == 0) { execv("/bin/true", argv); _exit(1); }
        waitpid(pid, NULL, 0);
    }
}
int main(void)
{
    children();
    int before = count();
    children();
    printf("%d\\n", count() - before);
    fflush(stdout);
    if (fork() == 0) {
        children();
        before = count();
        children();
        printf("%d\\n", count() - before);
        return 0;
    }
    wait(NULL);
    return 3;
}
"""
        done = self.same(self.build("vforks", source=source), status=3)
        self.assertEqual(done.stdout, "0\n0\n")

    def test_descriptors_and_streams(self):
        code = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        self.same("/usr/bin/python3", "-S", "-c", code, status=0)

    def test_limits(self):
        """Little address space, few descriptors."""
        program = self.build("hello")
        for limit in ("-v 40000", "-n 4", "-v 20000"):
            self.same("/bin/sh", "-c", f"ulimit {limit}; exec {program}")

    def test_fork_without_exec_and_vfork(self):
        code = ("import os, subprocess\n"
                "for i in range(20):\n"
                " p = os.fork()\n"
                " if p == 0: os._exit(i)\n"
                " print(os.waitpid(p, 0)[1])\n"
                " print(subprocess.run(['/bin/sh', '-c', 'exit %d' % i]).returncode)\n"
                " print(os.spawnv(os.P_WAIT, '/bin/true', ['true']), os.system('exit 3'))\n"
                " print(os.popen('echo hi').read())\n"
                "try: os.execv('/nowhere', ['x'])\n"
                "except OSError as error: print(error)\n")
        self.same("/usr/bin/python3", "-S", "-c", code, status=0)


if __name__ == "__main__":
    support.main()
