/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/book.h"

#include "inject/book_internal.h"
#include "inject/raw.h"
#include "inject/settle.h"

#define SETTLE_PERIOD_NS 100000000
#define GONE_TRIES 3

/* --- accounts and sizes --- */

static bool is_account(const void *row, const void *key)
{
    const struct ledger_account *a = row;
    const struct ledger_account *k = key;
    return GET(a->process) == k->process && GET(a->gpu) == k->gpu && GET(a->kind) == k->kind;
}

struct ledger_account *book_account(struct ledger *ledger, uint32_t process, uint8_t gpu,
                                    uint8_t kind)
{
    struct ledger_account key = {.process = (uint16_t)process, .gpu = gpu, .kind = kind};
    struct book_table table = {ledger->accounts, sizeof key, LEDGER_ACCOUNTS};
    uint32_t word;
    uint32_t at =
        book_find_or_claim(&table, book_mix((uint64_t)process << 16 | (uint64_t)gpu << 8 | kind),
                           is_account, &key, &word);
    if (at == BOOK_NONE) {
        ADD(ledger->lost.accounts, 1);
        return NULL;
    }
    struct ledger_account *a = &ledger->accounts[at];
    if (word != 0) {
        PUT(a->process, key.process);
        PUT(a->gpu, gpu);
        PUT(a->kind, kind);
        SET(a->live, 0);
        SET(a->peak, 0);
        SET(a->peak_ns, 0);
        SET(a->allocations, 0);
        SET(a->allocated_bytes, 0);
        SET(a->frees, 0);
        SET(a->refusals, 0);
        SET(a->gone, 0);
        book_publish(&a->state, word);
    }
    return a;
}

static bool is_size(const void *row, const void *key)
{
    const struct ledger_size *s = row;
    const struct ledger_size *k = key;
    return GET(s->bytes) == k->bytes && GET(s->process) == k->process && GET(s->gpu) == k->gpu &&
           GET(s->kind) == k->kind;
}

/* Used when sizes[] has no room for the exact size. */
static void count_power(struct ledger *ledger, uint64_t bytes, bool freed)
{
    unsigned power = bytes > 0 ? 63u - (unsigned)__builtin_clzll(bytes) : 0;
    struct ledger_power *p = &ledger->powers[power < LEDGER_POWERS ? power : LEDGER_POWERS - 1];
    ADD(*(freed ? &p->frees : &p->allocations), 1);
    ADD(*(freed ? &p->freed_bytes : &p->allocated_bytes), bytes);
    ADD(ledger->lost.sizes, 1);
}

static void count_size(const struct book_actor *actor, const struct ledger_entry *e, bool freed)
{
    struct ledger *ledger = actor->ledger;
    struct ledger_size key = {
        .process = e->process, .gpu = e->gpu, .kind = e->kind, .bytes = e->bytes};
    struct book_table table = {ledger->sizes, sizeof key, LEDGER_SIZES};
    uint64_t hash =
        book_mix(e->bytes ^ book_mix((uint64_t)e->process << 16 | (uint64_t)e->gpu << 8 | e->kind));
    uint32_t word;
    uint32_t at = book_find_or_claim(&table, hash, is_size, &key, &word);
    if (at == BOOK_NONE) {
        count_power(ledger, e->bytes, freed);
        return;
    }
    struct ledger_size *s = &ledger->sizes[at];
    if (word != 0) {
        PUT(s->process, key.process);
        PUT(s->gpu, key.gpu);
        PUT(s->kind, key.kind);
        PUT(s->bytes, key.bytes);
        PUT(s->first_ns, actor->now_ns);
        SET(s->allocations, 0);
        SET(s->frees, 0);
        book_publish(&s->state, word);
    }
    ADD(*(freed ? &s->frees : &s->allocations), 1);
    SET(s->last_ns, actor->now_ns);
}

/* --- totals --- */

static bool raise_peak(_Atomic int64_t *peak, int64_t value)
{
    int64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (value > seen)
        if (atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* A new peak of all processes must not include memory of a dead process. */
static void settle_sometimes(const struct book_actor *actor)
{
    struct ledger *ledger = actor->ledger;
    uint64_t last_ns = atomic_load_explicit(&ledger->settled_ns, memory_order_relaxed);
    if (atomic_load_explicit(&ledger->processes_used, memory_order_relaxed) > 1 &&
        (int64_t)(actor->now_ns - last_ns) >= SETTLE_PERIOD_NS &&
        atomic_compare_exchange_strong(&ledger->settled_ns, &last_ns, actor->now_ns))
        ledger_settle(ledger, actor->now_ns);
}

static void add_to_gpu(const struct book_actor *actor, const struct ledger_entry *e)
{
    if (e->gpu >= LEDGER_GPUS)
        return;
    struct ledger_gpu *gpu = &actor->ledger->gpus[e->gpu];
    if (atomic_load_explicit(&gpu->live[e->kind], memory_order_relaxed) + (int64_t)e->bytes >
        atomic_load_explicit(&gpu->peak[e->kind], memory_order_relaxed))
        settle_sometimes(actor);
    int64_t live = ADD(gpu->live[e->kind], (int64_t)e->bytes) + (int64_t)e->bytes;
    if (raise_peak(&gpu->peak[e->kind], live))
        SET(gpu->peak_ns[e->kind], actor->now_ns);
}

static void add(const struct book_actor *actor, const struct ledger_entry *e)
{
    struct ledger_account *a = book_account(actor->ledger, e->process, e->gpu, e->kind);
    if (a == NULL)
        return;
    int64_t live = ADD(a->live, (int64_t)e->bytes) + (int64_t)e->bytes;
    if (raise_peak(&a->peak, live))
        SET(a->peak_ns, actor->now_ns);
    ADD(a->allocations, 1);
    ADD(a->allocated_bytes, e->bytes);
    COUNT(actor->ledger->processes[e->process].allocations);
    add_to_gpu(actor, e);
    count_size(actor, e, false);
}

static void subtract(const struct book_actor *actor, const struct ledger_entry *e)
{
    struct ledger_account *a = book_account(actor->ledger, e->process, e->gpu, e->kind);
    if (a == NULL)
        return;
    ADD(a->live, -(int64_t)e->bytes);
    ADD(a->frees, 1);
    COUNT(actor->ledger->processes[e->process].frees);
    if (e->gpu < LEDGER_GPUS)
        ADD(actor->ledger->gpus[e->gpu].live[e->kind], -(int64_t)e->bytes);
    count_size(actor, e, true);
}

void book_event(const struct book_actor *actor, const struct ledger_entry *e,
                enum ledger_event_type type, int error)
{
    struct ledger *ledger = actor->ledger;
    uint64_t number = ADD(ledger->events_head, 1) + 1;
    struct ledger_event *event = &ledger->events[number % LEDGER_EVENTS];
    atomic_store_explicit(&event->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    PUT(event->time_ns, actor->now_ns);
    PUT(event->address, e->address);
    PUT(event->size, e->size);
    PUT(event->handle, e->handle);
    PUT(event->process, (uint16_t)actor->process);
    PUT(event->gpu, e->gpu);
    PUT(event->kind, e->kind);
    PUT(event->type, (uint8_t)type);
    PUT(event->error, (uint16_t)error);
    PUT(event->tid, actor->tid);
    PUT(event->flags, e->flags);
    atomic_store_explicit(&event->number, number, memory_order_release);
}

/* --- the live set --- */

/* The kernel gives the lowest free number, so put eight neighbours side by side, in warm memory.
 * With more, the ranges of two processes would overlap. */
static uint64_t entry_hash(uint32_t process, uint64_t handle, int32_t file)
{
    uint64_t owner = book_mix((uint64_t)process << 32 | (uint32_t)file);
    return (book_mix(handle >> 3 ^ owner) << 3) + (handle & 7);
}

static bool is_entry(const struct ledger_entry *e, uint32_t process, uint64_t handle, int32_t file)
{
    return GET(e->handle) == handle && GET(e->process) == process && GET(e->file) == file;
}

uint32_t book_find(const struct book_actor *actor, uint64_t handle, int32_t file)
{
    struct ledger *ledger = actor->ledger;
    uint64_t hash = entry_hash(actor->process, handle, file);
    for (uint32_t i = 0; i < BOOK_PROBES && actor->process != LEDGER_NO_PROCESS; i++) {
        uint32_t at = (uint32_t)((hash + i) % LEDGER_LIVE);
        struct ledger_entry *e = &ledger->live[at];
        uint32_t state = LEDGER_STATE(atomic_load_explicit(&e->state, memory_order_acquire));
        if (state == LEDGER_EMPTY)
            break;
        if (state == LEDGER_USED && is_entry(e, actor->process, handle, file))
            return at;
    }
    return BOOK_NONE;
}

static bool is_free(uint32_t word)
{
    return LEDGER_STATE(word) == LEDGER_EMPTY || LEDGER_STATE(word) == LEDGER_FREED;
}

/* Entries of a dead process are kept as long as there is room. */
static bool is_of_the_dead(const struct ledger *ledger, const struct ledger_entry *e, uint32_t word)
{
    uint32_t process = GET(e->process);
    return LEDGER_STATE(word) == LEDGER_USED && process < LEDGER_PROCESSES &&
           atomic_load_explicit(&ledger->processes[process].life, memory_order_relaxed) !=
               LEDGER_ALIVE;
}

static struct ledger_entry *claim_entry(struct ledger *ledger, uint64_t hash, uint32_t *ret_word)
{
    for (int evicting = 0; evicting < 2; evicting++) {
        for (uint32_t i = 0; i < BOOK_PROBES; i++) {
            struct ledger_entry *e = &ledger->live[(hash + i) % LEDGER_LIVE];
            uint32_t seen = atomic_load_explicit(&e->state, memory_order_relaxed);
            if (!is_free(seen) && !(evicting && is_of_the_dead(ledger, e, seen)))
                continue;
            *ret_word = book_claim(&e->state, seen);
            if (*ret_word != 0)
                return e;
        }
    }
    return NULL;
}

static void keep_entry(struct ledger *ledger, const struct ledger_entry *from)
{
    uint32_t word;
    struct ledger_entry *e =
        claim_entry(ledger, entry_hash(from->process, from->handle, from->file), &word);
    if (e == NULL) {
        ADD(ledger->lost.live, 1);
        ADD(ledger->lost.live_bytes, from->bytes);
        return;
    }
    PUT(e->process, from->process);
    PUT(e->gpu, from->gpu);
    PUT(e->kind, from->kind);
    PUT(e->handle, from->handle);
    PUT(e->address, from->address);
    PUT(e->size, from->size);
    PUT(e->bytes, from->bytes);
    PUT(e->time_ns, from->time_ns);
    PUT(e->flags, from->flags);
    PUT(e->file, from->file);
    PUT(e->tid, from->tid);
    PUT(e->mapped, 0);
    book_publish(&e->state, word);
}

static struct ledger_entry entry_of(const struct book_actor *actor, const struct book_buffer *b)
{
    return (struct ledger_entry){
        .process = (uint16_t)actor->process,
        .gpu = b->gpu,
        .kind = b->kind,
        .handle = b->handle,
        .address = b->address,
        .size = b->size,
        .bytes = b->kind == LEDGER_IMPORT ? 0 : book_pages(b->size),
        .time_ns = actor->now_ns,
        .flags = b->flags,
        .file = b->file,
        .tid = actor->tid,
    };
}

void book_allocated(const struct book_actor *actor, const struct book_buffer *buffer)
{
    struct ledger_entry e = entry_of(actor, buffer);
    if (actor->process != LEDGER_NO_PROCESS) {
        keep_entry(actor->ledger, &e);
        add(actor, &e);
    }
    book_event(actor, &e, LEDGER_EVENT_ALLOC, 0);
}

uint32_t book_begin_free(const struct book_actor *actor, uint64_t handle, int32_t file)
{
    for (int i = 0; i < GONE_TRIES; i++) {
        uint32_t at = book_find(actor, handle, file);
        if (at == BOOK_NONE)
            break;
        _Atomic uint32_t *state = &actor->ledger->live[at].state;
        uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
        /* The word counts the slot's uses, so an equal word means the entry that was found. */
        if (LEDGER_STATE(seen) == LEDGER_USED &&
            is_entry(&actor->ledger->live[at], actor->process, handle, file) &&
            atomic_compare_exchange_strong(state, &seen, (seen & ~0xffu) | LEDGER_FREEING))
            return at;
    }
    return BOOK_NONE;
}

void book_end_free(const struct book_actor *actor, uint32_t entry, bool freed)
{
    struct ledger *ledger = actor->ledger;
    if (entry == BOOK_NONE) {
        if (freed && actor->process != LEDGER_NO_PROCESS)
            ADD(ledger->processes[actor->process].unknown_frees, 1);
        return;
    }
    /* No other thread touches an entry that is being freed. */
    struct ledger_entry *e = &ledger->live[entry];
    uint32_t word = atomic_load_explicit(&e->state, memory_order_relaxed) & ~0xffu;
    struct ledger_entry copy = {
        .process = GET(e->process),
        .gpu = GET(e->gpu),
        .kind = GET(e->kind),
        .handle = GET(e->handle),
        .address = GET(e->address),
        .size = GET(e->size),
        .bytes = GET(e->bytes),
        .flags = GET(e->flags),
    };
    atomic_store_explicit(&e->state, word | (freed ? LEDGER_FREED : LEDGER_USED),
                          memory_order_release);
    if (!freed)
        return;
    subtract(actor, &copy);
    book_event(actor, &copy, LEDGER_EVENT_FREE, 0);
}
