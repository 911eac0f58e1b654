/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of /proc and fdinfo. The first byte chooses the parser; the bytes end where
 * they end, without a NUL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/fdinfo.h"
#include "telemetry/procfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void one(unsigned which, const char *text, size_t len)
{
    struct fdinfo fdinfo;
    struct proc_status status;
    struct meminfo meminfo;
    struct pressure pressure;
    struct cgroup_paths paths;
    uint64_t number = 0;
    switch (which % 8) {
    case 0:
        if (fdinfo_parse(text, len, &fdinfo))
            must(memchr(fdinfo.driver, 0, sizeof fdinfo.driver) != NULL &&
                 memchr(fdinfo.pdev, 0, sizeof fdinfo.pdev) != NULL);
        break;
    case 1:
        procfs_parse_status(text, len, &status);
        must(memchr(status.name, 0, sizeof status.name) != NULL);
        break;
    case 2:
        procfs_parse_meminfo(text, len, &meminfo);
        break;
    case 3:
        procfs_parse_pressure(text, len, &pressure);
        break;
    case 4:
        (void)procfs_parse_fd_limit(text, len, &number);
        break;
    case 5:
        procfs_parse_cgroup(text, len, &paths);
        must(memchr(paths.v2, 0, sizeof paths.v2) != NULL &&
             memchr(paths.v1_memory, 0, sizeof paths.v1_memory) != NULL);
        break;
    case 6:
        (void)procfs_parse_oom_kills(text, len, &number);
        break;
    default:
        must(procfs_count_lines(text, len) <= len + 1);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        one(data[0], (const char *)data + 1, size - 1);
    return 0;
}
