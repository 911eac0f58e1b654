/* SPDX-License-Identifier: Apache-2.0 */
#include "blit.h"

#include <stddef.h>
#include <string.h>

#include "journal.h"
#include "machine.h"
#include "memory.h"
#include "queue.h"
#include "state.h"

/* Arguments of __amd_rocclr_copyBuffer in ROCm 7.2. */
struct copy_arguments {
    uint64_t from, to, size;
    uint32_t remainder, unit;
    uint64_t end; /* = to + size: identifies the copy kernel; no other kernel is run here */
};

static bool is_copy(const struct copy_arguments *a)
{
    return a->size != 0 && a->end == a->to + a->size && a->remainder < 16 &&
           (a->unit == 1 || a->unit == 2 || a->unit == 4 || a->unit == 8 || a->unit == 16);
}

static void log_copy(const struct queue *q, const struct copy_arguments *a)
{
    state_lock();
    journal("\"event\":\"copy\",\"by\":\"kernel\",\"gpu\":%u,\"queue\":%u,\"to\":\"0x%llx\","
            "\"from\":\"0x%llx\",\"size\":%llu",
            machine.gpus[q->gpu].gpu_id, q->id, (unsigned long long)a->to,
            (unsigned long long)a->from, (unsigned long long)a->size);
    state_unlock();
}

void blit_run(const struct queue *queue, uint64_t kernarg)
{
    struct copy_arguments a = {0};
    struct gpu_access arguments = memory_begin_access(kernarg, sizeof a);
    if (arguments.data != NULL)
        memcpy(&a, arguments.data, sizeof a);
    memory_end_access(&arguments);
    if (!is_copy(&a))
        return;
    struct gpu_access source = memory_begin_access(a.from, a.size);
    struct gpu_access target = memory_begin_access(a.to, a.size);
    bool good = source.data != NULL && target.data != NULL;
    if (good)
        memmove(target.data, source.data, a.size);
    memory_end_access(&source);
    memory_end_access(&target);
    if (good)
        log_copy(queue, &a);
}
