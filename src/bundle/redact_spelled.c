/* SPDX-License-Identifier: Apache-2.0 */
/* How programs write a value that has quotes, blanks or signs: in JSON, in an address, in HTML. Pure. */
#include "bundle/redact_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void in_json(char c, char *one)
{
    (void)snprintf(one, 8, c == '"' || c == '\\' ? "\\%c" : "%c", c);
}

/* As PHP and some loggers write JSON: a slash has a backslash before it, too. */
static void in_json_of_web(char c, char *one)
{
    if (c == '/')
        (void)snprintf(one, 8, "\\/");
    else
        in_json(c, one);
}

static void in_json_of_json(char c, char *one)
{
    (void)snprintf(one, 8, "%s", c == '"' ? "\\\\\\\"" : c == '\\' ? "\\\\\\\\" : (char[]){c, '\0'});
}

static void in_address(char c, char *one)
{
    (void)snprintf(one, 8, isalnum((unsigned char)c) || strchr("-._~", c) != NULL ? "%c" : "%%%02X", (unsigned char)c);
}

static void in_form(char c, char *one)
{
    if (c == ' ')
        (void)snprintf(one, 8, "+");
    else
        in_address(c, one);
}

static void in_html(char c, char *one)
{
    static const struct {
        char sign;
        const char *entity;
    } rows[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#x27;"}};
    (void)snprintf(one, 8, "%c", c);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (c == rows[i].sign)
            (void)snprintf(one, 8, "%s", rows[i].entity);
}

size_t redact_spelled(unsigned way, const char *value, size_t len, char *out, size_t size)
{
    static void (*const ways[])(char, char *) = {in_json, in_json_of_web, in_json_of_json, in_address, in_form, in_html};
    size_t n = 0;
    if (way >= sizeof ways / sizeof ways[0])
        return 0;
    for (size_t i = 0; i < len; i++) {
        char one[8] = "";
        ways[way](value[i], one);
        for (const char *c = one; *c != '\0'; c++, n++) {
            if (n == size)
                return 0;
            out[n] = *c;
        }
    }
    return n;
}
