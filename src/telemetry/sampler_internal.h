/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the parts of the sampler. All state is in one static struct of process M.
 */
#ifndef TELEMETRY_SAMPLER_INTERNAL_H
#define TELEMETRY_SAMPLER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/shared.h"
#include "telemetry/cgroup.h"
#include "telemetry/fdinfo.h"
#include "telemetry/machine.h"
#include "telemetry/pacer.h"
#include "telemetry/values.h"

#define SAMPLER_PROCS_MAX 64
#define SAMPLER_TREE_MAX 4096
#define SAMPLER_CLIENTS_MAX 16  /* DRM clients followed per process */
#define SAMPLER_SEEN_MAX 256    /* DRM clients told apart per cycle */
#define SAMPLER_KFD_PROCS_MAX 64
#define SECOND UINT64_C(1000000000)

/* Numbers of files for sampler_current_file and sampler_bad_files (4096 bits). */
#define FILE_GPU(gpu, metric) (1u + (uint32_t)(gpu) * 16u + (uint32_t)(metric))
#define FILE_GPU_ERRORS(gpu) FILE_GPU(gpu, 0) /* no metric has the number 0 */
#define FILE_HOST(n) (2064u + (uint32_t)(n)) /* 16 */
#define FILE_GPU_POWER(gpu) (2080u + (uint32_t)(gpu))
/* The number of a process's file is derived from its pid modulo a constant. Giving up one file may
 * give up that of another process, too. */
#define FILE_FDINFO(pid) (2208u + (uint32_t)(pid) % 864u)
#define FILE_PROC(pid, kind) (3072u + (uint32_t)(pid) % 256u * 4u + (uint32_t)(kind))
enum { FILE_STATUS, FILE_FD, FILE_MAPS, FILE_KFD };

#define SAMPLER_GAVE_UP (-ETIMEDOUT) /* sampler_read() of a file that once hung */

struct gpu_sampler {
    int fds[VALUES_GPU_METRICS]; /* -1 = not there; status[] says why */
    uint8_t status[VALUES_GPU_METRICS];
    int power_fd; /* device/power/runtime_status */
    uint64_t due_ns;
    uint64_t slow_due_ns;
    uint64_t changed_ns;
};

struct drm_client {
    int fd; /* the process's descriptor */
    int fdinfo_fd;
    char pdev[16];
    uint64_t client_id;
};

struct proc_slot {
    int32_t pid; /* 0 = free */
    int row;
    int status_fd;
    bool in_tree; /* seen in the last walk */
    bool gpu_user;
    uint32_t clients;
    struct drm_client client[SAMPLER_CLIENTS_MAX];
    uint64_t fds;
    uint64_t clients_ns; /* last search for DRM descriptors */
    uint64_t minute_ns;  /* last count of mappings and reading of limits */
};

struct kfd_proc {
    int32_t pid; /* 0 = free */
    bool in_tree;
    bool seen;
    uint64_t vram_bytes; /* of all GPUs */
    uint8_t status;
    uint64_t bytes[MACHINE_GPUS_MAX]; /* what fds[] said last */
    int fds[MACHINE_GPUS_MAX]; /* vram_<gpu_id>; -1 = not open */
};

/* Totals of the DRM clients of one process. */
struct drm_total {
    uint32_t have; /* FDINFO_HAVE_* of what was summed */
    uint64_t vram_bytes, gtt_bytes, evicted_bytes, requested_bytes;
};

struct drm_seen {
    uint32_t count;
    struct {
        char pdev[16];
        uint64_t client_id;
    } item[SAMPLER_SEEN_MAX];
};

struct host_sampler {
    int meminfo_fd, pressure_fd, limit_fd, used_fd, events_fd, ttm_fd;
    char cgroup_leaf[1200];
    bool cgroup_of_target;
    uint64_t due_ns;
};

struct sampler {
    struct shared *shared;
    const char *proc_root; /* "/proc"; tests put a folder here */
    int32_t self_pid;
    uint64_t now_ns;
    uint32_t answered; /* last impact_request that was handled */
    bool kfd_pids_ours; /* we are in the initial pid namespace, as KFD's file names are */
    uint64_t full_due_ns;
    uint64_t procs_due_ns, walk_full_due_ns;
    uint64_t last_wait_ns;
    uint64_t charged_ns; /* CPU time that a pacer has accounted for */
    struct pacer pace_fast, pace_slow, pace_procs, pace_host;
    struct machine machine;
    struct gpu_sampler gpus[MACHINE_GPUS_MAX];
    struct host_sampler host;
    struct proc_slot procs[SAMPLER_PROCS_MAX];
    struct kfd_proc kfd[SAMPLER_KFD_PROCS_MAX];
    uint32_t kfd_open; /* descriptors held by kfd[] */
    uint32_t kfd_open_max;
    int32_t other_pid; /* largest holder of VRAM outside the tree, 0 = none */
    uint32_t tree_count;
    int32_t tree[SAMPLER_TREE_MAX];
    struct drm_seen seen;
    struct values values;
};

/* --- sampler.c --- */
void sampler_init(struct sampler *s, struct shared *shared);
/* Call it first after sampler_init(): gives up the file in which the predecessor hung. */
void sampler_condemn(struct sampler *s);
void sampler_begin(struct sampler *s);  /* scan, open, BASELINE (or FULL) record */
void sampler_impact(struct sampler *s); /* answer shared->impact_request */
void sampler_after(struct sampler *s);  /* the AFTER record */
/* Does all work that is due at s->now_ns; returns when the next is due. */
uint64_t sampler_turn(struct sampler *s);
bool sampler_impact_pending(const struct sampler *s);

/* One pread from offset 0, published as the current file. Bytes, -errno, or SAMPLER_GAVE_UP. */
ssize_t sampler_read(struct sampler *s, uint32_t file, int fd, char *out, size_t size);
/* The same for open(2); directories too with O_DIRECTORY in flags. */
int sampler_open(struct sampler *s, uint32_t file, const char *path, int flags);
void sampler_enter(struct sampler *s, uint32_t file);
void sampler_leave(struct sampler *s);
bool sampler_is_bad(const struct sampler *s, uint32_t file);
enum value_status sampler_status_of(int negative_errno);

/* --- sampler_gpu.c --- */
void sampler_gpu_open(struct sampler *s);
void sampler_gpu_fast(struct sampler *s, uint32_t gpu);   /* memory in use; wakes nothing */
void sampler_gpu_memory(struct sampler *s, uint32_t gpu); /* the same, and values that seldom
                                                           * change */
void sampler_gpu_total(struct sampler *s, uint32_t gpu);  /* size of the memory */
void sampler_gpu_errors(struct sampler *s, uint32_t gpu); /* accesses the hardware: before and after
                                                           * the run */
void sampler_gpu_slow(struct sampler *s, uint32_t gpu);   /* values that seldom change; values from the
                                                           * SMU */

/* --- sampler_host.c --- */
void sampler_host_open(struct sampler *s);
void sampler_host_read(struct sampler *s);
/* Find the cgroup of the target (or ours before it runs). */
void sampler_host_cgroup(struct sampler *s);

/* --- sampler_procs.c --- */
void sampler_procs_turn(struct sampler *s);
/* The GPU's memory in use has changed: reads how much of it each process of the tree holds. */
void sampler_procs_follow(struct sampler *s, uint32_t gpu);
/* Reads all counters of one process now; takes a slot for it if it has none. */
void sampler_procs_impact(struct sampler *s, int32_t pid);
void drm_total_add(struct drm_total *total, const struct fdinfo *info);
/* True = not seen before in this cycle (then it is remembered). */
bool drm_first_time(struct drm_seen *seen, const char *pdev, uint64_t client_id);

/* --- sampler_kfd.c --- */
void sampler_kfd_turn(struct sampler *s);
/* Bytes of one process over all GPUs; VALUE_ABSENT when KFD does not know it. */
enum value_status sampler_kfd_of(struct sampler *s, int32_t pid, uint64_t *ret);
/* One pread, if the process held memory of that GPU at the last look. True: it holds another amount. */
bool sampler_kfd_follow(struct sampler *s, int32_t pid, uint32_t gpu);
/* Reads one process of the tree, or an orphan of it. NVML's list is the one of the last turn. */
void sampler_kfd_read_pid(struct sampler *s, int32_t pid);
/* /proc/PID/status of any process. */
bool sampler_read_status(struct sampler *s, int32_t pid, struct proc_status *ret);

#endif
