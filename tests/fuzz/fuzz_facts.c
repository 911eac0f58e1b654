/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the facts of a stranger's bundle, judged by our tree and shown. Nothing in them may
 * become markup, a control sequence of a terminal, or another line of ours.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "pieces.h"
#include "report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tree *tree;
static char *summary_template;

static void load_templates(void)
{
    struct rc_err err = {""};
    tree = tree_read(FUZZ_TEMPLATES "/tree.json", &err);
    struct computed *computed = computed_read(FUZZ_TEMPLATES "/computed.json", &err);
    if (tree != NULL)
        tree_take_computed(tree, computed);
    if (tree == NULL || computed == NULL ||
        fs_read_all(FUZZ_TEMPLATES "/summary.md", (size_t)1 << 20, &summary_template) <= 0)
        abort();
}

static void must_be_printable(const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t'))
            abort();
    }
}

/* The template's own tags are the only ones. In code, which begins and ends with a run of
 * backquotes, there are none. */
static void must_be_without_html(const char *text)
{
    static const char *const ours[] = {"details>", "/details>", "summary>", "/summary>", "br>",
                                       "br/>"};
    bool in_code = false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '`' && (in_code || at == text || at[-1] != '\\')) {
            in_code = !in_code;
            at += strspn(at, "`") - 1;
        }
        if (*at != '<' || in_code)
            continue;
        bool known = false;
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
            known = known || strncmp(at + 1, ours[i], strlen(ours[i])) == 0;
        if (!known && (isalpha((unsigned char)at[1]) || at[1] == '/' || at[1] == '!'))
            abort();
    }
}

static void show_page(const char *markdown)
{
    const struct report_style style = {.columns = 80, .colour = true, .line_end = "\n"};
    struct buf page = BUF_INIT;
    report_page(markdown, true, NULL, &style, &page);
    buf_release(&page);
}

static void show(const struct facts *facts, const struct verdict *verdict, const cJSON *items,
                 const char *command)
{
    struct buf summary = BUF_INIT;
    struct buf lines = BUF_INIT;
    const struct report_input in = {.facts = facts,
                                    .verdict = verdict,
                                    .items = items,
                                    .command = command,
                                    .bundle_name = "bundle.tar.gz",
                                    .output = command,
                                    .stacks = command,
                                    .tool_version = "1",
                                    .template_text = summary_template};
    report_summary(&in, &summary);
    report_terminal(&in, "bundle.tar.gz", NULL, &lines);
    must_be_printable(&summary);
    must_be_printable(&lines);
    must_be_without_html(buf_str(&summary));
    show_page(buf_str(&summary));
    for (const char *line = buf_str(&lines); *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, "rocmcrash: ", 11) != 0 || strchr(line, '\n') == NULL)
            abort();
    buf_release(&summary);
    buf_release(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rc_err err = {""};
    struct verdict verdict = {.class_name = NULL};
    struct facts *facts = facts_new();
    if (tree == NULL)
        load_templates();
    char *json_text = pieces_next(&data, &size);
    char *items_text = pieces_next(&data, &size);
    char *command = pieces_next(&data, &size);
    cJSON *json = cJSON_Parse(json_text);
    cJSON *items = cJSON_Parse(items_text);
    if (facts == NULL)
        abort();
    if (json != NULL && facts_from_json(facts, json, &err) >= 0 &&
        diagnose(facts, tree, &verdict, &err) == 0) {
        cJSON_Delete(verdict_to_json(&verdict, facts));
        show(facts, &verdict, items, command);
    }
    verdict_release(&verdict);
    cJSON_Delete(json);
    cJSON_Delete(items);
    facts_free(facts);
    free(json_text);
    free(items_text);
    free(command);
    return 0;
}
