/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ring.h"

#include <string.h>

_Static_assert(sizeof(struct ring) == 64, "data must follow the ring header directly");

static unsigned char *ring_data(const struct ring *r)
{
    return (unsigned char *)(uintptr_t)(r + 1);
}

void ring_init(struct ring *r, uint64_t size)
{
    atomic_store(&r->head, 0);
    r->size = size;
}

/* 0 = damaged. Read once: it may change at any time. */
static uint64_t ring_size(const struct ring *r)
{
    uint64_t size = *(const volatile uint64_t *)&r->size;
    return size <= RING_BYTES_MAX && (size & (size - 1)) == 0 ? size : 0;
}

void ring_write(struct ring *r, const void *data, size_t len)
{
    uint64_t size = ring_size(r);
    if (len > size / 2)
        return;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t at = head & (size - 1);
    size_t first = len < size - at ? len : (size_t)(size - at);
    memcpy(ring_data(r) + at, data, first);
    memcpy(ring_data(r), (const unsigned char *)data + first, len - first);
    atomic_store_explicit(&r->head, head + len, memory_order_release);
}

/* The producer may be overwriting anything older: it writes up to half a ring beyond the head. */
static uint64_t ring_oldest(uint64_t head, uint64_t kept)
{
    return head > kept ? head - kept : 0;
}

size_t ring_read(const struct ring *r, uint64_t *cursor, void *out, size_t max, uint64_t *lost)
{
    uint64_t size = ring_size(r);
    /* Overtaken during the copy: begin again, nearer to the head. This ends at the latest when
     * nothing is left to copy. */
    for (uint64_t kept = size / 2; size > 0; kept /= 2) {
        uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
        uint64_t oldest = ring_oldest(head, kept);
        uint64_t from = *cursor;
        if (from < oldest) {
            if (lost != NULL)
                *lost += oldest - from;
            from = oldest;
        }
        if (from > head)
            from = head;
        size_t len = head - from < max ? (size_t)(head - from) : max;
        uint64_t at = from & (size - 1);
        size_t first = len < size - at ? len : (size_t)(size - at);
        memcpy(out, ring_data(r) + at, first);
        memcpy((unsigned char *)out + first, ring_data(r), len - first);
        atomic_thread_fence(memory_order_acquire);
        uint64_t now = atomic_load_explicit(&r->head, memory_order_relaxed);
        *cursor = from;
        if (len == 0 || from >= ring_oldest(now, size / 2)) {
            *cursor += len;
            return len;
        }
    }
    return 0;
}
