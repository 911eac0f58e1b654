/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text for people from facts, verdict, manifest and series. Pure: never reads a machine. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct facts;
struct verdict;
struct cJSON;

/* One GPU's memory over the run, for the sparkline. The value UINT64_MAX is a gap. */
struct report_series {
    const char *label;      /* "GPU 0000:03:00.0 VRAM used" */
    uint64_t total_bytes;   /* 0 = unknown */
    size_t count;
    const uint64_t *values; /* bytes, equally spaced over the run */
    uint64_t duration_ms;
};

struct report_input {
    const struct facts *facts;
    const struct verdict *verdict;
    const struct cJSON *items; /* manifest rows so far: [{"name","status","reason"}, ...] or NULL */
    const struct report_series *series;
    size_t series_count;
    const char *command;       /* one line, redacted */
    const char *bundle_name;
    const char *tool_version;
    const char *template_text; /* templates/summary.md */
    const char *output;        /* the program's stderr, redacted; NULL = not known */
    const char *stacks;        /* text of rocmcrash-unwind of the process that failed first, or NULL */
    const char *const *files;  /* names of the bundle's files, such as "output/stderr.txt" */
    size_t file_count;
    const struct doctor_report *machine; /* what doctor's rules find about the machine; NULL = not asked */
    size_t fact_rows_max;      /* rows of a table of details; 0 = as many as fit an issue */
};

/* SUMMARY.md: begins with what happened and ends with the details. It fits into the body of a GitHub
 * issue. */
void report_summary(const struct report_input *in, struct buf *out);
/* The looks of lines on a terminal or in a file. */
struct report_style {
    unsigned columns;     /* wrap lines at this width; 0 = do not wrap */
    bool colour;
    bool utf8;            /* the output shows characters beyond ASCII */
    bool keeps_sources;   /* a table that is too wide keeps its last column, and wraps */
    const char *line_end; /* "\r\n" if the terminal is in raw mode */
};

/* The last lines on the terminal, each "rocmcrash: ...": what happened, with figures; why; what to try;
 * how to check that it helped; and the bundle's path, unless that is NULL. `style` NULL: plain lines. */
void report_terminal(const struct report_input *in, const char *bundle_path,
                     const struct report_style *style, struct buf *out);
/* One more such line: "rocmcrash: ", the label, and the text, wrapped. */
void report_terminal_line(const char *label, const char *text, const struct report_style *style,
                          struct buf *out);
/* SUMMARY.md for a terminal, without its markup. Control characters must have been removed. `all`: with
 * the details. `section`: only sections with this word in their heading; NULL = every section. */
void report_page(const char *markdown, bool all, const char *section,
                 const struct report_style *style, struct buf *out);
/* SUMMARY.md with `charts` (text) instead of its sparklines. Without sparklines they go before the advice. */
void report_with_charts(const char *markdown, const char *charts, struct buf *out);
/* The sentence about what happened: "GPU out of memory: 1.58 GiB wanted, ... (gtt-limit, high
 * confidence)". Plain text, not escaped. */
void report_happened(const struct facts *facts, const struct verdict *verdict, struct buf *out);

#endif
