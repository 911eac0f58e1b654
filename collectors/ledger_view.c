/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/ledger_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* The events of one handle, in the order of time. */
enum step_type { STEP_ALLOC, STEP_ENTRY, STEP_FREE };

struct step {
    struct ledger_range range;
    uint64_t time_ns;
    uint64_t number; /* number of its event; UINT64_MAX for an entry, which is the final state */
    enum step_type type;
};

struct steps {
    struct step *list;
    size_t count;
};

const char *ledger_kind_name(unsigned kind)
{
    static const char *const names[LEDGER_KINDS] = {
        "vram",     "gtt",     "userptr",     "doorbell",  "mmio",
        "gem_vram", "gem_gtt", "gem_userptr", "gem_other", "import"};
    return kind < LEDGER_KINDS ? names[kind] : "unknown";
}

static uint64_t charged(uint64_t size)
{
    return size > UINT64_MAX - PAGE ? UINT64_MAX : (size + PAGE - 1) / PAGE * PAGE;
}

static bool is_valid(uint8_t gpu, uint8_t kind)
{
    return kind < LEDGER_KINDS && (gpu < LEDGER_GPUS || gpu == LEDGER_NO_GPU);
}

static void add_entries(struct steps *steps, const struct ledger *ledger, uint32_t process)
{
    for (uint32_t i = 0; i < LEDGER_LIVE; i++) {
        const struct ledger_entry *e = &ledger->live[i];
        uint32_t state = LEDGER_STATE(e->state);
        if ((state != LEDGER_USED && state != LEDGER_FREEING) || e->process != process ||
            !is_valid(e->gpu, e->kind))
            continue;
        steps->list[steps->count++] = (struct step){{.address = e->address,
                                                     .size = e->size,
                                                     .bytes = e->bytes,
                                                     .handle = e->handle,
                                                     .time_ns = e->time_ns,
                                                     .flags = e->flags,
                                                     .tid = e->tid,
                                                     .gpu = e->gpu,
                                                     .kind = e->kind},
                                                    e->time_ns,
                                                    UINT64_MAX,
                                                    STEP_ENTRY};
    }
}

static void add_events(struct steps *steps, const struct ledger *ledger, uint32_t process)
{
    for (uint32_t i = 0; i < LEDGER_EVENTS; i++) {
        const struct ledger_event *e = &ledger->events[i];
        bool is_alloc = e->type == LEDGER_EVENT_ALLOC;
        bool is_free = e->type == LEDGER_EVENT_FREE;
        if (e->number == 0 || e->number % LEDGER_EVENTS != i || e->process != process ||
            !is_valid(e->gpu, e->kind) || (!is_alloc && !is_free))
            continue;
        steps->list[steps->count++] = (struct step){{.address = e->address,
                                                     .size = e->size,
                                                     .bytes = charged(e->size),
                                                     .handle = e->handle,
                                                     .time_ns = is_alloc ? e->time_ns : 0,
                                                     .number = is_alloc ? e->number : 0,
                                                     .flags = e->flags,
                                                     .tid = e->tid,
                                                     .gpu = e->gpu,
                                                     .kind = e->kind},
                                                    e->time_ns,
                                                    e->number,
                                                    is_alloc ? STEP_ALLOC : STEP_FREE};
    }
}

/* KFD's handles are unique in a process, GEM's on a GPU (several open files cannot be told
 * apart). */
static int compare_handles(const struct step *a, const struct step *b)
{
    bool a_gem = a->range.kind >= LEDGER_GEM_VRAM;
    bool b_gem = b->range.kind >= LEDGER_GEM_VRAM;
    if (a_gem != b_gem)
        return a_gem ? 1 : -1;
    if (a_gem && a->range.gpu != b->range.gpu)
        return a->range.gpu < b->range.gpu ? -1 : 1;
    if (a->range.handle != b->range.handle)
        return a->range.handle < b->range.handle ? -1 : 1;
    return 0;
}

static int compare_steps(const void *left, const void *right)
{
    const struct step *a = left;
    const struct step *b = right;
    int r = compare_handles(a, b);
    if (r != 0)
        return r;
    return (a->number > b->number) - (a->number < b->number); /* the clock is a coarse one */
}

static int by_address(const void *left, const void *right)
{
    const struct ledger_range *a = left;
    const struct ledger_range *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static int newest_free_first(const void *left, const void *right)
{
    const struct ledger_range *a = left;
    const struct ledger_range *b = right;
    return (a->freed_number < b->freed_number) - (a->freed_number > b->freed_number);
}

/*
 * Did it happen after the view's moment? Compares event numbers if the refusal is among the events,
 * else times. Times have the resolution of a timer tick: then a free in the same tick counts as
 * later.
 */
static bool is_later(const struct ledger_view *view, const struct step *step)
{
    if (view->at_ns == LEDGER_AT_END)
        return false;
    if (view->at_number != 0 && step->type != STEP_ENTRY)
        return step->number > view->at_number;
    return step->type == STEP_FREE ? step->time_ns >= view->at_ns : step->time_ns > view->at_ns;
}

/* The events of one handle: finds the buffers that were live, and those freed, at the view's
 * moment. */
static void judge_handle(struct ledger_view *view, const struct step *steps, size_t count)
{
    const struct step *current = NULL;
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        if (step->type != STEP_FREE) {
            /* an entry has more data than its event; an entry with a later event is another
             * buffer */
            bool same = step->type == STEP_ENTRY && i > 0 && steps[i - 1].type == STEP_ALLOC;
            if (same ? current == NULL : is_later(view, step))
                break;
            current = step;
            number = step->type == STEP_ALLOC ? step->number : (same ? number : 0);
            continue;
        }
        if (is_later(view, step)) {
            /* allocated before the events that are known */
            if (i == 0)
                current = step;
            break;
        }
        struct ledger_range freed = step->range;
        freed.freed_ns = step->time_ns;
        freed.freed_number = step->number;
        freed.time_ns = current != NULL ? current->range.time_ns : 0;
        freed.number = current != NULL ? number : 0;
        view->freed[view->freed_count++] = freed;
        current = NULL;
    }
    if (current == NULL)
        return;
    view->live[view->live_count] = current->range;
    view->live[view->live_count++].number = number;
}

static uint64_t oldest_event(const struct ledger *ledger)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < LEDGER_EVENTS; i++)
        if (ledger->events[i].number != 0 && ledger->events[i].time_ns < oldest)
            oldest = ledger->events[i].time_ns;
    return oldest;
}

/* No event after the moment is missing, and no entry. */
static bool is_exact(const struct ledger_view *view)
{
    const struct ledger *l = view->ledger;
    if (l->lost.live != 0)
        return false;
    return view->at_ns == LEDGER_AT_END || l->events_head <= LEDGER_EVENTS ||
           oldest_event(l) <= view->at_ns;
}

uint64_t ledger_event_of_refusal(const struct ledger *ledger, uint32_t process, uint64_t at_ns)
{
    uint64_t last = 0;
    for (uint32_t i = 0; at_ns != LEDGER_AT_END && i < LEDGER_EVENTS; i++) {
        const struct ledger_event *e = &ledger->events[i];
        if (e->number != 0 && e->number % LEDGER_EVENTS == i && e->process == process &&
            e->type == LEDGER_EVENT_REFUSED && e->time_ns == at_ns && e->number > last)
            last = e->number;
    }
    return last;
}

int ledger_view_make(struct ledger_view *ret, const struct ledger *ledger, uint32_t process,
                     uint64_t at_ns)
{
    struct steps steps = {.list = malloc((LEDGER_LIVE + LEDGER_EVENTS) * sizeof *steps.list)};
    *ret = (struct ledger_view){.ledger = ledger,
                                .process = process,
                                .at_ns = at_ns,
                                .at_number = ledger_event_of_refusal(ledger, process, at_ns)};
    if (steps.list == NULL)
        return -ENOMEM;
    add_entries(&steps, ledger, process);
    add_events(&steps, ledger, process);
    qsort(steps.list, steps.count, sizeof *steps.list, compare_steps);
    ret->live = calloc(steps.count + 1, sizeof *ret->live);
    ret->freed = calloc(steps.count + 1, sizeof *ret->freed);
    if (ret->live == NULL || ret->freed == NULL) {
        ledger_view_release(ret);
        free(steps.list);
        return -ENOMEM;
    }
    for (size_t first = 0; first < steps.count;) {
        size_t end = first + 1;
        while (end < steps.count && compare_handles(&steps.list[first], &steps.list[end]) == 0)
            end++;
        judge_handle(ret, &steps.list[first], end - first);
        first = end;
    }
    free(steps.list);
    qsort(ret->live, ret->live_count, sizeof *ret->live, by_address);
    qsort(ret->freed, ret->freed_count, sizeof *ret->freed, newest_free_first);
    ret->is_exact = is_exact(ret);
    return 0;
}

void ledger_view_release(struct ledger_view *view)
{
    free(view->live);
    free(view->freed);
    view->live = NULL;
    view->freed = NULL;
    view->live_count = 0;
    view->freed_count = 0;
}

static int64_t add_saturated(int64_t sum, uint64_t bytes)
{
    return bytes > (uint64_t)(INT64_MAX - sum) ? INT64_MAX : sum + (int64_t)bytes;
}

int64_t ledger_view_bytes(const struct ledger_view *view, enum ledger_kind kind, int gpu)
{
    int64_t sum = 0;
    for (size_t i = 0; i < view->live_count; i++)
        if (view->live[i].kind == kind && (gpu < 0 || view->live[i].gpu == gpu))
            sum = add_saturated(sum, view->live[i].bytes);
    return sum;
}

int64_t ledger_view_peak(const struct ledger_view *view, enum ledger_kind kind)
{
    int64_t peak = 0;
    unsigned accounts = 0;
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++) {
        const struct ledger_account *a = &view->ledger->accounts[i];
        if (LEDGER_STATE(a->state) != LEDGER_USED || a->process != view->process || a->kind != kind)
            continue;
        accounts++;
        peak = a->peak;
    }
    return accounts <= 1 ? peak : -1;
}
