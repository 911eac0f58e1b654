/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/ledger_json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/ledger_view.h"

#define LIVE_MAX 512
#define FREED_MAX 64
#define SIZES_MAX 256
#define REFUSALS_MAX 256

static void number(cJSON *object, const char *name, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    (void)cJSON_AddRawToObject(object, name, digits);
}

static void signed_number(cJSON *object, const char *name, int64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRId64, value);
    (void)cJSON_AddRawToObject(object, name, digits);
}

static void hex(cJSON *object, const char *name, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "0x%" PRIx64, value);
    (void)cJSON_AddStringToObject(object, name, digits);
}

/* Text of a fixed field that another process wrote: ended here, and printable. */
static void text(cJSON *object, const char *name, const char *field, size_t size)
{
    char copy[LEDGER_MODEL_PATH + 1];
    size_t len = strnlen(field, size < sizeof copy ? size : sizeof copy - 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)field[i];
        copy[i] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
    copy[len] = '\0';
    (void)cJSON_AddStringToObject(object, name, copy);
}

static cJSON *item_of(cJSON *list)
{
    cJSON *item = cJSON_CreateObject();
    if (item != NULL && !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        item = NULL;
    }
    return item;
}

static void add_gpu(cJSON *item, unsigned gpu, const int *gpu_index)
{
    if (gpu < LEDGER_GPUS && gpu_index[gpu] >= 0)
        number(item, "gpu", (uint64_t)gpu_index[gpu]);
}

static void add_processes(cJSON *root, const struct ledger *ledger)
{
    static const char *const lives[] = {"alive", "execed", "ended"};
    cJSON *list = cJSON_AddArrayToObject(root, "processes");
    for (uint32_t i = 0; i < LEDGER_PROCESSES; i++) {
        const struct ledger_process *p = &ledger->processes[i];
        if (LEDGER_STATE(p->state) != LEDGER_USED)
            continue;
        cJSON *item = item_of(list);
        uint32_t life = p->life;
        number(item, "slot", i);
        signed_number(item, "pid", p->pid);
        text(item, "comm", p->comm, sizeof p->comm);
        (void)cJSON_AddStringToObject(item, "life", life < 3 ? lives[life] : "unknown");
        number(item, "allocations", p->allocations);
        number(item, "frees", p->frees);
        number(item, "refusals", p->refusals);
        number(item, "hip_refusals", p->hip_refusals);
        number(item, "unknown_frees", p->unknown_frees);
    }
}

static void add_gpus(cJSON *root, const struct ledger *ledger, const int *gpu_index)
{
    cJSON *list = cJSON_AddArrayToObject(root, "gpus");
    for (unsigned i = 0; i < LEDGER_GPUS; i++) {
        const struct ledger_gpu *g = &ledger->gpus[i];
        if (LEDGER_STATE(g->state) != LEDGER_USED)
            continue;
        cJSON *item = item_of(list);
        add_gpu(item, i, gpu_index);
        number(item, "kfd_gpu_id", g->kfd_gpu_id);
        number(item, "render_minor", g->render_minor);
        for (unsigned kind = 0; kind < LEDGER_KINDS; kind++) {
            if (g->peak[kind] == 0)
                continue;
            cJSON *of_kind = cJSON_AddObjectToObject(item, ledger_kind_name(kind));
            signed_number(of_kind, "live_bytes", g->live[kind]);
            signed_number(of_kind, "peak_bytes", g->peak[kind]);
            number(of_kind, "peak_ns", g->peak_ns[kind]);
        }
    }
}

static void add_accounts(cJSON *root, const struct ledger *ledger, const int *gpu_index)
{
    cJSON *list = cJSON_AddArrayToObject(root, "accounts");
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++) {
        const struct ledger_account *a = &ledger->accounts[i];
        if (LEDGER_STATE(a->state) != LEDGER_USED)
            continue;
        cJSON *item = item_of(list);
        number(item, "process", a->process);
        add_gpu(item, a->gpu, gpu_index);
        (void)cJSON_AddStringToObject(item, "kind", ledger_kind_name(a->kind));
        signed_number(item, "live_bytes_at_end", a->live);
        signed_number(item, "peak_bytes", a->peak);
        number(item, "allocations", a->allocations);
        number(item, "frees", a->frees);
        number(item, "allocated_bytes_ever", a->allocated_bytes);
        number(item, "refusals", a->refusals);
    }
}

static const char *operation_name(unsigned operation)
{
    static const char *const names[] = {"alloc", "map", "import", "mmap"};
    return operation < sizeof names / sizeof *names ? names[operation] : "unknown";
}

static void add_refusal(cJSON *list, const struct ledger_refusal *r, const int *gpu_index)
{
    cJSON *item = item_of(list);
    number(item, "number", r->number);
    number(item, "time_ns", r->time_ns);
    number(item, "process", r->process);
    add_gpu(item, r->gpu, gpu_index);
    (void)cJSON_AddStringToObject(item, "kind", ledger_kind_name(r->kind));
    (void)cJSON_AddStringToObject(item, "operation", operation_name(r->operation));
    number(item, "size", r->size);
    hex(item, "address", r->address);
    hex(item, "flags", r->flags);
    number(item, "errno", r->error);
    number(item, "retry_of", r->retry_of);
    number(item, "satisfied_ns", r->satisfied_ns);
    signed_number(item, "live_bytes", r->live);
    signed_number(item, "gpu_live_bytes", r->gpu_live);
    number(item, "counters_ns", r->counters_ns);
    if (r->fds_limit != 0) {
        number(item, "fds", r->fds);
        number(item, "fds_limit", r->fds_limit);
    }
    if (r->mappings_limit != 0) {
        number(item, "mappings", r->mappings);
        number(item, "mappings_limit", r->mappings_limit);
    }
    signed_number(item, "tid", r->tid);
}

static void add_hip_refusal(cJSON *list, const struct ledger_hip_refusal *r)
{
    cJSON *item = item_of(list);
    number(item, "number", r->number);
    number(item, "time_ns", r->time_ns);
    number(item, "process", r->process);
    text(item, "function", r->function, sizeof r->function);
    number(item, "size", r->size);
    signed_number(item, "error", r->error);
    signed_number(item, "device", r->device);
    number(item, "kernel_refusals", r->kernel_refusals);
    number(item, "kernel_refusal", r->kernel_refusal);
    signed_number(item, "tid", r->tid);
}

/* The last ones: they ended the process. */
static void add_refusals(cJSON *root, const struct ledger *ledger, const int *gpu_index)
{
    cJSON *kernel = cJSON_AddArrayToObject(root, "refusals");
    cJSON *hip = cJSON_AddArrayToObject(root, "hip_refusals");
    uint64_t head = ledger->refusals_head;
    for (uint64_t n = head > REFUSALS_MAX ? head - REFUSALS_MAX + 1 : 1; n <= head; n++) {
        const struct ledger_refusal *r = &ledger->refusals[ledger_slot_of(n, LEDGER_REFUSALS)];
        if (r->number == n)
            add_refusal(kernel, r, gpu_index);
    }
    head = ledger->hip_refusals_head;
    for (uint64_t n = head > REFUSALS_MAX ? head - REFUSALS_MAX + 1 : 1; n <= head; n++) {
        const struct ledger_hip_refusal *r =
            &ledger->hip_refusals[ledger_slot_of(n, LEDGER_HIP_REFUSALS)];
        if (r->number == n)
            add_hip_refusal(hip, r);
    }
}

static int more_bytes_first(const void *left, const void *right)
{
    const struct ledger_size *a = *(const struct ledger_size *const *)left;
    const struct ledger_size *b = *(const struct ledger_size *const *)right;
    uint64_t kept_a = (a->allocations - a->frees) * a->bytes;
    uint64_t kept_b = (b->allocations - b->frees) * b->bytes;
    if (kept_a != kept_b)
        return kept_a < kept_b ? 1 : -1;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static void add_sizes(cJSON *root, const struct ledger *ledger, const int *gpu_index)
{
    const struct ledger_size **sorted = malloc(LEDGER_SIZES * sizeof *sorted);
    size_t count = 0;
    for (uint32_t i = 0; sorted != NULL && i < LEDGER_SIZES; i++)
        if (LEDGER_STATE(ledger->sizes[i].state) == LEDGER_USED)
            sorted[count++] = &ledger->sizes[i];
    if (sorted != NULL)
        qsort(sorted, count, sizeof *sorted, more_bytes_first);
    cJSON *list = cJSON_AddArrayToObject(root, "sizes");
    for (size_t i = 0; i < count && i < SIZES_MAX; i++) {
        cJSON *item = item_of(list);
        number(item, "process", sorted[i]->process);
        add_gpu(item, sorted[i]->gpu, gpu_index);
        (void)cJSON_AddStringToObject(item, "kind", ledger_kind_name(sorted[i]->kind));
        number(item, "bytes", sorted[i]->bytes);
        number(item, "allocations", sorted[i]->allocations);
        number(item, "frees", sorted[i]->frees);
    }
    number(root, "sizes_left_out", count > SIZES_MAX ? count - SIZES_MAX : 0);
    free(sorted);
}

static void add_range(cJSON *list, const struct ledger_range *r, const int *gpu_index)
{
    cJSON *item = item_of(list);
    hex(item, "address", r->address);
    number(item, "bytes", r->bytes);
    (void)cJSON_AddStringToObject(item, "kind", ledger_kind_name(r->kind));
    add_gpu(item, r->gpu, gpu_index);
    number(item, "time_ns", r->time_ns);
    if (r->freed_ns != 0)
        number(item, "freed_ns", r->freed_ns);
    if (r->flags != 0)
        hex(item, "flags", r->flags);
}

static int larger_first(const void *left, const void *right)
{
    const struct ledger_range *a = *(const struct ledger_range *const *)left;
    const struct ledger_range *b = *(const struct ledger_range *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->address > b->address) - (a->address < b->address);
}

static void add_view(cJSON *root, const struct ledger_view *view, const int *gpu_index)
{
    cJSON *object = cJSON_AddObjectToObject(root, "at_failure");
    number(object, "process", view->process);
    if (view->at_ns != LEDGER_AT_END)
        number(object, "time_ns", view->at_ns);
    (void)cJSON_AddBoolToObject(object, "exact", view->is_exact);
    cJSON *sums = cJSON_AddObjectToObject(object, "live_bytes");
    for (unsigned kind = 0; kind < LEDGER_KINDS; kind++) {
        int64_t bytes = ledger_view_bytes(view, (enum ledger_kind)kind, -1);
        if (bytes != 0)
            signed_number(sums, ledger_kind_name(kind), bytes);
    }
    number(object, "live_count", view->live_count);
    const struct ledger_range **sorted = malloc((view->live_count + 1) * sizeof *sorted);
    for (size_t i = 0; sorted != NULL && i < view->live_count; i++)
        sorted[i] = &view->live[i];
    if (sorted != NULL)
        qsort(sorted, view->live_count, sizeof *sorted, larger_first);
    cJSON *live = cJSON_AddArrayToObject(object, "largest_live");
    for (size_t i = 0; sorted != NULL && i < view->live_count && i < LIVE_MAX; i++)
        add_range(live, sorted[i], gpu_index);
    free(sorted);
    cJSON *freed = cJSON_AddArrayToObject(object, "last_freed");
    for (size_t i = 0; i < view->freed_count && i < FREED_MAX; i++)
        add_range(freed, &view->freed[i], gpu_index);
}

static void add_models(cJSON *root, const struct ledger *ledger)
{
    cJSON *list = cJSON_AddArrayToObject(root, "models");
    for (uint32_t i = 0; i < LEDGER_MODELS; i++) {
        const struct ledger_model *m = &ledger->models[i];
        if (LEDGER_STATE(m->state) != LEDGER_USED)
            continue;
        cJSON *item = item_of(list);
        text(item, "path", m->path, sizeof m->path);
        number(item, "process", m->process);
        number(item, "errno", m->error);
    }
}

static void add_lost(cJSON *root, const struct ledger *ledger)
{
    const struct ledger_lost *lost = &ledger->lost;
    cJSON *object = cJSON_AddObjectToObject(root, "lost");
    number(object, "processes", lost->processes);
    number(object, "gpus", lost->gpus);
    number(object, "accounts", lost->accounts);
    number(object, "sizes", lost->sizes);
    number(object, "models", lost->models);
    number(object, "live", lost->live);
    number(object, "live_bytes", lost->live_bytes);
    number(root, "counters_asked", ledger->counters_asked);
    number(root, "counters_late", ledger->counters_late);
    number(root, "counters_waited_ns", ledger->counters_waited_ns);
}

struct cJSON *ledger_to_json(const struct ledger *ledger, const struct ledger_view *view,
                             const int *gpu_index)
{
    cJSON *root = cJSON_CreateObject();
    number(root, "format", 1);
    number(root, "start_ns", ledger->start_ns);
    number(root, "attached", ledger->attached);
    number(root, "hip_runtimes", ledger->hip_runtimes);
    add_processes(root, ledger);
    add_gpus(root, ledger, gpu_index);
    add_accounts(root, ledger, gpu_index);
    add_refusals(root, ledger, gpu_index);
    add_sizes(root, ledger, gpu_index);
    if (view != NULL)
        add_view(root, view, gpu_index);
    add_models(root, ledger);
    add_lost(root, ledger);
    return root;
}
