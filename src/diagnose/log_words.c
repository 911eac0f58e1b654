/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/log_words.h"

unsigned log_words_in(const char *text, size_t len, unsigned enough)
{
    unsigned found = 0;
    uint16_t state = 0;
    for (size_t i = 0; i < len && (found & enough) == 0; i++) {
        state = words_step(&log_words, state, (unsigned char)text[i]);
        if (log_words.begins[state] == 0)
            continue;
        for (const uint16_t *word = words_at(&log_words, state); *word != WORDS_END; word++)
            found |= 1u << log_words_group[*word];
    }
    return found;
}
