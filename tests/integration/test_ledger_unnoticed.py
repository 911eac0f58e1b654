# SPDX-License-Identifier: Apache-2.0
"""No program notices the library that is preloaded into it."""

import glob
import os
import shutil
import subprocess

import support
from preloaded import CC, need_preload

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
    /* A library that is not quite invisible would change one of these. */
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
        """Runs it without rocmcrash and with it."""
        env = {**self.environ, **(env or {})}
        plain = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60,
                               check=False, stdin=subprocess.DEVNULL, **kwargs)
        ours = subprocess.run(self.command(*argv, options=options), env=env, capture_output=True,
                              text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, **kwargs)
        return plain, ours

    def same(self, *argv, status=None, **kwargs):
        plain, ours = self.both(*argv, **kwargs)
        # "_" is the program that the shell ran: rocmcrash. libfaketime's variable has the process's number.
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
        plain, ours = self.both("/bin/sh", "-c", f"ASAN_OPTIONS= {program} 2>&1 | grep -c ERROR:.AddressSanitizer")
        self.assertEqual((plain.stdout, ours.stdout), ("1\n", "1\n"))

    def test_sanitizer_of_a_preload(self):
        """The sanitizer is preloaded into a program that is not instrumented."""
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
        self.addCleanup(self.remove_faketimes, self.faketimes())
        for library in libraries:
            with self.subTest(library=os.path.basename(library)):
                env = {"LD_PRELOAD": library, "FAKETIME": "@2001-02-03 04:05:06"}
                self.each_way(program, env=env)
                self.same("/bin/date", "+%Y", env=env, status=0)

    @staticmethod
    def faketimes():
        return set(glob.glob("/dev/shm/*faketime*"))

    def remove_faketimes(self, before):
        """libfaketime does not remove its shared memory if its program calls exec."""
        for path in self.faketimes() - before:
            os.unlink(path)

    def test_preload_of_its_own(self):
        """A preloaded library that replaces the same functions as ours still sees every call once."""
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
        support.need_unshare(self, "-m")
        for chroot in (("chroot", root), ("unshare", "-m", "chroot", root)):
            self.same(*chroot, "/hello", status=3)
            self.same("/bin/sh", "-c", '"$@"; exit $?', "sh", *chroot, "/hello", "x", "/hello", status=3)

    def test_set_uid(self):
        support.need_ordinary_user(self)
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
        """A handler on a signal stack of 8 KiB starts a program in three ways."""
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
        """With little address space, and with few descriptors."""
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
