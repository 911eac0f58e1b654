/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts in words, and sentences with {fact.name} placeholders.
 */
#include "diagnose/tree.h"

#include "base/buf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CITED_MAX 8
#define CITED_DEPTH_MAX 4

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s);
    size_t m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

void fact_format_bytes(double bytes, char *out, size_t size)
{
    double magnitude = bytes < 0 ? -bytes : bytes;
    if (bytes >= 0x1p63) /* a larger figure was cut to this */
        (void)snprintf(out, size, "8 EiB or more");
    else if (magnitude >= 1073741824.0)
        (void)snprintf(out, size, "%.2f GiB", bytes / 1073741824.0);
    else if (magnitude >= 1048576.0)
        (void)snprintf(out, size, "%.1f MiB", bytes / 1048576.0);
    else if (magnitude >= 1024.0)
        (void)snprintf(out, size, "%.1f KiB", bytes / 1024.0);
    else
        (void)snprintf(out, size, "%.0f bytes", bytes);
}

/* With the digits that a rounded figure has: "260 MiB", "1.3 GiB". */
static void format_rough_bytes(double bytes, char *out, size_t size)
{
    if (bytes >= 1073741824.0)
        (void)snprintf(out, size, "%.1f GiB", bytes / 1073741824.0);
    else if (bytes >= 1048576.0)
        (void)snprintf(out, size, "%.0f MiB", bytes / 1048576.0);
    else
        fact_format_bytes(bytes, out, size);
}

/* Units of the sampler's counters, as people say them. */
static bool format_unit(const char *name, double n, char *out, size_t size)
{
    static const struct {
        const char *end;
        double from; /* shown in `unit` from here on */
        double scale;
        int digits;
        const char *unit;
    } units[] = {
        {"_percent", -HUGE_VAL, 1, 1, "%"}, {"_ms", 1000, 1000, 1, "s"},
        {"_ms", -HUGE_VAL, 1, 0, "ms"},     {"_us", 1e6, 1e6, 1, "s"},
        {"_us", 1000, 1000, 1, "ms"},       {"_us", -HUGE_VAL, 1, 0, "us"},
        {"_mC", -HUGE_VAL, 1000, 1, "C"},   {"_uW", -HUGE_VAL, 1e6, 1, "W"},
        {"_Hz", -HUGE_VAL, 1e6, 0, "MHz"},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!ends_with(name, units[i].end) || n < units[i].from)
            continue;
        (void)snprintf(out, size, "%.*f %s", units[i].digits, n / units[i].scale, units[i].unit);
        return true;
    }
    return false;
}

static void format_number(const struct fact *f, char *out, size_t size)
{
    bool integer = f->type == FACT_INTEGER;
    double n = integer ? (double)f->integer : f->real;
    if (ends_with(f->name, "_about_bytes"))
        format_rough_bytes(n, out, size);
    else if (ends_with(f->name, "_bytes"))
        fact_format_bytes(n, out, size);
    else if (ends_with(f->name, "_bytes_per_s")) {
        fact_format_bytes(n, out, size);
        (void)strncat(out, "/s", size - strlen(out) - 1);
    } else if (format_unit(f->name, n, out, size))
        return;
    else if (integer)
        (void)snprintf(out, size, "%" PRId64, f->integer);
    else
        (void)snprintf(out, size, "%.3g", n);
}

void fact_format(const struct fact *f, char *out, size_t size)
{
    if (f == NULL || f->status != FACT_PRESENT) {
        (void)snprintf(out, size, "(unknown)");
        return;
    }
    switch (f->type) {
    case FACT_INTEGER:
    case FACT_REAL:
        format_number(f, out, size);
        return;
    case FACT_BOOLEAN:
        (void)snprintf(out, size, "%s", f->integer != 0 ? "yes" : "no");
        return;
    case FACT_TEXT:
        (void)snprintf(out, size, "%s", f->text != NULL ? f->text : "");
        return;
    }
}

/* If `at` begins with "{name}", copies the name and returns the length with the braces; otherwise 0. */
static size_t placeholder(const char *at, char *name, size_t size)
{
    const char *close = strchr(at, '}');
    size_t len = close != NULL ? (size_t)(close - at) - 1 : 0;
    if (len == 0 || len >= size)
        return 0;
    memcpy(name, at + 1, len);
    name[len] = '\0';
    return len + 2;
}

const char *template_check(const char *text, char *bad, size_t size)
{
    char name[128];
    for (const char *at = text; (at = strchr(at, '{')) != NULL; at++) {
        size_t len = placeholder(at, name, sizeof(name));
        if (len > 0 && fact_name_plausible(name, len - 2) && strpbrk(name, " \t{") == NULL)
            continue;
        (void)snprintf(bad, size, "%.40s", at);
        return at;
    }
    return NULL;
}

struct citations {
    size_t count;
    struct {
        const char *at;
        size_t len;
    } place[CITED_MAX];
};

/* Adds each place once; false: it is no place. */
static bool cite_place(struct citations *c, const char *at, size_t len)
{
    static const char none[] = "no source";
    if (len == 0 || (len == sizeof(none) - 1 && memcmp(at, none, len) == 0))
        return false;
    for (size_t i = 0; i < c->count; i++) {
        if (c->place[i].len == len && memcmp(c->place[i].at, at, len) == 0)
            return true;
    }
    if (c->count < CITED_MAX) {
        c->place[c->count].at = at;
        c->place[c->count++].len = len;
    }
    return true;
}

/* Length of "host.ttm_limit_bytes (/sys/.../pages_limit)" up to the ", " before the next input;
 * *ret_open: where its bracket is, NULL = it has none. */
static size_t input_length(const char *at, const char **ret_open)
{
    size_t len = 0;
    int depth = 0;
    *ret_open = NULL;
    for (; at[len] != '\0' && (depth > 0 || strncmp(at + len, ", ", 2) != 0); len++) {
        if (at[len] == '(' && depth++ == 0 && *ret_open == NULL)
            *ret_open = at + len;
        depth -= at[len] == ')' && depth > 0;
    }
    return len;
}

/* Cites where a number was read, not how it was computed: "computed from a (place), f.b" cites the
 * place of a and those of f.b. */
static bool cite_fact(struct citations *c, const struct facts *facts, const struct fact *f,
                      int depth)
{
    static const char computed[] = "computed from ";
    if (f == NULL || f->status != FACT_PRESENT || f->source == NULL || f->source[0] == '\0')
        return false;
    bool any = false;
    bool is_computed = strncmp(f->source, computed, sizeof(computed) - 1) == 0;
    const char *at = f->source + (is_computed ? sizeof(computed) - 1 : 0);
    while (is_computed && depth < CITED_DEPTH_MAX && *at != '\0') {
        char name[128];
        const char *open = NULL;
        size_t len = input_length(at, &open);
        if (open != NULL && at[len - 1] == ')')
            any |= cite_place(c, open + 1, (size_t)(at + len - 1 - (open + 1)));
        else if (open == NULL && len < sizeof(name)) {
            (void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
            any |= cite_fact(c, facts, facts_best(facts, name), depth + 1);
        }
        at += len + (at[len] == ',' ? 2 : 0);
    }
    if (!any && (!is_computed || depth == 0)) /* also "computed from per-window minima of ..." */
        any = cite_place(c, f->source, strlen(f->source));
    return any;
}

/* The end of the clause "[[ ... ]]" at `at`, after the brackets; NULL if `at` is not a clause. */
static const char *clause_end(const char *at)
{
    const char *end = strncmp(at, "[[", 2) == 0 ? strstr(at, "]]") : NULL;
    return end != NULL ? end + 2 : NULL;
}

/* A clause is printed only if all its facts are known. */
static bool clause_known(const char *at, const char *end, const struct facts *facts)
{
    char name[128];
    for (; (at = strchr(at, '{')) != NULL && at < end; at++) {
        if (placeholder(at, name, sizeof(name)) == 0)
            continue;
        const struct fact *f = facts_best(facts, name);
        if (f == NULL || f->status != FACT_PRESENT)
            return false;
    }
    return true;
}

/* Writes the item at `text` (a placeholder, a bracket of a clause or a character); returns its
 * length. */
static size_t fill_one(struct buf *out, const char *text, const struct facts *facts,
                       struct citations *cited)
{
    char name[128];
    char value[256];
    const char *end = clause_end(text);
    if (end != NULL)
        return clause_known(text, end, facts) ? 2 : (size_t)(end - text);
    if (strncmp(text, "]]", 2) == 0)
        return 2;
    size_t len = *text == '{' ? placeholder(text, name, sizeof(name)) : 0;
    if (len == 0) {
        buf_putc(out, *text);
        return 1;
    }
    const struct fact *f = facts_best(facts, name);
    fact_format(f, value, sizeof(value));
    buf_puts(out, value);
    (void)cite_fact(cited, facts, f, 0);
    return len;
}

static char *with_citations(struct buf *text, const struct citations *cited)
{
    for (size_t i = 0; i < cited->count; i++)
        buf_printf(text, "%s%.*s%s", i == 0 ? " [" : "; ", (int)cited->place[i].len,
                   cited->place[i].at, i + 1 == cited->count ? "]" : "");
    char *result = buf_failed(text) ? NULL : strdup(buf_str(text));
    buf_release(text);
    return result;
}

static void fill(struct buf *out, const char *text, const struct facts *facts,
                 struct citations *cited)
{
    while (*text != '\0')
        text += fill_one(out, text, facts, cited);
}

char *template_fill(const char *text, const struct facts *facts, bool cite)
{
    struct buf out = BUF_INIT;
    struct citations cited = {0};
    fill(&out, text, facts, &cited);
    if (!cite)
        cited.count = 0;
    return with_citations(&out, &cited);
}

char *template_fill_because(const char *text, const struct facts *facts, const struct eval *because)
{
    struct buf out = BUF_INIT;
    struct citations cited = {0};
    fill(&out, text, facts, &cited);
    for (size_t i = 0, own = cited.count; own == 0 && i < because->used_count; i++)
        (void)cite_fact(&cited, facts, because->used[i], 0);
    return with_citations(&out, &cited);
}
