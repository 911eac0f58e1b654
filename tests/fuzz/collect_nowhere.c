/* SPDX-License-Identifier: Apache-2.0 */
/* The collectors' output functions for fuzz targets: they read all their arguments, and keep nothing. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collector.h"

static volatile size_t seen;

static void see(const char *text)
{
    if (text == NULL)
        abort();
    seen += strlen(text);
}

int collect_open(struct collect_out *out, const char *name)
{
    (void)out;
    see(name);
    return -EACCES;
}

int collect_write(struct collect_out *out, const char *name, const void *data, size_t len)
{
    (void)out;
    see(name);
    for (size_t i = 0; i < len; i++)
        seen += ((const unsigned char *)data)[i];
    return 0;
}

void collect_integer(struct collect_out *out, const char *name, enum fact_when when, int64_t value,
                     const char *source)
{
    (void)out, (void)when, (void)value;
    see(name);
    see(source);
}

void collect_text(struct collect_out *out, const char *name, enum fact_when when, const char *value,
                  const char *source)
{
    (void)out, (void)when;
    see(name);
    see(value);
    see(source);
}

void collect_boolean(struct collect_out *out, const char *name, enum fact_when when, bool value,
                     const char *source)
{
    (void)out, (void)when, (void)value;
    see(name);
    see(source);
}

void collect_missing(struct collect_out *out, const char *name, enum fact_when when,
                     enum fact_status status, const char *reason, const char *source)
{
    (void)out, (void)when, (void)status;
    see(name);
    see(reason);
    see(source);
}

enum collect_status collect_reason(struct collect_out *out, enum collect_status status,
                                   const char *fmt, ...)
{
    char text[1024];
    va_list list;
    (void)out;
    va_start(list, fmt);
    (void)vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    see(text);
    return status;
}
