/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `try [OPTIONS] BUNDLE` or `try [OPTIONS] -- COMMAND...`: runs a failing command as it is and under single
 * changes until it is known which of them helps (experiment/campaign.h), or until the budget ends.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/assets.h"
#include "cli/option.h"
#include "cli/try_job.h"
#include "cli/verbs.h"
#include "diagnose/fact.h"

#define RUNS_DEFAULT 100
#define RUNS_MOST 100000
#define SUGGESTED_MAX 6    /* changes of the table in one campaign: more make each claim dearer */
#define FIRST_FAILURE_MAX 10 /* runs until one fails, where nothing else says what to try */
#define SEED 20261123u

static volatile sig_atomic_t stop;

static void note_stop(int number)
{
    (void)number;
    stop = 1;
}

static void note_nothing(int number)
{
    (void)number;
}

/* --- options --- */

static int set_change(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    enum change_kind kind = CHANGE_ENV;
    if (strcmp(option->name, "without") == 0)
        kind = CHANGE_UNSET;
    else if (strcmp(option->name, "with-arg") == 0)
        kind = CHANGE_ARG;
    else if (strcmp(option->name, "with-limit") == 0)
        kind = CHANGE_LIMIT;
    return changes_add(field, kind, value, err);
}

static int set_runs(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    return option_number(option, field, value, 2, RUNS_MOST, err);
}

static int set_error(const struct option_def *option, void *field, const char *value, struct rc_err *err)
{
    char *end = NULL;
    double error = strtod(value, &end);
    if (end == value || *end != '\0' || !(error >= 1e-6 && error <= 0.2))
        return rc_err_set(err, -EINVAL, "--%s is a probability from 0.000001 to 0.2, not '%s'",
                          option->name, value);
    *(double *)field = error;
    return 0;
}

static const struct option_def table[] = {
    {"with", 0, "NAME=VALUE", "a change: this variable of the environment",
     set_change, offsetof(struct try_job, experiment.changes)},
    {"without", 0, "NAME", "a change: this variable is not set",
     set_change, offsetof(struct try_job, experiment.changes)},
    {"with-arg", 0, "ARGUMENT", "a change: \"--batch_size 16\" in the command",
     set_change, offsetof(struct try_job, experiment.changes)},
    {"with-limit", 0, "NAME=N", "a change: nofile, memlock, as, stack, data or nproc",
     set_change, offsetof(struct try_job, experiment.changes)},
    {"suggested", 0, NULL, "beside your changes also those that fit the verdict",
     option_on, offsetof(struct try_job, suggested)},
    {"runs", 0, "N", "runs at most, of all changes together (default 100)",
     set_runs, offsetof(struct try_job, runs_max)},
    {"for", 0, "TIME", "end after this time, like 30m", option_time_ns, offsetof(struct try_job, for_ns)},
    {"error", 0, "P", "how probable a wrong claim may be (default 0.01)",
     set_error, offsetof(struct try_job, error)},
    {"first", 0, NULL, "end as soon as one change is confirmed",
     option_on, offsetof(struct try_job, first)},
    {"fail-after", 0, "TIME", "a run that takes longer is ended and has failed",
     option_time_ns, offsetof(struct try_job, limits.fail_after_ns)},
    {"pass-after", 0, "TIME", "a run that takes longer is ended and has not failed",
     option_time_ns, offsetof(struct try_job, limits.pass_after_ns)},
    {"output-dir", 'o', "DIR", "where the bundles go (default: the current directory)",
     option_text, offsetof(struct try_job, output_dir)},
    {"json", 0, NULL, "print the result as JSON", option_on, offsetof(struct try_job, json)},
    {"yes", 'y', NULL, "run the command that a bundle names without asking",
     option_on, offsetof(struct try_job, again.yes)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct try_job, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text(
        "Usage: rocmcrash try [OPTIONS] BUNDLE\n"
        "       rocmcrash try [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
        "Runs a failing command without a change and with one change at a time, in turns,\n"
        "until a statistical test shows which change helps, which does not and which only\n"
        "postpones the failure. If you name no change, it tries those that fit the\n"
        "verdict. Ctrl-C ends it and prints what is known. Asks before it runs the\n"
        "command of a bundle.\n\nOptions:\n");
    options_help(table);
    help_text("\nExit status: 0 a change is confirmed to help; 1 none is; 2 it could not be\n"
              "done; 125 wrong option.\n");
}

/* --- one run --- */

static bool budget_is_left(const struct try_job *job)
{
    uint64_t spent = clock_mono_ns() - job->start_ns;
    return !stop && job->count < job->runs_max && (job->for_ns == 0 || spent < job->for_ns);
}

static bool tick(void *context, double seconds)
{
    const struct try_job *job = context;
    try_show_progress(job, seconds);
    return budget_is_left(job);
}

static const char *id_of_cell(const struct try_job *job, size_t cell)
{
    return cell == 0 ? "as-it-is" : job->experiment.changes.change[cell - 1].id;
}

/* Runs the cell and notes the outcome as the last record; *ret gets the verdict (facts_free() it). */
static int run_cell(struct try_job *job, size_t cell, struct try_verdict *ret, struct rc_err *err)
{
    struct try_run run;
    char folder[FS_PATH_MAX + 64];
    const struct change *change = cell > 0 ? &job->experiment.changes.change[cell - 1] : NULL;
    job->cell = cell;
    (void)snprintf(folder, sizeof folder, "%s/%04u-%s", job->folder, job->count + 1, id_of_cell(job, cell));
    if (mkdir(folder, 0700) != 0)
        return rc_err_errno(err, -errno, "cannot make '%s'", folder);
    const struct try_plan plan = {.command = job->again.command, .cwd = job->again.cwd, .change = change, .folder = folder,
                                  .campaign = job->folder, .limits = job->limits, .tick = tick, .context = job};
    int r = try_run(&run, &plan, err);
    if (r < 0)
        return r;
    try_read_verdict(run.bundle, ret);
    struct try_record *record = &job->records[job->count++];
    record->cell = cell;
    record->bundle = run.bundle[0] != '\0' ? strdup(run.bundle) : NULL;
    if (!job->measured)
        job->measure = try_measure_of(&run, ret);
    try_outcome(&run, ret, job->measure, &record->outcome);
    if (record->outcome.end == RUN_FAILED && cell == 0 && !job->measured) {
        job->measured = true;
        job->experiment.measure = try_measure_name(job->measure);
        (void)snprintf(job->experiment.class_name, sizeof job->experiment.class_name, "%s", ret->class_name);
    }
    double whole_s = (double)(clock_mono_ns() - job->ended_ns) / 1e9;
    job->ended_ns = clock_mono_ns();
    try_show_run(job, &run, whole_s);
    if (cell == 0 && run.not_started)
        return rc_err_set(err, -ENOENT, "the command was not started: %s", run.tail);
    if (cell == 0)
        job->lost = record->outcome.end == RUN_LOST ? job->lost + 1 : 0;
    return job->lost < CAMPAIGN_LOST_MAX
               ? 0
               : rc_err_set(err, -ENODATA, "%u runs of the unchanged command left no bundle", job->lost);
}

/* --- which changes --- */

static int choose(struct try_job *job, const struct try_verdict *verdict, struct rc_err *err)
{
    RC_AUTO_FREE char *rows = NULL;
    struct changes *changes = &job->experiment.changes;
    ssize_t len = asset_read("changes.tsv", &rows, err);
    if (len < 0)
        return (int)len;
    int r = changes_choose(changes, changes->count + SUGGESTED_MAX, rows, verdict->class_name,
                           verdict->runner_up, verdict->facts, err);
    return r == 0 && changes->count == 0
               ? rc_err_set(err, -ENOENT, "no change is known that fits %s: name one (--with=NAME=VALUE)", verdict->class_name)
               : r;
}

/* Without a bundle nobody has seen the command fail yet, so it is run until it does. */
static int run_until_failure(struct try_job *job, struct rc_err *err)
{
    int r = 0;
    bool failed = false;
    while (r == 0 && !failed && job->count < FIRST_FAILURE_MAX && budget_is_left(job)) {
        struct try_verdict verdict = {.facts = NULL};
        r = run_cell(job, 0, &verdict, err);
        failed = r == 0 && job->records[job->count - 1].outcome.end == RUN_FAILED;
        if (failed && verdict.facts != NULL)
            r = choose(job, &verdict, err);
        facts_free(verdict.facts);
    }
    if (r == 0 && !failed && !stop)
        r = rc_err_set(err, -ENOENT, "the command did not fail in %u runs: there is nothing to try", job->count);
    return r;
}

static int choose_changes(struct try_job *job, const char *bundle, struct rc_err *err)
{
    struct changes *changes = &job->experiment.changes;
    struct try_verdict verdict = {.facts = NULL};
    if (changes->count > 0 && !job->suggested)
        return 0;
    if (bundle == NULL)
        return run_until_failure(job, err);
    try_read_verdict(bundle, &verdict);
    int r = verdict.facts == NULL ? rc_err_set(err, -EBADMSG, "its facts cannot be read") : 0;
    if (r == 0)
        r = choose(job, &verdict, err);
    facts_free(verdict.facts);
    return r;
}

/* --- the campaign --- */

static bool one_is_confirmed(const struct campaign *c)
{
    for (size_t i = 1; i < c->count; i++)
        if (finding_confirms(c->cell[i].finding))
            return true;
    return false;
}

static int run_campaign(struct try_job *job, struct rc_err *err)
{
    struct campaign *c = &job->experiment.campaign;
    int r = 0;
    int cell;
    campaign_init(c, job->experiment.changes.count, job->error, SEED);
    for (unsigned i = 0; i < job->count; i++)
        campaign_learn(c, &job->records[i].outcome);
    while (r == 0 && budget_is_left(job) && !(job->first && one_is_confirmed(c)) && (cell = campaign_next(c)) >= 0) {
        struct try_verdict verdict = {.facts = NULL};
        r = run_cell(job, (size_t)cell, &verdict, err);
        if (r == 0)
            campaign_note(c, &job->records[job->count - 1].outcome);
        facts_free(verdict.facts);
    }
    job->experiment.interrupted = stop != 0;
    return r;
}

static int finish(struct try_job *job, struct rc_err *err)
{
    struct conclusion conclusion;
    char bundle[FS_PATH_MAX] = "";
    job->experiment.seconds = (double)(clock_mono_ns() - job->start_ns) / 1e9;
    experiment_conclude(&job->experiment, &conclusion);
    int r = try_write_bundle(job, &conclusion, bundle, sizeof bundle, err);
    if (r < 0) {
        verb_complain(NULL, err);
        bundle[0] = '\0';
    }
    try_show_result(job, &conclusion, bundle);
    return r < 0 ? VERB_EXIT_FAILED : conclusion.status == CONCLUSION_CONFIRMED ? VERB_EXIT_OK : VERB_EXIT_BAD;
}

static int make_folder(struct try_job *job, struct rc_err *err)
{
    static char here[FS_PATH_MAX];
    int r = try_make_folder(job->output_dir, "try", here, job->folder, err);
    job->output_dir = here;
    job->records = calloc(job->runs_max, sizeof *job->records);
    return r < 0 ? r : job->records != NULL ? 0 : rc_err_set(err, -ENOMEM, "no memory for %u runs", job->runs_max);
}

static void take_signals(void)
{
    struct sigaction action = {.sa_handler = note_stop};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* A terminal that goes away does not end the campaign. A handler, as the command would inherit that a
     * signal is ignored. */
    struct sigaction hangup;
    action.sa_handler = note_nothing;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &action, NULL);
}

static int try_command(struct try_job *job, const char *bundle, struct rc_err *err)
{
    int r = make_folder(job, err);
    if (r < 0)
        return r;
    job->start_ns = clock_mono_ns();
    job->ended_ns = job->start_ns;
    job->is_terminal = isatty(STDERR_FILENO);
    take_signals();
    r = choose_changes(job, bundle, err);
    if (r == 0 && !stop && job->experiment.changes.count == 0)
        r = rc_err_set(err, -ENOENT, "the failure left no facts to choose a change by: name one (--with=NAME=VALUE)");
    if (r == 0)
        r = run_campaign(job, err);
    if (r < 0 && job->experiment.campaign.rounds == 0)
        return r;
    if (r < 0)
        verb_complain(NULL, err); /* what is known so far is printed */
    return finish(job, err);
}

int verb_try(int argc, char *argv[])
{
    static struct try_job job = {.runs_max = RUNS_DEFAULT};
    struct rc_err err = {""};
    int at = options_parse(table, &job, argc, argv, &err);
    if (at >= 0 && job.help) {
        print_help();
        return VERB_EXIT_OK;
    }
    const char *bundle = at >= 0 && at < argc && (at == 0 || strcmp(argv[at - 1], "--") != 0) ? argv[at] : NULL;
    int r = at < 0 ? at : again_choose(&job.again, argc, argv, at, "try [OPTIONS] BUNDLE | -- COMMAND...", &err);
    if (r == 0)
        r = try_command(&job, bundle, &err);
    if (r < 0)
        verb_complain(job.again.bundle, &err);
    for (unsigned i = 0; i < job.count; i++)
        free(job.records[i].bundle);
    free(job.records);
    again_release(&job.again);
    return r < 0 ? (r == -EINVAL ? VERB_EXIT_USAGE : VERB_EXIT_FAILED) : r;
}
