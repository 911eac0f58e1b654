/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds in the ledger what explains the failure: the process, the refusal, the size that only
 * grows, the buffer of a faulting address.
 */
#include <stdlib.h>
#include <string.h>

#include "collectors/ledger_view.h"

#define HIP_OUT_OF_MEMORY 2
#define RISING_LEAST (UINT64_C(2) << 20) /* smaller buffers belong to the runtime */
#define GROWTH_LEAST 20 /* live buffers of one size; fewer are not called growth */
#define NULL_PAGES (1u << 20)
/* An address so far past the end of a buffer still counts as an overrun. */
#define PAST_END_LEAST (2u << 20)

/* --- the process --- */

static bool is_process(const struct ledger *ledger, uint32_t slot)
{
    return slot < LEDGER_PROCESSES && LEDGER_STATE(ledger->processes[slot].state) == LEDGER_USED;
}

struct newest {
    uint64_t time_ns;
    uint32_t process;
};

static void take_newer(struct newest *newest, const struct ledger *ledger, uint64_t time_ns,
                       uint32_t process)
{
    if (time_ns > newest->time_ns && is_process(ledger, process))
        *newest = (struct newest){time_ns, process};
}

static uint32_t process_of_last_refusal(const struct ledger *ledger)
{
    struct newest newest = {0, LEDGER_NO_PROCESS};
    for (uint32_t i = 0; i < LEDGER_REFUSALS; i++) {
        const struct ledger_refusal *r = &ledger->refusals[i];
        if (r->number != 0)
            take_newer(&newest, ledger, r->time_ns, r->process);
    }
    for (uint32_t i = 0; i < LEDGER_HIP_REFUSALS; i++) {
        const struct ledger_hip_refusal *r = &ledger->hip_refusals[i];
        if (r->number != 0)
            take_newer(&newest, ledger, r->time_ns, r->process);
    }
    return newest.process;
}

static uint32_t process_with_most(const struct ledger *ledger)
{
    int64_t most = -1;
    uint32_t found = LEDGER_NO_PROCESS;
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++) {
        const struct ledger_account *a = &ledger->accounts[i];
        if (LEDGER_STATE(a->state) == LEDGER_USED && is_process(ledger, a->process) &&
            a->peak > most) {
            most = a->peak;
            found = a->process;
        }
    }
    return found;
}

uint32_t ledger_find_process(const struct ledger *ledger, int64_t failed_pid)
{
    uint32_t found = LEDGER_NO_PROCESS;
    for (uint32_t i = 0; i < LEDGER_PROCESSES; i++)
        if (is_process(ledger, i) && failed_pid > 0 && ledger->processes[i].pid == failed_pid &&
            (found == LEDGER_NO_PROCESS ||
             ledger->processes[i].seen_ns >= ledger->processes[found].seen_ns))
            found = i;
    if (found == LEDGER_NO_PROCESS)
        found = process_of_last_refusal(ledger);
    return found != LEDGER_NO_PROCESS ? found : process_with_most(ledger);
}

/* --- the refusal --- */

static const struct ledger_refusal *refusal_numbered(const struct ledger *ledger, uint64_t number)
{
    if (number == 0)
        return NULL;
    const struct ledger_refusal *r = &ledger->refusals[ledger_slot_of(number, LEDGER_REFUSALS)];
    return r->number == number ? r : NULL;
}

/* The same thread got this size in a later try of the row. */
static bool is_satisfied(const struct ledger *ledger, const struct ledger_refusal *refusal)
{
    const struct ledger_refusal *first = refusal_numbered(ledger, refusal->retry_of);
    return refusal->satisfied_ns != 0 || (first != NULL && first->satisfied_ns != 0);
}

static const struct ledger_refusal *last_refusal(const struct ledger *ledger, uint32_t process)
{
    const struct ledger_refusal *last = NULL;
    for (uint32_t i = 0; i < LEDGER_REFUSALS; i++) {
        const struct ledger_refusal *r = &ledger->refusals[i];
        if (r->number != 0 && r->process == process && r->kind < LEDGER_KINDS &&
            (last == NULL || r->number > last->number) && !is_satisfied(ledger, r))
            last = r;
    }
    return last;
}

static const struct ledger_hip_refusal *last_hip_refusal(const struct ledger *ledger,
                                                         uint32_t process)
{
    const struct ledger_hip_refusal *last = NULL;
    for (uint32_t i = 0; i < LEDGER_HIP_REFUSALS; i++) {
        const struct ledger_hip_refusal *r = &ledger->hip_refusals[i];
        if (r->number != 0 && r->process == process && r->error == HIP_OUT_OF_MEMORY &&
            (last == NULL || r->number > last->number))
            last = r;
    }
    return last;
}

static unsigned count_tries(const struct ledger *ledger, const struct ledger_refusal *refusal)
{
    uint64_t first = refusal->retry_of != 0 ? refusal->retry_of : refusal->number;
    unsigned tries = 0;
    for (uint32_t i = 0; i < LEDGER_REFUSALS; i++) {
        const struct ledger_refusal *r = &ledger->refusals[i];
        tries += r->number != 0 && (r->number == first || r->retry_of == first);
    }
    return tries;
}

static bool allocated_since(const struct ledger *ledger, uint32_t process, uint8_t kind,
                            uint64_t at_ns, uint64_t least)
{
    uint64_t refused = ledger_event_of_refusal(ledger, process, at_ns);
    for (uint32_t i = 0; i < LEDGER_EVENTS; i++) {
        const struct ledger_event *e = &ledger->events[i];
        bool is_later = refused != 0 ? e->number > refused : e->time_ns > at_ns;
        if (e->number != 0 && e->type == LEDGER_EVENT_ALLOC && e->process == process &&
            e->kind == kind && is_later && e->size >= least)
            return true;
    }
    return false;
}

void ledger_find_failure(const struct ledger *ledger, uint32_t process, struct ledger_failure *ret)
{
    *ret = (struct ledger_failure){.at_ns = LEDGER_AT_END};
    const struct ledger_refusal *kernel = last_refusal(ledger, process);
    const struct ledger_hip_refusal *hip = last_hip_refusal(ledger, process);
    if (kernel != NULL && hip != NULL) {
        bool one_failure = hip->kernel_refusals > 0 && kernel->number <= hip->kernel_refusal;
        if (!one_failure && kernel->time_ns > hip->time_ns)
            hip = NULL;
        else if (!one_failure)
            kernel = NULL;
    }
    uint64_t size = 0;
    uint8_t kind = LEDGER_VRAM;
    ret->refusal = kernel;
    ret->hip = hip;
    if (hip != NULL) {
        ret->at_ns = hip->time_ns;
        size = hip->size;
    }
    if (kernel != NULL) {
        ret->at_ns = kernel->time_ns;
        ret->tries = count_tries(ledger, kernel);
        size = kernel->size;
        kind = kernel->kind;
    }
    ret->coped = size > 0 && allocated_since(ledger, process, kind, ret->at_ns, (size + 3) / 4);
}

/* --- the size that grows --- */

static int by_size_and_number(const void *left, const void *right)
{
    const struct ledger_range *a = left;
    const struct ledger_range *b = right;
    if (a->kind != b->kind)
        return (int)a->kind - (int)b->kind;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static bool freed_between(const struct ledger_view *view, uint8_t kind, uint64_t from, uint64_t to)
{
    /* freed[] has the newest first */
    size_t low = 0;
    size_t high = view->freed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (view->freed[middle].freed_number >= to)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < view->freed_count && view->freed[i].freed_number > from; i++)
        if (view->freed[i].kind == kind)
            return true;
    return false;
}

/* Memory freed at a program's end does not count as freed during the run. At a refusal, buffers
 * that are no longer live were freed before it. */
static void count_ever(const struct ledger_view *view, struct ledger_growth *growth)
{
    uint64_t frees = 0;
    for (uint32_t i = 0; i < LEDGER_SIZES; i++) {
        const struct ledger_size *s = &view->ledger->sizes[i];
        if (LEDGER_STATE(s->state) != LEDGER_USED || s->process != view->process ||
            s->kind != growth->kind || s->bytes != growth->bytes)
            continue;
        growth->allocations += s->allocations;
        frees += s->frees;
    }
    uint64_t gone =
        growth->allocations > growth->live_count ? growth->allocations - growth->live_count : 0;
    growth->frees = view->at_ns == LEDGER_AT_END || gone > frees ? frees : gone;
}

static uint64_t interleaved(const struct ledger_view *view, const struct ledger_range *group,
                            size_t count)
{
    size_t with_free = 0;
    size_t known = 0;
    for (size_t i = 1; i < count; i++) {
        if (group[i - 1].number == 0)
            continue;
        known++;
        with_free += freed_between(view, group[i].kind, group[i - 1].number, group[i].number);
    }
    return known > 0 ? 100 * with_free / known : 0;
}

void ledger_find_growth(const struct ledger_view *view, struct ledger_growth *ret)
{
    *ret = (struct ledger_growth){.bytes = 0};
    struct ledger_range *sorted = malloc((view->live_count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return;
    if (view->live_count > 0)
        memcpy(sorted, view->live, view->live_count * sizeof *sorted);
    qsort(sorted, view->live_count, sizeof *sorted, by_size_and_number);
    for (size_t first = 0; first < view->live_count;) {
        size_t end = first + 1;
        while (end < view->live_count && sorted[end].kind == sorted[first].kind &&
               sorted[end].bytes == sorted[first].bytes)
            end++;
        size_t count = end - first;
        uint64_t total = count * sorted[first].bytes;
        if (count >= GROWTH_LEAST && sorted[first].kind <= LEDGER_USERPTR &&
            total > ret->live_bytes)
            *ret = (struct ledger_growth){
                .bytes = sorted[first].bytes,
                .live_count = count,
                .live_bytes = total,
                .interleaved_percent = interleaved(view, &sorted[first], count),
                .kind = sorted[first].kind,
            };
        first = end;
    }
    free(sorted);
    if (ret->bytes != 0)
        count_ever(view, ret);
}

/* --- buffers of rising size --- */

static int by_number(const void *left, const void *right)
{
    const struct ledger_range *a = left;
    const struct ledger_range *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

static size_t of_kind(const struct ledger_view *view, uint8_t kind, struct ledger_range *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < view->live_count; i++)
        if (view->live[i].kind == kind && view->live[i].number != 0 &&
            view->live[i].bytes >= RISING_LEAST)
            ret[count++] = view->live[i];
    qsort(ret, count, sizeof *ret, by_number);
    return count;
}

void ledger_find_rising(const struct ledger_view *view, uint8_t kind, struct ledger_rising *ret)
{
    *ret = (struct ledger_rising){.count = 0};
    struct ledger_range *ranges = malloc((view->live_count + 1) * sizeof *ranges);
    if (ranges == NULL)
        return;
    for (size_t i = of_kind(view, kind, ranges); i > 0; i--) {
        const struct ledger_range *r = &ranges[i - 1];
        if (ret->count > 0 && r->bytes > ret->smallest)
            break;
        ret->largest = ret->count == 0 ? r->bytes : ret->largest;
        ret->sizes += ret->count == 0 || r->bytes != ret->smallest;
        ret->smallest = r->bytes;
        ret->bytes += r->bytes;
        ret->count++;
    }
    free(ranges);
}

/* --- the address that faulted --- */

static bool holds(const struct ledger_range *range, uint64_t address)
{
    return range->address != 0 && address >= range->address &&
           address - range->address < range->bytes;
}

/* The live buffer that ends nearest below the address. */
static const struct ledger_range *nearest_below(const struct ledger_view *view, uint64_t address)
{
    const struct ledger_range *best = NULL;
    for (size_t i = 0; i < view->live_count; i++) {
        const struct ledger_range *r = &view->live[i];
        bool is_memory = r->kind <= LEDGER_USERPTR || r->kind == LEDGER_IMPORT;
        if (!is_memory || r->address == 0 || r->bytes > address || r->address > address - r->bytes)
            continue;
        if (best == NULL || r->address + r->bytes > best->address + best->bytes)
            best = r;
    }
    return best;
}

void ledger_place_fault(const struct ledger_view *view, uint64_t address, struct ledger_fault *ret)
{
    *ret = (struct ledger_fault){.place = PLACE_ELSEWHERE, .address = address};
    if (address < NULL_PAGES) {
        ret->place = PLACE_NULL;
        return;
    }
    for (size_t i = 0; i < view->live_count; i++)
        if (holds(&view->live[i], address)) {
            *ret = (struct ledger_fault){PLACE_LIVE, address, &view->live[i],
                                         address - view->live[i].address};
            return;
        }
    for (size_t i = 0; i < view->freed_count; i++)
        if (holds(&view->freed[i], address)) {
            *ret = (struct ledger_fault){PLACE_FREED, address, &view->freed[i],
                                         address - view->freed[i].address};
            return;
        }
    const struct ledger_range *below = nearest_below(view, address);
    uint64_t behind = below != NULL ? address - below->address - below->bytes : 0;
    if (below != NULL && behind <= (below->bytes > PAST_END_LEAST ? below->bytes : PAST_END_LEAST))
        *ret = (struct ledger_fault){PLACE_PAST_END, address, below, behind};
}
