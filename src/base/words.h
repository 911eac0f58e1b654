/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches for many words at once: the automaton of Aho and Corasick, as a table made at build time
 * from templates/messages.rules. One look-up a byte; read-only and shared; needs no libc.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdint.h>

/* A power of two makes the product cheap. Multiplying by the number of classes costs 15 % of the relay's
 * time, because the next state waits for it. */
#define WORDS_STRIDE 128u

struct words {
    uint8_t class_of[256]; /* 0 = in no word */
    uint8_t starts[256];   /* the byte begins a word */
    const uint16_t *next;   /* state * WORDS_STRIDE + class */
    const uint16_t *begins; /* of each state: where its list begins; 0 = no list */
    const uint16_t *lists;  /* ids of the words that end there, the longest first; WORDS_END ends one */
};

#define WORDS_END 0xffffu

static inline uint16_t words_step(const struct words *w, uint16_t state, unsigned char byte)
{
    return w->next[state * WORDS_STRIDE + w->class_of[byte]];
}

static inline const uint16_t *words_at(const struct words *w, uint16_t state)
{
    return w->lists + w->begins[state];
}

#endif
