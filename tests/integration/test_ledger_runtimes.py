# SPDX-License-Identifier: Apache-2.0
"""HIP's functions that the ledger's library interposes: which runtime's function is called and noted."""

import os
import struct
import subprocess

import support
from preloaded import CC, Alone

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
int hipGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, void *status)
{
    return hipGetProcAddress(name, f, 0, flags, status);
}
"""
FAKE_CALLER = """
#include <stddef.h>
int hipMalloc(void **p, size_t size);
int hipInit(unsigned flags);
int hipGetProcAddress(const char *name, void **f, int version, unsigned long flags, void *status);
int hipGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, void *status);
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
int call_by_entry(void **p, size_t size)
{
    void *f;
    hipGetDriverEntryPoint("hipMalloc", &f, 0, NULL);
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
    call("call_by_entry", 1u << 31);
    call("call", 10);
    return 0;
}
"""

# A library that is bound at once (RTLD_NOW). While it is bound, the loader calls the resolver of `slow`.
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
    """Which function of which runtime is called. These runtimes only return their number."""

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
        """Returns the output, which must be the same with the library, and the noted functions."""
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
                # Noted: the call, and the two lookups by name. A pointer in the program's own data is not changed.
                self.assertEqual(len(ledger.hip_refusals) - before, 3)
                self.assertEqual(ledger.raw.hip_runtimes, before // 3 + 1)

    def test_relro_that_ends_within_a_page(self):
        """The loader makes whole pages read-only; the rest of the last page must stay writable."""
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
        """The loader still writes to the library's addresses, and makes them read-only itself."""
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
        # It is seen when it is loaded and a tenth of a second has passed.
        self.assertGreaterEqual(len(self.ledger.read().hip_refusals), 1)

    def test_two_runtimes_each_with_its_own_caller(self):
        callers = [self.caller(self.runtime(n), "-Wl,-z,now") for n in (5, 6)]
        lines, ledger = self.both_ways(*callers)
        self.assertEqual(lines[0], "(2 5) (2 6) ")
        self.assertEqual(lines[-1], "(0 5) (0 6) ")
        self.assertEqual(len(ledger.hip_refusals), 6)
        self.assertEqual(ledger.raw.hip_runtimes, 2)

    def test_two_runtimes_bound_later(self):
        callers = [self.caller(self.runtime(n), "-Wl,-z,lazy") for n in (5, 6)]
        lines, ledger = self.both_ways(*callers, rounds=3)
        self.assertEqual(lines[:3], ["(2 5) (2 6) "] * 3)
        self.assertEqual(len(ledger.hip_refusals), 2 * 2)  # all calls except those that bound the function

    def test_somebody_else_before_the_runtime(self):
        """A profiler's preloaded library defines hipMalloc: all callers call it, and it calls the runtime."""
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


if __name__ == "__main__":
    support.main()
