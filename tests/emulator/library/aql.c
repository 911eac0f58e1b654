/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute queue (AQL, HSA Platform System Architecture 2.9): 64-byte packets, format in the low
 * byte of the header. In the processors' thread.
 */
#include <stddef.h>
#include <string.h>

#include "blit.h"
#include "events.h"
#include "faults.h"
#include "journal.h"
#include "machine.h"
#include "queue.h"
#include "state.h"

#define PACKET 64u
#define BARRIER_SIGNALS 5

enum format { VENDOR = 0, INVALID = 1, DISPATCH = 2, BARRIER_AND = 3, AGENT = 4, BARRIER_OR = 5 };
enum { VENDOR_BARRIER_VALUE = 2 };
enum condition { COND_EQ, COND_NE, COND_LT, COND_GTE };

/* amd_signal_t */
struct hsa_signal {
    int64_t kind;
    int64_t value;
    uint64_t mailbox; /* address for the event's id */
    uint32_t event_id, reserved;
    uint64_t start, end;
};

/* All formats have the completion signal last. */
struct packet {
    uint16_t header, setup;
    uint16_t workgroup[3], reserved0;
    uint32_t grid[3];
    uint32_t private_size, group_size;
    uint64_t kernel_object;
    uint64_t kernarg;
    uint64_t reserved2;
    uint64_t signal;
};

static int64_t value_of(uint64_t signal)
{
    const struct hsa_signal *s = (const struct hsa_signal *)(uintptr_t)signal;
    return __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
}

static void complete(uint64_t signal)
{
    struct hsa_signal *s = (struct hsa_signal *)(uintptr_t)signal;
    if (s == NULL)
        return;
    /* Read before the value changes: the owner may destroy the signal then. */
    uint64_t mailbox = s->mailbox;
    uint32_t event = s->event_id;
    s->start = queue_clock() - 10;
    s->end = queue_clock();
    (void)__atomic_sub_fetch(&s->value, 1, __ATOMIC_ACQ_REL);
    if (mailbox != 0) {
        __atomic_store_n((uint64_t *)(uintptr_t)mailbox, event, __ATOMIC_RELEASE);
        (void)events_set(event);
    }
}

static bool barrier_passes(const uint64_t *words, bool any)
{
    unsigned count = 0;
    unsigned zero = 0;
    for (int i = 1; i <= BARRIER_SIGNALS; i++) {
        if (words[i] == 0)
            continue;
        count++;
        zero += value_of(words[i]) == 0;
    }
    return count == 0 || (any ? zero > 0 : zero == count);
}

/* AMD's barrier on a value: signal, value, mask, condition */
static bool value_passes(const uint64_t *words)
{
    if (words[1] == 0)
        return true;
    int64_t value = value_of(words[1]) & (int64_t)words[3];
    int64_t wanted = (int64_t)words[2];
    switch ((enum condition)(uint32_t)words[4]) {
    case COND_EQ:
        return value == wanted;
    case COND_NE:
        return value != wanted;
    case COND_LT:
        return value < wanted;
    default:
        return value >= wanted;
    }
}

static bool passes(enum format format, const void *packet)
{
    uint64_t words[8];
    memcpy(words, packet, sizeof words);
    if (format == BARRIER_AND || format == BARRIER_OR)
        return barrier_passes(words, format == BARRIER_OR);
    if (format == VENDOR && (words[0] >> 16 & 0xff) == VENDOR_BARRIER_VALUE)
        return value_passes(words);
    return true;
}

static void log_dispatch(const struct queue *queue, const struct packet *p)
{
    state_lock();
    journal("\"event\":\"dispatch\",\"gpu\":%u,\"queue\":%u,\"kernel\":\"0x%llx\","
            "\"grid\":[%u,%u,%u]",
            machine.gpus[queue->gpu].gpu_id, queue->id, (unsigned long long)p->kernel_object,
            p->grid[0], p->grid[1], p->grid[2]);
    state_unlock();
}

unsigned queue_run_aql(struct queue *queue)
{
    uint64_t at = __atomic_load_n(queue->read_pointer, __ATOMIC_RELAXED);
    uint64_t slots = queue->size / PACKET;
    unsigned done = 0;
    while (at < __atomic_load_n(queue->write_pointer, __ATOMIC_ACQUIRE)) {
        struct packet *p = (struct packet *)(uintptr_t)(queue->ring + at % slots * PACKET);
        uint16_t header = __atomic_load_n(&p->header, __ATOMIC_ACQUIRE);
        enum format format = (enum format)(header & 0xff);
        if (format == INVALID || !passes(format, p))
            break;
        if (format == DISPATCH) {
            log_dispatch(queue, p);
            if (queue_faults(queue, FAULT_DISPATCH))
                break;
            blit_run(queue, p->kernarg);
        }
        uint64_t signal = p->signal;
        __atomic_store_n(&p->header, (uint16_t)INVALID, __ATOMIC_RELEASE);
        at++;
        __atomic_store_n(queue->read_pointer, at, __ATOMIC_RELEASE);
        complete(signal);
        done++;
    }
    return done;
}
