/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of program that a file is, as far as preloading needs it. Runs where preload.h says. */
#ifndef INJECT_PROGRAM_H
#define INJECT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "inject/preload.h"

#define PROGRAM_SHEBANG_DEPTH 5 /* fs/exec.c stops there too */

/* PRELOAD_YES, or the reason. A script is PRELOAD_NOT_ELF with its interpreter, else that is "". */
enum preload_answer program_check(int fd, char *interpreter, size_t size,
                                  uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)]);
/* Whether a program for which that was PRELOAD_YES or PRELOAD_OTHER_LOADER, and of which it left `scratch`, names the symbol. */
bool program_names(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)], const char *symbol);

/* As program_names(), whether it is linked with a library whose name begins with one of these. */
bool program_needs(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)], const char *const *libraries, size_t count);

#define PROGRAM_RANGES_MAX 8
struct program_range {
    uint64_t offset, size; /* in the file, bytes */
};
/* The parts of a program file that hold its constants: what is loaded neither for writing nor for execution; with
 * linkers that do not separate these, all that is loaded but not for writing. Returns how many; 0 = no program. */
unsigned program_constants(int fd, struct program_range ranges[PROGRAM_RANGES_MAX]);
/* The same for its instructions. */
unsigned program_code(int fd, struct program_range ranges[PROGRAM_RANGES_MAX]);

#endif
