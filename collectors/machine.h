/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers shared by collectors of the host: sorted listings below the sysroot, the texts that the
 * tracer copied at impact, and errno words for unreadable files. Runs in collector children.
 */
#ifndef COLLECTORS_MACHINE_H
#define COLLECTORS_MACHINE_H

#include <stddef.h>
#include <sys/types.h>

#include "collect/collector.h"
#include "record/shared.h"

struct buf;

#define MACHINE_NAME_MAX 64

/* Names in the machine's folder `path`, sorted by bytes, hidden and longer ones left out. Returns
 * the count (at most max) or -errno. */
int machine_list(const char *path, char (*names)[MACHINE_NAME_MAX], int max);
/* N of /sys/class/drm/card<N>, ascending; never connectors (card0-DP-1). Count or -errno. */
int machine_cards(int *ret_numbers, int max);

/* Absent for -ENOENT and -ENOTDIR, else unreadable; the reason is "PATH: words". */
void machine_missing(struct collect_out *out, const char *name, enum fact_when when, int code,
                     const char *path);

/* Reports the number that is the whole text of the machine's file `path` (decimal, not negative), or why there
 * is none. */
void machine_integer(struct collect_out *out, const char *name, enum fact_when when, const char *path);

/*
 * The text chunk of the failed process (or of the first impact) in the run directory, at most
 * size-1 bytes, NUL-terminated. Length, -ENOENT when there is none, other -errno.
 */
ssize_t impact_text(const struct collect_ctx *ctx, enum impact_chunk_type type, char *out,
                    size_t size);

/* The value of NAME in an environ array, NULL when it is not there. The first one counts, as for
 * getenv(3). */
const char *environ_get(const char *const *environ_list, const char *name);

/* Append text without control characters (newline and tab stay). */
void machine_append_clean(struct buf *out, const char *text, size_t len);

#endif
