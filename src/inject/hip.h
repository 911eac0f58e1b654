/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wraps HIP's allocating functions, to see requests that HIP refuses before it asks the driver: for
 * a request above the device's size, the error of the call is the only trace. We define no symbol
 * of HIP, because a program may test whether there are any. Instead, once a libamdhip64 is mapped,
 * the callers' tables of addresses (GOT) are changed to our functions, each for the runtime to
 * which the entry was bound. Runs in the target.
 */
#ifndef INJECT_HIP_H
#define INJECT_HIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIP_RUNTIMES 4 /* wheels bring one each */

/* The functions. */
#define HIP_EACH(X)                                                                                \
    X(hipMalloc)                                                                                   \
    X(hipExtMallocWithFlags)                                                                       \
    X(hipMallocManaged)                                                                            \
    X(hipHostMalloc)                                                                               \
    X(hipHostAlloc)                                                                                \
    X(hipMallocHost)                                                                               \
    X(hipMemAllocHost)                                                                             \
    X(hipHostRegister)                                                                             \
    X(hipMallocAsync)                                                                              \
    X(hipMallocFromPoolAsync)                                                                      \
    X(hipMallocPitch)                                                                              \
    X(hipMemAllocPitch)                                                                            \
    X(hipMalloc3D)                                                                                 \
    X(hipMallocArray)                                                                              \
    X(hipMalloc3DArray)                                                                            \
    X(hipMemCreate)                                                                                \
    X(hipSetDevice)                                                                                \
    X(hipGetProcAddress)                                                                           \
    X(hipGetDriverEntryPoint)                                                                      \
    X(hipGetDriverEntryPoint_spt)

enum hip_function {
#define HIP_ENUM(name) HIP_FN_##name,
    HIP_EACH(HIP_ENUM)
#undef HIP_ENUM
        HIP_FUNCTIONS,
};

struct hip_runtime {
    uintptr_t base, start, end; /* of the mapped libamdhip64; 0 = no runtime in this slot */
    void *real[HIP_FUNCTIONS];  /* NULL = this version lacks it */
};

extern struct hip_runtime hip_runtimes[HIP_RUNTIMES];

/* Our wrapper of the function of that runtime. */
void *hip_stand_in(enum hip_function function, unsigned runtime);
/* The function of that name; HIP_FUNCTIONS = none of these. */
enum hip_function hip_by_name(const char *name);

/* Check whether objects have been loaded since, and patch them. */
void hip_look(void);
/* Our wrapper for a function's address, NULL = it is no function of a runtime. */
void *hip_replacement(enum hip_function function, void *real);

#endif
