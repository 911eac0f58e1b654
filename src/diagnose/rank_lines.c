/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/rank_lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"

#define DIGITS_MAX 9

struct ranks {
    int64_t rank, local_rank; /* -1 = not known */
};

/* "[rank12]: ..." with the word "[rank": 12. -1: the line does not begin so. */
static int64_t number_in_mark(const char *line, size_t len, const char *word)
{
    size_t at = strlen(word);
    size_t digits = 0;
    int64_t number = 0;
    if (len <= at || memcmp(line, word, at) != 0)
        return -1;
    for (; at < len && line[at] >= '0' && line[at] <= '9' && digits < DIGITS_MAX; at++, digits++)
        number = number * 10 + (line[at] - '0');
    return digits > 0 && at < len && line[at] == ']' ? number : -1;
}

static bool is_of_another(const char *line, size_t len, const struct ranks *own)
{
    static const char ours[] = "rocmcrash: ";
    int64_t rank = number_in_mark(line, len, "[rank");
    int64_t local = number_in_mark(line, len, "[default");
    return (rank >= 0 && own->rank >= 0 && rank != own->rank) ||
           (local >= 0 && own->local_rank >= 0 && local != own->local_rank) ||
           (len >= sizeof ours - 1 && memcmp(line, ours, sizeof ours - 1) == 0);
}

static size_t copy_own(char *out, const char *text, size_t len, const struct ranks *own)
{
    size_t used = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line = end != NULL ? (size_t)(end - (text + at)) : len - at;
        if (!is_of_another(text + at, line, own)) {
            memcpy(out + used, text + at, line);
            used += line;
        }
        if (end != NULL)
            out[used++] = '\n';
        at += line + (end != NULL);
    }
    out[used] = '\0';
    return used;
}

char *rank_lines_own(const struct facts *facts, const char *text, size_t len, size_t *ret_len)
{
    struct ranks own = {-1, -1};
    int64_t world_size;
    if (!facts_get_integer(facts, "job.world_size", &world_size) || world_size < 2)
        return NULL;
    (void)facts_get_integer(facts, "job.rank", &own.rank);
    (void)facts_get_integer(facts, "job.local_rank", &own.local_rank);
    char *out = malloc(len + 1);
    if (out == NULL)
        return NULL;
    *ret_len = copy_own(out, text, len, &own);
    if (*ret_len < len)
        return out;
    free(out);
    return NULL;
}
