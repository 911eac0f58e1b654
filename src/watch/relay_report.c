/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines in which an engine says at its start how it uses the GPU's memory, kept by the relay
 * process for a run whose output is too long to be kept whole. The matcher has looked at the bytes
 * already: only where it found something is a line looked for, so that other output costs nothing
 * here.
 */
#include "watch/relay_internal.h"

#include <string.h>

#include "base/clock.h"
#include "record/rundir.h"
#include "record/shared.h"

/* A program that prints such words all the time is none that starts: 10 ms of work a second. */
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

/* What lies in the head of the output is there for good. */
static void keep_line(struct carrier *c, const char *line, size_t len)
{
    if (atomic_load(&c->shared->output.head) > OUTPUT_HEAD_BYTES && len <= REPORT_LINE_MAX &&
        is_report(line, len))
        ring_write(&c->shared->report, line, len);
}

/* The rest of a line that began in an earlier chunk; returns how many bytes of `data` it takes. */
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

void report_look(struct carrier *c, const char *data, size_t len)
{
    bool found = c->matcher.count[MATCH_REPORT] != c->reports_seen;
    c->reports_seen = c->matcher.count[MATCH_REPORT];
    size_t at = finish_line(c, data, len);
    const char *last = memrchr(data + at, '\n', len - at);
    size_t whole = last != NULL ? (size_t)(last + 1 - data) : at;
    found = found && may_search(c, len);
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

void report_gap(struct carrier *c)
{
    c->line_len = 0;
    c->line_lost = true;
}
