/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the rest of what a machine shows, through whole collectors: host, GPUs, control
 * group, limits, job, devcoredump, and the environment of the target.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "collect/collector.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const struct collector collector_host;
extern const struct collector collector_gpu;
extern const struct collector collector_cgroup;
extern const struct collector collector_limits;
extern const struct collector collector_job;
extern const struct collector collector_environment;
extern const struct collector collector_devcoredump;

#define CARD "sys/class/drm/card0/device/"
#define ENVIRONMENT_MAX 16

static const char *const names[] = {
    "proc/version",
    "proc/cmdline",
    "proc/modules",
    "proc/cpuinfo",
    "proc/meminfo",
    "etc/os-release",
    "proc/7/cgroup",
    "proc/7/limits",
    "proc/self/mountinfo",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory.events",
    CARD "uevent",
    CARD "mem_info_vram_total",
    CARD "pp_dpm_sclk",
    CARD "ras/umc_err_count",
    CARD "unique_id",
    CARD "hwmon/hwmon0/temp1_input",
    CARD "devcoredump/data",
    "sys/class/kfd/kfd/topology/nodes/1/properties",
    "sys/class/kfd/kfd/topology/nodes/1/gpu_id",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct collector *const all[] = {
        &collector_host, &collector_gpu,         &collector_cgroup,     &collector_limits,
        &collector_job,  &collector_environment, &collector_devcoredump};
    static const char *const argv[] = {"python3", "train.py", NULL};
    const char *environment[ENVIRONMENT_MAX + 1] = {NULL};
    const char *root = pieces_folder();
    fs_set_sysroot(root);
    char *lines = pieces_next(&data, &size);
    char *rest = NULL;
    size_t count = 0;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL && count < ENVIRONMENT_MAX;
         line = strtok_r(NULL, "\n", &rest))
        environment[count++] = line;
    pieces_fill(names, sizeof names / sizeof names[0], data, size);
    struct collect_ctx ctx = {.run_dir = root,
                              .target_pid = 7,
                              .failed_pid = 7,
                              .argv = argv,
                              .cwd = "/",
                              .maps = "",
                              .fds = "",
                              .environ_at_impact = environment,
                              .start_mono_ns = 1,
                              .end_mono_ns = UINT64_C(4000000000000),
                              .deadline_mono_ns = UINT64_MAX};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        (void)all[i]->run(&ctx, NULL);
    free(lines);
    return 0;
}
