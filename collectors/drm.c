/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps, evictions and lost-VRAM counters, which only the driver's ioctls give. Asked through
 * rocmcrash-probe: opening a render node may hang on a GPU in reset.
 */
#include <cjson/cJSON.h>

#include "collectors/probe_run.h"
#include "telemetry/machine.h"

#define DEADLINE_MS 3000

static void add_device_facts(struct collect_out *out, const struct machine *machine,
                             const cJSON *device)
{
    static const struct {
        const char *fact;
        const char *key;
    } counters[] = {
        {"drm.evictions_count", "evictions_count"},
        {"drm.moved_bytes", "moved_bytes"},
        {"drm.vram_lost_count", "vram_lost_count"},
        {"drm.vram_cpu_page_faults_count", "vram_cpu_page_faults_count"},
    };
    int index = probe_gpu_index(
        machine, cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(device, "pci")));
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        probe_fact(out, index, counters[i].fact, device, counters[i].key,
                   "drm/heaps.json: AMDGPU_INFO");
    const cJSON *heaps = cJSON_GetObjectItemCaseSensitive(device, "heaps");
    static const struct {
        const char *fact;
        const char *heap;
        const char *key;
    } values[] = {
        {"drm.vram_usable_bytes", "vram", "usable_bytes"},
        {"drm.vram_used_bytes", "vram", "used_bytes"},
        {"drm.vram_largest_allocation_bytes", "vram", "largest_allocation_bytes"},
        {"drm.vram_visible_usable_bytes", "vram_visible", "usable_bytes"},
        {"drm.vram_visible_used_bytes", "vram_visible", "used_bytes"},
        {"drm.gtt_usable_bytes", "gtt", "usable_bytes"},
        {"drm.gtt_used_bytes", "gtt", "used_bytes"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        probe_fact(out, index, values[i].fact,
                   cJSON_GetObjectItemCaseSensitive(heaps, values[i].heap), values[i].key,
                   "drm/heaps.json: AMDGPU_INFO_MEMORY");
}

static enum collect_status run_drm(const struct collect_ctx *ctx, struct collect_out *out)
{
    static struct machine machine;
    static const char *const arguments[] = {"drm", NULL};
    cJSON *json = NULL;
    enum collect_status status = probe_run(ctx, out, arguments, "heaps.json", &machine, &json);
    if (status != COLLECT_OK)
        return status;
    const cJSON *device;
    int errors = 0;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(json, "devices"))
    {
        errors += cJSON_HasObjectItem(device, "error");
        add_device_facts(out, &machine, device);
    }
    cJSON_Delete(json);
    if (errors > 0)
        return collect_reason(out, COLLECT_PARTIAL, "%d devices could not be asked", errors);
    return COLLECT_OK;
}

const struct collector collector_drm = {
    .name = "drm",
    .describe = "heaps, evictions and reset counters from the amdgpu driver",
    .phase = COLLECT_SLOW,
    .needs_run = true,
    .deadline_ms = DEADLINE_MS,
    .run = run_drm,
};
