/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `diff A B`: what differs between two bundles, the likely causes first. Both may be strangers':
 * they are read as triage reads them, and nothing of this machine goes in.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/assets.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/verbs.h"
#include "diagnose/diff.h"
#include "diagnose/fact.h"

#define TEXT_MAX ((size_t)16 << 20)
#define ARGUMENTS_MAX 512
#define PACKAGES_MAX 4000
#define NAME_WIDTH 36

/* As diff(1) has them. */
enum diff_exit { DIFF_SAME = 0, DIFF_DIFFERS = 1, DIFF_TROUBLE = 2 };

struct diff_line {
    bool json, all, help;
    const char *order;
};

static const struct option_def option_table[] = {
    {"json", 0, NULL, "print the outcome and the differences as JSON",
     option_on, offsetof(struct diff_line, json)},
    {"all", 'a', NULL, "also list what only one of the two bundles knows",
     option_on, offsetof(struct diff_line, all)},
    {"order", 0, "FILE", "groups and tolerances of one's own instead of templates/diff.json",
     option_text, offsetof(struct diff_line, order)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct diff_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text(
        "Usage: rocmcrash diff [OPTIONS] A B\n\n"
        "Compares two bundles: GPU, limits, options, command, versions, what others held,\n"
        "the memory over time, what was said. What most likely explains another outcome\n"
        "comes first; pids, times and addresses are left out.\n\nOptions:\n");
    options_help(option_table);
    help_text("\nExit status: 0 nothing differs, 1 something differs, 2 trouble.\n");
}

/* --- one bundle --- */

struct side {
    const char *path;
    struct facts *facts;
    cJSON *verdict;
};

static const char *verdict_text(const struct side *side, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(side->verdict, key));
    return text != NULL ? text : "";
}

static cJSON *read_json(const char *path, const char *name, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = bundle_read_file(path, name, TEXT_MAX, &text, err);
    cJSON *json = len >= 0 ? cJSON_ParseWithLength(text, (size_t)len) : NULL;
    if (len >= 0 && json == NULL)
        (void)rc_err_set(err, -EBADMSG, "its %s is not JSON", name);
    return json;
}

static void put_argument(struct facts *facts, const char *name, const char *value)
{
    char fact[160];
    (void)snprintf(fact, sizeof fact, "run.argument.%.140s", name);
    (void)facts_set_text(facts, fact, FACT_STATIC, value, "run.json");
}

/* "--batch=8", "--batch 8" and "-b 8" by their names, so that one more does not move the rest; what
 * has no name by its place. */
static void add_arguments(struct facts *facts, const cJSON *argv)
{
    const cJSON *item = argv != NULL ? argv->child : NULL;
    unsigned place = 0;
    for (int i = 0; item != NULL && i < ARGUMENTS_MAX; i++, item = item->next) {
        const char *word = cJSON_GetStringValue(item);
        const char *next = item->next != NULL ? cJSON_GetStringValue(item->next) : NULL;
        const char *equals = word != NULL ? strchr(word, '=') : NULL;
        char name[140];
        if (word == NULL)
            continue;
        if (word[0] != '-' || word[1] == '\0') {
            (void)snprintf(name, sizeof name, "%u", place++);
            put_argument(facts, name, word);
        } else if (equals != NULL) {
            (void)snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
            put_argument(facts, name, equals + 1);
        } else if (next != NULL && next[0] != '-' && strstr(next, ".py") == NULL) {
            put_argument(facts, word, next);
            item = item->next;
        } else {
            put_argument(facts, word, "set");
        }
    }
}

/* requirements.txt: "numpy==1.26.4" */
static void add_packages(struct facts *facts, const char *text)
{
    for (int i = 0; *text != '\0' && i < PACKAGES_MAX; i++) {
        size_t len = strcspn(text, "\n");
        const char *equals = memmem(text, len, "==", 2);
        if (equals != NULL) {
            char name[140];
            char version[80];
            (void)snprintf(name, sizeof name, "package.%.*s", (int)(equals - text), text);
            (void)snprintf(version, sizeof version, "%.*s", (int)(text + len - equals - 2),
                           equals + 2);
            (void)facts_set_text(facts, name, FACT_STATIC, version, "requirements.txt");
        }
        text += len + (text[len] == '\n');
    }
}

/* A bundle without one of these says less; it is no trouble. */
static void read_rest(struct side *side)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *csv = NULL;
    RC_AUTO_FREE char *packages = NULL;
    cJSON *run = read_json(side->path, "run/run.json", &err);
    add_arguments(side->facts, cJSON_GetObjectItemCaseSensitive(run, "argv"));
    cJSON_Delete(run);
    ssize_t len = bundle_read_file(side->path, "telemetry/telemetry.csv", TEXT_MAX, &csv, &err);
    if (len > 0)
        (void)diff_curve_facts(side->facts, csv, (size_t)len);
    len = bundle_read_file(side->path, "python/requirements.txt", TEXT_MAX, &packages, &err);
    if (len > 0)
        add_packages(side->facts, packages);
}

static int read_side(struct side *side, const char *path, struct rc_err *err)
{
    side->path = path;
    side->facts = facts_new();
    cJSON *document = read_json(path, "facts.json", err);
    if (side->facts == NULL || document == NULL) {
        cJSON_Delete(document);
        return -EIO;
    }
    int r = facts_from_json(side->facts, document, err);
    cJSON_Delete(document);
    if (r == 0) {
        side->verdict = read_json(path, "verdict.json", err);
        read_rest(side);
    }
    return r == 0 && side->verdict == NULL ? -EIO : r;
}

static void release_side(struct side *side)
{
    facts_free(side->facts);
    cJSON_Delete(side->verdict);
}

/* --- in words --- */

static void put_outcome(struct buf *out, char letter, const struct side *side)
{
    const char *subclass = verdict_text(side, "subclass");
    buf_printf(out, "%c  ", letter);
    say_word(out, side->path);
    buf_puts(out, "\n   ");
    say_word(out, verdict_text(side, "class"));
    if (subclass[0] != '\0') {
        buf_puts(out, " (");
        say_word(out, subclass);
        buf_putc(out, ')');
    }
    buf_puts(out, ", ");
    say_word(out, verdict_text(side, "confidence"));
    buf_puts(out, ": ");
    say_word(out, verdict_text(side, "sentence"));
    buf_putc(out, '\n');
}

static void put_items(struct buf *out, const struct diff_result *result, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct diff_item *item = &result->items[i];
        if (i == from || strcmp(result->items[i - 1].group, item->group) != 0)
            buf_printf(out, "%s (%s)\n", item->title, item->why);
        buf_puts(out, "   ");
        size_t start = out->len;
        say_word(out, item->name);
        for (size_t n = out->len - start; n < NAME_WIDTH; n++)
            buf_putc(out, ' ');
        buf_puts(out, " A ");
        say_word(out, item->a);
        buf_puts(out, "  |  B ");
        say_word(out, item->b);
        buf_putc(out, '\n');
    }
}

static void put_renamed(struct buf *out, const struct diff_result *result)
{
    if (result->renamed == 0)
        return;
    buf_puts(out, "not compared (each bundle numbers its pseudonyms on its own: <project1> of A and of B may be two names)\n   ");
    say_word(out, buf_str(&result->renamed_names));
    if (result->renamed > RENAMED_SHOWN)
        buf_printf(out, " and %zu more", result->renamed - RENAMED_SHOWN);
    buf_putc(out, '\n');
}

static int print_words(const struct side side[2], const struct diff_result *result, bool all)
{
    struct buf out = BUF_INIT;
    size_t unknown = result->count - result->different;
    put_outcome(&out, 'A', &side[0]);
    put_outcome(&out, 'B', &side[1]);
    put_items(&out, result, 0, result->different);
    if (all && unknown > 0) {
        buf_puts(&out, "known to one of them only:\n");
        put_items(&out, result, result->different, result->count);
    }
    put_renamed(&out, result);
    buf_printf(&out, "rocmcrash: %s; %zu of %zu facts differ; %zu more differ between any two runs",
               result->outcome_differs ? "another outcome" : "the same outcome", result->different,
               result->compared, result->ignored);
    if (unknown > 0)
        buf_printf(&out, ", %zu are known to one bundle only%s", unknown,
                   all ? "" : " (--all lists them)");
    buf_putc(&out, '\n');
    bool ok = !buf_failed(&out) && say_text(stdout, buf_str(&out)) == 0 && fflush(stdout) == 0;
    buf_release(&out);
    return ok ? 0 : -EIO;
}

/* --- as JSON --- */

static void add_outcome(cJSON *outcome, const char *key, const struct side *side)
{
    static const char *const keys[] = {"class", "subclass", "confidence", "vendor", "sentence"};
    cJSON *o = cJSON_AddObjectToObject(outcome, key);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        (void)cJSON_AddStringToObject(o, keys[i], verdict_text(side, keys[i]));
}

static int print_json(const struct side side[2], const struct diff_result *result)
{
    cJSON *root = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(root, "format", 1);
    (void)cJSON_AddBoolToObject(root, "same", result->different == 0 && !result->outcome_differs);
    cJSON *outcome = cJSON_AddObjectToObject(root, "outcome");
    (void)cJSON_AddBoolToObject(outcome, "differs", result->outcome_differs);
    add_outcome(outcome, "a", &side[0]);
    add_outcome(outcome, "b", &side[1]);
    cJSON *lists[] = {diff_to_json(result, 0, result->different),
                      diff_to_json(result, result->different, result->count)};
    bool ok = root != NULL && lists[0] != NULL && lists[1] != NULL &&
              cJSON_AddItemToObject(root, "differences", lists[0]) &&
              cJSON_AddItemToObject(root, "known_to_one_only", lists[1]) &&
              cJSON_AddNumberToObject(root, "compared", (double)result->compared) != NULL &&
              cJSON_AddNumberToObject(root, "left_out", (double)result->ignored) != NULL &&
              cJSON_AddNumberToObject(root, "pseudonyms", (double)result->renamed) != NULL;
    if (!ok) {
        cJSON_Delete(root);
        root = NULL;
    }
    return json_print(root, JSON_PAGES);
}

/* --- */

static struct diff_rules *read_order(const char *own, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = asset_or_file(own, "diff.json", &text, err);
    return len < 0 ? NULL
                   : diff_rules_parse(text, (size_t)len, own != NULL ? own : "diff.json", err);
}

static int compare(const struct diff_line *line, struct side side[2],
                   const struct diff_rules *rules, bool *ret_same, struct rc_err *err)
{
    struct diff_result result = {.count = 0};
    struct diff_side a = {side[0].facts, verdict_text(&side[0], "class")};
    struct diff_side b = {side[1].facts, verdict_text(&side[1], "class")};
    int r = diff_compare(&a, &b, rules, &result, err);
    if (r == 0)
        r = line->json ? print_json(side, &result) : print_words(side, &result, line->all);
    *ret_same = result.different == 0 && !result.outcome_differs;
    diff_release(&result);
    return r;
}

int verb_diff(int argc, char *argv[])
{
    struct diff_line line = {.json = false};
    struct rc_err err = {""};
    struct side side[2] = {{.path = NULL}};
    bool same = false;
    int at = options_parse_around(option_table, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        print_help();
        return DIFF_SAME;
    }
    if (at < 0 || argc - at != 2) {
        (void)say_line(stderr, "rocmcrash: %s",
                      at < 0 ? err.msg : "diff compares two bundles; usage: rocmcrash diff [OPTIONS] A B");
        return DIFF_TROUBLE;
    }
    struct diff_rules *rules = read_order(line.order, &err);
    int r = rules == NULL ? -EINVAL : 0;
    const char *subject = NULL;
    for (int i = 0; r == 0 && i < 2; i++)
        r = read_side(&side[i], subject = argv[at + i], &err);
    if (r == 0)
        r = compare(&line, side, rules, &same, &err);
    if (r < 0)
        verb_complain(subject, &err);
    for (int i = 0; r == 0 && i < 2; i++)
        verb_tell_damage(side[i].path);
    release_side(&side[0]);
    release_side(&side[1]);
    diff_rules_free(rules);
    return r < 0 ? DIFF_TROUBLE : (same ? DIFF_SAME : DIFF_DIFFERS);
}
