/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/hook.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "collectors/lib/cleantext.h"

#define EVENTS_MAX 20000
#define PROCESSES_MAX 256
#define FUNCTIONS_MAX 24

int64_t hook_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 9e15)
        return -1;
    return (int64_t)item->valuedouble;
}

const char *hook_string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

static void put_clean(struct buf *out, const char *text)
{
    char clean[1024];
    cleantext_copy(clean, sizeof clean, text, strlen(text));
    buf_puts(out, clean);
}

/* ["train.py", 12, "step"] */
static void put_frames(const cJSON *frames, struct buf *out)
{
    const cJSON *frame;
    cJSON_ArrayForEach(frame, frames)
    {
        const char *file = cJSON_GetStringValue(cJSON_GetArrayItem(frame, 0));
        const cJSON *line = cJSON_GetArrayItem(frame, 1);
        const char *function = cJSON_GetStringValue(cJSON_GetArrayItem(frame, 2));
        if (file == NULL || function == NULL || !cJSON_IsNumber(line))
            continue;
        buf_puts(out, "  File \"");
        put_clean(out, file);
        buf_printf(out, "\", line %d, in ", line->valueint);
        put_clean(out, function);
        buf_putc(out, '\n');
    }
}

void hook_stacks_text(const cJSON *record, struct buf *out)
{
    const cJSON *thread;
    cJSON_ArrayForEach(thread, cJSON_GetObjectItemCaseSensitive(record, "stacks"))
    {
        bool current = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(thread, "current"));
        if (out->len > 0)
            buf_putc(out, '\n');
        buf_printf(out, "Thread 0x%llx%s, innermost first:\n",
                   (unsigned long long)hook_number(thread, "thread"),
                   current ? " (the one that asked for memory or failed)" : "");
        put_frames(cJSON_GetObjectItemCaseSensitive(thread, "frames"), out);
    }
}

/* Autograd's own threads have no Python frames: then show the thread that waits for them. */
static const cJSON *frames_that_asked(const cJSON *record)
{
    const cJSON *stacks = cJSON_GetObjectItemCaseSensitive(record, "stacks");
    const cJSON *thread;
    const cJSON *asked = cJSON_GetArrayItem(stacks, 0);
    cJSON_ArrayForEach(thread, stacks)
    {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(thread, "current")))
            asked = thread;
    }
    return cJSON_GetObjectItemCaseSensitive(asked, "frames");
}

void hook_functions_text(const cJSON *record, struct buf *out)
{
    int told = 0;
    const cJSON *frame;
    cJSON_ArrayForEach(frame, frames_that_asked(record))
    {
        const char *function = cJSON_GetStringValue(cJSON_GetArrayItem(frame, 2));
        if (function == NULL || told++ == FUNCTIONS_MAX)
            break;
        if (out->len > 0)
            buf_puts(out, " < ");
        put_clean(out, function);
    }
}

void hook_exception_text(const cJSON *exception, struct buf *out)
{
    const cJSON *link;
    cJSON_ArrayForEach(link, cJSON_GetObjectItemCaseSensitive(exception, "chain"))
    {
        if (out->len > 0)
            buf_puts(out, "\nwhile handling, or because of:\n");
        put_clean(out, hook_string(link, "type"));
        buf_puts(out, ": ");
        put_clean(out, hook_string(link, "message"));
        buf_puts(out, "\nInnermost first:\n");
        put_frames(cJSON_GetObjectItemCaseSensitive(link, "frames"), out);
    }
}

bool hook_exception_is_oom(const cJSON *exception)
{
    static const char *const words[] = {"out of memory", "hipErrorOutOfMemory",
                                        "RESOURCE_EXHAUSTED", "_ALLOC_FAILED"};
    const cJSON *link;
    cJSON_ArrayForEach(link, cJSON_GetObjectItemCaseSensitive(exception, "chain"))
    {
        if (strstr(hook_string(link, "type"), "OutOfMemory") != NULL)
            return true;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strstr(hook_string(link, "message"), words[i]) != NULL)
                return true;
    }
    return false;
}

/* Reads the size in "Tried to allocate 1.50 GiB. GPU 0 has"; false if the message has none. */
static bool message_asked(const char *message, double *ret_bytes, double *ret_unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{" bytes", 1}, {" KiB", 0x1p10}, {" MiB", 0x1p20}, {" GiB", 0x1p30}};
    static const char tried[] = "Tried to allocate ";
    const char *at = strstr(message, tried);
    if (at == NULL)
        return false;
    char *end;
    double value = strtod(at + sizeof tried - 1, &end);
    for (size_t i = 0; end != at && i < sizeof units / sizeof units[0]; i++)
        if (strncmp(end, units[i].name, strlen(units[i].name)) == 0) {
            *ret_bytes = value * units[i].bytes;
            *ret_unit = units[i].bytes;
            return true;
        }
    return false;
}

enum hook_asked hook_exception_requested(const cJSON *exception, int64_t bytes)
{
    const cJSON *link;
    double asked = 0;
    double unit = 0;
    cJSON_ArrayForEach(link, cJSON_GetObjectItemCaseSensitive(exception, "chain"))
    {
        if (!message_asked(hook_string(link, "message"), &asked, &unit))
            continue;
        double difference = asked - (double)bytes;
        return difference <= unit / 100 && -difference <= unit / 100 ? HOOK_ASKED_SAME
                                                                     : HOOK_ASKED_OTHER;
    }
    return HOOK_ASKED_UNKNOWN;
}

void hook_add_trouble(struct hook_events *events, const char *text)
{
    size_t n = strlen(events->trouble);
    char part[224];
    cleantext_copy(part, sizeof part, text, strlen(text));
    if (part[0] != '\0' && strstr(events->trouble, part) == NULL)
        (void)snprintf(events->trouble + n, sizeof events->trouble - n, "%s%s", n > 0 ? "; " : "",
                       part);
}

static void note_trouble(struct hook_events *ret, const cJSON *event)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%s: %s", hook_string(event, "where"),
                   hook_string(event, "error"));
    hook_add_trouble(ret, text);
}

static void note_event(struct hook_events *ret, const cJSON *event, int64_t pid)
{
    const char *what = hook_string(event, "what");
    bool own = pid == 0 || hook_number(event, "pid") == pid;
    if (strcmp(what, "trouble") == 0)
        note_trouble(ret, event);
    if (strcmp(what, "exception") == 0 && own)
        ret->exception = event;
    if (strcmp(what, "thread exception") == 0 && own)
        ret->thread_exception = event;
    if (strcmp(what, "torch") == 0 && (own || ret->version[0] == '\0')) {
        ret->version = hook_string(event, "version");
        ret->build = hook_string(event, "build");
    }
    if (strcmp(what, "device") == 0 && own)
        ret->device = event;
}

static int count_processes(const cJSON *list)
{
    int64_t seen[PROCESSES_MAX];
    int count = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, list)
    {
        int64_t pid = hook_number(event, "pid");
        int at = 0;
        while (at < count && seen[at] != pid)
            at++;
        if (at == count && count < PROCESSES_MAX)
            seen[count++] = pid;
    }
    return count;
}

int hook_events_read(char *text, int64_t pid, struct hook_events *ret)
{
    *ret = (struct hook_events){.version = "", .build = ""};
    ret->list = cJSON_CreateArray();
    if (ret->list == NULL)
        return -ENOMEM;
    char *rest = NULL;
    int count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && count < EVENTS_MAX;
         line = strtok_r(NULL, "\n", &rest), count++) {
        cJSON *event = cJSON_Parse(line);
        if (cJSON_IsObject(event))
            (void)cJSON_AddItemToArray(ret->list, event);
        else
            cJSON_Delete(event); /* torn: the process was killed while it wrote */
    }
    const cJSON *event;
    cJSON_ArrayForEach(event, ret->list)
    {
        note_event(ret, event, pid);
    }
    ret->processes = count_processes(ret->list);
    return 0;
}

void hook_events_release(struct hook_events *events)
{
    cJSON_Delete(events->list);
    events->list = NULL;
}
