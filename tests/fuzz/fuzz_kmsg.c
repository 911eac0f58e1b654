/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: records of /dev/kmsg and lines of the journal to the text that is kept of them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "collectors/kmsg_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEEP_BYTES 600u /* small, so that something has to be left out */

static void keep(const struct buf *text)
{
    struct buf kept = BUF_INIT;
    (void)kmsg_select(&kept, buf_str(text), text->len, KEEP_BYTES);
    if (kept.len > KEEP_BYTES)
        abort();
    buf_release(&kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text;
    struct kmsg_window window = {.first_seq = size > 0 ? data[0] : 0};
    char *copy = malloc(size + 1);
    if (copy == NULL)
        abort();
    memcpy(copy, data, size);
    copy[size] = '\0';
    (void)kmsg_is_records(copy);
    buf_init(&text, 1u << 20);
    kmsg_append_records(&text, (const char *)data, size, &window);
    if (window.records > size || (window.records > 0 && window.last_seq < window.first_seq))
        abort();
    keep(&text);
    buf_release(&text);
    buf_init(&text, 1u << 20);
    kmsg_append_journal(&text, (const char *)data, size);
    keep(&text);
    buf_release(&text);
    free(copy);
    return 0;
}
