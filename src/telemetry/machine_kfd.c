/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KFD half of the machine scan: /sys/class/kfd/kfd/topology/nodes/N, parsed by key. Keys come
 * and go with the kernel (gfx_target_version and domain are missing on old ones).
 */
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/fs.h"
#include "base/number.h"
#include "telemetry/dirscan.h"
#include "telemetry/keys.h"
#include "telemetry/machine.h"

#define KFD_NODES "/sys/class/kfd/kfd/topology/nodes"
/* The largest recorded properties file has 36 lines and 800 bytes. */
#define KFD_PROPERTIES_MAX 4096

enum { HEAP_FB_PUBLIC = 1, HEAP_FB_PRIVATE = 2 }; /* include/uapi/linux/kfd_sysfs.h */

bool machine_gfx_name(uint64_t gfx_target_version, char ret[16])
{
    uint64_t major = gfx_target_version / 10000;
    uint64_t minor = gfx_target_version / 100 % 100;
    uint64_t stepping = gfx_target_version % 100;
    if (major < 7 || major > 99 || minor > 15 || stepping > 15)
        return false;
    /* 90010 -> gfx90a, 110501 -> gfx1151: minor is one digit in every name so far, stepping hex. */
    (void)snprintf(ret, 16, "gfx%llu%llx%llx", (unsigned long long)major,
                   (unsigned long long)minor, (unsigned long long)stepping);
    return true;
}

/* properties: "heap_type 1\nsize_in_bytes 31433977856\nflags 0\nwidth 128\nmem_clk_max 800\n" */
static void read_bank(const char *path, struct gpu_info *info)
{
    char text[1024];
    char file[192];
    (void)snprintf(file, sizeof file, "%s/properties", path);
    ssize_t len = fs_read_machine_text(file, text, sizeof text);
    if (len <= 0)
        return;
    uint64_t heap = 0;
    uint64_t size = 0;
    if (!key_u64(text, (size_t)len, "heap_type", ' ', &heap) ||
        (heap != HEAP_FB_PUBLIC && heap != HEAP_FB_PRIVATE) ||
        !key_u64(text, (size_t)len, "size_in_bytes", ' ', &size))
        return;
    info->kfd_bank_bytes += size;
    info->have |= GPU_HAVE_KFD_BANK;
    (void)snprintf(file, sizeof file, "%s/used_memory", path);
    uint64_t used;
    if (fs_read_machine_text(file, text, sizeof text) > 0 && fs_parse_u64(text, &used) == 0)
        info->have |= GPU_HAVE_KFD_USED;
}

static void read_banks(struct gpu_info *info)
{
    char path[FS_PATH_MAX];
    char machine_path[128];
    (void)snprintf(machine_path, sizeof machine_path, "%s/mem_banks", info->kfd_path);
    struct dirscan dir;
    if (fs_machine_path(path, sizeof path, machine_path) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t bank = number_in_name(name, "");
        if (bank < 0 || bank > 63)
            continue;
        (void)snprintf(machine_path, sizeof machine_path, "%s/mem_banks/%lld", info->kfd_path,
                       (long long)bank);
        read_bank(machine_path, info);
    }
    dirscan_close(&dir);
}

static void parse_properties(const char *text, size_t len, struct kfd_node *node)
{
    struct gpu_info *info = &node->info;
    uint64_t value = 0;
    if (key_u64(text, len, "gfx_target_version", ' ', &value) &&
        machine_gfx_name(value, info->gfx))
        info->have |= GPU_HAVE_GFX;
    if (key_u64(text, len, "device_id", ' ', &value) && value > 0 && value <= 0xffff) {
        info->device_id = (uint32_t)value;
        info->have |= GPU_HAVE_DEVICE_ID;
    }
    /* 0 in scrubbed captures; real render minors start at 128. */
    if (key_u64(text, len, "drm_render_minor", ' ', &value) && value > 0 && value < UINT32_MAX) {
        info->render_minor = (uint32_t)value;
        info->have |= GPU_HAVE_RENDER_MINOR;
    }
    (void)key_u64(text, len, "unique_id", ' ', &node->unique_id);
    uint64_t domain = 0; /* absent on old kernels: PCI domain 0 */
    (void)key_u64(text, len, "domain", ' ', &domain);
    node->domain = domain <= UINT32_MAX ? (uint32_t)domain : 0;
    if (key_u64(text, len, "location_id", ' ', &value) && value > 0 && value <= 0xffff) {
        node->location_id = (uint32_t)value;
        node->has_location = true;
    }
}

/* 1 = a GPU node, 0 = another node, < 0 = unreadable. */
static int read_node(int64_t number, struct kfd_node *node)
{
    char text[KFD_PROPERTIES_MAX];
    char file[160];
    struct gpu_info *info = &node->info;
    memset(node, 0, sizeof *node);
    (void)snprintf(info->kfd_path, sizeof info->kfd_path, KFD_NODES "/%lld", (long long)number);
    (void)snprintf(file, sizeof file, "%s/properties", info->kfd_path);
    ssize_t len = fs_read_machine_text(file, text, sizeof text);
    if (len < 0)
        return (int)len;
    uint64_t simd_count = 0;
    if (!key_u64(text, (size_t)len, "simd_count", ' ', &simd_count) || simd_count == 0)
        return 0;
    info->kfd_node = (uint32_t)number;
    info->have |= GPU_HAVE_KFD_NODE;
    parse_properties(text, (size_t)len, node);
    (void)snprintf(file, sizeof file, "%s/gpu_id", info->kfd_path);
    uint64_t gpu_id = 0;
    if (fs_read_machine_text(file, text, sizeof text) > 0 && fs_parse_u64(text, &gpu_id) == 0 &&
        gpu_id > 0 && gpu_id <= UINT32_MAX) {
        info->kfd_gpu_id = (uint32_t)gpu_id;
        info->have |= GPU_HAVE_KFD_GPU_ID;
    }
    read_banks(info);
    return 1;
}

uint32_t machine_kfd_scan(struct kfd_node *nodes, uint32_t max, struct machine *counters)
{
    char path[FS_PATH_MAX];
    struct dirscan dir;
    if (fs_machine_path(path, sizeof path, KFD_NODES) < 0 || dirscan_open(&dir, path) < 0)
        return 0;
    uint32_t count = 0;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t number = number_in_name(name, "");
        if (number < 0)
            continue;
        counters->kfd_nodes_seen++;
        struct kfd_node node;
        int r = read_node(number, &node);
        /* -EPERM: the device cgroup forbids this GPU (kfd_devcgroup_check_permission). */
        if (r < 0)
            counters->kfd_nodes_refused++;
        if (r != 1)
            continue;
        if (count < max)
            nodes[count++] = node;
        else
            counters->dropped++;
    }
    dirscan_close(&dir);
    return count;
}
