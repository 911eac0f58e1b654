/* SPDX-License-Identifier: Apache-2.0 */
/* Output of `try`: progress and runs on stderr, the result on stdout. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/say.h"
#include "cli/json_print.h"
#include "cli/try_job.h"

#define CHANGE_WIDTH 44
#define GOOD_RUNS_TOLD 3
#define CLEAR_LINE "\r\033[K"

static void change_of_cell(const struct try_job *job, size_t cell, char *out, size_t size)
{
    if (cell == 0)
        (void)snprintf(out, size, "without a change");
    else
        change_text(&job->experiment.changes.change[cell - 1], out, size);
}

/* "3:07", "2:03:07" */
static void clock_text(double seconds, char *out, size_t size)
{
    unsigned long s = seconds > 0 && seconds < 1e9 ? (unsigned long)seconds : 0;
    if (s >= 3600)
        (void)snprintf(out, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        (void)snprintf(out, size, "%lu:%02lu", s / 60, s % 60);
}

/* Seconds until everything is decided, or until the budget ends where that is earlier or the other is
 * not known. */
static double seconds_left(const struct try_job *job, bool *ret_at_most)
{
    const struct campaign *c = &job->experiment.campaign;
    double spent = (double)(clock_mono_ns() - job->start_ns) / 1e9;
    double ended = (double)(job->ended_ns - job->start_ns) / 1e9; /* the run that goes on makes no earlier one longer */
    double each = job->count > 0 ? ended / job->count : 0;
    double runs = campaign_runs_left(c);
    double budget = each * (job->runs_max - job->count) - (spent - ended);
    if (job->for_ns > 0)
        budget = fmin(budget, (double)job->for_ns / 1e9 - spent);
    *ret_at_most = runs < 0 || each * runs - (spent - ended) > budget;
    return *ret_at_most ? budget : each * runs - (spent - ended);
}

void try_show_progress(const struct try_job *job, double seconds)
{
    char change[CHANGE_WIDTH + 1];
    char text[512];
    char now[32];
    char left[32];
    bool at_most = false;
    if (!job->is_terminal)
        return;
    change_of_cell(job, job->cell, text, sizeof text);
    (void)snprintf(change, sizeof change, "%.*s", CHANGE_WIDTH, text);
    clock_text(seconds, now, sizeof now);
    clock_text(seconds_left(job, &at_most), left, sizeof left);
    struct buf line = BUF_INIT;
    say_word(&line, change);
    (void)fprintf(stderr, CLEAR_LINE "run %u: %s, %s", job->count + 1, buf_str(&line), now);
    if (job->count > 0)
        (void)fprintf(stderr, " (%s %s left)", at_most ? "at most" : "about", left);
    (void)fflush(stderr);
    buf_release(&line);
}

static const char *why_lost(const struct try_run *run)
{
    return run->ended_by_us                        ? ": it was ended"
           : run->not_started                      ? ": it was not started"
           : run->bundle[0] == '\0'                ? ": it left no bundle"
                                                   : "";
}

/* A failure that never comes would use up the whole budget without a word. */
static void tell_good_runs(const struct try_job *job)
{
    unsigned runs = 0;
    for (unsigned i = 0; i < job->count; i++) {
        runs += job->records[i].cell == 0;
        if (job->records[i].cell == 0 && job->records[i].outcome.end != RUN_PASSED)
            return;
    }
    if (runs == GOOD_RUNS_TOLD)
        (void)say_line(stderr, "rocmcrash: %u runs without a change did not fail: a failure that comes seldom needs many runs; "
                               "Ctrl-C ends it", runs);
}

void try_show_run(const struct try_job *job, const struct try_run *run, double whole_s)
{
    const struct try_record *last = &job->records[job->count - 1];
    const struct outcome *o = &last->outcome;
    char text[512];
    change_of_cell(job, last->cell, text, sizeof text);
    if (job->is_terminal)
        (void)fputs(CLEAR_LINE, stderr);
    (void)say_line(stderr, "rocmcrash: run %u: %s: %s%s%s, %.1f s (%.1f s with its bundle)", job->count, text,
                   o->end == RUN_PASSED ? "passed"
                   : o->end == RUN_LOST ? "says nothing"
                                        : "failed: ",
                   o->end == RUN_FAILED ? o->key : "",
                   o->end == RUN_LOST ? why_lost(run) : "", o->seconds, whole_s);
    if (last->cell == 0)
        tell_good_runs(job);
}

static void print_row(const struct try_job *job, size_t i)
{
    char text[512];
    char found[128];
    char number[32];
    const struct cell *c = &job->experiment.campaign.cell[i];
    change_of_cell(job, i, text, sizeof text);
    experiment_finding(&job->experiment, i, found, sizeof found);
    (void)snprintf(number, sizeof number, "%u of %u failed", c->failed, c->runs);
    (void)say_line(stdout, "%-*s  %-18s  %s", CHANGE_WIDTH, text, number, found);
}

void try_show_result(const struct try_job *job, const struct conclusion *conclusion, const char *bundle)
{
    if (job->is_terminal)
        (void)fputs(CLEAR_LINE, stderr);
    (void)fflush(stderr);
    if (job->json) {
        cJSON *json = try_to_json(job, conclusion);
        (void)cJSON_AddStringToObject(json, "bundle", bundle);
        (void)json_print(json, JSON_PAGES);
        return;
    }
    for (size_t i = 0; i < job->experiment.campaign.count; i++)
        print_row(job, i);
    (void)say_line(stdout, "rocmcrash: %s", conclusion->sentence);
    char wrong[96] = "";
    if (experiment_has_finding(&job->experiment))
        (void)snprintf(wrong, sizeof wrong, "; the probability that any of these findings is wrong is at most %g %%",
                       job->experiment.campaign.error * 100);
    (void)say_line(stdout, "rocmcrash: %u run%s in %.0f s%s", job->count, job->count == 1 ? "" : "s",
                   job->experiment.seconds, wrong);
    if (bundle[0] != '\0')
        (void)say_whole(stdout, "rocmcrash: bundle: %s", bundle);
    (void)say_whole(stdout, "rocmcrash: bundles of the runs: %s", job->folder);
}
