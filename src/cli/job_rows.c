/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job_rows.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/memory.h"
#include "bundle/bundle.h"
#include "cli/job.h"
#include "collect/runner.h"
#include "watch/stream.h"

#define TELL_TRIES 3

/* The summary has the rows, too. */
static void add_item(struct job *job, const char *name, enum collect_status status,
                     const char *reason)
{
    cJSON *row = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(row, "name", name);
    (void)cJSON_AddStringToObject(row, "status", collect_status_name(status));
    (void)cJSON_AddStringToObject(row, "reason", reason);
    if (!cJSON_AddItemToArray(job->items, row))
        cJSON_Delete(row);
}

void job_row(struct job *job, const char *name, enum collect_status status, const char *why, uint64_t ms)
{
    RC_AUTO_FREE char *clean = stage_redact_line(job->redactor, why != NULL ? why : "");
    const char *reason = clean != NULL ? clean : "";
    (void)manifest_add_item(job->manifest, name, status, reason, ms);
    add_item(job, name, status, reason);
}

void job_trouble(struct job *job, const char *what, int code)
{
    if (code < 0 && job->troubles++ == 0)
        (void)snprintf(job->trouble, sizeof job->trouble, "%s: %s", what, strerror(-code));
}

/* Without this note a missing file would look like one that never existed. */
int job_tell_troubles(struct job *job)
{
    char reason[sizeof job->trouble + 96];
    int n = 0;
    unsigned refused = memory_refusals() - job->memory_refusals;
    if (job->troubles + refused == job->troubles_told)
        return 0;
    if (job->troubles > 0)
        n = snprintf(reason, sizeof reason, "%s%s", job->trouble,
                     job->troubles > 1 ? ", and others" : "");
    if (refused > 0)
        (void)snprintf(reason + n, sizeof reason - (size_t)n,
                       "%smemory was refused: what is missing may have been there",
                       n > 0 ? "; " : "");
    int r = -ENOMEM;
    for (int tries = 0; r < 0 && tries < TELL_TRIES; tries++) {
        manifest_forget_item(job->manifest, "bundle");
        r = manifest_add_item(job->manifest, "bundle", COLLECT_PARTIAL, reason, 0);
    }
    if (job->troubles_told == 0)
        add_item(job, "bundle", COLLECT_PARTIAL, reason);
    job->troubles_told = job->troubles + refused;
    return r;
}

void job_collector_row(const struct runner_row *row, void *context)
{
    struct job *job = context;
    if (job->early && row->for_lack_of_time && job->late_count < JOB_LATE_MAX)
        job->late[job->late_count++] = row->name; /* its row comes when it is asked again */
    else
        job_row(job, row->name, row->status, row->reason, row->ms);
}

static void tracing_row(struct job *job)
{
    const char *damage = job->info.damage;
    bool damaged = damage[0] != '\0';
    const struct fact *lost = facts_best(job->facts, damaged ? "run.traced" : "run.trace_lost");
    if (lost == NULL)
        job_row(job, "tracing", COLLECT_OK, "", 0);
    else
        job_row(job, "tracing", COLLECT_PARTIAL, damaged ? damage : lost->text, 0);
}

static void impact_row(struct job *job)
{
    const struct run_info *info = &job->info;
    if (info->failed < 0) {
        const char *why = info->snapshot_wall_ns != 0 ? "nothing of the process could be read"
                                                      : "no failing process was held";
        job_row(job, "impact", COLLECT_SKIPPED, why, 0);
        return;
    }
    const struct shared_impact *impact = &info->impacts[info->failed].header;
    uint64_t held_ms = impact->held_ns / 1000000u;
    if (impact->state == IMPACT_COMPLETE)
        job_row(job, "impact", COLLECT_OK, "", held_ms);
    else
        job_row(job, "impact", COLLECT_PARTIAL, "the tracer ended while it was copying", held_ms);
}

/* They never are. */
static bool is_unreadable(int kind)
{
    return kind == STREAM_OTHER || kind == STREAM_CLOSED;
}

static void output_row(struct job *job)
{
    const struct run_info *info = &job->info;
    bool unread = info->follow_error[0] != '\0';
    const char *gap = "";
    enum collect_status status = COLLECT_OK;
    if (unread)
        gap = info->follow_error;
    else if (info->output_len == 0)
        gap = "the program wrote nothing to stderr";
    else if (info->output_lost_bytes > 0)
        gap = "the middle was not kept";
    if (gap[0] != '\0' && info->output_len > 0)
        status = COLLECT_PARTIAL;
    else if (gap[0] != '\0')
        status = unread && info->snapshot_wall_ns == 0 && !is_unreadable(info->stderr_kind) ? COLLECT_FAILED : COLLECT_SKIPPED;
    job_row(job, "output", status, gap, 0);
}

void job_run_rows(struct job *job)
{
    const struct run_info *info = &job->info;
    if (info->damage[0] != '\0')
        job_row(job, "run", COLLECT_FAILED, info->damage, 0);
    if (info->unread[0] != '\0') {
        job->troubles++;
        (void)snprintf(job->trouble, sizeof job->trouble, "%s", info->unread);
    }
    tracing_row(job);
    impact_row(job);
    output_row(job);
}
