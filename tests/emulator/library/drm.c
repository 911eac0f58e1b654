/* SPDX-License-Identifier: Apache-2.0 */
/* The render node: ioctls of libdrm_amdgpu, libhsakmt and graphics clients. */
#include "driver.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <amdgpu_drm.h>
#include <drm.h>

#include "machine.h"
#include "memory.h"

#define DRM_NR(request) _IOC_NR(request)
#define AMDGPU_NR(command) (DRM_COMMAND_BASE + (command))

static void give_text(char *to, __kernel_size_t *len, const char *text)
{
    size_t have = strlen(text);
    if (to != NULL && *len > 0)
        memcpy(to, text, *len < have ? *len : have);
    *len = have;
}

static long get_version(void *arg)
{
    struct drm_version *v = arg;
    v->version_major = 3;
    v->version_minor = machine.kernel < 610 ? 49 : 61;
    v->version_patchlevel = 0;
    give_text(v->name, &v->name_len, "amdgpu");
    give_text(v->date, &v->date_len, "20150101");
    give_text(v->desc, &v->desc_len, "AMD GPU");
    return 0;
}

static long gem_create(unsigned gpu, void *arg)
{
    union drm_amdgpu_gem_create *c = arg;
    bool wants_vram = (c->in.domains & AMDGPU_GEM_DOMAIN_VRAM) != 0;
    bool takes_gtt = (c->in.domains & AMDGPU_GEM_DOMAIN_GTT) != 0;
    if (c->in.bo_size == 0 || (!wants_vram && !takes_gtt))
        return -EINVAL;
    struct buffer b = {.gpu = gpu, .size = c->in.bo_size, .kind = BUFFER_GEM_VRAM};
    b.is_public = wants_vram &&
                  (c->in.domain_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED) != 0;
    int r = wants_vram ? memory_alloc(&b) : -ENOMEM;
    if (r < 0 && takes_gtt) {
        b.kind = BUFFER_GEM_GTT;
        r = memory_alloc(&b);
    }
    if (r < 0)
        return r;
    memset(&c->out, 0, sizeof c->out);
    c->out.handle = (uint32_t)b.handle;
    return 0;
}

static long gem_mmap(void *arg)
{
    union drm_amdgpu_gem_mmap *m = arg;
    struct buffer b;
    if (!memory_find_gem(m->in.handle, &b))
        return -EINVAL;
    m->out.addr_ptr = b.offset;
    return 0;
}

static long gem_va(void *arg)
{
    const struct drm_amdgpu_gem_va *v = arg;
    struct buffer b;
    if (!memory_find_gem(v->handle, &b))
        return v->handle == 0 ? 0 : -EINVAL;
    bool maps = v->operation == AMDGPU_VA_OP_MAP || v->operation == AMDGPU_VA_OP_REPLACE;
    memory_set_va(b.handle, maps ? v->va_address : 0);
    return 0;
}

static long gem_op(void *arg)
{
    struct drm_amdgpu_gem_op *op = arg;
    struct buffer b;
    if (!memory_find_gem(op->handle, &b))
        return -EINVAL;
    if (op->op == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO) {
        struct drm_amdgpu_gem_create_in info = {
            .bo_size = b.size,
            .alignment = 4096,
            .domains = b.kind == BUFFER_GEM_GTT || b.kind == BUFFER_GTT ? AMDGPU_GEM_DOMAIN_GTT
                                                                        : AMDGPU_GEM_DOMAIN_VRAM,
        };
        memcpy((void *)(uintptr_t)op->value, &info, sizeof info);
    }
    return 0;
}

static long prime_export(void *arg)
{
    struct drm_prime_handle *p = arg;
    struct buffer b;
    if (!memory_find_gem(p->handle, &b))
        return -EINVAL;
    int fd = driver_export(b.handle);
    p->fd = fd;
    return fd < 0 ? fd : 0;
}

static long prime_import(void *arg)
{
    struct drm_prime_handle *p = arg;
    uint64_t handle = 0;
    struct buffer b;
    if (!driver_exported(p->fd, &handle) || !memory_find(handle, &b))
        return -EINVAL;
    b.kind = BUFFER_IMPORT;
    b.va = 0;
    int r = memory_alloc(&b);
    p->handle = (uint32_t)b.handle;
    return r;
}

static long amdgpu_ioctl(unsigned gpu, unsigned number, unsigned size, void *arg)
{
    switch (number) {
    case AMDGPU_NR(DRM_AMDGPU_INFO):
        return drm_query_info(gpu, arg);
    case AMDGPU_NR(DRM_AMDGPU_GEM_CREATE):
        return gem_create(gpu, arg);
    case AMDGPU_NR(DRM_AMDGPU_GEM_MMAP):
        return gem_mmap(arg);
    case AMDGPU_NR(DRM_AMDGPU_GEM_VA):
        return gem_va(arg);
    case AMDGPU_NR(DRM_AMDGPU_GEM_OP):
        return gem_op(arg);
    case AMDGPU_NR(DRM_AMDGPU_GEM_METADATA): {
        struct drm_amdgpu_gem_metadata *m = arg;
        if (m->op == AMDGPU_GEM_METADATA_OP_GET_METADATA)
            memset(&m->data, 0, sizeof m->data);
        return 0;
    }
    case AMDGPU_NR(DRM_AMDGPU_CTX): {
        union drm_amdgpu_ctx *c = arg;
        memset(c, 0, sizeof *c);
        c->out.alloc.ctx_id = 1;
        return 0;
    }
    case AMDGPU_NR(DRM_AMDGPU_VM):
    case AMDGPU_NR(DRM_AMDGPU_GEM_WAIT_IDLE):
        return 0;
    default:
        driver_unknown("drm", number, size);
        return -EINVAL;
    }
}

long drm_ioctl(const struct node *node, unsigned long request, void *arg)
{
    unsigned number = _IOC_NR(request);
    const struct gpu *gpu = &machine.gpus[node->gpu];
    switch (number) {
    case DRM_NR(DRM_IOCTL_VERSION):
        return get_version(arg);
    case DRM_NR(DRM_IOCTL_GET_UNIQUE): {
        struct drm_unique *u = arg;
        give_text(u->unique, &u->unique_len, gpu->pci);
        return 0;
    }
    case DRM_NR(DRM_IOCTL_GET_MAGIC):
        ((struct drm_auth *)arg)->magic = 1;
        return 0;
    case DRM_NR(DRM_IOCTL_GET_CLIENT):
        ((struct drm_client *)arg)->auth = 1;
        return 0;
    case DRM_NR(DRM_IOCTL_SET_VERSION):
    case DRM_NR(DRM_IOCTL_SET_CLIENT_CAP):
        return 0;
    case DRM_NR(DRM_IOCTL_GET_CAP): {
        struct drm_get_cap *c = arg;
        c->value = c->capability == DRM_CAP_PRIME ? 3 : 1;
        return 0;
    }
    case DRM_NR(DRM_IOCTL_GEM_CLOSE):
        return memory_free(((struct drm_gem_close *)arg)->handle);
    case DRM_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
        return prime_export(arg);
    case DRM_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
        return prime_import(arg);
    default:
        return amdgpu_ioctl(node->gpu, number, _IOC_SIZE(request), arg);
    }
}
