/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/log_words.h"

#include <ctype.h>

/* `end`: the first byte after the word. */
static bool stands_there(const struct log_word *w, const char *text, size_t len, size_t end)
{
    size_t at = end - w->length;
    return (!w->begins || at == 0 || !isalnum((unsigned char)text[at - 1])) &&
           (!w->ends || end == len || !isalpha((unsigned char)text[end]));
}

uint64_t log_words_in(const char *text, size_t len, uint64_t enough)
{
    uint64_t found = 0;
    const uint16_t *table = words_table(&log_words);
    size_t state = 0;
    for (size_t i = 0; i < len && (found & enough) == 0; i++) {
        state = words_step(&log_words, table, state, (unsigned char)text[i]);
        size_t ended = words_end(table, state);
        if (ended == 0)
            continue;
        for (const uint16_t *word = log_words.lists + ended; *word != WORDS_END; word++)
            if (stands_there(&log_word_rows[*word], text, len, i + 1))
                found |= log_word_rows[*word].lists;
    }
    return found;
}
