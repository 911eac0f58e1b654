/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"

#define PREFIX "/memfd:emulator:"
#define HIGH_FD 900

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int kfd_memory;                       /* descriptor; 0 = not made yet */
static int render_memory[MACHINE_GPUS_MAX];

static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

/* The memory of a real GPU is no file: the program's soft RLIMIT_FSIZE must not limit it. */
static int grow_beyond_limit(int memory, uint64_t size)
{
    struct rlimit limit;
    bool beyond = getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur;
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (beyond && (size > limit.rlim_max || setrlimit(RLIMIT_FSIZE, &raised) != 0))
        return -EFBIG;
    int r = ftruncate(memory, (off_t)size) != 0 ? -errno : 0;
    if (beyond)
        (void)setrlimit(RLIMIT_FSIZE, &limit);
    return r;
}

int node_grow(int memory, uint64_t size)
{
    struct stat st;
    int r = 0;
    (void)pthread_mutex_lock(&growing);
    if (syscall(SYS_fstat, memory, &st) != 0)
        r = -errno;
    else if ((uint64_t)st.st_size < size)
        r = grow_beyond_limit(memory, size);
    (void)pthread_mutex_unlock(&growing);
    return r;
}

static int new_memory(const char *name, uint64_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = node_grow(fd, size);
    if (r < 0) {
        (void)syscall(SYS_close, fd);
        return r;
    }
    return fd;
}

static int move_high(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0)
        return fd;
    (void)syscall(SYS_close, fd);
    return high;
}

int node_kfd_memory(void)
{
    char name[64];
    (void)snprintf(name, sizeof name, "emulator:kfd:%d", getpid());
    (void)pthread_mutex_lock(&mutex);
    if (kfd_memory <= 0)
        kfd_memory = move_high(new_memory(name, NODE_KFD_SIZE));
    int fd = kfd_memory;
    (void)pthread_mutex_unlock(&mutex);
    return fd;
}

int node_render_memory(unsigned gpu)
{
    char name[64];
    (void)snprintf(name, sizeof name, "emulator:render%d:%d", machine.gpus[gpu].render_minor,
                   getpid());
    (void)pthread_mutex_lock(&mutex);
    if (render_memory[gpu] <= 0)
        render_memory[gpu] = move_high(new_memory(name, 0));
    int fd = render_memory[gpu];
    (void)pthread_mutex_unlock(&mutex);
    return fd;
}

static int open_again(int memory, int cloexec)
{
    char path[64];
    if (memory < 0)
        return memory;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | cloexec);
    return fd < 0 ? -errno : fd;
}

int node_open_kfd(int cloexec)
{
    return open_again(node_kfd_memory(), cloexec);
}

int node_open_render(unsigned gpu, int cloexec)
{
    return open_again(node_render_memory(gpu), cloexec);
}

int node_open_dmabuf(uint64_t handle, uint64_t size)
{
    char name[96];
    (void)snprintf(name, sizeof name, "emulator:dmabuf:%d:%llx", getpid(),
                   (unsigned long long)handle);
    return new_memory(name, size);
}

/* "/memfd:emulator:render128:4711 (deleted)" */
static bool parse_name(const char *name, struct node *ret)
{
    int minor = 0;
    unsigned long long handle = 0;
    *ret = (struct node){.kind = NODE_NONE};
    if (sscanf(name, "kfd:%d", &ret->pid) == 1) {
        ret->kind = NODE_KFD;
    } else if (sscanf(name, "render%d:%d", &minor, &ret->pid) == 2) {
        int gpu = machine_gpu_by_minor(minor);
        if (gpu < 0)
            return false;
        ret->kind = NODE_RENDER;
        ret->gpu = (unsigned)gpu;
    } else if (sscanf(name, "dmabuf:%d:%llx", &ret->pid, &handle) == 2) {
        ret->kind = NODE_DMABUF;
        ret->handle = handle;
    }
    return ret->kind != NODE_NONE;
}

bool node_of_link(const char *link, struct node *ret)
{
    char name[128];
    ret->kind = NODE_NONE;
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1);
    if (n < (ssize_t)strlen(PREFIX))
        return false;
    name[n] = '\0';
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && parse_name(name + strlen(PREFIX), ret);
}

bool node_of_fd(int fd, struct node *ret)
{
    char link[64];
    ret->kind = NODE_NONE;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return fd >= 0 && node_of_link(link, ret);
}

void node_after_fork(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
    (void)pthread_mutex_init(&growing, NULL);
    kfd_memory = 0;
    memset(render_memory, 0, sizeof render_memory);
}
