/* SPDX-License-Identifier: Apache-2.0 */
/* templates/diff.json -> struct diff_rules; errors name file, line and reason. */
#include "diagnose/diff_rules.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/diff.h"
#include "diagnose/tree_loader.h"

#define PATTERNS_MAX 256

bool diff_patterns_hold(const struct diff_patterns *patterns, const char *word)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->pattern[i], word) == 0)
            return true;
    return false;
}

static int read_patterns(const struct loader *l, const cJSON *object, const char *key,
                         bool required, struct diff_patterns *ret)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key);
    const cJSON *item = NULL;
    int count = cJSON_GetArraySize(list);
    if (list == NULL && !required)
        return 0;
    if (!cJSON_IsArray(list) || count == 0 || count > PATTERNS_MAX)
        return loader_wrong_key(l, key, "must be a list of texts");
    ret->pattern = calloc((size_t)count, sizeof *ret->pattern);
    if (ret->pattern == NULL)
        return -ENOMEM;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0')
            return loader_wrong_key(l, key, "must be a list of texts");
        ret->pattern[ret->count] = strdup(item->valuestring);
        if (ret->pattern[ret->count++] == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int read_compare(const struct loader *l, const cJSON *object, struct diff_group *group)
{
    static const char *const names[] = {"value", "said", "names"};
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "compare");
    const char *word = cJSON_GetStringValue(item);
    for (int i = DIFF_VALUE; word != NULL && i <= DIFF_NAMES; i++) {
        if (strcmp(word, names[i]) == 0) {
            group->compare = (enum diff_compare_how)i;
            return 0;
        }
    }
    return item == NULL ? 0 : loader_wrong_key(l, "compare", "must be value, said or names");
}

static int read_absent(const struct loader *l, const cJSON *object, struct diff_group *group)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "absent");
    const char *word = cJSON_GetStringValue(item);
    if (item != NULL && (word == NULL || strcmp(word, "no") != 0))
        return loader_wrong_key(l, "absent", "must be \"no\"");
    group->absent_is_no = item != NULL;
    return 0;
}

static int read_group(struct loader *l, const cJSON *object, struct diff_group *group)
{
    static const char *const keys[] = {"id",      "title",  "why",       "facts",
                                       "compare", "absent", "first_for", NULL};
    int r = loader_text(l, object, "id", true, &group->id);
    if (r < 0)
        return r;
    loader_go_to(l, group->id);
    r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = loader_text(l, object, "title", true, &group->title);
    if (r == 0)
        r = loader_text(l, object, "why", true, &group->why);
    if (r == 0)
        r = read_patterns(l, object, "facts", true, &group->facts);
    if (r == 0)
        r = read_patterns(l, object, "first_for", false, &group->first_for);
    if (r == 0)
        r = read_compare(l, object, group);
    return r == 0 ? read_absent(l, object, group) : r;
}

static int read_amount(const struct loader *l, const cJSON *object, const char *key, double *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (item != NULL && (!cJSON_IsNumber(item) || item->valuedouble < 0))
        return loader_wrong_key(l, key, "must be a number of 0 or more");
    *ret = item != NULL ? item->valuedouble : 0;
    return 0;
}

static int read_tolerance(const struct loader *l, const cJSON *object, struct diff_tolerance *t)
{
    static const char *const keys[] = {"facts", "percent", "units", NULL};
    int r = loader_check_keys(l, object, keys);
    if (r == 0)
        r = read_patterns(l, object, "facts", true, &t->facts);
    if (r == 0)
        r = read_amount(l, object, "percent", &t->percent);
    return r == 0 ? read_amount(l, object, "units", &t->units) : r;
}

static int read_lists(struct loader *l, const cJSON *root, struct diff_rules *rules)
{
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(root, "groups");
    const cJSON *tolerances = cJSON_GetObjectItemCaseSensitive(root, "tolerance");
    const cJSON *item = NULL;
    int r = 0;
    if (!cJSON_IsArray(groups) || cJSON_GetArraySize(groups) > DIFF_GROUPS_MAX)
        return loader_wrong_key(l, "groups", "must be a list of at most 48");
    if (!cJSON_IsArray(tolerances) || cJSON_GetArraySize(tolerances) > DIFF_TOLERANCES_MAX)
        return loader_wrong_key(l, "tolerance", "must be a list of at most 32");
    cJSON_ArrayForEach(item, groups) if (r == 0) r =
        cJSON_IsObject(item) ? read_group(l, item, &rules->group[rules->group_count++])
                             : loader_wrong_key(l, "groups", "must hold objects");
    cJSON_ArrayForEach(item, tolerances) if (r == 0) r =
        cJSON_IsObject(item) ? read_tolerance(l, item, &rules->tolerance[rules->tolerance_count++])
                             : loader_wrong_key(l, "tolerance", "must hold objects");
    return r;
}

struct diff_rules *diff_rules_parse(const char *json, size_t len, const char *file,
                                    struct rc_err *err)
{
    static const char *const keys[] = {"format", "how_to_read", "ignore",
                                       "groups", "tolerance",   NULL};
    char *text = strndup(json, len);
    struct diff_rules *rules = calloc(1, sizeof *rules);
    struct loader l = {.text = text, .near = text, .file = file, .err = err};
    cJSON *root = text != NULL && rules != NULL ? loader_json(&l, strlen(text)) : NULL;
    int r = text == NULL || rules == NULL ? -ENOMEM : root == NULL ? -EINVAL : 0;
    if (r == 0)
        r = loader_check_format(&l, root);
    if (r == 0)
        r = loader_check_keys(&l, root, keys);
    if (r == 0)
        r = read_patterns(&l, root, "ignore", true, &rules->ignore);
    if (r == 0)
        r = read_lists(&l, root, rules);
    if (r == -ENOMEM)
        (void)rc_err_set(err, r, "out of memory while reading '%s'", file);
    cJSON_Delete(root);
    free(text);
    if (r < 0) {
        diff_rules_free(rules);
        return NULL;
    }
    return rules;
}

static void free_patterns(struct diff_patterns *patterns)
{
    for (size_t i = 0; i < patterns->count; i++)
        free(patterns->pattern[i]);
    free(patterns->pattern);
}

void diff_rules_free(struct diff_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->group_count; i++) {
        struct diff_group *group = &rules->group[i];
        free(group->id);
        free(group->title);
        free(group->why);
        free_patterns(&group->facts);
        free_patterns(&group->first_for);
    }
    for (size_t i = 0; i < rules->tolerance_count; i++)
        free_patterns(&rules->tolerance[i].facts);
    free_patterns(&rules->ignore);
    free(rules);
}
