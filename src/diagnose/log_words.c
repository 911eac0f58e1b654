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

static inline struct line_words search(struct text line, uint64_t enough)
{
    struct line_words found = {.text = line};
    struct words_search s = words_search_of(&log_words, line.at, line.len);
    for (const uint16_t *word; (found.lists & enough) == 0 && (word = words_next(&s)) != NULL;) {
        for (; *word != WORDS_END; word++) {
            const struct log_word *w = &log_word_rows[*word];
            if (!stands_there(w, line.at, line.len, (size_t)((const char *)s.at - line.at)))
                continue;
            found.lists |= w->lists;
            found.asked |= w->asked;
        }
    }
    return found;
}

uint64_t log_words_in(const char *text, size_t len, uint64_t enough)
{
    return search((struct text){text, len}, enough).lists;
}

struct line_words line_words_of(struct text line)
{
    return search(line, 0);
}
