/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"
#define NODES_MAX 256
#define HEAP_FB_PUBLIC 1
#define HEAP_FB_PRIVATE 2

struct machine machine;

ssize_t file_read(const char *path, char *out, size_t size)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    out[0] = '\0';
    if (fd < 0)
        return -errno;
    ssize_t n = syscall(SYS_read, fd, out, size - 1);
    int saved = errno;
    (void)syscall(SYS_close, fd);
    out[n > 0 ? n : 0] = '\0';
    return n >= 0 ? n : -saved;
}

bool file_path(char *out, size_t size, const char *format, ...)
{
    if (machine.root_len >= size)
        return false;
    memcpy(out, machine.root, machine.root_len);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out + machine.root_len, size - machine.root_len, format, args);
    va_end(args);
    return n >= 0 && (size_t)n < size - machine.root_len;
}

/* "simd_count 416\nmem_banks_count 1\n", and "MemTotal:       24063316 kB" */
bool text_u64(const char *text, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            *ret = strtoull(line + len + 1, NULL, 10);
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

static uint64_t property(const char *text, const char *key)
{
    uint64_t value = 0;
    (void)text_u64(text, key, &value);
    return value;
}

static uint64_t device_u64(int minor, const char *name, int base, uint64_t otherwise)
{
    char path[PATH_MAX];
    char text[64];
    if (!file_path(path, sizeof path, "/sys/class/drm/renderD%d/device/%s", minor, name) ||
        file_read(path, text, sizeof text) <= 0)
        return otherwise;
    return strtoull(text, NULL, base);
}

/* The banks of a node: without Resizable BAR there are two, public and private. */
static void read_banks(struct gpu *gpu)
{
    for (unsigned bank = 0; bank < 8; bank++) {
        char path[PATH_MAX];
        char text[1024];
        if (!file_path(path, sizeof path, NODES "/%u/mem_banks/%u/properties", gpu->node, bank) ||
            file_read(path, text, sizeof text) <= 0)
            continue;
        uint64_t heap = property(text, "heap_type");
        if (heap != HEAP_FB_PUBLIC && heap != HEAP_FB_PRIVATE)
            continue;
        gpu->bank_bytes += property(text, "size_in_bytes");
        gpu->bus_width = (uint32_t)property(text, "width");
        gpu->memory_clock_mhz = (uint32_t)property(text, "mem_clk_max");
    }
}

static void read_properties(struct gpu *gpu, const char *text)
{
    gpu->gfx_version = (uint32_t)property(text, "gfx_target_version");
    gpu->device_id = (uint32_t)property(text, "device_id");
    gpu->simd_count = (uint32_t)property(text, "simd_count");
    gpu->simd_per_cu = (uint32_t)property(text, "simd_per_cu");
    gpu->array_count = (uint32_t)property(text, "array_count");
    gpu->arrays_per_engine = (uint32_t)property(text, "simd_arrays_per_engine");
    gpu->cu_per_array = (uint32_t)property(text, "cu_per_simd_array");
    gpu->wave_size = (uint32_t)property(text, "wave_front_size");
    gpu->render_minor = (int)property(text, "drm_render_minor");
    unsigned location = (unsigned)property(text, "location_id");
    (void)snprintf(gpu->pci, sizeof gpu->pci, "%04x:%02x:%02x.%x",
                   (unsigned)property(text, "domain") & 0xffff, location >> 8 & 0xff,
                   location >> 3 & 0x1f, location & 7);
}

/* Partitions of one card share the bus and device number; the function bits count them. */
static unsigned physical_of(unsigned index)
{
    const struct gpu *gpu = &machine.gpus[index];
    char path[PATH_MAX];
    if (file_path(path, sizeof path, "/sys/class/drm/renderD%d/device/mem_info_vram_total",
                  gpu->render_minor) &&
        syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0)
        return index;
    for (unsigned i = 0; i < index; i++)
        if (strncmp(machine.gpus[i].pci, gpu->pci, strlen("0000:00:00.")) == 0)
            return machine.gpus[i].physical;
    return index;
}

static void read_gpu(uint32_t node, uint32_t gpu_id, const char *conf)
{
    char path[PATH_MAX];
    char text[4096];
    if (!file_path(path, sizeof path, NODES "/%u/properties", node) ||
        file_read(path, text, sizeof text) <= 0)
        return;
    struct gpu *gpu = &machine.gpus[machine.gpu_count];
    memset(gpu, 0, sizeof *gpu);
    gpu->node = node;
    gpu->gpu_id = gpu_id;
    read_properties(gpu, text);
    read_banks(gpu);
    gpu->pci_revision = (uint32_t)device_u64(gpu->render_minor, "revision", 16, 0);
    gpu->vram_bytes = device_u64(gpu->render_minor, "mem_info_vram_total", 10, gpu->bank_bytes);
    gpu->visible_bytes =
        device_u64(gpu->render_minor, "mem_info_vis_vram_total", 10, gpu->vram_bytes);
    gpu->gtt_bytes =
        device_u64(gpu->render_minor, "mem_info_gtt_total", 10, machine.ram_bytes / 2);
    gpu->base_bytes = property(conf, "base_bytes");
    gpu->small_bar = gpu->visible_bytes < gpu->vram_bytes;
    gpu->is_apu = property(conf, "is_apu") != 0;
    /* amdgpu_device.c, 6.10: an APU whose carve-out is smaller than GTT prefers GTT. */
    gpu->vram_in_gtt =
        gpu->is_apu && machine.kernel >= 610 && gpu->vram_bytes < gpu->gtt_bytes;
    gpu->physical = physical_of(machine.gpu_count);
    machine.gpu_count++;
}

/*
 * amdgpu_amdkfd_gpuvm_init_mem_limits(). 6.1: 15/16 and 3/8 of the RAM that was free when the module
 * was loaded. 6.12: all RAM less 1/64 and 3 GiB (or half of a small one); TTM's own pages_limit.
 */
static void set_limits(const char *conf)
{
    const uint64_t reserve = 3ull << 30;
    if (machine.kernel < 610) {
        uint64_t free_bytes = machine.ram_bytes - machine.ram_bytes / 16;
        (void)text_u64(conf, "free_bytes", &free_bytes);
        machine.system_limit = free_bytes - (free_bytes >> 4);
        machine.ttm_limit = (free_bytes >> 1) - (free_bytes >> 3);
    } else {
        uint64_t limit = machine.ram_bytes - (machine.ram_bytes >> 6);
        machine.system_limit = limit < 2 * reserve ? limit >> 1 : limit - reserve;
        char path[PATH_MAX];
        char text[64];
        machine.ttm_limit = machine.ram_bytes / 2;
        if (file_path(path, sizeof path, "/sys/module/ttm/parameters/pages_limit") &&
            file_read(path, text, sizeof text) > 0)
            machine.ttm_limit = strtoull(text, NULL, 10) * 4096;
    }
    /* ESTIMATE_PT_SIZE() of the memory of all GPUs together, at least AMDGPU_VM_RESERVED_VRAM. */
    uint64_t total = 0;
    for (unsigned i = 0; i < machine.gpu_count; i++)
        total += machine.gpus[i].bank_bytes;
    machine.page_table_bytes = total >> 14 > 8u << 20 ? total >> 14 : 8u << 20;
}

static int read_conf(char *conf, size_t size)
{
    char path[PATH_MAX];
    char text[256];
    if (!file_path(path, sizeof path, "/emulator/machine.conf"))
        return -ENAMETOOLONG;
    ssize_t n = file_read(path, conf, size);
    if (n < 0)
        return (int)n;
    machine.kernel = (unsigned)property(conf, "kernel");
    machine.fdinfo_kernel = (unsigned)property(conf, "fdinfo_kernel");
    machine.kfd_minor = (unsigned)property(conf, "kfd_minor");
    uint64_t kib = 0;
    if (file_path(path, sizeof path, "/proc/meminfo") && file_read(path, text, sizeof text) > 0)
        (void)text_u64(text, "MemTotal:", &kib);
    machine.ram_bytes = kib << 10;
    return machine.kernel == 0 || kib == 0 ? -EINVAL : 0;
}

int machine_load(const char *root)
{
    size_t len = strlen(root);
    while (len > 1 && root[len - 1] == '/')
        len--;
    if (root[0] != '/' || len >= sizeof machine.root - 256)
        return -EINVAL;
    memcpy(machine.root, root, len);
    machine.root[len] = '\0';
    machine.root_len = len;
    char conf[2048];
    int r = read_conf(conf, sizeof conf);
    for (uint32_t node = 0; r == 0 && node < NODES_MAX; node++) {
        char path[PATH_MAX];
        char text[64];
        if (machine.gpu_count == MACHINE_GPUS_MAX)
            break;
        if (!file_path(path, sizeof path, NODES "/%u/gpu_id", node) ||
            file_read(path, text, sizeof text) <= 0)
            continue;
        uint32_t gpu_id = (uint32_t)strtoul(text, NULL, 10);
        if (gpu_id != 0)
            read_gpu(node, gpu_id, conf);
    }
    if (r == 0)
        set_limits(conf);
    else
        machine.root_len = 0;
    return r;
}

int machine_gpu_by_id(uint32_t gpu_id)
{
    for (unsigned i = 0; i < machine.gpu_count; i++)
        if (machine.gpus[i].gpu_id == gpu_id)
            return (int)i;
    return -1;
}

int machine_gpu_by_minor(int render_minor)
{
    for (unsigned i = 0; i < machine.gpu_count; i++)
        if (machine.gpus[i].render_minor == render_minor)
            return (int)i;
    return -1;
}

uint64_t machine_vram_limit(unsigned gpu)
{
    const struct gpu *g = &machine.gpus[gpu];
    uint64_t kept = machine.page_table_bytes + g->base_bytes;
    return g->bank_bytes > kept ? g->bank_bytes - kept : 0;
}
