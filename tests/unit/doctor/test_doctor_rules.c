/* SPDX-License-Identifier: Apache-2.0 */
/*
 * templates/doctor.json: every rule on each side of its threshold, over facts of the short form
 * ({name: value}; ' stands for "). A machine on which nothing is wrong gives no finding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/computed.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"

#define GPU_NODE                                                                                   \
    "'gpu.count': 1, 'gpu.present': true, 'host.kfd_topology': true, 'gpu.0.kfd_node': 1"
#define CARD                                                                                       \
    GPU_NODE ", 'gpu.0.is_apu': false, 'gpu.0.gfx': 'gfx1100', 'gpu.0.vram.total_bytes': '24 GiB'"
#define APU                                                                                        \
    GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.gfx': 'gfx1151', 'host.mem_total_bytes': '100 GiB', " \
             "'gpu.0.vram.total_bytes': '512 MiB', 'host.kernel': '6.18.4', "                      \
             "'host.kernel_version': 61804, 'host.ttm_module': 'ttm'"
#define TORCH(version)                                                                             \
    "'software.torch_version': '" version "', 'software.torch_hip_version': '6.4'"
#define CONF(value) "'env.PYTORCH_HIP_ALLOC_CONF': '" value "'"
#define NEW_CONF(value) "'env.PYTORCH_ALLOC_CONF': '" value "'"
#define RUNTIME(version) "'software.wheel_runtime_version': '" version "'"
#define RELEASE(version) "'software.wheel_runtime_release': '" version "'"

static const struct row {
    const char *rule;
    const char *facts;
    bool found;
} rows[] = {
    {"no-gpu", "'gpu.present': false, 'gpu.count': 0", true},
    {"no-gpu", CARD, false},
    {"gpu-init-failed", CARD ", 'kmsg.gpu_init_failed': 1", true},
    {"gpu-init-failed", CARD ", 'kmsg.readable': true", false},
    {"kfd-missing", "'gpu.count': 1, 'gpu.present': true, 'host.kfd_topology': false", true},
    {"kfd-missing", CARD, false},
    {"kfd-missing", "'gpu.count': 0, 'gpu.present': false, 'host.kfd_topology': false", false},
    {"gpu-without-kfd", "'gpu.count': 1, 'gpu.present': true, 'host.kfd_topology': true", true},
    {"gpu-without-kfd", CARD, false},
    {"kfd-access", CARD ", 'host.kfd_access': 'Permission denied', 'host.kfd_group': 'render'",
     true},
    {"kfd-access", CARD ", 'host.kfd_access': 'No such file or directory'", true},
    {"kfd-access", CARD ", 'host.kfd_access': 'yes'", false},
    {"kfd-access", CARD, false},
    {"render-access",
     CARD ", 'gpu.0.render_access': 'Permission denied', 'gpu.0.render_minor': 128, "
          "'gpu.0.render_group': 'render'",
     true},
    {"render-access", CARD ", 'gpu.0.render_access': 'yes'", false},
    {"override-invalid", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': 'gfx1100'", true},
    {"override-invalid", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.0.1'", true},
    {"override-invalid", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '64.0.0'", true},
    {"override-invalid", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.0'", false},
    {"override-major", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '10.3.0'", true},
    {"override-major", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.0'", false},
    {"override-major", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.5.1'", false},
    {"override-major", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION_1': '10.3.0'", true},
    {"override-major", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION_2': '10.3.0'", false},
    {"override-minor", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.5.1'", true},
    {"override-minor", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.1'", false},
    {"override-stepping", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.1'", true},
    {"override-stepping", CARD ", 'env.HSA_OVERRIDE_GFX_VERSION': '11.0.0'", false},
    {"hsa-fails", CARD ", 'software.hsa_error': 'hsa_init: 0x1008'", true},
    {"hsa-fails", CARD ", 'software.hsa_starts': true", false},
    {"runtime-knows-not-gpu", CARD ", 'software.hsa_starts': true", true},
    {"runtime-knows-not-gpu",
     CARD ", 'software.hsa_starts': true, 'gpu.0.hsa.pool_bytes': '24 GiB'", false},
    {"runtime-knows-not-gpu",
     CARD ", 'software.hsa_starts': true, 'software.wheel_runtime': '/x/libamdhip64.so'", false},
    {"runtime-knows-not-gpu", CARD, false},
    {"visible-none", CARD ", 'env.HIP_VISIBLE_DEVICES': '1'", true},
    {"visible-none", CARD ", 'env.ROCR_VISIBLE_DEVICES': '-1'", true},
    {"visible-none", CARD ", 'env.HIP_VISIBLE_DEVICES': '0,1'", false},
    {"visible-none", CARD ", 'env.ROCR_VISIBLE_DEVICES': 'GPU-8f1a2b3c4d5e6f70'", false},
    {"torch-cuda",
     CARD ", 'software.torch_version': '2.9.1', 'software.torch_cuda_version': '12.8'", true},
    {"torch-cuda", CARD ", " TORCH("2.9.1+rocm6.4"), false},
    {"torch-cpu", CARD ", 'software.torch_version': '2.9.1+cpu'", true},
    {"torch-cpu", CARD ", " TORCH("2.9.1+rocm6.4"), false},
    {"torch-no-kernels", CARD ", 'software.torch_targets': 'gfx1030 gfx90a'", true},
    {"torch-no-kernels", CARD ", 'software.torch_targets': 'gfx1030 gfx1100 gfx90a'", false},
    {"torch-no-kernels", CARD ", 'software.torch_targets': 'gfx11-generic'", false},
    {"torch-no-kernels",
     CARD ", 'software.torch_targets': 'gfx1030', 'env.HSA_OVERRIDE_GFX_VERSION': '10.3.0'", false},
    {"runtime-mix", "'software.wheel_runtime_number': 604, 'software.path_runtime_number': 700",
     true},
    {"runtime-mix", "'software.wheel_runtime_number': 604, 'software.path_runtime_number': 604",
     false},
    {"runtime-mix", "'software.wheel_runtime_number': 604", false},
    {"alloc-not-read", TORCH("2.6.0+rocm6.2") ", 'env.PYTORCH_CUDA_ALLOC_CONF': 'backend:native'",
     true},
    {"alloc-not-read", TORCH("2.7.0+rocm6.3") ", 'env.PYTORCH_CUDA_ALLOC_CONF': 'backend:native'",
     false},
    {"alloc-not-read", TORCH("2.8.0+rocm6.4") ", " NEW_CONF("backend:native"), true},
    {"alloc-not-read", TORCH("2.9.0+rocm6.4") ", " NEW_CONF("backend:native"), false},
    {"alloc-not-read", NEW_CONF("backend:native"), false},
    {"alloc-overruled", TORCH("2.9.0+rocm6.4") ", " NEW_CONF("backend:native") ", " CONF("x:1"),
     true},
    {"alloc-overruled", TORCH("2.6.0+rocm6.2") ", " NEW_CONF("backend:native") ", " CONF("x:1"),
     false},
    {"alloc-unknown", CONF("max_split_size:128"), true},
    {"alloc-unknown", CONF("max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]"),
     false},
    {"alloc-split-too-small", CONF("max_split_size_mb:19"), true},
    {"alloc-split-too-small", TORCH("2.8.0") ", " CONF("max_split_size_mb:20"), true},
    {"alloc-split-too-small", TORCH("2.9.0") ", " CONF("max_split_size_mb:20"), false},
    {"alloc-split-too-small", TORCH("2.8.0") ", " CONF("max_split_size_mb:21"), false},
    {"alloc-roundup", CONF("roundup_power2_divisions:3"), true},
    {"alloc-roundup", CONF("roundup_power2_divisions:4"), false},
    {"alloc-roundup", CONF("roundup_power2_divisions:[256:1,>:4]"), false},
    {"alloc-expandable-split",
     TORCH("2.12.0+rocm7.2") ", " CONF("expandable_segments:True,max_split_size_mb:256"), true},
    {"alloc-expandable-split",
     TORCH("2.10.0+rocm7.0") ", " CONF("expandable_segments:True,max_split_size_mb:256"), false},
    {"alloc-expandable-split",
     TORCH("2.12.0+rocm7.2") ", " CONF("expandable_segments:False,max_split_size_mb:256"), false},
    {"alloc-expandable-split", TORCH("2.12.0+rocm7.2") ", " CONF("expandable_segments:True"),
     false},
    {"alloc-expandable-ignored", TORCH("2.10.0+rocm7.0") ", " CONF("expandable_segments:True"),
     true},
    {"alloc-expandable-ignored", TORCH("2.11.0+rocm7.0") ", " CONF("expandable_segments:True"),
     false},
    {"alloc-expandable-ignored", TORCH("2.10.0+rocm7.0") ", " CONF("expandable_segments:False"),
     false},
    {"alloc-gc-alone", CONF("garbage_collection_threshold:0.8"), true},
    {"alloc-gc-alone", CONF("max_split_size_mb:128"), false},
    {"no-caching", "'env.PYTORCH_NO_HIP_MEMORY_CACHING': '0'", true},
    {"no-caching", "'env.PYTORCH_NO_CUDA_MEMORY_CACHING': '1'", true},
    {"no-caching", CARD, false},
    {"xnack", CARD ", 'env.HSA_XNACK': '1'", true},
    {"xnack", CARD ", 'env.HSA_XNACK': '0'", false},
    {"xnack", GPU_NODE ", 'gpu.0.gfx': 'gfx90a', 'env.HSA_XNACK': '1'", false},
    {"gpu-max-alloc", "'env.GPU_MAX_ALLOC_PERCENT': '100'", true},
    {"gpu-max-alloc", "'env.GPU_SINGLE_ALLOC_PERCENT': '100'", false},
    {"single-alloc", "'env.GPU_SINGLE_ALLOC_PERCENT': '85'", true},
    {"single-alloc", "'env.GPU_SINGLE_ALLOC_PERCENT': '100'", false},
    {"heap-size", "'env.GPU_MAX_HEAP_SIZE': '99'", true},
    {"heap-size", "'env.GPU_MAX_HEAP_SIZE': '100'", false},
    {"hidden-free", "'env.HIP_HIDDEN_FREE_MEM': '320'", true},
    {"hidden-free", "'env.HIP_HIDDEN_FREE_MEM': '0'", false},
    {"sdma-off", "'env.HSA_ENABLE_SDMA': '0'", true},
    {"sdma-off", "'env.HSA_ENABLE_SDMA': '1'", false},
    {"interrupt-off", "'env.HSA_ENABLE_INTERRUPT': '0'", true},
    {"interrupt-off", "'env.HSA_ENABLE_INTERRUPT': '1'", false},
    {"debugging-on", "'env.AMD_SERIALIZE_KERNEL': '3'", true},
    {"debugging-on", "'env.HIP_LAUNCH_BLOCKING': '1'", true},
    {"debugging-on", "'env.AMD_SERIALIZE_KERNEL': '0', 'env.HIP_LAUNCH_BLOCKING': '0'", false},
    {"ttm-all-ram", APU ", 'host.ttm_limit_bytes': '100 GiB'", true},
    {"ttm-all-ram", APU ", 'host.ttm_limit_bytes': '99 GiB'", false},
    {"ttm-all-ram", CARD ", 'host.mem_total_bytes': '64 GiB', 'host.ttm_limit_bytes': '64 GiB'",
     false},
    {"ttm-over", APU ", 'host.ttm_limit_bytes': '91 GiB'", true},
    {"ttm-over", APU ", 'host.ttm_limit_bytes': '90 GiB'", false},
    {"apu-carveout-only",
     GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.vram.total_bytes': '4 GiB', 'host.kernel': '6.9.12', "
              "'host.kernel_version': 60912",
     true},
    {"apu-carveout-only",
     GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.vram.total_bytes': '4 GiB', 'host.kernel': '6.10.0', "
              "'host.kernel_version': 61000",
     false},
    {"apu-carveout-unused",
     GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.vram.total_bytes': '96 GiB', 'host.ttm_limit_bytes': "
              "'15.48 GiB', 'host.kernel': '6.14.11', 'host.kernel_version': 61411",
     true},
    {"apu-carveout-unused",
     GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.vram.total_bytes': '96 GiB', 'host.ttm_limit_bytes': "
              "'15.48 GiB', 'host.kernel': '6.15.0', 'host.kernel_version': 61500",
     false},
    {"apu-carveout-unused",
     GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.vram.total_bytes': '4 GiB', 'host.ttm_limit_bytes': "
              "'15.48 GiB', 'host.kernel': '6.14.11', 'host.kernel_version': 61411",
     false},
    {"ttm-half", APU ", 'host.ttm_limit_bytes': '50 GiB'", true},
    {"ttm-half", APU ", 'host.ttm_limit_bytes': '55 GiB'", true},
    {"ttm-half", APU ", 'host.ttm_limit_bytes': '56 GiB'", false},
    {"ttm-half", CARD ", 'host.mem_total_bytes': '64 GiB', 'host.ttm_limit_bytes': '32 GiB'",
     false},
    {"ttm-half", APU ", 'host.ttm_limit_bytes': '50 GiB', 'gpu.count': 2, 'gpu.1.is_apu': false",
     true},
    {"ttm-wrong-module",
     "'host.kernel_cmdline': 'quiet ttm.pages_limit=9', 'host.ttm_module': 'amdttm'", true},
    {"ttm-wrong-module",
     "'host.kernel_cmdline': 'quiet amdttm.pages_limit=9', 'host.ttm_module': 'amdttm'", false},
    {"ttm-wrong-module",
     "'host.kernel_cmdline': 'quiet ttm.pages_limit=9', 'host.ttm_module': 'ttm'", false},
    {"gttsize", "'host.gttsize_mib': 128000, 'host.kernel_version': 60500", true},
    {"gttsize", "'host.gttsize_mib': 128000", true},
    {"gttsize", "'host.kernel_cmdline': 'amdgpu.gttsize=128000', 'host.kernel_version': 61700",
     true},
    {"gttsize", "'host.gttsize_mib': 128000, 'host.kernel_version': 60499", false},
    {"gttsize", "'host.kernel_cmdline': 'quiet', 'host.kernel_version': 61700", false},
    {"gttsize-misspelt", "'host.kernel_cmdline': 'amdgpu.gtt_size=128000'", true},
    {"gttsize-misspelt", "'host.kernel_cmdline': 'amdgpu.gttsize=128000'", false},
    {"vm-size", "'host.kernel_cmdline': 'amdgpu.vm_size=131072'", true},
    {"vm-size", "'host.kernel_cmdline': 'quiet'", false},
    {"no-memory-limit", "'host.no_system_mem_limit': true", true},
    {"no-memory-limit", "'host.no_system_mem_limit': false", false},
    {"no-recovery", "'host.kernel_cmdline': 'amdgpu.gpu_recovery=0'", true},
    {"no-recovery", "'host.kernel_cmdline': 'amdgpu.gpu_recovery=1'", false},
    {"page-pool", "'host.kernel_cmdline': 'ttm.page_pool_size=100'", true},
    {"page-pool", "'host.kernel_cmdline': 'quiet'", false},
    {"kernel-gfx1151", APU ", 'f.x': 1", false},
    {"kernel-gfx1151",
     GPU_NODE ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.18.3', 'host.kernel_version': 61803",
     true},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.17.0-18-generic', 'host.kernel_version': 61700",
     true},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.17.0-19-generic', 'host.kernel_version': 61700",
     false},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.14.0-1017-oem', 'host.kernel_version': 61400",
     true},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.14.0-1018-oem', 'host.kernel_version': 61400",
     false},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.17.0-1003-oem', 'host.kernel_version': 61700",
     false},
    {"kernel-gfx1151",
     GPU_NODE
     ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.11.0-1027-oem', 'host.kernel_version': 61100",
     true},
    {"kernel-gfx1151",
     GPU_NODE ", 'gpu.0.gfx': 'gfx1100', 'host.kernel': '6.12.0', 'host.kernel_version': 61200",
     false},
    {"kernel-gfx1151",
     GPU_NODE ", 'gpu.0.gfx': 'gfx1151', 'host.kernel': '6.12.0', 'host.kernel_version': 61200, "
              "'host.amdgpu_version': '6.16.6'",
     false},
    {"vram-full", CARD ", 'gpu.0.vram.used_bytes': '21.7 GiB'", true},
    {"vram-full", CARD ", 'gpu.0.vram.used_bytes': '21.5 GiB'", false},
    {"vram-full", APU ", 'gpu.0.vram.used_bytes': '510 MiB'", false},
    {"vram-held", CARD ", 'gpu.0.vram.used_bytes': '2.5 GiB'", true},
    {"vram-held", CARD ", 'gpu.0.vram.used_bytes': '2.3 GiB'", false},
    {"vram-held", GPU_NODE ", 'gpu.0.vram.total_bytes': '8 GiB', 'gpu.0.vram.used_bytes': '2 GiB'",
     true},
    {"vram-held",
     GPU_NODE ", 'gpu.0.vram.total_bytes': '8 GiB', 'gpu.0.vram.used_bytes': '1.9 GiB'", false},
    {"visible-full",
     CARD
     ", 'gpu.0.vram_visible.total_bytes': '256 MiB', 'gpu.0.vram_visible.used_bytes': '244 MiB'",
     true},
    {"visible-full",
     CARD
     ", 'gpu.0.vram_visible.total_bytes': '256 MiB', 'gpu.0.vram_visible.used_bytes': '243 MiB'",
     false},
    {"small-bar", CARD ", 'gpu.0.vram_visible.total_bytes': '256 MiB'", true},
    {"small-bar", CARD ", 'gpu.0.vram_visible.total_bytes': '24 GiB'", false},
    {"host-memory", "'host.mem_total_bytes': '100 GiB', 'host.mem_available_bytes': '9.9 GiB'",
     true},
    {"host-memory", "'host.mem_total_bytes': '100 GiB', 'host.mem_available_bytes': '10 GiB'",
     false},
    {"cgroup-limit", CARD ", 'host.mem_total_bytes': '64 GiB', 'host.cgroup_limit_bytes': '23 GiB'",
     true},
    {"cgroup-limit", CARD ", 'host.mem_total_bytes': '64 GiB', 'host.cgroup_limit_bytes': '24 GiB'",
     false},
    {"cgroup-limit", CARD ", 'host.mem_total_bytes': '64 GiB', 'host.cgroup_limit_bytes': null",
     false},
    {"shm-small", "'host.shm_total_bytes': '64 MiB'", true},
    {"shm-small", "'host.shm_total_bytes': '65 MiB'", false},
    {"map-count", GPU_NODE ", 'gpu.0.kfd_bank_bytes': '192 GiB', 'host.max_map_count': 65530",
     true},
    {"map-count", GPU_NODE ", 'gpu.0.kfd_bank_bytes': '192 GiB', 'host.max_map_count': 1048576",
     false},
    {"map-count", GPU_NODE ", 'gpu.0.kfd_bank_bytes': '115 GiB', 'host.max_map_count': 65530",
     false},
    {"map-count", GPU_NODE ", 'gpu.0.kfd_bank_bytes': '116 GiB', 'host.max_map_count': 65530",
     true},
    {"open-files", "'proc.0.fds_limit': 1023", true},
    {"open-files", "'proc.0.fds_limit': 1024", false},
    {"open-files-rocm-7.14", RUNTIME("7.14.1") ", 'proc.0.fds_limit': 65535", true},
    {"open-files-rocm-7.14", RUNTIME("7.14.1") ", 'proc.0.fds_limit': 65536", false},
    {"open-files-rocm-7.14", RUNTIME("7.2.1") ", 'proc.0.fds_limit': 1024", false},
    {"open-files-rocm-7.14", RUNTIME("10.0.0") ", 'proc.0.fds_limit': 1024", false},
    {"address-space", "'proc.0.address_space_limit_bytes': '64 GiB'", true},
    {"address-space", "'proc.0.address_space_limit_bytes': null", false},
    {"memlock-rdma", "'host.rdma_devices': 1, 'proc.0.memlock_limit_bytes': '8 MiB'", true},
    {"memlock-rdma", "'host.rdma_devices': 1, 'proc.0.memlock_limit_bytes': '1 GiB'", false},
    {"memlock-rdma", "'host.rdma_devices': 0, 'proc.0.memlock_limit_bytes': '8 MiB'", false},
    {"rocm-6.4.0", RELEASE("6.4.0"), true},
    {"rocm-6.4.0", RELEASE("6.4.1"), true},
    {"rocm-6.4.0", RELEASE("6.4.2"), false},
    {"rocm-6.4.0", RELEASE("6.3.4"), false},
    {"rocm-6.4.0", "'software.path_runtime_release': '7.0.0', " RELEASE("6.4.0"), false},
    {"rocm-6.4.0", RUNTIME("6.4"), false}, /* a wheel without its patch level */
    {"rocm-5.6.0", RELEASE("5.6.0"), true},
    {"rocm-5.6.0", RELEASE("5.6.1"), false},
    {"rocm-untested", RUNTIME("8.0.0"), true},
    {"rocm-untested", RUNTIME("10.1.0"), true},
    {"rocm-untested", RUNTIME("5.1.3"), true},
    {"rocm-untested", RUNTIME("7.2.4"), false},
    {"rocm-untested", RUNTIME("7.10.0a20251120"), true},
    {"rocm-untested", RUNTIME("5.2.3"), false},
    {"rocm-untested", CARD, false},
    {"rocm-single-cap", RUNTIME("6.3.4"), true},
    {"rocm-single-cap", RUNTIME("6.4.0"), false},
    {"rocm-single-cap", RUNTIME("6.3.4") ", 'env.GPU_SINGLE_ALLOC_PERCENT': '100'", false},
    {"failed-before", "'kmsg.first_bad': 'gpu-hang', 'kmsg.bad_sequence': 'gpu-hang'", true},
    {"failed-before", "'kmsg.first_bad': 'host-oom', 'kmsg.bad_sequence': 'host-oom gpu-hang'",
     true},
    {"failed-before", "'kmsg.first_bad': 'host-oom', 'kmsg.bad_sequence': 'host-oom'", false},
    {"failed-before", "'kmsg.readable': true", false},
    {"oom-before", "'kmsg.first_bad': 'host-oom', 'kmsg.bad_sequence': 'host-oom'", true},
    {"oom-before", "'kmsg.first_bad': 'gpu-hang', 'kmsg.bad_sequence': 'gpu-hang'", false},
    {"oom-before", "'kmsg.readable': true", false},
    {"trace-refused", "'host.trace_access': 'Operation not permitted', 'host.ptrace_scope': 3", true},
    {"trace-refused", "'host.trace_access': 'Bad system call', 'host.seccomp_filter': true", true},
    {"trace-refused", "'host.trace_access': 'yes', 'host.ptrace_scope': 1", false},
    {"trace-refused", "'host.ptrace_scope': 3", false},
    {"trace-late",
     "'host.container': 'docker', 'host.trace_access': 'yes', 'host.trace_capability': false", true},
    {"trace-late",
     "'host.container': 'docker', 'host.trace_access': 'yes', 'host.trace_capability': true", false},
    {"trace-late", "'host.trace_access': 'yes', 'host.trace_capability': false", false},
    {"trace-late",
     "'host.container': 'docker', 'host.trace_access': 'Operation not permitted', "
     "'host.trace_capability': false",
     false},
    {"log-access", "'host.dmesg_restrict': 1, 'host.is_root': false", true},
    {"log-access", "'host.dmesg_restrict': 0, 'host.is_root': false", false},
    {"log-access", "'host.dmesg_restrict': 1, 'kmsg.readable': true, 'host.is_root': false", false},
    {"log-access", "'host.dmesg_restrict': 1, 'host.is_root': true", false},
};

/* All inputs are known and good. */
static const char healthy[] = CARD ", " TORCH(
    "2.9.1+rocm6.4") ", 'host.kfd_access': 'yes', 'gpu.0.render_access': 'yes', "
                     "'gpu.0.pci': '0000:03:00.0', 'gpu.0.hsa.pool_bytes': '24 GiB', "
                     "'gpu.0.render_minor': 128, 'host.kernel': "
                     "'6.12.48+deb13-amd64', "
                     "'host.kernel_version': 61248, 'host.kernel_cmdline': 'quiet', "
                     "'host.mem_total_bytes': '64 GiB', "
                     "'host.mem_available_bytes': '50 GiB', 'host.ttm_limit_bytes': '32 GiB', "
                     "'host.ttm_module': 'ttm', "
                     "'host.max_map_count': 65530, 'proc.0.fds_limit': 1024, "
                     "'proc.0.memlock_limit_bytes': '8 MiB', "
                     "'host.rdma_devices': 0, 'host.shm_total_bytes': '32 GiB', 'kmsg.readable': "
                     "true, "
                     "'host.dmesg_restrict': 1, 'host.is_root': true, 'host.trace_access': 'yes', "
                     "'gpu.0.vram.used_bytes': "
                     "'700 MiB', "
                     "'gpu.0.vram_visible.total_bytes': '24 GiB', 'gpu.0.vram_visible.used_bytes': "
                     "'700 MiB', "
                     "'software.torch_targets': 'gfx1030 gfx1100 gfx90a', 'software.hsa_starts': "
                     "true, "
                     "'software.wheel_runtime_version': '6.4.2', 'software.wheel_runtime_release': "
                     "'6.4.2', 'software.wheel_runtime_number': 604, "
                     "'gpu.0.kfd_bank_bytes': '24 GiB'";

static struct doctor_rules *rules;
static struct computed *computed;
static cJSON *document; /* the text of the file, for the ids */

static int read_file(void **state)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    (void)state;
    ssize_t len = fs_read_all(TEST_SOURCE_DIR "/templates/doctor.json", 1u << 20, &text);
    if (len < 0)
        return -1;
    document = cJSON_ParseWithLength(text, (size_t)len);
    computed = computed_read(TEST_SOURCE_DIR "/templates/computed.json", &err);
    rules = doctor_rules_parse(text, (size_t)len, "doctor.json", &err);
    if (rules == NULL)
        (void)fprintf(stderr, "%s\n", err.msg);
    return rules != NULL && computed != NULL && document != NULL ? 0 : -1;
}

static int free_file(void **state)
{
    (void)state;
    doctor_rules_free(rules);
    computed_free(computed);
    cJSON_Delete(document);
    return 0;
}

static struct doctor_report examine(const char *quoted)
{
    static char text[8192];
    struct doctor_report report;
    struct rc_err err = {""};
    (void)snprintf(text, sizeof text, "{%s}", quoted);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    cJSON *json = cJSON_Parse(text);
    struct facts *facts = facts_new();
    if (json == NULL)
        fail_msg("not JSON: %s", text);
    assert_int_equal(0, facts_from_json(facts, json, &err));
    assert_int_equal(0, doctor_examine(facts, computed, rules, &report, &err));
    cJSON_Delete(json);
    facts_free(facts);
    return report;
}

static const struct doctor_finding *find(const struct doctor_report *report, const char *id)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (strcmp(report->findings[i].id, id) == 0)
            return &report->findings[i];
    return NULL;
}

static void test_each_side(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct doctor_report report = examine(rows[i].facts);
        const struct doctor_finding *f = find(&report, rows[i].rule);
        if ((f != NULL) != rows[i].found)
            fail_msg("row %zu: %s is %sfound with %s", i, rows[i].rule, f != NULL ? "" : "not ",
                     rows[i].facts);
        if (f != NULL && (f->say[0] == '\0' || f->mend[0] == '\0' || f->verify[0] == '\0' ||
                          f->source[0] == '\0' || strstr(f->mend, "(unknown)") != NULL))
            fail_msg("row %zu: %s says '%s', mends '%s', verifies '%s'", i, rows[i].rule, f->say,
                     f->mend, f->verify);
        doctor_report_release(&report);
    }
}

/* A rule is tested only if some row triggers it and some row does not. */
static void test_every_rule_has_both_sides(void **state)
{
    (void)state;
    const cJSON *item = NULL;
    int untested = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(document, "rules"))
    {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "id"));
        bool sides[2] = {false, false};
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (strcmp(rows[i].rule, id) == 0)
                sides[rows[i].found] = true;
        if (!sides[0] || !sides[1]) {
            (void)fprintf(stderr, "rule '%s' has no row on %s side\n", id,
                          sides[0] ? "the found" : "the other");
            untested++;
        }
    }
    assert_int_equal(0, untested);
}

static void test_healthy(void **state)
{
    (void)state;
    struct doctor_report report = examine(healthy);
    for (size_t i = 0; i < report.finding_count; i++)
        (void)fprintf(stderr, "%s: %s\n", report.findings[i].id, report.findings[i].say);
    for (size_t i = 0; i < report.undecided_count; i++)
        (void)fprintf(stderr, "undecided %s: %s\n", report.undecided[i].id,
                      report.undecided[i].missing);
    assert_int_equal(0, report.finding_count);
    assert_int_equal(DOCTOR_NOTE, doctor_worst(&report));
    assert_int_equal(0, report.undecided_count);
    doctor_report_release(&report);
}

/* Advice without a source must not be given on any machine. */
static void test_never_advised(void **state)
{
    static const char *const never[] = {
        "gttsize=",          "vm_size=",   "page_pool_size=", "10.3.0",
        "HSA_ENABLE_SDMA=0", "--gpureset", "downgrade",       "0666"};
    (void)state;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(document, "rules"))
    {
        RC_AUTO_FREE char *mend =
            cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(item, "mend"));
        for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
            if (strstr(mend, never[i]) != NULL)
                fail_msg("advised: %s", mend);
        bool both = strstr(mend, "expandable_segments:True") != NULL &&
                    strstr(mend, "max_split_size_mb:") != NULL;
        assert_false(both);
    }
}

/* The reason why tracing is refused decides the advice; a container's flag helps only in a
 * container. */
static void test_tracing_is_mended_where_it_is_refused(void **state)
{
    static const struct {
        const char *facts, *mend;
    } cases[] = {
        {"'host.ptrace_scope': 3, 'host.container': 'podman'", "/etc/sysctl.d/"},
        {"'host.ptrace_scope': 2, 'host.trace_capability': false", "sudo sysctl"},
        {"'host.ptrace_scope': 2, 'host.trace_capability': false, 'host.container': 'docker'",
         "--cap-add SYS_PTRACE, as its root"},
        {"'host.ptrace_scope': 1, 'host.seccomp_filter': true, 'host.container': 'docker'",
         "seccomp=unconfined"},
        {"'host.seccomp_filter': true", "SystemCallFilter"},
        {"'host.ptrace_scope': 2, 'host.trace_capability': true, 'host.seccomp_filter': false",
         "SELinux"},
        {"'host.container': 'docker'", "SELinux"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char facts[256];
        (void)snprintf(facts, sizeof facts, "'host.trace_access': 'Operation not permitted', %s",
                       cases[i].facts);
        struct doctor_report report = examine(facts);
        const struct doctor_finding *f = find(&report, "trace-refused");
        assert_non_null(f);
        if (strstr(f->mend, cases[i].mend) == NULL)
            fail_msg("case %zu: %s", i, f->mend);
        doctor_report_release(&report);
    }
}

/* The advice has the figures of this machine, not "N". */
static void test_exact_commands(void **state)
{
    (void)state;
    struct doctor_report report =
        examine(APU ", 'host.mem_total_bytes': 134306717696, 'host.ttm_limit_bytes': '62.54 GiB'");
    doctor_report_release(&report);
    report = examine(GPU_NODE ", 'gpu.0.is_apu': true, 'gpu.0.gfx': 'gfx1151', 'host.ttm_module': "
                              "'amdttm', 'host.mem_total_bytes': 134306717696, "
                              "'host.ttm_limit_bytes': 67149504512, 'host.kernel_version': 61804");
    const struct doctor_finding *f = find(&report, "ttm-half");
    assert_non_null(f);
    assert_non_null(strstr(f->mend, "amdttm.pages_limit=29360128"));
    assert_non_null(strstr(f->say, "62.54 GiB of 125.08 GiB"));
    assert_non_null(strstr(f->verify, "/sys/module/amdttm/parameters/pages_limit"));
    doctor_report_release(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_side),      cmocka_unit_test(test_every_rule_has_both_sides),
        cmocka_unit_test(test_healthy),        cmocka_unit_test(test_never_advised),
        cmocka_unit_test(test_exact_commands),
        cmocka_unit_test(test_tracing_is_mended_where_it_is_refused),
    };
    return cmocka_run_group_tests(tests, read_file, free_file);
}
