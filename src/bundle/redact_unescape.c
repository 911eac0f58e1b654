/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second form of a text: as its reader sees it, without the escapes of repr(), JSON or a
 * terminal. Each byte stays in its place. Runs in the finisher.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_internal.h"

#define COMMAND_MAX 8192u

/* Length of an escape sequence at `at`: of a terminal (ESC [ 1 ; 3 1 m), or as repr() and JSON
 * write one, once or more often (\n, \\n, \x1b, \u001b). 0 = none. */
static size_t escape_at(const char *p, size_t len, size_t at)
{
    size_t i = at;
    if (p[i] == 0x1b && i + 1 < len && p[i + 1] == '[') {
        for (i += 2; i < len && i < at + 20 && (isdigit((unsigned char)p[i]) || p[i] == ';');)
            i++;
        return i < len && isalpha((unsigned char)p[i]) ? i + 1 - at : 0;
    }
    while (i < len && p[i] == '\\')
        i++;
    if (i == at || i == len)
        return 0;
    if (p[i] != '\0' && strchr("nrt\"'", p[i]) != NULL)
        return i + 1 - at;
    size_t digits = p[i] == 'x' ? 2 : p[i] == 'u' ? 4 : 0;
    for (size_t k = 1; digits > 0 && k <= digits; k++) {
        if (i + k >= len || !isxdigit((unsigned char)p[i + k]))
            return 0;
    }
    return digits > 0 ? i + 1 + digits - at : 0;
}

static char *copy_of(const struct redact_text *t, bool *ret_failed)
{
    char *copy = malloc(t->len + 1);
    *ret_failed = copy == NULL;
    if (copy == NULL)
        return NULL;
    memcpy(copy, t->p, t->len);
    copy[t->len] = '\0';
    return copy;
}

/* The end of the list that is open at `from`, and the beginning of its last option; 0 = there is none. */
struct list_end {
    size_t searched_to;
    size_t close;
    size_t option;
};

static void find_list_end(const struct redact_text *t, size_t from, struct list_end *end)
{
    size_t i = from;
    *end = (struct list_end){0};
    for (; i + 1 < t->len && t->p[i] != '\n' && end->close == 0; i++) {
        if (t->p[i] == '\'' && t->p[i + 1] == ']')
            end->close = i;
        if (t->len - i > sizeof REDACT_ITEMS - 1 &&
            memcmp(t->p + i, REDACT_ITEMS, sizeof REDACT_ITEMS - 1) == 0) {
            i += sizeof REDACT_ITEMS - 2;
            if (t->p[i + 1] == '-')
                end->option = i;
        }
    }
    end->searched_to = i;
}

/* The end of a command line that begins at `at` as Python prints it, "['docker', 'login', '-p', 'x']"; 0 =
 * there is none. A list without an option may be any list, so it does not count. All lists that begin
 * before the same end share it, so that a text with many beginnings of lists costs no more than another
 * text. */
static size_t command_at(const struct redact_text *t, size_t at, struct list_end *end)
{
    if (redact_at(t, at + 1) != '\'')
        return 0;
    if (at + 2 >= end->searched_to)
        find_list_end(t, at + 2, end);
    return end->close >= at + 2 && end->close - at < COMMAND_MAX && end->option > at ? end->close + 2 : 0;
}

/* Writes the command as it was typed: words with blanks between them. */
static void unlist(char *p, size_t from, size_t to)
{
    memset(p + from, ' ', 2);
    memset(p + to - 2, ' ', 2);
    for (char *at = p + from; (at = memmem(at, (size_t)(p + to - at), REDACT_ITEMS, sizeof REDACT_ITEMS - 1));)
        memset(at, ' ', sizeof REDACT_ITEMS - 1);
}

char *redact_unescaped(const struct redact_text *t, bool *ret_failed)
{
    char *copy = NULL;
    struct list_end list = {0};
    for (size_t at = 0; at < t->len; at++) {
        if (t->p[at] != '\\' && t->p[at] != 0x1b && t->p[at] != '[')
            continue;
        size_t command = t->p[at] == '[' ? command_at(t, at, &list) : 0;
        if (command > 0 && (copy != NULL || (copy = copy_of(t, ret_failed)) != NULL))
            unlist(copy, at, command);
        if (*ret_failed)
            return NULL;
        size_t n = t->p[at] == '\\' || t->p[at] == 0x1b ? escape_at(t->p, t->len, at) : 0;
        if (n == 0) { /* no escape begins within a row of backslashes, either */
            while (t->p[at] == '\\' && at + 1 < t->len && t->p[at + 1] == '\\')
                at++;
            continue;
        }
        if (copy == NULL) {
            copy = copy_of(t, ret_failed);
            if (copy == NULL)
                return NULL;
        }
        char last = t->p[at + n - 1];
        memset(copy + at, ' ', n);
        if (t->p[at] == '\\' && (last == 'n' || last == 'r'))
            copy[at + n - 1] = '\n';
        else if (last == '"' || last == '\'')
            copy[at + n - 1] = last;
        at += n - 1;
    }
    return copy;
}
