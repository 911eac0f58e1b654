/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "publish.h"

struct state {
    pthread_mutex_t mutex;
    uint64_t next_log;
    uint64_t next_kmsg;
    struct slot slots[STATE_SLOTS];
};

static struct state *state;

/* The file appears under its name complete, or another process's file does. */
static int create_file(const char *path)
{
    char temporary[PATH_MAX + 32];
    (void)snprintf(temporary, sizeof temporary, "%s.%d", path, getpid());
    int fd = (int)syscall(SYS_openat, AT_FDCWD, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                          0666);
    if (fd < 0)
        return -errno;
    int r = ftruncate(fd, sizeof(struct state)) == 0 ? 0 : -errno;
    struct state *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r == 0 && fresh != MAP_FAILED) {
        pthread_mutexattr_t attr;
        (void)pthread_mutexattr_init(&attr);
        (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        (void)pthread_mutex_init(&fresh->mutex, &attr);
        (void)munmap(fresh, sizeof *fresh);
        r = link(temporary, path) == 0 || errno == EEXIST ? 0 : -errno;
    }
    (void)unlink(temporary);
    (void)syscall(SYS_close, fd);
    return r;
}

static int map_file(void)
{
    char path[PATH_MAX];
    if (!file_path(path, sizeof path, "/emulator/state"))
        return -ENAMETOOLONG;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int r = create_file(path);
        if (r < 0)
            return r;
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    }
    if (fd < 0)
        return -errno;
    struct stat st;
    int r = syscall(SYS_fstat, fd, &st) == 0 ? 0 : -errno;
    if (r == 0 && (uint64_t)st.st_size != sizeof *state)
        r = -EPROTO; /* of another build of the library */
    void *map = MAP_FAILED;
    if (r == 0)
        map = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r == 0 && map == MAP_FAILED)
        r = -errno;
    (void)syscall(SYS_close, fd);
    if (r == 0)
        state = map;
    return r;
}

int state_open(void)
{
    int r = map_file();
    if (r < 0)
        return r;
    state_lock();
    /* An exec freed the memory of the image before it, and kept the pid. */
    for (unsigned i = 0; i < STATE_SLOTS; i++)
        if (state->slots[i].pid == getpid())
            memset(&state->slots[i], 0, sizeof state->slots[i]);
    (void)state_reap();
    state_unlock();
    return 0;
}

void state_after_fork(void)
{
    publish_after_fork();
}

/* If the owner, and the waiter that the kernel wakes next, are killed at the same moment, the other
 * waiters were seen to wait for ever. So each waiter retries from time to time. */
void state_lock(void)
{
    int r;
    do {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until); /* the thread sanitizer knows no clocklock */
        until.tv_sec++;
        r = pthread_mutex_timedlock(&state->mutex, &until);
    } while (r == ETIMEDOUT);
    if (r == EOWNERDEAD)
        (void)pthread_mutex_consistent(&state->mutex);
}

void state_unlock(void)
{
    (void)pthread_mutex_unlock(&state->mutex);
}

struct slot *state_slots(void)
{
    return state->slots;
}

/* A zombie still answers kill(pid, 0), and its memory is gone. */
static bool is_dead(int pid)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    ssize_t n = file_read(path, text, sizeof text);
    if (n <= 0)
        return n == -ENOENT || n == -ESRCH || n == 0;
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

unsigned state_reap(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < STATE_SLOTS; i++) {
        struct slot *slot = &state->slots[i];
        if (slot->pid == 0 || slot->pid == getpid() || !is_dead(slot->pid))
            continue;
        int pid = slot->pid;
        memset(slot, 0, sizeof *slot);
        publish_remove_process(pid);
        journal("\"event\":\"reap\",\"dead\":%d", pid);
        count++;
    }
    for (unsigned g = 0; count > 0 && g < machine.gpu_count; g++)
        publish_gpu(g);
    return count;
}

struct slot *state_mine(void)
{
    int pid = getpid();
    struct slot *unused = NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        for (unsigned i = 0; i < STATE_SLOTS; i++) {
            if (state->slots[i].pid == pid)
                return &state->slots[i];
            if (state->slots[i].pid == 0 && unused == NULL)
                unused = &state->slots[i];
        }
        if (unused != NULL || state_reap() == 0)
            break;
    }
    if (unused != NULL)
        unused->pid = pid;
    return unused;
}

struct usage state_usage(unsigned gpu)
{
    const struct gpu *info = &machine.gpus[gpu];
    struct usage sum = {.vram = info->base_bytes, .visible = info->base_bytes};
    for (unsigned i = 0; i < STATE_SLOTS; i++) {
        const struct slot *slot = &state->slots[i];
        const struct holding *h = &slot->gpu[gpu];
        if (slot->pid == 0)
            continue;
        uint64_t gem = h->gem_vram - h->gem_evicted;
        sum.kfd_vram += h->vram;
        sum.vram += (info->vram_in_gtt ? 0 : h->vram) + gem;
        sum.visible += info->small_bar ? h->visible : (info->vram_in_gtt ? 0 : h->vram) + gem;
        sum.userptr += h->userptr;
        sum.gtt += h->gtt + h->gem_gtt + h->gem_evicted + (info->vram_in_gtt ? h->vram : 0);
    }
    return sum;
}

uint64_t state_ttm_used(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < STATE_SLOTS; i++)
        for (unsigned g = 0; state->slots[i].pid != 0 && g < machine.gpu_count; g++) {
            const struct holding *h = &state->slots[i].gpu[g];
            sum += h->gtt + (machine.gpus[g].vram_in_gtt ? h->vram : 0);
        }
    return sum;
}

uint64_t state_system_used(void)
{
    uint64_t sum = state_ttm_used();
    for (unsigned i = 0; i < STATE_SLOTS; i++)
        for (unsigned g = 0; state->slots[i].pid != 0 && g < machine.gpu_count; g++)
            sum += state->slots[i].gpu[g].userptr;
    return sum;
}

uint64_t state_next_log(void)
{
    return ++state->next_log;
}

uint64_t state_next_kmsg(void)
{
    return state->next_kmsg++;
}
