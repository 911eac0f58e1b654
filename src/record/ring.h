/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte ring in shared memory: one producer that never waits, and readers that notice when they
 * were overtaken. It survives the death of its producer; a replacement continues at the head.
 */
#ifndef RECORD_RING_H
#define RECORD_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The largest ring has this size. The target's user can write to the header: no other size is believed, so that nobody of ours
 * reads or writes outside of the mapping (behind every smaller ring there is more of it than this). */
#define RING_BYTES_MAX (UINT64_C(1) << 20)

struct ring {
    _Atomic uint64_t head; /* bytes ever written */
    uint64_t size;         /* bytes of data[], a power of two */
    uint64_t reserved[6]; /* the header is one cache line; the data follows it in memory */
};

void ring_init(struct ring *r, uint64_t size);
/* Producer. Writes the bytes, then publishes the head. Writes nothing if len > size / 2, or if the header is damaged. */
void ring_write(struct ring *r, const void *data, size_t len);
/*
 * Reader. Copies at most `max` bytes from *cursor on and advances it. When the producer has
 * overtaken the reader, *cursor jumps to the oldest byte that is still there and *lost grows by
 * the bytes missed. Returns the bytes copied. The bytes may be torn only if overtaken again during
 * the copy, which is detected and retried. Of a damaged header it copies nothing.
 */
size_t ring_read(const struct ring *r, uint64_t *cursor, void *out, size_t max, uint64_t *lost);

#endif
