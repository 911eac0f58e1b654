/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/kernel_timeline.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/text_facts.h"

#define BLOCK_LINES 16
#define SAME_BYTES 24 /* records that begin alike are listed once */
#define SAID_MAX 100

bool timeline_device_of(struct text record, char ret[DEVICE_NAME_SIZE])
{
    for (size_t i = 0; i + 12 <= record.len; i++) {
        const char *p = record.at + i;
        if (p[4] != ':' || p[7] != ':' || p[10] != '.' || !isxdigit((unsigned char)p[0]) ||
            !isxdigit((unsigned char)p[5]) || !isdigit((unsigned char)p[11]))
            continue;
        (void)text_copy((struct text){p, 12}, ret, DEVICE_NAME_SIZE);
        return true;
    }
    return false;
}

static struct timeline_device *find(struct timeline *t, const char *name)
{
    for (unsigned i = 0; i < t->count; i++)
        if (strcmp(t->device[i].name, name) == 0)
            return &t->device[i];
    if (t->count == TIMELINE_DEVICES_MAX)
        return NULL;
    struct timeline_device *d = &t->device[t->count++];
    (void)snprintf(d->name, sizeof d->name, "%s", name);
    return d;
}

static struct timeline_device *device_for(struct timeline *t, const struct timeline_event *e)
{
    char name[DEVICE_NAME_SIZE] = "";
    if (strcmp(e->class_name, "host-oom") == 0)
        return find(t, "host");
    bool named = timeline_device_of(e->text, name);
    if (!named && t->last_line > 0 && e->line - t->last_line <= BLOCK_LINES)
        return &t->device[t->last];
    struct timeline_device *d = find(t, name);
    if (named && d != NULL) {
        t->last = (unsigned)(d - t->device);
        t->last_line = e->line;
    }
    return d;
}

/* "amdgpu 0000:83:00.0: amdgpu: GPU reset begin!" -> "GPU reset begin!" */
static struct text without_device(struct text text)
{
    char name[DEVICE_NAME_SIZE];
    struct text rest = text;
    if (timeline_device_of(text, name) && text_after(text, name, &rest) && text_starts(rest, ": "))
        text = text_skip(rest, 2);
    while (text_starts(text, "amdgpu: "))
        text = text_skip(text, 8);
    return text_trim(text);
}

static void describe_event(const struct timeline_event *e, char *out, size_t size, size_t most)
{
    struct text text = text_first(without_device(e->text), most);
    int n = e->at >= 0 ? snprintf(out, size, "%.3f s: ", e->at) : 0;
    (void)snprintf(out + n, size - (size_t)n, "%.*s", (int)text.len, text.at);
}

static void add_followed(struct timeline_device *d, const struct timeline_event *e)
{
    char said[SAID_MAX + 32], start[SAME_BYTES + 1];
    size_t used = strlen(d->followed);
    describe_event(e, said, sizeof said, SAID_MAX);
    (void)text_copy(without_device(e->text), start, sizeof start);
    if (strstr(d->followed, start) != NULL)
        return;
    if (used + strlen(said) + 3 > sizeof d->followed)
        d->left_out++;
    else
        (void)snprintf(d->followed + used, sizeof d->followed - used, "%s%s", used > 0 ? "; " : "", said);
}

void timeline_add(struct timeline *t, const struct timeline_event *e)
{
    struct timeline_device *d = device_for(t, e);
    if (d == NULL)
        return;
    if (d->first == NULL) {
        d->first = e->class_name;
        d->line = e->line;
        d->fragment = e->follows;
        describe_event(e, d->cause, sizeof d->cause, sizeof d->cause - 24);
    } else if (e->follows || strcmp(d->last, e->class_name) != 0) {
        add_followed(d, e);
    }
    d->last = e->class_name;
}

static void emit_device(const struct timeline_device *d, unsigned index, const struct scan *s)
{
    char name[SCAN_NAME_MAX], followed[TIMELINE_FOLLOWED_BYTES + 24];
    int n = snprintf(followed, sizeof followed, "%s", d->followed);
    if (d->left_out > 0)
        (void)snprintf(followed + n, sizeof followed - (size_t)n, "; %u more", d->left_out);
    const char *const texts[][2] = {
        {"device", d->name[0] != '\0' ? d->name : "not named"},
        {"first", d->first},
        {d->fragment ? "fragment" : "cause", d->cause},
        {"followed", followed},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        (void)snprintf(name, sizeof name, "kmsg.device.%u.%s", index, texts[i][0]);
        if (texts[i][1][0] != '\0')
            scan_text(s, name, text_of(texts[i][1]));
    }
}

void timeline_emit(const struct timeline *t, const struct scan *s)
{
    if (facts_find(s->facts, "kmsg.device.0.first", FACT_LOG) != NULL)
        return; /* only for the original text, before its lines were joined or completed */
    for (unsigned i = 0; i < t->count; i++) {
        const struct timeline_device *d = &t->device[i];
        struct scan at = *s;
        at.line = d->line;
        emit_device(d, i, &at);
        bool elsewhere = i > 0 && strcmp(d->first, "hw-ras") == 0 && strcmp(t->device[0].first, "hw-ras") != 0;
        if (elsewhere && d->name[0] != '\0' && strcmp(t->device[0].name, "host") != 0)
            scan_text(&at, "event.hardware_elsewhere", text_of(d->cause));
    }
}
