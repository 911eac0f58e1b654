/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what the hook in the target's Python left in the run directory (anybody in the
 * program can write there), through its collector. First byte: which process failed; then the files
 * below, parted by 0xff.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "collect/collector.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const struct collector collector_hook;

static const char *const names[] = {
    "hook/events",
    "hook/7.oom.first.json",
    "hook/7.oom.last.json",
    "hook/7.snapshot.last.json",
    "hook/7.torch.csv",
    "hook/8.exit.json",
    "hook/8.snapshot.exit.json",
    "hook/8.torch.csv",
    "hook/faults",
    "samples.0000",
    "hook/7.live.csv",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const nothing[] = {NULL};
    if (size == 0)
        return 0;
    pieces_fill(names, sizeof names / sizeof names[0], data + 1, size - 1);
    struct collect_ctx ctx = {.run_dir = pieces_folder(),
                              .failed_pid = data[0] % 16,
                              .argv = nothing,
                              .cwd = "",
                              .maps = "",
                              .fds = "",
                              .environ_at_impact = nothing,
                              .start_mono_ns = 1000000000u,
                              .end_mono_ns = (uint64_t)data[0] * 1000000000u,
                              .deadline_mono_ns = UINT64_MAX};
    (void)collector_hook.run(&ctx, NULL);
    return 0;
}
