/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "inject/attach.h"
#include "inject/book_internal.h"
#include "inject/raw.h"

#define TIMES_MAX 10
#define PERIOD_NS 1000000000u
#define WAIT_MAX_NS 50000000u
#define PAGE 4096u
#define MAPS_READ_MAX (16u << 20) /* some 150,000 lines, 30 ms */

static bool is_our_memory(const char *path)
{
    char link[64];
    long len = raw_call(SYS_readlinkat, AT_FDCWD, path, link, sizeof link - 1);
    link[len > 0 ? len : 0] = '\0';
    return raw_starts(link, "/memfd:rocmcrash");
}

/* The path is looked at before, as an open may change what it opens, and the descriptor after it: the number of
 * the process may belong to another by then. */
static long open_our_memory(const char *path)
{
    char own[32] = "/proc/self/fd/";
    long fd = is_our_memory(path) ? raw_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd < 0)
        return -1;
    (void)raw_put_number(own + raw_length(own), (uint64_t)fd, 10);
    if (is_our_memory(own))
        return fd;
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    return -1;
}

static struct ledger_counters *map_counters(const struct ledger *ledger)
{
    static _Atomic(struct ledger_counters *) mapped;
    struct ledger_counters *c = atomic_load(&mapped);
    char path[64] = "/proc/";
    if (c != NULL || ledger->counters_at == 0)
        return c;
    size_t n = 6 + raw_put_number(path + 6, (uint64_t)ledger->owner_pid, 10);
    n += raw_put(path + n, sizeof path - n, "/fd/");
    (void)raw_put_number(path + n, (uint64_t)ledger->shared_fd, 10);
    long fd = open_our_memory(path);
    if (fd < 0)
        return NULL;
    /* Map only this page: a program's wild writes must not reach the rest. */
    char *page = raw_map(PAGE, MAP_SHARED, (int)fd, ledger->counters_at & ~(uint64_t)(PAGE - 1));
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    if (page == NULL)
        return NULL;
    c = (struct ledger_counters *)(void *)(page + (ledger->counters_at & (PAGE - 1)));
    atomic_store(&mapped, c);
    return c;
}

/* --- possible limits --- */

/* Linux 6.2 and newer give the number as the size of the folder. */
static uint32_t count_fds(void)
{
    struct stat st;
    if (raw_call(SYS_newfstatat, AT_FDCWD, "/proc/self/fd", &st, 0) != 0 || st.st_size <= 0)
        return 0;
    return (uint32_t)st.st_size;
}

static uint32_t fds_limit(void)
{
    struct rlimit limit;
    if (raw_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0)
        return 0;
    return limit.rlim_cur > UINT32_MAX ? UINT32_MAX : (uint32_t)limit.rlim_cur;
}

static uint32_t count_mappings(void)
{
    char text[4096];
    uint32_t lines = 0;
    uint64_t bytes = 0;
    long fd = raw_call(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long n;
    while (bytes < MAPS_READ_MAX && (n = raw_call(SYS_read, fd, text, sizeof text, 0)) > 0) {
        for (long i = 0; i < n; i++)
            lines += text[i] == '\n';
        bytes += (uint64_t)n;
    }
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    return lines;
}

static uint32_t mappings_limit(void)
{
    char text[24];
    long fd = raw_call(SYS_openat, AT_FDCWD, "/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long n = raw_call(SYS_read, fd, text, sizeof text - 1, 0);
    (void)raw_call(SYS_close, fd, 0, 0, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *p = text;
    return (uint32_t)raw_number(&p, 10);
}

static void note_limits(const struct book_actor *actor, uint64_t number)
{
    struct ledger_refusal *r = book_refusal(actor->ledger, number);
    PUT(r->fds, count_fds());
    PUT(r->fds_limit, fds_limit());
    PUT(r->mappings, count_mappings());
    PUT(r->mappings_limit, mappings_limit());
}

/* --- the sampler --- */

static bool take_turn(struct ledger *ledger, uint64_t now_ns)
{
    uint64_t last_ns = atomic_load(&ledger->counters_asked_ns);
    if (atomic_load(&ledger->counters_asked) >= TIMES_MAX ||
        (last_ns != 0 && now_ns - last_ns < PERIOD_NS) ||
        !atomic_compare_exchange_strong(&ledger->counters_asked_ns, &last_ns, now_ns))
        return false;
    ADD(ledger->counters_asked, 1);
    return true;
}

/* True when the request was served. */
static bool ask(struct ledger_counters *c)
{
    atomic_store(&c->pid, (int32_t)raw_call(SYS_getpid, 0, 0, 0, 0));
    uint32_t request = atomic_fetch_add(&c->request, 1) + 1;
    (void)raw_call(SYS_futex, &c->request, FUTEX_WAKE, 1, NULL);
    uint64_t end_ns = attach_now_ns() + WAIT_MAX_NS;
    for (;;) {
        uint32_t answer = atomic_load(&c->answer);
        uint64_t now_ns = attach_now_ns();
        if ((int32_t)(answer - request) >= 0)
            return true;
        if (now_ns >= end_ns)
            return false;
        struct timespec left = {0, (long)(end_ns - now_ns)};
        (void)raw_call(SYS_futex, &c->answer, FUTEX_WAIT, answer, &left);
    }
}

void counters_at_refusal(const struct book_actor *actor, uint64_t number)
{
    struct ledger *ledger = actor->ledger;
    if (!take_turn(ledger, actor->now_ns))
        return;
    struct ledger_counters *c =
        atomic_load(&ledger->counters_late) == 0 ? map_counters(ledger) : NULL;
    uint64_t start_ns = attach_now_ns();
    bool served = c != NULL && ask(c);
    uint64_t end_ns = attach_now_ns();
    if (c != NULL) {
        ADD(ledger->counters_waited_ns, end_ns - start_ns);
        if (!served)
            ADD(ledger->counters_late, 1);
    }
    if (number == 0)
        return;
    note_limits(actor, number);
    if (served)
        PUT(book_refusal(ledger, number)->counters_ns, end_ns);
}
