/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <linux/kfd_ioctl.h>

#include "events.h"
#include "journal.h"
#include "machine.h"
#include "memory.h"
#include "queue.h"
#include "state.h"

/* Newer than the headers of Debian 12. */
enum {
    NR_AVAILABLE_MEMORY = 0x23, /* 1.9 */
    NR_EXPORT_DMABUF = 0x24,    /* 1.12 */
    NR_RUNTIME_ENABLE = 0x25,   /* 1.13 */
    NR_DEBUG = 0x26,
    NR_OLD_DEBUG = 0x82, /* of ROCm's own kernels before 6.5; 5.2.3 asks */
};

struct available_memory {
    uint64_t available;
    uint32_t gpu_id, pad;
};

struct export_dmabuf {
    uint64_t handle;
    uint32_t flags, fd;
};

struct runtime_enable {
    uint64_t r_debug;
    uint32_t mode, capabilities;
};

#define NR(request) _IOC_NR(request)

void driver_unknown(const char *device, unsigned number, unsigned size)
{
    state_lock();
    journal("\"event\":\"unknown\",\"what\":\"%s\",\"number\":\"0x%x\",\"size\":%u", device, number,
            size);
    state_unlock();
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long get_version(void *arg)
{
    struct kfd_ioctl_get_version_args *a = arg;
    a->major_version = 1;
    a->minor_version = machine.kfd_minor;
    return 0;
}

static long get_clocks(void *arg)
{
    struct kfd_ioctl_get_clock_counters_args *a = arg;
    a->gpu_clock_counter = clock_ns(CLOCK_MONOTONIC_RAW) / 10;
    a->cpu_clock_counter = clock_ns(CLOCK_MONOTONIC_RAW);
    a->system_clock_counter = clock_ns(CLOCK_BOOTTIME);
    a->system_clock_freq = 1000000000;
    return 0;
}

/* gpuvm spans all canonical addresses, so libhsakmt takes its SVM aperture from ordinary mmap(). */
static void fill_aperture(struct kfd_process_device_apertures *a, unsigned gpu)
{
    *a = (struct kfd_process_device_apertures){
        .lds_base = 1ull << 48,
        .lds_limit = 1ull << 48 | 0xffffffff,
        .scratch_base = 2ull << 48,
        .scratch_limit = 2ull << 48 | 0xffffffff,
        .gpuvm_base = 0x4000,
        .gpuvm_limit = (1ull << 47) - 1,
        .gpu_id = machine.gpus[gpu].gpu_id,
    };
}

static long get_apertures_old(void *arg)
{
    struct kfd_ioctl_get_process_apertures_args *a = arg;
    uint32_t n = machine.gpu_count;
    if (n > NUM_OF_SUPPORTED_GPUS)
        n = NUM_OF_SUPPORTED_GPUS;
    for (unsigned i = 0; i < n; i++)
        fill_aperture(&a->process_apertures[i], i);
    a->num_of_nodes = n;
    return 0;
}

static long get_apertures(void *arg)
{
    struct kfd_ioctl_get_process_apertures_new_args *a = arg;
    struct kfd_process_device_apertures *to =
        (struct kfd_process_device_apertures *)(uintptr_t)a->kfd_process_device_apertures_ptr;
    uint32_t n = a->num_of_nodes;
    if (n == 0 || n > machine.gpu_count) /* 0 asks for the number only */
        n = machine.gpu_count;
    for (unsigned i = 0; a->num_of_nodes > 0 && to != NULL && i < n; i++)
        fill_aperture(&to[i], i);
    a->num_of_nodes = n;
    return 0;
}

static long get_tile_config(void *arg)
{
    struct kfd_ioctl_get_tile_config_args *a = arg;
    if (a->tile_config_ptr != 0)
        memset((void *)(uintptr_t)a->tile_config_ptr, 0, 4ul * a->num_tile_configs);
    if (a->macro_tile_config_ptr != 0)
        memset((void *)(uintptr_t)a->macro_tile_config_ptr, 0, 4ul * a->num_macro_tile_configs);
    a->gb_addr_config = 0x444;
    a->num_banks = 16;
    a->num_ranks = 1;
    return 0;
}

/* --- memory --- */

static bool kind_of_flags(uint32_t flags, enum buffer_kind *ret)
{
    if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0)
        *ret = BUFFER_VRAM;
    else if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT) != 0)
        *ret = BUFFER_GTT;
    else if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0)
        *ret = BUFFER_USERPTR;
    else if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0)
        *ret = BUFFER_DOORBELL;
    else if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) != 0)
        *ret = BUFFER_MMIO;
    else
        return false;
    return true;
}

static long alloc_memory(void *arg)
{
    struct kfd_ioctl_alloc_memory_of_gpu_args *a = arg;
    int gpu = machine_gpu_by_id(a->gpu_id);
    struct buffer b = {.va = a->va_addr, .size = a->size, .flags = a->flags};
    if (gpu < 0 || a->size == 0 || !kind_of_flags(a->flags, &b.kind))
        return -EINVAL;
    b.gpu = (unsigned)gpu;
    b.is_public = b.kind == BUFFER_VRAM && (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) != 0;
    if (b.kind == BUFFER_USERPTR)
        b.offset = a->mmap_offset;
    int memory = node_render_memory(b.gpu);
    int r = memory < 0 ? memory : memory_alloc(&b);
    if (r < 0)
        return r;
    a->handle = b.handle;
    if (b.kind == BUFFER_MMIO)
        a->mmap_offset = NODE_MMIO;
    else if (b.kind != BUFFER_USERPTR)
        a->mmap_offset = b.offset;
    return 0;
}

static long map_memory(void *arg, bool mapping)
{
    struct kfd_ioctl_map_memory_to_gpu_args *a = arg;
    if (!memory_set_mapped(a->handle, mapping ? a->n_devices : 0))
        return -EINVAL;
    a->n_success = a->n_devices;
    return 0;
}

static long get_available(void *arg)
{
    struct available_memory *a = arg;
    int gpu = machine_gpu_by_id(a->gpu_id);
    if (gpu < 0)
        return -EINVAL;
    a->available = memory_available((unsigned)gpu);
    return 0;
}

int driver_export(uint64_t handle)
{
    struct buffer b;
    if (!memory_find(handle, &b))
        return -EINVAL;
    return node_open_dmabuf(handle, b.size);
}

bool driver_exported(int fd, uint64_t *ret_handle)
{
    struct node node;
    if (!node_of_fd(fd, &node) || node.kind != NODE_DMABUF || node.pid != getpid())
        return false;
    *ret_handle = node.handle;
    return true;
}

static long export_dmabuf(void *arg)
{
    struct export_dmabuf *a = arg;
    int fd = driver_export(a->handle);
    if (fd < 0)
        return fd;
    a->fd = (uint32_t)fd;
    return 0;
}

static long dmabuf_info(void *arg)
{
    struct kfd_ioctl_get_dmabuf_info_args *a = arg;
    uint64_t handle = 0;
    struct buffer b;
    if (!driver_exported((int)a->dmabuf_fd, &handle) || !memory_find(handle, &b))
        return -EINVAL;
    a->size = b.size;
    a->metadata_size = 0;
    a->gpu_id = machine.gpus[b.gpu].gpu_id;
    a->flags = b.flags;
    return 0;
}

static long import_dmabuf(void *arg)
{
    struct kfd_ioctl_import_dmabuf_args *a = arg;
    uint64_t handle = 0;
    struct buffer b;
    if (!driver_exported((int)a->dmabuf_fd, &handle) || !memory_find(handle, &b))
        return -EINVAL;
    b.kind = BUFFER_IMPORT;
    b.va = a->va_addr;
    int r = memory_alloc(&b);
    a->handle = b.handle;
    return r;
}

/* --- shared virtual memory: remembered, so that copies to it are no faults --- */

static void svm_answer(struct kfd_ioctl_svm_attribute *attr)
{
    switch (attr->type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
        attr->value = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
        break;
    case KFD_IOCTL_SVM_ATTR_ACCESS:
        attr->type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
        break;
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
        attr->value = 0;
        break;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
        attr->value = UINT32_MAX;
        break;
    case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        attr->value = 9;
        break;
    default:
        break;
    }
}

static long svm(void *arg)
{
    struct kfd_ioctl_svm_args *a = arg;
    if (a->op == KFD_IOCTL_SVM_OP_SET_ATTR)
        memory_add_svm(a->start_addr, a->size);
    for (uint32_t i = 0; a->op == KFD_IOCTL_SVM_OP_GET_ATTR && i < a->nattr; i++)
        svm_answer(&a->attrs[i]);
    return 0;
}

static long set_xnack(void *arg)
{
    struct kfd_ioctl_set_xnack_mode_args *a = arg;
    if (a->xnack_enabled > 0)
        return -EPERM;
    a->xnack_enabled = 0;
    return 0;
}

static long smi_events(void *arg)
{
    struct kfd_ioctl_smi_events_args *a = arg;
    int fd = eventfd(0, EFD_CLOEXEC);
    a->anon_fd = (uint32_t)fd;
    return fd < 0 ? -errno : 0;
}

static long other_ioctl(unsigned number, unsigned size, void *arg)
{
    switch (number) {
    case NR(AMDKFD_IOC_SVM):
        return svm(arg);
    case NR(AMDKFD_IOC_SET_XNACK_MODE):
        return set_xnack(arg);
    case NR(AMDKFD_IOC_SMI_EVENTS):
        return smi_events(arg);
    case NR(AMDKFD_IOC_ALLOC_QUEUE_GWS):
        ((struct kfd_ioctl_alloc_queue_gws_args *)arg)->first_gws = 0;
        return 0;
    case NR_RUNTIME_ENABLE:
        ((struct runtime_enable *)arg)->capabilities = 0;
        return 0;
    /* The programs here see no effect of it. */
    case NR(AMDKFD_IOC_SET_MEMORY_POLICY):
    case NR(AMDKFD_IOC_SET_SCRATCH_BACKING_VA):
    case NR(AMDKFD_IOC_SET_TRAP_HANDLER):
    case NR(AMDKFD_IOC_ACQUIRE_VM):
    case NR(AMDKFD_IOC_SET_CU_MASK):
    case NR(AMDKFD_IOC_GET_QUEUE_WAVE_STATE):
        return 0;
    case NR_DEBUG:
    case NR_OLD_DEBUG:
        return -EINVAL;
    default:
        driver_unknown("kfd", number, size);
        return -ENOTTY;
    }
}

static long memory_ioctl(unsigned number, unsigned size, void *arg)
{
    switch (number) {
    case NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
        return alloc_memory(arg);
    case NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
        return memory_free(((struct kfd_ioctl_free_memory_of_gpu_args *)arg)->handle);
    case NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
        return map_memory(arg, true);
    case NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU):
        return map_memory(arg, false);
    case NR_AVAILABLE_MEMORY:
        return machine.kfd_minor >= 9 ? get_available(arg) : -ENOTTY;
    case NR_EXPORT_DMABUF:
        return machine.kfd_minor >= 12 ? export_dmabuf(arg) : -ENOTTY;
    case NR(AMDKFD_IOC_GET_DMABUF_INFO):
        return dmabuf_info(arg);
    case NR(AMDKFD_IOC_IMPORT_DMABUF):
        return import_dmabuf(arg);
    default:
        return other_ioctl(number, size, arg);
    }
}

long kfd_ioctl(const struct node *node, unsigned long request, void *arg)
{
    unsigned number = _IOC_NR(request);
    /* kfd_ioctl(): "Using KFD FD in wrong process" */
    if (node->pid != getpid())
        return -EBADF;
    switch (number) {
    case NR(AMDKFD_IOC_GET_VERSION):
        return get_version(arg);
    case NR(AMDKFD_IOC_CREATE_QUEUE):
        return queue_create(arg);
    case NR(AMDKFD_IOC_DESTROY_QUEUE):
        return queue_destroy(((struct kfd_ioctl_destroy_queue_args *)arg)->queue_id);
    case NR(AMDKFD_IOC_UPDATE_QUEUE): {
        const struct kfd_ioctl_update_queue_args *a = arg;
        return queue_update(a->queue_id, a->ring_base_address, a->ring_size);
    }
    case NR(AMDKFD_IOC_GET_CLOCK_COUNTERS):
        return get_clocks(arg);
    case NR(AMDKFD_IOC_GET_PROCESS_APERTURES):
        return get_apertures_old(arg);
    case NR(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW):
        return get_apertures(arg);
    case NR(AMDKFD_IOC_GET_TILE_CONFIG):
        return get_tile_config(arg);
    case NR(AMDKFD_IOC_CREATE_EVENT):
        return events_create(arg);
    case NR(AMDKFD_IOC_DESTROY_EVENT):
        return events_destroy(((struct kfd_ioctl_destroy_event_args *)arg)->event_id);
    case NR(AMDKFD_IOC_SET_EVENT):
        return events_set(((struct kfd_ioctl_set_event_args *)arg)->event_id);
    case NR(AMDKFD_IOC_RESET_EVENT):
        return events_reset(((struct kfd_ioctl_reset_event_args *)arg)->event_id);
    case NR(AMDKFD_IOC_WAIT_EVENTS):
        return events_wait(arg);
    default:
        return memory_ioctl(number, _IOC_SIZE(request), arg);
    }
}
