/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fact that templates/facts.tsv marks as read by people decides nothing, but must be shown: a summary with this fact
 * alone has a row with its name and value.
 */
#include "tree_fixture.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define COLUMNS 7
#define PEOPLE_MIN 100 /* the table was read */

struct row {
    char *column[COLUMNS]; /* name, type, unit, moment, producer, read by, meaning */
};

static bool next_row(char **rest, struct row *row)
{
    char *line = *rest != NULL ? strsep(rest, "\n") : NULL;
    for (size_t i = 0; i < COLUMNS; i++)
        row->column[i] = line != NULL ? strsep(&line, "\t") : NULL;
    return row->column[COLUMNS - 1] != NULL;
}

/* gpu.N.name -> gpu.0.name, env.* -> env.x */
static void one_name(const char *pattern, char out[128])
{
    size_t n = 0;
    for (const char *p = pattern; *p != '\0' && n + 1 < 128; p++) {
        bool number = p[0] == 'N' && p > pattern && p[-1] == '.' && p[1] == '.';
        out[n++] = (char)(number ? '0' : *p == '*' ? 'x' : *p);
    }
    out[n] = '\0';
}

static void set_fact(struct facts *facts, const char *name, const char *type)
{
    int r = strcmp(type, "text") == 0      ? facts_set_text(facts, name, FACT_IMPACT, "seen", "here")
            : strcmp(type, "boolean") == 0 ? facts_set_boolean(facts, name, FACT_IMPACT, true, "here")
                                           : facts_set_integer(facts, name, FACT_IMPACT, 4711, "here");
    assert_int_equal(r, 0);
}

/* Markup's backslashes are no part of a name. */
static void without_backslashes(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++)
        if (*from != '\\')
            *to++ = *from;
    *to = '\0';
}

static bool is_shown(const struct tree *tree, const char *template_text, const char *name, const char *type)
{
    struct facts *facts = facts_new();
    struct verdict verdict;
    struct buf out = BUF_INIT;
    char row[160];
    set_fact(facts, name, type);
    assert_int_equal(diagnose(facts, tree, &verdict, NULL), 0);
    struct report_input in = {.facts = facts, .verdict = &verdict, .command = "./x", .bundle_name = "x",
                              .tool_version = "0", .template_text = template_text};
    report_summary(&in, &out);
    char *text = strdup(buf_str(&out));
    without_backslashes(text);
    (void)snprintf(row, sizeof row, "| %s | ", name);
    const char *at = strstr(text, row);
    bool shown = at != NULL && strncmp(at + strlen(row), "(unknown)", 9) != 0 && at[strlen(row)] != '|';
    free(text);
    buf_release(&out);
    verdict_release(&verdict);
    facts_free(facts);
    return shown;
}

static void each_is_shown(void **state)
{
    struct tree *tree = fixture_tree();
    char *table = fixture_read("templates/facts.tsv"), *summary = fixture_read("templates/summary.md");
    char *rest = table;
    struct row row;
    unsigned people = 0, hidden = 0;
    (void)state;
    while (next_row(&rest, &row)) {
        char name[128];
        if (strcmp(row.column[5], "people") != 0)
            continue;
        people++;
        one_name(row.column[0], name);
        if (!is_shown(tree, summary, name, row.column[1])) {
            print_message("%s has no row in the summary\n", name);
            hidden++;
        }
    }
    print_message("%u facts are for people, %u are not shown\n", people, hidden);
    assert_true(people >= PEOPLE_MIN);
    assert_int_equal(hidden, 0);
    free(table);
    free(summary);
    tree_free(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
