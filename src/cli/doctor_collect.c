/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_collect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "collect/runner.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "record/shared.h"
#include "recorder/flush.h"
#include "telemetry/sampler.h"
#include "telemetry/series.h"

#define COLLECTORS_MAX 64
#define COLLECT_MS 5000u
#define SAMPLE_MS 1500u
#define KILL_MS 300u
#define LOG_MAX ((size_t)8 << 20)

static uint64_t in_ms(uint64_t ms)
{
    return clock_mono_ns() + ms * NS_PER_MS;
}

/* --- the sampler's baseline record --- */

static pid_t start_sampler(struct shared *shared)
{
    shared_set_supervisor(shared);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sampler_run(shared);
}

/* A sampler in D state does not die of SIGKILL: it is left behind. */
static void end_sampler(pid_t pid)
{
    uint64_t until = in_ms(KILL_MS);
    (void)kill(pid, SIGKILL);
    pid_t reaped;
    while (((reaped = waitpid(pid, NULL, WNOHANG)) == 0 || (reaped < 0 && errno == EINTR)) &&
           clock_mono_ns() < until)
        (void)poll(NULL, 0, 1);
}

static void series_facts_of(struct facts *facts, struct shared *shared, const char *dir)
{
    struct series_set set = {.count = 0};
    struct series_facts_options options = {.failed_pid = 0};
    struct rc_err err = {""};
    if (recorder_flush(shared, dir, &err) == 0 && series_load(&set, dir, &err) == 0)
        (void)series_to_facts(facts, &set, &options);
    series_release(&set);
}

static void take_sample(struct facts *facts, const char *dir)
{
    struct rc_err err = {""};
    int fd = -1;
    struct shared *shared = shared_create(&fd, &err);
    pid_t pid = shared != NULL ? start_sampler(shared) : -1;
    uint64_t until = in_ms(SAMPLE_MS);
    if (pid > 0) {
        while (shared->sampler_baseline_done == 0 && clock_mono_ns() < until)
            (void)poll(NULL, 0, 2);
        end_sampler(pid);
        series_facts_of(facts, shared, dir);
    }
    if (shared != NULL)
        (void)munmap(shared, sizeof *shared);
    if (fd >= 0)
        (void)close(fd);
}

/* --- the collectors --- */

/* The HSA runtime's answer is a finding itself: it opens the devices as a program would. */
static void on_row(const struct runner_row *row, void *arg)
{
    struct facts *facts = arg;
    static const char source[] = "hsa_init() by rocmcrash-probe";
    if (strcmp(row->name, "gpu") == 0 && row->status == COLLECT_SKIPPED)
        (void)facts_set_text(facts, "gpu.none_reason", FACT_STATIC, row->reason, "/sys/class");
    if (strcmp(row->name, "hsa") != 0)
        return;
    if (row->status == COLLECT_OK)
        (void)facts_set_boolean(facts, "software.hsa_starts", FACT_STATIC, true, source);
    else if (row->status == COLLECT_SKIPPED)
        (void)facts_set_missing(facts, "software.hsa_starts", FACT_STATIC, FACT_ABSENT, row->reason,
                                source);
    else
        (void)facts_set_text(facts, "software.hsa_error", FACT_STATIC,
                             row->reason[0] != '\0' ? row->reason : "no answer", source);
}

static int run_collectors(struct facts *facts, const char *dir, const struct collect_ctx *ctx,
                          struct rc_err *err)
{
    const struct collector *list[COLLECTORS_MAX + 1];
    size_t count = 0;
    for (const struct collector *const *c = collectors; *c != NULL && count < COLLECTORS_MAX; c++)
        if (!(*c)->needs_run)
            list[count++] = *c;
    list[count] = NULL;
    struct runner_options options = {.stage_dir = dir,
                                     .cancel_fd = -1,
                                     .total_deadline_mono_ns = in_ms(COLLECT_MS),
                                     .callback_arg = facts};
    int r = 0;
    for (int phase = COLLECT_PERISHABLE; phase <= COLLECT_SLOW && r == 0; phase++)
        r = runner_run(list, (enum collect_phase)phase, ctx, &options, facts, on_row, err);
    return r;
}

static void read_kernel_log(struct facts *facts, const char *dir)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/kernel_log/kernel.log", dir);
    ssize_t len = fs_read_all(path, LOG_MAX, &text);
    if (text != NULL)
        kernel_log_to_facts(facts, text, len >= 0 ? (size_t)len : strlen(text), "kernel log");
}

static bool make_folder(char *out, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(out, size, "%s/rocmcrash-doctor-XXXXXX",
                     tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    return n > 0 && (size_t)n < size && mkdtemp(out) != NULL;
}

int doctor_collect(struct facts *facts, const char *const *argv, struct rc_err *err)
{
    char dir[FS_PATH_MAX - 64];
    char cwd[FS_PATH_MAX];
    if (!make_folder(dir, sizeof dir))
        return rc_err_errno(err, -errno, "cannot make a folder in '%s'",
                            getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    struct collect_ctx ctx = {
        .run_dir = "",
        .argv = argv,
        .cwd = getcwd(cwd, sizeof cwd) != NULL ? cwd : "",
        .maps = "",
        .fds = "",
        .environ_at_impact = (const char *const *)environ,
        .end_mono_ns = clock_mono_ns(),
        .kmsg_start_seq = UINT64_MAX,
    };
    int r = run_collectors(facts, dir, &ctx, err);
    if (r == 0)
        read_kernel_log(facts, dir);
    if (r == 0)
        take_sample(facts, dir);
    (void)fs_remove_tree(AT_FDCWD, dir);
    return r;
}
