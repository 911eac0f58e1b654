/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps failure messages and the lines around them, in the relay process. The first and the last part
 * of the output are always kept. A program may print so much after a failure that its message is in
 * neither part. The lines are copied from the output's ring, so output without failures costs
 * nothing.
 */
#include "watch/relay_internal.h"

#include <string.h>

#include "base/clock.h"
#include "record/rundir.h"
#include "record/shared.h"

#define BYTES_BEFORE 1024u
#define BYTES_AFTER 4096u
/* At most this much is kept per second, for programs that print failures all the time. */
#define WINDOW_NS 1000000000u
#define WINDOW_BYTES (64u << 10)

static bool may_keep(struct carrier *c, size_t len)
{
    uint64_t now_ns = clock_mono_ns();
    if (now_ns - c->found_window_ns >= WINDOW_NS) {
        c->found_window_ns = now_ns;
        c->found_window_bytes = 0;
    }
    c->found_window_bytes += len;
    return c->found_window_bytes <= WINDOW_BYTES;
}

static void want(struct carrier *c, uint64_t start)
{
    uint64_t first = start + c->matcher.first_end;
    uint64_t last = start + c->matcher.last_end;
    uint64_t from = first > BYTES_BEFORE ? first - BYTES_BEFORE : 0;
    from = from > OUTPUT_HEAD_BYTES ? from : OUTPUT_HEAD_BYTES;
    if (from > c->found_from) {
        c->found_from = from;
        c->found_within_line = true;
    }
    if (c->found_to < last + BYTES_AFTER)
        c->found_to = last + BYTES_AFTER;
}

/* Keeps whole lines only: redaction may miss a secret in half a line. Returns how many bytes of `text`
 * need no further look. */
static size_t keep_lines(struct carrier *c, const char *text, size_t len, bool is_last)
{
    const char *end = memrchr(text, '\n', len);
    if (end == NULL) {
        c->found_within_line = is_last;
        return is_last ? len : 0;
    }
    const char *start = c->found_within_line ? (const char *)memchr(text, '\n', len) + 1 : text;
    c->found_within_line = false;
    if (end >= start && may_keep(c, (size_t)(end + 1 - start)))
        ring_write(&c->shared->found, start, (size_t)(end + 1 - start));
    return (size_t)(end + 1 - text);
}

void found_look(struct carrier *c, size_t len)
{
    static char text[CARRY_CHUNK_BYTES / 2]; /* at most half the size of the ring `found` */
    struct ring *output = &c->shared->output;
    uint64_t head = atomic_load(&output->head);
    if (c->matcher.last_end != 0 && len > 0)
        want(c, head - len);
    while (c->found_from < c->found_to && c->found_from < head) {
        uint64_t lost = 0, cursor = c->found_from;
        uint64_t left = c->found_to - c->found_from;
        size_t max = left < sizeof text ? (size_t)left : sizeof text;
        size_t n = ring_read(output, &cursor, text, max, &lost);
        c->found_within_line |= lost > 0;
        size_t done = keep_lines(c, text, n, n == max);
        c->found_from = cursor - n + done;
        if (done == 0)
            break;
    }
}
