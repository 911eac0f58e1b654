/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory, memory pressure, the target's cgroup and the TTM limit, once a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "telemetry/procfs.h"
#include "telemetry/sampler_internal.h"

enum { HOST_MEMINFO, HOST_PRESSURE, HOST_LIMIT, HOST_USED, HOST_EVENTS, HOST_TTM, HOST_CGROUP };

static int open_machine(struct sampler *s, uint32_t file, const char *path)
{
    char full[FS_PATH_MAX];
    int r = fs_machine_path(full, sizeof full, path);
    return r < 0 ? r : sampler_open(s, file, full, 0);
}

static int open_in(struct sampler *s, uint32_t file, const char *folder, const char *name)
{
    char path[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return open_machine(s, file, path);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -ENOENT;
}

/* The target's own cgroup once it runs; before that ours, which it inherits. */
void sampler_host_cgroup(struct sampler *s)
{
    static struct cgroup_paths paths;
    static struct cgroup_memory memory;
    struct host_sampler *h = &s->host;
    int32_t target = s->shared->target_pid;
    char path[128];
    char text[4096];
    if (target > 0)
        (void)snprintf(path, sizeof path, "%s/%d/cgroup", s->proc_root, target);
    else
        (void)snprintf(path, sizeof path, "%s/self/cgroup", s->proc_root);
    sampler_enter(s, FILE_HOST(HOST_CGROUP));
    ssize_t len = fs_read_text(path, text, sizeof text);
    if (len > 0) {
        procfs_parse_cgroup(text, (size_t)len, &paths);
        cgroup_resolve(&paths, &memory);
    }
    sampler_leave(s);
    if (len <= 0)
        return; /* the target is gone: keep watching where it was */
    h->cgroup_of_target = target > 0;
    if (h->cgroup_leaf[0] != '\0' && strcmp(h->cgroup_leaf, memory.leaf) == 0)
        return;
    close_fd(&h->limit_fd);
    close_fd(&h->used_fd);
    close_fd(&h->events_fd);
    if (!memory.found)
        return;
    (void)snprintf(h->cgroup_leaf, sizeof h->cgroup_leaf, "%s", memory.leaf);
    h->limit_fd = open_in(s, FILE_HOST(HOST_LIMIT), memory.limit,
                          memory.v1 ? "memory.limit_in_bytes" : "memory.max");
    h->used_fd = open_in(s, FILE_HOST(HOST_USED), memory.limit,
                         memory.v1 ? "memory.usage_in_bytes" : "memory.current");
    h->events_fd = open_in(s, FILE_HOST(HOST_EVENTS), memory.leaf,
                           memory.v1 ? "memory.oom_control" : "memory.events");
}

void sampler_host_open(struct sampler *s)
{
    struct host_sampler *h = &s->host;
    h->limit_fd = h->used_fd = h->events_fd = h->ttm_fd = -ENOENT;
    h->meminfo_fd = open_machine(s, FILE_HOST(HOST_MEMINFO), "/proc/meminfo");
    h->pressure_fd = open_machine(s, FILE_HOST(HOST_PRESSURE), "/proc/pressure/memory");
    const char *ttm = machine_ttm_parameters();
    if (ttm != NULL)
        h->ttm_fd = open_in(s, FILE_HOST(HOST_TTM), ttm, "pages_limit");
    sampler_host_cgroup(s);
}

/* The text of a host file, or the status to record if there is none. */
static ssize_t read_host(struct sampler *s, uint32_t n, int fd, char *text, size_t size,
                         enum value_status *ret_status)
{
    ssize_t len = fd < 0 ? fd : sampler_read(s, FILE_HOST(n), fd, text, size);
    if (sampler_is_bad(s, FILE_HOST(n)))
        len = SAMPLER_GAVE_UP;
    *ret_status = len < 0 ? sampler_status_of((int)len) : VALUE_OK;
    return len;
}

static void set_host(struct sampler *s, enum metric m, enum value_status status, bool have,
                     uint64_t value)
{
    if (status == VALUE_OK && !have)
        status = VALUE_ABSENT;
    (void)values_set_host(&s->values, m, status, value);
}

static void read_meminfo(struct sampler *s)
{
    char text[4096];
    enum value_status status;
    struct meminfo m = {0};
    ssize_t len = read_host(s, HOST_MEMINFO, s->host.meminfo_fd, text, sizeof text, &status);
    if (len > 0)
        procfs_parse_meminfo(text, (size_t)len, &m);
    set_host(s, METRIC_HOST_MEM_TOTAL, status, m.have & MEMINFO_HAVE_TOTAL, m.total_bytes);
    set_host(s, METRIC_HOST_MEM_AVAILABLE, status, m.have & MEMINFO_HAVE_AVAILABLE,
             m.available_bytes);
    set_host(s, METRIC_HOST_SWAP_TOTAL, status, m.have & MEMINFO_HAVE_SWAP_TOTAL,
             m.swap_total_bytes);
    set_host(s, METRIC_HOST_SWAP_FREE, status, m.have & MEMINFO_HAVE_SWAP_FREE,
             m.swap_free_bytes);
    set_host(s, METRIC_HOST_SHMEM, status, m.have & MEMINFO_HAVE_SHMEM, m.shmem_bytes);
}

static void read_pressure(struct sampler *s)
{
    char text[512];
    enum value_status status;
    struct pressure p = {0};
    ssize_t len = read_host(s, HOST_PRESSURE, s->host.pressure_fd, text, sizeof text, &status);
    if (len > 0)
        procfs_parse_pressure(text, (size_t)len, &p);
    set_host(s, METRIC_HOST_PSI_MEM_SOME, status, p.has_some, p.some_us);
    set_host(s, METRIC_HOST_PSI_MEM_FULL, status, p.has_full, p.full_us);
}

static void read_cgroup(struct sampler *s)
{
    char text[1024];
    enum value_status status;
    uint64_t value = 0;
    ssize_t len = read_host(s, HOST_LIMIT, s->host.limit_fd, text, sizeof text, &status);
    bool have = len > 0 && cgroup_parse_limit(text, &value);
    set_host(s, METRIC_CGROUP_MEM_LIMIT, status, have, value);
    len = read_host(s, HOST_USED, s->host.used_fd, text, sizeof text, &status);
    have = len > 0 && fs_parse_u64(text, &value) == 0;
    set_host(s, METRIC_CGROUP_MEM_USED, status, have, value);
    len = read_host(s, HOST_EVENTS, s->host.events_fd, text, sizeof text, &status);
    have = len > 0 && procfs_parse_oom_kills(text, (size_t)len, &value);
    set_host(s, METRIC_CGROUP_OOM_KILLS, status, have, value);
}

void sampler_host_read(struct sampler *s)
{
    char text[64];
    enum value_status status;
    uint64_t value = 0;
    if (!s->host.cgroup_of_target && s->shared->target_pid > 0)
        sampler_host_cgroup(s);
    read_meminfo(s);
    read_pressure(s);
    read_cgroup(s);
    ssize_t len = read_host(s, HOST_TTM, s->host.ttm_fd, text, sizeof text, &status);
    bool have = len > 0 && fs_parse_u64(text, &value) == 0;
    set_host(s, METRIC_HOST_TTM_PAGES_LIMIT, status, have, value);
    (void)values_set_host(&s->values, METRIC_HOST_PID_NAMESPACE, VALUE_OK, s->kfd_pids_ours);
}
