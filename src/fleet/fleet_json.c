/* SPDX-License-Identifier: Apache-2.0 */
/* The same for programs: templates/schema/fleet.json. What is not known is left out. */
#include <cjson/cJSON.h>
#include <string.h>

#include "fleet/internal.h"

static void put_number(cJSON *object, const char *key, int64_t number)
{
    if (number != FLEET_UNKNOWN)
        (void)cJSON_AddNumberToObject(object, key, (double)number);
}

static void put_text(cJSON *object, const char *key, const char *text)
{
    if (text[0] != '\0')
        (void)cJSON_AddStringToObject(object, key, text);
}

static void put_record(cJSON *array, const struct fleet_record *record)
{
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "path", record->path);
    put_number(o, "rank", record->rank);
    put_number(o, "local_rank", record->local_rank);
    put_number(o, "node_rank", record->node_rank);
    put_number(o, "pid", record->pid);
    put_text(o, "boot", record->boot);
    (void)cJSON_AddStringToObject(o, "role", fleet_role_name(record->role));
    put_text(o, "reason", record->reason);
    put_text(o, "class", record->class_name);
    put_text(o, "subclass", record->subclass);
    put_text(o, "confidence", record->confidence);
    put_text(o, "sentence", record->sentence);
    put_text(o, "signature", record->signature);
    put_number(o, "signal", record->signal);
    put_number(o, "exit_code", record->exit_code);
    put_number(o, "collective", record->collective);
    put_number(o, "fell_us", record->fell_us);
    put_number(o, "clock_error_us", record->clock_error_us);
    if (record->is_note)
        (void)cJSON_AddTrueToObject(o, "asked_to_end");
    if (record->snapshot)
        (void)cJSON_AddTrueToObject(o, "alive");
    (void)cJSON_AddItemToArray(array, o);
}

static void put_job(cJSON *array, const struct fleet *fleet, const struct fleet_job *job)
{
    const struct fleet_record *any = &fleet->records[job->members[0]];
    cJSON *o = cJSON_CreateObject();
    put_text(o, "job", any->job);
    put_text(o, "launcher", any->launcher);
    put_number(o, "world_size", job->world_size);
    (void)cJSON_AddNumberToObject(o, "machines", (double)job->nodes);
    (void)cJSON_AddStringToObject(o, "sure", fleet_sure_name(job->sure));
    (void)cJSON_AddStringToObject(o, "why", job->why);
    cJSON *causes = cJSON_AddArrayToObject(o, "causes");
    for (size_t i = 0; i < job->cause_count; i++)
        put_record(causes, &fleet->records[job->causes[i]]);
    cJSON *missing = cJSON_AddArrayToObject(o, "missing");
    for (size_t i = 0; i < job->missing_count; i++)
        (void)cJSON_AddItemToArray(missing, cJSON_CreateNumber((double)job->missing[i]));
    put_number(o, "missing_cause", job->missing_cause);
    cJSON *ranks = cJSON_AddArrayToObject(o, "time_line");
    for (size_t i = 0; i < job->count; i++)
        put_record(ranks, &fleet->records[job->members[i]]);
    (void)cJSON_AddItemToArray(array, o);
}

static void put_group(cJSON *array, const struct fleet *fleet, const struct fleet_group *group)
{
    const struct fleet_record *first = &fleet->records[group->first];
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "signature", group->signature);
    put_text(o, "class", first->class_name);
    put_text(o, "subclass", first->subclass);
    (void)cJSON_AddNumberToObject(o, "bundles", (double)group->count);
    (void)cJSON_AddNumberToObject(o, "machines", (double)group->nodes);
    put_number(o, "from_us", group->from_us);
    put_number(o, "to_us", group->to_us);
    (void)cJSON_AddStringToObject(o, "path", first->path);
    (void)cJSON_AddItemToArray(array, o);
}

static void put_outlier(cJSON *array, const struct fleet *fleet, const struct fleet_outlier *odd)
{
    const struct fleet_record *record = &fleet->records[odd->record];
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "path", record->path);
    put_number(o, "rank", record->rank);
    put_text(o, "boot", record->boot);
    (void)cJSON_AddStringToObject(o, "fact", record->values[odd->value].name);
    (void)cJSON_AddStringToObject(o, "value", record->values[odd->value].text);
    (void)cJSON_AddStringToObject(o, "usual", odd->usual);
    (void)cJSON_AddNumberToObject(o, "usual_count", (double)odd->usual_count);
    (void)cJSON_AddNumberToObject(o, "asked", (double)odd->asked);
    (void)cJSON_AddItemToArray(array, o);
}

cJSON *fleet_to_json(const struct fleet *fleet)
{
    cJSON *root = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(root, "format", 1);
    (void)cJSON_AddNumberToObject(root, "bundles", (double)fleet->count);
    cJSON *jobs = cJSON_AddArrayToObject(root, "jobs");
    for (size_t i = 0; i < fleet->job_count; i++)
        put_job(jobs, fleet, &fleet->jobs[i]);
    cJSON *groups = cJSON_AddArrayToObject(root, "groups");
    for (size_t i = 0; i < fleet->group_count; i++)
        put_group(groups, fleet, &fleet->groups[i]);
    cJSON *outliers = cJSON_AddArrayToObject(root, "outliers");
    for (size_t i = 0; i < fleet->outlier_count; i++)
        put_outlier(outliers, fleet, &fleet->outliers[i]);
    return root;
}
