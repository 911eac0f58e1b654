/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading impact.N of a run directory: struct shared_impact, then its chunks. The file may be
 * incomplete (the tracer or the machine died while it was written) or garbage; every length is
 * checked. For programs that start when the run is over.
 */
#ifndef RECORD_IMPACT_RECORD_H
#define RECORD_IMPACT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/shared.h"

struct rc_err;

struct impact_record {
    struct shared_impact header;
    char *data;  /* the whole file, owned */
    size_t size;
};

struct impact_view {
    const struct impact_chunk *chunk;
    const char *data; /* chunk->length bytes, not NUL-terminated */
};

/* 0 or -errno; release with impact_record_release() (NULL-safe, zero-safe). */
int impact_record_read(struct impact_record *file, const char *path, struct rc_err *err);
void impact_record_release(struct impact_record *file);
/* Next chunk at *at (start with 0); false at the end or at the first chunk that does not fit. */
bool impact_record_next(const struct impact_record *file, size_t *at, struct impact_view *ret);
/* First chunk of a type as malloc()ed NUL-terminated text; NULL if there is none. */
char *impact_record_text(const struct impact_record *file, enum impact_chunk_type type);
/* `arg` of the first chunk of a type; 0 if there is none. */
uint64_t impact_record_arg(const struct impact_record *file, enum impact_chunk_type type);
/* Did the cap cut the chunk? */
bool impact_record_is_cut(const struct impact_record *file, enum impact_chunk_type type);
/* Lines of the first chunk of a type, including those that the cap left out. -ENOENT: there is no
 * such chunk; -ERANGE: too many to be counted. */
int64_t impact_record_lines(const struct impact_record *file, enum impact_chunk_type type);

/* CHUNK_ENVIRON as a NULL-terminated list of "NAME=VALUE"; the text and the list are the caller's
 * to free. NULL when it was not copied. */
const char **impact_record_environ(const struct impact_record *file, char **ret_text);

/* Does a list of descriptors ("8 /dev/nvidiactl" a line) have a GPU's device? */
bool impact_fds_have_gpu(const char *fds);
/* The same of CHUNK_FDS; false when it was not copied. */
bool impact_record_uses_gpu(const struct impact_record *file);

#endif
