/* SPDX-License-Identifier: Apache-2.0 */
/* Names: of bundles, of entries we write and accept, and of text that a terminal may see. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/internal.h"

#define NAME_TIME_BYTES 27 /* "rocmcrash-20261123T075754Z-" */

/* Copies at most `most` characters. A character that is not in [A-Za-z0-9._-] becomes '-'. No
 * leading '.' or '-'. The brackets of a pseudonym ("<user1>.py") part it from letters and digits only. */
static size_t append_safe(char *out, size_t size, size_t at, const char *text, size_t most)
{
    size_t start = at;
    for (const char *p = text; *p != '\0' && at - start < most && at + 1 < size; p++) {
        char c = *p;
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-';
        bool bracket = c == '<' || c == '>';
        if (!fine)
            c = '-';
        if (bracket && (at == start || !isalnum((unsigned char)out[at - 1]) || !isalnum((unsigned char)p[1])))
            continue;
        if (at == start && (c == '.' || c == '-'))
            continue;
        out[at++] = c;
    }
    out[at] = '\0';
    return at;
}

/* "-<before><text>", or nothing where `text` is not known. */
static size_t append_part(char *out, size_t size, size_t at, const char *before, const char *text)
{
    if (text == NULL || text[0] == '\0' || at + strlen(before) + 2 >= size)
        return at;
    at += (size_t)snprintf(out + at, size - at, "-%s", before);
    return append_safe(out, size, at, text, 20);
}

static size_t append_or(char *out, size_t size, size_t at, const char *text, size_t most, const char *other)
{
    size_t end = append_safe(out, size, at, text != NULL ? text : "", most);
    return end > at ? end : append_safe(out, size, at, other, most);
}

void bundle_name(char *out, size_t size, const struct bundle_title *title)
{
    if (size == 0)
        return;
    char stamp[40];
    time_t seconds = (time_t)(title->wall_ns / 1000000000u);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year > 9999 - 1900 ||
        strftime(stamp, sizeof stamp, "rocmcrash-%Y%m%dT%H%M%SZ-", &utc) == 0)
        (void)snprintf(stamp, sizeof stamp, "rocmcrash-00000000T000000Z-");
    const char *slash = title->program != NULL ? strrchr(title->program, '/') : NULL;
    size_t at = append_safe(out, size, 0, stamp, sizeof stamp);
    at = append_or(out, size, at, slash != NULL ? slash + 1 : title->program, 60, "program");
    at += (size_t)(at + 1 < size ? (out[at] = '-', 1) : 0);
    at = append_or(out, size, at, title->verdict_class, 40, "unknown");
    at = append_part(out, size, at, "r", title->rank);
    at = append_part(out, size, at, "", title->signature);
    out[at < size ? at : size - 1] = '\0';
}

int64_t bundle_name_time_s(const char *name)
{
    struct tm utc = {.tm_year = 0};
    const char *end = strptime(name, "rocmcrash-%Y%m%dT%H%M%SZ-", &utc);
    return end != NULL && end - name == NAME_TIME_BYTES ? (int64_t)timegm(&utc) : -1;
}

bool top_name_ok(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > BUNDLE_TOP_MAX || name[0] == '.' || name[0] == '-')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

bool entry_name_ok(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > BUNDLE_NAME_MAX)
        return false;
    const char *part = name;
    for (size_t i = 0; i <= len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c != '\0' && c != '/') {
            /* On Windows '\' separates folders, and ':' a file from a stream of it. */
            if (c < 0x20 || c > 0x7e || c == '\\' || c == ':')
                return false;
            continue;
        }
        size_t part_len = (size_t)(name + i - part);
        /* ".git" takes effect when somebody works in the unpacked folder, and "-rf" when a shell expands
         * "*". Windows drops blanks and dots at the end: "manifest.json " would be a second manifest.json. */
        if (part_len == 0 || part[0] == '.' || part[0] == '-' || name[i - 1] == ' ' || name[i - 1] == '.')
            return false;
        part = name + i + 1;
    }
    return true;
}

const char *printable_name(char *out, size_t size, const char *name)
{
    size_t at = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0' && at + 5 < size; p++) {
        if (*p >= 0x20 && *p < 0x7f && *p != '\\')
            out[at++] = (char)*p;
        else
            at += (size_t)snprintf(out + at, size - at, "\\x%02x", *p);
    }
    out[at] = '\0';
    return out;
}

int entry_refuse(const char *name, const char *what, struct rc_err *err)
{
    char shown[150];
    return rc_err_set(err, -EBADMSG, "entry '%s' %s", printable_name(shown, sizeof shown, name),
                      what);
}
