/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/waits_subject.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "collectors/waits_text.h"

struct pool {
    const struct impact_record *list;
    size_t count;
    uint64_t since_ns;
};

static bool is_alive(const struct pool *pool, size_t i)
{
    const struct shared_impact *impact = &pool->list[i].header;
    return impact->kind == IMPACT_SNAPSHOT && impact->time_ns >= pool->since_ns;
}

static bool read_threads(const struct impact_record *record, enum impact_chunk_type type, struct wait_threads *ret)
{
    RC_AUTO_FREE char *text = impact_record_text(record, type);
    return waits_parse(text != NULL ? text : "", ret);
}

/* timeout(1) and the init of a container wait for the signal that tells of a child's end. */
static bool is_for_child(const struct wait_thread *t)
{
    static const long signal_waits[] = {
        SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
#if defined(__x86_64__)
        SYS_pause,
#endif
    };
    for (size_t i = 0; i < sizeof signal_waits / sizeof signal_waits[0]; i++)
        if (t->state == 'S' && t->call == signal_waits[i])
            return true;
    return waits_kind(t, "") == WAIT_CHILD;
}

/* The wait of the main thread; WAIT_RUNS: a thread of the process runs, or it has used the CPU between the looks. */
static enum wait_kind wait_of(const struct impact_record *record, bool *ret_for_child)
{
    struct wait_threads first = {NULL, 0};
    struct wait_threads again = {NULL, 0};
    enum wait_kind kind = WAIT_UNKNOWN;
    RC_AUTO_FREE char *fds = impact_record_text(record, CHUNK_FDS);
    bool known = read_threads(record, CHUNK_TASKS, &first) && read_threads(record, CHUNK_TASKS_AGAIN, &again);
    const struct wait_thread *t = known ? waits_find(&again, record->header.pid) : NULL;
    uint64_t interval_ns = impact_record_arg(record, CHUNK_TASKS_AGAIN) - impact_record_arg(record, CHUNK_TASKS);
    *ret_for_child = t != NULL && is_for_child(t);
    if (t != NULL)
        kind = waits_are_at_work(&first, &again, interval_ns) ? WAIT_RUNS : waits_kind(t, fds != NULL ? fds : "");
    free(first.list);
    free(again.list);
    return kind;
}

static int parent_of(const struct impact_record *record)
{
    RC_AUTO_FREE char *status = impact_record_text(record, CHUNK_STATUS);
    const char *line = status != NULL ? strstr(status, "\nPPid:") : NULL;
    return line != NULL ? (int)strtol(line + strlen("\nPPid:"), NULL, 10) : 0;
}

/* One that waits for a pipe waits for another child, most often. -1 = none stands still. */
static int child_that_stands(const struct pool *pool, int parent)
{
    int found = -1;
    bool of_gpu = impact_record_uses_gpu(&pool->list[parent]);
    for (size_t i = 0; i < pool->count; i++) {
        bool for_child;
        const struct impact_record *record = &pool->list[i];
        if (!is_alive(pool, i) || parent_of(record) != pool->list[parent].header.pid ||
            (of_gpu && !impact_record_uses_gpu(record)))
            continue;
        enum wait_kind kind = wait_of(record, &for_child);
        if (kind != WAIT_PIPE && kind != WAIT_RUNS)
            return (int)i;
        if (kind == WAIT_PIPE && found < 0)
            found = (int)i;
    }
    return found;
}

static int first_of(const struct pool *pool)
{
    int first = -1;
    for (size_t i = 0; i < pool->count; i++) {
        if (is_alive(pool, i) && impact_record_uses_gpu(&pool->list[i]))
            return (int)i;
        if (is_alive(pool, i) && first < 0)
            first = (int)i;
    }
    return first;
}

int waits_subject(const struct impact_record *list, size_t count, uint64_t since_ns)
{
    struct pool pool = {list, count, since_ns};
    int subject = first_of(&pool);
    for (size_t steps = 0; subject >= 0 && steps < count; steps++) {
        bool for_child;
        enum wait_kind kind = wait_of(&list[subject], &for_child);
        int child = for_child && kind != WAIT_RUNS ? child_that_stands(&pool, subject) : -1;
        if (child < 0)
            break;
        subject = child;
    }
    return subject;
}
