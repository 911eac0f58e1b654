/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the allocator of XLA (JAX) and TensorFlow says of itself: its size at the start, and the
 * dump that it prints when a request did not fit.
 *
 * Pure; one line at a time. A program may survive a dump: the last one counts. Each parser has its
 * sample above it.
 */
#include "diagnose/messages.h"

#include <string.h>

#define SIZE_RULE (TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT)
#define STATS_LINES 12

static bool bytes_behind(struct text line, const char *words, int64_t *ret)
{
    struct text t;
    return text_after(line, words, &t) && text_take_size(&t, 0, ret) && *ret >= 0;
}

static void set(const struct scan *s, struct figure *f, int64_t value)
{
    *f = (struct figure){.value = value, .line = s->line};
}

/* bfc_allocator.cc:1039] BFCAllocator dump for GPU_0_bfc
 * bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.73GiB ... */
static void allocator_name(const struct scan *s, struct bfc_state *st, struct text line)
{
    struct text t;
    bool dump = text_after(line, "BFCAllocator dump for ", &t);
    if (!dump && !(text_after(line, "Allocator (", &t) && text_has(t, ") ran out of memory")))
        return;
    if (dump)
        memset(st->figures, 0, sizeof st->figures);
    (void)text_copy(text_until(text_trim(t), " )"), st->allocator, sizeof st->allocator);
    st->allocator_line = s->line;
}

/* bfc_allocator.cc:1095] InUse at 7972f06b2800 of size 4000000000 next 2
 * bfc_allocator.cc:1095] Free  at 7975bbaca000 of size 2995773440 next 18446744073709551615 */
static void chunk(const struct scan *s, struct bfc_state *st, struct text line)
{
    struct text t;
    int64_t size;
    if (!text_after(line, "Free  at ", &t) || !bytes_behind(t, " of size ", &size))
        return;
    struct figure *sum = &st->figures[BFC_FREE];
    struct figure *largest = &st->figures[BFC_LARGEST_FREE];
    if (size <= INT64_MAX - sum->value)
        set(s, sum, sum->value + size);
    if (largest->line == 0 || size > largest->value)
        set(s, largest, size);
}

/* Stats:
 * Limit:                     18995773440
 * InUse:                     16000000000
 * MaxInUse:                  16000000000
 * NumAllocs:                           4
 * MaxAllocSize:               4000000000 */
static void statistics(const struct scan *s, struct bfc_state *st, struct text line)
{
    static const char *const labels[BFC_STATS] = {
        "Limit:", "InUse:", "MaxInUse:", "NumAllocs:", "MaxAllocSize:"};
    struct text t = text_trim(line);
    int64_t value;
    for (unsigned i = 0; i < BFC_STATS; i++) {
        if (!text_starts(t, labels[i]) || !bytes_behind(t, labels[i], &value))
            continue;
        const struct figure *limit = &st->figures[BFC_LIMIT];
        /* the words alone are nobody's own */
        if (i == BFC_LIMIT || (limit->line != 0 && s->line - limit->line <= STATS_LINES))
            set(s, &st->figures[i], value);
    }
}

/* total_region_allocated_bytes_: 7365066752 memory_limit_: 7365066752 available bytes: 0 ...
 * Total bytes in pool: 18995773440 memory_limit_: 18995773440 available bytes: 0 ... */
static void region(const struct scan *s, struct bfc_state *st, struct text line)
{
    int64_t value;
    if ((text_has(line, "memory_limit_:") || text_has(line, "total_region_allocated_bytes_")) &&
        bytes_behind(line, "available bytes: ", &value))
        set(s, &st->figures[BFC_REGION_LEFT], value);
}

/* gpu_helpers.cc:136] XLA backend allocating 3825205248 bytes on device 0 for BFCAllocator.
 * gpu_helpers.cc:140] XLA backend will use up to 3825205248 bytes on device 0 for BFCAllocator.
 * gpu_device.cc:2020] Created device /job:localhost/.../device:GPU:0 with 22298 MB memory:  -> ...
 */
static void pool(const struct scan *s, struct text line)
{
    struct text t;
    int64_t size;
    bool at_once = text_after(line, "XLA backend allocating ", &t);
    if ((at_once || text_after(line, "XLA backend will use up to ", &t)) &&
        text_has(t, " for BFCAllocator") && text_take_size(&t, SIZE_RULE, &size) && size > 0) {
        scan_integer(s, "msg.xla_pool_bytes", size);
        scan_boolean(s, "msg.xla_preallocates", at_once);
    }
    if (text_after(line, "Created device ", &t) && text_after(t, "device:GPU:", &t) &&
        text_after(t, " with ", &t) && text_has(t, " memory:") &&
        text_take_size(&t, SIZE_RULE, &size) && size > 0)
        scan_integer(s, "msg.tensorflow_pool_bytes", size);
}

void bfc_line(const struct scan *s, struct bfc_state *st, struct text line)
{
    allocator_name(s, st, line);
    chunk(s, st, line);
    statistics(s, st, line);
    region(s, st, line);
    pool(s, line);
}

void bfc_emit(const struct scan *s, const struct bfc_state *st)
{
    static const char *const names[BFC_FIGURES] = {"msg.bfc_limit_bytes",
                                                   "msg.bfc_in_use_bytes",
                                                   "msg.bfc_peak_bytes",
                                                   "msg.bfc_allocations_count",
                                                   "msg.bfc_largest_allocation_bytes",
                                                   "msg.bfc_region_left_bytes",
                                                   "msg.bfc_free_bytes",
                                                   "msg.bfc_largest_free_bytes"};
    struct scan at = *s;
    for (unsigned i = 0; i < BFC_FIGURES; i++)
        if (st->figures[i].line != 0)
            scan_integer_at(s, st->figures[i].line, names[i], st->figures[i].value);
    at.line = st->allocator_line;
    if (at.line != 0)
        scan_text(&at, "msg.bfc_allocator", (struct text){st->allocator, strlen(st->allocator)});
}
