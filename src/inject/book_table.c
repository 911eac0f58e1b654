/* SPDX-License-Identifier: Apache-2.0 */
/* Find or make a row, by open addressing and compare-and-swap. */
#include "inject/book_internal.h"

#define PROBES BOOK_PROBES
#define GONE_TRIES 3

static _Atomic uint32_t *state_of(const struct book_table *table, uint32_t index)
{
    /* Each row starts with its state. */
    return (_Atomic uint32_t *)(void *)((char *)table->rows + index * table->row_size);
}

uint32_t book_claim(_Atomic uint32_t *state, uint32_t seen)
{
    uint32_t word = (((seen >> 8) + 1) << 8) | LEDGER_WRITING;
    return atomic_compare_exchange_strong(state, &seen, word) ? word : 0;
}

void book_publish(_Atomic uint32_t *state, uint32_t word)
{
    atomic_store_explicit(state, (word & ~0xffu) | LEDGER_USED, memory_order_release);
}

uint32_t book_state(_Atomic uint32_t *state)
{
    uint32_t word = atomic_load_explicit(state, memory_order_acquire);
    for (int i = 0; i < 256 && LEDGER_STATE(word) == LEDGER_WRITING; i++) {
        __builtin_ia32_pause();
        word = atomic_load_explicit(state, memory_order_acquire);
    }
    return word;
}

/* The row of the key, or BOOK_NONE and in *ret_spot the first slot it could have (or BOOK_NONE). */
static uint32_t look_up(const struct book_table *table, uint64_t hash, book_match_fn matches,
                        const void *key, uint32_t *ret_spot)
{
    *ret_spot = BOOK_NONE;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (uint32_t)((hash + i) % table->count);
        uint32_t word = book_state(state_of(table, at));
        uint32_t state = LEDGER_STATE(word);
        if (state == LEDGER_USED && matches((char *)table->rows + at * table->row_size, key))
            return at;
        if ((state == LEDGER_EMPTY || state == LEDGER_FREED) && *ret_spot == BOOK_NONE)
            *ret_spot = at;
        if (state == LEDGER_EMPTY)
            break;
    }
    return BOOK_NONE;
}

uint32_t book_find_or_claim(const struct book_table *table, uint64_t hash, book_match_fn matches,
                            const void *key, uint32_t *ret_word)
{
    *ret_word = 0;
    for (int i = 0; i < GONE_TRIES; i++) {
        uint32_t spot;
        uint32_t at = look_up(table, hash, matches, key, &spot);
        if (at != BOOK_NONE || spot == BOOK_NONE)
            return at;
        uint32_t seen = atomic_load_explicit(state_of(table, spot), memory_order_relaxed);
        if (LEDGER_STATE(seen) != LEDGER_EMPTY && LEDGER_STATE(seen) != LEDGER_FREED)
            continue;
        *ret_word = book_claim(state_of(table, spot), seen);
        if (*ret_word != 0)
            return spot;
    }
    return BOOK_NONE;
}

uint64_t book_mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}
