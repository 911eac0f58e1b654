/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU page fault: the copy engine writes to a freed buffer. Asked of HSA itself,
 * which does not check addresses; no compiler for the GPU is needed. PAGE_FAULT=past-end writes
 * past the end of a buffer, PAGE_FAULT=null near address 0. Near miss: the CPU reads the
 * freed buffer (SIGSEGV); no GPU faulted.
 */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#define BYTES (8 * MIB)

struct found {
    hsa_agent_t gpu, cpu;
    bool has_gpu, has_cpu;
    hsa_amd_memory_pool_t pool;
    bool has_pool;
};

static hsa_status_t on_agent(hsa_agent_t agent, void *context)
{
    struct found *found = context;
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
    (void)hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type == HSA_DEVICE_TYPE_GPU && !found->has_gpu) {
        found->gpu = agent;
        found->has_gpu = true;
    } else if (type == HSA_DEVICE_TYPE_CPU && !found->has_cpu) {
        found->cpu = agent;
        found->has_cpu = true;
    }
    return HSA_STATUS_SUCCESS;
}

/* The first pool that programs may allocate from. */
static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *context)
{
    struct found *found = context;
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GROUP;
    bool allowed = false;
    (void)hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    (void)hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                                       &allowed);
    if (segment != HSA_AMD_SEGMENT_GLOBAL || !allowed || found->has_pool)
        return HSA_STATUS_SUCCESS;
    found->pool = pool;
    found->has_pool = true;
    return HSA_STATUS_SUCCESS;
}

static void *allocate(struct found *found, hsa_agent_t agent)
{
    void *memory = NULL;
    found->has_pool = false;
    (void)hsa_amd_agent_iterate_memory_pools(agent, on_pool, found);
    if (!found->has_pool || hsa_amd_memory_pool_allocate(found->pool, BYTES, 0, &memory) != 0) {
        sample_say("no memory for %zu bytes", BYTES);
        exit(3);
    }
    return memory;
}

static char *target_address(struct found *found)
{
    const char *kind = getenv("PAGE_FAULT");
    if (kind != NULL && strcmp(kind, "null") == 0)
        return (char *)(uintptr_t)0x1000;
    char *buffer = allocate(found, found->gpu);
    if (kind != NULL && strcmp(kind, "past-end") == 0)
        return buffer + BYTES - BYTES / 4;
    (void)hsa_amd_memory_pool_free(buffer);
    return buffer;
}

static int read_freed(volatile char *buffer)
{
    (void)hsa_amd_memory_pool_free((void *)(uintptr_t)buffer);
    return *buffer;
}

static bool copy(struct found *found, char *target, char *host)
{
    hsa_signal_t done;
    if (hsa_signal_create(1, 0, NULL, &done) != HSA_STATUS_SUCCESS ||
        hsa_amd_memory_async_copy(target, found->gpu, host, found->cpu, BYTES / 2, 0, NULL, done) !=
            HSA_STATUS_SUCCESS)
        return false;
    (void)hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
                                    HSA_WAIT_STATE_BLOCKED);
    return true;
}

int main(int argc, char **argv)
{
    struct found found = {0};
    bool is_near_miss = sample_options(argc, argv, "a copy into a freed buffer",
                                       "the CPU reads a freed buffer (SIGSEGV)");
    if (hsa_init() != HSA_STATUS_SUCCESS)
        return 3;
    (void)hsa_iterate_agents(on_agent, &found);
    if (!found.has_gpu || !found.has_cpu)
        return 3;
    char *host = allocate(&found, found.cpu);
    (void)hsa_amd_agents_allow_access(1, &found.gpu, NULL, host);
    if (is_near_miss)
        return read_freed(allocate(&found, found.gpu));
    sample_watchdog(20, "the copy did not end");
    /* The runtime allocates at its first copy, and could get the address that is freed below. So it copies first. */
    if (!copy(&found, allocate(&found, found.gpu), host) ||
        !copy(&found, target_address(&found), host))
        return 3;
    sample_say("the copy ended: the address was somebody's");
    return 0;
}
