/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/condition.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/room.h"
#include "record/shared.h"
#include "telemetry/segment.h"

#define CHUNK_BYTES (SHARED_SAMPLE_RING_BYTES / 2) /* ring_read() gives no more */
#define SLACK 0.05 /* of the threshold: how far the value must fall back before the next crossing */
#define NONE 0

enum combine { LARGEST, TOGETHER };

/* `used` divided by `scale` is in `unit`. Where there is a `total`, a condition may give a percentage of it. */
static const struct quantity {
    const char *name;
    uint16_t used, total; /* enum metric, NONE = none */
    enum metric_scope scope;
    enum combine combine; /* of several GPUs or processes */
    enum condition_unit unit;
    double scale;
    bool is_free; /* `used` holds the free part of the total */
    enum { BY_SAMPLES, IDLE, SILENT, STEP } time; /* one of struct condition_times instead of a sample */
} quantities[] = {
    {"vram", METRIC_GPU_VRAM_USED, METRIC_GPU_VRAM_TOTAL, SCOPE_GPU, LARGEST, UNIT_BYTES, 1, false, BY_SAMPLES},
    {"gtt", METRIC_GPU_GTT_USED, METRIC_GPU_GTT_TOTAL, SCOPE_GPU, LARGEST, UNIT_BYTES, 1, false, BY_SAMPLES},
    {"busy", METRIC_GPU_BUSY, NONE, SCOPE_GPU, LARGEST, UNIT_PERCENT, 1, false, BY_SAMPLES},
    {"temperature", METRIC_GPU_TEMP_JUNCTION, NONE, SCOPE_GPU, LARGEST, UNIT_DEGREES, 1000, false, BY_SAMPLES},
    {"power", METRIC_GPU_POWER, NONE, SCOPE_GPU, LARGEST, UNIT_WATTS, 1e6, false, BY_SAMPLES},
    {"rss", METRIC_PROC_RSS, NONE, SCOPE_PROCESS, TOGETHER, UNIT_BYTES, 1, false, BY_SAMPLES},
    {"swap", METRIC_PROC_SWAP, NONE, SCOPE_PROCESS, TOGETHER, UNIT_BYTES, 1, false, BY_SAMPLES},
    {"fds", METRIC_PROC_FDS, METRIC_PROC_FDS_LIMIT, SCOPE_PROCESS, LARGEST, UNIT_COUNT, 1, false, BY_SAMPLES},
    {"maps", METRIC_PROC_MAPS, NONE, SCOPE_PROCESS, LARGEST, UNIT_COUNT, 1, false, BY_SAMPLES},
    {"threads", METRIC_PROC_THREADS, NONE, SCOPE_PROCESS, LARGEST, UNIT_COUNT, 1, false, BY_SAMPLES},
    {"memory", METRIC_HOST_MEM_AVAILABLE, METRIC_HOST_MEM_TOTAL, SCOPE_HOST, LARGEST, UNIT_BYTES, 1, true, BY_SAMPLES},
    {"cgroup", METRIC_CGROUP_MEM_USED, METRIC_CGROUP_MEM_LIMIT, SCOPE_HOST, LARGEST, UNIT_BYTES, 1, false, BY_SAMPLES},
    {"idle", NONE, NONE, SCOPE_HOST, LARGEST, UNIT_SECONDS, 1, false, IDLE},
    {"silent", NONE, NONE, SCOPE_HOST, LARGEST, UNIT_SECONDS, 1, false, SILENT},
    {"step", NONE, NONE, SCOPE_HOST, LARGEST, UNIT_SECONDS, 1, false, STEP},
};

#define UNREAD_AFTER_S 3u
#define QUANTITIES (sizeof quantities / sizeof quantities[0])

/* --- the text --- */

static const struct {
    const char *name;
    enum condition_unit unit;
    double factor;
} units[] = {
    {"%", UNIT_PERCENT, 1},         {"B", UNIT_BYTES, 1},           {"KiB", UNIT_BYTES, 1024.0},
    {"MiB", UNIT_BYTES, 1048576.0}, {"GiB", UNIT_BYTES, 0x1p30},    {"TiB", UNIT_BYTES, 0x1p40},
    {"kB", UNIT_BYTES, 1e3},        {"MB", UNIT_BYTES, 1e6},        {"GB", UNIT_BYTES, 1e9},
    {"s", UNIT_SECONDS, 1},         {"m", UNIT_SECONDS, 60},        {"h", UNIT_SECONDS, 3600},
    {"C", UNIT_DEGREES, 1},         {"W", UNIT_WATTS, 1},           {"", UNIT_COUNT, 1},
};

static bool allows(const struct quantity *q, enum condition_unit unit)
{
    return unit == q->unit || (unit == UNIT_PERCENT && q->total != NONE);
}

static const char *units_of(const struct quantity *q)
{
    switch (q->unit) {
    case UNIT_BYTES:
        return q->total != NONE ? "% (0 to 100) or a size like 10GiB" : "a size like 10GiB";
    case UNIT_SECONDS:
        return "a time like 120s or 10m";
    case UNIT_DEGREES:
        return "degrees Celsius like 95C";
    case UNIT_WATTS:
        return "watts like 300W";
    case UNIT_PERCENT:
        return "% (0 to 100)";
    default:
        return q->total != NONE ? "% (0 to 100) or a number" : "a number";
    }
}

void conditions_names(char *out, unsigned size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < QUANTITIES && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "", quantities[i].name);
}

static int no_such_quantity(const char *text, struct rc_err *err)
{
    char names[160];
    conditions_names(names, sizeof names);
    return rc_err_set(err, -EINVAL, "a condition is like vram>90%%, of %s; not '%.40s'", names, text);
}

/* The part in front of "<" or ">": a name, perhaps with "_growth". */
static int parse_quantity(const char *text, size_t length, struct condition *ret, bool *ret_growth)
{
    static const char behind[] = "_growth";
    size_t tail = sizeof behind - 1;
    *ret_growth = length > tail && memcmp(text + length - tail, behind, tail) == 0;
    if (*ret_growth)
        length -= tail;
    for (unsigned i = 0; i < QUANTITIES; i++) {
        if (strlen(quantities[i].name) == length && memcmp(quantities[i].name, text, length) == 0) {
            ret->quantity = i;
            return !*ret_growth || quantities[i].unit == UNIT_BYTES ? 0 : -EINVAL;
        }
    }
    return -EINVAL;
}

static int parse_unit(const char *text, bool growth, struct condition *ret)
{
    size_t length = strlen(text);
    if (growth) {
        size_t slash = strcspn(text, "/");
        ret->growth_s = strcmp(text + slash, "/min") == 0 ? 60 : strcmp(text + slash, "/s") == 0 ? 5 : 0;
        length = slash;
        if (ret->growth_s == 0)
            return -EINVAL;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strlen(units[i].name) != length || memcmp(units[i].name, text, length) != 0)
            continue;
        ret->unit = units[i].unit;
        ret->threshold *= units[i].factor;
        if (ret->growth_s == 60)
            ret->threshold /= 60;
        return growth && ret->unit != UNIT_BYTES ? -EINVAL : 0;
    }
    return -EINVAL;
}

static int parse_one(const char *text, struct condition *ret, struct rc_err *err)
{
    bool growth = false;
    size_t length = strcspn(text, "<>");
    *ret = (struct condition){.below = text[length] == '<'};
    if (strlen(text) >= sizeof ret->text || text[length] == '\0' ||
        parse_quantity(text, length, ret, &growth) < 0)
        return no_such_quantity(text, err);
    (void)snprintf(ret->text, sizeof ret->text, "%s", text);
    const struct quantity *q = &quantities[ret->quantity];
    const char *number = text + length + 1;
    char *rest = NULL;
    if (isdigit((unsigned char)number[0]))
        ret->threshold = strtod(number, &rest);
    if (rest == NULL || !isfinite(ret->threshold) || number[1] == 'x' || number[1] == 'X' || parse_unit(rest, growth, ret) < 0 ||
        !allows(q, ret->unit) || (ret->unit == UNIT_PERCENT && ret->threshold > 100))
        return rc_err_set(err, -EINVAL, "'%.40s': %.20s%s is compared with %s", text, q->name,
                          growth ? "_growth" : "",
                          growth ? "a growth like 1GiB/min or 10MiB/s" : units_of(q));
    return 0;
}

int conditions_parse(const char *text, struct condition_list *ret, struct rc_err *err)
{
    struct condition_list list = {.count = 0};
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        char one[CONDITION_TEXT_MAX + 1];
        at += *at == ',';
        size_t length = strcspn(at, ",");
        (void)snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one), at);
        if (list.count == CONDITIONS_MAX)
            return rc_err_set(err, -EINVAL, "at most %d conditions", CONDITIONS_MAX);
        int r = parse_one(one, &list.list[list.count], err);
        if (r < 0)
            return r;
        list.count++;
    }
    *ret = list;
    return 0;
}

uint32_t conditions_idle_ms(const struct condition_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        if (quantities[list->list[i].quantity].time == IDLE && list->list[i].threshold < UINT32_MAX / 1000.0)
            return (uint32_t)(list->list[i].threshold * 1000);
    return 0;
}

static bool has(const struct condition_list *list, int time)
{
    for (unsigned i = 0; i < list->count; i++)
        if ((int)quantities[list->list[i].quantity].time == time)
            return true;
    return false;
}

bool conditions_need_output(const struct condition_list *list)
{
    return has(list, SILENT);
}

bool conditions_need_steps(const struct condition_list *list)
{
    return has(list, STEP);
}

/* --- the samples --- */

static void set_value(struct condition_value *v, const struct sample_entry *e)
{
    v->known = e->status == VALUE_OK;
    v->value = e->value;
}

static void take_process(struct condition_watch *w, const struct quantity *q, const struct sample_entry *e)
{
    int at = -1;
    for (int i = 0; i < CONDITION_PROCS_MAX && at < 0; i++)
        if (w->procs[i].pid == e->instance)
            at = i;
    for (int i = 0; i < CONDITION_PROCS_MAX && at < 0; i++)
        if (w->procs[i].pid == 0)
            at = i;
    if (at < 0)
        return;
    if (w->procs[at].pid == 0)
        memset(&w->procs[at], 0, sizeof w->procs[at]);
    w->procs[at].pid = e->instance;
    if (e->metric == METRIC_PROC_OUTSIDE)
        w->procs[at].outside = e->status == VALUE_OK && e->value != 0;
    else if (e->metric == q->used)
        set_value(&w->procs[at].used, e);
    else
        set_value(&w->procs[at].total, e);
    if (e->metric == q->used && e->status == VALUE_ABSENT)
        w->procs[at].pid = 0; /* it has ended */
}

static void take_entry(struct condition_watch *w, const struct sample_entry *e)
{
    const struct quantity *q = &quantities[w->condition.quantity];
    bool is_used = e->metric == q->used && q->used != NONE;
    bool is_total = e->metric == q->total && q->total != NONE;
    if (q->scope == SCOPE_PROCESS && (is_used || is_total || e->metric == METRIC_PROC_OUTSIDE))
        take_process(w, q, e);
    else if (q->scope == SCOPE_GPU && (is_used || is_total) && e->instance < CONDITION_GPUS_MAX)
        set_value(is_used ? &w->gpu_used[e->instance] : &w->gpu_total[e->instance], e);
    else if (q->scope == SCOPE_HOST && (is_used || is_total))
        set_value(is_used ? &w->host_used : &w->host_total, e);
}

static void take_all(struct condition_watches *ws, size_t length)
{
    struct sample_header header;
    size_t at = 0;
    size_t entries_at = 0;
    while (segment_next(ws->chunk, length, &at, &header, &entries_at, NULL)) {
        /* A full record names every process that is followed: the others have ended. */
        for (unsigned k = 0; (header.flags & SAMPLE_FULL) != 0 && k < ws->count; k++)
            memset(ws->list[k].procs, 0, sizeof ws->list[k].procs);
        for (uint32_t i = 0; i < header.entries; i++) {
            struct sample_entry e = segment_entry(ws->chunk, entries_at, i);
            for (unsigned k = 0; k < ws->count; k++)
                take_entry(&ws->list[k], &e);
        }
    }
}

/* --- evaluation --- */

/* Adds the value of one GPU, process or host; false if it is not known. */
static bool add_value(const struct condition_watch *w, const struct condition_value *used,
                      const struct condition_value *total, double *sum)
{
    const struct quantity *q = &quantities[w->condition.quantity];
    bool needs_total = q->is_free || (w->condition.unit == UNIT_PERCENT && q->total != NONE);
    if (!used->known || (needs_total && (!total->known || total->value == 0)))
        return false;
    double value = (double)used->value;
    if (q->is_free)
        value = (double)total->value - value;
    if (w->condition.unit == UNIT_PERCENT && q->total != NONE)
        value = value * 100 / (double)total->value;
    value /= q->scale;
    *sum = q->combine == TOGETHER ? *sum + value : value > *sum ? value : *sum;
    return true;
}

static bool value_now(const struct condition_watch *w, const struct condition_times *times, double *ret)
{
    const struct quantity *q = &quantities[w->condition.quantity];
    bool known = false;
    *ret = 0;
    if (q->time != BY_SAMPLES) {
        uint64_t ms = q->time == IDLE     ? times->idle_ms
                      : q->time == SILENT ? times->silent_ms
                                          : times->step_ms;
        *ret = (double)ms / 1000;
        return ms != CONDITION_TIME_UNKNOWN;
    }
    if (q->scope == SCOPE_HOST)
        known = add_value(w, &w->host_used, &w->host_total, ret);
    for (int i = 0; q->scope == SCOPE_GPU && i < CONDITION_GPUS_MAX; i++)
        known = add_value(w, &w->gpu_used[i], &w->gpu_total[i], ret) || known;
    for (int i = 0; q->scope == SCOPE_PROCESS && i < CONDITION_PROCS_MAX; i++)
        if (w->procs[i].pid != 0 && !w->procs[i].outside)
            known = add_value(w, &w->procs[i].used, &w->procs[i].total, ret) || known;
    return known;
}

/* Replaces *value by its growth per second over the condition's time. False: it has not been watched
 * for that long yet. */
static bool growth_now(struct condition_watch *w, uint64_t now_ns, double *value)
{
    const unsigned room = sizeof w->past / sizeof w->past[0];
    uint64_t span_ns = w->condition.growth_s * UINT64_C(1000000000);
    unsigned n = w->past_count;
    if (n == 0 || now_ns - w->past[n - 1].time_ns >= span_ns / (room - 4)) {
        if (n == room)
            memmove(w->past, w->past + 1, --n * sizeof w->past[0]);
        w->past[n].time_ns = now_ns;
        w->past[n++].value = *value;
        w->past_count = n;
    }
    for (unsigned i = n; i-- > 0;) {
        uint64_t passed_ns = now_ns - w->past[i].time_ns;
        if (passed_ns < span_ns)
            continue;
        *value = (*value - w->past[i].value) * 1e9 / (double)passed_ns;
        return true;
    }
    return false;
}

static bool crosses(struct condition_watch *w)
{
    double threshold = w->condition.threshold;
    double back = threshold * (w->condition.below ? 1 + SLACK : 1 - SLACK);
    bool beyond = w->condition.below ? w->value < threshold : w->value > threshold;
    bool is_back = w->condition.below ? w->value > back : w->value < back || w->value <= 0;
    bool crossed = beyond && !w->holds;
    if (beyond)
        w->holds = true;
    else if (is_back)
        w->holds = false;
    return crossed;
}

bool conditions_watch(struct condition_watches *ws, const struct condition_list *list)
{
    *ws = (struct condition_watches){.count = list->count};
    if (list->count == 0)
        return true;
    ws->list = room_for(CONDITIONS_MAX * sizeof *ws->list);
    ws->chunk = room_for(CHUNK_BYTES);
    if (ws->list == NULL || ws->chunk == NULL)
        ws->count = 0;
    for (unsigned i = 0; i < ws->count; i++)
        ws->list[i].condition = list->list[i];
    return ws->count > 0;
}

const struct condition_watch *conditions_turn(struct condition_watches *ws,
                                              const struct shared *shared,
                                              const struct condition_times *times, uint64_t now_ns)
{
    const struct condition_watch *crossed = NULL;
    size_t length = 0;
    if (ws->begun_ns == 0)
        ws->begun_ns = now_ns;
    while (ws->count > 0 &&
           (length = ring_read(&shared->samples, &ws->cursor, ws->chunk, CHUNK_BYTES, NULL)) > 0)
        take_all(ws, length);
    for (unsigned i = 0; i < ws->count; i++) {
        struct condition_watch *w = &ws->list[i];
        double value = 0;
        w->known = value_now(w, times, &value) &&
                   (w->condition.growth_s == 0 || growth_now(w, now_ns, &value));
        w->ever_known = w->ever_known || w->known;
        w->value = value;
        if (w->known && crosses(w) && crossed == NULL)
            crossed = w;
    }
    return crossed;
}

const struct condition_watch *conditions_unread(struct condition_watches *ws, uint64_t now_ns)
{
    for (unsigned i = 0; i < ws->count; i++) {
        struct condition_watch *w = &ws->list[i];
        uint64_t after_s = UNREAD_AFTER_S + w->condition.growth_s;
        if (w->ever_known || w->told || quantities[w->condition.quantity].time != BY_SAMPLES ||
            now_ns - ws->begun_ns < after_s * 1000000000u)
            continue;
        w->told = true;
        return w;
    }
    return NULL;
}

static void tell_value(const struct condition_watch *w, char *out, size_t size)
{
    static const char *const names[] = {" %", "", " s", "", " C", " W"};
    double value = w->condition.growth_s != 0 ? w->value * 60 : w->value;
    bool large = fabs(value) >= 0x1p30;
    if (w->condition.unit == UNIT_BYTES)
        (void)snprintf(out, size, "%.*f %s%s", large ? 2 : 0, value / (large ? 0x1p30 : 0x1p20),
                       large ? "GiB" : "MiB", w->condition.growth_s != 0 ? "/min" : "");
    else
        (void)snprintf(out, size, "%.*f%s", w->condition.unit == UNIT_COUNT ? 0 : 1, value,
                       names[w->condition.unit]);
}

void condition_tell(const struct condition_watch *w, char *out, unsigned size)
{
    char value[32] = "not known";
    if (w->known)
        tell_value(w, value, sizeof value);
    (void)snprintf(out, size, "%s (%s%s)", w->condition.text, w->known ? "it is " : "", value);
}
