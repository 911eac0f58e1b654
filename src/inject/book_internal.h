/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the parts of the bookkeeping. Writers never wait for each other, so every
 * field that two threads may access is stored and loaded in one piece; the state words give the
 * order. */
#ifndef INJECT_BOOK_INTERNAL_H
#define INJECT_BOOK_INTERNAL_H

#include <stddef.h>

#include "inject/book.h"

/* Plain fields. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
/* _Atomic fields. ADD gives the value before. */
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define ADD(field, value) atomic_fetch_add_explicit(&(field), (value), memory_order_relaxed)

#define BOOK_PROBES 64u /* how far from its place a row may lie */

/* Each row starts with its state. */
struct book_table {
    void *rows;
    size_t row_size;
    uint32_t count;
};

typedef bool (*book_match_fn)(const void *row, const void *key);

/* The row of the key. A new row has *ret_word != 0 and waits for book_publish(). */
uint32_t book_find_or_claim(const struct book_table *table, uint64_t hash, book_match_fn matches,
                            const void *key, uint32_t *ret_word);
/* Claims a slot whose word was `seen`: returns its new word with LEDGER_WRITING, or 0. */
uint32_t book_claim(_Atomic uint32_t *state, uint32_t seen);
void book_publish(_Atomic uint32_t *state, uint32_t word);
/* Its word. Another thread may be writing the slot, perhaps the row that we search: that takes some
 * hundred cycles, unless the thread died there. */
uint32_t book_state(_Atomic uint32_t *state);
uint64_t book_mix(uint64_t x);

/* Saves a locked instruction, and may miss one of two simultaneous increments. */
#define COUNT(field) SET(field, atomic_load_explicit(&(field), memory_order_relaxed) + 1)

struct ledger_account *book_account(struct ledger *ledger, uint32_t process, uint8_t gpu,
                                    uint8_t kind);
void book_event(const struct book_actor *actor, const struct ledger_entry *e,
                enum ledger_event_type type, int error);

#endif
