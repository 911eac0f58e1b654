/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program against the ioctls themselves, so that limits are seen without a runtime's own
 * allocations and retries. Commands: gpu ID, vram BYTES, public BYTES, gtt BYTES, userptr BYTES,
 * gem BYTES (graphics memory of renderD128), free NUMBER, available, map NUMBER, fork BYTES (a child
 * uses our descriptor, then its own), quit. Answers: "COMMAND NUMBER ERRNO".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <amdgpu_drm.h>
#include <drm.h>
#include <linux/kfd_ioctl.h>

#include "commands.h"

struct allocation {
    uint64_t handle, size, offset;
};

static struct allocation memory[SLOTS_MAX];
static unsigned count;
static uint32_t gpu_id;
static int kfd = -1, render = -1;

static const struct {
    const char *name;
    uint32_t flags;
} kinds[] = {
    {"vram", KFD_IOC_ALLOC_MEM_FLAGS_VRAM},
    {"public", KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC},
    {"gtt", KFD_IOC_ALLOC_MEM_FLAGS_GTT},
    {"userptr", KFD_IOC_ALLOC_MEM_FLAGS_USERPTR},
};

static int error_of(int r)
{
    return r == 0 ? 0 : errno;
}

static int allocate(uint32_t flags, uint64_t size)
{
    struct kfd_ioctl_alloc_memory_of_gpu_args args = {
        .va_addr = 0x100000000ull + (uint64_t)count * (1ull << 32),
        .size = size,
        .gpu_id = gpu_id,
        .flags = flags,
    };
    int error = error_of(ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
    if (error == 0 && count < SLOTS_MAX)
        memory[count++] = (struct allocation){args.handle, size, args.mmap_offset};
    return error;
}

static int allocate_gem(uint64_t size)
{
    union drm_amdgpu_gem_create args = {
        .in = {.bo_size = size, .alignment = 4096, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
    int error = error_of(ioctl(render, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
    if (error == 0 && count < SLOTS_MAX)
        memory[count++] = (struct allocation){args.out.handle, size, 0};
    return error;
}

static int release(const struct allocation *a)
{
    struct kfd_ioctl_free_memory_of_gpu_args args = {.handle = a->handle};
    struct drm_gem_close gem = {.handle = (uint32_t)a->handle};
    if (a->handle >> 32 == 0)
        return error_of(ioctl(render, DRM_IOCTL_GEM_CLOSE, &gem));
    return error_of(ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args));
}

static int map(const struct allocation *a)
{
    void *at = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, render, (off_t)a->offset);
    return at == MAP_FAILED ? errno : 0;
}

static int open_nodes(void)
{
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    return kfd < 0 || render < 0 ? errno : 0;
}

/* The child's status tells its result: 100 + errno of the inherited descriptor. */
static int use_in_child(uint64_t size, int *ret_inherited)
{
    pid_t child = fork();
    if (child == 0) {
        int inherited = allocate(KFD_IOC_ALLOC_MEM_FLAGS_VRAM, size);
        if (open_nodes() != 0 || allocate(KFD_IOC_ALLOC_MEM_FLAGS_VRAM, size) != 0)
            _exit(1);
        _exit(100 + inherited);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    *ret_inherited = WEXITSTATUS(status) - 100;
    return 0;
}

static bool execute_kind(const struct command *c)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(c->name, kinds[i].name) == 0) {
            int error = allocate(kinds[i].flags, c->first);
            ANSWER("%s %u %d", c->name, count, error);
            return true;
        }
    return false;
}

static void execute(const struct command *c)
{
    if (execute_kind(c))
        return;
    if (strcmp(c->name, "gpu") == 0) {
        gpu_id = (uint32_t)c->first;
        ANSWER("gpu %u 0", gpu_id);
    } else if (strcmp(c->name, "gem") == 0) {
        int error = allocate_gem(c->first);
        ANSWER("gem %u %d", count, error);
    } else if (strcmp(c->name, "free") == 0 && c->first < count) {
        ANSWER("free %llu %d", c->first, release(&memory[c->first]));
    } else if (strcmp(c->name, "map") == 0 && c->first < count) {
        ANSWER("map %llu %d", c->first, map(&memory[c->first]));
    } else if (strcmp(c->name, "available") == 0) {
        struct kfd_ioctl_get_available_memory_args args = {.gpu_id = gpu_id};
        int error = error_of(ioctl(kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &args));
        ANSWER("available %llu %d", (unsigned long long)args.available, error);
    } else if (strcmp(c->name, "fork") == 0) {
        int inherited = 0;
        int error = use_in_child(c->first, &inherited);
        ANSWER("fork %d %d", inherited, error);
    } else {
        ANSWER("unknown %s", c->name);
    }
}

int main(void)
{
    struct kfd_process_device_apertures apertures[64];
    struct kfd_ioctl_get_process_apertures_new_args args = {
        .kfd_process_device_apertures_ptr = (uintptr_t)apertures, .num_of_nodes = 64};
    if (open_nodes() != 0 || ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args) != 0) {
        ANSWER("ready 0 %d", errno);
        return 1;
    }
    gpu_id = apertures[0].gpu_id;
    ANSWER("ready %u 0", args.num_of_nodes);
    struct command command;
    while (next_command(&command) && strcmp(command.name, "quit") != 0)
        execute(&command);
    return 0;
}
