/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one impact.N of a run directory (record/impact_record.h) for the unwinder: sorted by
 * thread.
 */
#ifndef PROBE_IMPACT_FILE_H
#define PROBE_IMPACT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/impact_record.h"

#define IMPACT_THREADS_MAX 4096

struct rc_err;

/* Copied memory or text; points into the file's bytes. */
struct impact_bytes {
    const unsigned char *data;
    size_t length;
    bool truncated;
};

struct impact_thread {
    pid_t tid;
    char comm[17];
    struct impact_bytes regs;
    struct impact_bytes stack;
    uint64_t stack_address;
};

struct impact_file {
    struct impact_record record; /* owns everything the rest points to */
    struct impact_bytes maps; /* NUL-terminated copy */
    char *maps_text;
    struct impact_thread *threads; /* the failed one first, then by number */
    size_t thread_count;
    bool cut; /* the chunks end before the length given in the head */
};

/* 0 or -errno; release in both cases. */
int impact_file_read(struct impact_file *file, const char *path, struct rc_err *err);
void impact_file_release(struct impact_file *file);

#endif
