/* SPDX-License-Identifier: Apache-2.0 */
/* A test double for struct collect_out: facts into a store, files into memory; and small writers.
 */
#ifndef TEST_SINK_H
#define TEST_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "collect/collector.h"

struct facts;

struct sink_file {
    char name[64];
    char *data;
    size_t len;
};

struct collect_out {
    struct facts *facts;
    struct sink_file files[16];
    size_t file_count;
    char reason[256];
};

struct collect_out *sink_new(void);
void sink_free(struct collect_out *out);
/* "" when it was not written. */
const char *sink_file(const struct collect_out *out, const char *name);
/* NULL when there is no such text. */
const char *sink_text(const struct collect_out *out, const char *fact);
/* INT64_MIN when there is no such number. */
int64_t sink_integer(const struct collect_out *out, const char *fact);
/* The value of that moment only; INT64_MIN if it is missing. */
int64_t sink_at(const struct collect_out *out, const char *fact, enum fact_when when);
/* Reason of a missing fact, NULL when it is present or unknown. */
const char *sink_missing(const struct collect_out *out, const char *fact);

/* Each test program has its own folder. temp_remove() removes it with its contents. */
const char *temp_dir(void);
void temp_remove(void);
/* Path below it (static buffers, 16 in turn); folders on the way are made. */
const char *temp_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
void write_bytes(const char *path, const void *data, size_t len);
void write_text(const char *path, const char *text);

#endif
