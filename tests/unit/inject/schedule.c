/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule SEED STEPS [THREADS]: allocates, maps and frees GPU memory by ioctls at random, forks,
 * execs itself, lets threads allocate and end, and ends by exit, _exit or SIGKILL. The decisions of the kernel (the
 * emulator) are in its journal. This program prints only "exec PID TIME" before each exec, because the journal has pids
 * but no program images. With THREADS, that many threads allocate at the
 * same moment instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <amdgpu_drm.h>
#include <drm.h>
#include <linux/kfd_ioctl.h>

#define HELD 64
#define DEPTH_MAX 3
#define THREADS_MAX 8

struct held {
    uint64_t handle; /* 0 = free place */
    bool is_gem;
};

struct worker {
    pthread_t thread;
    unsigned seed, steps;
    uint64_t address;
    struct held held[HELD];
};

static int kfd = -1, render = -1;
static uint32_t gpu_id;
static char **own_argv;

static bool open_nodes(void)
{
    struct kfd_process_device_apertures apertures[64];
    struct kfd_ioctl_get_process_apertures_new_args args = {
        .kfd_process_device_apertures_ptr = (uintptr_t)apertures, .num_of_nodes = 64};
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    if (kfd < 0 || render < 0 || ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args) != 0)
        return false;
    gpu_id = apertures[0].gpu_id;
    return true;
}

static unsigned draw(struct worker *w, unsigned below)
{
    return (unsigned)rand_r(&w->seed) % below;
}

static uint64_t draw_size(struct worker *w)
{
    static const uint64_t units[] = {1, 4096, 2u << 20, 64u << 20};
    return units[draw(w, 4)] * (1 + draw(w, 24)) + (draw(w, 4) == 0 ? draw(w, 4096) : 0);
}

static void allocate_kfd(struct worker *w, struct held *h)
{
    static const uint32_t kinds[] = {KFD_IOC_ALLOC_MEM_FLAGS_VRAM,
                                     KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
                                     KFD_IOC_ALLOC_MEM_FLAGS_GTT, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR};
    struct kfd_ioctl_alloc_memory_of_gpu_args args = {
        .va_addr = w->address, .size = draw_size(w), .gpu_id = gpu_id, .flags = kinds[draw(w, 4)]};
    w->address += 1ull << 34;
    if (ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) != 0)
        return;
    *h = (struct held){args.handle, false};
    uint32_t device = gpu_id;
    struct kfd_ioctl_map_memory_to_gpu_args map = {
        .handle = args.handle, .n_devices = 1, .device_ids_array_ptr = (uintptr_t)&device};
    if (draw(w, 2) == 0)
        (void)ioctl(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map);
}

static void allocate_gem(struct worker *w, struct held *h)
{
    union drm_amdgpu_gem_create args = {
        .in = {.bo_size = draw_size(w),
               .alignment = 4096,
               .domains = draw(w, 2) == 0 ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT}};
    if (ioctl(render, DRM_IOCTL_AMDGPU_GEM_CREATE, &args) == 0)
        *h = (struct held){args.out.handle, true};
}

static void release(struct held *h)
{
    struct kfd_ioctl_free_memory_of_gpu_args args = {.handle = h->handle};
    struct drm_gem_close gem = {.handle = (uint32_t)h->handle};
    int r = h->is_gem ? ioctl(render, DRM_IOCTL_GEM_CLOSE, &gem)
                      : ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
    if (r == 0)
        h->handle = 0;
}

static void release_wrong(struct worker *w)
{
    struct kfd_ioctl_free_memory_of_gpu_args args = {.handle = 0xdead00000000ull + draw(w, 100)};
    (void)ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

static void step(struct worker *w)
{
    struct held *h = &w->held[draw(w, HELD)];
    if (draw(w, 40) == 0)
        release_wrong(w);
    else if (h->handle != 0)
        release(h);
    else if (draw(w, 4) == 0)
        allocate_gem(w, h);
    else
        allocate_kfd(w, h);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (unsigned i = 0; i < w->steps; i++)
        step(w);
    return NULL;
}

static void in_a_thread(struct worker *w)
{
    pthread_t thread;
    unsigned steps = w->steps;
    w->steps = 1 + draw(w, 4);
    if (pthread_create(&thread, NULL, work, w) == 0)
        (void)pthread_join(thread, NULL);
    w->steps = steps;
}

static _Noreturn void exec_again(struct worker *w, unsigned depth)
{
    char seed[16];
    char steps[16];
    char level[16];
    struct timespec now;
    (void)snprintf(seed, sizeof seed, "%u", draw(w, 1u << 30));
    (void)snprintf(steps, sizeof steps, "%u", w->steps / 2);
    (void)snprintf(level, sizeof level, "%u", depth + 1);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)printf("exec %d %lld.%09ld\n", getpid(), (long long)now.tv_sec, now.tv_nsec);
    (void)fflush(stdout);
    char *argv[] = {own_argv[0], seed, steps, (char *)(uintptr_t) "0", level, NULL};
    (void)execv("/proc/self/exe", argv);
    _exit(3);
}

static void run(struct worker *w, unsigned depth);

static void fork_one(struct worker *w, unsigned depth)
{
    bool opens = draw(w, 4) != 0;
    pid_t child = fork();
    if (child == 0) {
        static struct worker mine;
        mine =
            (struct worker){.seed = w->seed + 7919, .steps = w->steps / 2, .address = 1ull << 40};
        step(&mine); /* with the parent's descriptor: the kernel refuses that */
        memset(mine.held, 0, sizeof mine.held);
        if (opens && open_nodes())
            run(&mine, depth + 1);
        _exit(0);
    }
    int status;
    if (child > 0)
        (void)waitpid(child, &status, 0);
}

static void run(struct worker *w, unsigned depth)
{
    for (unsigned i = 0; i < w->steps; i++) {
        switch (draw(w, 60)) {
        case 0:
            if (depth < DEPTH_MAX)
                fork_one(w, depth);
            break;
        case 1:
            in_a_thread(w);
            break;
        case 2:
            if (depth < DEPTH_MAX && draw(w, 4) == 0)
                exec_again(w, depth);
            break;
        default:
            step(w);
        }
    }
    switch (draw(w, 4)) {
    case 0:
        (void)kill(getpid(), SIGKILL);
        break;
    case 1:
        _exit(0);
    default:
        exit(0);
    }
}

static void run_threads(struct worker *first, unsigned count)
{
    static struct worker workers[THREADS_MAX];
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){
            .seed = first->seed + i, .steps = first->steps, .address = (1ull << 40) * (i + 1)};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            _exit(2);
    }
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
    static struct worker w;
    own_argv = argv;
    if (argc < 3 || !open_nodes())
        return 2;
    w = (struct worker){.seed = (unsigned)strtoul(argv[1], NULL, 10),
                        .steps = (unsigned)strtoul(argv[2], NULL, 10),
                        .address = 1ull << 36};
    unsigned threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (threads > 0)
        run_threads(&w, threads < THREADS_MAX ? threads : THREADS_MAX);
    else
        run(&w, argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0);
    return 0;
}
