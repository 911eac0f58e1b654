/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finisher's own calls of malloc() and its relatives come here by the linker's --wrap; cJSON's
 * by its hooks. Other libraries answer with errors of their own, which are looked at.
 */
#include "cli/memory_watch.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

extern void *__real_malloc(size_t size);
extern void *__real_calloc(size_t count, size_t size);
extern void *__real_realloc(void *old, size_t size);
extern char *__real_strdup(const char *text);
extern char *__real_strndup(const char *text, size_t max);
extern void *__wrap_malloc(size_t size);
extern void *__wrap_calloc(size_t count, size_t size);
extern void *__wrap_realloc(void *old, size_t size);
extern char *__wrap_strdup(const char *text);
extern char *__wrap_strndup(const char *text, size_t max);

static void *counted(void *memory)
{
    if (memory == NULL)
        memory_was_refused();
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    return counted(__real_realloc(old, size));
}

char *__wrap_strdup(const char *text)
{
    return counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t max)
{
    return counted(__real_strndup(text, max));
}

void memory_watch_start(void)
{
    cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
}
