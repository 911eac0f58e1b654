/* SPDX-License-Identifier: Apache-2.0 */
#include "record/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"

/* A program that catches refusals may print many. */
#define MESSAGE_COUNTERS_PERIOD_NS 1000000000u

_Static_assert(offsetof(struct shared, sample_data) ==
                   offsetof(struct shared, samples) + sizeof(struct ring),
               "ring data must follow its header");
_Static_assert(offsetof(struct shared, output_data) ==
                   offsetof(struct shared, output) + sizeof(struct ring),
               "ring data must follow its header");
_Static_assert(offsetof(struct shared, event_data) ==
                   offsetof(struct shared, events) + sizeof(struct ring),
               "ring data must follow its header");

_Static_assert(offsetof(struct shared, report_data) ==
                   offsetof(struct shared, report) + sizeof(struct ring),
               "ring data must follow its header");

/* Beyond RLIMIT_FSIZE ftruncate(2) would fail and send SIGXFSZ. The limit belongs to the target. We
 * lift it for this call if we may, and restore it before the target starts. */
int shared_set_size(int fd, uint64_t size)
{
    struct rlimit caller;
    if (getrlimit(RLIMIT_FSIZE, &caller) != 0)
        return -errno;
    bool lift = caller.rlim_cur < size;
    struct rlimit lifted = {size, caller.rlim_max < size ? size : caller.rlim_max};
    if (lift && setrlimit(RLIMIT_FSIZE, &lifted) != 0)
        return -EFBIG;
    int r = fs_truncate(fd, (off_t)size);
    if (lift)
        (void)setrlimit(RLIMIT_FSIZE, &caller);
    /* A mapping of a file that somebody made shorter (/proc/PID/fd/N) is a SIGBUS for all of us. */
    if (r == 0)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return r;
}

static pid_t supervisor;

void shared_set_supervisor(struct shared *s)
{
    supervisor = getpid();
    s->run.supervisor_pid = supervisor;
}

pid_t shared_supervisor(void)
{
    return supervisor;
}

struct shared *shared_create(int *ret_fd, struct rc_err *err)
{
    int fd = memfd_create("rocmcrash", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fd <= STDERR_FILENO) { /* the caller closed a stream: nobody must take this file for it */
        int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        (void)close(fd);
        fd = high;
    }
    if (fd < 0) {
        (void)rc_err_errno(err, -errno, "cannot create the shared memory of the run");
        return NULL;
    }
    struct shared *s = MAP_FAILED;
    int r = shared_set_size(fd, sizeof *s);
    if (r == 0 && (s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        r = -errno;
    if (r < 0) {
        (void)rc_err_errno(err, r, "cannot map the shared memory of the run");
        (void)close(fd);
        return NULL;
    }
    s->magic = SHARED_MAGIC;
    s->version = SHARED_VERSION;
    s->size = sizeof *s;
    ring_init(&s->samples, SHARED_SAMPLE_RING_BYTES);
    ring_init(&s->output, SHARED_OUTPUT_RING_BYTES);
    ring_init(&s->events, SHARED_EVENT_RING_BYTES);
    ring_init(&s->report, SHARED_REPORT_RING_BYTES);
    ring_init(&s->found, SHARED_FOUND_RING_BYTES);
    ring_init(&s->stdout_lines, SHARED_STDOUT_RING_BYTES);
    *ret_fd = fd;
    return s;
}

bool shared_is_intact(const struct shared *s)
{
    return s->magic == SHARED_MAGIC && s->version == SHARED_VERSION && s->size == sizeof *s;
}

struct shared *shared_map(int fd, struct rc_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size != (off_t)sizeof(struct shared)) {
        (void)rc_err_set(err, -EINVAL, "descriptor %d is not the shared memory of a run", fd);
        return NULL;
    }
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED) {
        (void)rc_err_errno(err, -errno, "cannot map the shared memory of the run");
        return NULL;
    }
    if (!shared_is_intact(s)) {
        (void)munmap(s, sizeof *s);
        (void)rc_err_set(err, -EINVAL, "the shared memory is of another version of rocmcrash, or was overwritten");
        return NULL;
    }
    return s;
}

void shared_note_own_child(struct shared *s, int32_t pid)
{
    if (pid > 0)
        s->own_children[s->own_children_count++ % SHARED_OWN_CHILDREN] = pid;
}

void shared_note_still_signal(struct shared *s, int signo)
{
    uint64_t began_ns = s->still_since_ns;
    uint64_t known_ns = s->still_began_ns;
    if (began_ns == 0 || began_ns == known_ns ||
        !atomic_compare_exchange_strong(&s->still_began_ns, &known_ns, began_ns))
        return;
    s->still_signal = (uint32_t)signo;
    s->still_asked_ns = clock_mono_ns();
}

uint32_t shared_ask_counters(struct shared *s, int32_t pid)
{
    s->impact_pid = pid;
    uint32_t request = atomic_fetch_add(&s->impact_request, 1) + 1;
    (void)syscall(SYS_futex, &s->impact_request, FUTEX_WAKE, 1, NULL, NULL, 0);
    return request;
}

void shared_counters_at_message(struct shared *s)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t asked_ns = s->counters_asked_ns;
    if (asked_ns != 0 && now_ns - asked_ns < MESSAGE_COUNTERS_PERIOD_NS)
        return;
    if (atomic_compare_exchange_strong(&s->counters_asked_ns, &asked_ns, now_ns))
        (void)shared_ask_counters(s, s->target_pid);
}

void shared_event(struct shared *s, const char *who, const char *fmt, ...)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%llu %s ", (unsigned long long)clock_mono_ns(), who);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    size_t len = m < 0 ? (size_t)n : (size_t)n + (size_t)m;
    if (len > sizeof line - 1)
        len = sizeof line - 1;
    if (len == sizeof line - 1)
        len--;
    line[len++] = '\n';
    ring_write(&s->events, line, len);
}
