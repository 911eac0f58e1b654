/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's snapshot in the shape of torch.cuda.memory._snapshot(), without a history of events. */
#include "cli/export_torch.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cli/pickle.h"

#define DEVICES_MAX 64

static double number_in(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void put_item(cJSON *object, const char *key, cJSON *item)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    if (!cJSON_AddItemToObject(object, key, item))
        cJSON_Delete(item);
}

/* "train.py:12 step", as the hook writes it; a name may hold colons and blanks. */
static cJSON *frame_of(const char *text)
{
    const char *colon = NULL;
    for (const char *at = strchr(text, ':'); at != NULL; at = strchr(at + 1, ':')) {
        if (isdigit((unsigned char)at[1]) && at[1 + strspn(at + 1, "0123456789")] == ' ')
            colon = at;
    }
    const char *name = colon != NULL ? strchr(colon, ' ') + 1 : "";
    RC_AUTO_FREE char *file = strndup(text, colon != NULL ? (size_t)(colon - text) : strlen(text));
    cJSON *frame = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(frame, "filename", file != NULL ? file : "");
    (void)cJSON_AddNumberToObject(frame, "line", colon != NULL ? strtod(colon + 1, NULL) : 0);
    (void)cJSON_AddStringToObject(frame, "name", name);
    return frame;
}

static void shape_block(cJSON *block, double address)
{
    cJSON *frames = cJSON_CreateArray();
    const cJSON *line = NULL;
    cJSON_ArrayForEach(line, cJSON_GetObjectItemCaseSensitive(block, "at"))
    {
        cJSON *frame = cJSON_IsString(line) ? frame_of(line->valuestring) : NULL;
        if (frame != NULL && !cJSON_AddItemToArray(frames, frame))
            cJSON_Delete(frame);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(block, "at");
    put_item(block, "frames", frames);
    put_item(block, "address", cJSON_CreateNumber(address));
    if (!cJSON_HasObjectItem(block, "requested_size"))
        put_item(block, "requested_size", cJSON_CreateNumber(number_in(block, "size")));
}

static void add_lump(cJSON *blocks, double bytes, const char *state)
{
    cJSON *block = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(block, "size", bytes);
    (void)cJSON_AddStringToObject(block, "state", state);
    if (bytes <= 0 || !cJSON_AddItemToArray(blocks, block))
        cJSON_Delete(block);
}

/* A segment with too many blocks has only sums from the hook: one in use, one idle. */
static cJSON *lumps_of(const cJSON *segment)
{
    double idle = number_in(segment, "inactive_size");
    cJSON *blocks = cJSON_CreateArray();
    add_lump(blocks, number_in(segment, "total_size") - idle, "active_allocated");
    add_lump(blocks, idle, "inactive");
    return blocks;
}

static void shape_segment(cJSON *segment, unsigned *lumped, unsigned *devices)
{
    cJSON *block = NULL;
    double address = number_in(segment, "address");
    double device = number_in(segment, "device");
    if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(segment, "blocks"))) {
        put_item(segment, "blocks", lumps_of(segment));
        (*lumped)++;
    }
    cJSON_ArrayForEach(block, cJSON_GetObjectItemCaseSensitive(segment, "blocks"))
    {
        shape_block(block, address);
        address += number_in(block, "size");
    }
    put_item(segment, "frames", cJSON_CreateArray());
    if (device >= *devices && device < DEVICES_MAX)
        *devices = (unsigned)device + 1;
}

int export_torch(const char *snapshot_json, struct buf *out, unsigned *ret_lumped, struct rc_err *err)
{
    cJSON *all = cJSON_Parse(snapshot_json);
    cJSON *segments = cJSON_DetachItemFromObjectCaseSensitive(all, "segments");
    cJSON *segment = NULL;
    unsigned devices = 1;
    cJSON_Delete(all);
    *ret_lumped = 0;
    if (!cJSON_IsArray(segments)) {
        cJSON_Delete(segments);
        return rc_err_set(err, -EBADMSG, "hook/snapshot.json has no list of segments");
    }
    cJSON_ArrayForEach(segment, segments) shape_segment(segment, ret_lumped, &devices);
    cJSON *traces = cJSON_CreateArray();
    for (unsigned i = 0; i < devices; i++)
        (void)cJSON_AddItemToArray(traces, cJSON_CreateArray());
    cJSON *snapshot = cJSON_CreateObject();
    put_item(snapshot, "segments", segments);
    put_item(snapshot, "device_traces", traces);
    pickle_write(snapshot, out);
    cJSON_Delete(snapshot);
    return buf_failed(out) ? rc_err_set(err, -ENOMEM, "the snapshot is too large") : 0;
}
