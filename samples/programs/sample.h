/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the samples: their one option, sizes as shares of the GPU, and the end of an application
 * after the runtime's refusal.
 */
#ifndef SAMPLES_SAMPLE_H
#define SAMPLES_SAMPLE_H

#include <hip/hip_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#define MIB ((size_t)1 << 20)
#define BUFFERS_MAX 65536

/* True with --near-miss: the same program with a failure of another class. Ends the program on any
 * other word. --silent: nothing is written to stderr, so that only what was recorded can tell. */
bool sample_options(int argc, char **argv, const char *what, const char *near_miss);

/* Bytes of the first GPU's memory; ends the program where there is none. */
size_t sample_total(void);
/* total / parts, in pieces of 2 MiB, at least one. */
size_t sample_share(size_t parts);

/* hipMalloc() again and again: into `buffers` until `most` or a refusal. Returns how many. */
size_t sample_fill(void **buffers, size_t most, size_t bytes, hipError_t *ret_error);
void sample_free(void **buffers, size_t count);

/* One line on stderr, as applications print it, and the exit status for it. */
int sample_refused(const char *call, size_t bytes, hipError_t error);
void sample_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* After `seconds` the program ends by SIGABRT, as one with a watchdog of its own does. */
void sample_watchdog(unsigned seconds, const char *message);
/* A mistake on the CPU that has nothing to do with the GPU: a read through a null pointer. */
int sample_crash(void);

#endif
