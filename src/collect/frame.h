/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that a collector's child sends to the runner through the status pipe.
 *
 * The child may have crashed in the middle of a frame, or its input may have corrupted its memory.
 * So the reader checks everything (magic, bounds, terminated strings, names from a small alphabet)
 * and stops at the first wrong frame. Both ends are the same binary, so the byte order is the
 * machine's.
 */
#ifndef COLLECT_FRAME_H
#define COLLECT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/collector.h"

#define FRAME_MAGIC 0x72634652u     /* "rcFR" */
#define FRAME_PAYLOAD_MAX 8192u     /* bytes after the header */
#define FRAME_TEXT_MAX 4096u        /* of a text value, with the NUL; longer ones are cut */
#define FRAME_NAME_MAX 192u         /* of a fact's name, with the NUL */
#define FRAME_WORDS_MAX 512u        /* of a source or a reason, with the NUL */
#define FRAME_STREAM_MAX (1u << 20) /* bytes of one child that the runner keeps */

enum frame_type {
    FRAME_FACT = 1, /* struct frame_fact, name, source, text (value or reason) */
    FRAME_REASON,   /* text */
    FRAME_DONE, /* int32_t status, uint32_t cut (1 = output was cut): the run function returned */
};

struct frame_header {
    uint32_t magic;
    uint16_t type;
    uint16_t length; /* of the payload */
};

/* A decoded frame; the strings point into the bytes that were given. */
struct frame {
    enum frame_type type;
    struct fact fact;           /* FRAME_FACT; reason is set instead of text when not present */
    const char *reason;         /* FRAME_REASON */
    enum collect_status status; /* FRAME_DONE */
    bool cut;
};

/* Encode into out[sizeof(struct frame_header) + FRAME_PAYLOAD_MAX]; strings are cut to their
 * limits. Returns the bytes used. */
size_t frame_encode_fact(unsigned char *out, const struct fact *fact);
size_t frame_encode_reason(unsigned char *out, const char *reason);
size_t frame_encode_done(unsigned char *out, enum collect_status status, bool cut);

/*
 * Decode the frame at the start of data. > 0: its size in bytes. 0: incomplete so far (or cut off
 * by the death of the child). -EBADMSG: not a frame.
 */
int frame_decode(const unsigned char *data, size_t len, struct frame *ret);

#endif
