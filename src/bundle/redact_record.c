/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line that names a person ("payer=Ada Brook amount=1,284.50 order 77-1203") is a record about that person. What the
 * other values on it mean, only its program knows. So numbers and codes on such a line are hidden, too, unless they
 * are measurements, dates or versions: the rules "in-record" say which are not.
 */
#include <string.h>

#include "bundle/redact_internal.h"

#define REACH_MAX 4096u /* of a longer line, this much on both sides of the find */

static size_t reach_begin(const struct redact_text *t, size_t at)
{
    size_t first = at > REACH_MAX ? at - REACH_MAX : 0;
    while (at > first && t->p[at - 1] != '\n')
        at--;
    return at;
}

static size_t reach_end(const struct redact_text *t, size_t at)
{
    size_t reach = t->len - at > REACH_MAX ? REACH_MAX : t->len - at;
    const char *end = memchr(t->p + at, '\n', reach);
    return end != NULL ? (size_t)(end - t->p) : at + reach;
}

static bool is_of_record(const struct redact_text *t, const struct redact_span *span)
{
    return span->rule != NULL &&
           (span->rule->record || (span->rule->record_full && memchr(t->p + span->from, ' ', span->to - span->from) != NULL));
}

int redact_records(const struct redactor *r, const struct redact_text *t, struct redact_spans *out)
{
    size_t found = out->count, done = 0;
    redact_spans_sort(out);
    for (size_t i = 0; i < found; i++) {
        const struct redact_span span = out->list[i];
        if (span.from < done || !is_of_record(t, &span))
            continue;
        size_t from = reach_begin(t, span.from);
        done = reach_end(t, span.to);
        for (size_t k = 0; k < r->rules->count; k++) {
            if (r->rules->list[k].in_record)
                redact_rule_find(r->rules, &r->rules->list[k], t->p, t->len, from, done, out);
        }
    }
    return out->failed;
}
