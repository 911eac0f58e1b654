/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/targets.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/log_words.h"
#include "diagnose/text_facts.h"

/* A machine with three different GPUs is rarer than a list of three targets. */
#define LIST_MIN 3

/* A generic target stands for these (LLVM, AMDGPUUsage). */
static const struct {
    const char *name, *members;
} generic[] = {
    {"gfx9-generic", "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c"},
    {"gfx9-4-generic", "gfx940 gfx941 gfx942 gfx950"},
    {"gfx10-1-generic", "gfx1010 gfx1011 gfx1012 gfx1013"},
    {"gfx10-3-generic", "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036"},
    {"gfx11-generic", "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153"},
    {"gfx12-generic", "gfx1200 gfx1201"},
};

static bool add(struct buf *list, const char *names, size_t len)
{
    char name[128];
    (void)text_copy((struct text){names, len}, name, sizeof name);
    if (strstr(buf_str(list), name) != NULL)
        return false;
    buf_printf(list, "%s%s", list->len > 0 ? " " : "", name);
    return true;
}

static size_t add_generic(struct buf *list, struct text line)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof generic / sizeof generic[0]; i++)
        if (text_has(line, generic[i].name))
            count += add(list, generic[i].members, strlen(generic[i].members));
    return count;
}

/* Adds the targets of the line; returns how many are new. */
static size_t add_targets(struct buf *list, struct text line)
{
    struct text rest = line, gfx;
    size_t count = add_generic(list, line);
    while (scan_gfx(rest, &gfx)) {
        count += add(list, gfx.at, gfx.len);
        rest = text_skip(rest, (size_t)(gfx.at + gfx.len - rest.at));
    }
    return count;
}

/* The line names a list, or a file that holds code for one target, and does not complain. */
static bool is_about_a_build(struct text line)
{
    uint64_t words = log_words_in(line.at, line.len, 0);
    return (words & LOG_WORDS_BUILT_FOR) != 0 && (words & (LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON)) == 0;
}

static bool names_enough(struct text line)
{
    size_t count = 0;
    for (struct text rest = line; text_after(rest, "gfx", &rest);)
        count++;
    return count >= LIST_MIN;
}

bool targets_listed(struct text line)
{
    struct buf list = BUF_INIT;
    if (!names_enough(line) && !is_about_a_build(line))
        return false;
    size_t count = add_targets(&list, line);
    bool listed = count >= LIST_MIN && !buf_failed(&list);
    buf_release(&list);
    return listed || (count > 0 && is_about_a_build(line));
}

void targets_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct text rest = {data, len}, line;
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    struct buf list = BUF_INIT;
    for (unsigned number = 1; text_next_line(&rest, &line); number++) {
        if (memmem(line.at, line.len, "gfx", 3) == NULL || !targets_listed(line))
            continue;
        at.line = at.line > 0 ? at.line : number;
        (void)add_targets(&list, line);
    }
    if (list.len > 0 && !buf_failed(&list))
        scan_text(&at, "msg.built_targets", (struct text){buf_str(&list), list.len});
    buf_release(&list);
}
