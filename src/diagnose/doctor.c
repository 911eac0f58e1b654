/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/doctor.json -> rules; rules and facts -> findings.
 *
 * "gpu.N." and "GPU N" in a rule stand for each GPU in turn: the texts are kept as they are written
 * and parsed anew for each, which costs microseconds and needs no second language.
 */
#include "diagnose/doctor.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/tree.h"
#include "diagnose/tree_loader.h"

#define RULES_MAX 128
#define MENDS_MAX 4
#define GPUS_MAX 256
#define ID_MAX 48

struct mend {
    char *when; /* NULL = always */
    char *say;
};

struct rule {
    char *id;
    enum doctor_severity severity;
    bool each_gpu;
    char *when;
    char *say;
    char *verify;
    char *source;
    char *unless; /* ids of rules whose finding makes this one superfluous, by blanks */
    size_t mend_count;
    struct mend mend[MENDS_MAX];
};

struct doctor_rules {
    size_t count;
    struct rule rule[RULES_MAX];
};

static const char *const severity_names[] = {"note", "warn", "fail"};

const char *doctor_severity_name(enum doctor_severity severity)
{
    return severity_names[severity];
}

/* --- for one GPU --- */

/* `text` with N as the number of the GPU; NULL when out of memory. */
static char *for_gpu(const char *text, int gpu)
{
    struct buf out = BUF_INIT;
    while (*text != '\0') {
        if (strncmp(text, "gpu.N.", 6) == 0) {
            buf_printf(&out, "gpu.%d.", gpu);
            text += 6;
        } else if (strncmp(text, "GPU N", 5) == 0) {
            buf_printf(&out, "GPU %d", gpu);
            text += 5;
        } else {
            buf_putc(&out, *text++);
        }
    }
    char *result = buf_failed(&out) ? NULL : strdup(buf_str(&out));
    buf_release(&out);
    return result;
}

/* --- reading the file --- */

/* The expression is parsed for its errors only, as of GPU 0. */
static int read_condition(const struct loader *l, const cJSON *object, const char *key,
                          bool required, char **ret)
{
    int r = loader_text(l, object, key, required, ret);
    if (r < 0 || *ret == NULL)
        return r;
    struct rc_err inner = {""};
    char *text = for_gpu(*ret, 0);
    struct expr *e = text != NULL ? expr_parse(text, NULL, &inner) : NULL;
    if (text == NULL)
        r = -ENOMEM;
    else if (e == NULL)
        r = loader_wrong_key(l, key, inner.msg);
    expr_free(e);
    free(text);
    return r;
}

static int read_mend(const struct loader *l, const cJSON *object, struct rule *rule)
{
    static const char *const keys[] = {"if", "say", NULL};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "mend");
    const cJSON *item = NULL;
    if (cJSON_IsString(list)) {
        rule->mend_count = 1;
        return loader_template(l, object, "mend", true, &rule->mend[0].say);
    }
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) == 0)
        return loader_wrong_key(l, "mend", "must be a text or a list of {\"if\", \"say\"}");
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsObject(item) || rule->mend_count == MENDS_MAX)
            return loader_wrong_key(l, "mend", "must be a text or a list of {\"if\", \"say\"}");
        struct mend *mend = &rule->mend[rule->mend_count++];
        int r = loader_check_keys(l, item, keys);
        if (r == 0)
            r = read_condition(l, item, "if", false, &mend->when);
        if (r == 0)
            r = loader_template(l, item, "say", true, &mend->say);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_severity(const struct loader *l, const cJSON *object, struct rule *rule)
{
    const char *word = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "severity"));
    for (int i = DOCTOR_NOTE; word != NULL && i <= DOCTOR_FAIL; i++) {
        if (strcmp(word, severity_names[i]) == 0) {
            rule->severity = (enum doctor_severity)i;
            return 0;
        }
    }
    return loader_wrong_key(l, "severity", "must be note, warn or fail");
}

static int read_each(const struct loader *l, const cJSON *object, struct rule *rule)
{
    const cJSON *each = cJSON_GetObjectItemCaseSensitive(object, "each");
    const char *word = cJSON_GetStringValue(each);
    if (each != NULL && (word == NULL || strcmp(word, "gpu") != 0))
        return loader_wrong_key(l, "each", "must be \"gpu\"");
    rule->each_gpu = each != NULL;
    return 0;
}

static int read_rule(struct loader *l, const cJSON *object, struct rule *rule)
{
    static const char *const keys[] = {"id",   "each",   "severity", "if",     "say",
                                       "mend", "verify", "source",   "unless", NULL};
    static char item_name[80];
    int r = loader_text(l, object, "id", true, &rule->id);
    if (r < 0)
        return r;
    loader_go_to(l, rule->id);
    (void)snprintf(item_name, sizeof item_name, "rule '%.60s'", rule->id);
    l->item = item_name;
    r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = read_each(l, object, rule);
    if (r == 0)
        r = read_severity(l, object, rule);
    if (r == 0)
        r = read_condition(l, object, "if", true, &rule->when);
    if (r == 0)
        r = loader_template(l, object, "say", true, &rule->say);
    if (r == 0)
        r = read_mend(l, object, rule);
    if (r == 0)
        r = loader_template(l, object, "verify", true, &rule->verify);
    if (r == 0)
        r = loader_text(l, object, "source", true, &rule->source);
    return r == 0 ? loader_text(l, object, "unless", false, &rule->unless) : r;
}

static struct rule *find_rule(const struct doctor_rules *rules, const char *id, size_t len)
{
    for (size_t i = 0; i < rules->count; i++)
        if (strlen(rules->rule[i].id) == len && memcmp(rules->rule[i].id, id, len) == 0)
            return (struct rule *)(uintptr_t)&rules->rule[i];
    return NULL;
}

/* Ids are unique, and "unless" names rules that stand before: they are asked by then. */
static int check_ids(const struct loader *l, const struct doctor_rules *rules,
                     const struct rule *rule)
{
    size_t len = strlen(rule->id);
    const struct rule *first = find_rule(rules, rule->id, len);
    if (len == 0 || len > ID_MAX || (first != NULL && first != rule))
        return loader_wrong_key(l, "id", "must be there once, and not longer than 48 letters");
    for (const char *at = rule->unless; at != NULL && *at != '\0';) {
        at += strspn(at, " ");
        size_t n = strcspn(at, " ");
        const struct rule *other = find_rule(rules, at, n);
        if (n > 0 && (other == NULL || other >= rule))
            return loader_wrong_key(l, "unless", "must name rules that stand before this one");
        at += n;
    }
    return 0;
}

static int read_rules(struct loader *l, const cJSON *root, struct doctor_rules *rules)
{
    static const char *const keys[] = {"format", "how_to_read", "rules", NULL};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "rules");
    const cJSON *item = NULL;
    int r = loader_check_format(l, root);
    if (r == 0)
        r = loader_check_keys(l, root, keys);
    if (r == 0 && !cJSON_IsArray(list))
        r = loader_wrong_key(l, "rules", "must be a list");
    cJSON_ArrayForEach(item, list)
    {
        if (r < 0)
            return r;
        if (!cJSON_IsObject(item) || rules->count == RULES_MAX)
            return loader_wrong_key(l, "rules", "must be a list of at most 128 rules");
        struct rule *rule = &rules->rule[rules->count++];
        r = read_rule(l, item, rule);
        if (r == 0)
            r = check_ids(l, rules, rule);
        l->item = NULL;
    }
    return r;
}

struct doctor_rules *doctor_rules_parse(const char *json, size_t len, const char *file,
                                        struct rc_err *err)
{
    char *text = strndup(json, len);
    struct doctor_rules *rules = calloc(1, sizeof *rules);
    struct loader l = {.text = text, .near = text, .file = file, .err = err};
    int r = text == NULL || rules == NULL ? -ENOMEM : 0;
    cJSON *root = r == 0 ? loader_json(&l, strlen(text)) : NULL;
    if (r == 0)
        r = root != NULL ? read_rules(&l, root, rules) : -EINVAL;
    if (r == -ENOMEM)
        (void)rc_err_set(err, r, "out of memory while reading '%s'", file);
    cJSON_Delete(root);
    free(text);
    if (r < 0) {
        doctor_rules_free(rules);
        return NULL;
    }
    return rules;
}

void doctor_rules_free(struct doctor_rules *rules)
{
    for (size_t i = 0; rules != NULL && i < rules->count; i++) {
        struct rule *rule = &rules->rule[i];
        char *const texts[] = {rule->id,     rule->when,   rule->say,
                               rule->verify, rule->source, rule->unless};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            free(texts[k]);
        for (size_t k = 0; k < rule->mend_count; k++) {
            free(rule->mend[k].when);
            free(rule->mend[k].say);
        }
    }
    free(rules);
}

/* --- asking --- */

struct examination {
    const struct facts *facts;
    const struct doctor_rules *rules;
    struct doctor_report *report;
    int64_t gpus;
};

/* "host.mem_total_bytes: no such file"; while the names of the expression are still there. */
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
    char *text = for_gpu(when, gpu);
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
    char *text = for_gpu(template, gpu);
    char *filled = text != NULL ? template_fill(text, x->facts, cite) : NULL;
    free(text);
    return filled;
}

static char *fill_mend(const struct examination *x, const struct rule *rule, int gpu)
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

static bool superfluous(const struct examination *x, const struct rule *rule)
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

static int add_finding(struct examination *x, const struct rule *rule, int first_gpu,
                       const bool *marked)
{
    struct doctor_report *report = x->report;
    struct doctor_finding *f = &report->findings[report->finding_count++];
    *f = (struct doctor_finding){
        .id = rule->id,
        .severity = rule->severity,
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

static int ask_rule(struct examination *x, const struct rule *rule)
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

/* Most severe first; the order of the rules within. */
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

int doctor_examine(struct facts *facts, const struct doctor_rules *rules, struct doctor_report *ret,
                   struct rc_err *err)
{
    struct examination x = {.facts = facts, .rules = rules, .report = ret};
    *ret = (struct doctor_report){.rules = rules->count};
    features_derive(facts);
    doctor_features(facts);
    if (!facts_get_integer(facts, "gpu.count", &x.gpus) || x.gpus < 0)
        x.gpus = 0;
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
