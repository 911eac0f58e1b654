/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the sampled metrics, and the record that carries their values.
 *
 * A sample record holds only the values that changed since the last one (a *full* record holds
 * all). A value has a status of its own: absent is never 0. Ids are stable: they are on disk.
 */
#ifndef TELEMETRY_METRIC_H
#define TELEMETRY_METRIC_H

#include <stdint.h>

enum metric_scope {
    SCOPE_HOST,    /* instance 0 */
    SCOPE_GPU,     /* instance = index into the run's GPU table */
    SCOPE_PROCESS, /* instance = pid */
};

enum value_status {
    VALUE_OK,
    VALUE_ABSENT,     /* no such file or key on this machine or kernel */
    VALUE_UNREADABLE, /* there, but the read failed (permission, EPERM in reset, garbage) */
    VALUE_STALLED,    /* the read did not return; the file was given up */
};

/* X(id, name, unit, scope, where it comes from). `name` is also the column of telemetry.csv. */
#define METRIC_TABLE(X)                                                                            \
    X(1, GPU_VRAM_TOTAL, "vram.total", "bytes", SCOPE_GPU, "device/mem_info_vram_total, or NVML")  \
    X(2, GPU_VRAM_USED, "vram.used", "bytes", SCOPE_GPU, "device/mem_info_vram_used, or NVML")     \
    X(3, GPU_VIS_TOTAL, "vram_visible.total", "bytes", SCOPE_GPU, "device/mem_info_vis_vram_total")\
    X(4, GPU_VIS_USED, "vram_visible.used", "bytes", SCOPE_GPU, "device/mem_info_vis_vram_used")   \
    X(5, GPU_GTT_TOTAL, "gtt.total", "bytes", SCOPE_GPU, "device/mem_info_gtt_total")              \
    X(6, GPU_GTT_USED, "gtt.used", "bytes", SCOPE_GPU, "device/mem_info_gtt_used")                 \
    X(7, GPU_BUSY, "busy", "percent", SCOPE_GPU, "device/gpu_busy_percent")                        \
    X(8, GPU_TEMP_EDGE, "temperature.edge", "mC", SCOPE_GPU, "device/hwmon/hwmonN/temp1_input")    \
    X(9, GPU_TEMP_JUNCTION, "temperature.junction", "mC", SCOPE_GPU,                               \
      "device/hwmon/hwmonN/temp2_input")                                                           \
    X(10, GPU_TEMP_MEM, "temperature.memory", "mC", SCOPE_GPU, "device/hwmon/hwmonN/temp3_input")  \
    X(11, GPU_POWER, "power", "uW", SCOPE_GPU,                                                     \
      "device/hwmon/hwmonN/power1_average or power1_input")                                        \
    X(12, GPU_SCLK, "clock.shader", "Hz", SCOPE_GPU, "device/hwmon/hwmonN/freq1_input")            \
    X(13, GPU_MCLK, "clock.memory", "Hz", SCOPE_GPU, "device/hwmon/hwmonN/freq2_input")            \
    X(14, GPU_PREEMPT_USED, "preempt.used", "bytes", SCOPE_GPU, "device/mem_info_preempt_used")    \
    X(15, GPU_OTHERS_KFD_VRAM, "others_kfd_vram", "bytes", SCOPE_GPU,                              \
      "kfd/proc/*/vram_*, or NVML: processes outside the target's tree")                           \
    X(16, GPU_UNCORRECTED, "errors_uncorrected", "count", SCOPE_GPU,                               \
      "device/ras/*_err_count, all blocks, or NVML")                                               \
    X(17, GPU_CORRECTED, "errors_corrected", "count", SCOPE_GPU,                                   \
      "device/ras/*_err_count, all blocks, or NVML")                                               \
    X(20, PROC_RSS, "rss", "bytes", SCOPE_PROCESS, "/proc/PID/status VmRSS")                       \
    X(21, PROC_RSS_SHMEM, "rss_shmem", "bytes", SCOPE_PROCESS, "/proc/PID/status RssShmem")        \
    X(22, PROC_SWAP, "swap", "bytes", SCOPE_PROCESS, "/proc/PID/status VmSwap")                    \
    X(23, PROC_PINNED, "pinned", "bytes", SCOPE_PROCESS, "/proc/PID/status VmPin")                 \
    X(24, PROC_LOCKED, "locked", "bytes", SCOPE_PROCESS, "/proc/PID/status VmLck")                 \
    X(25, PROC_FDS, "fds", "count", SCOPE_PROCESS, "/proc/PID/fd")                                 \
    X(26, PROC_FDS_LIMIT, "fds_limit", "count", SCOPE_PROCESS, "/proc/PID/limits")                 \
    X(27, PROC_MAPS, "maps", "count", SCOPE_PROCESS, "/proc/PID/maps")                             \
    X(28, PROC_THREADS, "threads", "count", SCOPE_PROCESS, "/proc/PID/status Threads")             \
    X(29, PROC_KFD_VRAM, "kfd_vram", "bytes", SCOPE_PROCESS,                                       \
      "kfd/proc/PID/vram_*, or NVML: all GPUs")                                                    \
    X(30, PROC_DRM_VRAM, "drm_vram", "bytes", SCOPE_PROCESS, "/proc/PID/fdinfo, per client once")  \
    X(31, PROC_DRM_GTT, "drm_gtt", "bytes", SCOPE_PROCESS, "/proc/PID/fdinfo, per client once")    \
    X(32, PROC_DRM_EVICTED, "drm_evicted", "bytes", SCOPE_PROCESS,                                 \
      "/proc/PID/fdinfo amd-evicted-vram")                                                         \
    X(33, PROC_DRM_REQUESTED, "drm_requested_vram", "bytes", SCOPE_PROCESS,                        \
      "/proc/PID/fdinfo amd-requested-vram")                                                       \
    X(34, PROC_COMM_LOW, "comm.0", "text", SCOPE_PROCESS, "/proc/PID/status Name, bytes 0-7")      \
    X(35, PROC_COMM_HIGH, "comm.1", "text", SCOPE_PROCESS, "/proc/PID/status Name, bytes 8-15")    \
    X(36, PROC_OUTSIDE, "outside", "flag", SCOPE_PROCESS, "1 = not of the target's tree")          \
    X(37, PROC_RSS_PEAK, "rss_peak", "bytes", SCOPE_PROCESS, "/proc/PID/status VmHWM")             \
    X(40, HOST_MEM_TOTAL, "mem.total", "bytes", SCOPE_HOST, "/proc/meminfo MemTotal")              \
    X(41, HOST_MEM_AVAILABLE, "mem.available", "bytes", SCOPE_HOST, "/proc/meminfo MemAvailable")  \
    X(42, HOST_SWAP_TOTAL, "swap.total", "bytes", SCOPE_HOST, "/proc/meminfo SwapTotal")           \
    X(43, HOST_SWAP_FREE, "swap.free", "bytes", SCOPE_HOST, "/proc/meminfo SwapFree")              \
    X(44, HOST_PSI_MEM_SOME, "psi.memory.some_total", "us", SCOPE_HOST, "/proc/pressure/memory")   \
    X(45, HOST_PSI_MEM_FULL, "psi.memory.full_total", "us", SCOPE_HOST, "/proc/pressure/memory")   \
    X(46, CGROUP_MEM_LIMIT, "cgroup.memory.limit", "bytes", SCOPE_HOST,                            \
      "memory.max (v2) or memory.limit_in_bytes (v1)")                                             \
    X(47, CGROUP_MEM_USED, "cgroup.memory.used", "bytes", SCOPE_HOST,                              \
      "memory.current (v2) or memory.usage_in_bytes (v1)")                                         \
    X(48, CGROUP_OOM_KILLS, "cgroup.memory.oom_kills", "count", SCOPE_HOST,                        \
      "memory.events oom_kill (v2) or memory.oom_control oom_kill (v1)")                           \
    X(49, HOST_TTM_PAGES_LIMIT, "ttm.pages_limit", "pages", SCOPE_HOST,                            \
      "/sys/module/{amdttm,ttm}/parameters/pages_limit")                                           \
    X(50, HOST_SHMEM, "mem.shmem", "bytes", SCOPE_HOST, "/proc/meminfo Shmem")                     \
    X(51, HOST_PID_NAMESPACE, "pid_namespace_initial", "flag", SCOPE_HOST,                         \
      "/proc/self/ns/pid; 0 = KFD's pids are not ours")

enum metric {
#define X(id, symbol, name, unit, scope, where) METRIC_##symbol = id,
    METRIC_TABLE(X)
#undef X
        METRIC_MAX = 64
};

struct metric_def {
    uint16_t id;
    const char *name; /* without the scope: "vram.used" */
    const char *unit; /* "bytes", "percent", "mC", "uW", "Hz", "us", "count", "pages", "flag", "text" */
    enum metric_scope scope;
    const char *where;
};

/* NULL for an id that does not exist. */
const struct metric_def *metric_find(uint16_t id);

/* --- the record, as it lies in the sample ring and on disk (little endian, 8-byte aligned) --- */

#define SAMPLE_MAGIC 0x534d /* "MS": resynchronise on it after a torn or lost stretch */

enum sample_flags {
    SAMPLE_FULL = 1,     /* holds every value, not only the changed ones */
    SAMPLE_BASELINE = 2, /* before the target ran */
    SAMPLE_IMPACT = 4,   /* on request of the tracer; the target is held or has just ended */
    SAMPLE_AFTER = 8,    /* at least one second after the target's end */
    SAMPLE_THINNED = 16, /* stands for several records (see segment.h) */
};

struct sample_header {
    uint16_t magic;
    uint16_t flags;
    uint32_t entries;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
};

struct sample_entry {
    uint16_t metric;
    uint8_t status; /* enum value_status */
    uint8_t reserved;
    uint32_t instance;
    uint64_t value; /* meaningless unless VALUE_OK */
};

#endif
