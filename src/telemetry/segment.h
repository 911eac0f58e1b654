/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples on disk: segments samples.NNNN of 256 KiB in the run directory, the raw records of the
 * sample ring one after the other.
 *
 * Append-only. When there are more than SEGMENTS_MAX, two neighbours are thinned into one: the pair
 * that covers the least time relative to its age. The result is written under a temporary name,
 * fsynced and renamed. So the resolution falls with age, and a week stays below 13 MiB at any sample
 * rate. The times of records rise strictly over all segments. A reader drops records that are not
 * newer than the last one, so a crash between the rename and the removal of the second file does no
 * harm.
 *
 * Writer: one process at a time (the recorder, then the finisher).
 */
#ifndef TELEMETRY_SEGMENT_H
#define TELEMETRY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/metric.h"

#define SEGMENT_BYTES ((size_t)256 << 10)
#define SEGMENTS_MAX 48
#define SEGMENTS_FRESH 8 /* the newest are never thinned */

/*
 * Append the next bytes of the sample ring, cut at any byte. Opens, rotates and thins as needed.
 * The open file is kept for the next call with the same directory. 0 or -errno.
 */
int segment_append(const char *run_dir, const void *data, size_t len);
/* As segment_append(). On failure *ret_taken bytes are in the file, and the rest can be offered
 * again. */
int segment_append_some(const char *run_dir, const void *data, size_t len, size_t *ret_taken);
/* When it returns, everything appended so far survives a crash of the machine. */
void segment_sync(void);
/* Close what segment_append() keeps open; `durable` fsyncs first. */
void segment_close(bool durable);
/* fsync() at rotation and thinning (default true); tests that simulate a week turn it off. */
void segment_set_durable(bool durable);

/* "samples.0012" -> 12, -1 for other names (temporary ones too). */
int64_t segment_number(const char *name);

/*
 * The next whole record at or after *at: copies the header and the position of the entries; *at
 * moves past the record. Bytes that are no record (torn tails, gaps) are skipped and counted in *skipped
 * (may be NULL). False at the end.
 */
bool segment_next(const unsigned char *data, size_t len, size_t *at, struct sample_header *ret,
                  size_t *ret_entries_at, uint64_t *skipped);
struct sample_entry segment_entry(const unsigned char *data, size_t entries_at, uint32_t index);

/* --- thin.c --- */

/*
 * Thin the records of data[0..len) until they fit into `max` bytes of out. For every series and
 * interval it keeps the first smallest, the first largest and the last value, at their own times.
 * The interval doubles until the result fits. BASELINE, IMPACT and AFTER records are kept whole.
 * The first value of every series is kept, so that a thinned segment stands alone. Returns the
 * bytes in out, or -errno.
 */
int64_t segment_thin(const unsigned char *data, size_t len, unsigned char *out, size_t max);

#endif
