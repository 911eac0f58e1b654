/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools as the HSA runtime sees them. Asked through rocmcrash-probe: hsa_init() opens
 * /dev/kfd and may hang. Prefers the runtime that the failed program had mapped (PyTorch brings its
 * own).
 */
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own_folder.h"
#include "collectors/probe_run.h"
#include "probe/rocminfo.h"
#include "telemetry/machine.h"

#define DEADLINE_MS 3000

/* The path of the mapped libhsa-runtime64 in `out` (PATH_MAX); false if there is none that we may load. The
 * program chose that name, and ran as somebody else, perhaps, or in another root folder: only a file that
 * nobody else could have written or can exchange is loaded, by its real path. */
static bool mapped_runtime(const char *maps, char *out)
{
    char path[PATH_MAX];
    struct stat st;
    const char *name = strstr(maps, "/libhsa-runtime64.so");
    if (name == NULL)
        return false;
    const char *start = name;
    while (start > maps && start[-1] != '\n')
        start--;
    start = memchr(start, '/', (size_t)(name - start) + 1);
    size_t length = start != NULL ? strcspn(start, "\n") : 0;
    if (length == 0 || length >= sizeof path)
        return false;
    memcpy(path, start, length);
    path[length] = '\0';
    if (realpath(path, out) == NULL || lstat(out, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (geteuid() != 0 && st.st_uid == geteuid())
        st.st_mode &= ~(mode_t)S_IWGRP; /* a user's own group (umask 002), where it is his own file */
    return own_path_distrust(out, &st) == NULL;
}

static void add_agent_facts(struct collect_out *out, const struct machine *machine,
                            const cJSON *agent)
{
    int index = probe_gpu_index(
        machine, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(agent, "pci")));
    probe_fact(out, index, "hsa.memory_available_bytes", agent, "memory_available_bytes",
               "hsa/pools.json: HSA_AMD_AGENT_INFO_MEMORY_AVAIL");
    const cJSON *pool;
    cJSON_ArrayForEach(pool, cJSON_GetObjectItemCaseSensitive(agent, "pools"))
    {
        const char *segment =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(pool, "segment"));
        if (segment == NULL || strcmp(segment, "GLOBAL") != 0)
            continue;
        probe_fact(out, index, "hsa.pool_bytes", pool, "size_bytes",
                   "hsa/pools.json: first global pool");
        probe_fact(out, index, "hsa.largest_allocation_bytes", pool, "largest_allocation_bytes",
                   "hsa/pools.json: first global pool");
        probe_fact(out, index, "hsa.granule_bytes", pool, "granule_bytes",
                   "hsa/pools.json: first global pool");
        probe_fact(out, index, "hsa.recommended_granule_bytes", pool, "recommended_granule_bytes",
                   "hsa/pools.json: first global pool");
        return;
    }
}

/* Host memory that the GPUs can use: the largest pool of a CPU agent. All GPUs share it. */
static void add_host_facts(struct collect_out *out, const cJSON *agents)
{
    double largest = 0;
    int gpus = 0;
    const cJSON *agent;
    const cJSON *pool;
    cJSON_ArrayForEach(agent, agents)
    {
        const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(agent, "type"));
        bool is_cpu = type != NULL && strcmp(type, "CPU") == 0;
        gpus += type != NULL && strcmp(type, "GPU") == 0;
        cJSON_ArrayForEach(pool, cJSON_GetObjectItemCaseSensitive(agent, "pools"))
        {
            const cJSON *size = cJSON_GetObjectItemCaseSensitive(pool, "size_bytes");
            if (is_cpu && cJSON_IsNumber(size) && size->valuedouble > largest)
                largest = size->valuedouble;
        }
    }
    collect_integer(out, "hsa.gpus_count", FACT_AFTER, gpus, "hsa/pools.json");
    if (largest > 0)
        collect_integer(out, "hsa.host_pool_bytes", FACT_AFTER, (int64_t)largest,
                        "hsa/pools.json: largest pool of a CPU");
}

/* The same answer in the layout that maintainers know by heart. */
static void write_text(struct collect_out *out, const cJSON *json)
{
    struct buf text = BUF_INIT;
    rocminfo_text(json, &text);
    (void)collect_write(out, "rocminfo.txt", text.data, text.len);
    buf_release(&text);
}

static enum collect_status run_hsa(const struct collect_ctx *ctx, struct collect_out *out)
{
    static struct machine machine;
    char library[PATH_MAX];
    const char *arguments[] = {"hsa", NULL, NULL, NULL};
    if (mapped_runtime(ctx->maps, library)) {
        arguments[1] = "--library";
        arguments[2] = library;
    }
    cJSON *json = NULL;
    enum collect_status status = probe_run(ctx, out, arguments, "pools.json", &machine, &json);
    if (status != COLLECT_OK)
        return status;
    const cJSON *agent;
    cJSON_ArrayForEach(agent, cJSON_GetObjectItemCaseSensitive(json, "agents"))
    {
        add_agent_facts(out, &machine, agent);
    }
    add_host_facts(out, cJSON_GetObjectItemCaseSensitive(json, "agents"));
    write_text(out, json);
    cJSON_Delete(json);
    return COLLECT_OK;
}

const struct collector collector_hsa = {
    .name = "hsa",
    .describe = "agents and memory pools as the HSA runtime reports them",
    .phase = COLLECT_SLOW,
    .deadline_ms = DEADLINE_MS,
    .run = run_hsa,
};
