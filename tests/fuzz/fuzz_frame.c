/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the child of a collector sent before it died of what it read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_text(const char *text, size_t max)
{
    if (text == NULL || strlen(text) >= max)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char again[sizeof(struct frame_header) + FRAME_PAYLOAD_MAX];
    struct frame frame;
    int n;
    for (size_t at = 0; at < size && (n = frame_decode(data + at, size - at, &frame)) > 0;
         at += (size_t)n) {
        if ((size_t)n > size - at)
            abort();
        if (frame.type == FRAME_FACT) {
            must_be_text(frame.fact.name, FRAME_NAME_MAX);
            must_be_text(frame.fact.source, FRAME_WORDS_MAX);
            if (frame_encode_fact(again, &frame.fact) > sizeof again)
                abort();
        } else if (frame.type == FRAME_REASON) {
            must_be_text(frame.reason, FRAME_WORDS_MAX);
        }
    }
    return 0;
}
