/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that wrap HIP's, one set for each runtime that may be mapped. They call no HIP
 * function of their own: before ROCm 7 any successful call cleared what hipGetLastError() gives.
 * Prototypes: hip/hip_runtime_api.h, the same from 4.2 on.
 */
#include "inject/hip.h"

#include <errno.h>

#include "inject/attach.h"
#include "inject/book_internal.h"
#include "inject/counters.h"
#include "inject/raw.h"

#define OUT_OF_MEMORY 2 /* hipErrorOutOfMemory */
#define EACH_RUNTIME(X) X(0) X(1) X(2) X(3)

struct extent {
    size_t width, height, depth;
};
struct channel {
    int bits[4];
    int format;
};

struct hip_runtime hip_runtimes[HIP_RUNTIMES];

/* --- a call --- */

struct asked {
    const char *function;
    size_t size, width, height, depth;
    uint32_t flags;
    uint32_t refusals_before;
};

static size_t times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static void note_failed(const struct asked *asked, int error)
{
    struct book_actor actor;
    if (!attach_actor(&actor))
        return;
    const struct attach_thread *t = attach_thread();
    actor.now_ns = attach_now_ns();
    uint32_t by_kernel = t->refusals - asked->refusals_before;
    struct ledger_hip_refusal r = {
        .size = asked->size,
        .width = asked->width,
        .height = asked->height,
        .depth = asked->depth,
        .flags = asked->flags,
        .error = error,
        .device = t->hip_device,
        .kernel_refusals = by_kernel,
        .kernel_refusal = by_kernel > 0 ? t->last_refusal : 0,
    };
    (void)raw_put(r.function, sizeof r.function, asked->function);
    (void)book_hip_refused(&actor, &r);
    if (error == OUT_OF_MEMORY && by_kernel == 0)
        counters_at_refusal(&actor, 0);
}

static struct asked ask(const char *function, size_t size, uint32_t flags)
{
    hip_look(); /* objects loaded since may call HIP, too */
    return (struct asked){.function = function,
                          .size = size,
                          .flags = flags,
                          .refusals_before = attach_thread()->refusals};
}

static struct asked ask_box(const char *function, size_t width, size_t height, size_t depth,
                            size_t element, uint32_t flags)
{
    size_t rows = times(height > 0 ? height : 1, depth > 0 ? depth : 1);
    struct asked a = ask(function, times(times(width, element), rows), flags);
    a.width = width;
    a.height = height;
    a.depth = depth;
    return a;
}

static size_t element_bytes(const struct channel *c)
{
    if (c == NULL)
        return 1;
    int bits = c->bits[0] + c->bits[1] + c->bits[2] + c->bits[3];
    return bits > 0 ? ((size_t)bits + 7) / 8 : 1;
}

static int done(const struct asked *asked, int result)
{
    if (result != 0) {
        int error = errno;
        note_failed(asked, result);
        errno = error;
    }
    return result;
}

/* REAL(r, hipMalloc, void **, size_t)(p, size) */
#define REAL(r, name, ...) ((int (*)(__VA_ARGS__))(uintptr_t)hip_runtimes[r].real[HIP_FN_##name])

/* --- the sets --- */

#define SIZED(r, name)                                                                             \
    static int name##_##r(void **p, size_t size)                                                   \
    {                                                                                              \
        struct asked a = ask(#name, size, 0);                                                      \
        return done(&a, REAL(r, name, void **, size_t)(p, size));                                  \
    }

#define FLAGGED(r, name)                                                                           \
    static int name##_##r(void **p, size_t size, unsigned flags)                                   \
    {                                                                                              \
        struct asked a = ask(#name, size, flags);                                                  \
        return done(&a, REAL(r, name, void **, size_t, unsigned)(p, size, flags));                 \
    }

#define SIZED_SET(r)                                                                               \
    SIZED(r, hipMalloc)                                                                            \
    SIZED(r, hipMallocHost)                                                                        \
    SIZED(r, hipMemAllocHost)                                                                      \
    FLAGGED(r, hipExtMallocWithFlags)                                                              \
    FLAGGED(r, hipMallocManaged)                                                                   \
    FLAGGED(r, hipHostMalloc)                                                                      \
    FLAGGED(r, hipHostAlloc)

#define STREAM_SET(r)                                                                              \
    static int hipHostRegister_##r(void *p, size_t size, unsigned flags)                           \
    {                                                                                              \
        struct asked a = ask("hipHostRegister", size, flags);                                      \
        return done(&a, REAL(r, hipHostRegister, void *, size_t, unsigned)(p, size, flags));       \
    }                                                                                              \
    static int hipMallocAsync_##r(void **p, size_t size, void *stream)                             \
    {                                                                                              \
        struct asked a = ask("hipMallocAsync", size, 0);                                           \
        return done(&a, REAL(r, hipMallocAsync, void **, size_t, void *)(p, size, stream));        \
    }                                                                                              \
    static int hipMallocFromPoolAsync_##r(void **p, size_t size, void *pool, void *stream)         \
    {                                                                                              \
        struct asked a = ask("hipMallocFromPoolAsync", size, 0);                                   \
        return done(&a, REAL(r, hipMallocFromPoolAsync, void **, size_t, void *,                   \
                             void *)(p, size, pool, stream));                                      \
    }                                                                                              \
    static int hipMemCreate_##r(void **p, size_t size, const void *kind, unsigned long long flags) \
    {                                                                                              \
        struct asked a = ask("hipMemCreate", size, (uint32_t)flags);                               \
        return done(&a, REAL(r, hipMemCreate, void **, size_t, const void *,                       \
                             unsigned long long)(p, size, kind, flags));                           \
    }

#define BOX_SET(r)                                                                                 \
    static int hipMallocPitch_##r(void **p, size_t *pitch, size_t width, size_t height)            \
    {                                                                                              \
        struct asked a = ask_box("hipMallocPitch", width, height, 0, 1, 0);                        \
        return done(&a, REAL(r, hipMallocPitch, void **, size_t *, size_t,                         \
                             size_t)(p, pitch, width, height));                                    \
    }                                                                                              \
    static int hipMemAllocPitch_##r(void **p, size_t *pitch, size_t width, size_t height,          \
                                    unsigned element)                                              \
    {                                                                                              \
        struct asked a = ask_box("hipMemAllocPitch", width, height, 0, 1, 0);                      \
        return done(&a, REAL(r, hipMemAllocPitch, void **, size_t *, size_t, size_t,               \
                             unsigned)(p, pitch, width, height, element));                         \
    }                                                                                              \
    static int hipMalloc3D_##r(void *p, struct extent e)                                           \
    {                                                                                              \
        struct asked a = ask_box("hipMalloc3D", e.width, e.height, e.depth, 1, 0);                 \
        return done(&a, REAL(r, hipMalloc3D, void *, struct extent)(p, e));                        \
    }                                                                                              \
    static int hipMallocArray_##r(void **p, const struct channel *c, size_t width, size_t height,  \
                                  unsigned flags)                                                  \
    {                                                                                              \
        struct asked a = ask_box("hipMallocArray", width, height, 0, element_bytes(c), flags);     \
        return done(&a, REAL(r, hipMallocArray, void **, const struct channel *, size_t, size_t,   \
                             unsigned)(p, c, width, height, flags));                               \
    }                                                                                              \
    static int hipMalloc3DArray_##r(void **p, const struct channel *c, struct extent e,            \
                                    unsigned flags)                                                \
    {                                                                                              \
        struct asked a =                                                                           \
            ask_box("hipMalloc3DArray", e.width, e.height, e.depth, element_bytes(c), flags);      \
        return done(&a, REAL(r, hipMalloc3DArray, void **, const struct channel *, struct extent,  \
                             unsigned)(p, c, e, flags));                                           \
    }

/* Remember the device: HIP must not be asked for it. */
static int chosen(int device, int result)
{
    if (result == 0)
        attach_thread()->hip_device = device;
    return result;
}

/* "hipMalloc" requested from the runtime itself: return ours. */
static int given(const char *name, void **function, int result)
{
    enum hip_function which = name != NULL ? hip_by_name(name) : HIP_FUNCTIONS;
    if (result != 0 || which == HIP_FUNCTIONS || function == NULL)
        return result;
    void *ours = hip_replacement(which, *function);
    if (ours != NULL)
        *function = ours;
    return result;
}

/* Since ROCm 7: the same request in CUDA's form. */
#define ENTRY_POINT(r, asked)                                                                      \
    static int asked##_##r(const char *name, void **function, uint64_t flags, void *status)        \
    {                                                                                              \
        return given(name, function,                                                               \
                     REAL(r, asked, const char *, void **, uint64_t, void *)(name, function,       \
                                                                             flags, status));      \
    }

#define OTHER_SET(r)                                                                               \
    static int hipSetDevice_##r(int device)                                                        \
    {                                                                                              \
        return chosen(device, REAL(r, hipSetDevice, int)(device));                                 \
    }                                                                                              \
    static int hipGetProcAddress_##r(const char *name, void **function, int version,               \
                                     uint64_t flags, void *status)                                 \
    {                                                                                              \
        return given(name, function,                                                               \
                     REAL(r, hipGetProcAddress, const char *, void **, int, uint64_t,              \
                          void *)(name, function, version, flags, status));                        \
    }                                                                                              \
    ENTRY_POINT(r, hipGetDriverEntryPoint)                                                         \
    ENTRY_POINT(r, hipGetDriverEntryPoint_spt)

EACH_RUNTIME(SIZED_SET)
EACH_RUNTIME(STREAM_SET)
EACH_RUNTIME(BOX_SET)
EACH_RUNTIME(OTHER_SET)

void *hip_stand_in(enum hip_function function, unsigned runtime)
{
#define HIP_CASE(name)                                                                             \
    case HIP_FN_##name: {                                                                          \
        static void *set[HIP_RUNTIMES];                                                            \
        *(__typeof__(&name##_0) *)&set[0] = name##_0;                                              \
        *(__typeof__(&name##_0) *)&set[1] = name##_1;                                              \
        *(__typeof__(&name##_0) *)&set[2] = name##_2;                                              \
        *(__typeof__(&name##_0) *)&set[3] = name##_3;                                              \
        return runtime < HIP_RUNTIMES ? set[runtime] : NULL;                                       \
    }
    switch (function) {
        HIP_EACH(HIP_CASE)
    default:
        return NULL;
    }
#undef HIP_CASE
}

enum hip_function hip_by_name(const char *name)
{
    static const char *const names[] = {
#define HIP_NAME(name) #name,
        HIP_EACH(HIP_NAME)
#undef HIP_NAME
    };
    if (!raw_starts(name, "hip"))
        return HIP_FUNCTIONS;
    for (unsigned i = 0; i < HIP_FUNCTIONS; i++)
        if (raw_same(name, names[i]))
            return (enum hip_function)i;
    return HIP_FUNCTIONS;
}
