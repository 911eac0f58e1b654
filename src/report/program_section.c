/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's last words and its place: the last Python traceback without the frames of
 * libraries, the lines that the verdict cites, or the last lines; and the native frames of a crash.
 * All of it is the program's text and goes into code blocks.
 */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 200000u
#define LINE_BYTES 800
#define TAIL_LINES 8
#define SHOWN_MAX 40
#define MESSAGE_LINES 4 /* an exception's text may have several lines */
#define FRAMES_MAX 12
#define TRACEBACK "Traceback (most recent call last):"

struct text_line {
    const char *at;
    size_t len;
    bool is_shown;
    bool is_dropped; /* carries no information, so it may be left out */
};

struct text_lines {
    struct text_line *line;
    size_t count;
};

/* If memory is short, the result has no lines. */
static struct text_lines split(const char *text)
{
    struct text_lines lines = {NULL, 0};
    size_t count = 1;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL && count < LINES_MAX; at++)
        count++;
    lines.line = calloc(count, sizeof(*lines.line));
    for (; lines.line != NULL && lines.count < count && *text != '\0'; lines.count++) {
        size_t len = strcspn(text, "\n");
        size_t from = len; /* after the last '\r': a progress bar has overwritten the text before */
        while (from > 0 && text[from - 1] != '\r')
            from--;
        if (from == len && len > 0)
            from = 0; /* "\r\n" */
        lines.line[lines.count] = (struct text_line){text + from, len - from, false, false};
        text += len + (text[len] == '\n');
    }
    return lines;
}

static bool contains(const struct text_line *line, const char *words, size_t *ret_at)
{
    size_t n = strlen(words);
    for (size_t i = 0; i + n <= line->len; i++) {
        if (memcmp(line->at + i, words, n) == 0) {
            *ret_at = i;
            return true;
        }
    }
    return false;
}

static bool is_of_library(const struct text_line *line)
{
    static const char *const places[] = {"site-packages", "dist-packages", "/lib/python", "<frozen"};
    size_t at;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (contains(line, places[i], &at))
            return true;
    }
    return false;
}

/* "    ~^^^^^^^^^" */
static bool is_underline(const struct text_line *line, size_t prefix)
{
    for (size_t i = prefix; i < line->len; i++) {
        if (strchr(" ~^\r", line->at[i]) == NULL)
            return false;
    }
    return true;
}

/* A frame: "  File ...", its source, a line of marks. The innermost one is shown in any case. */
static void mark_frames(struct text_lines *lines, size_t from, size_t to, size_t prefix)
{
    bool library = false;
    size_t last = from;
    size_t at;
    for (size_t i = from; i < to; i++) {
        if (contains(&lines->line[i], "  File \"", &at) && at == prefix) {
            library = is_of_library(&lines->line[i]);
            last = i;
        }
        lines->line[i].is_dropped = is_underline(&lines->line[i], prefix);
        lines->line[i].is_shown = !library;
    }
    for (size_t i = last; i < to; i++)
        lines->line[i].is_shown = true;
}

/* The last traceback, from its first line to the exception's text. `prefix`: "[rank0]: ". */
static bool mark_traceback(struct text_lines *lines)
{
    size_t prefix = 0;
    size_t begin = lines->count;
    for (size_t i = 0; i < lines->count; i++) {
        size_t at;
        if (contains(&lines->line[i], TRACEBACK, &at)) {
            begin = i;
            prefix = at;
        }
    }
    size_t end = begin + 1;
    while (end < lines->count && lines->line[end].len > prefix &&
           strchr(" \t", lines->line[end].at[prefix]) != NULL)
        end++;
    if (begin >= lines->count || end >= lines->count)
        return false;
    lines->line[begin].is_shown = true;
    mark_frames(lines, begin + 1, end, prefix);
    for (size_t i = end; i < lines->count && i < end + MESSAGE_LINES; i++) {
        if (lines->line[i].len <= prefix)
            break;
        lines->line[i].is_shown = true;
    }
    return true;
}

/* "... [stderr line 12]" in the reasons of the verdict. */
static void mark_cited(struct text_lines *lines, const struct verdict_list *list)
{
    static const char words[] = "stderr line ";
    for (size_t i = 0; i < list->count; i++) {
        for (const char *at = list->text[i]; (at = strstr(at, words)) != NULL;) {
            at += sizeof(words) - 1;
            unsigned long number = strtoul(at, NULL, 10);
            if (number > 0 && number <= lines->count)
                lines->line[number - 1].is_shown = true;
        }
    }
}

/* Our own lines are in a file that takes the output of both. */
static bool is_ours(const struct text_line *line)
{
    static const char prefix[] = "rocmcrash: ";
    return line->len >= sizeof(prefix) - 1 && memcmp(line->at, prefix, sizeof(prefix) - 1) == 0;
}

static void mark_tail(struct text_lines *lines)
{
    size_t left = TAIL_LINES;
    for (size_t i = lines->count; i-- > 0 && left > 0;) {
        lines->line[i].is_dropped = is_underline(&lines->line[i], 0) || is_ours(&lines->line[i]);
        if (!lines->line[i].is_dropped) {
            lines->line[i].is_shown = true;
            left--;
        }
    }
}

static void put_line(struct buf *out, const struct text_line *line)
{
    char *text = strndup(line->at, line->len);
    if (text != NULL)
        escape_code(out, text, LINE_BYTES);
    buf_putc(out, '\n');
    free(text);
}

/* Prints the shown lines in order, with "[...]" where lines are left out. If there are too many, the
 * middle is left out. */
static void put_shown(const struct text_lines *lines, struct buf *out)
{
    size_t before = out->len;
    size_t total = 0;
    size_t seen = 0;
    bool gap = false;
    for (size_t i = 0; i < lines->count; i++)
        total += lines->line[i].is_shown;
    for (size_t i = 0; i < lines->count; i++) {
        bool show = lines->line[i].is_shown;
        if (lines->line[i].is_dropped)
            continue;
        seen += show;
        if (show && total > SHOWN_MAX && seen > SHOWN_MAX / 4 &&
            seen <= total - SHOWN_MAX / 4 * 3)
            show = false;
        if (show) {
            if (gap)
                buf_puts(out, "  [...]\n");
            put_line(out, &lines->line[i]);
        }
        gap = !show && (gap || out->len > before);
    }
}

void report_program_said(const struct report_input *in, struct buf *out)
{
    if (in->output == NULL || in->output[0] == '\0')
        return;
    struct text_lines lines = split(in->output);
    if (!mark_traceback(&lines))
        mark_tail(&lines);
    mark_cited(&lines, &in->verdict->why);
    put_shown(&lines, out);
    free(lines.line);
}

/* "  #0   0x0000563a5f267145 in inner+0xc (seg, build-id 037c...)" -> "#0  inner+0xc (seg)" */
static void put_frame(const char *line, size_t len, struct buf *out)
{
    char text[400];
    size_t n = len < sizeof(text) - 1 ? len : sizeof(text) - 1;
    memcpy(text, line, n);
    text[n] = '\0';
    char *number = text + strspn(text, " ");
    char *where = strstr(number, " in ");
    char *build = strstr(number, ", build-id ");
    if (build != NULL)
        memcpy(build, ")", 2);
    if (where == NULL) {
        escape_code(out, number, LINE_BYTES);
    } else {
        number[strcspn(number, " ")] = '\0';
        escape_code(out, number, 8);
        buf_puts(out, "  ");
        escape_code(out, where + 4, LINE_BYTES);
    }
    buf_putc(out, '\n');
}

/* "hang.py:2 in take < hang.py:9 in <module>", a line each */
static void put_standing(const char *stack, struct buf *out)
{
    static const char between[] = " < ";
    while (*stack != '\0') {
        const char *end = strstr(stack, between);
        size_t len = end != NULL ? (size_t)(end - stack) : strlen(stack);
        put_line(out, &(struct text_line){stack, len, true, false});
        stack += len + (end != NULL ? sizeof(between) - 1 : 0);
    }
}

void report_frames(const struct report_input *in, struct buf *out)
{
    const char *signal_name = NULL;
    const char *stack = NULL;
    if (facts_is_present(in->facts, "snap.life")) {
        if (facts_get_text(in->facts, "snap.python_stack", &stack) || facts_get_text(in->facts, "snap.native_stack", &stack))
            put_standing(stack, out);
        return;
    }
    if (in->stacks == NULL || !facts_get_text(in->facts, "target.failed_signal_name", &signal_name))
        return;
    const char *line = strstr(in->stacks, "(faulting)");
    line = line != NULL ? strchr(line, '\n') : NULL;
    for (size_t shown = 0; line != NULL && shown < FRAMES_MAX; shown++) {
        line++;
        size_t len = strcspn(line, "\n");
        if (len == 0 || line[strspn(line, " ")] != '#')
            return;
        put_frame(line, len, out);
        line = strchr(line, '\n');
    }
}
