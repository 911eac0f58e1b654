/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the bookkeeping share. Writers never wait for each other, so that every field
 * that two threads may meet at is stored and loaded as one piece; order comes from the state words. */
#ifndef INJECT_BOOK_INTERNAL_H
#define INJECT_BOOK_INTERNAL_H

#include "inject/book.h"

/* Plain fields. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
/* _Atomic fields. ADD gives the value before. */
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define ADD(field, value) atomic_fetch_add_explicit(&(field), (value), memory_order_relaxed)

struct ledger_account *book_account(struct ledger *ledger, uint32_t process, uint8_t gpu,
                                    uint8_t kind);
void book_event(const struct book_actor *actor, const struct ledger_entry *e,
                enum ledger_event_type type, int error);

#endif
