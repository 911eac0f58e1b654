/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VRAM per process as KFD counts it: /sys/class/kfd/kfd/proc/PID/vram_<gpu_id>, world-readable, for
 * the tree and for everybody else ("held by another process"). PID is the host's. Inside a pid
 * namespace these names do not match our pids, and all these values are recorded as unreadable.
 * They are read once a second. A process of the tree is also read when the counter of its GPU has
 * changed: the files are open, and the sampler is awake. NVML has no such file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/number.h"
#include "telemetry/dirscan.h"
#include "telemetry/nvml.h"
#include "telemetry/procfs.h"
#include "telemetry/sampler_internal.h"

#define KFD_PROC "/sys/class/kfd/kfd/proc"
#define ANCESTORS_MAX 64

bool sampler_read_status(struct sampler *s, int32_t pid, struct proc_status *ret)
{
    char path[128];
    char text[4096];
    (void)snprintf(path, sizeof path, "%s/%d/status", s->proc_root, pid);
    if (sampler_is_bad(s, FILE_PROC(pid, FILE_STATUS)))
        return false;
    sampler_enter(s, FILE_PROC(pid, FILE_STATUS));
    ssize_t len = fs_read_text(path, text, sizeof text);
    sampler_leave(s);
    if (len <= 0)
        return false;
    procfs_parse_status(text, (size_t)len, ret);
    return true;
}

/* Goes up the parents to a process of the tree: a process that was forked after the last walk
 * counts as well. */
static bool descends_from_us(struct sampler *s, int32_t pid)
{
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (pid == s->shared->target_pid || pid == s->shared->run.supervisor_pid)
            return true;
        struct proc_status status;
        if (!sampler_read_status(s, pid, &status) || (status.have & PROC_HAVE_PPID) == 0)
            return false;
        pid = status.ppid;
    }
    return false;
}

static void release(struct sampler *s, struct kfd_proc *p)
{
    for (uint32_t g = 0; g < s->machine.count; g++)
        if (p->fds[g] >= 0) {
            (void)close(p->fds[g]);
            s->kfd_open--;
        }
    p->pid = 0;
}

static struct kfd_proc *find(struct sampler *s, int32_t pid, bool take)
{
    struct kfd_proc *free_one = NULL;
    for (uint32_t i = 0; i < SAMPLER_KFD_PROCS_MAX; i++) {
        if (s->kfd[i].pid == pid)
            return &s->kfd[i];
        if (s->kfd[i].pid == 0 && free_one == NULL)
            free_one = &s->kfd[i];
    }
    if (!take || free_one == NULL)
        return NULL;
    free_one->pid = pid;
    free_one->vram_bytes = 0;
    free_one->in_tree = false;
    free_one->seen = true;
    memset(free_one->fds, -1, sizeof free_one->fds);
    return free_one;
}

static int open_vram(struct sampler *s, struct kfd_proc *p, uint32_t gpu)
{
    char path[128];
    char full[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, KFD_PROC "/%d/vram_%u", p->pid,
                   s->machine.gpus[gpu].kfd_gpu_id);
    int r = fs_machine_path(full, sizeof full, path);
    return r < 0 ? r : sampler_open(s, FILE_PROC(p->pid, FILE_KFD), full, 0);
}

static int read_vram(struct sampler *s, struct kfd_proc *p, uint32_t gpu, uint64_t *ret)
{
    int fd = p->fds[gpu];
    if (fd < 0)
        fd = open_vram(s, p, gpu);
    if (fd < 0)
        return fd;
    char text[64];
    ssize_t len = sampler_read(s, FILE_PROC(p->pid, FILE_KFD), fd, text, sizeof text);
    if (p->fds[gpu] < 0 && s->kfd_open < s->kfd_open_max) {
        p->fds[gpu] = fd;
        s->kfd_open++;
    } else if (p->fds[gpu] < 0) {
        (void)close(fd);
    }
    return len < 0 ? (int)len : fs_parse_u64(text, ret);
}

/* Sum over the GPUs; others[gpu] gets the parts when it is not NULL. */
static void read_proc(struct sampler *s, struct kfd_proc *p, uint64_t *others)
{
    uint64_t sum = 0;
    int last_error = -ENOENT;
    bool any = false;
    for (uint32_t g = 0; g < s->machine.count; g++) {
        uint64_t bytes = 0;
        p->bytes[g] = 0;
        if (nvml_bytes(p->pid, g, &bytes)) {
            any = true;
            sum += bytes;
            if (others != NULL)
                others[g] += bytes;
            continue;
        }
        if ((s->machine.gpus[g].have & GPU_HAVE_KFD_GPU_ID) == 0)
            continue;
        int r = read_vram(s, p, g, &bytes);
        if (r < 0) {
            last_error = r == -ENOENT ? last_error : r;
            continue;
        }
        any = true;
        sum += bytes;
        p->bytes[g] = bytes;
        if (others != NULL)
            others[g] += bytes;
    }
    p->vram_bytes = sum;
    p->status = (uint8_t)(any ? VALUE_OK : sampler_status_of(last_error));
}

void sampler_kfd_read_pid(struct sampler *s, int32_t pid)
{
    char path[FS_PATH_MAX];
    char name[64];
    (void)snprintf(name, sizeof name, KFD_PROC "/%d", pid);
    if (!s->kfd_pids_ours)
        return;
    if (!nvml_holds(pid) &&
        (fs_machine_path(path, sizeof path, name) < 0 || access(path, F_OK) != 0))
        return;
    struct kfd_proc *p = find(s, pid, true);
    if (p == NULL)
        return;
    p->in_tree = true;
    read_proc(s, p, NULL);
}

enum value_status sampler_kfd_of(struct sampler *s, int32_t pid, uint64_t *ret)
{
    if (!s->kfd_pids_ours)
        return VALUE_UNREADABLE;
    const struct kfd_proc *p = find(s, pid, false);
    if (p == NULL || !p->in_tree)
        return VALUE_ABSENT;
    *ret = p->vram_bytes;
    return p->status;
}

bool sampler_kfd_follow(struct sampler *s, int32_t pid, uint32_t gpu)
{
    struct kfd_proc *p = find(s, pid, false);
    uint64_t bytes = 0;
    if (p == NULL || p->status != VALUE_OK || p->fds[gpu] < 0 || p->bytes[gpu] == 0 ||
        read_vram(s, p, gpu, &bytes) < 0 || bytes == p->bytes[gpu])
        return false;
    p->vram_bytes += bytes - p->bytes[gpu];
    p->bytes[gpu] = bytes;
    return true;
}

static void set_comm(struct sampler *s, int row, const char *comm)
{
    uint64_t halves[2] = {0, 0};
    (void)memcpy(halves, comm, strnlen(comm, 15));
    (void)values_set_proc(&s->values, row, METRIC_PROC_COMM_LOW, VALUE_OK, halves[0]);
    (void)values_set_proc(&s->values, row, METRIC_PROC_COMM_HIGH, VALUE_OK, halves[1]);
}

/* The process outside the tree that holds the most memory gets its own row. */
static void set_largest_other(struct sampler *s, const struct kfd_proc *largest)
{
    int32_t pid = largest != NULL ? largest->pid : 0;
    if (s->other_pid != 0 && s->other_pid != pid)
        values_proc_end(&s->values, values_proc_row(&s->values, s->other_pid));
    s->other_pid = pid;
    if (pid == 0)
        return;
    int row = values_proc_row(&s->values, pid);
    (void)values_set_proc(&s->values, row, METRIC_PROC_OUTSIDE, VALUE_OK, 1);
    (void)values_set_proc(&s->values, row, METRIC_PROC_KFD_VRAM, VALUE_OK, largest->vram_bytes);
    struct proc_status status;
    if (sampler_read_status(s, pid, &status) && (status.have & PROC_HAVE_NAME) != 0)
        set_comm(s, row, status.name);
}

static void set_others(struct sampler *s, enum value_status status, const uint64_t *others)
{
    for (uint32_t g = 0; g < s->machine.count; g++) {
        bool known = (s->machine.gpus[g].have & GPU_HAVE_KFD_GPU_ID) != 0;
        uint64_t bytes;
        enum value_status of_this = known ? status : VALUE_ABSENT;
        if (nvml_is(&s->machine.gpus[g]) && !nvml_tried())
            continue; /* the baseline record is written before that */
        if (nvml_is(&s->machine.gpus[g]) && s->kfd_pids_ours)
            of_this = nvml_bytes(0, g, &bytes) ? VALUE_OK : VALUE_UNREADABLE;
        (void)values_set_gpu(&s->values, g, METRIC_GPU_OTHERS_KFD_VRAM, of_this, others[g]);
    }
}

static int list_procs(struct sampler *s)
{
    char path[FS_PATH_MAX];
    struct dirscan dir;
    for (uint32_t i = 0; i < SAMPLER_KFD_PROCS_MAX; i++)
        s->kfd[i].seen = false;
    nvml_list(s);
    uint32_t at = 0;
    for (int32_t pid; (pid = nvml_next_pid(&at)) > 0;) {
        struct kfd_proc *p = find(s, pid, true);
        if (p != NULL)
            p->seen = true;
    }
    int r = fs_machine_path(path, sizeof path, KFD_PROC);
    if (r == 0)
        r = dirscan_open(&dir, path);
    if (r < 0)
        return r;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t pid = number_in_name(name, "");
        struct kfd_proc *p = pid > 0 ? find(s, (int32_t)pid, true) : NULL;
        if (p != NULL)
            p->seen = true;
    }
    dirscan_close(&dir);
    return 0;
}

void sampler_kfd_turn(struct sampler *s)
{
    uint64_t others[MACHINE_GPUS_MAX] = {0};
    if (!s->kfd_pids_ours) {
        set_others(s, VALUE_UNREADABLE, others);
        return;
    }
    int r = list_procs(s);
    const struct kfd_proc *largest = NULL;
    for (uint32_t i = 0; i < SAMPLER_KFD_PROCS_MAX; i++) {
        struct kfd_proc *p = &s->kfd[i];
        if (p->pid == 0)
            continue;
        if (!p->seen) {
            release(s, p);
            continue;
        }
        if (!p->in_tree)
            p->in_tree = descends_from_us(s, p->pid);
        read_proc(s, p, p->in_tree ? NULL : others);
        if (!p->in_tree && p->status == VALUE_OK && p->vram_bytes > 0 &&
            (largest == NULL || p->vram_bytes > largest->vram_bytes))
            largest = p;
    }
    set_others(s, r < 0 ? sampler_status_of(r) : VALUE_OK, others);
    set_largest_other(s, largest);
}
