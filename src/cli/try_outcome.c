/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of a run: its end, the kind of failure, its progress. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "bundle/bundle.h"
#include "cli/try_run.h"
#include "diagnose/fact.h"
#include "experiment/campaign.h"

#define JSON_MAX ((size_t)16 << 20)
#define LINES_MIN 3 /* fewer lines are no steps */

static void copy_text(const cJSON *json, const char *key, char *out, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    (void)snprintf(out, size, "%s", text != NULL ? text : "");
}

void try_read_verdict(const char *bundle, struct try_verdict *ret)
{
    struct bundle_file files[] = {{.name = "verdict.json", .max = JSON_MAX},
                                  {.name = "facts.json", .max = JSON_MAX}};
    struct rc_err err = {""};
    *ret = (struct try_verdict){.facts = NULL};
    if (bundle[0] == '\0')
        return;
    (void)bundle_read_files(bundle, files, 2, &err);
    cJSON *verdict = files[0].data != NULL ? cJSON_Parse(files[0].data) : NULL;
    cJSON *facts = files[1].data != NULL ? cJSON_Parse(files[1].data) : NULL;
    copy_text(verdict, "class", ret->class_name, sizeof ret->class_name);
    copy_text(verdict, "runner_up", ret->runner_up, sizeof ret->runner_up);
    ret->facts = facts_new();
    if (facts != NULL && ret->facts != NULL)
        (void)facts_from_json(ret->facts, facts, &err);
    cJSON_Delete(verdict);
    cJSON_Delete(facts);
    free(files[0].data);
    free(files[1].data);
}

/* --- how far it came --- */

const char *try_measure_name(enum try_measure measure)
{
    static const char *const names[] = {"bytes allocated", "lines printed", "seconds"};
    return names[measure];
}

static bool allocated(const struct try_verdict *verdict, double *ret)
{
    return verdict->facts != NULL && facts_get_number(verdict->facts, "torch.allocated_total_bytes", ret);
}

enum try_measure try_measure_of(const struct try_run *run, const struct try_verdict *verdict)
{
    double bytes;
    return allocated(verdict, &bytes) ? TRY_BYTES : run->lines >= LINES_MIN ? TRY_LINES : TRY_SECONDS;
}

/* The command's own time if a bundle tells it, else the time with rocmcrash's work after the failure. */
static double seconds_of(const struct try_run *run, const struct try_verdict *verdict)
{
    double ms = 0;
    return verdict->facts != NULL && facts_get_number(verdict->facts, "run.duration_ms", &ms) ? ms / 1000
                                                                                             : run->seconds;
}

static bool progress(const struct try_run *run, const struct try_verdict *verdict,
                     enum try_measure measure, double *ret)
{
    if (measure == TRY_BYTES)
        return allocated(verdict, ret);
    *ret = measure == TRY_LINES ? (double)run->lines : seconds_of(run, verdict);
    return true;
}

/* --- which failure it was --- */

/* The same lack of memory gets another name when a little more or less is idle at the moment. */
static bool is_of_memory(const char *class_name)
{
    static const char *const names[] = {"capacity", "fragmentation", "leak", "held-by-other"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], class_name) == 0)
            return true;
    return false;
}

/* The kind of failure: the class or, if that is too vague, the way in which the command ended. */
static void failure_key(const struct try_run *run, const struct try_verdict *verdict, char *out,
                        size_t size)
{
    const char *class_name = verdict->class_name;
    bool is_vague = class_name[0] == '\0' || strcmp(class_name, "unknown") == 0 ||
                    strcmp(class_name, "app-bug") == 0;
    if (run->failed_late)
        (void)snprintf(out, size, "no end");
    else if (is_of_memory(class_name))
        (void)snprintf(out, size, "GPU memory");
    else if (!is_vague)
        (void)snprintf(out, size, "%s", class_name);
    else if (WIFSIGNALED(run->wait_status))
        (void)snprintf(out, size, "signal %d", WTERMSIG(run->wait_status));
    else
        (void)snprintf(out, size, "exit code %d", WEXITSTATUS(run->wait_status));
}

static enum run_end end_of(const struct try_run *run)
{
    bool exited = WIFEXITED(run->wait_status);
    if (run->ended_by_us || run->not_started || run->end_unknown)
        return RUN_LOST;
    if (run->failed_late || run->outlived) /* the clock judges, with a bundle or without */
        return run->outlived ? RUN_PASSED : RUN_FAILED;
    if (run->bundle[0] == '\0') /* the end may have been that of rocmcrash itself */
        return RUN_LOST;
    return exited && WEXITSTATUS(run->wait_status) == 0 ? RUN_PASSED : RUN_FAILED;
}

void try_outcome(const struct try_run *run, const struct try_verdict *verdict, enum try_measure measure,
                 struct outcome *ret)
{
    *ret = (struct outcome){.end = end_of(run), .seconds = seconds_of(run, verdict)};
    ret->has_progress = progress(run, verdict, measure, &ret->progress);
    if (ret->end == RUN_FAILED)
        failure_key(run, verdict, ret->key, sizeof ret->key);
}
