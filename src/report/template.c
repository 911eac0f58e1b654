/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/summary.md: {{name}} and {{#name}}...{{/name}} (only when name has a value). Sections
 * do not nest. A line that holds nothing but a section mark leaves no empty line.
 */
#include "report/internal.h"

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 64

/* If `at` begins with "{{name}}", copies the name and returns the length with the braces; otherwise 0. */
static size_t mark_at(const char *at, char *name)
{
    if (strncmp(at, "{{", 2) != 0)
        return 0;
    const char *close = strstr(at, "}}");
    size_t len = close != NULL ? (size_t)(close - at) - 2 : 0;
    if (len == 0 || len >= NAME_MAX_LEN)
        return 0;
    memcpy(name, at + 2, len);
    name[len] = '\0';
    return len + 4;
}

static bool has_value(const struct report_input *in, template_value value, const char *name)
{
    struct buf probe = BUF_INIT;
    value(in, name, &probe);
    bool any = probe.len > 0;
    buf_release(&probe);
    return any;
}

/* The text after the end of section `name`, or the end of the text. */
static const char *section_end(const char *at, const char *name)
{
    char end[NAME_MAX_LEN + 8];
    (void)snprintf(end, sizeof(end), "{{/%s}}", name);
    const char *found = strstr(at, end);
    if (found == NULL)
        return at + strlen(at);
    found += strlen(end);
    return *found == '\n' ? found + 1 : found;
}

void template_render(const char *text, const struct report_input *in, template_value value,
                     struct buf *out)
{
    char name[NAME_MAX_LEN];
    while (*text != '\0') {
        size_t len = mark_at(text, name);
        if (len == 0) {
            buf_putc(out, *text++);
            continue;
        }
        text += len;
        if (name[0] != '#' && name[0] != '/') {
            value(in, name, out);
            continue;
        }
        if (name[0] == '#' && !has_value(in, value, name + 1))
            text = section_end(text, name + 1);
        else if (*text == '\n')
            text++;
    }
}
