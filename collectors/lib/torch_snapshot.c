/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/torch_snapshot.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "collectors/lib/cleantext.h"

#define MIB ((int64_t)1 << 20)
#define STREAMS_MAX 64

struct reading {
    struct torch_snapshot *ret;
    int64_t stream_of[STREAMS_MAX];
    int64_t stream_idle[STREAMS_MAX];
    int stream_count;
    struct torch_live live;
};

static int64_t number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 9e15)
        return 0;
    return (int64_t)item->valuedouble;
}

/* The file is not trusted. */
static void add(int64_t *sum, int64_t value)
{
    *sum = number_sum(*sum, value);
}

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

/* "segment_pool_id": [0, 0] is the common pool; a graph's own has another number. */
static bool is_private(const cJSON *segment)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(segment, "segment_pool_id");
    const cJSON *part;
    cJSON_ArrayForEach(part, id)
    {
        if (cJSON_IsNumber(part) && part->valuedouble != 0)
            return true;
    }
    return false;
}

static void count_class(struct reading *r, int64_t size)
{
    static const int64_t limits[TORCH_CLASSES - 1] = {MIB, 10 * MIB, 100 * MIB, 1024 * MIB};
    size_t at = 0;
    while (at < TORCH_CLASSES - 1 && size > limits[at])
        at++;
    add(&r->live.classes[at].bytes, size);
    r->live.classes[at].blocks++;
}

/* "train.py:23 new_tensor < train.py:120 step": a helper alone does not tell whose memory it is.
 * inject/python/rocmcrash_blocks.py has the same in _site_of(). */
static void site_of(const cJSON *frames, char where[TORCH_SITE_MAX])
{
    size_t len = 0;
    for (int i = 0; i < TORCH_SITE_FRAMES && len < TORCH_SITE_MAX; i++) {
        const char *frame = cJSON_GetStringValue(cJSON_GetArrayItem(frames, i));
        int n = frame == NULL ? 0
                              : snprintf(where + len, TORCH_SITE_MAX - len, "%s%s",
                                         i > 0 ? " < " : "", frame);
        len += n > 0 ? (size_t)n : 0;
    }
}

static void count_site(struct reading *r, const cJSON *block, int64_t size)
{
    const cJSON *frames = cJSON_GetObjectItemCaseSensitive(block, "at");
    char where[TORCH_SITE_MAX] = "";
    site_of(frames, where);
    if (where[0] == '\0')
        return;
    struct torch_live *live = &r->live;
    size_t at = 0;
    while (at < live->site_count &&
           (live->sites[at].where == NULL || strcmp(live->sites[at].where, where) != 0))
        at++;
    if (at == TORCH_SITES_MAX)
        return;
    if (at == live->site_count)
        live->sites[live->site_count++] = (struct torch_site){.where = strdup(where)};
    add(&live->sites[at].bytes, size);
    live->sites[at].blocks++;
}

/* Idle bytes of the segment and its largest idle block. */
static int64_t read_blocks(struct reading *r, const cJSON *segment, int64_t *ret_largest)
{
    struct torch_snapshot *s = r->ret;
    const cJSON *blocks = cJSON_GetObjectItemCaseSensitive(segment, "blocks");
    const cJSON *block;
    int64_t idle = 0;
    *ret_largest = 0;
    if (blocks == NULL) { /* too many: inject/python wrote their sums */
        add(&s->blocks, number(segment, "blocks_omitted"));
        s->cut = true;
        *ret_largest = number(segment, "largest_inactive");
        return number(segment, "inactive_size");
    }
    cJSON_ArrayForEach(block, blocks)
    {
        int64_t size = number(block, "size");
        s->blocks++;
        if (strcmp(text_of(block, "state"), "inactive") == 0) {
            add(&idle, size);
            *ret_largest = size > *ret_largest ? size : *ret_largest;
        } else {
            count_class(r, size);
            count_site(r, block, size);
        }
    }
    return idle;
}

static void count_stream(struct reading *r, int64_t stream, int64_t idle)
{
    int at = 0;
    while (at < r->stream_count && r->stream_of[at] != stream)
        at++;
    if (at == STREAMS_MAX)
        return;
    if (at == r->stream_count)
        r->stream_of[r->stream_count++] = stream;
    add(&r->stream_idle[at], idle);
}

static void read_segment(struct reading *r, const cJSON *segment)
{
    struct torch_snapshot *s = r->ret;
    int64_t total = number(segment, "total_size");
    int64_t largest = 0;
    int64_t idle = read_blocks(r, segment, &largest);
    s->segments++;
    add(&s->reserved_bytes, total);
    add(&s->used_bytes, total - idle);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(segment, "is_expandable")))
        add(&s->expandable_bytes, total);
    if (is_private(segment)) {
        add(&s->private_bytes, total);
        add(&s->private_idle_bytes, idle);
        return;
    }
    add(&s->idle_bytes, idle);
    if (idle < total)
        add(&s->split_bytes, idle);
    else
        add(&s->free_segment_bytes, idle);
    if (largest > s->largest_idle_bytes)
        s->largest_idle_bytes = largest;
    if (largest > s->largest_idle_large_bytes &&
        strcmp(text_of(segment, "segment_type"), "small") != 0)
        s->largest_idle_large_bytes = largest;
    count_stream(r, number(segment, "stream"), idle);
}

static void finish(struct reading *r)
{
    struct torch_snapshot *s = r->ret;
    s->streams = r->stream_count;
    for (int i = 0; i < r->stream_count; i++)
        if (r->stream_idle[i] > s->largest_stream_idle_bytes)
            s->largest_stream_idle_bytes = r->stream_idle[i];
    if (s->idle_bytes > 0)
        s->fragmentation_percent =
            100.0 * (1.0 - (double)s->largest_idle_bytes / (double)s->idle_bytes);
    memcpy(s->classes, r->live.classes, sizeof s->classes);
    for (size_t i = 0; i < r->live.site_count; i++) {
        const struct torch_site *site = &r->live.sites[i];
        if (site->where == NULL || site->bytes <= s->largest_site_bytes)
            continue;
        s->largest_site_bytes = site->bytes;
        cleantext_copy(s->largest_site, sizeof s->largest_site, site->where, strlen(site->where));
    }
}

static void read_segments(struct reading *r, const cJSON *list, int device)
{
    const cJSON *segment;
    cJSON_ArrayForEach(segment, list)
    {
        if (device < 0 || number(segment, "device") == device)
            read_segment(r, segment);
    }
    finish(r);
}

/* The caller releases `live`, also after an error. */
static int read_snapshot(const char *text, size_t len, int device, struct torch_snapshot *ret,
                         struct torch_live *live)
{
    struct reading *r = calloc(1, sizeof *r);
    cJSON *json = cJSON_ParseWithLength(text, len);
    const cJSON *list =
        cJSON_IsObject(json) ? cJSON_GetObjectItemCaseSensitive(json, "segments") : json;
    *ret = (struct torch_snapshot){0};
    *live = (struct torch_live){.sites = calloc(TORCH_SITES_MAX, sizeof *live->sites)};
    int result = r == NULL || live->sites == NULL ? -ENOMEM : cJSON_IsArray(list) ? 0 : -EINVAL;
    if (result == 0) {
        r->ret = ret;
        r->live = *live;
        torch_class_names(r->live.classes);
        ret->cut = number(json, "segments_omitted") > 0;
        read_segments(r, list, device);
        *live = r->live;
        result = ret->cut ? -ENODATA : 0;
    }
    cJSON_Delete(json);
    free(r);
    return result;
}

int torch_snapshot_read(const char *text, size_t len, int device, struct torch_snapshot *ret)
{
    struct torch_live live;
    int r = read_snapshot(text, len, device, ret, &live);
    torch_live_release(&live);
    return r == -ENODATA ? 0 : r;
}

int torch_live_of_snapshot(const char *text, size_t len, int device, struct torch_live *ret)
{
    struct torch_snapshot snapshot;
    int r = read_snapshot(text, len, device, &snapshot, ret);
    if (r != 0)
        torch_live_release(ret);
    return r;
}
