/* SPDX-License-Identifier: Apache-2.0 */
/* The fault that RC_FAULT asks for, and whether this call gets it. Syntax: shim.c. */
#ifndef TEST_FAULT_H
#define TEST_FAULT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Preloaded into foreign programs: no name of ours may be found by others. */
#pragma GCC visibility push(hidden)

enum kind { NOTHING, OUTPUT, ALLOC, FILES, CALLS, SHORT, FORKS, CLOCK, FDINFO, SLOW, LATE };

extern enum kind kind;
extern int fault_errno;
extern long first, count;
extern char prefix[PATH_MAX];

uint64_t next_random(void);
/* A line for the log: the number of a call. */
void note(long n);
/* Is this the process that RC_FAULT_COMM names? */
bool named_so(void);
/* Counts the call; true = it is one of those that fail. */
bool counted(void);
/* True for one call in so many. */
bool chance(unsigned one_in);

#pragma GCC visibility pop

/* AddressSanitizer's own malloc family: its free() accepts only their memory. */
extern __attribute__((weak)) void *__interceptor_malloc(size_t);
extern __attribute__((weak)) void *__interceptor_calloc(size_t, size_t);
extern __attribute__((weak)) void *__interceptor_realloc(void *, size_t);

#endif
