/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy engine: SDMA packets as ROCr writes them (opcode in the low byte of the first word,
 * sub-opcode in the second). In the processors' thread. A copy or fill outside all buffers of the
 * process is a page fault, as on the GPU.
 */
#include <stddef.h>
#include <string.h>

#include "events.h"
#include "faults.h"
#include "journal.h"
#include "machine.h"
#include "memory.h"
#include "queue.h"
#include "state.h"

enum opcode {
    OP_NOP = 0,
    OP_COPY = 1,
    OP_FENCE = 5,
    OP_TRAP = 6,
    OP_POLL = 8,
    OP_ATOMIC = 10,
    OP_FILL = 11,
    OP_TIMESTAMP = 13,
    OP_CACHE = 17,
};
#define WORDS_MAX 16u
#define COUNT_MASK 0x3fffffffu

static uint64_t address(const uint32_t *words)
{
    return words[0] | (uint64_t)words[1] << 32;
}

static void log_copy(const struct queue *q, const char *what, uint64_t to, uint64_t from,
                     uint64_t size)
{
    state_lock();
    journal("\"event\":\"%s\",\"gpu\":%u,\"queue\":%u,\"to\":\"0x%llx\",\"from\":\"0x%llx\","
            "\"size\":%llu",
            what, machine.gpus[q->gpu].gpu_id, q->id, (unsigned long long)to,
            (unsigned long long)from, (unsigned long long)size);
    state_unlock();
}

/* [7] header, count - 1, parameters, source, destination. False = the queue stopped. */
static bool copy(struct queue *q, const uint32_t *words)
{
    uint64_t size = (words[1] & COUNT_MASK) + 1ull;
    uint64_t from = address(words + 3);
    uint64_t to = address(words + 5);
    if (queue_faults(q, FAULT_COPY))
        return false;
    struct gpu_access source = memory_begin_access(from, size);
    struct gpu_access target = memory_begin_access(to, size);
    bool good = source.data != NULL && target.data != NULL;
    if (good)
        memmove(target.data, source.data, size);
    memory_end_access(&source);
    memory_end_access(&target);
    if (good)
        log_copy(q, "copy", to, from, size);
    else
        queue_page_fault(q, memory_first_fault(source.data == NULL ? from : to, size),
                         source.data != NULL);
    return good;
}

/* [5] header, destination, value, bytes - 4 */
static bool fill(struct queue *q, const uint32_t *words)
{
    uint64_t size = (words[4] & COUNT_MASK) + 4ull;
    uint64_t to = address(words + 1);
    struct gpu_access target = memory_begin_access(to, size);
    bool good = target.data != NULL;
    for (uint64_t i = 0; good && i < size / 4; i++)
        memcpy((char *)target.data + i * 4, &words[3], 4);
    memory_end_access(&target);
    if (good)
        log_copy(q, "fill", to, words[3], size);
    else
        queue_page_fault(q, memory_first_fault(to, size), true);
    return good;
}

/* [6] header with the function in bits 28-30 and "memory" in 31, address, value, mask, interval */
static bool poll_passes(const uint32_t *words)
{
    if ((words[0] >> 31) == 0)
        return true;
    const uint32_t *at = (const uint32_t *)(uintptr_t)address(words + 1);
    uint32_t value = __atomic_load_n(at, __ATOMIC_ACQUIRE) & words[4];
    uint32_t wanted = words[3];
    switch (words[0] >> 28 & 7) {
    case 1:
        return value < wanted;
    case 2:
        return value <= wanted;
    case 3:
        return value == wanted;
    case 4:
        return value != wanted;
    case 5:
        return value >= wanted;
    case 6:
        return value > wanted;
    default:
        return true;
    }
}

static void unknown(const struct queue *q, uint32_t word)
{
    state_lock();
    journal("\"event\":\"unknown\",\"what\":\"sdma\",\"queue\":%u,\"word\":\"0x%x\"", q->id, word);
    state_unlock();
}

/* Words of the packet; 0 = it has to wait, or the queue stopped. */
static uint32_t execute(struct queue *q, const uint32_t *words)
{
    uint64_t at = address(words + 1);
    switch ((enum opcode)(words[0] & 0xff)) {
    case OP_NOP:
        return 1 + (words[0] >> 16 & 0x3fff);
    case OP_COPY:
        if ((words[0] >> 8 & 0xff) != 0) { /* rectangles: ROCr 5.2.3 does not send them to gfx90a */
            unknown(q, words[0]);
            return 13;
        }
        return copy(q, words) ? 7 : 0;
    case OP_FENCE:
        __atomic_store_n((uint32_t *)(uintptr_t)at, words[3], __ATOMIC_RELEASE);
        return 4;
    case OP_TRAP:
        (void)events_set(words[1] & 0x0fffffff);
        return 2;
    case OP_POLL:
        return poll_passes(words) ? 6 : 0;
    case OP_ATOMIC:
        (void)__atomic_add_fetch((uint64_t *)(uintptr_t)at, address(words + 3), __ATOMIC_ACQ_REL);
        return 8;
    case OP_FILL:
        return fill(q, words) ? 5 : 0;
    case OP_TIMESTAMP:
        __atomic_store_n((uint64_t *)(uintptr_t)at, queue_clock(), __ATOMIC_RELEASE);
        return 3;
    case OP_CACHE:
        return 5;
    default:
        unknown(q, words[0]);
        return 1;
    }
}

unsigned queue_run_sdma(struct queue *queue)
{
    uint64_t end = __atomic_load_n(queue->doorbell, __ATOMIC_ACQUIRE);
    const uint32_t *ring = (const uint32_t *)(uintptr_t)queue->ring;
    uint32_t ring_words = queue->size / 4;
    unsigned done = 0;
    while (queue->position < end) {
        uint32_t words[WORDS_MAX];
        for (uint32_t i = 0; i < WORDS_MAX; i++)
            words[i] = ring[(queue->position / 4 + i) % ring_words];
        uint32_t len = execute(queue, words);
        if (len == 0)
            break;
        queue->position += len * 4ull;
        __atomic_store_n(queue->read_pointer, queue->position, __ATOMIC_RELEASE);
        done++;
    }
    return done;
}
