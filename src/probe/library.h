/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library that may not be there, and its functions by name. For rocmcrash-probe. */
#ifndef PROBE_LIBRARY_H
#define PROBE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct rc_err;

/* One function of an API struct: its name and where its pointer goes. */
struct library_symbol {
    const char *name;
    size_t offset;
    bool optional;
};

/*
 * Open the first of `names` (NULL-terminated) that can be opened, and fill `api` from it. The
 * library stays loaded for the life of the process. Returns the handle; NULL and *err if there is
 * none, or if a required function is missing. *err also names another version that is installed.
 */
void *library_open(const char *const *names, const struct library_symbol *symbols, size_t count,
                   void *api, struct rc_err *err);

#endif
