/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series of memory readings that a program prints about itself.
 *
 * Pure; one line at a time. If the reading does not fall after a line that says "releasing", memory
 * is not freed. If it falls, memory is freed.
 */
#include "diagnose/log_words.h"
#include "diagnose/messages.h"

#include <string.h>

/* "Used: 73012MB", "Total(LOC -  6.48%):    16368MB", "free = 1.2 GiB" */
static bool labelled_size(struct text line, const char *label, int64_t *ret)
{
    for (struct text t = line; t.len > 0;) {
        ptrdiff_t at = text_ifind(t, label);
        if (at < 0)
            return false;
        t = text_skip(t, (size_t)at + strlen(label));
        struct text value = t;
        if (text_starts(value, "("))
            value = text_skip(t, text_until(t, ")").len + 1);
        size_t n = 0;
        while (n < value.len && n < 12 && strchr(" \t:=|", value.at[n]) != NULL)
            n++;
        value = text_skip(value, n);
        if (n > 0 && text_take_size(&value, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, ret) &&
            *ret >= 0)
            return true;
    }
    return false;
}

/* GPU memory usage -- Total: 196048MB, Used: 73012MB, Free: 123036MB */
void usage_line(const struct scan *s, struct usage_state *st, const struct line_words *words)
{
    const struct text line = words->text;
    int64_t used, total, free_bytes;
    bool maybe = text_has(line, "sed") || text_has(line, "SED"); /* a cheap test that most lines fail */
    bool has_used = maybe && labelled_size(line, "used", &used);
    bool has_total = has_used && labelled_size(line, "total", &total);
    bool has_free = has_used && labelled_size(line, "free", &free_bytes);
    if (!has_total && !has_free) {
        /* memory freed before the first reading cannot be seen */
        if (st->readings > 0 && !st->release)
            st->release = line_says(words, LOG_WORDS_RELEASE);
        return;
    }
    if (st->readings > 0 && used < st->used)
        st->given_back++;
    else if (st->readings > 0 && st->release && used > 0)
        st->kept++;
    if (st->readings++ == 0)
        st->line = s->line;
    st->release = false;
    st->used = used;
    if (has_total)
        st->total = total;
}

void usage_emit(const struct scan *s, const struct usage_state *st)
{
    if (st->readings == 0)
        return;
    scan_integer_at(s, st->line, "msg.usage_readings", st->readings);
    scan_integer_at(s, st->line, "msg.usage_used_bytes", st->used);
    if (st->total > 0)
        scan_integer_at(s, st->line, "msg.usage_total_bytes", st->total);
    if (st->kept > 0)
        scan_integer_at(s, st->line, "msg.usage_kept", st->kept);
    if (st->given_back > 0)
        scan_integer_at(s, st->line, "msg.usage_given_back", st->given_back);
}
