/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the HSA runtime for agents and memory pools. hsa_init() opens /dev/kfd and makes this a GPU
 * process; it may hang on a GPU in reset. We do not ask for the UUID: it is a serial number.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "probe/json.h"
#include "probe/library.h"
#include "probe/probe.h"

/* Since ROCm 5.3; the headers of Debian 12 (5.2.3) do not name it. Bytes free for allocation. */
#define AGENT_INFO_MEMORY_AVAIL ((hsa_agent_info_t)0xA015)
/* Since ROCm 6.0. */
#define POOL_INFO_REC_GRANULE ((hsa_amd_memory_pool_info_t)18)
#define ISA_NAME_MAX 256

struct hsa_api {
    hsa_status_t (*init)(void);
    hsa_status_t (*shut_down)(void);
    hsa_status_t (*system_get_info)(hsa_system_info_t, void *);
    hsa_status_t (*iterate_agents)(hsa_status_t (*)(hsa_agent_t, void *), void *);
    hsa_status_t (*agent_get_info)(hsa_agent_t, hsa_agent_info_t, void *);
    hsa_status_t (*agent_iterate_isas)(hsa_agent_t, hsa_status_t (*)(hsa_isa_t, void *), void *);
    hsa_status_t (*isa_get_info_alt)(hsa_isa_t, hsa_isa_info_t, void *);
    hsa_status_t (*iterate_pools)(hsa_agent_t, hsa_status_t (*)(hsa_amd_memory_pool_t, void *),
                                  void *);
    hsa_status_t (*pool_get_info)(hsa_amd_memory_pool_t, hsa_amd_memory_pool_info_t, void *);
    hsa_status_t (*status_string)(hsa_status_t, const char **);
};

#define SYMBOL(function, member)                                                                   \
    {                                                                                              \
        function, offsetof(struct hsa_api, member), false                                          \
    }
static const struct library_symbol symbols[] = {
    SYMBOL("hsa_init", init),
    SYMBOL("hsa_shut_down", shut_down),
    SYMBOL("hsa_system_get_info", system_get_info),
    SYMBOL("hsa_iterate_agents", iterate_agents),
    SYMBOL("hsa_agent_get_info", agent_get_info),
    SYMBOL("hsa_agent_iterate_isas", agent_iterate_isas),
    SYMBOL("hsa_isa_get_info_alt", isa_get_info_alt),
    SYMBOL("hsa_amd_agent_iterate_memory_pools", iterate_pools),
    SYMBOL("hsa_amd_memory_pool_get_info", pool_get_info),
    SYMBOL("hsa_status_string", status_string),
};

struct walk {
    const struct hsa_api *api;
    cJSON *list;
};

static void add_agent_u32(const struct hsa_api *api, hsa_agent_t agent, cJSON *object,
                          const char *name, uint32_t attribute)
{
    uint32_t value = 0;
    if (api->agent_get_info(agent, (hsa_agent_info_t)attribute, &value) == HSA_STATUS_SUCCESS)
        probe_add_number(object, name, value);
}

static void add_agent_text(const struct hsa_api *api, hsa_agent_t agent, cJSON *object,
                           const char *name, uint32_t attribute)
{
    char text[256] = "";
    if (api->agent_get_info(agent, (hsa_agent_info_t)attribute, text) == HSA_STATUS_SUCCESS) {
        text[sizeof text - 1] = '\0';
        (void)cJSON_AddStringToObject(object, name, text);
    }
}

static const char *segment_name(hsa_amd_segment_t segment)
{
    switch (segment) {
    case HSA_AMD_SEGMENT_GLOBAL:
        return "GLOBAL";
    case HSA_AMD_SEGMENT_READONLY:
        return "READONLY";
    case HSA_AMD_SEGMENT_PRIVATE:
        return "PRIVATE";
    case HSA_AMD_SEGMENT_GROUP:
        return "GROUP";
    }
    return "UNKNOWN";
}

static void add_pool_flags(const struct walk *walk, hsa_amd_memory_pool_t pool, cJSON *object)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT, "KERNARG"},
        {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, "FINE GRAINED"},
        {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, "COARSE GRAINED"},
        {8, "EXTENDED FINE GRAINED"}, /* since ROCm 6.0 */
    };
    uint32_t flags = 0;
    if (walk->api->pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags) !=
        HSA_STATUS_SUCCESS)
        return;
    cJSON *list = cJSON_AddArrayToObject(object, "flags");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((flags & names[i].bit) != 0)
            (void)cJSON_AddItemToArray(list, cJSON_CreateString(names[i].name));
}

static void add_pool_size(const struct walk *walk, hsa_amd_memory_pool_t pool, cJSON *object,
                          const char *name, hsa_amd_memory_pool_info_t attribute)
{
    size_t value = 0;
    if (walk->api->pool_get_info(pool, attribute, &value) == HSA_STATUS_SUCCESS)
        probe_add_number(object, name, value);
}

static void add_pool_bool(const struct walk *walk, hsa_amd_memory_pool_t pool, cJSON *object,
                          const char *name, hsa_amd_memory_pool_info_t attribute)
{
    bool value = false;
    if (walk->api->pool_get_info(pool, attribute, &value) == HSA_STATUS_SUCCESS)
        (void)cJSON_AddBoolToObject(object, name, value);
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *context)
{
    const struct walk *walk = context;
    cJSON *object = cJSON_CreateObject();
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GLOBAL;
    (void)walk->api->pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    (void)cJSON_AddStringToObject(object, "segment", segment_name(segment));
    if (segment == HSA_AMD_SEGMENT_GLOBAL)
        add_pool_flags(walk, pool, object);
    add_pool_size(walk, pool, object, "size_bytes", HSA_AMD_MEMORY_POOL_INFO_SIZE);
    add_pool_bool(walk, pool, object, "allocatable",
                  HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED);
    add_pool_size(walk, pool, object, "granule_bytes",
                  HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE);
    add_pool_size(walk, pool, object, "recommended_granule_bytes", POOL_INFO_REC_GRANULE);
    add_pool_size(walk, pool, object, "alignment_bytes",
                  HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT);
    add_pool_size(walk, pool, object, "largest_allocation_bytes",
                  HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE);
    add_pool_bool(walk, pool, object, "accessible_by_all",
                  HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL);
    (void)cJSON_AddItemToArray(walk->list, object);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_isa(hsa_isa_t isa, void *context)
{
    const struct walk *walk = context;
    uint32_t length = 0;
    char name[ISA_NAME_MAX + 1] = "";
    if (walk->api->isa_get_info_alt(isa, HSA_ISA_INFO_NAME_LENGTH, &length) == HSA_STATUS_SUCCESS &&
        length < sizeof name &&
        walk->api->isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name) == HSA_STATUS_SUCCESS)
        (void)cJSON_AddItemToArray(walk->list, cJSON_CreateString(name));
    return HSA_STATUS_SUCCESS;
}

static void add_gpu(const struct hsa_api *api, hsa_agent_t agent, cJSON *object)
{
    uint64_t available = 0;
    uint32_t bdf = 0;
    uint32_t domain = 0;
    if (api->agent_get_info(agent, AGENT_INFO_MEMORY_AVAIL, &available) == HSA_STATUS_SUCCESS)
        probe_add_number(object, "memory_available_bytes", available);
    (void)api->agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &domain);
    if (api->agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &bdf) ==
        HSA_STATUS_SUCCESS) {
        char pci[32];
        (void)snprintf(pci, sizeof pci, "%04x:%02x:%02x.%x", domain, (bdf >> 8) & 0xff,
                       (bdf >> 3) & 0x1f, bdf & 7);
        (void)cJSON_AddStringToObject(object, "pci", pci);
    }
    add_agent_u32(api, agent, object, "wavefront_size", HSA_AGENT_INFO_WAVEFRONT_SIZE);
    add_agent_u32(api, agent, object, "shader_engines", HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES);
    add_agent_u32(api, agent, object, "memory_width_bits", HSA_AMD_AGENT_INFO_MEMORY_WIDTH);
    add_agent_u32(api, agent, object, "memory_clock_mhz", HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY);
}

static hsa_status_t on_agent(hsa_agent_t agent, void *context)
{
    const struct walk *walk = context;
    const struct hsa_api *api = walk->api;
    cJSON *object = cJSON_CreateObject();
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
    (void)api->agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    add_agent_text(api, agent, object, "name", HSA_AGENT_INFO_NAME);
    add_agent_text(api, agent, object, "marketing_name", HSA_AMD_AGENT_INFO_PRODUCT_NAME);
    add_agent_text(api, agent, object, "vendor", HSA_AGENT_INFO_VENDOR_NAME);
    (void)cJSON_AddStringToObject(object, "type",
                                  type == HSA_DEVICE_TYPE_GPU   ? "GPU"
                                  : type == HSA_DEVICE_TYPE_CPU ? "CPU"
                                                                : "DSP");
    add_agent_u32(api, agent, object, "node", HSA_AGENT_INFO_NODE);
    add_agent_u32(api, agent, object, "chip_id", HSA_AMD_AGENT_INFO_CHIP_ID);
    add_agent_u32(api, agent, object, "compute_units", HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT);
    add_agent_u32(api, agent, object, "clock_mhz", HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY);
    add_agent_u32(api, agent, object, "cacheline_bytes", HSA_AMD_AGENT_INFO_CACHELINE_SIZE);
    if (type == HSA_DEVICE_TYPE_GPU)
        add_gpu(api, agent, object);
    struct walk pools = {api, cJSON_AddArrayToObject(object, "pools")};
    (void)api->iterate_pools(agent, on_pool, &pools);
    struct walk isas = {api, cJSON_AddArrayToObject(object, "isas")};
    (void)api->agent_iterate_isas(agent, on_isa, &isas);
    (void)cJSON_AddItemToArray(walk->list, object);
    return HSA_STATUS_SUCCESS;
}

static void explain_init(const struct hsa_api *api, hsa_status_t status, struct rc_err *err)
{
    const char *text = NULL;
    if (access("/dev/kfd", F_OK) != 0)
        (void)rc_err_set(err, -ENODEV, "the HSA runtime does not start: there is no /dev/kfd");
    else if (access("/dev/kfd", R_OK | W_OK) != 0)
        (void)rc_err_set(err, -EACCES,
                         "the HSA runtime does not start: no right to open /dev/kfd "
                         "(groups render, video)");
    else if (api->status_string(status, &text) == HSA_STATUS_SUCCESS && text != NULL)
        (void)rc_err_set(err, -EIO, "the HSA runtime does not start: 0x%x, %s", (unsigned)status,
                         text);
    else
        (void)rc_err_set(err, -EIO, "the HSA runtime does not start: 0x%x", (unsigned)status);
}

cJSON *probe_hsa(const char *library, struct rc_err *err)
{
    const char *names[] = {library != NULL ? library : "libhsa-runtime64.so.1",
                           "libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1",
                           "/opt/rocm/lib64/libhsa-runtime64.so.1", NULL};
    struct hsa_api api;
    if (library_open(names, symbols, sizeof symbols / sizeof *symbols, &api, err) == NULL)
        return NULL;
    hsa_status_t status = api.init();
    if (status != HSA_STATUS_SUCCESS) {
        explain_init(&api, status, err);
        return NULL;
    }
    cJSON *root = cJSON_CreateObject();
    uint16_t major = 0;
    uint16_t minor = 0;
    (void)api.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
    (void)api.system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
    char version[16];
    (void)snprintf(version, sizeof version, "%u.%u", major, minor);
    (void)cJSON_AddStringToObject(root, "runtime_version", version);
    struct walk walk = {&api, cJSON_AddArrayToObject(root, "agents")};
    (void)api.iterate_agents(on_agent, &walk);
    (void)api.shut_down();
    return root;
}
