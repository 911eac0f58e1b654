/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of the job and of the rank: Slurm, torchrun, MPI, Kubernetes. It collects numbers only, and
 * no names of jobs, users, nodes or name spaces.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/job.h"
#include "collectors/machine.h"
#include "record/job_variables.h"

static bool give_number(struct collect_out *out, struct buf *text, const char *fact,
                        const char *variable, const char *value)
{
    uint64_t number = 0;
    if (fs_parse_u64(value, &number) == 0 && number <= INT64_MAX) {
        collect_integer(out, fact, FACT_STATIC, (int64_t)number, variable);
        buf_printf(text, "%s %llu (%s)\n", fact, (unsigned long long)number, variable);
        return true;
    }
    collect_missing(out, fact, FACT_STATIC, FACT_UNREADABLE, "the variable is not a number",
                    variable);
    return false;
}

/* True if the variable has the launcher's meaning. */
static bool is_meant(const char *const *environ_list, const char *variable)
{
    /* RANK is a common name: torchrun's has WORLD_SIZE beside it. The script of sbatch has SLURM_PROCID=0, too, but
     * is no task: a task has a step. */
    static const struct {
        const char *variable, *beside[2];
    } pairs[] = {
        {"RANK", {"WORLD_SIZE", NULL}},
        {"SLURM_PROCID", {"SLURM_STEP_ID", "SLURM_STEPID"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *second = pairs[i].beside[1];
        if (strcmp(pairs[i].variable, variable) == 0)
            return environ_get(environ_list, pairs[i].beside[0]) != NULL ||
                   (second != NULL && environ_get(environ_list, second) != NULL);
    }
    return true;
}

/* The variable that holds the number, NULL = none. */
static const char *variable_of(const char *const *environ_list, const char *const variables[])
{
    for (const char *const *v = variables; *v != NULL; v++) {
        uint64_t number;
        const char *value = environ_get(environ_list, *v);
        if (is_meant(environ_list, *v) && value != NULL && fs_parse_u64(value, &number) == 0 && number <= INT64_MAX)
            return *v;
    }
    return NULL;
}

bool job_number(const char *const *environ_list, const char *fact, int64_t *ret)
{
    for (size_t i = 0; i < JOB_NUMBERS; i++) {
        uint64_t number;
        if (strcmp(job_numbers[i].fact, fact) != 0)
            continue;
        const char *variable = variable_of(environ_list, job_numbers[i].variables);
        if (variable == NULL || fs_parse_u64(environ_get(environ_list, variable), &number) < 0)
            return false;
        *ret = (int64_t)number;
        return true;
    }
    return false;
}

static const char *nearest_launcher(const char *const *environ_list, const char **ret_variable)
{
    for (size_t i = 0; i < JOB_LAUNCHERS; i++) {
        *ret_variable = job_launchers[i].variable;
        if (environ_get(environ_list, job_launchers[i].variable) != NULL)
            return job_launchers[i].name;
    }
    return NULL;
}

void job_to_facts(const char *const *environ_list, struct facts *facts)
{
    const char *variable;
    const char *launcher = nearest_launcher(environ_list, &variable);
    if (launcher != NULL)
        (void)facts_set_text(facts, "job.launcher", FACT_STATIC, launcher, variable);
    for (size_t i = 0; i < JOB_NUMBERS; i++) {
        int64_t number;
        if (job_number(environ_list, job_numbers[i].fact, &number))
            (void)facts_set_integer(facts, job_numbers[i].fact, FACT_STATIC, number,
                                    variable_of(environ_list, job_numbers[i].variables));
    }
}

static void give_numbers(const struct collect_ctx *ctx, struct collect_out *out, struct buf *text)
{
    for (size_t i = 0; i < JOB_NUMBERS; i++) {
        for (const char *const *v = job_numbers[i].variables; *v != NULL; v++) {
            const char *value = environ_get(ctx->environ_at_impact, *v);
            if (value != NULL && is_meant(ctx->environ_at_impact, *v) && give_number(out, text, job_numbers[i].fact, *v, value))
                break;
        }
    }
}

static void give_launchers(const struct collect_ctx *ctx, struct collect_out *out, struct buf *text)
{
    char all[128] = "";
    for (size_t i = 0; i < JOB_LAUNCHERS; i++) {
        if (environ_get(ctx->environ_at_impact, job_launchers[i].variable) == NULL)
            continue;
        size_t len = strlen(all);
        if (len == 0)
            collect_text(out, "job.launcher", FACT_STATIC, job_launchers[i].name,
                         job_launchers[i].variable);
        (void)snprintf(all + len, sizeof all - len, "%s%s", len > 0 ? " " : "", job_launchers[i].name);
    }
    if (all[0] != '\0') {
        collect_text(out, "job.launchers", FACT_STATIC, all, "environment");
        buf_printf(text, "launchers, nearest first: %s\n", all);
    }
}

/* batch.kubernetes.io/job-completion-index="3"          (downward API file, one label a line) */
static void give_downward(const struct collect_ctx *ctx, struct collect_out *out, struct buf *text)
{
    static const char *const files[] = {"/etc/podinfo/annotations", "/etc/podinfo/labels"};
    static const char key[] = "batch.kubernetes.io/job-completion-index=\"";
    if (environ_get(ctx->environ_at_impact, "JOB_COMPLETION_INDEX") != NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        char data[16384];
        ssize_t n = fs_read_machine_text(files[i], data, sizeof data);
        char *at = n > 0 || n == -EFBIG ? strstr(data, key) : NULL;
        if (at == NULL)
            continue;
        at += sizeof key - 1;
        at[strcspn(at, "\"\n")] = '\0';
        (void)give_number(out, text, "job.completion_index", files[i], at);
        return;
    }
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct buf text = BUF_INIT;
    if (ctx->environ_at_impact == NULL || ctx->environ_at_impact[0] == NULL)
        return collect_reason(out, COLLECT_SKIPPED, "the environment of the process is not known");
    give_launchers(ctx, out, &text);
    give_numbers(ctx, out, &text);
    give_downward(ctx, out, &text);
    bool any = text.len > 0;
    if (any)
        (void)collect_write(out, "job.txt", text.data, text.len);
    buf_release(&text);
    if (any)
        return COLLECT_OK;
    collect_missing(out, "job.launcher", FACT_STATIC, FACT_ABSENT,
                    "no variable of Slurm, torchrun, MPI or Kubernetes", "environment");
    return collect_reason(out, COLLECT_SKIPPED, "not part of a job");
}

const struct collector collector_job = {
    .name = "job",
    .describe = "job, rank and world size (Slurm, torchrun, MPI, Kubernetes)",
    .phase = COLLECT_PERISHABLE, /* the rank says whose words the output holds */
    .needs_run = true,
    .deadline_ms = 1000,
    .max_bytes = 64u << 10,
    .run = run,
};
