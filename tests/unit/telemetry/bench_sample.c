/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures: what one sample of a machine costs, and how many values it obtains.
 *
 *   bench_sample [GPUS]     made-up machine with GPUS cards (default 8), all counters, all changing
 *
 * The number of values is printed with every time: a sampler that reads nothing would be fast, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "help.h"
#include "record/shared.h"
#include "telemetry/sampler_internal.h"

#define ROUNDS 2000

static unsigned count_ok(const struct values *v, unsigned gpus, bool slow)
{
    unsigned n = 0;
    for (unsigned g = 0; g < gpus; g++)
        for (int m = METRIC_GPU_VRAM_TOTAL; m <= METRIC_GPU_PREEMPT_USED; m++) {
            bool is_slow = m >= METRIC_GPU_BUSY && m <= METRIC_GPU_MCLK;
            bool is_total = m == METRIC_GPU_VRAM_TOTAL || m == METRIC_GPU_VIS_TOTAL ||
                            m == METRIC_GPU_GTT_TOTAL;
            n += v->gpus[g][m].known && v->gpus[g][m].status == VALUE_OK && !is_total &&
                 is_slow == slow;
        }
    return n;
}

static void report(const char *what, uint64_t wall, uint64_t cpu, unsigned rounds, unsigned values)
{
    (void)printf("%-34s %8.1f us wall, %8.1f us CPU, %u values\n", what,
                 (double)wall / 1e3 / rounds, (double)cpu / 1e3 / rounds, values);
}

static void bench_fast(struct sampler *s, const char *root)
{
    uint64_t wall = 0;
    uint64_t cpu = 0;
    char path[128];
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (uint32_t g = 0; g < s->machine.count; g++) {
            (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/mem_info_vram_used", g);
            if (i % 100 == 0)
                help_write_u64(root, path, 5000000000u + i);
        }
        uint64_t w = clock_mono_ns();
        uint64_t c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint32_t g = 0; g < s->machine.count; g++)
            sampler_gpu_fast(s, g);
        size_t len = values_record(&s->values, 0, clock_mono_ns());
        if (len > 0)
            ring_write(&s->shared->samples, &s->values.record, len);
        cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID) - c;
        wall += clock_mono_ns() - w;
    }
    report("device memory, all GPUs", wall, cpu, ROUNDS,
           count_ok(&s->values, s->machine.count, false));
}

static void bench_slow(struct sampler *s)
{
    uint64_t w = clock_mono_ns();
    uint64_t c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < ROUNDS; i++)
        for (uint32_t g = 0; g < s->machine.count; g++)
            sampler_gpu_slow(s, g);
    report("load, temperature, power, clocks", clock_mono_ns() - w,
           clock_ns(CLOCK_THREAD_CPUTIME_ID) - c, ROUNDS,
           count_ok(&s->values, s->machine.count, true));
}

static void bench_procs(struct sampler *s)
{
    s->shared->target_pid = getpid();
    s->self_pid = 0;
    sampler_procs_turn(s);
    uint64_t w = clock_mono_ns();
    uint64_t c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < ROUNDS; i++) {
        sampler_kfd_turn(s);
        sampler_procs_turn(s);
    }
    unsigned values = 0;
    for (int m = 0; m < VALUES_PROC_METRICS; m++)
        values += s->values.procs[0].values[m].known &&
                  s->values.procs[0].values[m].status == VALUE_OK;
    report("one process", clock_mono_ns() - w, clock_ns(CLOCK_THREAD_CPUTIME_ID) - c, ROUNDS,
           values);
    w = clock_mono_ns();
    c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < ROUNDS; i++)
        sampler_host_read(s);
    report("host", clock_mono_ns() - w, clock_ns(CLOCK_THREAD_CPUTIME_ID) - c, ROUNDS, 8);
}

static void write_held(const struct sampler *s, const char *root, uint64_t bytes)
{
    char path[128];
    for (uint32_t g = 0; g < s->machine.count; g++) {
        (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%d/vram_%u", getpid(),
                       s->machine.gpus[g].kfd_gpu_id);
        help_write_u64(root, path, bytes);
    }
}

/* After bench_procs(): the process is known. */
static void bench_follow(struct sampler *s, const char *root)
{
    uint64_t wall = 0;
    uint64_t cpu = 0;
    unsigned values = 0;
    write_held(s, root, 1);
    sampler_kfd_turn(s);
    sampler_procs_turn(s);
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 100 == 0)
            write_held(s, root, 5000000000u + i);
        uint64_t w = clock_mono_ns();
        uint64_t c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint32_t g = 0; g < s->machine.count; g++)
            sampler_procs_follow(s, g);
        cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID) - c;
        wall += clock_mono_ns() - w;
        for (uint32_t g = 0; g < s->machine.count; g++)
            values += s->kfd[0].bytes[g] == 5000000000u + i;
    }
    report("memory of one process, all GPUs", wall, cpu, ROUNDS, values / (ROUNDS / 100));
}

int main(int argc, char **argv)
{
    unsigned gpus = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 8;
    char root[256];
    int fd = -1;
    if (gpus == 0 || gpus > 64)
        return 2;
    help_make_dir(root, sizeof root);
    help_fake_machine(root, gpus, 1000000);
    fs_set_sysroot(root);
    struct shared *shared = shared_create(&fd, NULL);
    static struct sampler s;
    if (shared == NULL)
        return 1;
    uint64_t w = clock_mono_ns();
    uint64_t c = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    sampler_init(&s, shared);
    sampler_begin(&s);
    report("start: scan, open, baseline", clock_mono_ns() - w,
           clock_ns(CLOCK_THREAD_CPUTIME_ID) - c, 1,
           s.values.record.header.entries);
    bench_fast(&s, root);
    bench_slow(&s);
    bench_procs(&s);
    bench_follow(&s, root);
    help_remove(root);
    return 0;
}
