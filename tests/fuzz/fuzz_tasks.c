/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what threads wait for. Four texts with a NUL between them: the lines of both looks
 * (launch/tasks.h), the descriptors and the memory map of the process. All are the target's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/waits_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *next_text(const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size > 0 ? memchr(*data, 0, *size) : NULL;
    size_t length = end != NULL ? (size_t)(end - *data) : *size;
    char *text = malloc(length + 1);
    if (text == NULL)
        abort();
    memcpy(text, *data, length);
    text[length] = '\0';
    size_t taken = length + (end != NULL);
    *data += taken;
    *size -= taken;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wait_threads first = {.count = 0};
    struct wait_threads again = {.count = 0};
    char words[400];
    if (size == 0)
        return 0;
    char *texts[4];
    for (int i = 0; i < 4; i++)
        texts[i] = next_text(&data, &size);
    if (!waits_parse(texts[0], &first) || !waits_parse(texts[1], &again))
        abort();
    for (size_t i = 0; i < again.count; i++) {
        char phrase[WAITS_PHRASE_MAX];
        waits_phrase(&again.list[i], texts[2], phrase, sizeof phrase);
        if (memchr(phrase, 0, sizeof phrase) == NULL || phrase[0] == '\0' ||
            waits_word(waits_kind(&again.list[i], texts[2])) == NULL)
            abort();
        (void)waits_find(&first, again.list[i].tid);
    }
    words[0] = '\0';
    if (waits_deadlock(&first, &again, texts[3], words, sizeof words) != DEADLOCK_NONE &&
        (memchr(words, 0, sizeof words) == NULL || words[0] == '\0'))
        abort();
    free(first.list);
    free(again.list);
    for (int i = 0; i < 4; i++)
        free(texts[i]);
    return 0;
}
