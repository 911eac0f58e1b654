/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AMD GPUs of this machine: DRM cards joined with KFD topology nodes.
 *
 * Used by the sampler (beside the target: no allocation, about 1 ms a GPU) and by the gpu collector.
 * Reads only sysfs below the sysroot, nothing that wakes a GPU. Never fails: a missing value has no
 * bit in `have`. Each partition of an MI300 (CPX, DPX, ...) has its own entry.
 */
#ifndef TELEMETRY_MACHINE_H
#define TELEMETRY_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_GPUS_MAX 128

/* Bits of gpu_info.have: which members are valid. */
enum gpu_have {
    GPU_HAVE_PCI = 1u << 0,
    GPU_HAVE_DRIVER = 1u << 1,
    GPU_HAVE_GFX = 1u << 2,
    GPU_HAVE_KFD_NODE = 1u << 3,
    GPU_HAVE_KFD_GPU_ID = 1u << 4,
    GPU_HAVE_RENDER_MINOR = 1u << 5,
    GPU_HAVE_CARD = 1u << 6, /* card, device_path */
    GPU_HAVE_HWMON = 1u << 7,
    GPU_HAVE_IS_APU = 1u << 8,
    GPU_HAVE_KFD_BANK = 1u << 9,
    GPU_HAVE_PARTITION = 1u << 10, /* partition, partition_count */
    GPU_HAVE_DEVICE_ID = 1u << 11,
    GPU_HAVE_KFD_USED = 1u << 12, /* the DKMS driver's mem_banks/N/used_memory is there */
};

struct gpu_info {
    uint32_t have;
    char pci[16];           /* "0000:64:00.0"; a partition carries its GPU's (function 0) */
    char driver[16];        /* "amdgpu" */
    char gfx[16];           /* "gfx90a" */
    uint32_t kfd_node;      /* number below kfd/topology/nodes */
    uint32_t kfd_gpu_id;    /* as in kfd/proc/PID/vram_<gpu_id> */
    uint32_t render_minor;  /* /dev/dri/renderD<minor> */
    uint32_t card;          /* /sys/class/drm/card<card> */
    uint32_t device_id;     /* PCI device id */
    uint32_t partition;     /* 0 .. partition_count - 1 */
    uint32_t partition_count;
    bool is_apu;
    uint64_t kfd_bank_bytes; /* frame-buffer banks of the node; on an APU the TTM limit */
    char device_path[96];    /* "/sys/class/drm/card1/device", without the sysroot */
    char hwmon_path[128];    /* "/sys/class/drm/card1/device/hwmon/hwmon6" */
    char kfd_path[96];       /* "/sys/class/kfd/kfd/topology/nodes/1" */
};

struct machine {
    uint32_t count; /* in the order of PCI address, then KFD node, then card */
    uint32_t dropped; /* GPUs beyond MACHINE_GPUS_MAX */
    uint32_t cards_seen;      /* DRM cards of any driver */
    uint32_t kfd_nodes_seen;  /* KFD nodes of any kind, CPUs too */
    uint32_t kfd_nodes_refused; /* nodes whose properties could not be read (device cgroup) */
    char other_driver[16];    /* driver of the first card that is not ours ("radeon"), "" = none */
    struct gpu_info gpus[MACHINE_GPUS_MAX];
};

void machine_scan(struct machine *ret);

struct shared_gpu;

/* The identities of a machine's GPUs, in order; returns how many. */
uint32_t machine_identities(const struct machine *m, struct shared_gpu *ret, uint32_t max);
/*
 * Give every GPU of `known` the index that it has there. A GPU that is gone keeps its index, with
 * only its identity in `have`. New GPUs follow them.
 */
void machine_keep_order(struct machine *m, const struct shared_gpu *known, uint32_t count);
/* machine_scan() in the order of the run (its file "gpus", record/rundir.h), if that is known. */
void machine_scan_of_run(struct machine *ret, const char *run_dir);

/* "gfx90a" of gfx_target_version 90010: decimal MMmmss, stepping in hex. False for 0 or nonsense. */
bool machine_gfx_name(uint64_t gfx_target_version, char ret[16]);

/*
 * Folder of the TTM parameters that count: "/sys/module/amdttm/parameters" with the DKMS driver,
 * because amdgpu then uses the driver's own copy of TTM; else "/sys/module/ttm/parameters" (both
 * may be loaded); NULL if there is neither.
 */
const char *machine_ttm_parameters(void);

/* --- used by machine.c only --- */

/* One GPU node of the KFD topology. */
struct kfd_node {
    struct gpu_info info; /* what the node says */
    uint64_t unique_id;   /* 0 = none. A serial number: for grouping only, never shown */
    uint32_t domain;
    uint32_t location_id;
    bool has_location;
    bool joined;
};

/* Read all GPU nodes. Returns how many were stored in nodes[max]. */
uint32_t machine_kfd_scan(struct kfd_node *nodes, uint32_t max, struct machine *counters);

#endif
