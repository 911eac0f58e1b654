/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions that everybody has. A frame of a stack names a function and its library
 * ("run_mod+0x99 (libpython3.11.so.1.0"). If the process had that library from a folder of the system, or if it is
 * Python's own, then nobody here gave the function its name, whatever the vocabulary lacks. Rules say "public" of other
 * forms.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_internal.h"

#define LIBRARY_MAX 120u
#define SYMBOL_MAX 2048u /* bytes of a frame from the name to its library */

static bool begins_with(const char *p, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(p, with, n) == 0;
}

static bool is_of_system(const char *path, size_t len)
{
    static const char *const folders[] = {"/usr/lib", "/lib", "/usr/bin/", "/bin/", "/opt/rocm", "/nix/store/", "/gnu/store/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (begins_with(path, len, folders[i]))
            return true;
    return false;
}

/* "libpython3.11.so.1.0", "python3.11", and the modules that Python brings, wherever it is installed. */
static bool is_of_python(const char *path, size_t len, const char *file, size_t file_len)
{
    static const char modules[] = "/lib-dynload/";
    return begins_with(file, file_len, "libpython3") || begins_with(file, file_len, "python3") ||
           memmem(path, len, modules, sizeof modules - 1) != NULL;
}

static bool is_library(const struct redactor *r, const char *file, size_t len)
{
    for (size_t i = 0; i < r->library_count; i++)
        if (strlen(r->libraries[i]) == len && memcmp(r->libraries[i], file, len) == 0)
            return true;
    return false;
}

static int add_library(struct redactor *r, const char *file, size_t len)
{
    if (len == 0 || len > LIBRARY_MAX || r->library_count == REDACT_LIBRARIES_MAX || is_library(r, file, len))
        return 0;
    char *copy = strndup(file, len);
    if (copy == NULL)
        return -ENOMEM;
    r->libraries[r->library_count++] = copy;
    return 0;
}

int redactor_learn_maps(struct redactor *r, const char *maps, size_t len)
{
    const struct redact_text t = {maps, len};
    int e = 0;
    for (size_t from = 0, end; e == 0 && from < len; from = end + 1) {
        end = redact_line_end(&t, from);
        const char *path = memchr(maps + from, '/', end - from);
        size_t path_len = path != NULL ? (size_t)(maps + end - path) : 0;
        const char *file = path;
        for (size_t i = 0; i < path_len; i++)
            file = path[i] == '/' ? path + i + 1 : file;
        size_t file_len = path_len - (path != NULL ? (size_t)(file - path) : 0);
        if (path != NULL && (is_of_system(path, path_len) || is_of_python(path, path_len, file, file_len)))
            e = add_library(r, file, file_len);
    }
    return e;
}

bool redact_is_public_symbol(const struct redactor *r, const struct redact_text *t, size_t at)
{
    /* Asked for each find: the rest of a long line must not be read each time. */
    const struct redact_text near = {t->p, t->len - at > SYMBOL_MAX ? at + SYMBOL_MAX : t->len};
    size_t end = redact_line_end(&near, at);
    size_t i = at;
    while (r->library_count > 0 && i < end && t->p[i] != '+' && !redact_is_one_of(t->p[i], " \t\r/\"'=`"))
        i++;
    if (end - i < 3 || memcmp(t->p + i, "+0x", 3) != 0)
        return false;
    i += 3;
    while (i < end && isxdigit((unsigned char)t->p[i]))
        i++;
    if (i + 2 >= end || t->p[i] != ' ' || t->p[i + 1] != '(')
        return false;
    size_t from = i + 2, to = from;
    while (to < end && t->p[to] != ',' && t->p[to] != ')')
        to++;
    return is_library(r, t->p + from, to - from);
}

static bool is_public(const struct redact_span *span)
{
    return span->rule != NULL && span->rule->is_public;
}

static bool has_public(const struct redact_spans *spans)
{
    for (size_t i = 0; i < spans->count; i++) {
        if (is_public(&spans->list[i]))
            return true;
    }
    return false;
}

void redact_drop_in_public(struct redact_spans *spans)
{
    size_t kept = 0, until = 0, read = 0; /* the furthest end of what is public so far */
    if (!has_public(spans))
        return;
    redact_spans_sort(spans);
    for (size_t i = 0; i < spans->count; i++) {
        const struct redact_span span = spans->list[i];
        for (; read < spans->count && spans->list[read].from <= span.from; read++) {
            if (is_public(&spans->list[read]) && spans->list[read].to > until)
                until = spans->list[read].to;
        }
        bool sure = span.rule == NULL || span.kind == REDACT_SECRET;
        if (!is_public(&span) && (sure || span.to > until))
            spans->list[kept++] = span;
    }
    spans->count = kept;
}
