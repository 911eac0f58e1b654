/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/book_internal.h"
#include "inject/raw.h"

#define RETRY_NS 1000000000u

static uint64_t row_of(struct book_row *row, const struct book_actor *actor,
                       const struct book_buffer *b, enum ledger_operation operation,
                       uint64_t number)
{
    bool again = row->first != 0 && row->gpu == b->gpu && row->kind == b->kind &&
                 row->size == b->size && row->operation == operation &&
                 actor->now_ns - row->last_ns <= RETRY_NS;
    uint64_t first = again ? row->first : 0;
    *row = (struct book_row){.first = again ? first : number,
                             .last_ns = actor->now_ns,
                             .size = b->size,
                             .gpu = b->gpu,
                             .kind = b->kind,
                             .operation = (uint8_t)operation};
    return first;
}

void book_satisfied(const struct book_actor *actor, const struct book_buffer *b,
                    struct book_row *row)
{
    if (row->first == 0 || row->gpu != b->gpu || row->kind != b->kind || row->size != b->size)
        return;
    struct ledger_refusal *r = book_refusal(actor->ledger, row->first);
    if (atomic_load_explicit(&r->number, memory_order_acquire) == row->first)
        SET(r->satisfied_ns, actor->now_ns);
    *row = (struct book_row){.first = 0};
}

struct ledger_refusal *book_refusal(struct ledger *ledger, uint64_t number)
{
    return &ledger->refusals[ledger_slot_of(number, LEDGER_REFUSALS)];
}

static void count_refusal(const struct book_actor *actor, struct ledger_refusal *r, uint8_t gpu,
                          uint8_t kind)
{
    struct ledger *ledger = actor->ledger;
    int64_t live = 0;
    int64_t gpu_live = 0;
    if (actor->process != LEDGER_NO_PROCESS) {
        struct ledger_account *a = book_account(ledger, actor->process, gpu, kind);
        ADD(ledger->processes[actor->process].refusals, 1);
        if (a != NULL) {
            ADD(a->refusals, 1);
            live = atomic_load_explicit(&a->live, memory_order_relaxed);
        }
    }
    if (gpu < LEDGER_GPUS)
        gpu_live = atomic_load_explicit(&ledger->gpus[gpu].live[kind], memory_order_relaxed);
    PUT(r->live, live);
    PUT(r->gpu_live, gpu_live);
}

uint64_t book_refused(const struct book_actor *actor, const struct book_buffer *b,
                      enum ledger_operation operation, int error, struct book_row *row)
{
    struct ledger *ledger = actor->ledger;
    uint64_t number = ADD(ledger->refusals_head, 1) + 1;
    struct ledger_refusal *r = book_refusal(ledger, number);
    atomic_store_explicit(&r->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    PUT(r->time_ns, actor->now_ns);
    PUT(r->size, b->size);
    PUT(r->address, b->address);
    PUT(r->retry_of, row_of(row, actor, b, operation, number));
    SET(r->satisfied_ns, 0);
    PUT(r->counters_ns, 0);
    PUT(r->flags, b->flags);
    PUT(r->tid, actor->tid);
    PUT(r->process, (uint16_t)actor->process);
    PUT(r->gpu, b->gpu);
    PUT(r->kind, b->kind);
    PUT(r->error, (uint16_t)error);
    PUT(r->operation, (uint8_t)operation);
    PUT(r->fds, 0);
    PUT(r->fds_limit, 0);
    PUT(r->mappings, 0);
    PUT(r->mappings_limit, 0);
    count_refusal(actor, r, b->gpu, b->kind);
    atomic_store_explicit(&r->number, number, memory_order_release);
    struct ledger_entry e = {.gpu = b->gpu,
                             .kind = b->kind,
                             .handle = b->handle,
                             .address = b->address,
                             .size = b->size,
                             .flags = b->flags};
    book_event(actor, &e, LEDGER_EVENT_REFUSED, error);
    return number;
}

uint64_t book_hip_refused(const struct book_actor *actor, const struct ledger_hip_refusal *from)
{
    struct ledger *ledger = actor->ledger;
    uint64_t number = ADD(ledger->hip_refusals_head, 1) + 1;
    struct ledger_hip_refusal *r =
        &ledger->hip_refusals[ledger_slot_of(number, LEDGER_HIP_REFUSALS)];
    atomic_store_explicit(&r->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    PUT(r->time_ns, actor->now_ns);
    PUT(r->size, from->size);
    PUT(r->width, from->width);
    PUT(r->height, from->height);
    PUT(r->depth, from->depth);
    PUT(r->flags, from->flags);
    PUT(r->error, from->error);
    PUT(r->device, from->device);
    PUT(r->tid, actor->tid);
    PUT(r->process, (uint16_t)actor->process);
    PUT(r->kernel_refusals, from->kernel_refusals);
    PUT(r->kernel_refusal, from->kernel_refusal);
    for (size_t i = 0; i < sizeof r->function; i++)
        PUT(r->function[i], from->function[i]);
    atomic_store_explicit(&r->number, number, memory_order_release);
    if (actor->process != LEDGER_NO_PROCESS)
        ADD(ledger->processes[actor->process].hip_refusals, 1);
    return number;
}

static bool is_known_model(const struct ledger *ledger, uint32_t process, const char *path)
{
    uint32_t used = atomic_load_explicit(&ledger->models_used, memory_order_acquire);
    size_t len = raw_length(path);
    if (len >= LEDGER_MODEL_PATH)
        len = LEDGER_MODEL_PATH - 1;
    for (uint32_t i = 0; i < used && i < LEDGER_MODELS; i++) {
        const struct ledger_model *m = &ledger->models[i];
        if (LEDGER_STATE(atomic_load_explicit(&m->state, memory_order_acquire)) == LEDGER_USED &&
            GET(m->process) == process && raw_equal(m->path, path, len) && m->path[len] == '\0')
            return true;
    }
    return false;
}

void book_model(const struct book_actor *actor, const char *path, int error, uint64_t device,
                uint64_t inode)
{
    struct ledger *ledger = actor->ledger;
    if (is_known_model(ledger, actor->process, path))
        return;
    uint32_t at = atomic_load_explicit(&ledger->models_used, memory_order_relaxed) < LEDGER_MODELS
                      ? ADD(ledger->models_used, 1)
                      : LEDGER_MODELS;
    if (at >= LEDGER_MODELS) {
        SET(ledger->models_used, LEDGER_MODELS);
        ADD(ledger->lost.models, 1);
        return;
    }
    struct ledger_model *m = &ledger->models[at]; /* no other refusal has this number */
    SET(m->state, LEDGER_WRITING);
    m->process = (uint16_t)actor->process;
    m->error = (uint16_t)error;
    m->time_ns = actor->now_ns;
    m->device = device;
    m->inode = inode;
    (void)raw_put(m->path, sizeof m->path, path);
    atomic_store_explicit(&m->state, LEDGER_USED, memory_order_release);
}
