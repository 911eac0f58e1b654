/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/text_translate.h"

#include <stdbool.h>

#include "base/buf.h"
#include "base/translated.h"

char *text_translate(const char *data, size_t len, size_t *ret_len)
{
    struct buf out = BUF_INIT;
    struct translated found;
    size_t copied = 0;
    bool any = false;
    for (size_t at = 0; (at = translated_may_begin(data, len, at)) < len;) {
        if (!translated_at(data, len, at, &found)) {
            at++;
            continue;
        }
        buf_append(&out, data + copied, at - copied);
        buf_append(&out, found.english, found.english_len);
        at += found.len;
        copied = at;
        any = true;
    }
    if (any)
        buf_append(&out, data + copied, len - copied);
    if (!any || buf_failed(&out)) {
        buf_release(&out);
        return NULL;
    }
    *ret_len = out.len;
    return out.data;
}
