/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fit --vary "--batch_size 1..64" -- COMMAND...`: the largest value of a numeric option that still runs, by
 * bisection over real runs that a model of their memory guides (experiment/fit.h). `fit --model FILE`: what a model
 * needs by its header (fit_model.h), also where such a search starts.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/number.h"
#include "base/say.h"
#include "cli/fit_memory.h"
#include "cli/fit_model.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/try_run.h"
#include "cli/verbs.h"
#include "diagnose/fact.h"
#include "experiment/campaign.h"
#include "experiment/changes.h"
#include "experiment/fit.h"

struct fit_run {
    int64_t value;
    struct outcome outcome;
    double bytes;
    char class_name[32];
};

struct fit_job {
    bool json, help;
    const char *output_dir, *vary, *model;
    double room_bytes; /* 0 = what is free on the GPUs now */
    struct fit_estimate estimate; /* of the model */
    struct try_limits limits;
    char *const *command;
    char folder[FS_PATH_MAX];
    struct change change; /* its value is the one that is run */
    struct fit fit;
    struct fit_run run[FIT_POINTS_MAX];
    double seconds;
};

static volatile sig_atomic_t stop;

static void note_stop(int number)
{
    (void)number;
    stop = 1;
}

/* --- options --- */

static int set_room(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    (void)option;
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"MB", 1e6}, {"GB", 1e9}, {"", 1}};
    char *end = NULL;
    double number = strtod(value, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != value && strcmp(end, units[i].name) == 0 && number > 0 && number < 1e15) {
            *(double *)field = number * units[i].bytes;
            return 0;
        }
    return rc_err_set(err, -EINVAL, "--room is a size like 24GiB, not '%s'", value);
}

static const struct option_def table[] = {
    {"vary", 0, "RANGE", "an option and the whole numbers it may have: --size 1..64",
     option_text, offsetof(struct fit_job, vary)},
    {"model", 0, "FILE", "what this GGUF file, or folder with safetensors, needs by its header",
     option_text, offsetof(struct fit_job, model)},
    {"room", 0, "SIZE", "memory for it, like 24GiB (default: what the GPUs have free now)",
     set_room, offsetof(struct fit_job, room_bytes)},
    {"fail-after", 0, "TIME", "a run that takes longer is ended and does not fit",
     option_time_ns, offsetof(struct fit_job, limits.fail_after_ns)},
    {"pass-after", 0, "TIME", "a run that takes longer is ended and fits",
     option_time_ns, offsetof(struct fit_job, limits.pass_after_ns)},
    {"output-dir", 'o', "DIR", "where the bundles of the runs go (default: here)",
     option_text, offsetof(struct fit_job, output_dir)},
    {"json", 0, NULL, "print the result as JSON", option_on, offsetof(struct fit_job, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct fit_job, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text(
        "Usage: rocmcrash fit --vary \"OPTION A..B\" [--model FILE] -- COMMAND...\n"
        "       rocmcrash fit --model FILE\n\n"
        "Finds the largest value of OPTION (\"--batch_size 1..64\") with which COMMAND\n"
        "still runs, by bisection. It needs at most log2(number of values) + 2 runs, and\n"
        "one more, which repeats the smallest value that fails.\n"
        "A line fitted to the memory of the runs chooses the next value. COMMAND should\n"
        "be short: a few steps, not a whole training. If OPTION is a context length or a\n"
        "number of layers on the GPU, the value that a model's header or an engine says\n"
        "would fit is tried next.\n"
        "With --model the header is read before the first run and gives its value.\n"
        "--model without --vary prints the memory that the header tells of, and what it\n"
        "does not count.\n\n"
        "Options:\n");
    options_help(table);
    help_text("\nExit status: 0 a value was found, or a model was read; 1 no value runs;\n"
              "2 it could not be done, or a value failed once and ran once; 125 wrong option.\n");
}

/* "--batch_size 1..64", "--batch_size=1..64" */
static int read_range(struct fit_job *job, struct rc_err *err)
{
    const char *text = job->vary;
    if (text == NULL)
        return rc_err_set(err, -EINVAL, "--vary is missing: the option to vary, like --vary=\"--batch_size 1..64\"");
    size_t name = strcspn(text, " =");
    const char *at = text + name + strspn(text + name, " =");
    uint64_t min = 0;
    uint64_t max = 0;
    bool good = text[0] == '-' && name < sizeof job->change.name && number_take(&at, 10, &min) &&
                strncmp(at, "..", 2) == 0;
    at += good ? 2 : 0;
    good = good && number_take(&at, 10, &max) && *at == '\0';
    if (!good || min > INT64_MAX || max > INT64_MAX || fit_init(&job->fit, (int64_t)min, (int64_t)max) < 0)
        return rc_err_set(err, -EINVAL, "--vary is like \"--batch_size 1..64\" (the smaller number first), not '%s'", text);
    job->change.kind = CHANGE_ARG;
    (void)snprintf(job->change.name, sizeof job->change.name, "%.*s", (int)name, text);
    return 0;
}

/* --vary OPTION A..B as two words: the range would be taken for the command. In place. */
static int join_range(int argc, char *argv[], char *joined, size_t size)
{
    for (int i = 0; i + 2 < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--vary") != 0 || strstr(argv[i + 1], "..") != NULL ||
            strstr(argv[i + 2], "..") == NULL)
            continue;
        (void)snprintf(joined, size, "%s %s", argv[i + 1], argv[i + 2]);
        argv[i + 1] = joined;
        memmove(&argv[i + 2], &argv[i + 3], (size_t)(argc - i - 3) * sizeof *argv);
        return argc - 1;
    }
    return argc;
}

/* --- runs --- */

static bool tick(void *context, double seconds)
{
    (void)context;
    (void)seconds;
    return !stop;
}

static void say_run(const struct fit_job *job, const struct fit_run *run)
{
    char bytes[64] = "";
    if (run->bytes > 0)
        fit_memory_text(run->bytes, bytes, sizeof bytes);
    (void)say_line(stderr, "rocmcrash: run %u: %s %lld: %s%s%s%s, %.1f s", job->fit.runs + 1, job->change.name,
                   (long long)run->value, run->outcome.end == RUN_PASSED ? "runs" : "fails: ", run->outcome.key,
                   run->bytes > 0 ? ", wants " : "", bytes, run->outcome.seconds);
}

/* `again`: the value that the search has found to fail. */
static int run_value(struct fit_job *job, int64_t value, bool again, struct rc_err *err)
{
    char folder[FS_PATH_MAX + 64];
    struct try_run run;
    struct try_verdict verdict;
    struct fit_run *r = &job->run[job->fit.runs % FIT_POINTS_MAX];
    const struct try_plan plan = {.command = job->command, .cwd = "", .change = &job->change, .folder = folder,
                                  .campaign = job->folder, .limits = job->limits, .tick = tick};
    (void)snprintf(job->change.value, sizeof job->change.value, "%lld", (long long)value);
    (void)snprintf(folder, sizeof folder, "%s/%02u-%lld", job->folder, job->fit.runs + 1, (long long)value);
    if (mkdir(folder, 0700) != 0)
        return rc_err_errno(err, -errno, "cannot make '%s'", folder);
    int code = try_run(&run, &plan, err);
    if (code < 0)
        return code;
    try_read_verdict(run.bundle, &verdict);
    *r = (struct fit_run){.value = value};
    try_outcome(&run, &verdict, TRY_SECONDS, &r->outcome);
    bool failed = r->outcome.end == RUN_FAILED;
    r->bytes = fit_memory_wanted(verdict.facts, failed);
    double room = failed ? fit_memory_room(verdict.facts) : 0;
    int64_t hint = -1;
    bool has_hint = failed && fit_memory_hint(verdict.facts, job->change.name, &hint);
    (void)snprintf(r->class_name, sizeof r->class_name, "%s", failed ? verdict.class_name : "");
    facts_free(verdict.facts);
    if (r->outcome.end == RUN_LOST)
        return stop              ? rc_err_set(err, -EINTR, "ended")
               : run.not_started ? rc_err_set(err, -ENOENT, "the command was not started: %s", run.tail)
                                 : rc_err_set(err, -ENODATA, "the run with %lld left no bundle to judge by", (long long)value);
    say_run(job, r);
    if (again) {
        fit_note_check(&job->fit, !failed);
        return 0;
    }
    fit_note(&job->fit, value, !failed, r->bytes, room);
    if (has_hint)
        fit_hint(&job->fit, hint);
    return 0;
}

/* --- the result --- */

static const struct fit_run *run_of(const struct fit_job *job, int64_t value)
{
    for (unsigned i = 0; i < job->fit.runs && i < FIT_POINTS_MAX; i++)
        if (job->run[i].value == value)
            return &job->run[i];
    return NULL;
}

/* A run that ends between two readings had more than was read. The line is printed only where it predicts
 * what the runs have shown. */
static bool model_agrees(const struct fit *fit, const struct fit_model *m)
{
    int64_t distance = m->predicted > fit->passed ? m->predicted - fit->passed : fit->passed - m->predicted;
    return m->known && m->has_prediction && fit->failed == fit->passed + 1 && distance <= 1 + fit->passed / 20;
}

static void say_model(const struct fit_job *job)
{
    struct fit_model m;
    char fixed[64];
    char slope[64];
    char error[64];
    fit_model(&job->fit, &m);
    if (!model_agrees(&job->fit, &m))
        return;
    fit_memory_text(m.fixed > 0 ? m.fixed : 0, fixed, sizeof fixed);
    fit_memory_text(m.slope, slope, sizeof slope);
    fit_memory_text(m.error, error, sizeof error);
    (void)say_line(stdout, "rocmcrash: memory of the runs: %s and %s for each unit of %s, within %s", fixed, slope,
                   job->change.name, error);
}

/* Warns where the runs do not support what the search assumes. */
static void say_doubts(const struct fit_job *job)
{
    int64_t smaller;
    int64_t larger;
    const struct fit_run *fails = run_of(job, job->fit.failed);
    if (fit_is_not_monotone(&job->fit, &smaller, &larger))
        (void)say_line(stdout,
                       "rocmcrash: %lld needs less memory than %lld: a value above may run, too",
                       (long long)larger, (long long)smaller);
    if (fails != NULL && strcmp(fails->outcome.key, "GPU memory") != 0)
        (void)say_line(stdout, "rocmcrash: the failure %sis no lack of GPU memory: %s",
                       job->fit.passed < job->fit.min ? "" : "above it ", fails->outcome.key);
}

static void print_result(const struct fit_job *job)
{
    const struct fit *fit = &job->fit;
    const char *name = job->change.name;
    if (fit->unsure)
        (void)say_line(stdout, "rocmcrash: %s %lld failed in 1 of 2 runs: the failure does not depend on %s alone", name,
                       (long long)fit->failed, name);
    else if (fit->passed < fit->min)
        (void)say_line(stdout, "rocmcrash: no value runs: %s %lld fails", name, (long long)fit->min);
    else if (fit->failed > fit->max)
        (void)say_line(stdout, "rocmcrash: %s %lld runs, the largest of the range; with a wider range a larger one may run", name, (long long)fit->passed);
    else if (fit->failed == fit->passed + 1)
        (void)say_line(stdout, "rocmcrash: %s %lld is the largest value that runs; %lld fails", name,
                       (long long)fit->passed, (long long)fit->failed);
    else
        (void)say_line(stdout, "rocmcrash: %s %lld runs, %lld fails; between them nothing was run", name,
                       (long long)fit->passed, (long long)fit->failed);
    if (!fit->unsure) {
        say_model(job);
        say_doubts(job);
    }
    (void)say_line(stdout, "rocmcrash: %u run%s in %.0f s; their bundles: %s", fit->runs, fit->runs == 1 ? "" : "s",
                   job->seconds, job->folder);
}

static void add_runs(const struct fit_job *job, cJSON *json)
{
    cJSON *list = cJSON_AddArrayToObject(json, "runs");
    for (unsigned i = 0; list != NULL && i < job->fit.runs && i < FIT_POINTS_MAX; i++) {
        const struct fit_run *r = &job->run[i];
        cJSON *item = cJSON_CreateObject();
        (void)cJSON_AddNumberToObject(item, "value", (double)r->value);
        (void)cJSON_AddBoolToObject(item, "runs", r->outcome.end == RUN_PASSED);
        (void)cJSON_AddStringToObject(item, "class", r->class_name);
        if (r->bytes > 0)
            (void)cJSON_AddNumberToObject(item, "bytes", r->bytes);
        (void)cJSON_AddNumberToObject(item, "seconds", r->outcome.seconds);
        cJSON_AddItemToArray(list, item);
    }
}

static void print_json(const struct fit_job *job)
{
    struct fit_model m;
    cJSON *json = cJSON_CreateObject();
    fit_model(&job->fit, &m);
    (void)cJSON_AddNumberToObject(json, "format", 1);
    (void)cJSON_AddStringToObject(json, "option", job->change.name);
    if (job->fit.passed >= job->fit.min && !job->fit.unsure)
        (void)cJSON_AddNumberToObject(json, "largest_that_runs", (double)job->fit.passed);
    if (job->fit.failed <= job->fit.max && !job->fit.unsure)
        (void)cJSON_AddNumberToObject(json, "smallest_that_fails", (double)job->fit.failed);
    if (job->fit.unsure)
        (void)cJSON_AddNumberToObject(json, "failed_once_and_ran_once", (double)job->fit.failed);
    if (!job->fit.unsure && model_agrees(&job->fit, &m)) {
        (void)cJSON_AddNumberToObject(json, "fixed_bytes", m.fixed);
        (void)cJSON_AddNumberToObject(json, "bytes_a_unit", m.slope);
        (void)cJSON_AddNumberToObject(json, "error_bytes", m.error);
        (void)cJSON_AddNumberToObject(json, "predicted", (double)m.predicted);
    }
    (void)cJSON_AddNumberToObject(json, "seconds", job->seconds);
    add_runs(job, json);
    if (job->model != NULL)
        cJSON_AddItemToObject(json, "estimate", fit_model_to_json(&job->estimate));
    (void)json_print(json, JSON_PAGES);
}

static int find(struct fit_job *job, struct rc_err *err)
{
    uint64_t start = clock_mono_ns();
    struct sigaction action = {.sa_handler = note_stop};
    int64_t value;
    int r = try_make_folder(job->output_dir, "fit", NULL, job->folder, err);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    while (r == 0 && fit_next(&job->fit, &value))
        r = run_value(job, value, false, err);
    if (r == 0 && fit_check(&job->fit, &value))
        r = run_value(job, value, true, err);
    job->seconds = (double)(clock_mono_ns() - start) / 1e9;
    if (r < 0 && job->fit.runs == 0)
        return r;
    if (r < 0)
        verb_complain(NULL, err); /* what is known so far is printed */
    if (job->json)
        print_json(job);
    else
        print_result(job);
    return r < 0 || job->fit.unsure ? VERB_EXIT_FAILED : job->fit.passed >= job->fit.min ? VERB_EXIT_OK : VERB_EXIT_BAD;
}

/* With what the header of the model says. */
static int estimate(struct fit_job *job, struct rc_err *err)
{
    int r = fit_model_read(&job->estimate, job->model, err);
    if (r == 0)
        r = fit_model_rooms(&job->estimate, job->room_bytes, err);
    if (r == 0 && !job->json)
        fit_model_print(&job->estimate);
    return r;
}

static int estimate_only(struct fit_job *job, struct rc_err *err)
{
    int r = estimate(job, err);
    if (r == 0 && job->json) {
        cJSON *json = cJSON_CreateObject();
        (void)cJSON_AddNumberToObject(json, "format", 1);
        cJSON_AddItemToObject(json, "estimate", fit_model_to_json(&job->estimate));
        (void)json_print(json, JSON_PAGES);
    }
    return r;
}

/* The search starts as without a model if the header says nothing of the option. */
static int search(struct fit_job *job, struct rc_err *err)
{
    int64_t start;
    int r = job->model != NULL ? estimate(job, err) : 0;
    if (r == 0 && job->model != NULL && fit_model_start(&job->estimate, job->change.name, &start))
        fit_start(&job->fit, start);
    return r == 0 ? find(job, err) : r;
}

int verb_fit(int argc, char *argv[])
{
    static struct fit_job job;
    static char joined[256];
    struct rc_err err = {""};
    argc = join_range(argc, argv, joined, sizeof joined);
    int at = options_parse(table, &job, argc, argv, &err);
    if (at >= 0 && job.help) {
        print_help();
        return VERB_EXIT_OK;
    }
    bool alone = at >= 0 && job.model != NULL && job.vary == NULL && argv[at] == NULL;
    int r = at < 0 ? at : alone ? estimate_only(&job, &err) : read_range(&job, &err);
    if (r == 0 && !alone && (at == 0 || at >= argc || strcmp(argv[at - 1], "--") != 0))
        r = rc_err_set(&err, -EINVAL, "usage: rocmcrash fit --vary \"OPTION A..B\" -- COMMAND..., or fit --model FILE");
    if (r == 0 && !alone) {
        argv[argc] = NULL; /* join_range() may have shortened it */
        job.command = argv + at;
        r = search(&job, &err);
    }
    if (r < 0)
        verb_complain(NULL, &err);
    return r < 0 ? (r == -EINVAL ? VERB_EXIT_USAGE : VERB_EXIT_FAILED) : r;
}
