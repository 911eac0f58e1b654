/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program against libhsa-runtime64 alone. Commands: alloc BYTES, fill BYTES (until refused),
 * free NUMBER, copy NUMBER (1 MiB from the host to it), stray NUMBER (to 1 GiB behind it: a page
 * fault), quit.
 */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdint.h>

#include "commands.h"

#define COPY_BYTES (1u << 20)
#define STRAY_BYTES (1ull << 30)

static hsa_agent_t gpu, cpu;
static hsa_amd_memory_pool_t pool, host_pool;
static bool has_pool, has_host_pool;
static void *host; /* what the copy engine reads: it does not touch pageable memory */
static void *memory[SLOTS_MAX];
static unsigned count;

static hsa_status_t on_pool(hsa_amd_memory_pool_t candidate, void *data)
{
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_READONLY;
    uint32_t flags = 0;
    bool allowed = false;
    bool is_gpu = data != NULL;
    (void)hsa_amd_memory_pool_get_info(candidate, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if (segment != HSA_AMD_SEGMENT_GLOBAL || (is_gpu ? has_pool : has_host_pool))
        return HSA_STATUS_SUCCESS;
    (void)hsa_amd_memory_pool_get_info(candidate, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    (void)hsa_amd_memory_pool_get_info(candidate, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                                       &allowed);
    if (is_gpu && allowed && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) != 0) {
        pool = candidate;
        has_pool = true;
    } else if (!is_gpu && allowed) {
        host_pool = candidate;
        has_host_pool = true;
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_agent(hsa_agent_t agent, void *data)
{
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
    (void)data;
    (void)hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type == HSA_DEVICE_TYPE_CPU && !has_host_pool) {
        cpu = agent;
        return hsa_amd_agent_iterate_memory_pools(agent, on_pool, NULL);
    }
    if (type != HSA_DEVICE_TYPE_GPU || has_pool)
        return HSA_STATUS_SUCCESS;
    gpu = agent;
    return hsa_amd_agent_iterate_memory_pools(agent, on_pool, &gpu);
}

static hsa_status_t allocate(uint64_t bytes)
{
    if (count == SLOTS_MAX)
        return HSA_STATUS_ERROR;
    hsa_status_t status = hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory[count]);
    if (status == HSA_STATUS_SUCCESS)
        count++;
    return status;
}

static void answer_status(const char *what, unsigned number, hsa_status_t status)
{
    const char *text = "";
    (void)hsa_status_string(status, &text);
    ANSWER("%s %u 0x%x %s", what, number, (unsigned)status, text);
}

static hsa_status_t copy_from_host(void *to)
{
    hsa_signal_t done;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (host == NULL) {
        status = hsa_amd_memory_pool_allocate(host_pool, COPY_BYTES, 0, &host);
        if (status == HSA_STATUS_SUCCESS)
            status = hsa_amd_agents_allow_access(1, &gpu, NULL, host);
    }
    if (status == HSA_STATUS_SUCCESS)
        status = hsa_signal_create(1, 0, NULL, &done);
    if (status == HSA_STATUS_SUCCESS)
        status = hsa_amd_memory_async_copy(to, gpu, host, cpu, COPY_BYTES, 0, NULL, done);
    if (status != HSA_STATUS_SUCCESS)
        return status;
    (void)hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
                                    HSA_WAIT_STATE_BLOCKED);
    return hsa_signal_destroy(done);
}

static void execute(const struct command *c)
{
    if (strcmp(c->name, "alloc") == 0) {
        hsa_status_t status = allocate(c->first);
        answer_status("alloc", count, status);
    } else if (strcmp(c->name, "fill") == 0) {
        unsigned before = count;
        hsa_status_t status = HSA_STATUS_SUCCESS;
        while (status == HSA_STATUS_SUCCESS)
            status = allocate(c->first);
        answer_status("fill", count - before, status);
    } else if (strcmp(c->name, "free") == 0 && c->first < count) {
        answer_status("free", (unsigned)c->first, hsa_amd_memory_pool_free(memory[c->first]));
    } else if (strcmp(c->name, "copy") == 0 && c->first < count) {
        answer_status("copy", 0, copy_from_host(memory[c->first]));
    } else if (strcmp(c->name, "stray") == 0 && c->first < count) {
        answer_status("stray", 0, copy_from_host((char *)memory[c->first] + STRAY_BYTES));
    } else {
        ANSWER("unknown %s", c->name);
    }
}

int main(void)
{
    hsa_status_t status = hsa_init();
    if (status == HSA_STATUS_SUCCESS)
        status = hsa_iterate_agents(on_agent, NULL);
    answer_status("ready", has_pool, status);
    struct command command;
    while (has_pool && next_command(&command) && strcmp(command.name, "quit") != 0)
        execute(&command);
    return hsa_shut_down() == HSA_STATUS_SUCCESS && has_pool ? 0 : 1;
}
