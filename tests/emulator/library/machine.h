/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated machine: a folder (EMULATOR_ROOT) with the sysfs tree of its GPUs, made by machine.py
 * or import_machine.py, and emulator/machine.conf with values that sysfs lacks. Read once, at the
 * first intercepted call; constant afterwards. Runs inside the emulated program and in the keeper.
 */
#ifndef EMULATOR_MACHINE_H
#define EMULATOR_MACHINE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_GPUS_MAX 64

/* Rules that changed between kernels; kernels are written 601 for 6.1, 612 for 6.12. */
enum { KERNEL_6_1 = 601, KERNEL_6_12 = 612 };

struct gpu {
    uint32_t gpu_id;      /* as in ioctls and kfd/proc/PID/vram_<gpu_id> */
    uint32_t node;        /* number below kfd/topology/nodes */
    uint32_t gfx_version; /* decimal MMmmss: 90010 */
    uint32_t device_id, pci_revision;
    uint32_t simd_count, simd_per_cu, array_count, arrays_per_engine, cu_per_array, wave_size;
    uint32_t bus_width, memory_clock_mhz;
    int render_minor;
    unsigned physical; /* index of the GPU whose sysfs counters show this one: itself, or the first
                        * partition of the same card */
    bool is_apu;
    bool vram_in_gtt; /* VRAM requests are served from GTT (APU, kernels from 6.10 on) */
    bool small_bar;   /* not all VRAM is visible to the CPU */
    uint64_t bank_bytes;     /* what KFD offers: memory bank of the node */
    uint64_t vram_bytes;     /* mem_info_vram_total; an APU's carve-out */
    uint64_t visible_bytes;  /* mem_info_vis_vram_total */
    uint64_t gtt_bytes;      /* mem_info_gtt_total */
    uint64_t base_bytes;     /* held by the driver itself, pinned: firmware, page tables */
    char pci[16];            /* "0000:03:00.0" */
};

struct machine {
    char root[PATH_MAX]; /* without a slash at the end; empty = not emulating */
    size_t root_len;
    unsigned kernel;            /* enum above, or what lies between */
    unsigned fdinfo_kernel;     /* which generation of fdinfo keys: 601, 612, 702 */
    unsigned kfd_minor;         /* of the KFD interface, 1.x */
    uint64_t ram_bytes;         /* of the emulated machine */
    uint64_t page_table_bytes;  /* kept back from every GPU's VRAM by KFD */
    uint64_t system_limit;      /* KFD: system memory for GPU buffers, all GPUs */
    uint64_t ttm_limit;         /* KFD: the part of it that TTM may bind */
    unsigned gpu_count;
    struct gpu gpus[MACHINE_GPUS_MAX];
};

extern struct machine machine;

/* Fills `machine` from the folder. 0 or -errno. */
int machine_load(const char *root);

/* Index of the GPU, or -1. */
int machine_gpu_by_id(uint32_t gpu_id);
int machine_gpu_by_minor(int render_minor);

/* The part of the GPU's memory that KFD gives to all processes together. */
uint64_t machine_vram_limit(unsigned gpu);

/* --- small files, by system calls only: no intercepted function may be entered --- */

/* Reads at most size-1 bytes, NUL-terminates. Length or -errno. */
ssize_t file_read(const char *path, char *out, size_t size);
/* `path` below the root. false when too long. */
bool file_path(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Value behind "key " at the start of a line; 0 and false when there is none. */
bool text_u64(const char *text, const char *key, uint64_t *ret);

#endif
