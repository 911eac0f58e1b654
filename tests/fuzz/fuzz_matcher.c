/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the patterns that are looked for while the program runs. However the bytes are cut,
 * as many are found, and as many as a search through the whole finds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watch/kernel_log.h"
#include "watch/match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_cut(struct matcher *m, const uint8_t *data, size_t size)
{
    matcher_init(m);
    for (size_t at = 0; at < size;) {
        size_t n = 1 + (size_t)(data[at] & 7u);
        n = n < size - at ? n : size - at;
        matcher_feed(m, data + at, n);
        at += n;
    }
}

static uint64_t count_plainly(enum match_kind kind, const uint8_t *data, size_t size)
{
    uint64_t count = 0;
    for (size_t i = 0; i < match_pattern_count; i++) {
        size_t len = strlen(match_patterns[i].text);
        const uint8_t *p = data;
        while (match_patterns[i].kind == kind && len <= size - (size_t)(p - data) &&
               (p = memmem(p, size - (size_t)(p - data), match_patterns[i].text, len)) != NULL) {
            count++;
            p++;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct matcher whole;
    struct matcher cut;
    matcher_init(&whole);
    matcher_feed(&whole, data, size);
    feed_cut(&cut, data, size);
    for (int kind = 0; kind < MATCH_KINDS; kind++) {
        uint64_t plainly = count_plainly((enum match_kind)kind, data, size);
        if (whole.count[kind] != cut.count[kind] || (whole.count[kind] > 0) != (plainly > 0))
            abort();
    }
    char *record = malloc(size + 1);
    if (record == NULL)
        abort();
    memcpy(record, data, size);
    record[size] = '\0';
    (void)kernel_log_classify(record);
    free(record);
    return 0;
}
