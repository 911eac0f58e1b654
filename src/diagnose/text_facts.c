/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the text-to-facts parsers; see text_facts.h. Used in the finisher and by `triage`.
 */
#include "diagnose/text_facts.h"

#include "diagnose/log_words.h"
#include "diagnose/rules.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Longest text kept of one line: a message, not a log. */
#define SCAN_TEXT_MAX 512

static const char *where(const struct scan *s, unsigned line, char out[160])
{
    (void)snprintf(out, 160, "%.120s line %u", s->source, line);
    return out;
}

void scan_integer_at(const struct scan *s, unsigned line, const char *name, int64_t value)
{
    char source[160];
    (void)facts_set_integer(s->facts, name, FACT_LOG, value, where(s, line, source));
}

void scan_integer(const struct scan *s, const char *name, int64_t value)
{
    scan_integer_at(s, s->line, name, value);
}

void scan_real(const struct scan *s, const char *name, double value)
{
    char source[160];
    (void)facts_set_real(s->facts, name, FACT_LOG, value, where(s, s->line, source));
}

void scan_text_when(const struct scan *s, const char *name, enum fact_when when, struct text value)
{
    char source[160], text[SCAN_TEXT_MAX];
    value = text_trim(value);
    (void)facts_set_text(s->facts, name, when, text_copy(value, text, sizeof text),
                         where(s, s->line, source));
}

void scan_text(const struct scan *s, const char *name, struct text value)
{
    scan_text_when(s, name, FACT_LOG, value);
}

void scan_boolean_at(const struct scan *s, unsigned line, const char *name, bool value)
{
    char source[160];
    (void)facts_set_boolean(s->facts, name, FACT_LOG, value, where(s, line, source));
}

void scan_boolean(const struct scan *s, const char *name, bool value)
{
    scan_boolean_at(s, s->line, name, value);
}

const char *scan_gpu_name(char out[SCAN_NAME_MAX], unsigned index, const char *suffix)
{
    (void)snprintf(out, SCAN_NAME_MAX, "gpu.%u.%s", index, suffix);
    return out;
}

/* A list of the targets that a build has code for: a machine with three different GPUs is rarer. */
static bool lists_targets(struct text line)
{
    struct text rest = line, gfx, last = {"", 0};
    unsigned count = 0;
    for (; scan_gfx(rest, &gfx); last = gfx, rest = text_skip(rest, (size_t)(gfx.at + gfx.len - rest.at)))
        count += !text_same(gfx, last);
    return count >= 3 || (log_words_in(line.at, line.len, LOG_WORDS_BUILT_FOR) & LOG_WORDS_BUILT_FOR) != 0;
}

void scan_gfx_fact(const struct scan *s, struct text line, const char *name)
{
    struct text gfx;
    if (!scan_gfx(line, &gfx))
        return;
    scan_boolean(s, "vendor.amd", true);
    if (name == NULL || lists_targets(line))
        return;
    const struct fact *before = facts_find(s->facts, name, FACT_LOG);
    struct text rest = text_skip(line, (size_t)(gfx.at + gfx.len - line.at)), other;
    if ((before != NULL && !text_equals(gfx, before->text)) || (scan_gfx(rest, &other) && !text_same(other, gfx)))
        scan_boolean(s, "msg.gfx_several", true);
    scan_text(s, name, gfx);
}

void scan_vendor(const struct scan *s, struct text line)
{
    if (rule_is_on(RULE_VENDOR_AMD, line))
        scan_boolean(s, "vendor.amd", true);
    if (rule_is_on(RULE_VENDOR_NVIDIA, line))
        scan_boolean(s, "vendor.nvidia", true);
    scan_gfx_fact(s, line, NULL);
}

bool scan_gfx(struct text in, struct text *ret)
{
    const char *end = in.at + in.len;
    const char *at = in.at;
    for (; at < end && (at = memchr(at, 'g', (size_t)(end - at))) != NULL; at++) {
        struct text name = {at, (size_t)(end - at)};
        if (!text_starts(name, "gfx"))
            continue;
        size_t n = 3;
        while (n < name.len && n < 9 && isxdigit((unsigned char)at[n]))
            n++;
        bool inside = at > in.at && isalnum((unsigned char)at[-1]);
        bool ends = n == name.len || !(isalnum((unsigned char)at[n]) || at[n] == '_');
        if (!inside && ends && n >= 6 && n <= 7 && isdigit((unsigned char)at[3])) {
            *ret = text_first(name, n);
            return true;
        }
    }
    return false;
}

/* "W0601 10:00:00", "I0000 00:00:1750000000": absl and glog; "[rank0]:[W611 10:00:00.1": PyTorch. */
static bool is_logged_below_error(struct text line)
{
    struct text t = line;
    if (text_after(line, "[W", &t) || text_after(line, "[I", &t))
        return t.len > 2 && isdigit((unsigned char)t.at[0]) && isdigit((unsigned char)t.at[1]);
    if (line.len < 6 || (line.at[0] != 'W' && line.at[0] != 'I'))
        return false;
    for (size_t i = 1; i < 5; i++)
        if (!isdigit((unsigned char)line.at[i]))
            return false;
    return line.at[5] == ' ';
}

bool scan_is_warning(struct text line)
{
    return rule_is_on(RULE_WARNING, line) || is_logged_below_error(line);
}
