/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle's facts and verdict -> a record. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/rank_lines.h"
#include "fleet/internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define GPUS_MAX 16

/* Facts that the ranks of a job should share. A size is compared in the given unit: the RAM of equal machines
 * differs by some pages. */
static const struct {
    const char *name; /* with one %zu: of each GPU */
    int64_t unit;     /* 0 = a text, or a number as it is */
} compared[] = {
    {"gpu.%zu.vram.total_bytes", 1 << 20}, {"gpu.%zu.vbios", 0},
    {"gpu.%zu.gfx", 0},                    {"gpu.%zu.partition", 0},
    {"gpu.%zu.errors_uncorrected_count", 0},
};
static const struct {
    const char *name;
    int64_t unit;
} compared_once[] = {
    {"host.kernel", 0},
    {"host.amdgpu_version", 0},
    {"host.mem_total_bytes", (int64_t)1 << 30},
    {"software.rocm_version", 0},
    {"software.torch_version", 0},
    {"software.torch_git_version", 0},
    {"software.python_version", 0},
    {"software.libc", 0},
};

static void copy(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text != NULL ? text : "");
}

static int64_t integer_of(const struct facts *facts, const char *name)
{
    int64_t value;
    return facts_get_integer(facts, name, &value) ? value : FLEET_UNKNOWN;
}

/* A rank, or a number of ranks. A bundle may hold one that cannot be (an edited file, a wrong variable): it is not
 * known then. */
static int64_t possible(int64_t number, int64_t least)
{
    return number >= least && number < least + FLEET_RANKS_MAX ? number : FLEET_UNKNOWN;
}

static const char *text_of(const struct facts *facts, const char *name)
{
    const char *text = NULL;
    return facts_get_text(facts, name, &text) ? text : NULL;
}

static const char *member(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void add_part(char *out, size_t size, const char *before, const char *text)
{
    size_t len = strlen(out);
    if (text != NULL && text[0] != '\0')
        (void)snprintf(out + len, size - len, "%s%s", before, text);
}

static void add_number(char *out, size_t size, const char *before, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    if (number != FLEET_UNKNOWN)
        add_part(out, size, before, text);
}

/* "4711.0_3#1": the job, its step, its place in an array, its restart. A number, or a site's own text. */
static void set_job(struct fleet_record *record, const struct facts *facts)
{
    int64_t id = integer_of(facts, "job.id");
    int64_t restart = integer_of(facts, "job.restart_count");
    if (id != FLEET_UNKNOWN)
        add_number(record->job, sizeof record->job, "", id);
    else
        add_part(record->job, sizeof record->job, "", text_of(facts, "job.id"));
    if (record->job[0] == '\0')
        return;
    add_number(record->job, sizeof record->job, ".", integer_of(facts, "job.step_id"));
    add_number(record->job, sizeof record->job, "_", integer_of(facts, "job.array_task_id"));
    if (restart > 0)
        add_number(record->job, sizeof record->job, "#", restart);
}

/* The failure was seen when the process was held; without a tracer, when it ended. Bundles of earlier releases
 * have seconds and milliseconds. */
static void set_times(struct fleet_record *record, const struct facts *facts)
{
    int64_t offset = integer_of(facts, "run.wall_offset_us");
    int64_t uptime = integer_of(facts, "target.failed_uptime_us");
    int64_t start_uptime_ms = integer_of(facts, "run.start_uptime_ms");
    int64_t start_s = integer_of(facts, "run.start_time_s");
    int64_t duration_ms = integer_of(facts, "run.duration_ms");
    if (uptime == FLEET_UNKNOWN)
        uptime = integer_of(facts, "run.end_uptime_us");
    if (uptime == FLEET_UNKNOWN && start_uptime_ms != FLEET_UNKNOWN && duration_ms != FLEET_UNKNOWN)
        uptime = (start_uptime_ms + duration_ms) * 1000;
    if (offset == FLEET_UNKNOWN && start_s != FLEET_UNKNOWN && start_uptime_ms != FLEET_UNKNOWN)
        offset = start_s * 1000000 - start_uptime_ms * 1000;
    record->fell_uptime_us = uptime;
    record->fell_us = uptime != FLEET_UNKNOWN && offset != FLEET_UNKNOWN ? uptime + offset : FLEET_UNKNOWN;
    record->start_us = offset != FLEET_UNKNOWN && start_uptime_ms != FLEET_UNKNOWN
                           ? start_uptime_ms * 1000 + offset
                           : FLEET_UNKNOWN;
    record->clock_error_us = integer_of(facts, "host.clock_error_us");
}

static void set_identity(struct fleet_record *record, const struct facts *facts)
{
    record->rank = possible(integer_of(facts, "job.rank"), 0);
    record->local_rank = possible(integer_of(facts, "job.local_rank"), 0);
    record->world_size = possible(integer_of(facts, "job.world_size"), 1);
    record->node_rank = possible(integer_of(facts, "job.node_rank"), 0);
    record->pid = integer_of(facts, "target.failed_pid");
    record->signal = integer_of(facts, "target.failed_signal");
    if (record->signal == FLEET_UNKNOWN)
        record->signal = integer_of(facts, "target.signal");
    record->exit_code = integer_of(facts, "target.exit_code");
    record->collective = integer_of(facts, "msg.collective_number");
    copy(record->boot, sizeof record->boot, text_of(facts, "run.boot"));
    copy(record->launcher, sizeof record->launcher, text_of(facts, "job.launcher"));
    copy(record->program, sizeof record->program, text_of(facts, "run.program"));
    record->shares_output = rank_lines_writer(facts) == RANK_LINES_SHARED;
    record->is_note = integer_of(facts, "run.asked_to_end") == 1;
    record->snapshot = integer_of(facts, "run.snapshot") == 1;
}

/* --- what is compared --- */

static int add_value(struct fleet_record *record, const struct facts *facts, const char *name, int64_t unit)
{
    char text[96] = "";
    int64_t number = integer_of(facts, name);
    if (number != FLEET_UNKNOWN && unit > 1)
        number = (number + unit / 2) / unit * unit;
    if (number != FLEET_UNKNOWN)
        (void)snprintf(text, sizeof text, "%" PRId64, number);
    else
        copy(text, sizeof text, text_of(facts, name));
    if (text[0] == '\0' || record->value_count == FLEET_COMPARED_MAX)
        return 0;
    struct fleet_value *value = &record->values[record->value_count];
    value->name = strdup(name);
    value->text = strdup(text);
    record->value_count++;
    return value->name != NULL && value->text != NULL ? 0 : -ENOMEM;
}

static int add_values(struct fleet_record *record, const struct facts *facts)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < COUNT(compared_once); i++)
        r = add_value(record, facts, compared_once[i].name, compared_once[i].unit);
    for (size_t gpu = 0; r == 0 && gpu < GPUS_MAX; gpu++) {
        for (size_t i = 0; r == 0 && i < COUNT(compared); i++) {
            char name[64];
            const char *rest = strstr(compared[i].name, "%zu") + 3;
            (void)snprintf(name, sizeof name, "gpu.%zu%s", gpu, rest);
            r = add_value(record, facts, name, compared[i].unit);
        }
    }
    return r;
}

/* --- */

static int fill(struct fleet_record *record, const char *path, const struct facts *facts, const cJSON *verdict)
{
    const char *sentence = member(verdict, "sentence");
    const char *class_name = member(verdict, "class");
    record->path = strdup(path);
    record->sentence = strdup(sentence != NULL ? sentence : "");
    copy(record->class_name, sizeof record->class_name, class_name != NULL ? class_name : "unknown");
    copy(record->subclass, sizeof record->subclass, member(verdict, "subclass"));
    copy(record->confidence, sizeof record->confidence, member(verdict, "confidence"));
    copy(record->signature, sizeof record->signature,
         member(cJSON_GetObjectItemCaseSensitive(verdict, "signature"), "id"));
    set_identity(record, facts);
    set_job(record, facts);
    set_times(record, facts);
    fleet_decide_role(record, facts);
    int r = add_values(record, facts);
    return record->path == NULL || record->sentence == NULL ? -ENOMEM : r;
}

void fleet_release_record(struct fleet_record *record)
{
    for (size_t i = 0; i < record->value_count; i++) {
        free(record->values[i].name);
        free(record->values[i].text);
    }
    free(record->path);
    free(record->sentence);
}

static struct fleet_record *new_record(struct fleet *fleet)
{
    if (fleet->count == fleet->capacity) {
        size_t capacity = fleet->capacity > 0 ? fleet->capacity * 2 : 16;
        struct fleet_record *grown = realloc(fleet->records, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        fleet->records = grown;
        fleet->capacity = capacity;
    }
    struct fleet_record *record = &fleet->records[fleet->count];
    memset(record, 0, sizeof *record);
    return record;
}

static int64_t worker_number(const struct facts *facts, size_t index, const char *what)
{
    char name[64];
    (void)snprintf(name, sizeof name, "worker.%zu.%s", index, what);
    return integer_of(facts, name);
}

/* A bundle of a launcher has one verdict, which is of the rank that fell first. What is known of another one is
 * how it ended, and when. */
static int add_worker(struct fleet *fleet, const char *path, const struct facts *facts, size_t index)
{
    struct fleet_record *record = new_record(fleet);
    if (record == NULL)
        return -ENOMEM;
    const struct fleet_record *first = &fleet->records[fleet->count - index];
    enum fleet_role role = first->role;
    set_identity(record, facts);
    set_job(record, facts);
    set_times(record, facts);
    record->local_rank = FLEET_UNKNOWN;
    record->collective = FLEET_UNKNOWN; /* the words are those of the first */
    record->rank = possible(worker_number(facts, index, "rank"), 0);
    record->pid = worker_number(facts, index, "pid");
    record->signal = worker_number(facts, index, "signal");
    record->exit_code = worker_number(facts, index, "exit_code");
    int64_t uptime = worker_number(facts, index, "failed_uptime_us");
    if (record->fell_us != FLEET_UNKNOWN)
        record->fell_us += uptime - record->fell_uptime_us;
    record->fell_uptime_us = uptime;
    copy(record->class_name, sizeof record->class_name, "unknown");
    record->role = role == FLEET_WAITED || role == FLEET_LOST_PEER ? role : FLEET_UNCLEAR;
    copy(record->reason, sizeof record->reason, "below one launcher: the bundle's verdict is of the first");
    record->path = strdup(path);
    record->sentence = strdup("");
    fleet->count++;
    return record->path != NULL && record->sentence != NULL ? 0 : -ENOMEM;
}

int fleet_add(struct fleet *fleet, const char *path, const struct facts *facts, const cJSON *verdict)
{
    struct fleet_record *record = new_record(fleet);
    int r = record != NULL ? fill(record, path, facts, verdict) : -ENOMEM;
    if (r < 0 && record != NULL)
        fleet_release_record(record);
    if (r < 0)
        return r;
    fleet->count++;
    for (size_t i = 1; r == 0 && worker_number(facts, i, "failed_uptime_us") != FLEET_UNKNOWN; i++)
        r = add_worker(fleet, path, facts, i);
    return r;
}

void fleet_release(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        fleet_release_record(&fleet->records[i]);
    for (size_t i = 0; i < fleet->job_count; i++) {
        free(fleet->jobs[i].missing);
        free(fleet->jobs[i].causes);
    }
    free(fleet->records);
    free(fleet->order);
    free(fleet->jobs);
    free(fleet->groups);
    free(fleet->outliers);
    memset(fleet, 0, sizeof *fleet);
}
