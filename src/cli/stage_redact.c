/* SPDX-License-Identifier: Apache-2.0 */
/* The redactor of a job: made from the user's choices, applied to facts, lines and texts. */
#include "cli/stage_redact.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/assets.h"
#include "cli/site.h"
#include "diagnose/fact.h"

#define RULES_NAME "redaction.rules"
#define ALL_RULES_MAX ((size_t)2 << 20)
#define PREVIEW_LINES_MAX 2000u
#define PREVIEW_VALUE_MAX 60u
#define GROWTH_MAX 12 /* "ab" becomes "<text: 2 characters>" */
#define SECRET_SHOWN 4u

/* --- preview --- */

/* One for each value, with how often it was replaced. */
struct preview_value {
    enum redact_kind kind;
    uint64_t count, hash; /* of all of it: two secrets may begin alike */
    char rule[48];
    char becomes[64];
    char shown[4 * PREVIEW_VALUE_MAX + 8];
    char first[160]; /* "output/stderr.txt:12" */
};

static struct {
    uint64_t changes, unlisted;
    size_t count;
    struct preview_value *values; /* PREVIEW_LINES_MAX of them; NULL = no memory */
} preview;

/* FNV-1a: tells values apart, protects nothing. */
static uint64_t hash_of(const char *value, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)value[i]) * UINT64_C(1099511628211);
    return hash;
}

/* A secret shows only its first characters: the preview itself may end up in a log. */
static void describe(const struct redact_change *change, struct preview_value *ret)
{
    size_t most = change->kind == REDACT_SECRET ? SECRET_SHOWN : PREVIEW_VALUE_MAX;
    struct buf value = BUF_INIT;
    say_clean(&value, change->value, change->len < most ? change->len : most);
    *ret = (struct preview_value){
        .kind = change->kind, .count = 1, .hash = hash_of(change->value, change->len)};
    (void)snprintf(ret->rule, sizeof ret->rule, "%s", change->rule);
    (void)snprintf(ret->becomes, sizeof ret->becomes, "%s", change->becomes);
    (void)snprintf(ret->shown, sizeof ret->shown, "%s%s", buf_str(&value),
                   change->len > most ? "..." : "");
    if (change->line > 0)
        (void)snprintf(ret->first, sizeof ret->first, "%s:%zu",
                       change->file[0] != '\0' ? change->file : "facts", change->line);
    else
        (void)snprintf(ret->first, sizeof ret->first, "%s",
                       change->file[0] != '\0' ? change->file : "facts");
    buf_release(&value);
}

static void note_change(void *arg, const struct redact_change *change)
{
    struct preview_value value;
    (void)arg;
    preview.changes++;
    if (preview.values == NULL)
        preview.values = calloc(PREVIEW_LINES_MAX, sizeof *preview.values);
    describe(change, &value);
    for (size_t i = 0; i < preview.count; i++) {
        if (preview.values[i].hash == value.hash &&
            strcmp(preview.values[i].becomes, value.becomes) == 0) {
            preview.values[i].count++;
            return;
        }
    }
    if (preview.values != NULL && preview.count < PREVIEW_LINES_MAX)
        preview.values[preview.count++] = value;
    else
        preview.unlisted++;
}

static int by_kind_and_value(const void *a, const void *b)
{
    const struct preview_value *x = a;
    const struct preview_value *y = b;
    int kinds = (x->kind > y->kind) - (x->kind < y->kind);
    int values = strcmp(x->shown, y->shown);
    return kinds != 0 ? kinds : values != 0 ? values : strcmp(x->becomes, y->becomes);
}

void stage_print_preview_end(const struct redactor *redactor)
{
    (void)redactor;
    if (preview.count > 1)
        qsort(preview.values, preview.count, sizeof *preview.values, by_kind_and_value);
    for (size_t i = 0; i < preview.count; i++) {
        const struct preview_value *v = &preview.values[i];
        (void)say_line(stdout, "rocmcrash: preview: %s (%s) '%s' -> %s, %llu time%s, first in %s",
                       redact_kind_name(v->kind), v->rule, v->shown, v->becomes, (unsigned long long)v->count,
                       v->count == 1 ? "" : "s", v->first);
    }
    if (preview.unlisted > 0)
        (void)printf("rocmcrash: preview: %llu more changes are not shown\n",
                     (unsigned long long)preview.unlisted);
    (void)printf("rocmcrash: preview: %zu values, %llu changes; --keep=KIND,... leaves a kind as "
                 "it is\n",
                 preview.count, (unsigned long long)preview.changes);
    (void)fflush(stdout);
}

/* --- making one --- */

static struct redactor *with_rules(struct rc_err *err)
{
    RC_AUTO_FREE char *rules = NULL;
    const char *of_site = site_get()->redaction;
    struct buf all;
    ssize_t len = asset_read(RULES_NAME, &rules, err);
    buf_init(&all, ALL_RULES_MAX);
    if (len == -ENOENT) { /* an installation has them in the program only */
        size_t size = 0;
        const char *builtin = redactor_builtin_rules(&size);
        buf_append(&all, builtin, size);
        len = (ssize_t)size;
    } else if (len > 0) {
        buf_append(&all, rules, (size_t)len);
    }
    if (of_site != NULL)
        buf_printf(&all, "\n%s", of_site);
    struct redactor *redactor = len > 0 && !buf_failed(&all)
                                    ? redactor_new_rules(all.data, all.len, RULES_NAME, err)
                                    : NULL;
    buf_release(&all);
    if (redactor != NULL)
        err->msg[0] = '\0';
    return redactor != NULL ? redactor : redactor_new();
}

struct redactor *stage_redactor(const struct privacy *privacy, struct rc_err *err)
{
    struct redactor *redactor = with_rules(err);
    struct rc_err wrong = {""};
    int r = redactor != NULL ? redactor_add_machine(redactor) : -ENOMEM;
    if (r == 0)
        r = redactor_add_around(redactor, privacy->cwd);
    if (r == 0 && privacy->keep != NULL && redactor_keep(redactor, privacy->keep, &wrong) < 0)
        *err = wrong; /* hides more than was asked for */
    if (r == 0 && privacy->preview)
        redactor_on_change(redactor, note_change, NULL);
    if (r == 0)
        return redactor;
    (void)rc_err_errno(err, r, "cannot redact");
    redactor_free(redactor);
    return NULL;
}

/* --- applying it --- */

char *stage_redact_line(struct redactor *redactor, const char *line)
{
    struct buf clean = BUF_INIT;
    char *copy = NULL;
    if (redact_text(redactor, line, strlen(line), &clean) == 0)
        copy = strdup(buf_str(&clean));
    buf_release(&clean);
    return copy;
}

int stage_redact_text(struct redactor *redactor, const char *file, char **text, size_t *len)
{
    struct buf clean;
    buf_init(&clean, GROWTH_MAX * *len + 4096);
    redactor_begin_file(redactor, file);
    int r = redactor_learn(redactor, *text, *len);
    if (r == 0)
        r = redact_text(redactor, *text, *len, &clean);
    redactor_begin_file(redactor, NULL);
    if (r < 0 || clean.data == NULL) {
        buf_release(&clean);
        return r;
    }
    free(*text);
    *text = clean.data;
    *len = clean.len;
    return 0;
}

int stage_redact_facts(struct redactor *redactor, const struct facts *facts,
                       struct facts **ret_clean, struct rc_err *err)
{
    static const char *const ours[] = {"name", "when", "status", "type", NULL};
    struct facts *clean = facts_new();
    cJSON *json = facts_to_json(facts);
    redactor_begin_file(redactor, "facts.json");
    int r = clean == NULL || json == NULL ? -ENOMEM : redactor_learn_json(redactor, json);
    if (r == 0)
        r = redact_json(redactor, json, ours);
    redactor_begin_file(redactor, NULL);
    if (r == 0)
        r = facts_from_json(clean, json, err);
    cJSON_Delete(json);
    if (r == 0)
        *ret_clean = clean;
    else
        facts_free(clean);
    return r;
}

int stage_redact_rows(struct redactor *redactor, struct manifest *manifest, struct cJSON *items)
{
    static const char *const ours[] = {"name", "status", NULL};
    redactor_begin_file(redactor, "manifest.json");
    int r = manifest_redact(manifest, redactor);
    redactor_begin_file(redactor, NULL);
    return r == 0 && items != NULL ? redact_json(redactor, items, ours) : r;
}
