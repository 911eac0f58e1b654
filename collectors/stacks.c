/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of every thread of each failed process: runs rocmcrash-unwind on the impact files of the
 * run directory. The unwinder reads foreign ELF files and may crash; then its row says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_path.h"
#include "collect/collector.h"
#include "collect/exec.h"
#include "collectors/stack_text.h"
#include "record/shared.h"

#define TEXT_MAX ((size_t)512 << 10)
#define DEADLINE_MS 3000
#define KEEP_MS 150 /* part of the deadline kept for writing the results */

struct stacks_run {
    const struct collect_ctx *ctx;
    struct collect_out *out;
    char program[FS_PATH_MAX];
    unsigned tried, failed;
    bool facts_set;
    char reason[200]; /* of the last failure */
};

static bool read_head(const struct collect_ctx *ctx, unsigned index, char *path, size_t size,
                      struct shared_impact *ret_head)
{
    if (snprintf(path, size, "%s/impact.%u", ctx->run_dir, index) >= (int)size)
        return false;
    RC_AUTO_CLOSE int fd = fs_open_read(path);
    return fd >= 0 && fs_pread_full(fd, ret_head, sizeof *ret_head, 0) == (ssize_t)sizeof *ret_head;
}

static void set_fact(struct stacks_run *run, const char *name, const char *value, unsigned index,
                     int frame)
{
    char source[96];
    (void)snprintf(source, sizeof source, "stacks.%u.txt, failed thread, frame #%d", index, frame);
    if (value[0] != '\0')
        collect_text(run->out, name, FACT_IMPACT, value, source);
    else
        collect_missing(run->out, name, FACT_IMPACT, FACT_ABSENT,
                        "no frame of the failed thread has one", source);
}

/* A thread that stood in kill() when SIGKILL came. */
static void set_sends(struct stacks_run *run, const char *function, unsigned index)
{
    static const char *const names[] = {"kill", "killpg", "tgkill", "raise", "pthread_kill", "__pthread_kill_implementation"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(function, names[i]) == 0)
            set_fact(run, "stack.sends", function, index, 0);
}

static void set_facts(struct stacks_run *run, const char *text, unsigned index, int signo)
{
    struct stack_summary summary;
    if (run->facts_set || !stack_text_summary(text, &summary))
        return;
    run->facts_set = true;
    set_fact(run, "stack.top", summary.top, index, summary.top_frame);
    set_fact(run, "stack.place", summary.place, index, summary.place_frame);
    set_fact(run, "stack.module", summary.module, index, 0);
    set_fact(run, "stack.gpu_module", summary.gpu_module, index, summary.gpu_frame);
    if (signo == SIGKILL)
        set_sends(run, summary.innermost, index);
}

/* "__futex_wait (libc.so.6) < hipStreamSynchronize (libamdhip64.so.6) < ..." */
static void set_live_fact(struct stacks_run *run, const char *text, unsigned index)
{
    char frames[1024];
    char place[STACK_PLACE_MAX];
    char source[64];
    int frame;
    if (run->facts_set || !stack_text_frames(text, frames, sizeof frames))
        return;
    run->facts_set = true;
    (void)snprintf(source, sizeof source, "stacks.%u.txt, main thread", index);
    collect_text(run->out, "snap.native_stack", FACT_IMPACT, frames, source);
    if (!stack_text_own_place(text, place, sizeof place, &frame))
        return;
    (void)snprintf(source, sizeof source, "stacks/stacks.%u.txt, frame #%d", index, frame);
    collect_text(run->out, "snap.native_place", FACT_IMPACT, place, source);
}

static void explain(struct stacks_run *run, unsigned index, int status, const struct rc_err *err)
{
    run->failed++;
    if (status < 0)
        (void)snprintf(run->reason, sizeof run->reason, "impact.%u: %.150s", index, err->msg);
    else if (status > COLLECT_EXEC_SIGNAL)
        (void)snprintf(run->reason, sizeof run->reason,
                       "impact.%u: rocmcrash-unwind died of signal %d", index, status - COLLECT_EXEC_SIGNAL);
    else
        (void)snprintf(run->reason, sizeof run->reason,
                       "impact.%u: rocmcrash-unwind could not unwind it", index);
}

static void unwind_one(struct stacks_run *run, unsigned index, const char *path,
                       const struct shared_impact *head)
{
    uint64_t deadline = run->ctx->deadline_mono_ns - KEEP_MS * NS_PER_MS;
    struct buf text;
    buf_init(&text, TEXT_MAX);
    struct rc_err err = {""};
    const char *const argv[] = {run->program, path, NULL};
    int status = collect_exec(argv, deadline, &text, &err);
    run->tried++;
    if (status == -EFBIG)
        status = 0; /* the failed thread comes first: the rest is cut */
    if (text.len > 0) {
        char name[32];
        (void)snprintf(name, sizeof name, "stacks.%u.txt", index);
        (void)collect_write(run->out, name, text.data, text.len);
        if (head->signo > 0)
            set_facts(run, buf_str(&text), index, head->signo);
        else if (head->kind == IMPACT_SNAPSHOT && head->pid == run->ctx->failed_pid)
            set_live_fact(run, buf_str(&text), index);
    }
    if (status != 0)
        explain(run, index, status, &err);
    buf_release(&text);
}

/* Starts with the process that failed first, so that the facts are about it and it gets the time if
 * the deadline is short. `failed` selects the pass. */
static void pass(struct stacks_run *run, bool failed)
{
    for (unsigned i = 0; i < SHARED_IMPACTS_MAX; i++) {
        char path[FS_PATH_MAX];
        struct shared_impact head;
        if (!read_head(run->ctx, i, path, sizeof path, &head))
            continue;
        if ((head.pid == run->ctx->failed_pid) == failed && head.kind != IMPACT_WAIT_STATUS)
            unwind_one(run, i, path, &head);
    }
}

static enum collect_status run_stacks(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct stacks_run run = {.ctx = ctx, .out = out};
    if (ctx->run_dir[0] == '\0')
        return collect_reason(out, COLLECT_SKIPPED, "no run directory");
    if (own_path_find("rocmcrash-unwind", X_OK, run.program, sizeof run.program) < 0)
        return collect_reason(out, COLLECT_FAILED,
                              "rocmcrash-unwind is not installed beside this program");
    pass(&run, true);
    pass(&run, false);
    if (run.tried == 0)
        return collect_reason(out, COLLECT_SKIPPED, "no registers or stacks were copied");
    if (run.failed > 0)
        return collect_reason(out, run.failed == run.tried ? COLLECT_FAILED : COLLECT_PARTIAL,
                              "%s", run.reason);
    return COLLECT_OK;
}

const struct collector collector_stacks = {
    .name = "stacks",
    .describe = "stacks of all threads of the failed processes, from the bytes copied at impact",
    .phase = COLLECT_QUICK,
    .needs_run = true,
    .deadline_ms = DEADLINE_MS,
    .max_bytes = 4u << 20,
    .run = run_stacks,
};
