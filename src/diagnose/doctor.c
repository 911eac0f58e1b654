/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and facts -> findings. */
#include "diagnose/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/doctor_internal.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"

#define GPUS_MAX 256

struct examination {
    const struct facts *facts;
    const struct doctor_rules *rules;
    struct doctor_report *report;
    int64_t gpus;
};

/* "host.mem_total_bytes: no such file". Call it before the expression is freed, because the
 * expression owns the names. */
static void note_missing(struct buf *out, const struct eval *ev)
{
    for (size_t i = 0; i < ev->missing_count; i++) {
        const char *name = ev->missing[i];
        const struct fact *f = facts_best(ev->facts, name);
        if (strstr(buf_str(out), name) != NULL)
            continue;
        buf_printf(out, "%s%s: %s", out->len > 0 ? "; " : "", name,
                   f != NULL && f->reason != NULL && f->reason[0] != '\0' ? f->reason
                                                                          : "not known");
    }
}

/* `missing` (may be NULL) gets the inputs that an undecided answer lacked. */
static enum answer ask(const struct examination *x, const char *when, int gpu, struct buf *missing)
{
    struct rc_err err = {""};
    char *text = doctor_for_gpu(when, gpu);
    struct expr *e = text != NULL ? expr_parse(text, NULL, &err) : NULL;
    struct eval ev = {.facts = x->facts};
    enum answer answer = e != NULL ? eval_answer(&ev, e) : ANSWER_UNDECIDED;
    if (answer == ANSWER_UNDECIDED && missing != NULL)
        note_missing(missing, &ev);
    expr_free(e);
    free(text);
    return answer;
}

static char *fill(const struct examination *x, const char *template, int gpu, bool cite)
{
    char *text = doctor_for_gpu(template, gpu);
    char *filled = text != NULL ? template_fill(text, x->facts, cite) : NULL;
    free(text);
    return filled;
}

static char *fill_mend(const struct examination *x, const struct doctor_rule *rule, int gpu)
{
    for (size_t i = 0; i < rule->mend_count; i++) {
        if (rule->mend[i].when == NULL || ask(x, rule->mend[i].when, gpu, NULL) == ANSWER_YES)
            return fill(x, rule->mend[i].say, gpu, false);
    }
    return strdup("");
}

static bool was_found(const struct doctor_report *report, const char *id, size_t len)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (strlen(report->findings[i].id) == len && memcmp(report->findings[i].id, id, len) == 0)
            return true;
    return false;
}

static bool superfluous(const struct examination *x, const struct doctor_rule *rule)
{
    for (const char *at = rule->unless; at != NULL && *at != '\0';) {
        at += strspn(at, " ");
        size_t n = strcspn(at, " ");
        if (n > 0 && was_found(x->report, at, n))
            return true;
        at += n;
    }
    return false;
}

/* "0-2, 5" of the GPUs that are marked. */
static char *gpu_list(const bool *marked, int64_t count)
{
    struct buf out = BUF_INIT;
    for (int64_t i = 0; i < count; i++) {
        int64_t last = i;
        if (!marked[i])
            continue;
        while (last + 1 < count && marked[last + 1])
            last++;
        buf_printf(&out, "%s%d", out.len > 0 ? ", " : "", (int)i);
        if (last > i)
            buf_printf(&out, "%s%d", last > i + 1 ? "-" : ", ", (int)last);
        i = last;
    }
    char *text = buf_failed(&out) ? NULL : strdup(buf_str(&out));
    buf_release(&out);
    return text;
}

static int add_finding(struct examination *x, const struct doctor_rule *rule, int first_gpu,
                       const bool *marked)
{
    struct doctor_report *report = x->report;
    struct doctor_finding *f = &report->findings[report->finding_count++];
    *f = (struct doctor_finding){
        .id = rule->id,
        .severity = rule->severity,
        .is_setting = rule->is_setting,
        .gpus = rule->each_gpu ? gpu_list(marked, x->gpus) : strdup(""),
        .say = fill(x, rule->say, first_gpu, true),
        .mend = fill_mend(x, rule, first_gpu),
        .verify = fill(x, rule->verify, first_gpu, false),
        .source = strdup(rule->source),
    };
    bool whole = f->gpus != NULL && f->say != NULL && f->mend != NULL && f->verify != NULL &&
                 f->source != NULL;
    return whole ? 0 : -ENOMEM;
}

static int ask_rule(struct examination *x, const struct doctor_rule *rule)
{
    bool marked[GPUS_MAX] = {false};
    struct buf missing = BUF_INIT;
    bool undecided = false;
    int first = -1;
    int r = 0;
    int64_t times = rule->each_gpu ? x->gpus : 1;
    for (int64_t gpu = 0; gpu < times; gpu++) {
        enum answer answer = ask(x, rule->when, (int)gpu, &missing);
        marked[gpu] = answer == ANSWER_YES;
        first = marked[gpu] && first < 0 ? (int)gpu : first;
        undecided = undecided || answer == ANSWER_UNDECIDED;
    }
    if (times == 0) { /* a rule about GPUs is not passed where there is none */
        undecided = true;
        buf_puts(&missing, "no GPU was found");
    }
    if (first >= 0) {
        r = add_finding(x, rule, first, marked);
    } else if (undecided) {
        struct doctor_undecided *u = &x->report->undecided[x->report->undecided_count++];
        *u = (struct doctor_undecided){.id = rule->id, .missing = strdup(buf_str(&missing))};
        r = u->missing != NULL ? 0 : -ENOMEM;
    }
    buf_release(&missing);
    return r;
}

/* Most severe first; findings of one severity stay in the order of the rules. */
static void sort_findings(struct doctor_report *report)
{
    for (size_t i = 1; i < report->finding_count; i++) {
        struct doctor_finding f = report->findings[i];
        size_t at = i;
        for (; at > 0 && report->findings[at - 1].severity < f.severity; at--)
            report->findings[at] = report->findings[at - 1];
        report->findings[at] = f;
    }
}

int doctor_examine(struct facts *facts, const struct computed *computed,
                   const struct doctor_rules *rules, struct doctor_report *ret, struct rc_err *err)
{
    struct examination x = {.facts = facts, .rules = rules, .report = ret};
    *ret = (struct doctor_report){.rules = rules->count};
    features_derive(facts, computed);
    doctor_features(facts);
    if (!facts_get_integer(facts, "gpu.count", &x.gpus) || x.gpus < 0)
        x.gpus = 1; /* not known: a rule for each GPU is then undecided, not passed */
    x.gpus = x.gpus > GPUS_MAX ? GPUS_MAX : x.gpus;
    ret->findings = calloc(rules->count + 1, sizeof *ret->findings);
    ret->undecided = calloc(rules->count + 1, sizeof *ret->undecided);
    int r = ret->findings == NULL || ret->undecided == NULL ? -ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < rules->count; i++)
        if (!superfluous(&x, &rules->rule[i]))
            r = ask_rule(&x, &rules->rule[i]);
    if (r < 0)
        return rc_err_errno(err, r, "cannot examine the machine");
    sort_findings(ret);
    return 0;
}

void doctor_report_release(struct doctor_report *report)
{
    for (size_t i = 0; report->findings != NULL && i < report->finding_count; i++) {
        struct doctor_finding *f = &report->findings[i];
        free(f->gpus);
        free(f->say);
        free(f->mend);
        free(f->verify);
        free(f->source);
    }
    for (size_t i = 0; report->undecided != NULL && i < report->undecided_count; i++)
        free(report->undecided[i].missing);
    free(report->findings);
    free(report->undecided);
    *report = (struct doctor_report){.rules = 0};
}

enum doctor_severity doctor_worst(const struct doctor_report *report)
{
    return report->finding_count > 0 ? report->findings[0].severity : DOCTOR_NOTE;
}
