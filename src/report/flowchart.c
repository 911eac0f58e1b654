/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path through the tree as a Mermaid flowchart, which GitHub draws. Questions that were simply
 * answered "no", or were not asked, are drawn as one box. The last ones with numbers, and the verdict, have their own.
 */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/verdict.h"

#include <stdbool.h>
#include <string.h>

#define ALONE_MAX 3
#define LABEL_MAX 240
#define NUMBERS_MAX 400
#define NAMES_MAX 6
#define NODE_MAX 60

static bool has_numbers(const struct verdict_step *s)
{
    return s->numbers != NULL && s->numbers[0] != '\0';
}

/* Chooses the steps that get a box of their own: the last one, and the last few with numbers. */
static void choose_alone(const struct verdict *v, bool alone[VERDICT_STEPS_MAX])
{
    size_t left = ALONE_MAX;
    for (size_t i = v->steps; i-- > 0;) {
        bool is_last = i + 1 == v->steps;
        alone[i] = is_last || (left > 0 && has_numbers(&v->path[i]));
        if (alone[i] && !is_last)
            left--;
    }
}

/* "free 13.1 GiB [place], idle 50.4 GiB [computed]" without the places: the details have those. */
static void put_numbers(const char *numbers, struct buf *out)
{
    struct buf plain = BUF_INIT;
    for (const char *at = numbers; *at != '\0'; at++) {
        const char *end = strncmp(at, " [", 2) == 0 ? strchr(at, ']') : NULL;
        if (end != NULL && (end[1] == ',' || end[1] == '\0'))
            at = end;
        else
            buf_putc(&plain, *at);
    }
    escape_mermaid(out, buf_str(&plain), NUMBERS_MAX);
    buf_release(&plain);
}

static void step_box(const struct verdict_step *s, size_t index, struct buf *out)
{
    buf_printf(out, "  q%zu{{\"", index);
    escape_mermaid(out, s->node, NODE_MAX);
    buf_puts(out, ": ");
    escape_mermaid(out, s->question, LABEL_MAX);
    if (has_numbers(s)) {
        buf_puts(out, "<br/>");
        put_numbers(s->numbers, out);
    }
    buf_puts(out, "\"}}\n");
}

/* "3 undecided: a, b, c"; for many only their number, verdict.json lists them. */
static bool names_with(const struct verdict *v, size_t from, size_t to, const char *answer,
                       bool is_first, struct buf *out)
{
    size_t n = 0;
    struct buf names = BUF_INIT;
    for (size_t i = from; i < to; i++) {
        if (strcmp(v->path[i].answer, answer) != 0)
            continue;
        buf_puts(&names, n++ > 0 ? ", " : "");
        buf_puts(&names, v->path[i].node);
    }
    if (n > 0)
        buf_printf(out, n > NAMES_MAX ? "%s%zu questions: %s" : "%s%zu %s: ",
                   is_first ? "" : "<br/>", n, answer);
    if (n > 0 && n <= NAMES_MAX)
        escape_mermaid(out, buf_str(&names), 400);
    buf_release(&names);
    return n > 0;
}

static void group_box(const struct verdict *v, size_t from, size_t to, struct buf *out)
{
    buf_printf(out, "  q%zu[\"", from);
    bool any = names_with(v, from, to, "no", true, out);
    any |= names_with(v, from, to, "undecided", !any, out);
    (void)names_with(v, from, to, "not asked", !any, out);
    buf_puts(out, "\"]\n");
}

void report_flowchart(const struct verdict *v, struct buf *out)
{
    bool alone[VERDICT_STEPS_MAX] = {false};
    if (v->steps == 0)
        return;
    choose_alone(v, alone);
    buf_puts(out, "flowchart TD\n  facts([\"facts\"])\n");
    struct buf edges = BUF_INIT;
    buf_puts(&edges, "  facts --> q0\n");
    for (size_t i = 0; i < v->steps;) {
        size_t next = i + 1;
        if (alone[i]) {
            step_box(&v->path[i], i, out);
        } else {
            while (next < v->steps && !alone[next])
                next++;
            group_box(v, i, next, out);
        }
        const char *answer = alone[i] ? v->path[i].answer : "";
        if (next < v->steps)
            buf_printf(&edges, answer[0] != '\0' ? "  q%zu -->|%s| q%zu\n" : "  q%zu -->%s q%zu\n",
                       i, answer, next);
        else
            buf_printf(&edges, "  q%zu -->|%s| verdict\n", i, v->path[i].answer);
        i = next;
    }
    buf_puts(out, "  verdict[[\"");
    escape_mermaid(out, v->class_name, 40);
    if (v->subclass != NULL && v->subclass[0] != '\0') {
        buf_puts(out, ": ");
        escape_mermaid(out, v->subclass, 80);
    }
    buf_puts(out, "<br/>");
    escape_mermaid(out, v->confidence, 20);
    buf_puts(out, " confidence\"]]\n");
    buf_append(out, buf_str(&edges), edges.len);
    buf_release(&edges);
}
