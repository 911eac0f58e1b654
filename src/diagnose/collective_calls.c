/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/collective_calls.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/text_facts.h"

#define CALLS_MAX 32

struct call {
    struct text group, operation; /* process group: each has its own numbers */
    uint64_t sequence, elements;
};

/* All ranks must give the same number of elements to these; a gather or a scatter may be uneven. */
static bool is_of_one_size(struct text operation)
{
    return text_equals(operation, "ALLREDUCE") || text_equals(operation, "BROADCAST") || text_equals(operation, "REDUCE");
}

static bool take_call(struct text line, struct call *ret)
{
    struct text t;
    ret->group = text_after(line, "PG ID ", &t) || text_after(line, "[PG ", &t) ? text_until(t, " ") : (struct text){"", 0};
    if (!text_after(line, "WorkNCCL(SeqNum=", &t) || !text_take_u64(&t, &ret->sequence) || !text_after(t, "OpType=", &t))
        return false;
    ret->operation = text_until(t, ",");
    return text_after(t, "NumelIn=", &t) && text_take_u64(&t, &ret->elements) && is_of_one_size(ret->operation);
}

static bool is_same(struct text a, struct text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Two of the first calls of one number that do not fit, or NULL. */
static const struct call *find_other(const struct call *calls, size_t count, const struct call *c)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].sequence == c->sequence && calls[i].elements != c->elements && is_same(calls[i].operation, c->operation) &&
            is_same(calls[i].group, c->group))
            return &calls[i];
    return NULL;
}

void collective_calls_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct text rest = {data, len}, line;
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    struct call calls[CALLS_MAX], c;
    size_t count = 0;
    if (memmem(data, len, "WorkNCCL(", strlen("WorkNCCL(")) == NULL)
        return;
    for (at.line = 1; count < CALLS_MAX && text_next_line(&rest, &line); at.line++) {
        if (!text_has(line, "WorkNCCL(") || !take_call(line, &c))
            continue;
        const struct call *other = find_other(calls, count, &c);
        if (other != NULL) {
            char words[160];
            (void)snprintf(words, sizeof words, "%.*s %llu: %llu elements and %llu", (int)c.operation.len, c.operation.at,
                           (unsigned long long)c.sequence, (unsigned long long)other->elements, (unsigned long long)c.elements);
            scan_text(&at, "msg.ranks_differ", (struct text){words, strlen(words)});
            return;
        }
        calls[count++] = c;
    }
}
