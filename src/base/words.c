/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <string.h>

#include "base/memory.h"
#include "base/room.h"

static size_t row_width(const struct words *w)
{
    return w->units * WORDS_UNIT;
}

size_t words_table_bytes(const struct words *w)
{
    return w->states * row_width(w) * sizeof *w->table;
}

/* A row is a copy of its suffix's row, but for the classes with which the tree goes on. The suffix is the state of the
 * longest ending that begins a word, too: a shorter text, so its row is complete. Until its own turn comes, a row's first
 * entry is the suffix. */
static void fill(const struct words *w, uint16_t *table)
{
    const size_t width = row_width(w);
    const uint8_t *class = w->tree;
    size_t last = 0;
    memset(table, 0, width * sizeof *table);
    for (size_t state = 0; state < w->states; state++) {
        uint16_t *row = table + state * width;
        if (state > 0)
            memcpy(row, table + row[0] * WORDS_UNIT, width * sizeof *row);
        row[0] = w->begins[state];
        for (; *class != 0; class++) {
            last++;
            table[last * width] = row[*class];
            row[*class] = (uint16_t)(last * w->units);
        }
        class++;
    }
}

const uint16_t *words_make(struct words *w)
{
    static const uint16_t nothing[1 + UINT8_MAX];
    uint16_t *table = w->room != NULL ? w->room : room_for(words_table_bytes(w));
    if (table != NULL)
        fill(w, table);
    else
        memory_was_refused();
    w->table = table != NULL ? table : nothing;
    return w->table;
}
