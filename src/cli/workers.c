/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/names.h"
#include "cli/run_info.h"
#include "collectors/job.h"
#include "diagnose/fact.h"

#define TOLD_MAX 4
#define LOCAL_RANKS_MAX 64

struct identity {
    int64_t rank, world_size;
    int64_t local_rank, local_world_size; /* -1 = not known */
};

/* False: the process is no rank of several. */
static bool identity_of(const struct impact_record *impact, struct identity *ret)
{
    char *text = NULL;
    const char **list = impact_record_environ(impact, &text);
    const char *const *environ_list = list;
    *ret = (struct identity){-1, -1, -1, -1};
    bool is_rank = environ_list != NULL && job_number(environ_list, "job.rank", &ret->rank) &&
                   job_number(environ_list, "job.world_size", &ret->world_size) && ret->world_size > 1;
    if (is_rank && (!job_number(environ_list, "job.local_rank", &ret->local_rank) ||
                    !job_number(environ_list, "job.local_world_size", &ret->local_world_size)))
        ret->local_world_size = -1;
    free(list);
    free(text);
    return is_rank;
}

static bool is_crash(const struct run_info *info, size_t impact)
{
    return info->impacts[impact].header.signo != 0;
}

static void note_failure(struct worker *worker, const struct run_info *info, size_t impact)
{
    uint64_t time_ns = info->impacts[impact].header.time_ns;
    bool earlier = time_ns < info->impacts[worker->impact].header.time_ns;
    bool crash = is_crash(info, impact);
    bool has_crash = is_crash(info, worker->impact);
    if ((crash && !has_crash) || (crash == has_crash && earlier))
        worker->impact = impact;
    if (time_ns < worker->time_ns)
        worker->time_ns = time_ns;
}

static int by_time(const void *a, const void *b)
{
    const struct worker *x = a;
    const struct worker *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

size_t workers_find(const struct run_info *info, struct worker ret[SHARED_IMPACTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < info->impact_count; i++) {
        struct identity identity;
        size_t k = 0;
        if (info->impacts[i].header.kind == IMPACT_SNAPSHOT || !identity_of(&info->impacts[i], &identity))
            continue;
        while (k < count && ret[k].rank != identity.rank)
            k++;
        if (k == count)
            ret[count++] = (struct worker){i, identity.rank, info->impacts[i].header.time_ns};
        else
            note_failure(&ret[k], info, i);
    }
    if (count > 1)
        qsort(ret, count, sizeof *ret, by_time);
    return count;
}

/* "SIGSEGV", "exit status 1" */
static void put_end(const struct shared_impact *impact, struct buf *out)
{
    const char *name = impact->signo != 0 ? name_of_signal(impact->signo) : NULL;
    if (impact->signo != 0)
        buf_printf(out, "SIG%s", name != NULL ? name : "RT");
    else if (impact->exit_status != UINT32_MAX)
        buf_printf(out, "exit status %d", WEXITSTATUS((int)impact->exit_status));
    else
        buf_puts(out, "its end was not seen");
}

static void put_story(const struct run_info *info, const struct worker *workers, size_t count, struct buf *out)
{
    size_t told = count < TOLD_MAX ? count : TOLD_MAX;
    for (size_t i = 0; i < told; i++) {
        const struct shared_impact *impact = &info->impacts[workers[i].impact].header;
        buf_printf(out, "%srank %" PRId64 " (pid %d, ", i == 0 ? "" : i == 1 ? "; then " : ", ", workers[i].rank,
                   impact->pid);
        put_end(impact, out);
        if (i == 0)
            buf_puts(out, ") fell first");
        else
            buf_printf(out, ") %.3f s later", (double)(workers[i].time_ns - workers[0].time_ns) / 1e9);
    }
    if (count > told)
        buf_printf(out, " and %zu more", count - told);
}

/* "1, 5": of the ranks of this machine those that did not fail, as far as the tracer saw. */
static void put_not_failed(const struct run_info *info, const struct worker *workers, size_t count, struct buf *out)
{
    struct identity identity;
    if (!identity_of(&info->impacts[workers[0].impact], &identity) || identity.local_world_size > LOCAL_RANKS_MAX)
        return;
    int64_t first = identity.rank - identity.local_rank;
    for (int64_t rank = first; rank < first + identity.local_world_size; rank++) {
        bool failed = false;
        for (size_t i = 0; i < count && !failed; i++)
            failed = workers[i].rank == rank;
        if (!failed)
            buf_printf(out, "%s%" PRId64, out->len > 0 ? ", " : "", rank);
    }
}

static void worker_facts(const struct shared_impact *impact, const struct worker *worker, size_t index,
                         struct facts *facts)
{
    static const char source[] = "the tracer, at the failure";
    char name[48];
    (void)snprintf(name, sizeof name, "worker.%zu.rank", index);
    (void)facts_set_integer(facts, name, FACT_IMPACT, worker->rank, source);
    (void)snprintf(name, sizeof name, "worker.%zu.pid", index);
    (void)facts_set_integer(facts, name, FACT_IMPACT, impact->pid, source);
    (void)snprintf(name, sizeof name, "worker.%zu.failed_uptime_us", index);
    (void)facts_set_integer(facts, name, FACT_IMPACT, (int64_t)(worker->time_ns / 1000), source);
    if (impact->signo != 0) {
        (void)snprintf(name, sizeof name, "worker.%zu.signal", index);
        (void)facts_set_integer(facts, name, FACT_IMPACT, impact->signo, source);
    } else if (impact->exit_status != UINT32_MAX) {
        (void)snprintf(name, sizeof name, "worker.%zu.exit_code", index);
        (void)facts_set_integer(facts, name, FACT_IMPACT, WEXITSTATUS((int)impact->exit_status), source);
    }
}

void workers_to_facts(const struct run_info *info, struct facts *facts)
{
    struct worker workers[SHARED_IMPACTS_MAX];
    struct buf story = BUF_INIT;
    size_t count = workers_find(info, workers);
    /* A rank that was started on its own has the target's facts. */
    if (count == 0 || (count == 1 && info->impacts[workers[0].impact].header.pid == info->target_pid))
        return;
    for (size_t i = 0; i < count; i++)
        worker_facts(&info->impacts[workers[i].impact].header, &workers[i], i, facts);
    put_story(info, workers, count, &story);
    (void)facts_set_text(facts, "worker.story", FACT_IMPACT, buf_str(&story), "the tracer, at the failure");
    buf_release(&story);
    put_not_failed(info, workers, count, &story);
    if (story.len > 0)
        (void)facts_set_text(facts, "worker.not_failed", FACT_IMPACT, buf_str(&story), "the tracer, at the failure");
    buf_release(&story);
}
