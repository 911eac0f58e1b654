/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the target's tree: at most 64, users of a GPU first. /proc/PID is always the
 * real one, even with a sysroot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "telemetry/dirscan.h"
#include "telemetry/procfs.h"
#include "telemetry/sampler_internal.h"

#define FDS_COUNTED_MAX 65536    /* readdir fallback on Linux < 6.2 */
#define FDS_SEARCHED_MAX 4096    /* for DRM descriptors */
#define MAPS_BUDGET_NS (2 * NS_PER_MS)  /* counting 5,000 mappings takes 0.9 ms, 60,000 take 14.5 */

bool drm_first_time(struct drm_seen *seen, const char *pdev, uint64_t client_id)
{
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->item[i].client_id == client_id && strcmp(seen->item[i].pdev, pdev) == 0)
            return false;
    if (seen->count < SAMPLER_SEEN_MAX) {
        (void)snprintf(seen->item[seen->count].pdev, sizeof seen->item[0].pdev, "%s", pdev);
        seen->item[seen->count++].client_id = client_id;
    }
    return true;
}

void drm_total_add(struct drm_total *total, const struct fdinfo *info)
{
    total->have |= info->have;
    total->vram_bytes += info->vram_bytes;
    total->gtt_bytes += info->gtt_bytes;
    total->evicted_bytes += info->evicted_vram_bytes;
    total->requested_bytes += info->requested_vram_bytes;
}

/* --- the tree --- */

static bool in_tree(const struct sampler *s, int32_t pid)
{
    for (uint32_t i = 0; i < s->tree_count; i++)
        if (s->tree[i] == pid)
            return true;
    return false;
}

static bool is_helper(const struct sampler *s, int32_t pid)
{
    if (pid == s->self_pid || pid == s->shared->run.supervisor_pid)
        return true;
    for (int i = 0; i < HELPER_MAX; i++)
        if (s->shared->helpers[i].pid == pid)
            return true;
    for (int i = 0; i < SHARED_OWN_CHILDREN; i++)
        if (s->shared->own_children[i] == pid)
            return true;
    return false;
}

static void tree_add(struct sampler *s, int32_t pid)
{
    if (pid > 0 && s->tree_count < SAMPLER_TREE_MAX && !is_helper(s, pid) && !in_tree(s, pid))
        s->tree[s->tree_count++] = pid;
}

/* /proc/PID/task/TID/children: "4711 4712 " */
static void add_children(struct sampler *s, int32_t pid, int32_t tid)
{
    char path[128];
    char text[4096];
    (void)snprintf(path, sizeof path, "%s/%d/task/%d/children", s->proc_root, pid, tid);
    int fd = sampler_open(s, FILE_PROC(pid, FILE_STATUS), path, 0);
    if (fd < 0)
        return;
    off_t at = 0;
    int64_t number = 0;
    ssize_t len;
    while ((len = pread(fd, text, sizeof text, at)) > 0) {
        at += len;
        for (ssize_t i = 0; i < len; i++) {
            if (text[i] >= '0' && text[i] <= '9' && number < INT32_MAX) {
                number = number * 10 + (text[i] - '0');
                continue;
            }
            if (number > 0 && number <= INT32_MAX)
                tree_add(s, (int32_t)number);
            number = 0;
        }
    }
    (void)close(fd);
}

static void add_children_of_threads(struct sampler *s, int32_t pid)
{
    char path[128];
    struct dirscan dir;
    (void)snprintf(path, sizeof path, "%s/%d/task", s->proc_root, pid);
    if (dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t tid = number_in_name(name, "");
        if (tid > 0)
            add_children(s, pid, (int32_t)tid);
    }
    dirscan_close(&dir);
}

/* Breadth first from the target; orphans are reparented to the supervisor (a subreaper), and to the
 * tracer while that is the target's parent. Only the thorough walk finds children of threads other
 * than the first: 200 threads are 200 files. */
static void walk_tree(struct sampler *s, bool thorough)
{
    s->tree_count = 0;
    tree_add(s, s->shared->target_pid);
    int32_t supervisor = s->shared->run.supervisor_pid;
    int32_t tracer = s->shared->helpers[HELPER_TRACER].pid;
    if (supervisor > 0)
        add_children(s, supervisor, supervisor);
    if (tracer > 0)
        add_children(s, tracer, tracer);
    for (uint32_t i = 0; i < s->tree_count; i++) {
        if (thorough)
            add_children_of_threads(s, s->tree[i]);
        else
            add_children(s, s->tree[i], s->tree[i]);
    }
}

/* --- slots --- */

static void close_clients(struct proc_slot *p)
{
    for (uint32_t i = 0; i < p->clients; i++)
        (void)close(p->client[i].fdinfo_fd);
    p->clients = 0;
}

static void slot_release(struct sampler *s, struct proc_slot *p)
{
    close_clients(p);
    if (p->status_fd >= 0)
        (void)close(p->status_fd);
    values_proc_end(&s->values, p->row);
    memset(p, 0, sizeof *p);
}

static struct proc_slot *slot_of(struct sampler *s, int32_t pid)
{
    for (uint32_t i = 0; i < SAMPLER_PROCS_MAX; i++)
        if (s->procs[i].pid == pid)
            return &s->procs[i];
    return NULL;
}

static struct proc_slot *slot_take(struct sampler *s, int32_t pid, bool evict)
{
    struct proc_slot *p = slot_of(s, pid);
    if (p != NULL)
        return p;
    p = slot_of(s, 0);
    for (uint32_t i = 0; p == NULL && evict && i < SAMPLER_PROCS_MAX; i++) {
        struct proc_slot *latest = &s->procs[SAMPLER_PROCS_MAX - 1 - i];
        if (!latest->gpu_user && latest->pid != s->shared->target_pid)
            p = latest;
    }
    if (p == NULL)
        return NULL;
    if (p->pid != 0)
        slot_release(s, p);
    if (pid == s->other_pid)
        s->other_pid = 0;
    int row = values_proc_row(&s->values, pid);
    if (row < 0)
        return NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%d/status", s->proc_root, pid);
    *p = (struct proc_slot){.pid = pid, .row = row, .in_tree = true};
    p->status_fd = sampler_open(s, FILE_PROC(pid, FILE_STATUS), path, 0);
    return p;
}

static void select_slots(struct sampler *s)
{
    for (uint32_t i = 0; i < SAMPLER_PROCS_MAX; i++) {
        struct proc_slot *p = &s->procs[i];
        if (p->pid != 0 && !in_tree(s, p->pid))
            slot_release(s, p);
    }
    if (s->tree_count > 0)
        (void)slot_take(s, s->tree[0], true);
    for (uint32_t i = 0; i < SAMPLER_KFD_PROCS_MAX; i++)
        if (s->kfd[i].pid != 0 && s->kfd[i].in_tree && in_tree(s, s->kfd[i].pid)) {
            struct proc_slot *p = slot_take(s, s->kfd[i].pid, true);
            if (p != NULL)
                p->gpu_user = true;
        }
    for (uint32_t i = 0; i < s->tree_count; i++)
        if (slot_take(s, s->tree[i], false) == NULL)
            break;
}

/* --- one process --- */

static void set_proc(struct sampler *s, const struct proc_slot *p, enum metric m, bool have,
                     uint64_t value)
{
    (void)values_set_proc(&s->values, p->row, m, have ? VALUE_OK : VALUE_ABSENT, value);
}

/* False = the process is gone (ESRCH) or a zombie. */
static bool read_status(struct sampler *s, struct proc_slot *p)
{
    char text[4096];
    struct proc_status st = {0};
    ssize_t len = p->status_fd < 0 ? p->status_fd
                                   : sampler_read(s, FILE_PROC(p->pid, FILE_STATUS), p->status_fd,
                                                  text, sizeof text);
    if (len <= 0)
        return false;
    procfs_parse_status(text, (size_t)len, &st);
    set_proc(s, p, METRIC_PROC_RSS, st.have & PROC_HAVE_RSS, st.rss_bytes);
    set_proc(s, p, METRIC_PROC_RSS_PEAK, st.have & PROC_HAVE_RSS_PEAK, st.rss_peak_bytes);
    set_proc(s, p, METRIC_PROC_RSS_SHMEM, st.have & PROC_HAVE_RSS_SHMEM, st.rss_shmem_bytes);
    set_proc(s, p, METRIC_PROC_SWAP, st.have & PROC_HAVE_SWAP, st.swap_bytes);
    set_proc(s, p, METRIC_PROC_PINNED, st.have & PROC_HAVE_PINNED, st.pinned_bytes);
    set_proc(s, p, METRIC_PROC_LOCKED, st.have & PROC_HAVE_LOCKED, st.locked_bytes);
    set_proc(s, p, METRIC_PROC_THREADS, st.have & PROC_HAVE_THREADS, st.threads);
    set_proc(s, p, METRIC_PROC_OUTSIDE, true, 0);
    uint64_t halves[2] = {0, 0};
    memcpy(halves, st.name, strnlen(st.name, 15));
    set_proc(s, p, METRIC_PROC_COMM_LOW, st.have & PROC_HAVE_NAME, halves[0]);
    set_proc(s, p, METRIC_PROC_COMM_HIGH, st.have & PROC_HAVE_NAME, halves[1]);
    return true;
}

/* st_size of /proc/PID/fd is the number of descriptors since Linux 6.2 (f1f1f2569901), 0 before. */
static void read_fds(struct sampler *s, struct proc_slot *p)
{
    char path[128];
    struct stat st;
    struct dirscan dir;
    uint64_t count = 0;
    (void)snprintf(path, sizeof path, "%s/%d/fd", s->proc_root, p->pid);
    if (stat(path, &st) == 0 && st.st_size > 0) {
        count = (uint64_t)st.st_size;
    } else {
        int r = dirscan_open(&dir, path);
        if (r < 0) {
            (void)values_set_proc(&s->values, p->row, METRIC_PROC_FDS, sampler_status_of(r), 0);
            return;
        }
        while (count < FDS_COUNTED_MAX && dirscan_next(&dir) != NULL)
            count++;
        dirscan_close(&dir);
    }
    p->fds = count;
    set_proc(s, p, METRIC_PROC_FDS, true, count);
}

static bool read_fdinfo(struct sampler *s, int32_t pid, int fd, struct fdinfo *ret)
{
    char text[4096];
    ssize_t len = sampler_read(s, FILE_FDINFO(pid), fd, text, sizeof text);
    return len > 0 && fdinfo_parse(text, (size_t)len, ret) &&
           (ret->have & FDINFO_HAVE_CLIENT_ID) != 0;
}

static bool has_client(const struct proc_slot *p, const struct fdinfo *info)
{
    for (uint32_t i = 0; i < p->clients; i++)
        if (p->client[i].client_id == info->client_id &&
            strcmp(p->client[i].pdev, info->pdev) == 0)
            return true;
    return false;
}

static void consider_fd(struct sampler *s, struct proc_slot *p, int fd)
{
    char path[128];
    char target[64];
    (void)snprintf(path, sizeof path, "%s/%d/fd/%d", s->proc_root, p->pid, fd);
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return;
    target[len] = '\0';
    if (strcmp(target, "/dev/kfd") == 0)
        p->gpu_user = true;
    if (strncmp(target, "/dev/dri/", 9) != 0)
        return;
    p->gpu_user = true;
    if (p->clients == SAMPLER_CLIENTS_MAX)
        return;
    (void)snprintf(path, sizeof path, "%s/%d/fdinfo/%d", s->proc_root, p->pid, fd);
    int fdinfo_fd = sampler_open(s, FILE_FDINFO(p->pid), path, 0);
    struct fdinfo info;
    if (fdinfo_fd < 0)
        return;
    if (!read_fdinfo(s, p->pid, fdinfo_fd, &info) || has_client(p, &info)) {
        (void)close(fdinfo_fd);
        return;
    }
    struct drm_client *c = &p->client[p->clients++];
    c->fd = fd;
    c->fdinfo_fd = fdinfo_fd;
    c->client_id = info.client_id;
    (void)snprintf(c->pdev, sizeof c->pdev, "%s", info.pdev);
}

/* Finds the descriptors that are DRM clients. It costs a readlink for each descriptor, so it runs when
 * their number has changed, and rarely otherwise. */
static void search_clients(struct sampler *s, struct proc_slot *p)
{
    char path[128];
    struct dirscan dir;
    close_clients(p);
    p->clients_ns = s->now_ns;
    (void)snprintf(path, sizeof path, "%s/%d/fd", s->proc_root, p->pid);
    if (dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    for (int i = 0; i < FDS_SEARCHED_MAX && (name = dirscan_next(&dir)) != NULL; i++) {
        int64_t fd = number_in_name(name, "");
        if (fd >= 0)
            consider_fd(s, p, (int)fd);
    }
    dirscan_close(&dir);
}

static void read_clients(struct sampler *s, struct proc_slot *p, struct drm_seen *seen)
{
    struct drm_total total = {0};
    bool stalled = sampler_is_bad(s, FILE_FDINFO(p->pid));
    for (uint32_t i = 0; i < p->clients; i++) {
        const struct drm_client *c = &p->client[i];
        struct fdinfo info;
        /* The descriptor may have been closed, or refer to another file by now. */
        if (read_fdinfo(s, p->pid, c->fdinfo_fd, &info) &&
            drm_first_time(seen, info.pdev, info.client_id))
            drm_total_add(&total, &info);
    }
    const struct {
        enum metric metric;
        uint32_t have;
        uint64_t bytes;
    } sums[] = {
        {METRIC_PROC_DRM_VRAM, FDINFO_HAVE_VRAM, total.vram_bytes},
        {METRIC_PROC_DRM_GTT, FDINFO_HAVE_GTT, total.gtt_bytes},
        {METRIC_PROC_DRM_EVICTED, FDINFO_HAVE_EVICTED_VRAM, total.evicted_bytes},
        {METRIC_PROC_DRM_REQUESTED, FDINFO_HAVE_REQUESTED_VRAM, total.requested_bytes},
    };
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        enum value_status status = (total.have & sums[i].have) != 0 ? VALUE_OK : VALUE_ABSENT;
        (void)values_set_proc(&s->values, p->row, sums[i].metric,
                              stalled ? VALUE_STALLED : status, sums[i].bytes);
    }
}

static void read_limits(struct sampler *s, struct proc_slot *p)
{
    char path[128];
    char text[4096];
    uint64_t limit = 0;
    (void)snprintf(path, sizeof path, "%s/%d/limits", s->proc_root, p->pid);
    ssize_t len = fs_read_text(path, text, sizeof text);
    bool have = len > 0 && procfs_parse_fd_limit(text, (size_t)len, &limit);
    set_proc(s, p, METRIC_PROC_FDS_LIMIT, have, limit);
}

/* Reading maps takes mmap_lock page by page; a count that does not finish in time is dropped. */
static void count_maps(struct sampler *s, struct proc_slot *p, uint64_t budget_ns)
{
    char text[4096]; /* Linux returns no more of this file in one read */
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%d/maps", s->proc_root, p->pid);
    uint32_t file = FILE_PROC(p->pid, FILE_MAPS);
    int fd = sampler_is_bad(s, file) ? SAMPLER_GAVE_UP : sampler_open(s, file, path, 0);
    if (fd < 0) {
        (void)values_set_proc(&s->values, p->row, METRIC_PROC_MAPS, sampler_status_of(fd), 0);
        return;
    }
    uint64_t start = clock_mono_ns();
    uint64_t lines = 0;
    ssize_t len;
    sampler_enter(s, file);
    while ((len = read(fd, text, sizeof text)) > 0) {
        lines += procfs_count_lines(text, (size_t)len);
        if (clock_mono_ns() - start > budget_ns)
            break;
    }
    sampler_leave(s);
    (void)close(fd);
    if (len == 0)
        set_proc(s, p, METRIC_PROC_MAPS, true, lines);
}

static void read_kfd(struct sampler *s, struct proc_slot *p)
{
    uint64_t bytes = 0;
    enum value_status status = sampler_kfd_of(s, p->pid, &bytes);
    (void)values_set_proc(&s->values, p->row, METRIC_PROC_KFD_VRAM, status, bytes);
}

/* False = gone; its slot is free now. */
static bool read_proc(struct sampler *s, struct proc_slot *p, struct drm_seen *seen)
{
    uint64_t fds_before = p->fds;
    if (!read_status(s, p)) {
        slot_release(s, p);
        return false;
    }
    read_fds(s, p);
    bool changed = p->fds != fds_before;
    if (p->clients_ns == 0 || changed || s->now_ns - p->clients_ns > 10 * SECOND)
        search_clients(s, p);
    read_clients(s, p, seen);
    read_kfd(s, p);
    return true;
}

void sampler_procs_turn(struct sampler *s)
{
    if (s->shared->target_pid <= 0)
        return;
    bool thorough = s->now_ns >= s->walk_full_due_ns;
    if (thorough)
        s->walk_full_due_ns = s->now_ns + 10 * SECOND;
    walk_tree(s, thorough);
    select_slots(s);
    s->seen.count = 0;
    for (uint32_t i = 0; i < SAMPLER_PROCS_MAX; i++) {
        struct proc_slot *p = &s->procs[i];
        if (p->pid == 0 || !read_proc(s, p, &s->seen))
            continue;
        if (p->minute_ns == 0 || s->now_ns - p->minute_ns >= 60 * SECOND) {
            read_limits(s, p);
            count_maps(s, p, 50 * NS_PER_MS);
            p->minute_ns = s->now_ns;
        }
        if (sampler_impact_pending(s))
            sampler_impact(s);
    }
}

void sampler_procs_follow(struct sampler *s, uint32_t gpu)
{
    for (uint32_t i = 0; i < SAMPLER_PROCS_MAX; i++) {
        struct proc_slot *p = &s->procs[i];
        if (p->pid != 0 && p->gpu_user && sampler_kfd_follow(s, p->pid, gpu))
            read_kfd(s, p);
    }
}

/* Reads the memory of the other processes of the tree: it may be the memory that the failed one
 * lacked. */
static void read_siblings(struct sampler *s, int32_t failed)
{
    for (uint32_t i = 0; i < SAMPLER_KFD_PROCS_MAX; i++) {
        if (s->kfd[i].pid == 0 || s->kfd[i].pid == failed || !s->kfd[i].in_tree)
            continue;
        struct proc_slot *p = slot_take(s, s->kfd[i].pid, false);
        if (p != NULL && read_status(s, p))
            read_kfd(s, p);
    }
}

void sampler_procs_impact(struct sampler *s, int32_t pid)
{
    static struct drm_seen seen;
    if (pid <= 0)
        return;
    struct proc_slot *p = slot_take(s, pid, true);
    if (p == NULL)
        return;
    seen.count = 0; /* counts the clients of this process alone, not its parent's */
    sampler_kfd_turn(s);
    sampler_kfd_read_pid(s, pid);
    read_siblings(s, pid);
    if (!read_proc(s, p, &seen))
        return;
    read_limits(s, p);
    count_maps(s, p, MAPS_BUDGET_NS);
}
