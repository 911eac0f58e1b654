/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/tracer_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/room.h"
#include "inject/preload.h"
#include "inject/program.h"
#include "record/shared.h"

#define ENVIRONMENT_MAX (128u << 10)
#define CHUNK_BYTES ((size_t)64 << 10)
#define CONSTANTS_MAX ((uint64_t)4 << 20) /* of all ranges: the program stands still while they are read */
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
                                        "perf",     "drgdb"};
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

/* --- programs that look for a tracer --- */

static const char tracer_field[] = "TracerPid"; /* of /proc/PID/status */

static bool range_has(int fd, uint64_t at, uint64_t size, char *chunk)
{
    const size_t word = sizeof tracer_field - 1;
    uint64_t end = at + size;
    while (at < end) {
        size_t want = end - at < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;
        ssize_t n = fs_pread_full(fd, chunk, want, (off_t)at);
        if (n < (ssize_t)word)
            return false;
        if (memmem(chunk, (size_t)n, tracer_field, word) != NULL)
            return true;
        at += (uint64_t)n - (word - 1); /* the word may lie across two chunks */
        if ((size_t)n < want || at + word > end)
            return false;
    }
    return false;
}

static bool constants_have_tracer_field(int fd)
{
    static char *chunk; /* not in .bss, which RLIMIT_DATA counts */
    if (chunk == NULL && (chunk = room_for(CHUNK_BYTES)) == NULL)
        return false;
    struct program_range ranges[PROGRAM_RANGES_MAX];
    unsigned count = program_constants(fd, ranges);
    uint64_t left = CONSTANTS_MAX;
    for (unsigned i = 0; i < count; i++) {
        uint64_t size = ranges[i].size < left ? ranges[i].size : left;
        if (range_has(fd, ranges[i].offset, size, chunk))
            return true;
        left -= size;
    }
    return false;
}

/* A shell starts the same few programs again and again: each file is read once. */
static bool looks_for_tracer(pid_t pid)
{
    static struct {
        dev_t device;
        ino_t inode;
        int64_t changed_s;
        bool answer;
    } seen[SEEN_MAX];
    static unsigned next;
    struct stat st;
    RC_AUTO_CLOSE int fd = open_program(pid);
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    for (unsigned i = 0; i < SEEN_MAX; i++)
        if (seen[i].inode == st.st_ino && seen[i].device == st.st_dev && seen[i].changed_s == st.st_ctim.tv_sec)
            return seen[i].answer;
    unsigned at = next++ % SEEN_MAX;
    seen[at].device = st.st_dev;
    seen[at].inode = st.st_ino;
    seen[at].changed_s = st.st_ctim.tv_sec;
    seen[at].answer = constants_have_tracer_field(fd);
    return seen[at].answer;
}

/* Test programs (doctest, Catch2) that find a tracer in /proc/self/status take it for a debugger: a failed check stops
 * them with int3, and where no debugger answers that is their end. Our own programs leave tracing to the outer one. */
static bool is_wary(pid_t pid)
{
    char name[32];
    if (!looks_for_tracer(pid) || (name_of(pid, name, sizeof name) && strncmp(name, "rocmcrash", 9) == 0))
        return false;
    tracer.shared->processes_wary++;
    shared_event(tracer.shared, "tracer", "pid %d looks for a tracer: not traced", (int)pid);
    return true;
}

bool tracer_is_left_alone(pid_t pid)
{
    return is_sanitized(pid) || is_wary(pid);
}

bool tracer_names_ptrace(pid_t pid)
{
    char interpreter[256];
    uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)];
    RC_AUTO_CLOSE int fd = open_program(pid);
    return fd >= 0 && program_check(fd, interpreter, sizeof interpreter, scratch) == PRELOAD_YES &&
           program_names(scratch, "ptrace");
}
