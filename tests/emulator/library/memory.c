/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"
#include "journal.h"
#include "kernel_limits.h"
#include "machine.h"
#include "node.h"
#include "publish.h"
#include "state.h"

#define PAGE 4096ull
#define HUGE_PAGE (2ull << 20)
#define SVM_MAX 1024

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct buffer **buffers; /* by index; NULL = free. Index 0 is never used */
static uint32_t buffers_size, buffers_hint = 1;
static uint64_t next_offset = PAGE;
static struct {
    uint64_t start, end;
} svm[SVM_MAX];
static unsigned svm_count;

static const char *const kind_names[] = {"vram",     "gtt",     "userptr", "doorbell",
                                         "mmio",     "gem_vram", "gem_gtt", "import"};

/* --- the table; with the mutex held --- */

static struct buffer *look_up(uint64_t handle, bool is_gem)
{
    uint32_t index = (uint32_t)handle;
    struct buffer *b = index < buffers_size ? buffers[index] : NULL;
    return b != NULL && (is_gem || b->handle == handle) ? b : NULL;
}

static int insert(struct buffer *b)
{
    uint32_t index = buffers_hint;
    while (index < buffers_size && buffers[index] != NULL)
        index++;
    if (index >= buffers_size) {
        uint32_t size = buffers_size > 0 ? buffers_size * 2 : 64;
        struct buffer **grown = realloc(buffers, size * sizeof(struct buffer *));
        if (grown == NULL)
            return -ENOMEM;
        memset(grown + buffers_size, 0, (size - buffers_size) * sizeof(struct buffer *));
        buffers = grown;
        buffers_size = size;
    }
    buffers_hint = index + 1;
    b->handle = (uint64_t)machine.gpus[b->gpu].gpu_id << 32 | index;
    if (b->kind != BUFFER_USERPTR && b->kind != BUFFER_IMPORT) {
        uint64_t align = b->size < HUGE_PAGE ? PAGE : HUGE_PAGE;
        b->offset = (next_offset + align - 1) & ~(align - 1);
        next_offset = b->offset + b->size;
    }
    buffers[index] = b;
    return 0;
}

static void take_out(struct buffer *b)
{
    uint32_t index = (uint32_t)b->handle;
    buffers[index] = NULL;
    if (index < buffers_hint)
        buffers_hint = index;
}

/* --- allocation --- */

static unsigned fault_kinds(const struct buffer *b)
{
    switch (b->kind) {
    case BUFFER_VRAM:
    case BUFFER_GEM_VRAM:
        return FAULT_VRAM | (b->is_public ? FAULT_PUBLIC : 0u);
    case BUFFER_GTT:
    case BUFFER_GEM_GTT:
        return FAULT_GTT;
    case BUFFER_USERPTR:
        return FAULT_USERPTR;
    default:
        return 0;
    }
}

static void log_alloc(const struct buffer *b, int result, const char *reason)
{
    struct usage used = state_usage(b->gpu);
    journal("\"event\":\"alloc\",\"kind\":\"%s\",\"gpu\":%u,\"size\":%llu,\"va\":\"0x%llx\","
            "\"flags\":\"0x%x\",\"handle\":\"0x%llx\",\"result\":%d,\"reason\":\"%s\","
            "\"kfd_vram\":%llu,\"vram_limit\":%llu,\"vram_used\":%llu,\"gtt_used\":%llu,"
            "\"ttm_used\":%llu,\"system_used\":%llu",
            kind_names[b->kind], machine.gpus[b->gpu].gpu_id, (unsigned long long)b->size,
            (unsigned long long)b->va, b->flags, (unsigned long long)b->handle, result, reason,
            (unsigned long long)used.kfd_vram, (unsigned long long)machine_vram_limit(b->gpu),
            (unsigned long long)used.vram, (unsigned long long)used.gtt,
            (unsigned long long)state_ttm_used(), (unsigned long long)state_system_used());
}

/* Decides and charges under the state lock, so that two processes cannot both get the last
 * bytes. */
static int charge(struct buffer *b, int injected)
{
    const char *reason = "";
    int r = injected;
    state_lock();
    struct slot *mine = state_mine();
    if (r < 0)
        reason = "injected";
    else if (mine == NULL)
        r = -ENOMEM;
    else
        r = limits_take(b, mine, &reason);
    if (r == -ENOMEM && injected == 0 && mine != NULL && state_reap() > 0)
        r = limits_take(b, mine, &reason);
    log_alloc(b, r, r < 0 ? reason : "");
    if (r == 0) {
        publish_gpu(b->gpu);
        publish_process(b->gpu);
    }
    state_unlock();
    return r;
}

static bool has_bytes(const struct buffer *b)
{
    return b->kind != BUFFER_USERPTR && b->kind != BUFFER_IMPORT;
}

/* As ROCm 7.14 holds one descriptor per handle: the lowest free one, so RLIMIT_NOFILE counts. */
static int take_descriptor(struct buffer *b)
{
    if (b->kind > BUFFER_USERPTR || !faults_descriptor_per_buffer())
        return 0;
    int fd = node_open_dmabuf(b->handle, 0);
    b->descriptor = fd < 0 ? -1 : fd;
    return fd < 0 ? fd : 0;
}

int memory_alloc(struct buffer *buffer)
{
    struct buffer *b = malloc(sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    buffer->size = (buffer->size + PAGE - 1) & ~(PAGE - 1);
    *b = *buffer;
    b->descriptor = -1;
    unsigned kinds = fault_kinds(b);
    int injected = kinds != 0 ? faults_on_alloc(kinds) : 0;
    (void)pthread_mutex_lock(&mutex);
    int r = insert(b);
    (void)pthread_mutex_unlock(&mutex);
    if (r < 0) {
        free(b);
        return r;
    }
    if (injected == 0 && has_bytes(b))
        injected = node_grow(node_render_memory(b->gpu), b->offset + b->size);
    if (injected == 0)
        injected = take_descriptor(b);
    r = charge(b, injected);
    (void)pthread_mutex_lock(&mutex);
    if (r < 0)
        take_out(b);
    else
        *buffer = *b;
    (void)pthread_mutex_unlock(&mutex);
    if (r < 0) {
        if (b->descriptor >= 0)
            (void)syscall(SYS_close, b->descriptor);
        free(b);
    }
    return r;
}

static void give_back(struct buffer *b)
{
    state_lock();
    struct slot *mine = state_mine();
    if (mine != NULL)
        limits_give_back(b, mine);
    publish_gpu(b->gpu);
    publish_process(b->gpu);
    struct usage used = state_usage(b->gpu);
    journal("\"event\":\"free\",\"kind\":\"%s\",\"gpu\":%u,\"size\":%llu,\"va\":\"0x%llx\","
            "\"handle\":\"0x%llx\",\"kfd_vram\":%llu,\"vram_used\":%llu,\"gtt_used\":%llu",
            kind_names[b->kind], machine.gpus[b->gpu].gpu_id, (unsigned long long)b->size,
            (unsigned long long)b->va, (unsigned long long)b->handle,
            (unsigned long long)used.kfd_vram, (unsigned long long)used.vram,
            (unsigned long long)used.gtt);
    state_unlock();
}

int memory_free(uint64_t handle)
{
    (void)pthread_mutex_lock(&mutex);
    struct buffer *b = look_up(handle, handle >> 32 == 0);
    if (b != NULL)
        take_out(b);
    (void)pthread_mutex_unlock(&mutex);
    if (b == NULL)
        return -EINVAL;
    give_back(b);
    if (has_bytes(b))
        (void)fallocate(node_render_memory(b->gpu), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)b->offset, (off_t)b->size);
    if (b->descriptor >= 0)
        (void)syscall(SYS_close, b->descriptor);
    free(b);
    return 0;
}

/* --- looking --- */

static bool copy_out(uint64_t handle, bool is_gem, struct buffer *ret)
{
    (void)pthread_mutex_lock(&mutex);
    const struct buffer *b = look_up(handle, is_gem);
    if (b != NULL)
        *ret = *b;
    (void)pthread_mutex_unlock(&mutex);
    return b != NULL;
}

bool memory_find(uint64_t handle, struct buffer *ret)
{
    return copy_out(handle, false, ret);
}

bool memory_find_gem(uint32_t gem_handle, struct buffer *ret)
{
    return copy_out(gem_handle, true, ret);
}

bool memory_set_mapped(uint64_t handle, uint32_t gpus)
{
    (void)pthread_mutex_lock(&mutex);
    struct buffer *b = look_up(handle, false);
    if (b != NULL)
        b->mapped = gpus;
    (void)pthread_mutex_unlock(&mutex);
    return b != NULL;
}

void memory_set_va(uint64_t handle, uint64_t va)
{
    (void)pthread_mutex_lock(&mutex);
    struct buffer *b = look_up(handle, true);
    if (b != NULL) {
        b->va = va;
        b->mapped = va != 0;
    }
    (void)pthread_mutex_unlock(&mutex);
}

uint64_t memory_available(unsigned gpu)
{
    state_lock();
    (void)state_reap();
    uint64_t bytes = limits_available(gpu);
    state_unlock();
    return bytes;
}

void memory_add_svm(uint64_t start, uint64_t size)
{
    (void)pthread_mutex_lock(&mutex);
    if (svm_count < SVM_MAX) {
        svm[svm_count].start = start;
        svm[svm_count++].end = start + size;
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* --- the GPU's view --- */

static bool covers(const struct buffer *b, uint64_t va, uint64_t len)
{
    return b != NULL && b->va != 0 && b->mapped > 0 && va >= b->va && va - b->va <= b->size &&
           len <= b->size - (va - b->va);
}

static bool is_svm(uint64_t va, uint64_t len)
{
    for (unsigned i = 0; i < svm_count; i++)
        if (va >= svm[i].start && va + len <= svm[i].end)
            return true;
    return false;
}

struct gpu_access memory_begin_access(uint64_t va, uint64_t len)
{
    struct gpu_access access = {0};
    struct buffer found = {.kind = BUFFER_DOORBELL};
    (void)pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < buffers_size && found.va == 0; i++)
        if (covers(buffers[i], va, len))
            found = *buffers[i];
    bool shared = found.va == 0 && is_svm(va, len);
    (void)pthread_mutex_unlock(&mutex);
    if (shared)
        access.data = (void *)(uintptr_t)va;
    if (found.va == 0)
        return access;
    uint64_t at = found.offset + (va - found.va);
    if (found.kind == BUFFER_USERPTR) {
        access.data = (void *)(uintptr_t)at;
        return access;
    }
    /* VRAM that the host may not touch is PROT_NONE in the process: use our own mapping. */
    uint64_t before = at % PAGE;
    void *map = mmap(NULL, len + before, PROT_READ | PROT_WRITE, MAP_SHARED,
                     node_render_memory(found.gpu), (off_t)(at - before));
    if (map == MAP_FAILED)
        return access;
    access = (struct gpu_access){(char *)map + before, map, len + before};
    return access;
}

/* End of the mapped buffer or range that contains `va`; 0 = none. With the mutex held. */
static uint64_t end_of_mapping(uint64_t va)
{
    for (uint32_t i = 0; i < buffers_size; i++)
        if (covers(buffers[i], va, 1))
            return buffers[i]->va + buffers[i]->size;
    for (unsigned i = 0; i < svm_count; i++)
        if (va >= svm[i].start && va < svm[i].end)
            return svm[i].end;
    return 0;
}

uint64_t memory_first_fault(uint64_t va, uint64_t len)
{
    uint64_t at = va;
    uint64_t next = 0;
    (void)pthread_mutex_lock(&mutex);
    while (at - va < len && (next = end_of_mapping(at)) != 0)
        at = next;
    (void)pthread_mutex_unlock(&mutex);
    return at - va < len ? at : va;
}

void memory_end_access(const struct gpu_access *access)
{
    if (access->unmap != NULL)
        (void)munmap(access->unmap, access->unmap_size);
}

/* The child shares no buffer of its parent: KFD makes it open the device again. */
void memory_after_fork(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
    for (uint32_t i = 0; i < buffers_size; i++)
        free(buffers[i]);
    free(buffers);
    buffers = NULL;
    buffers_size = 0;
    buffers_hint = 1;
    svm_count = 0;
}
