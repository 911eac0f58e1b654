/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/conclusion.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "report/escape.h"

#define BOUND_ERROR 0.05 /* probability that the bound printed beside a finding is wrong */

const char *conclusion_name(enum conclusion_status status)
{
    static const char *const names[] = {"confirmed", "refuted", "no-help", "undecided", "not-reproduced"};
    return names[status];
}

static const struct change *change_of(const struct experiment *e, size_t cell)
{
    return &e->changes.change[cell - 1];
}

/* "HSA_ENABLE_SDMA=0 (copies without the copy engines)"; a change of the user has no such words. */
static void describe(const struct experiment *e, size_t cell, char *out, size_t size)
{
    char text[400];
    const struct change *c = change_of(e, cell);
    change_text(c, text, sizeof text);
    if (c->what[0] == '\0')
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "%s (%s)", text, c->what);
}

void experiment_words(const struct experiment *e, size_t cell, char *out, size_t size)
{
    const struct cell *c = &e->campaign.cell[cell];
    (void)snprintf(out, size, "%u of %u runs failed", c->failed, c->runs);
}

void experiment_finding(const struct experiment *e, size_t cell, char *out, size_t size)
{
    const struct cell *c = &e->campaign.cell[cell];
    double percent = (campaign_gain(c) - 1) * 100;
    if (c->finding == FINDING_POSTPONES)
        (void)snprintf(out, size, "postpones by %.*f %%", percent < 10 ? 1 : 0, percent);
    else if (c->finding == FINDING_OTHERWISE)
        (void)snprintf(out, size, "fails otherwise: %s", c->other);
    else if (c->finding == FINDING_LOST)
        (void)snprintf(out, size, "given up: its runs left no bundle");
    else
        (void)snprintf(out, size, "%s", cell == 0 ? "" : finding_name(c->finding));
}

/* --- the conclusion --- */

/* The most telling change that helps. Rank: a cure first, then a change that stands for a class, then one that
 * stands for the class of the verdict. Also counts the changes that help. */
static int best_change(const struct experiment *e, unsigned *ret_helping)
{
    int best = 0;
    int best_rank = -1;
    *ret_helping = 0;
    for (size_t i = 1; i < e->campaign.count; i++) {
        enum finding f = e->campaign.cell[i].finding;
        if (!finding_confirms(f))
            continue;
        int rank = (f == FINDING_CURES) * 4 + (change_of(e, i)->class_name[0] != '\0') * 2 +
                   (strcmp(change_of(e, i)->class_name, e->class_name) == 0);
        *ret_helping += 1;
        if (rank > best_rank) {
            best = (int)i;
            best_rank = rank;
        }
    }
    return best;
}

/* The first whose finding is one of the set, 0 = none. */
static int first_with(const struct experiment *e, unsigned set, bool refuting)
{
    for (size_t i = 1; i < e->campaign.count; i++)
        if ((set >> e->campaign.cell[i].finding & 1) != 0 &&
            (!refuting || (change_of(e, i)->refutes &&
                           strcmp(change_of(e, i)->class_name, e->class_name) == 0)))
            return (int)i;
    return 0;
}

static void append(struct conclusion *c, const char *text)
{
    size_t len = strlen(c->sentence);
    (void)snprintf(c->sentence + len, sizeof c->sentence - len, "%s", text);
}

/* "with X 0 of 6 runs failed, without it 6 of 6" */
static void say_pair(const struct experiment *e, struct conclusion *c, size_t cell)
{
    char change[512];
    char text[640];
    const struct cell *base = &e->campaign.cell[0];
    const struct cell *changed = &e->campaign.cell[cell];
    describe(e, cell, change, sizeof change);
    (void)snprintf(text, sizeof text, "with %s %u of %u runs failed, without it %u of %u", change,
                   changed->failed, changed->runs, base->failed, base->runs);
    append(c, text);
}

static void say_postponed(const struct experiment *e, struct conclusion *c)
{
    for (size_t i = 1; i < e->campaign.count; i++) {
        char change[400];
        char found[64];
        char text[512];
        if (e->campaign.cell[i].finding != FINDING_POSTPONES || (int)i == c->cell)
            continue;
        change_text(change_of(e, i), change, sizeof change);
        experiment_finding(e, i, found, sizeof found);
        (void)snprintf(text, sizeof text, "; %s only %s", change, found);
        append(c, text);
    }
}

/* The class that all helping changes stand for; "" if they stand for several, or one of them for none. */
static const char *common_class(const struct experiment *e)
{
    const char *common = NULL;
    for (size_t i = 1; i < e->campaign.count; i++) {
        const char *its = change_of(e, i)->class_name;
        if (!finding_confirms(e->campaign.cell[i].finding))
            continue;
        if (common != NULL && strcmp(common, its) != 0)
            return "";
        common = its;
    }
    return common != NULL ? common : "";
}

/* The class follows only where no change of another kind helps, too: several often help by changing the
 * times of things, and then none of them is the cause. */
static void confirm(const struct experiment *e, struct conclusion *c, unsigned helping)
{
    char text[160];
    const struct cell *cell = &e->campaign.cell[c->cell];
    c->status = CONCLUSION_CONFIRMED;
    (void)snprintf(c->class_name, sizeof c->class_name, "%s", common_class(e));
    append(c, "confirmed: ");
    say_pair(e, c, (size_t)c->cell);
    if (cell->finding == FINDING_LOWERS)
        append(c, ": fewer, but not none");
    else {
        (void)snprintf(text, sizeof text, "; with it at most %.0f %% of the runs fail (95 %% confidence)",
                       ceil(100 * rate_at_most(cell->failed, cell->runs, BOUND_ERROR)));
        append(c, text);
    }
    if (helping > 1) {
        (void)snprintf(text, sizeof text, "; %u changes help%s", helping,
                       c->class_name[0] != '\0' ? "" : ", so none of them alone is shown to be the cause");
        append(c, text);
    }
    say_postponed(e, c);
}

static void say_none(const struct experiment *e, struct conclusion *c)
{
    char text[200];
    const struct cell *base = &e->campaign.cell[0];
    unsigned decided = 0;
    for (size_t i = 1; i < e->campaign.count; i++)
        decided += finding_is_shown(e->campaign.cell[i].finding);
    if (base->runs == 0) {
        c->status = CONCLUSION_UNDECIDED;
        (void)snprintf(text, sizeof text, "undecided: no run without a change had a result");
    } else if (base->failed == 0) {
        c->status = CONCLUSION_NOT_REPRODUCED;
        (void)snprintf(text, sizeof text, "not reproduced: none of %u runs without a change failed", base->runs);
    } else if (decided > 0 && decided + 1 == e->campaign.count) {
        c->status = CONCLUSION_NO_HELP;
        (void)snprintf(text, sizeof text, "none of %u changes helps; without a change %u of %u runs failed", decided,
                       base->failed, base->runs);
    } else {
        c->status = CONCLUSION_UNDECIDED;
        char shown[80] = "";
        if (decided > 0)
            (void)snprintf(shown, sizeof shown, "; %u of %zu changes %s shown not to help", decided, e->campaign.count - 1,
                           decided == 1 ? "is" : "are");
        (void)snprintf(text, sizeof text, "undecided: %s%s; without a change %u of %u runs failed",
                       e->interrupted ? "it was ended early" : "these runs were too few", shown, base->failed, base->runs);
    }
    append(c, text);
    say_postponed(e, c);
}

void experiment_conclude(const struct experiment *e, struct conclusion *ret)
{
    unsigned helping = 0;
    *ret = (struct conclusion){.cell = best_change(e, &helping)};
    if (ret->cell > 0) {
        confirm(e, ret, helping);
        return;
    }
    ret->cell = first_with(e, 1u << FINDING_REFUTED | 1u << FINDING_POSTPONES, true);
    if (ret->cell > 0) {
        ret->status = CONCLUSION_REFUTED;
        (void)snprintf(ret->class_name, sizeof ret->class_name, "unknown");
        append(ret, "refuted: ");
        append(ret, e->class_name);
        append(ret, ": ");
        say_pair(e, ret, (size_t)ret->cell);
        say_postponed(e, ret);
        return;
    }
    say_none(e, ret);
    ret->cell = first_with(e, 1u << FINDING_REFUTED | 1u << FINDING_POSTPONES | 1u << FINDING_OTHERWISE, false);
}

/* --- as a table and as JSON --- */

/* The change in a code span, its words after it. */
static void put_change(const struct experiment *e, size_t cell, struct buf *out)
{
    char text[400];
    const struct change *c = change_of(e, cell);
    change_text(c, text, sizeof text);
    escape_cell(out, text, sizeof text);
    if (c->what[0] != '\0') {
        buf_puts(out, " (");
        escape_markdown(out, c->what, sizeof c->what);
        buf_putc(out, ')');
    }
}

bool experiment_has_finding(const struct experiment *e)
{
    for (size_t i = 1; i < e->campaign.count; i++)
        if (finding_is_shown(e->campaign.cell[i].finding))
            return true;
    return false;
}

void experiment_table(const struct experiment *e, struct buf *out)
{
    buf_puts(out, "| change | runs | failed | found | seconds a run |\n|---|--:|--:|---|--:|\n");
    for (size_t i = 0; i < e->campaign.count; i++) {
        const struct cell *c = &e->campaign.cell[i];
        char found[128];
        experiment_finding(e, i, found, sizeof found);
        buf_puts(out, "| ");
        if (i == 0)
            buf_puts(out, "none");
        else
            put_change(e, i, out);
        buf_printf(out, " | %u | %u | ", c->runs, c->failed);
        escape_markdown(out, found, sizeof found);
        buf_printf(out, " | %.1f |\n", c->runs > 0 ? c->seconds / c->runs : 0);
    }
    buf_putc(out, '\n');
    if (experiment_has_finding(e))
        buf_printf(out, "The probability that any of these findings is wrong is at most %g %%. ", e->campaign.error * 100);
    buf_printf(out, "%u rounds, %.0f s.\n", e->campaign.rounds, e->seconds);
}

static void add_cell(const struct experiment *e, size_t i, cJSON *list)
{
    const struct cell *c = &e->campaign.cell[i];
    char text[400] = "";
    cJSON *item = cJSON_CreateObject();
    if (i > 0)
        change_text(change_of(e, i), text, sizeof text);
    (void)cJSON_AddStringToObject(item, "id", i > 0 ? change_of(e, i)->id : "as-it-is");
    (void)cJSON_AddStringToObject(item, "change", text);
    (void)cJSON_AddStringToObject(item, "what", i == 0                                ? "as it is"
                                                : change_of(e, i)->what[0] != '\0' ? change_of(e, i)->what
                                                                                    : text);
    (void)cJSON_AddNumberToObject(item, "runs", c->runs);
    (void)cJSON_AddNumberToObject(item, "failed", c->failed);
    (void)cJSON_AddNumberToObject(item, "seconds", c->seconds);
    if (i > 0) {
        (void)cJSON_AddStringToObject(item, "finding", finding_name(c->finding));
        (void)cJSON_AddNumberToObject(item, "decided_in_round", c->decided_in);
        (void)cJSON_AddNumberToObject(item, "rate_at_most", rate_at_most(c->failed, c->runs, BOUND_ERROR));
        if (c->compared > 0)
            (void)cJSON_AddNumberToObject(item, "progress_ratio", campaign_gain(c));
        if (c->other[0] != '\0')
            (void)cJSON_AddStringToObject(item, "other_failure", c->other);
    }
    cJSON_AddItemToArray(list, item);
}

cJSON *experiment_to_json(const struct experiment *e, const struct conclusion *conclusion)
{
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(json, "format", 1);
    (void)cJSON_AddStringToObject(json, "status", conclusion_name(conclusion->status));
    (void)cJSON_AddStringToObject(json, "sentence", conclusion->sentence);
    (void)cJSON_AddStringToObject(json, "class",
                                  conclusion->class_name[0] != '\0' ? conclusion->class_name : e->class_name);
    (void)cJSON_AddStringToObject(json, "class_before", e->class_name);
    (void)cJSON_AddStringToObject(json, "decided_by",
                                  conclusion->cell > 0 ? change_of(e, (size_t)conclusion->cell)->id : "");
    (void)cJSON_AddNumberToObject(json, "error", e->campaign.error);
    (void)cJSON_AddNumberToObject(json, "rounds", e->campaign.rounds);
    (void)cJSON_AddNumberToObject(json, "seconds", e->seconds);
    (void)cJSON_AddStringToObject(json, "measure", e->measure != NULL ? e->measure : "");
    (void)cJSON_AddBoolToObject(json, "interrupted", e->interrupted);
    cJSON *list = cJSON_AddArrayToObject(json, "cells");
    for (size_t i = 0; list != NULL && i < e->campaign.count; i++)
        add_cell(e, i, list);
    return json;
}
