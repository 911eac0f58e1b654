/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that the relay looks for. A text is the longest part that does not vary between
 * versions; texts are chosen so that one message counts once (one pattern of a kind per line where
 * that is possible) and so that the known harmless neighbours do not match: llama.cpp's warnings
 * about pinned memory and mlock, XLA's and Triton's LDS limits, NCCL's hints.
 */
#include "watch/match.h"

const struct match_pattern match_patterns[] = {
    /* PyTorch >= 1.0: "HIP out of memory. Tried to allocate X. GPU N has a total capacity ..." */
    {MATCH_OOM, "HIP out of memory"},
    {MATCH_OOM, "CUDA out of memory"},
    {MATCH_OOM, "cuda runtime error (2) : out of memory"},
    {MATCH_OOM, "HIP error: out of memory"},
    {MATCH_OOM, "CUDA error: out of memory"},
    {MATCH_OOM, "ROCm error: out of memory"},
    {MATCH_OOM, "not enough GPU video memory available"},
    {MATCH_OOM, "DefaultCPUAllocator: not enough memory"},
    {MATCH_OOM, "DefaultCPUAllocator: can't allocate memory"},
    /* HIP, HSA and the libraries above them */
    {MATCH_OOM, "hipErrorOutOfMemory"},
    {MATCH_OOM, "hipErrorMemoryAllocation"},
    {MATCH_OOM, "HSA_STATUS_ERROR_OUT_OF_RESOURCES"},
    {MATCH_OOM, "BLAS_STATUS_ALLOC_FAILED"}, /* HIP, ROC or CU before it */
    {MATCH_OOM, "Memory not available to allocate buffer"},
    {MATCH_OOM, "Failed to CUDA calloc"},
    {MATCH_OOM, "hipMalloc failed"},
    /* "Out of memory in hipStreamCreate(...)": Blender; "ROCm tensor alloc failed: out of memory",
     * "... alloc failed for tensor-span:105 (1792.00 MiB chunk): out of memory": ds4 */
    {MATCH_OOM, "Out of memory in hip"},
    {MATCH_OOM, "Out of memory in cu"},
    {MATCH_OOM, "tensor alloc failed: out of memory"},
    {MATCH_OOM, " chunk): out of memory"},
    /* llama.cpp, ollama: "... cudaMalloc failed: out of memory", then what could not be made. The
     * pinned-memory warning reads "failed to allocate X MiB of pinned memory": not these. */
    {MATCH_OOM, "cudaMalloc failed: out of memory"},
    {MATCH_OOM, "failed to allocate ROCm"},
    {MATCH_OOM, "failed to allocate CUDA"},
    {MATCH_OOM, "failed to allocate compute"},
    {MATCH_OOM, "unable to allocate ROCm"},
    {MATCH_OOM, "unable to allocate CUDA"},
    {MATCH_OOM, "unable to allocate backend buffer"},
    {MATCH_OOM, "model requires more system memory"},
    /* JAX, XLA, TensorFlow: "failed to allocate X (N bytes) from device: HIP_ERROR_OutOfMemory" */
    {MATCH_OOM, "RESOURCE_EXHAUSTED: Out of memory"},
    {MATCH_OOM, "OOM when allocating tensor"},
    {MATCH_OOM, "HIP_ERROR_OutOfMemory"},
    {MATCH_OOM, "hipError_t(1002)"},
    /* vLLM, SGLang */
    {MATCH_OOM, "is less than desired GPU memory utilization"},
    {MATCH_OOM, "larger than the available KV cache memory"},
    {MATCH_OOM, "No available memory for the cache blocks"},
    {MATCH_OOM, "tokens that can be stored in KV cache"},
    {MATCH_OOM, "Not enough memory. Please try to increase --mem-fraction-static"},
    {MATCH_OOM, "System is out of GPU and shared host memory"},
    {MATCH_OOM, "std::bad_alloc"},
    {MATCH_OOM, "oom-kill event"}, /* slurmstepd */
    {MATCH_OOM, "oom_kill event"}, /* the same since 20.11 */
    /* Programs that end by a plain exit(1) and print no traceback: Vulkan, CUDA's driver interface
     * (Rust), OpenCL, Julia, AMReX, MIGraphX, CuPy, PaddlePaddle */
    {MATCH_OOM, "OutOfDeviceMemory"},
    {MATCH_OOM, "OUT_OF_DEVICE_MEMORY"},
    {MATCH_OOM, "failed to allocate Vulkan"},
    {MATCH_OOM, "CUDA_ERROR_OUT_OF_MEMORY"},
    {MATCH_OOM, "MEM_OBJECT_ALLOCATION_FAILURE"},
    {MATCH_OOM, "failed: OUT_OF_RESOURCES"},
    {MATCH_OOM, "Out of GPU memory"},
    {MATCH_OOM, "ut of gpu memory"},
    {MATCH_OOM, "pu allocation failed"},
    {MATCH_OOM, "Out of memory allocating"},
    {MATCH_OOM, "Out of memory error on GPU"},
    /* PyTorch with backend:cudaMallocAsync; ComfyUI cuts it behind "Allocation on device" */
    {MATCH_OOM, "Allocation on device"},

    /* "Memory access fault by GPU node-1 (Agent handle: 0x..) on address 0x... Reason: ..." */
    {MATCH_FAULT, "Memory access fault by GPU"},
    {MATCH_FAULT, "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"},
    {MATCH_FAULT, "HSA_STATUS_ERROR_MEMORY_FAULT"},
    {MATCH_FAULT, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"},
    {MATCH_FAULT, "HSA_STATUS_ERROR_INVALID_ISA"},
    {MATCH_FAULT, "HSA_STATUS_ERROR_EXCEPTION"},
    {MATCH_FAULT, "inactivated due to async error"},
    {MATCH_FAULT, "hipErrorIllegalAddress"},
    {MATCH_FAULT, "an illegal memory access was encountered"},
    {MATCH_FAULT, "unspecified launch failure"},
    {MATCH_FAULT, "uncorrectable ECC error encountered"},
    {MATCH_FAULT, "cudaErrorIllegalAddress"},
    {MATCH_FAULT, "hipErrorLaunchFailure"},
    {MATCH_FAULT, "fallen off the bus"},

    /* "HW Exception by GPU node-1 (Agent handle: 0x..) reason :GPU Hang" */
    {MATCH_HANG, "HW Exception by GPU"},
    {MATCH_HANG, "hipErrorLaunchTimeOut"},
    {MATCH_HANG, "the launch timed out and was terminated"},
    {MATCH_HANG, "Watchdog caught collective operation timeout"},
    {MATCH_HANG, "failure detected by watchdog at work sequence id"},

    {MATCH_HANG, "GPU hang detected"},
    {MATCH_HANG, "DeviceLost"}, /* Vulkan */
    {MATCH_HANG, "DEVICE_LOST"},

    {MATCH_ERROR, "Traceback (most recent call last)"},
    {MATCH_ERROR, "terminate called"},
    {MATCH_ERROR, "Segmentation fault"},
    {MATCH_ERROR, "AssertionError"},
    {MATCH_ERROR, "Assertion `"}, /* glibc's assert() */
    {MATCH_ERROR, "Fatal Python error"},
    {MATCH_ERROR, "*** stack smashing detected ***"},
    {MATCH_ERROR, "double free detected"},
    {MATCH_ERROR, "No HIP GPUs are available"},
    {MATCH_ERROR, "Unable to open /dev/kfd"},
    {MATCH_ERROR, "nvalid device function"}, /* the I is small or not */
    {MATCH_ERROR, "no kernel image is available for execution"},
    {MATCH_ERROR, "device kernel image is invalid"},
    {MATCH_ERROR, "hipErrorNoBinaryForGpu"},
    {MATCH_ERROR, "TensileLibrary"},
    {MATCH_ERROR, "cannot open shared object file"},
    {MATCH_ERROR, "undefined symbol"},
    {MATCH_ERROR, "Memory critical error by agent"},
    {MATCH_ERROR, "NCCL error in"},
    {MATCH_ERROR, "is killed by signal"},
    {MATCH_ERROR, "submitCopyMemory failed"},
    {MATCH_ERROR, "hsa api call failure"}, /* rocminfo */
    {MATCH_ERROR, "ibv_create_cq"},        /* UCX: locked memory */
    {MATCH_ERROR, "ibv_reg_mr"},
    {MATCH_ERROR, "hipErrorInvalid"},
    {MATCH_ERROR, "hipErrorNoDevice"},
    {MATCH_ERROR, "HIP_ERROR_NoDevice"},
    {MATCH_ERROR, "hipErrorNotSupported"},
    {MATCH_ERROR, "hipErrorSharedObject"},
    {MATCH_ERROR, "hipErrorUnknown"},
    {MATCH_ERROR, "No CUDA GPUs are available"},
    {MATCH_ERROR, "no ROCm-capable device"},
    {MATCH_ERROR, "no CUDA-capable device"},
    {MATCH_ERROR, "device-side assert"},
    {MATCH_ERROR, "miopenStatusUnknownError"},
    {MATCH_ERROR, "miopenStatusInternalError"},
    {MATCH_ERROR, "BLAS_STATUS_NOT_"},
    {MATCH_ERROR, "BLAS_STATUS_INTERNAL"},
    {MATCH_ERROR, "BLAS_STATUS_EXECUTION"},
    {MATCH_ERROR, "unhandled cuda error"}, /* rccl-tests */
    {MATCH_ERROR, "unhandled hip error"},
    {MATCH_ERROR, "unhandled system error"},
    {MATCH_ERROR, "not found (required by"}, /* ld.so: a version of a symbol */
    {MATCH_ERROR, "LLVM ERROR"},
    {MATCH_ERROR, "No space left on device"},
    {MATCH_ERROR, "Too many open files"},
    {MATCH_ERROR, "Bus error"},
    {MATCH_ERROR, ": error loading model"},
    {MATCH_ERROR, "panicked at "}, /* Rust */
    {MATCH_ERROR, "panic: "},      /* Go */

    /* What diagnose/messages_engine.c and messages_bfc.c read: the lines are kept for a long run.
     * llama.cpp */
    {MATCH_REPORT, " buffer size ="},
    {MATCH_REPORT, ": n_ctx "},
    {MATCH_REPORT, ": n_layer "},
    {MATCH_REPORT, "using device ROCm"},
    {MATCH_REPORT, "using device CUDA"},
    {MATCH_REPORT, " layers to GPU"},
    {MATCH_REPORT, "SWA KV cache"},
    {MATCH_REPORT, "Wave Size: "},
    {MATCH_REPORT, ", compute capability "},
    {MATCH_REPORT, "projected to use "},
    /* ollama */
    {MATCH_REPORT, "memory.required.full="},
    {MATCH_REPORT, "msg=\"model weights\""},
    {MATCH_REPORT, "msg=\"kv cache\""},
    {MATCH_REPORT, "msg=\"compute graph\""},
    {MATCH_REPORT, "msg=\"gpu memory\""},
    {MATCH_REPORT, "msg=\"inference compute\""},
    {MATCH_REPORT, "msg=\"starting llama server\""},
    {MATCH_REPORT, " KvSize:"},
    /* vLLM */
    {MATCH_REPORT, "Model loading took "},
    {MATCH_REPORT, "Loading model weights took "},
    {MATCH_REPORT, "model weights take "},
    {MATCH_REPORT, "total_gpu_memory ("},
    {MATCH_REPORT, "Free memory on device"},
    {MATCH_REPORT, "vailable KV cache memory: "},
    {MATCH_REPORT, "GPU KV cache size: "},
    {MATCH_REPORT, "aximum concurrency for "},
    /* XLA, TensorFlow */
    {MATCH_REPORT, " for BFCAllocator"},
    {MATCH_REPORT, "Created device /"},
};

const size_t match_pattern_count = sizeof match_patterns / sizeof match_patterns[0];
