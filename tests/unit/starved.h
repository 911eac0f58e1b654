/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one allocation of the test program fail. Included by one source file of an rc_unit_test() that is STARVED.
 */
#ifndef TEST_STARVED_H
#define TEST_STARVED_H

#include <stdbool.h>
#include <stddef.h>

/* Allocations until the one that fails; negative = no further one fails. */
static long allocations_left = -1;

static bool starved(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t size);

void *__wrap_malloc(size_t size)
{
    return starved() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return starved() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return starved() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *s)
{
    return starved() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t size)
{
    return starved() ? NULL : __real_strndup(s, size);
}

#endif
