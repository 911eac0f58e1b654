/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HIP's allocating functions, for what HIP refuses before it asks the driver: a request above the
 * device's size leaves no other trace than the error of the call. No symbol of HIP is defined here,
 * for a program may ask whether there are any: the callers' tables of addresses (GOT) are pointed
 * to functions of ours once a libamdhip64 is mapped, each to the one that stands before the runtime
 * it was bound to. Runs in the target.
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
    void *real[HIP_FUNCTIONS];  /* NULL = this version has it not */
};

extern struct hip_runtime hip_runtimes[HIP_RUNTIMES];

/* Ours, that stands before the function of that runtime. */
void *hip_stand_in(enum hip_function function, unsigned runtime);
/* The function of that name; HIP_FUNCTIONS = none of these. */
enum hip_function hip_by_name(const char *name);

/* Look whether objects have been loaded since, and see to them. */
void hip_look(void);
/* The stand-in for a function's address, NULL = it is none of a runtime's. */
void *hip_replacement(enum hip_function function, void *real);

#endif
