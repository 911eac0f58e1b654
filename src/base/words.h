/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches for many words at once: the automaton of Aho and Corasick. At build time message_rules/automaton.py
 * writes the words as a tree. The table of transitions is forty times as large; it is made of the tree at the
 * first search (0.1 to 1.6 ms, 0.1 to 1.3 MB). Then one look-up a byte. Not for threads.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* A state is the place of its row in the table. The table has it in units of so many entries, which fit in 16 bits.
 * A power of two makes the product cheap: the next state waits for it. */
#define WORDS_UNIT 16u

struct words {
    uint8_t class_of[256];  /* 1 = in no word; 0 ends a list in `tree` */
    uint8_t starts[256];    /* the byte begins a word */
    const uint8_t *tree;    /* of each state, breadth-first: the classes that lead to further ones, then 0 */
    const uint16_t *begins; /* of each state: where its list begins; 0 = no list */
    const uint16_t *lists;  /* ids of the words that end there, the longest first; WORDS_END ends one */
    uint16_t states, units; /* how many; and the units of a row */
    uint16_t *room;         /* memory for the table, whatever is in it; NULL = new memory is taken */
    const uint16_t *table;  /* a row: where the state's list begins, then the next state for each class; NULL = not made */
};

#define WORDS_END 0xffffu

size_t words_table_bytes(const struct words *w);
/* Makes the table. If there is no memory, no word is found, and memory_refusals() counts it. */
const uint16_t *words_make(struct words *w);

/* For the functions below. Keep it in a variable during a search: then the loop does not read it for each byte. */
static inline const uint16_t *words_table(struct words *w)
{
    return w->table != NULL ? w->table : words_make(w);
}

/* 0 = the state before the first byte. */
static inline size_t words_step(const struct words *w, const uint16_t *table, size_t state, unsigned char byte)
{
    return (size_t)table[state + w->class_of[byte]] * WORDS_UNIT;
}

/* The place in `lists` of the words that end there; 0 = none ends. */
static inline size_t words_end(const uint16_t *table, size_t state)
{
    return table[state];
}

/* A search through a text, from `at` to `end`. */
struct words_search {
    const struct words *words;
    const uint16_t *table;
    const unsigned char *at, *end;
    size_t state;
};

static inline struct words_search words_search_of(struct words *w, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;
    return (struct words_search){.words = w, .table = words_table(w), .at = at, .end = at + len};
}

/* The ids of the words that end at the next place where one does, WORDS_END behind them; `at` is there then. NULL = none. */
static inline const uint16_t *words_next(struct words_search *s)
{
    const uint16_t *table = s->table;
    size_t state = s->state;
    for (const unsigned char *at = s->at; at < s->end;) {
        state = words_step(s->words, table, state, *at++);
        if (words_end(table, state) == 0)
            continue;
        s->state = state;
        s->at = at;
        return s->words->lists + words_end(table, state);
    }
    return NULL;
}

#endif
