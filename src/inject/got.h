/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table in which an object keeps the addresses of the functions that it calls (GOT). Runs in
 * the target.
 */
#ifndef INJECT_GOT_H
#define INJECT_GOT_H

#include <stdbool.h>

#include "inject/next.h"

struct got_slot {
    const char *name; /* of the function */
    void **at;
    bool read_only;
    bool may_be_unbound; /* until its first call it may point to the object's own stub */
};

typedef void (*got_slot_fn)(const struct got_slot *slot, void *context);

void got_each_slot(const struct next_object *object, got_slot_fn fn, void *context);
/* True while the loader has not yet made a read-only slot read-only. Its value must stay then. */
bool got_is_being_loaded(const struct got_slot *slot);
/* Call it inside next_objects() only. A page holds slots for many functions: while the page is writable for
 * one thread, another one must not make it read-only. The loader's lock keeps the threads apart.
 * False if the page cannot be made writable. */
bool got_replace(const struct got_slot *slot, void *function);

#endif
