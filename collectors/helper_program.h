/* SPDX-License-Identifier: Apache-2.0 */
/* Where the programs of this installation lie that may crash or hang: rocmcrash-unwind, -probe. */
#ifndef COLLECTORS_HELPER_PROGRAM_H
#define COLLECTORS_HELPER_PROGRAM_H

#include <stddef.h>

/* Beside the running program, else in its ../libexec/rocmcrash/. 0 or -ENOENT. */
int helper_program_find(const char *name, char *out, size_t size);

#endif
