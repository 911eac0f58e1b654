/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctl() and mmap() of the program: notes the calls that allocate, map and free GPU memory. It
 * compares the numbers of ioctls, not their full codes, because newer kernels append members to the
 * structures. Only the first members are read, as in include/uapi/linux/kfd_ioctl.h and
 * drm/amdgpu_drm.h. Runs in the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "inject/attach.h"
#include "inject/book_internal.h"
#include "inject/counters.h"
#include "inject/device.h"
#include "inject/hip.h"
#include "inject/next.h"
#include "inject/raw.h"
#include "inject/terminal.h"

#define EXPORT __attribute__((visibility("default")))
#define TYPE(request) (((uint32_t)(request) >> 8) & 0xff)
#define NUMBER(request) ((uint32_t)(request)&0xff)
#define SIZE(request) (((uint32_t)(request) >> 16) & 0x3fff)

enum {
    KFD_CREATE_QUEUE = 0x02,
    KFD_ACQUIRE_VM = 0x15,
    KFD_ALLOC = 0x16,
    KFD_FREE = 0x17,
    KFD_MAP = 0x18,
    KFD_IMPORT_DMABUF = 0x1d,
    DRM_GEM_CLOSE = 0x09,
    DRM_PRIME_TO_HANDLE = 0x2e,
    AMDGPU_GEM_CREATE = 0x40,
    AMDGPU_GEM_VA = 0x48,
    AMDGPU_GEM_USERPTR = 0x51,
};

struct kfd_alloc {
    uint64_t address, size, handle, offset;
    uint32_t gpu_id, flags;
};
struct kfd_map {
    uint64_t handle, devices;
    uint32_t count, done;
};
struct kfd_import {
    uint64_t address, handle;
    uint32_t gpu_id, fd;
};
struct kfd_acquire {
    uint32_t drm_fd, gpu_id;
};
struct gem_create {
    uint64_t size, alignment, domains, flags; /* in; out: the handle in the first 4 bytes */
};
struct gem_userptr {
    uint64_t address, size;
    uint32_t flags, handle;
};
struct gem_va {
    uint32_t handle, pad, operation, flags;
    uint64_t address, offset, size;
};
struct prime {
    uint32_t handle, flags;
    int32_t fd;
};

typedef int (*ioctl_fn)(int, unsigned long, ...);
typedef void *(*mmap_fn)(void *, size_t, int, int, int, off_t);

static int call_next(int fd, unsigned long request, void *arg)
{
    ioctl_fn next;
    *(void **)&next = next_function(NEXT_ioctl);
    if (next != NULL)
        return next(fd, request, arg);
    long r = raw_call(SYS_ioctl, fd, request, arg, 0);
    if (r >= 0)
        return (int)r;
    errno = (int)-r;
    return -1;
}

static int call_next_variadic(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    return call_next(fd, request, arg);
}

/* --- the request --- */

struct call {
    struct book_buffer buffer;
    enum ledger_operation operation;
    uint32_t free_entry; /* BOOK_NONE = no free */
    bool is_free, is_drm;
    uint64_t handle;
};

static uint8_t kfd_kind(uint32_t flags)
{
    for (unsigned kind = LEDGER_VRAM; kind <= LEDGER_MMIO; kind++)
        if ((flags & (1u << kind)) != 0)
            return (uint8_t)kind;
    return LEDGER_VRAM;
}

static uint8_t gem_kind(uint64_t domains)
{
    if ((domains & 4) != 0)
        return LEDGER_GEM_VRAM;
    return (domains & 2) != 0 ? LEDGER_GEM_GTT : LEDGER_GEM_OTHER;
}

/* The buffer of an allocating call, from its arguments before the driver overwrites them.
 */
static bool read_request(const struct book_actor *actor, struct call *c, int fd, uint32_t number,
                         const void *arg)
{
    struct book_buffer *b = &c->buffer;
    b->file = c->is_drm ? fd : -1;
    switch (number) {
    case KFD_ALLOC: {
        const struct kfd_alloc *a = arg;
        *b = (struct book_buffer){.address = a->address,
                                  .size = a->size,
                                  .flags = a->flags,
                                  .file = -1,
                                  .kind = kfd_kind(a->flags),
                                  .gpu = book_gpu_by_kfd(actor->ledger, a->gpu_id)};
        return true;
    }
    case KFD_IMPORT_DMABUF: {
        const struct kfd_import *a = arg;
        *b = (struct book_buffer){.address = a->address,
                                  .kind = LEDGER_IMPORT,
                                  .file = -1,
                                  .gpu = book_gpu_by_kfd(actor->ledger, a->gpu_id)};
        c->operation = LEDGER_OP_IMPORT;
        return true;
    }
    case AMDGPU_GEM_CREATE: {
        const struct gem_create *a = arg;
        b->size = a->size;
        b->flags = (uint32_t)a->flags;
        b->kind = gem_kind(a->domains);
        return true;
    }
    case AMDGPU_GEM_USERPTR: {
        const struct gem_userptr *a = arg;
        b->size = a->size;
        b->flags = a->flags;
        b->kind = LEDGER_GEM_USERPTR;
        return true;
    }
    case DRM_PRIME_TO_HANDLE:
        b->kind = LEDGER_IMPORT;
        c->operation = LEDGER_OP_IMPORT;
        return true;
    default:
        return false;
    }
}

static uint64_t handle_of(uint32_t number, const void *arg)
{
    switch (number) {
    case KFD_ALLOC:
        return ((const struct kfd_alloc *)arg)->handle;
    case KFD_IMPORT_DMABUF:
        return ((const struct kfd_import *)arg)->handle;
    case AMDGPU_GEM_CREATE:
        return *(const uint32_t *)arg;
    case AMDGPU_GEM_USERPTR:
        return ((const struct gem_userptr *)arg)->handle;
    case DRM_PRIME_TO_HANDLE:
        return ((const struct prime *)arg)->handle;
    default:
        return 0;
    }
}

/* --- the result --- */

static void note_allocated(struct book_actor *actor, struct call *c)
{
    struct attach_thread *t = attach_thread();
    /* Importing a dmabuf of a buffer that this file already has gives the same handle again. */
    if (c->operation == LEDGER_OP_IMPORT &&
        book_find(actor, c->buffer.handle, c->buffer.file) != BOOK_NONE)
        return;
    if (t->row.first != 0)
        actor->now_ns = attach_now_ns(); /* it may be compared with a refusal's */
    book_allocated(actor, &c->buffer);
    book_satisfied(actor, &c->buffer, &t->row);
    t->last_size = c->buffer.size;
    t->last_gpu = c->buffer.gpu;
    t->last_kind = c->buffer.kind;
}

static void note_refused(const struct book_actor *actor, const struct book_buffer *buffer,
                         enum ledger_operation operation, int error)
{
    struct attach_thread *t = attach_thread();
    t->last_refusal = book_refused(actor, buffer, operation, error, &t->row);
    t->refusals++;
    counters_at_refusal(actor, t->last_refusal);
}

/* A child may not use its parent's /dev/kfd: EBADF although the descriptor is open. */
static bool is_of_parent(int fd, int error)
{
    return error == EBADF && raw_call(SYS_fcntl, fd, F_GETFD, 0, 0) >= 0;
}

static bool is_device(int fd, bool is_drm, int error)
{
    enum device_kind wanted = is_drm ? DEVICE_RENDER : DEVICE_KFD;
    if (error == 0 && device_known(fd) == wanted)
        return true;
    /* The number may belong to another file since. */
    return device_kind_anew(fd, call_next_variadic) == wanted ||
           (!is_drm && is_of_parent(fd, error));
}

static void note_made(struct book_actor *actor, struct call *c, int fd, uint32_t number,
                      const void *arg, int error)
{
    if (error == EINTR || error == EAGAIN || !is_device(fd, c->is_drm, error))
        return; /* libhsakmt and libdrm ask again at these two */
    if (c->is_drm)
        c->buffer.gpu = book_gpu_by_minor(actor->ledger, device_minor(fd));
    if (error != 0) {
        note_refused(actor, &c->buffer, c->operation, error);
        return;
    }
    c->buffer.handle = handle_of(number, arg);
    note_allocated(actor, c);
}

static void note_mapped(const struct book_actor *actor, const struct kfd_map *map, int fd,
                        int error)
{
    if (error == EINTR || error == EAGAIN || !is_device(fd, false, error))
        return;
    uint32_t at = book_find(actor, map->handle, -1);
    if (at == BOOK_NONE)
        return;
    struct ledger_entry *e = &actor->ledger->live[at];
    if (error == 0) {
        PUT(e->mapped, 1);
        return;
    }
    struct book_buffer b = {.handle = map->handle,
                            .address = GET(e->address),
                            .size = GET(e->size),
                            .flags = GET(e->flags),
                            .file = -1,
                            .gpu = GET(e->gpu),
                            .kind = GET(e->kind)};
    note_refused(actor, &b, LEDGER_OP_MAP, error);
}

static void note_address(const struct book_actor *actor, const struct gem_va *va, int fd)
{
    uint32_t at = book_find(actor, va->handle, fd);
    if (at != BOOK_NONE)
        PUT(actor->ledger->live[at].address,
            va->operation == 1 /* AMDGPU_VA_OP_MAP */ ? va->address : 0);
}

static bool reads_enough(uint32_t number, uint32_t size)
{
    switch (number) {
    case KFD_ALLOC:
        return size >= sizeof(struct kfd_alloc);
    case KFD_MAP:
    case KFD_IMPORT_DMABUF:
    case AMDGPU_GEM_USERPTR:
        return size >= 24;
    case AMDGPU_GEM_CREATE:
        return size >= sizeof(struct gem_create);
    case AMDGPU_GEM_VA:
        return size >= sizeof(struct gem_va);
    case DRM_PRIME_TO_HANDLE:
        return size >= sizeof(struct prime);
    default:
        return size >= 8;
    }
}

/* A free: the entry is taken out before, see book.h. */
static int pass_free(struct book_actor *actor, int fd, unsigned long request, void *arg,
                     bool is_drm)
{
    uint64_t handle = is_drm ? *(const uint32_t *)arg : *(const uint64_t *)arg;
    uint32_t entry = book_begin_free(actor, handle, is_drm ? fd : -1);
    int r = call_next(fd, request, arg);
    int error = r == 0 ? 0 : errno;
    actor->now_ns = attach_coarse_ns();
    if (entry != BOOK_NONE || device_known(fd) != DEVICE_OTHER)
        book_end_free(actor, entry, r == 0);
    if (r != 0)
        errno = error;
    return r;
}

static void note(struct book_actor *actor, struct call *c, bool makes, int fd, uint32_t number,
                 const void *arg, int error)
{
    actor->now_ns = error == 0 ? attach_coarse_ns() : attach_now_ns();
    if (makes) {
        note_made(actor, c, fd, number, arg, error);
    } else if (number == KFD_MAP) {
        note_mapped(actor, arg, fd, error);
    } else if (number == KFD_ACQUIRE_VM && error == 0) {
        const struct kfd_acquire *a = arg;
        if (device_kind((int)a->drm_fd, call_next_variadic) == DEVICE_RENDER)
            book_join_gpu(actor->ledger, a->gpu_id, device_minor((int)a->drm_fd));
    } else if (number == AMDGPU_GEM_VA && error == 0) {
        note_address(actor, arg, fd);
    }
}

/* Other drivers use the same numbers; skip them. */
static bool is_other_driver(int fd, uint32_t number)
{
    return number == DRM_GEM_CLOSE || number == AMDGPU_GEM_VA
               ? device_known(fd) != DEVICE_RENDER /* then there was no allocation either */
               : !is_device(fd, true, 0);
}

static int observe(int fd, unsigned long request, void *arg, bool is_drm)
{
    struct book_actor actor;
    struct call c = {.is_drm = is_drm, .operation = LEDGER_OP_ALLOC};
    uint32_t number = NUMBER(request);
    int before = errno;
    if (arg == NULL || !reads_enough(number, SIZE(request)) ||
        (is_drm && is_other_driver(fd, number)) || !attach_actor(&actor)) {
        errno = before;
        return call_next(fd, request, arg);
    }
    if (number == (is_drm ? DRM_GEM_CLOSE : KFD_FREE))
        return pass_free(&actor, fd, request, arg, is_drm);
    bool makes = read_request(&actor, &c, fd, number, arg);
    int r = call_next(fd, request, arg);
    int error = r >= 0 ? 0 : errno;
    note(&actor, &c, makes, fd, number, arg, error);
    errno = error != 0 ? error : before;
    return r;
}

static bool concerns_memory(uint32_t type, uint32_t number)
{
    if (type == 'K')
        return (number >= KFD_ACQUIRE_VM && number <= KFD_MAP) || number == KFD_IMPORT_DMABUF;
    return type == 'd' &&
           (number == DRM_GEM_CLOSE || number == AMDGPU_GEM_CREATE || number == AMDGPU_GEM_VA ||
            number == AMDGPU_GEM_USERPTR || number == DRM_PRIME_TO_HANDLE);
}

static int set_modes(const struct terminal_call *call)
{
    return call_next(call->fd, call->request, (void *)(uintptr_t)call->modes);
}

static int pass_terminal(int fd, unsigned long request, void *arg)
{
    if (terminal_sets_modes(request)) {
        struct terminal_call call = {fd, request, arg};
        return terminal_set(&call, set_modes);
    }
    int r = call_next(fd, request, arg);
    if (r == 0 && terminal_gets_modes(request))
        terminal_got(fd, arg);
    /* The size of the real one is asked, too: the kernel's SIGWINCH comes before the pty has it. */
    if (r == 0 && (request == TIOCSWINSZ || request == TIOCGWINSZ) && terminal_is_pty(fd))
        terminal_repeat(request, arg);
    return r;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    uint32_t type = TYPE(request);
    if (type == TYPE(TCGETS))
        return pass_terminal(fd, request, arg);
    if (type == 'K' && NUMBER(request) <= KFD_CREATE_QUEUE)
        hip_look(); /* a runtime starts: it is mapped now */
    if ((type != 'K' && type != 'd') || !concerns_memory(type, NUMBER(request)) || !attach_wanted())
        return call_next(fd, request, arg);
    return observe(fd, request, arg, type == 'd');
}

/* --- mmap(): only its failures on a GPU's node are of interest --- */

static void note_unmappable(int fd, size_t size)
{
    struct book_actor actor;
    int error = errno;
    if (device_is_render_node(fd, call_next_variadic) && attach_actor(&actor)) {
        const struct attach_thread *t = attach_thread();
        actor.now_ns = attach_now_ns();
        bool is_last = t->last_size == size;
        struct book_buffer b = {.size = size,
                                .file = fd,
                                .kind = is_last ? t->last_kind : LEDGER_VRAM,
                                .gpu = is_last ? t->last_gpu
                                               : book_gpu_by_minor(actor.ledger, device_minor(fd))};
        note_refused(&actor, &b, LEDGER_OP_MMAP, error);
    }
    errno = error;
}

/* Before our constructor has run, make the system call directly: malloc() may need the memory. */
static void *pass_mmap(enum next_function function, void *at, size_t size, int protection,
                       int flags, int fd, off_t offset)
{
    void *p;
    mmap_fn next;
    *(void **)&next = next_if_resolved(function);
    if (next != NULL) {
        p = next(at, size, protection, flags, fd, offset);
    } else {
        long r = raw_call6(SYS_mmap, (long)at, (long)size, protection, flags, fd, offset);
        p = (void *)r;
        if (r < 0 && r > -4096) {
            errno = (int)-r;
            p = MAP_FAILED;
        }
    }
    if (p == MAP_FAILED && fd >= 0 && (flags & MAP_ANONYMOUS) == 0 && attach_wanted())
        note_unmappable(fd, size);
    return p;
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return pass_mmap(NEXT_mmap, at, size, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
    return pass_mmap(NEXT_mmap64, at, size, protection, flags, fd, offset);
}
