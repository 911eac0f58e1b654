/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/text_repair.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/text.h"

#define REPAIR_MAX ((size_t)256 << 10)
#define WIDTH_MIN 40
#define WIDTH_MAX 160

/* The width at which the text was wrapped: its longest line, unless that is longer than any
 * terminal. */
static size_t width_of(struct text all, bool *is_hard)
{
    struct text rest = all, line;
    size_t width = 0, full = 0, nearly = 0;
    while (text_next_line(&rest, &line))
        width = line.len > width ? line.len : width;
    rest = all;
    while (text_next_line(&rest, &line)) {
        full += line.len == width;
        nearly += line.len < width && line.len + 10 > width;
    }
    *is_hard = full >= 2 && full > nearly; /* cut at a column, within words */
    return width >= WIDTH_MIN && width <= WIDTH_MAX ? width : 0;
}

/* A new line begins: a prompt, a stamp, a list, a table, a frame of a traceback. */
static bool begins_anew(struct text line)
{
    if (line.len == 0 || strchr("[|$#>*+-=<{}\t", line.at[0]) != NULL || text_starts(line, "  "))
        return true;
    return text_starts(line, "Traceback") || text_starts(line, "File \"") || text_starts(line, "amdgpu ");
}

static bool was_wrapped(struct text line, struct text next, size_t width, bool is_hard)
{
    struct text rest = next, word;
    if (line.len < WIDTH_MIN || (!is_hard && begins_anew(next)) || next.len == 0)
        return false;
    if (is_hard)
        return line.len == width;
    return text_next_word(&rest, &word) && line.len + 1 + word.len > width;
}

char *text_unwrap(const char *data, size_t len, size_t *ret_len)
{
    struct text rest = {data, len}, line, next;
    bool is_hard = false, any = false;
    size_t width = len <= REPAIR_MAX ? width_of(rest, &is_hard) : 0, n = 0, owed = 0;
    char *out = width > 0 ? malloc(2 * len + 2) : NULL;
    bool has_line = out != NULL && text_next_line(&rest, &line);
    while (has_line) {
        memcpy(out + n, line.at, line.len);
        n += line.len;
        bool has_next = text_next_line(&rest, &next);
        if (has_next && was_wrapped(line, next, width, is_hard)) {
            if (!is_hard)
                out[n++] = ' ';
            owed++;
            any = true;
        } else {
            memset(out + n, '\n', owed + 1);
            n += owed + 1;
            owed = 0;
        }
        line = next;
        has_line = has_next;
    }
    return text_if_changed(out, n, any, ret_len);
}
