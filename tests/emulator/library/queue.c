/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/kfd_ioctl.h>

#include "driver_log.h"
#include "events.h"
#include "faults.h"
#include "journal.h"
#include "machine.h"
#include "node.h"
#include "publish.h"
#include "state.h"

#define QUEUES_MAX 512u
#define IDLE_FAST_ROUNDS 200u /* of 50 us, then 1 ms each */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues;
static uint32_t next_id;
static bool started;
static char *doorbells[MACHINE_GPUS_MAX];
/* A hang that the driver will notice: when, on which GPU. */
static uint64_t reset_at_ns;
static unsigned reset_gpu;
static bool reset_of_copies;

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 100 MHz */
uint64_t queue_clock(void)
{
    return now_ns() / 10;
}

/* A fault evicts all queues of the process (amdgpu.no_queue_eviction_on_vm_fault=0). */
static void stop_all(void)
{
    for (struct queue *q = queues; q != NULL; q = q->next)
        q->stopped = true;
}

void queue_page_fault(struct queue *queue, uint64_t address, bool is_write)
{
    state_lock();
    driver_log_page_fault(queue->gpu, address, is_write);
    journal("\"event\":\"page-fault\",\"gpu\":%u,\"queue\":%u,\"address\":\"0x%llx\"",
            machine.gpus[queue->gpu].gpu_id, queue->id, (unsigned long long)address);
    state_unlock();
    stop_all();
    events_page_fault(queue->gpu, address);
}

bool queue_faults(struct queue *queue, int moment)
{
    struct fault fault = faults_on_gpu((enum fault_moment)moment);
    if (fault.effect == FAULT_PAGE_FAULT)
        queue_page_fault(queue, fault.address, true);
    if (fault.effect == FAULT_HANG) {
        queue->stopped = true;
        reset_at_ns = fault.reset_ms > 0 ? now_ns() + fault.reset_ms * 1000000ull : 0;
        reset_gpu = queue->gpu;
        reset_of_copies = moment == FAULT_COPY;
        state_lock();
        journal("\"event\":\"hang\",\"gpu\":%u,\"queue\":%u", machine.gpus[queue->gpu].gpu_id,
                queue->id);
        state_unlock();
    }
    return fault.effect != FAULT_NONE;
}

static void notice_hang(void)
{
    if (reset_at_ns == 0 || now_ns() < reset_at_ns)
        return;
    reset_at_ns = 0;
    state_lock();
    driver_log_reset(reset_gpu, reset_of_copies);
    journal("\"event\":\"reset\",\"gpu\":%u", machine.gpus[reset_gpu].gpu_id);
    state_unlock();
    stop_all();
    events_gpu_reset(reset_gpu);
}

static unsigned run_all(void)
{
    unsigned done = 0;
    (void)pthread_mutex_lock(&mutex);
    for (struct queue *q = queues; q != NULL; q = q->next) {
        if (q->stopped)
            continue;
        bool is_sdma = q->type == KFD_IOC_QUEUE_TYPE_SDMA || q->type >= KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
        if (q->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
            done += queue_run_aql(q);
        else if (is_sdma)
            done += queue_run_sdma(q);
    }
    if (queues != NULL && !queues->stopped)
        (void)queue_faults(queues, FAULT_NOW);
    notice_hang();
    (void)pthread_mutex_unlock(&mutex);
    return done;
}

static void *processors(void *unused)
{
    (void)prctl(PR_SET_NAME, "emulated-gpu");
    for (unsigned idle = 0;; idle++) {
        if (run_all() > 0)
            idle = 0;
        struct timespec pause = {0, idle > IDLE_FAST_ROUNDS ? 1000000 : 50000};
        if (idle > 20)
            (void)nanosleep(&pause, NULL);
    }
    return unused;
}

/* With all signals blocked: they are for the program's own threads. */
static int start(void)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread, NULL, processors, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        (void)pthread_detach(thread);
    return -r;
}

static int map_doorbells(unsigned gpu)
{
    if (doorbells[gpu] != NULL)
        return 0;
    int r = node_grow(node_kfd_memory(), NODE_DOORBELLS(gpu) + NODE_DOORBELLS_SIZE);
    if (r < 0)
        return r;
    void *map = mmap(NULL, NODE_DOORBELLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                     node_kfd_memory(), (off_t)NODE_DOORBELLS(gpu));
    if (map == MAP_FAILED)
        return -errno;
    doorbells[gpu] = map;
    return 0;
}

/* With the mutex held. */
static int add(struct kfd_ioctl_create_queue_args *args, unsigned gpu, struct queue *q)
{
    int r = map_doorbells(gpu);
    uint32_t id = 0;
    for (struct queue *other = queues; r == 0 && other != NULL; other = other->next)
        id += other->gpu == gpu;
    if (id >= QUEUES_MAX)
        return -ENOSPC;
    if (r == 0 && !started)
        r = start();
    if (r < 0)
        return r;
    started = true;
    *q = (struct queue){.id = next_id++ % (NODE_DOORBELLS_SIZE / 8), .type = args->queue_type,
                        .size = args->ring_size, .gpu = gpu, .ring = args->ring_base_address,
                        .read_pointer = (uint64_t *)(uintptr_t)args->read_pointer_address,
                        .write_pointer = (uint64_t *)(uintptr_t)args->write_pointer_address,
                        .next = queues};
    q->doorbell = (uint64_t *)(void *)(doorbells[gpu] + q->id * 8u);
    __atomic_store_n(q->doorbell, 0, __ATOMIC_RELEASE);
    queues = q;
    args->queue_id = q->id;
    args->doorbell_offset = NODE_DOORBELLS(gpu) + q->id * 8u;
    return 0;
}

int queue_create(struct kfd_ioctl_create_queue_args *args)
{
    int gpu = machine_gpu_by_id(args->gpu_id);
    if (gpu < 0 || args->ring_size == 0)
        return -EINVAL;
    struct queue *q = malloc(sizeof *q);
    if (q == NULL)
        return -ENOMEM;
    (void)pthread_mutex_lock(&mutex);
    int r = add(args, (unsigned)gpu, q);
    (void)pthread_mutex_unlock(&mutex);
    if (r < 0) {
        free(q);
        return r;
    }
    state_lock();
    publish_queue(args->queue_id, (unsigned)gpu, args->queue_type, args->ring_size);
    journal("\"event\":\"queue\",\"gpu\":%u,\"queue\":%u,\"type\":%u,\"size\":%u", args->gpu_id,
            args->queue_id, args->queue_type, args->ring_size);
    state_unlock();
    return 0;
}

int queue_destroy(uint32_t id)
{
    struct queue *found = NULL;
    (void)pthread_mutex_lock(&mutex);
    for (struct queue **at = &queues; *at != NULL && found == NULL; at = &(*at)->next)
        if ((*at)->id == id) {
            found = *at;
            *at = found->next;
            break;
        }
    (void)pthread_mutex_unlock(&mutex);
    if (found == NULL)
        return -EINVAL;
    free(found);
    state_lock();
    publish_queue_gone(id);
    state_unlock();
    return 0;
}

int queue_update(uint32_t id, uint64_t ring, uint32_t size)
{
    int r = -EINVAL;
    (void)pthread_mutex_lock(&mutex);
    for (struct queue *q = queues; q != NULL; q = q->next)
        if (q->id == id) {
            if (size > 0) {
                q->ring = ring;
                q->size = size;
            }
            r = 0;
        }
    (void)pthread_mutex_unlock(&mutex);
    return r;
}

void queue_after_fork(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
    while (queues != NULL) {
        struct queue *q = queues;
        queues = q->next;
        free(q);
    }
    started = false;
    reset_at_ns = 0;
    memset(doorbells, 0, sizeof doorbells);
}
