/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kfd_stress SEED ROUNDS: threads and a forked child allocate, free, signal and wait at random, on
 * one machine. Linked with the library's sources and a sanitizer; prints what it still holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/kfd_ioctl.h>

#define THREADS 4
#define HELD 32

struct worker {
    pthread_t thread;
    unsigned seed, rounds;
    int kfd;
    uint32_t gpu_id;
    uint64_t handles[HELD];
    uint64_t sizes[HELD];
    uint64_t held;
    unsigned errors;
};

static uint32_t first_event;
static int shared_kfd;

static void allocate(struct worker *w, unsigned at)
{
    static const uint32_t flags[] = {KFD_IOC_ALLOC_MEM_FLAGS_VRAM, KFD_IOC_ALLOC_MEM_FLAGS_GTT};
    unsigned kind = (unsigned)rand_r(&w->seed) % 2;
    struct kfd_ioctl_alloc_memory_of_gpu_args args = {
        .va_addr = 0x100000000ull + at * (1ull << 32),
        .size = 4096ull * (1 + (unsigned)rand_r(&w->seed) % 8192),
        .gpu_id = w->gpu_id,
        .flags = flags[kind],
    };
    if (ioctl(w->kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) != 0) {
        w->errors += errno != ENOMEM;
        return;
    }
    w->handles[at] = args.handle;
    w->sizes[at] = kind == 0 ? args.size : 0;
    w->held += w->sizes[at];
}

static void release(struct worker *w, unsigned at)
{
    struct kfd_ioctl_free_memory_of_gpu_args args = {.handle = w->handles[at]};
    w->errors += ioctl(w->kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args) != 0;
    w->held -= w->sizes[at];
    w->handles[at] = 0;
}

static void events(struct worker *w)
{
    struct kfd_ioctl_set_event_args set = {.event_id = first_event};
    struct kfd_event_data data = {.event_id = first_event};
    struct kfd_ioctl_wait_events_args wait = {
        .events_ptr = (uintptr_t)&data, .num_events = 1, .timeout = 1};
    w->errors += ioctl(w->kfd, AMDKFD_IOC_SET_EVENT, &set) != 0;
    w->errors += ioctl(w->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait) != 0;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (unsigned round = 0; round < w->rounds; round++) {
        unsigned at = (unsigned)rand_r(&w->seed) % HELD;
        if (w->handles[at] != 0)
            release(w, at);
        else
            allocate(w, at);
        if (round % 16 == 0)
            events(w);
    }
    return NULL;
}

static int open_kfd(uint32_t *ret_gpu_id)
{
    struct kfd_process_device_apertures apertures[64];
    struct kfd_ioctl_get_process_apertures_new_args args = {
        .kfd_process_device_apertures_ptr = (uintptr_t)apertures, .num_of_nodes = 64};
    struct kfd_ioctl_create_event_args event = {.event_type = KFD_IOC_EVENT_SIGNAL,
                                                .auto_reset = 1};
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args) != 0 ||
        ioctl(fd, AMDKFD_IOC_CREATE_EVENT, &event) != 0)
        return -1;
    first_event = event.event_id;
    *ret_gpu_id = apertures[0].gpu_id;
    return fd;
}

/* Returns the errors; prints "PID HELD". */
static unsigned run_threads(unsigned seed, unsigned rounds)
{
    static struct worker workers[THREADS];
    uint32_t gpu_id = 0;
    uint64_t held = 0;
    unsigned errors = 0;
    shared_kfd = open_kfd(&gpu_id);
    if (shared_kfd < 0)
        return 1;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.seed = seed * THREADS + i, .rounds = rounds,
                                     .kfd = shared_kfd, .gpu_id = gpu_id};
        errors += pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        held += workers[i].held;
        errors += workers[i].errors;
    }
    (void)printf("%d %llu\n", getpid(), (unsigned long long)held);
    (void)fflush(stdout);
    return errors;
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 500;
    unsigned errors = run_threads(seed, rounds);
    pid_t child = fork();
    if (child == 0)
        _exit(run_threads(seed + 1, rounds) == 0 ? 0 : 1);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    errors += run_threads(seed + 2, rounds);
    return errors == 0 && status == 0 ? 0 : 1;
}
