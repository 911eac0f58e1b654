/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding functions in the mapped objects of the target without dlsym(): that one decides by its
 * caller, does not see libraries of a local scope, and may itself be replaced. Runs in the target.
 */
#ifndef INJECT_NEXT_H
#define INJECT_NEXT_H

#include <elf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct next_object {
    const char *name; /* the path it was loaded by; "" for the program */
    uintptr_t base, start, end;
    const Elf64_Phdr *headers;
    unsigned header_count;
    const Elf64_Dyn *dynamic;
};

/* Return true to stop. */
typedef bool (*next_object_fn)(const struct next_object *object, void *context);

/* Every mapped object in the order of loading. Takes the loader's lock. */
void next_objects(next_object_fn fn, void *context);
/* How many objects have been loaded since the start; changes when one is. */
uint64_t next_loads(void);
/* The default definition in that object, NULL. */
void *next_in(const struct next_object *object, const char *name);
/* The first definition in the objects loaded after this library, NULL. */
void *next_symbol(const char *name);
/* `wanted` of the object that answers to `called`: libc's execv() makes libc's execve() call,
 * whatever others have put before the latter. */
void *next_lazily_of(_Atomic(void *) *slot, const char *called, const char *wanted);
/* The same, found once: `slot` starts as NULL. For what may be called before our constructor. */
void *next_lazily(_Atomic(void *) *slot, const char *name);
/* The path of this library as it was loaded. */
const char *next_own_path(void);
/* Is the object this library itself? */
bool next_is_own(const struct next_object *object);
/* clock_gettime() of the kernel's own page, which nobody replaces; NULL. */
void *next_clock(void);
/* An address of the dynamic section: glibc has relocated it, musl has not. */
uintptr_t next_address(const struct next_object *object, Elf64_Addr value);

#endif
