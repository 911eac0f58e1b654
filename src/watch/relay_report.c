/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the lines in which an engine reports at its start how it uses the GPU's memory, in the relay
 * process. They would be lost when the output is too long to be kept whole. For a stdout with its own
 * relay, only these lines and those about failures are kept. The matcher has seen the bytes before:
 * lines are searched for only in a chunk with a match, so other output costs nothing here.
 */
#include "watch/relay_internal.h"

#include <string.h>

#include "base/clock.h"
#include "record/rundir.h"
#include "record/shared.h"

/* A program that prints such words all the time is past its start. The limit bounds the work to 10 ms
 * per second. */
#define WINDOW_NS 1000000000u
#define WINDOW_BYTES (512u << 10)

static bool is_report(const char *line, size_t len)
{
    for (size_t i = 0; i < match_pattern_count; i++)
        if (match_patterns[i].kind == MATCH_REPORT &&
            memmem(line, len, match_patterns[i].text, strlen(match_patterns[i].text)) != NULL)
            return true;
    return false;
}

static void keep_line_of_stdout(struct shared *s, const char *line, size_t len)
{
    uint32_t used = atomic_load(&s->stdout_head_used);
    if (atomic_load(&s->stdout_lines.head) > 0 || len > sizeof s->stdout_head - used) {
        ring_write(&s->stdout_lines, line, len);
        return;
    }
    memcpy(s->stdout_head + used, line, len);
    atomic_store(&s->stdout_head_used, used + (uint32_t)len);
}

/* A line within the head of the output needs no copy: the head is kept anyway. */
static void keep_line(struct carrier *c, const char *line, size_t len)
{
    if (len > REPORT_LINE_MAX)
        return;
    if (c->lines_only && match_line(line, len))
        keep_line_of_stdout(c->shared, line, len);
    else if (!c->lines_only && atomic_load(&c->shared->output.head) > OUTPUT_HEAD_BYTES &&
             is_report(line, len))
        ring_write(&c->shared->report, line, len);
}

/* Completes a line that began in an earlier chunk. Returns how many bytes of `data` belong to it. */
static size_t finish_line(struct carrier *c, const char *data, size_t len)
{
    if (c->line_len == 0 && !c->line_lost)
        return 0;
    const char *end = memchr(data, '\n', len);
    size_t part = end != NULL ? (size_t)(end + 1 - data) : len;
    if (part > sizeof c->line - c->line_len)
        c->line_lost = true;
    if (!c->line_lost) {
        memcpy(c->line + c->line_len, data, part);
        c->line_len += part;
    }
    if (end == NULL)
        return part;
    if (!c->line_lost)
        keep_line(c, c->line, c->line_len);
    c->line_len = 0;
    c->line_lost = false;
    return part;
}

static bool may_search(struct carrier *c, size_t len)
{
    uint64_t now_ns = clock_mono_ns();
    if (now_ns - c->report_window_ns >= WINDOW_NS) {
        c->report_window_ns = now_ns;
        c->report_window_bytes = 0;
    }
    c->report_window_bytes += len;
    return c->report_window_bytes <= WINDOW_BYTES;
}

/* Counts the matches in lines that are kept. */
static uint64_t lines_seen(const struct carrier *c)
{
    uint64_t seen = c->matcher.count[MATCH_REPORT];
    for (int kind = 0; c->lines_only && kind < MATCH_PLAIN; kind++)
        seen += c->matcher.count[kind];
    return seen;
}

void report_look(struct carrier *c, const char *data, size_t len)
{
    uint64_t seen = lines_seen(c);
    bool found = seen != c->reports_seen;
    c->reports_seen = seen;
    size_t at = finish_line(c, data, len);
    const char *last = memrchr(data + at, '\n', len - at);
    size_t whole = last != NULL ? (size_t)(last + 1 - data) : at;
    /* match_line() is as fast as the matcher, so it needs no limit; is_report() is slower. */
    found = found && (c->lines_only || may_search(c, len));
    while (found && at < whole) {
        size_t line = (size_t)((const char *)memchr(data + at, '\n', whole - at) + 1 - (data + at));
        keep_line(c, data + at, line);
        at += line;
    }
    size_t rest = len - whole;
    c->line_lost = c->line_lost || rest > sizeof c->line;
    if (rest > 0 && !c->line_lost)
        memcpy(c->line + c->line_len, data + whole, rest);
    c->line_len += c->line_lost ? 0 : rest;
}

/* The last line may have no newline. */
void report_end(struct carrier *c)
{
    if (c->line_len > 0 && c->line_len < sizeof c->line && !c->line_lost)
        (void)finish_line(c, "\n", 1);
}

void report_gap(struct carrier *c)
{
    c->line_len = 0;
    c->line_lost = true;
}
