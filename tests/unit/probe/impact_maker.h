/* SPDX-License-Identifier: Apache-2.0 */
/* A small tracer for the tests: runs a program until its fatal signal and writes the same impact file as the product's
 * tracer, with its own code. */
#ifndef TEST_IMPACT_MAKER_H
#define TEST_IMPACT_MAKER_H

#include <stddef.h>

struct impact_made {
    int pid;
    int tid; /* that took the signal */
    int signo;
    int threads;
    char output[256]; /* what the program printed */
};

/* stack_max: how many bytes of each stack are copied. Returns 0, or -errno. */
int impact_make(const char *program, const char *mode, size_t stack_max, const char *path,
                struct impact_made *ret);

#endif
