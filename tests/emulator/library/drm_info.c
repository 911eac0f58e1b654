/* SPDX-License-Identifier: Apache-2.0 */
/* DRM_IOCTL_AMDGPU_INFO: the queries of libdrm_amdgpu, libhsakmt, rocm-smi and the probe. */
#include "driver.h"

#include <errno.h>
#include <string.h>

#include <amdgpu_drm.h>

#include "machine.h"
#include "queue.h"
#include "state.h"

union answer {
    uint32_t u32[256];
    uint64_t u64[128];
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_memory_info memory;
    struct drm_amdgpu_info_vram_gtt vram_gtt;
    struct drm_amdgpu_info_hw_ip ip;
};

enum { FAMILY_AI = 141, FAMILY_NV = 143, FAMILY_GC_11_0_0 = 145, FAMILY_GC_11_5_0 = 150,
       FAMILY_GC_12_0_0 = 152 };

static uint32_t family_of(uint32_t gfx_version)
{
    if (gfx_version >= 120000)
        return FAMILY_GC_12_0_0;
    if (gfx_version >= 110500)
        return FAMILY_GC_11_5_0;
    if (gfx_version >= 110000)
        return FAMILY_GC_11_0_0;
    return gfx_version >= 100000 ? FAMILY_NV : FAMILY_AI;
}

static void device_info(const struct gpu *gpu, struct drm_amdgpu_info_device *d)
{
    d->device_id = gpu->device_id;
    d->external_rev = 1;
    d->pci_rev = gpu->pci_revision;
    d->family = family_of(gpu->gfx_version);
    d->num_shader_arrays_per_engine = gpu->arrays_per_engine;
    d->num_shader_engines = gpu->array_count / (gpu->arrays_per_engine ? gpu->arrays_per_engine : 1);
    d->gpu_counter_freq = 100000;
    d->max_engine_clock = 2300000;
    d->max_memory_clock = gpu->memory_clock_mhz * 1000ull;
    d->cu_active_number = gpu->simd_count / (gpu->simd_per_cu ? gpu->simd_per_cu : 1);
    for (int i = 0; i < 16; i++)
        d->cu_bitmap[i / 4][i % 4] = (1u << (gpu->cu_per_array < 31 ? gpu->cu_per_array : 31)) - 1;
    d->enabled_rb_pipes_mask = 0xff;
    d->num_rb_pipes = 8;
    d->num_hw_gfx_contexts = 8;
    d->ids_flags = gpu->is_apu ? AMDGPU_IDS_FLAGS_FUSION : 0;
    d->virtual_address_offset = 0x200000;
    d->virtual_address_max = 1ull << 47;
    d->virtual_address_alignment = 4096;
    d->pte_fragment_size = 0x200000;
    d->gart_page_size = 4096;
    d->vram_type = gpu->is_apu ? AMDGPU_VRAM_TYPE_DDR5 : AMDGPU_VRAM_TYPE_GDDR6;
    d->vram_bit_width = gpu->bus_width;
    d->wave_front_size = gpu->wave_size;
    d->num_shader_visible_vgprs = 1024;
    d->num_cu_per_sh = gpu->cu_per_array;
    d->num_tcc_blocks = 16;
    d->high_va_offset = 0xffff800000000000ull;
    d->high_va_max = 0xffffffffffe00000ull;
}

static void heap(struct drm_amdgpu_heap_info *h, uint64_t total, uint64_t usable, uint64_t used)
{
    h->total_heap_size = total;
    h->usable_heap_size = usable;
    h->heap_usage = used;
    h->max_allocation = usable / 4 * 3;
}

static void memory_info(unsigned index, struct drm_amdgpu_memory_info *m)
{
    const struct gpu *gpu = &machine.gpus[index];
    struct usage used = state_usage(index);
    heap(&m->vram, gpu->vram_bytes, gpu->vram_bytes - gpu->base_bytes, used.vram);
    heap(&m->cpu_accessible_vram, gpu->visible_bytes, gpu->visible_bytes - gpu->base_bytes,
         used.visible);
    heap(&m->gtt, gpu->gtt_bytes, gpu->gtt_bytes, used.gtt);
}

/* Bytes of a memory query, with the state lock held; 0 = not one. */
static size_t memory_query(unsigned index, uint32_t query, union answer *a)
{
    const struct gpu *gpu = &machine.gpus[index];
    switch (query) {
    case AMDGPU_INFO_VRAM_USAGE:
        a->u64[0] = state_usage(index).vram;
        return 8;
    case AMDGPU_INFO_VIS_VRAM_USAGE:
        a->u64[0] = state_usage(index).visible;
        return 8;
    case AMDGPU_INFO_GTT_USAGE:
        a->u64[0] = state_usage(index).gtt;
        return 8;
    case AMDGPU_INFO_VRAM_GTT:
        a->vram_gtt.vram_size = gpu->vram_bytes;
        a->vram_gtt.vram_cpu_accessible_size = gpu->visible_bytes;
        a->vram_gtt.gtt_size = gpu->gtt_bytes;
        return sizeof a->vram_gtt;
    case AMDGPU_INFO_MEMORY:
        memory_info(index, &a->memory);
        return sizeof a->memory;
    default:
        return 0;
    }
}

static size_t other_query(unsigned index, const struct drm_amdgpu_info *query, union answer *a)
{
    const struct gpu *gpu = &machine.gpus[index];
    switch (query->query) {
    case AMDGPU_INFO_ACCEL_WORKING:
    case AMDGPU_INFO_HW_IP_COUNT:
        a->u32[0] = 1;
        return 4;
    case AMDGPU_INFO_HW_IP_INFO:
        if (query->query_hw_ip.type <= AMDGPU_HW_IP_COMPUTE) {
            a->ip.hw_ip_version_major = gpu->gfx_version / 10000;
            a->ip.hw_ip_version_minor = gpu->gfx_version / 100 % 100;
            a->ip.available_rings = 1;
            a->ip.ib_start_alignment = 32;
            a->ip.ib_size_alignment = 32;
        }
        return sizeof a->ip;
    case AMDGPU_INFO_TIMESTAMP:
        a->u64[0] = queue_clock();
        return 8;
    case AMDGPU_INFO_FW_VERSION:
        a->u32[0] = 1;
        a->u32[1] = 1;
        return 8;
    case AMDGPU_INFO_NUM_BYTES_MOVED:
    case AMDGPU_INFO_NUM_EVICTIONS:
    case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
    case AMDGPU_INFO_RAS_ENABLED_FEATURES:
        return 8;
    case AMDGPU_INFO_VRAM_LOST_COUNTER:
        return 4;
    case AMDGPU_INFO_GDS_CONFIG:
        return sizeof(struct drm_amdgpu_info_gds);
    case AMDGPU_INFO_READ_MMR_REG:
        return query->read_mmr_reg.count < 256 ? query->read_mmr_reg.count * 4ul : sizeof *a;
    case AMDGPU_INFO_SENSOR:
        a->u32[0] = query->sensor_info.type == AMDGPU_INFO_SENSOR_GPU_TEMP ? 45000 : 1000;
        return 4;
    case AMDGPU_INFO_DEV_INFO:
        device_info(gpu, &a->device);
        return sizeof a->device; /* further members of a newer library stay zero */
    default:
        return 0;
    }
}

long drm_query_info(unsigned gpu, struct drm_amdgpu_info *query)
{
    union answer answer;
    memset(&answer, 0, sizeof answer);
    state_lock();
    (void)state_reap();
    size_t size = memory_query(gpu, query->query, &answer);
    state_unlock();
    if (size == 0)
        size = other_query(gpu, query, &answer);
    if (size == 0) {
        driver_unknown("info", query->query, query->return_size);
        return -EINVAL;
    }
    if (size > query->return_size)
        size = query->return_size;
    memcpy((void *)(uintptr_t)query->return_pointer, &answer, size);
    return 0;
}
