/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/room.h"
#include "inject/preload.h"
#include "inject/program.h"
#include "record/shared.h"

#define ENVIRONMENT_MAX (128u << 10)
#define CHUNK_BYTES ((size_t)64 << 10)
/* The sum of all ranges: the program stands still while they are read. 2 ms for 4 MiB, measured. */
#define CONSTANTS_MAX ((uint64_t)4 << 20)
#define STATIC_MAX ((uint64_t)8 << 20) /* of the constants and of the instructions of a static program, which is rare */
#define GO_MAX ((uint64_t)64 << 20) /* of a dynamic program in Go, whose parts differ by the way of linking */
#define CHUNK_OVERLAP 64 /* what is looked for is shorter, and may lie across two chunks */
#define BEFORE_SYSCALL 32 /* bytes of instructions between the number of a system call and the call */
#define SEEN_MAX 32

static bool name_of(pid_t pid, char *name, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    return fs_read_text(path, name, size) > 0;
}

/* A debugger's child must be able to ask to be traced, so a debugger and its children are let go
 * at its exec. */
bool tracer_is_debugger(pid_t pid)
{
    static const char *const names[] = {"gdb",      "gdbserver", "rocgdb", "lldb",   "lldb-server",
                                        "lldb-argdumper", "strace", "ltrace", "rr", "uftrace",
                                        "perf",     "drgdb",     "dlv"};
    char comm[32];
    if (!name_of(pid, comm, sizeof comm))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(comm, names[i]) == 0)
            return true;
    return false;
}

/* Python and its extensions get the runtime that way: python itself is not linked with it. */
static bool preloads_sanitizer(pid_t pid)
{
    static const char name[] = "LD_PRELOAD=";
    static char *text; /* not in .bss, which RLIMIT_DATA counts */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    if (text == NULL && (text = room_for(ENVIRONMENT_MAX + 1)) == NULL)
        return false;
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    ssize_t len = fd >= 0 ? fs_pread_full(fd, text, ENVIRONMENT_MAX, 0) : 0;
    text[len > 0 ? len : 0] = '\0';
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(text + at) + 1) {
        if (strncmp(text + at, name, sizeof name - 1) == 0)
            return preload_names_sanitizer(text + at + sizeof name - 1);
    }
    return false;
}

static int open_program(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static bool is_built_with_sanitizer(pid_t pid)
{
    char interpreter[256];
    uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)];
    RC_AUTO_CLOSE int fd = open_program(pid);
    return fd >= 0 && program_check(fd, interpreter, sizeof interpreter, scratch) == PRELOAD_SANITIZER;
}

/* LeakSanitizer traces its own process at the end, and fails it where we trace it already. */
static bool is_sanitized(pid_t pid)
{
    if (!is_built_with_sanitizer(pid) && !preloads_sanitizer(pid))
        return false;
    tracer.shared->processes_sanitized++;
    return true;
}

/* --- what a program's file says --- */

typedef bool finder(const char *bytes, size_t size);

/* A field of /proc/PID/status. */
static bool has_tracer_field(const char *bytes, size_t size)
{
    static const char word[] = "TracerPid";
    return memmem(bytes, size, word, sizeof word - 1) != NULL;
}

/* syscall.ptrace or unix.ptrace: a program in Go has the names of its functions, also when it is stripped. The number of
 * the call says nothing there, as each program that can start others has it. */
static bool has_ptrace_of_go(const char *bytes, size_t size)
{
    static const char word[] = "ptrace";
    const char *end = bytes + size;
    for (const char *p = bytes; (p = memmem(p, (size_t)(end - p), word, sizeof word - 1)) != NULL; p++)
        if (p > bytes && p[-1] == '.' && (size_t)(end - p) >= sizeof word && p[sizeof word - 1] == '\0')
            return true;
    return false;
}

/* "mov $101, %eax; syscall", as the C library has it. */
static bool calls_ptrace(const char *bytes, size_t size)
{
    static const char mov[] = {(char)0xb8, SYS_ptrace, 0, 0, 0};
    static const char call[] = {0x0f, 0x05};
    const char *end = bytes + size;
    for (const char *p = bytes; (p = memchr(p, SYS_ptrace, (size_t)(end - p))) != NULL; p++) {
        size_t left = (size_t)(end - p);
        if (p > bytes && left > sizeof mov && memcmp(p - 1, mov, sizeof mov) == 0 &&
            memmem(p, left < BEFORE_SYSCALL ? left : BEFORE_SYSCALL, call, sizeof call) != NULL)
            return true;
    }
    return false;
}

static bool range_has(int fd, struct program_range range, finder *find)
{
    static char *chunk; /* not in .bss, which RLIMIT_DATA counts */
    uint64_t end = range.offset + range.size;
    if (chunk == NULL && (chunk = room_for(CHUNK_BYTES)) == NULL)
        return false;
    for (uint64_t at = range.offset; at < end; at += CHUNK_BYTES - CHUNK_OVERLAP) {
        size_t want = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
        ssize_t n = fs_pread_full(fd, chunk, want, (off_t)at);
        if (n > 0 && find(chunk, (size_t)n))
            return true;
        if (n < (ssize_t)CHUNK_BYTES)
            return false;
    }
    return false;
}

static bool constants_have(int fd, finder *find, uint64_t max)
{
    struct program_range ranges[PROGRAM_RANGES_MAX];
    unsigned count = program_constants(fd, ranges);
    for (unsigned i = 0; i < count; i++) {
        if (ranges[i].size > max)
            ranges[i].size = max;
        if (range_has(fd, ranges[i], find))
            return true;
        max -= ranges[i].size;
    }
    return false;
}

/* The linker puts the C library last. */
static bool code_has(int fd, finder *find)
{
    struct program_range ranges[PROGRAM_RANGES_MAX];
    unsigned count = program_code(fd, ranges);
    for (unsigned i = 0; i < count; i++) {
        uint64_t skipped = ranges[i].size > STATIC_MAX ? ranges[i].size - STATIC_MAX : 0;
        if (range_has(fd, (struct program_range){ranges[i].offset + skipped, ranges[i].size - skipped}, find))
            return true;
    }
    return false;
}

/* A program in Go has the names of the functions that it may call. Starting others, it executes them in a child only, by
 * another function. */
static bool has_exec_of_go(const char *bytes, size_t size)
{
    static const char name[] = "syscall.Exec";
    return memmem(bytes, size, name, sizeof name) != NULL;
}

/* The answer of program_check(). */
struct kind {
    enum preload_answer answer;
    uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)];
};

static bool file_names_ptrace(int fd, const struct kind *kind)
{
    switch (kind->answer) {
    case PRELOAD_STATIC:
        return code_has(fd, calls_ptrace) || constants_have(fd, has_ptrace_of_go, STATIC_MAX);
    case PRELOAD_YES:
    case PRELOAD_OTHER_LOADER:
        return program_names(kind->scratch, "ptrace");
    default:
        return false;
    }
}

/* It may execute another program, and our library, which asks us then to let it go (inject/let_go.h), does not see it:
 * it is not in the program, or it is one in Go, which makes its system calls itself. */
static bool file_may_exec_unseen(int fd, const struct kind *kind)
{
    switch (kind->answer) {
    case PRELOAD_STATIC:
    case PRELOAD_OTHER_CLASS:
    case PRELOAD_OTHER_LOADER:
        return true;
    case PRELOAD_YES:
        return program_names(kind->scratch, "_cgo_panic") && range_has(fd, (struct program_range){0, GO_MAX}, has_exec_of_go);
    default:
        return false;
    }
}

struct seen {
    dev_t device;
    ino_t inode;
    int64_t changed_s;
    bool looks_for_tracer, names_ptrace, may_exec_unseen;
};

/* A shell starts the same few programs again and again: each file is read once. NULL = it cannot be. */
static const struct seen *look_at_program(pid_t pid)
{
    static struct seen all[SEEN_MAX];
    static unsigned next;
    struct stat st;
    RC_AUTO_CLOSE int fd = open_program(pid);
    if (fd < 0 || fstat(fd, &st) != 0)
        return NULL;
    for (unsigned i = 0; i < SEEN_MAX; i++)
        if (all[i].inode == st.st_ino && all[i].device == st.st_dev && all[i].changed_s == st.st_ctim.tv_sec)
            return &all[i];
    struct kind kind;
    char interpreter[256];
    kind.answer = program_check(fd, interpreter, sizeof interpreter, kind.scratch);
    struct seen *seen = &all[next++ % SEEN_MAX];
    *seen = (struct seen){
        .device = st.st_dev,
        .inode = st.st_ino,
        .changed_s = st.st_ctim.tv_sec,
        .looks_for_tracer = constants_have(fd, has_tracer_field, CONSTANTS_MAX),
        .names_ptrace = file_names_ptrace(fd, &kind),
        .may_exec_unseen = !tracer.privileged && file_may_exec_unseen(fd, &kind),
    };
    return seen;
}

/* Test programs (doctest, Catch2) that find a tracer in /proc/self/status take it for a debugger: a failed check stops
 * them with int3, and where no debugger answers that is their end. PTRACE_TRACEME fails where somebody traces the program
 * already, and programs that protect themselves then end. Our own programs leave tracing to the outer one. */
static bool is_wary(pid_t pid)
{
    char name[32];
    const struct seen *seen = look_at_program(pid);
    if (seen == NULL || !(seen->looks_for_tracer || seen->names_ptrace) || (name_of(pid, name, sizeof name) && strncmp(name, "rocmcrash", 9) == 0))
        return false;
    tracer.shared->processes_wary++;
    shared_event(tracer.shared, "tracer", "pid %d looks for a tracer or calls ptrace: not traced", (int)pid);
    return true;
}

bool tracer_is_left_alone(pid_t pid)
{
    return is_sanitized(pid) || is_wary(pid);
}

bool tracer_names_ptrace(pid_t pid)
{
    const struct seen *seen = look_at_program(pid);
    return seen != NULL && seen->names_ptrace;
}

bool tracer_may_exec_unseen(pid_t pid)
{
    const struct seen *seen = look_at_program(pid);
    return seen != NULL && seen->may_exec_unseen;
}
