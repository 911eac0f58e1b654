/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/diff.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/diff_rules.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#define VALUE_MAX 240
#define ITEMS_MAX 100000

static const char *const when_names[] = {"static", "baseline", "peak", "impact", "after", "log"};

/* "gpu.0.vram.used_bytes@baseline": the text that patterns are matched against. */
static const char *name_at(const struct fact *f, char *out, size_t size)
{
    (void)snprintf(out, size, "%.180s@%s", f->name, when_names[f->when]);
    return out;
}

static bool fits(const struct diff_patterns *patterns, const char *name_at_moment)
{
    char name[200];
    (void)snprintf(name, sizeof name, "%.199s", name_at_moment);
    char *at = strrchr(name, '@');
    if (at != NULL)
        *at = '\0';
    for (size_t i = 0; i < patterns->count; i++) {
        bool moment = strchr(patterns->pattern[i], '@') != NULL;
        if (fnmatch(patterns->pattern[i], moment ? name_at_moment : name, 0) == 0)
            return true;
    }
    return false;
}

static const struct diff_group *group_of(const struct diff_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->group_count; i++)
        if (fits(&rules->group[i].facts, name))
            return &rules->group[i];
    return NULL;
}

/* --- are two values the same? --- */

static bool number_of(const struct fact *f, double *ret)
{
    *ret = f->type == FACT_REAL ? f->real : (double)f->integer;
    return f->type != FACT_TEXT;
}

static bool numbers_agree(const struct diff_rules *rules, const char *name, double a, double b)
{
    double difference = fabs(a - b);
    for (size_t i = 0; i < rules->tolerance_count; i++) {
        const struct diff_tolerance *t = &rules->tolerance[i];
        if (fits(&t->facts, name))
            return difference <= t->units ||
                   difference <= t->percent / 100 * fmax(fabs(a), fabs(b));
    }
    return difference == 0;
}

/* A sequence of digits, also a hexadecimal one after "0x", is one number: numbers differ from run
 * to run. */
static bool next_letter(const char **at, char *ret)
{
    const char *p = *at;
    if (*p == '\0')
        return false;
    if (!isdigit((unsigned char)*p)) {
        *ret = *p;
        *at = p + 1;
        return true;
    }
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
        p += 2 + strspn(p + 2, "0123456789abcdefABCDEF");
    else
        p += strspn(p, "0123456789.");
    *ret = '#';
    *at = p;
    return true;
}

static bool texts_agree_but_for_numbers(const char *a, const char *b)
{
    char x = 0;
    char y = 0;
    while (next_letter(&a, &x))
        if (!next_letter(&b, &y) || x != y)
            return false;
    return *b == '\0';
}

/* "<user1>": a pseudonym, numbered anew in each bundle. Returns its length up to the number, 0 =
 * none. */
static size_t pseudonym_kind(const char *at, size_t *ret_len)
{
    size_t kind = at[0] == '<' ? 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz-") : 0;
    size_t digits = kind > 1 ? strspn(at + kind, "0123456789") : 0;
    if (digits == 0 || at[kind + digits] != '>')
        return 0;
    *ret_len = kind + digits + 1;
    return kind;
}

static bool texts_agree(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t a_len = 1;
        size_t b_len = 1;
        size_t kind = pseudonym_kind(a, &a_len);
        bool same =
            kind > 0 ? pseudonym_kind(b, &b_len) == kind && memcmp(a, b, kind) == 0 : *a == *b;
        if (!same)
            return false;
        a += a_len;
        b += b_len;
    }
    return *a == *b;
}

static bool has_pseudonym(const struct fact *f)
{
    size_t len = 0;
    for (const char *at = f->type == FACT_TEXT ? f->text : ""; *at != '\0'; at++)
        if (pseudonym_kind(at, &len) > 0)
            return true;
    return false;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static bool values_agree(const struct diff_rules *rules, const struct diff_group *group,
                         const char *name, const struct fact *a, const struct fact *b)
{
    double x = 0;
    double y = 0;
    if (number_of(a, &x) && number_of(b, &y))
        return group->compare == DIFF_SAID ? (x != 0) == (y != 0)
                                           : numbers_agree(rules, name, x, y);
    if (a->type != FACT_TEXT || b->type != FACT_TEXT)
        return false;
    if (group->compare == DIFF_SAID)
        return texts_agree_but_for_numbers(a->text, b->text);
    if (group->compare == DIFF_NAMES)
        return texts_agree(base_name(a->text), base_name(b->text));
    return texts_agree(a->text, b->text);
}

static bool facts_same(const struct fact *a, const struct fact *b)
{
    double x = 0;
    double y = 0;
    if (number_of(a, &x) && number_of(b, &y))
        return x == y;
    return a->type == b->type && strcmp(a->text, b->text) == 0;
}

/* --- the list --- */

struct comparison {
    const struct diff_side *a, *b;
    const struct diff_rules *rules;
    struct diff_result *result;
};

/* A message was not printed if its log was read and lacks it. */
static bool log_was_read(const struct facts *facts, const char *name)
{
    int64_t read = 0;
    const char *log = strncmp(name, "kmsg.", 5) == 0 ? "f.kernel_log_read" : "f.output_read";
    return facts_get_integer(facts, log, &read) && read != 0;
}

/* A variable that is not in the environment is not set. Any other missing fact is not known, unless
 * its status says that there is no such thing. NULL = not known. */
static const char *missing_words(const struct diff_group *group, const char *name,
                                 const struct fact *f, const struct facts *facts)
{
    const struct fact *best = facts_best(facts, name);
    if (best != NULL && best->status == FACT_PRESENT)
        return NULL; /* it has a value at another moment */
    if (f != NULL && f->status == FACT_ABSENT && f->reason != NULL &&
        strcmp(f->reason, "unlimited") == 0)
        return "unlimited";
    if (f != NULL)
        return f->status == FACT_ABSENT ? "(none)" : NULL;
    if (group->compare == DIFF_SAID && log_was_read(facts, name))
        return "(not said)";
    return group->absent_is_no ? "(not set)" : NULL;
}

static char *value_words(const struct fact *f, const char *missing)
{
    char text[VALUE_MAX];
    if (f == NULL || f->status != FACT_PRESENT)
        return strdup(missing != NULL ? missing : "(not known)");
    fact_format(f, text, sizeof text);
    return strdup(text);
}

/* The rank of the group for these two outcomes: a group that can explain the difference comes
 * first.
 */
static size_t rank_of(const struct comparison *c, const struct diff_group *group)
{
    size_t place = (size_t)(group - c->rules->group);
    bool first =
        c->result->outcome_differs && (diff_patterns_hold(&group->first_for, c->a->class_name) ||
                                       diff_patterns_hold(&group->first_for, c->b->class_name));
    return first ? place : place + c->rules->group_count;
}

static int add(struct comparison *c, const struct diff_group *group, const char *name,
               const struct fact *a, const struct fact *b)
{
    struct diff_result *result = c->result;
    if (result->count == result->capacity) {
        size_t capacity = result->capacity > 0 ? result->capacity * 2 : 64;
        struct diff_item *items =
            capacity <= ITEMS_MAX ? realloc(result->items, capacity * sizeof *items) : NULL;
        if (items == NULL)
            return -ENOMEM;
        result->items = items;
        result->capacity = capacity;
    }
    struct diff_item *item = &result->items[result->count++];
    const char *no_a = missing_words(group, name, a, c->a->facts);
    const char *no_b = missing_words(group, name, b, c->b->facts);
    bool known_a = no_a != NULL || (a != NULL && a->status == FACT_PRESENT);
    bool known_b = no_b != NULL || (b != NULL && b->status == FACT_PRESENT);
    *item = (struct diff_item){.group = group->id,
                               .title = group->title,
                               .why = group->why,
                               .name = strdup(name),
                               .a = value_words(a, no_a),
                               .b = value_words(b, no_b),
                               .both_known = known_a && known_b,
                               .rank = rank_of(c, group)};
    return item->name != NULL && item->a != NULL && item->b != NULL ? 0 : -ENOMEM;
}

/* Two bundles may use one pseudonym for two names. */
static void note_renamed(struct diff_result *result, const struct fact *f)
{
    if (result->renamed++ < RENAMED_SHOWN)
        buf_printf(&result->renamed_names, "%s%s", result->renamed > 1 ? ", " : "", f->name);
}

/* A fact of one side and the value of the other; `a_first` = the fact is from side A. */
static int compare_one(struct comparison *c, const struct fact *f, bool a_first)
{
    char name[200];
    const struct diff_side *other_side = a_first ? c->b : c->a;
    const struct fact *other = facts_find(other_side->facts, f->name, f->when);
    bool present = f->status == FACT_PRESENT;
    bool other_present = other != NULL && other->status == FACT_PRESENT;
    if (!present || (!a_first && other_present))
        return 0; /* nothing to show, or already found from the other side */
    (void)name_at(f, name, sizeof name);
    bool noise = fits(&c->rules->ignore, name);
    const struct diff_group *group = noise ? NULL : group_of(c->rules, name);
    if (group != NULL)
        c->result->compared++;
    bool zero = f->type != FACT_TEXT && f->integer == 0 && f->real == 0;
    bool same = other_present && (group == NULL ? facts_same(f, other)
                                                : values_agree(c->rules, group, name, f, other));
    same = same || (!other_present && zero && (group == NULL || group->compare == DIFF_SAID));
    if (group == NULL) {
        c->result->ignored += noise && !same;
        return 0;
    }
    if (same && a_first && has_pseudonym(f))
        note_renamed(c->result, f);
    return same ? 0 : add(c, group, f->name, a_first ? f : other, a_first ? other : f);
}

static int compare_items(const void *x, const void *y)
{
    const struct diff_item *a = x;
    const struct diff_item *b = y;
    if (a->both_known != b->both_known)
        return a->both_known ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The same fact at several moments is one difference: keep the first moment. */
static void drop_repetitions(struct diff_result *result)
{
    size_t kept = 0;
    for (size_t i = 0; i < result->count; i++) {
        struct diff_item *item = &result->items[i];
        const struct diff_item *last = kept > 0 ? &result->items[kept - 1] : NULL;
        if (last != NULL && strcmp(last->name, item->name) == 0 &&
            last->both_known == item->both_known) {
            free(item->name);
            free(item->a);
            free(item->b);
            continue;
        }
        result->items[kept++] = *item;
    }
    result->count = kept;
}

int diff_compare(const struct diff_side *a, const struct diff_side *b,
                 const struct diff_rules *rules, struct diff_result *ret, struct rc_err *err)
{
    struct comparison c = {.a = a, .b = b, .rules = rules, .result = ret};
    int r = 0;
    *ret = (struct diff_result){.outcome_differs = strcmp(a->class_name, b->class_name) != 0};
    for (size_t i = 0; r == 0 && i < facts_count(a->facts); i++)
        r = compare_one(&c, facts_at(a->facts, i), true);
    for (size_t i = 0; r == 0 && i < facts_count(b->facts); i++)
        r = compare_one(&c, facts_at(b->facts, i), false);
    if (r < 0)
        return rc_err_errno(err, r, "cannot compare the bundles");
    if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_items);
    drop_repetitions(ret);
    while (ret->different < ret->count && ret->items[ret->different].both_known)
        ret->different++;
    return 0;
}

void diff_release(struct diff_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        free(result->items[i].name);
        free(result->items[i].a);
        free(result->items[i].b);
    }
    free(result->items);
    buf_release(&result->renamed_names);
    *result = (struct diff_result){.count = 0};
}

struct cJSON *diff_to_json(const struct diff_result *result, size_t from, size_t to)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;
    for (size_t i = from; ok && i < to; i++) {
        const struct diff_item *item = &result->items[i];
        cJSON *o = cJSON_CreateObject();
        ok = cJSON_AddNumberToObject(o, "rank", (double)(i - from) + 1) != NULL &&
             cJSON_AddStringToObject(o, "group", item->group) != NULL &&
             cJSON_AddStringToObject(o, "name", item->name) != NULL &&
             cJSON_AddStringToObject(o, "a", item->a) != NULL &&
             cJSON_AddStringToObject(o, "b", item->b) != NULL &&
             cJSON_AddStringToObject(o, "why", item->why) != NULL && cJSON_AddItemToArray(list, o);
        if (!ok)
            cJSON_Delete(o);
    }
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}
