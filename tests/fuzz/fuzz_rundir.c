/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a run directory as `recover` finds it after a power cut, or as somebody who could
 * write there left it: run.json, copies of dying processes, recorded output, samples.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "cli/run_info.h"
#include "diagnose/fact.h"
#include "pieces.h"
#include "telemetry/series.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
    "run.json", "boot",    "impact.0",     "impact.3",     "output.head",
    "output.0", "output.1", "samples.0000", "samples.0001", "gpus",
};

static void read_samples(struct facts *facts, const struct run_info *info)
{
    struct series_set set = {0};
    struct buf csv = BUF_INIT;
    double line[40];
    if (series_load(&set, info->dir, NULL) == 0) {
        const struct series_facts_options options = {
            .failed_pid = (uint32_t)info->target_pid,
            .end_ns = info->target_end_ns,
            .ended_by_exit = info->target_status == 0};
        (void)series_to_facts(facts, &set, &options);
        (void)series_to_csv(&set, info->start_mono_ns, 100, 0, &csv);
        (void)series_growth(&set, set.first_ns, set.last_ns);
        for (size_t i = 0; i < set.count && i < 8; i++)
            (void)series_downsample(&set, (enum metric)set.series[i].metric, set.series[i].instance,
                                    info->start_mono_ns, set.last_ns, line, 40);
    }
    series_release(&set);
    buf_release(&csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_info info;
    struct rc_err err = {""};
    fs_set_sysroot(pieces_folder()); /* no other boot than the run's is known */
    pieces_fill(names, sizeof names / sizeof names[0], data, size);
    struct facts *facts = facts_new();
    if (facts == NULL || run_info_load(&info, pieces_folder(), &err) < 0)
        abort(); /* what is torn costs itself only */
    if (run_info_program(&info)[0] == '\0' && info.argv != NULL && info.argv[0] != NULL &&
        info.argv[0][0] != '\0' && info.argv[1] == NULL)
        abort();
    if (info.output != NULL && strlen(info.output) > info.output_len)
        abort();
    run_info_to_facts(&info, facts);
    read_samples(facts, &info);
    run_info_release(&info);
    facts_free(facts);
    return 0;
}
