/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of program that a file is, as far as preloading needs it. Runs where preload.h says. */
#ifndef INJECT_PROGRAM_H
#define INJECT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "inject/preload.h"

/* PRELOAD_YES, or the reason. A script is PRELOAD_NOT_ELF with its interpreter, else that is "". */
enum preload_answer program_check(int fd, char *interpreter, size_t size,
                                  uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)]);
/* Whether a program for which that was PRELOAD_YES, and of which it left `scratch`, names the symbol. */
bool program_names(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)], const char *symbol);

#endif
