/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/cleantext.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void cleantext_copy(char *out, size_t size, const void *in, size_t len)
{
    const unsigned char *p = in;
    size_t used = 0;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(p + i, len - i);
        bool bad = n == 0 || (n == 1 && (p[i] < 0x20 || p[i] == 0x7f)) ||
                   (n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0); /* C1 controls */
        if (used + (bad ? 1 : n) >= size)
            break;
        if (bad)
            out[used++] = '?';
        else
            memcpy(out + used, p + i, n);
        used += bad ? 0 : n;
        i += n == 0 ? 1 : n;
    }
    out[used] = '\0';
}

void cleantext_json_u64(struct cJSON *object, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    (void)cJSON_AddRawToObject(object, name, text);
}

void cleantext_json_text(struct cJSON *object, const char *name, const char *text)
{
    char clean[4608];
    if (text[0] == '\0')
        return;
    cleantext_copy(clean, sizeof clean, text, strlen(text));
    (void)cJSON_AddStringToObject(object, name, clean);
}

bool cleantext_ends(const char *text, const char *suffix)
{
    size_t n = strlen(text);
    size_t m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

bool cleantext_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

const char *cleantext_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool cleantext_is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}
