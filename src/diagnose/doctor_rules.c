/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/doctor.json -> rules.
 *
 * "gpu.N." and "GPU N" in a rule stand for each GPU in turn. The texts are kept as written and
 * parsed again for each GPU. That costs microseconds and needs no second language.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/doctor_internal.h"
#include "diagnose/tree.h"
#include "diagnose/tree_loader.h"

#define ID_MAX 48

static const char *const severity_names[] = {"note", "warn", "fail"};

const char *doctor_severity_name(enum doctor_severity severity)
{
    return severity_names[severity];
}

/* --- for one GPU --- */

char *doctor_for_gpu(const char *text, int gpu)
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

/* Parses the expression only to find errors, with GPU 0. */
static int read_condition(const struct loader *l, const cJSON *object, const char *key,
                          bool required, char **ret)
{
    int r = loader_text(l, object, key, required, ret);
    if (r < 0 || *ret == NULL)
        return r;
    struct rc_err inner = {""};
    char *text = doctor_for_gpu(*ret, 0);
    struct expr *e = text != NULL ? expr_parse(text, NULL, &inner) : NULL;
    if (text == NULL)
        r = -ENOMEM;
    else if (e == NULL)
        r = loader_wrong_key(l, key, inner.msg);
    expr_free(e);
    free(text);
    return r;
}

static int read_mend(const struct loader *l, const cJSON *object, struct doctor_rule *rule)
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
        if (!cJSON_IsObject(item) || rule->mend_count == DOCTOR_MENDS_MAX)
            return loader_wrong_key(l, "mend", "must be a text or a list of {\"if\", \"say\"}");
        struct doctor_mend *mend = &rule->mend[rule->mend_count++];
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

static int read_severity(const struct loader *l, const cJSON *object, struct doctor_rule *rule)
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

static int read_about(const struct loader *l, const cJSON *object, struct doctor_rule *rule)
{
    const cJSON *about = cJSON_GetObjectItemCaseSensitive(object, "about");
    const char *word = cJSON_GetStringValue(about);
    if (about != NULL && (word == NULL || strcmp(word, "setting") != 0))
        return loader_wrong_key(l, "about", "must be \"setting\"");
    rule->is_setting = about != NULL;
    return 0;
}

static int read_each(const struct loader *l, const cJSON *object, struct doctor_rule *rule)
{
    const cJSON *each = cJSON_GetObjectItemCaseSensitive(object, "each");
    const char *word = cJSON_GetStringValue(each);
    if (each != NULL && (word == NULL || strcmp(word, "gpu") != 0))
        return loader_wrong_key(l, "each", "must be \"gpu\"");
    rule->each_gpu = each != NULL;
    return 0;
}

static int read_rule(struct loader *l, const cJSON *object, struct doctor_rule *rule)
{
    static const char *const keys[] = {"id",   "each",   "severity", "if",     "say",
                                       "mend", "verify", "source",   "unless", "about", NULL};
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
        r = read_about(l, object, rule);
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

static struct doctor_rule *find_rule(const struct doctor_rules *rules, const char *id, size_t len)
{
    for (size_t i = 0; i < rules->count; i++)
        if (strlen(rules->rule[i].id) == len && memcmp(rules->rule[i].id, id, len) == 0)
            return (struct doctor_rule *)(uintptr_t)&rules->rule[i];
    return NULL;
}

/* Ids must be unique, and "unless" may only name earlier rules: those have been asked by then. */
static int check_ids(const struct loader *l, const struct doctor_rules *rules,
                     const struct doctor_rule *rule)
{
    size_t len = strlen(rule->id);
    const struct doctor_rule *first = find_rule(rules, rule->id, len);
    if (len == 0 || len > ID_MAX || (first != NULL && first != rule))
        return loader_wrong_key(l, "id", "must be there once, and not longer than 48 letters");
    for (const char *at = rule->unless; at != NULL && *at != '\0';) {
        at += strspn(at, " ");
        size_t n = strcspn(at, " ");
        const struct doctor_rule *other = find_rule(rules, at, n);
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
        if (!cJSON_IsObject(item) || rules->count == DOCTOR_RULES_MAX)
            return loader_wrong_key(l, "rules", "must be a list of at most 128 rules");
        struct doctor_rule *rule = &rules->rule[rules->count++];
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
        struct doctor_rule *rule = &rules->rule[i];
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
