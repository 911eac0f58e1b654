/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds failure messages for the relay with the automaton of base/words.h. Measured on lines of training
 * logs: 0.6 GB/s. One memmem() for each of 71 patterns reached 0.23 GB/s, and missed patterns that were
 * split between two chunks.
 */
#include "watch/match.h"

#include <string.h>

const char *match_kind_name(enum match_kind kind)
{
    static const char *const names[MATCH_KINDS] = {"oom",   "fault", "hang",
                                                    "error", "plain", "report"};
    return kind < MATCH_KINDS ? names[kind] : "unknown";
}

void matcher_init(struct matcher *m)
{
    memset(m, 0, sizeof *m);
}

void matcher_gap(struct matcher *m)
{
    m->state = 0;
}

static void matcher_count(struct matcher *m, uint16_t index, size_t end)
{
    enum match_kind kind = match_patterns[index].kind;
    if (kind != MATCH_REPORT) {
        m->first_end = m->first_end != 0 ? m->first_end : end;
        m->last_end = end;
    }
    if (m->count[kind]++ == 0)
        m->first_index[kind] = index;
}

void matcher_feed(struct matcher *m, const void *data, size_t len)
{
    const unsigned char *p = data;
    const unsigned char *end = p + len;
    const uint16_t *table = words_table(&match_words);
    size_t state = m->state;
    m->first_end = m->last_end = 0;
    while (p < end) {
        if (state == 0) {
            while (p < end && !match_words.starts[*p])
                p++;
            if (p == end)
                break;
        }
        state = words_step(&match_words, table, state, *p++);
        size_t found = words_end(table, state);
        if (found != 0)
            matcher_count(m, match_words.lists[found], (size_t)(p - (const unsigned char *)data));
    }
    m->state = state;
}

bool match_line(const char *line, size_t len)
{
    struct matcher m;
    matcher_init(&m);
    matcher_feed(&m, line, len);
    for (int kind = 0; kind < MATCH_KINDS; kind++) {
        if (kind != MATCH_PLAIN && m.count[kind] > 0)
            return true;
    }
    return false;
}
