/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A file name may hold any byte. The message stays one line and cannot control a terminal. */
static void keep_one_line(struct rc_err *err)
{
    for (char *c = err->msg; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

int rc_err_set(struct rc_err *err, int code, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    keep_one_line(err);
    return code;
}

int rc_err_errno(struct rc_err *err, int code, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    const char *reason = strerror(-code);
    size_t room = sizeof err->msg - strlen(": ") - strnlen(reason, 100);
    size_t len = n >= 0 && (size_t)n < room ? (size_t)n : room - 1; /* a cut name, a whole reason */
    if (n >= 0)
        (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s", reason);
    keep_one_line(err);
    return code;
}

int rc_err_wrap(struct rc_err *err, int code, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    char inner[sizeof err->msg];
    memcpy(inner, err->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        (void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", inner);
    keep_one_line(err);
    return code;
}
