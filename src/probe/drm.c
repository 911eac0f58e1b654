/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the amdgpu driver through libdrm for heaps, usage and counters. Opening a render node
 * resumes a suspended GPU: the collector asks only when it is awake.
 */
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "probe/json.h"
#include "probe/library.h"
#include "probe/probe.h"

#define RENDER_NODES_MAX 256

struct drm_api {
    drmVersionPtr (*get_version)(int fd);
    void (*free_version)(drmVersionPtr);
};

struct amdgpu_api {
    int (*initialize)(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *device);
    int (*deinitialize)(amdgpu_device_handle device);
    int (*query_info)(amdgpu_device_handle device, unsigned id, unsigned size, void *value);
    const char *(*marketing_name)(amdgpu_device_handle device);
};

struct drm_libraries {
    struct drm_api drm;
    struct amdgpu_api amdgpu;
};

static int open_libraries(struct drm_libraries *lib, struct rc_err *err)
{
    static const char *const drm_names[] = {"libdrm.so.2",
                                            "/opt/amdgpu/lib/x86_64-linux-gnu/libdrm.so.2",
                                            "/opt/amdgpu/lib64/libdrm.so.2", NULL};
    static const char *const amdgpu_names[] = {"libdrm_amdgpu.so.1",
                                               "/opt/amdgpu/lib/x86_64-linux-gnu/libdrm_amdgpu.so.1",
                                               "/opt/amdgpu/lib64/libdrm_amdgpu.so.1",
                                               NULL};
    static const struct library_symbol drm_symbols[] = {
        {"drmGetVersion", offsetof(struct drm_api, get_version), false},
        {"drmFreeVersion", offsetof(struct drm_api, free_version), false},
    };
    static const struct library_symbol amdgpu_symbols[] = {
        {"amdgpu_device_initialize", offsetof(struct amdgpu_api, initialize), false},
        {"amdgpu_device_deinitialize", offsetof(struct amdgpu_api, deinitialize), false},
        {"amdgpu_query_info", offsetof(struct amdgpu_api, query_info), false},
        {"amdgpu_get_marketing_name", offsetof(struct amdgpu_api, marketing_name), true},
    };
    if (library_open(drm_names, drm_symbols, 2, &lib->drm, err) == NULL ||
        library_open(amdgpu_names, amdgpu_symbols, 4, &lib->amdgpu, err) == NULL)
        return -ENOENT;
    return 0;
}

static void add_heap(cJSON *object, const char *name, const struct drm_amdgpu_heap_info *heap)
{
    cJSON *item = cJSON_AddObjectToObject(object, name);
    probe_add_number(item, "total_bytes", heap->total_heap_size);
    probe_add_number(item, "usable_bytes", heap->usable_heap_size);
    probe_add_number(item, "used_bytes", heap->heap_usage);
    probe_add_number(item, "largest_allocation_bytes", heap->max_allocation);
}

static void add_memory(const struct amdgpu_api *api, amdgpu_device_handle device, cJSON *object)
{
    struct drm_amdgpu_memory_info memory;
    memset(&memory, 0, sizeof memory);
    if (api->query_info(device, AMDGPU_INFO_MEMORY, sizeof memory, &memory) == 0) {
        cJSON *heaps = cJSON_AddObjectToObject(object, "heaps");
        add_heap(heaps, "vram", &memory.vram);
        add_heap(heaps, "vram_visible", &memory.cpu_accessible_vram);
        add_heap(heaps, "gtt", &memory.gtt);
    }
    struct drm_amdgpu_info_vram_gtt sizes;
    memset(&sizes, 0, sizeof sizes);
    if (api->query_info(device, AMDGPU_INFO_VRAM_GTT, sizeof sizes, &sizes) == 0) {
        /* Memory that the kernel had not pinned at that moment; less than the heap. */
        cJSON *item = cJSON_AddObjectToObject(object, "unpinned");
        probe_add_number(item, "vram_bytes", sizes.vram_size);
        probe_add_number(item, "vram_visible_bytes", sizes.vram_cpu_accessible_size);
        probe_add_number(item, "gtt_bytes", sizes.gtt_size);
    }
}

static void add_counters(const struct amdgpu_api *api, amdgpu_device_handle device, cJSON *object)
{
    static const struct {
        unsigned id;
        unsigned size;
        const char *name;
    } counters[] = {
        {AMDGPU_INFO_VRAM_USAGE, 8, "vram_used_bytes"},
        {AMDGPU_INFO_VIS_VRAM_USAGE, 8, "vram_visible_used_bytes"},
        {AMDGPU_INFO_GTT_USAGE, 8, "gtt_used_bytes"},
        {AMDGPU_INFO_NUM_EVICTIONS, 8, "evictions_count"},
        {AMDGPU_INFO_NUM_BYTES_MOVED, 8, "moved_bytes"},
        {AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS, 8, "vram_cpu_page_faults_count"},
        /* The only counter of 32 bits: how often a reset lost the contents of VRAM. */
        {AMDGPU_INFO_VRAM_LOST_COUNTER, 4, "vram_lost_count"},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        uint64_t value = 0;
        if (api->query_info(device, counters[i].id, counters[i].size, &value) == 0)
            probe_add_number(object, counters[i].name, value);
    }
}

/* "0000:03:00.0" of the node, from the line PCI_SLOT_NAME=; a partition has none. */
static void add_pci(const char *path, cJSON *object)
{
    static const char key[] = "PCI_SLOT_NAME=";
    const char *name = strrchr(path, '/');
    char file[128];
    char text[1024];
    (void)snprintf(file, sizeof file, "/sys/class/drm/%.64s/device/uevent",
                   name != NULL ? name + 1 : path);
    if (fs_read_text(file, text, sizeof text) <= 0)
        return;
    char *value = strstr(text, key);
    if (value == NULL)
        return;
    value += sizeof key - 1;
    value[strcspn(value, "\n")] = '\0';
    (void)cJSON_AddStringToObject(object, "pci", value);
}

static int add_device(const struct drm_libraries *lib, int fd, cJSON *object, struct rc_err *err)
{
    drmVersionPtr version = lib->drm.get_version(fd);
    if (version == NULL || version->name == NULL || strcmp(version->name, "amdgpu") != 0) {
        if (version != NULL)
            lib->drm.free_version(version);
        return rc_err_set(err, -ENODEV, "not an amdgpu device");
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%d.%d", version->version_major, version->version_minor,
                   version->version_patchlevel);
    (void)cJSON_AddStringToObject(object, "driver_version", text);
    lib->drm.free_version(version);
    uint32_t major;
    uint32_t minor;
    amdgpu_device_handle device = NULL;
    int r = lib->amdgpu.initialize(fd, &major, &minor, &device);
    if (r != 0)
        return rc_err_errno(err, r, "amdgpu_device_initialize");
    const char *name =
        lib->amdgpu.marketing_name != NULL ? lib->amdgpu.marketing_name(device) : NULL;
    if (name != NULL)
        (void)cJSON_AddStringToObject(object, "marketing_name", name);
    add_memory(&lib->amdgpu, device, object);
    add_counters(&lib->amdgpu, device, object);
    (void)lib->amdgpu.deinitialize(device);
    return 0;
}

/* 0, or -ENODEV for a device of another driver. Such a device is left out unless the caller named
 * it. */
static int probe_node(const struct drm_libraries *lib, const char *path, cJSON *list, bool asked)
{
    struct rc_err err = {""};
    cJSON *object = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(object, "path", path);
    add_pci(path, object);
    RC_AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
    int r = fd < 0 ? rc_err_errno(&err, -errno, "cannot open '%s'", path)
                   : add_device(lib, fd, object, &err);
    if (r == -ENODEV && !asked) {
        cJSON_Delete(object);
        return r;
    }
    if (r < 0)
        (void)cJSON_AddStringToObject(object, "error", err.msg);
    (void)cJSON_AddItemToArray(list, object);
    return r;
}

static int by_minor(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_render_node(const struct dirent *entry)
{
    return strncmp(entry->d_name, "renderD", 7) == 0;
}

cJSON *probe_drm(const char *only_path, struct rc_err *err)
{
    struct drm_libraries lib;
    if (open_libraries(&lib, err) < 0)
        return NULL;
    cJSON *root = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(root, "devices");
    if (only_path != NULL) {
        (void)probe_node(&lib, only_path, list, true);
        return root;
    }
    struct dirent **entries = NULL;
    int count = scandir("/dev/dri", &entries, is_render_node, by_minor);
    for (int i = 0; i < count; i++) {
        char path[300];
        (void)snprintf(path, sizeof path, "/dev/dri/%s", entries[i]->d_name);
        if (i < RENDER_NODES_MAX)
            (void)probe_node(&lib, path, list, false);
        free(entries[i]);
    }
    free(entries);
    if (cJSON_GetArraySize(list) == 0) {
        cJSON_Delete(root);
        (void)rc_err_set(err, -ENODEV, "there is no amdgpu device in /dev/dri");
        return NULL;
    }
    return root;
}
