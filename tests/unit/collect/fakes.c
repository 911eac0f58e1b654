/* SPDX-License-Identifier: Apache-2.0 */
#include "fakes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

#define FAKE_OF(id, fn, its_phase, ms, bytes)                                                      \
    const struct collector fake_##id = {.name = #id,                                               \
                                        .describe = "a fake",                                      \
                                        .phase = its_phase,                                        \
                                        .deadline_ms = ms,                                         \
                                        .max_bytes = bytes,                                        \
                                        .run = fn}
#define FAKE(id, fn, ms, bytes) FAKE_OF(id, fn, COLLECT_QUICK, ms, bytes)

static void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

static enum collect_status run_good(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)collect_write(out, "b.txt", "hello\n", 6);
    (void)collect_write(out, "sub/dir/a.txt", "deep\n", 5);
    collect_integer(out, "fake.value_bytes", FACT_AFTER, 42, "fake");
    collect_text(out, "fake.cwd", FACT_STATIC, ctx->cwd, "ctx");
    collect_boolean(out, "fake.deadline_is_set", FACT_STATIC, ctx->deadline_mono_ns != 0, "ctx");
    collect_missing(out, "fake.absent", FACT_STATIC, FACT_ABSENT, "no such thing", "fake");
    return COLLECT_OK;
}
FAKE(good, run_good, 0, 0);
FAKE_OF(slow_phase, run_good, COLLECT_SLOW, 0, 0);

/* Sets the same fact as `good`, earlier or later in time: the first in the list must win. */
static enum collect_status run_good2(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    collect_integer(out, "fake.value_bytes", FACT_AFTER, 43, "second");
    return collect_reason(out, COLLECT_PARTIAL, "one of %d", 2);
}
FAKE(good2, run_good2, 0, 0);

static enum collect_status run_skips(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)collect_reason(out, COLLECT_FAILED, "first");
    return collect_reason(out, COLLECT_SKIPPED, "does not apply");
}
FAKE(skips, run_skips, 0, 0);

static enum collect_status run_silent(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    return COLLECT_OK;
}
FAKE(silent, run_silent, 0, 0);

static enum collect_status run_hangs(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)collect_write(out, "before.txt", "kept\n", 5);
    collect_integer(out, "hang.before", FACT_STATIC, 1, "fake");
    (void)collect_reason(out, COLLECT_PARTIAL, "reading 'x'");
    wait_for_ever();
    return COLLECT_OK;
}
FAKE(hangs, run_hangs, 300, 0);

static enum collect_status run_ignores_term(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)signal(SIGTERM, SIG_IGN);
    return run_hangs(ctx, out);
}
FAKE(ignores_term, run_ignores_term, 300, 0);

static void write_pids(struct collect_out *out, pid_t other)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%d %d\n", (int)getpid(), (int)other);
    (void)collect_write(out, "pids", text, (size_t)n);
}

static enum collect_status run_grandchild(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)signal(SIGTERM, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0)
        wait_for_ever();
    write_pids(out, pid);
    return run_hangs(ctx, out);
}
FAKE(grandchild, run_grandchild, 300, 0);

static enum collect_status run_leaves_background(const struct collect_ctx *ctx,
                                                 struct collect_out *out)
{
    (void)ctx;
    (void)signal(SIGTERM, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0)
        wait_for_ever(); /* holds the status pipe open */
    write_pids(out, pid);
    return COLLECT_OK;
}
FAKE(leaves_background, run_leaves_background, 60000, 0);

static enum collect_status run_spins(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    for (volatile unsigned i = 0; i < 2; i = !i)
        ;
    return COLLECT_OK;
}
FAKE(spins, run_spins, 100, 0);

static enum collect_status run_segv(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    collect_integer(out, "segv.before", FACT_STATIC, 1, "fake");
    (void)signal(SIGSEGV, SIG_DFL); /* also under a sanitizer */
    (void)raise(SIGSEGV);
    return COLLECT_OK;
}
FAKE(segv, run_segv, 0, 0);

static enum collect_status run_abort(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    abort();
}
FAKE(abort, run_abort, 0, 0);

static enum collect_status run_exits(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    _exit(0);
}
FAKE(exits, run_exits, 0, 0);

static enum collect_status run_exits_after_facts(const struct collect_ctx *ctx,
                                                 struct collect_out *out)
{
    (void)run_good2(ctx, out);
    exit(3); /* runs atexit handlers: those of the test program must not print or matter */
}
FAKE(exits_after_facts, run_exits_after_facts, 0, 0);

static char big[100000];

static enum collect_status run_writes_much(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    for (int i = 0; i < 5; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        (void)collect_write(out, name, big, 3000);
    }
    return COLLECT_OK;
}
FAKE(writes_much, run_writes_much, 60000, 10000);

static enum collect_status run_open_much(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    int fd = collect_open(out, "big");
    int r = fs_write_all(fd, big, sizeof big);
    (void)close(fd);
    collect_integer(out, "much.errno", FACT_STATIC, -r, "fake");
    return COLLECT_OK;
}
FAKE(open_much, run_open_much, 60000, 10000);

static enum collect_status run_many_files(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    int opened = 0;
    for (int i = 0; i < 5000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        opened += collect_write(out, name, "x", 1) == 0;
    }
    collect_integer(out, "many.opened", FACT_STATIC, opened, "fake");
    return COLLECT_OK;
}
FAKE(many_files, run_many_files, 60000, 0);

/* Only with collect_open(): each file is within the limit, all together have twenty times the limit. */
static enum collect_status run_fills_disk(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    for (int i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        int fd = collect_open(out, name);
        (void)fs_write_all(fd, big, 50000);
        (void)close(fd);
        (void)usleep(1000); /* the fake's own pace; the test does not wait for it */
    }
    wait_for_ever();
    return COLLECT_OK;
}
FAKE(fills_disk, run_fills_disk, 60000, 50000);

/* The status pipe is descriptor 4 of every child. */
static enum collect_status run_garbage(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    collect_integer(out, "garbage.before", FACT_STATIC, 1, "fake");
    (void)fs_write_all(4, "\xff\xfe garbage that is no frame", 26);
    collect_integer(out, "garbage.after", FACT_STATIC, 1, "fake");
    return COLLECT_OK;
}
FAKE(garbage, run_garbage, 0, 0);

static enum collect_status run_garbage_first(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)fs_write_all(4, "x", 1);
    (void)run_good2(ctx, out);
    return COLLECT_OK;
}
FAKE(garbage_first, run_garbage_first, 0, 0);

static enum collect_status run_garbage_flood(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    while (fs_write_all(4, big, sizeof big) == 0)
        ;
    return COLLECT_OK;
}
FAKE(garbage_flood, run_garbage_flood, 3000, 0);

static enum collect_status run_many_facts(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    for (int i = 0; i < 100000; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many.n%d", i);
        collect_text(out, name, FACT_STATIC, "some text of a fact", "fake");
    }
    return collect_reason(out, COLLECT_OK, "the reason still arrives");
}
FAKE(many_facts, run_many_facts, 0, 0);

static enum collect_status run_bad_names(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    static const char *const bad[] = {
        "..",     "../x", "a/../../x", "/tmp/x", "",    ".",  "a//b", "a/./b",
        "esc/in", "a\nb", "a\x1b[2J",  "link",   "dir", "x/", "pipe", "a\\b",
    };
    int accepted = 0;
    int dir_fd = 3; /* the folder of every child */
    (void)symlinkat("/tmp", dir_fd, "esc");
    (void)symlinkat("/etc/hostname", dir_fd, "link");
    (void)mkdirat(dir_fd, "dir", 0700);
    (void)mkfifoat(dir_fd, "pipe", 0600);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = collect_open(out, bad[i]);
        if (fd >= 0) {
            collect_text(out, "names.accepted", FACT_STATIC, bad[i], "fake");
            accepted++;
            (void)close(fd);
        }
    }
    collect_integer(out, "names.accepted_count", FACT_STATIC, accepted, "fake");
    (void)collect_write(out, "fine", "ok", 2);
    struct stat st;
    collect_integer(out, "names.mode", FACT_STATIC,
                    fstatat(dir_fd, "fine", &st, 0) == 0 ? (int64_t)(st.st_mode & 0777) : -1, "");
    return COLLECT_OK;
}
FAKE(bad_names, run_bad_names, 0, 0);

static enum collect_status run_makes_links(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)collect_write(out, "file", "12345", 5);
    (void)symlinkat("/etc/passwd", 3, "symbolic");
    (void)linkat(3, "file", 3, "hard", 0);
    (void)mkfifoat(3, "fifo", 0600);
    return COLLECT_OK;
}
FAKE(makes_links, run_makes_links, 0, 0);

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static enum collect_status run_environment(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    struct rlimit limit;
    collect_integer(out, "in.fds", FACT_STATIC, count_fds(), "fake");
    collect_boolean(out, "in.own_group", FACT_STATIC, getpgrp() == getpid(), "fake");
    collect_integer(out, "in.dumpable", FACT_STATIC, prctl(PR_GET_DUMPABLE), "fake");
    int deathsig = 0;
    (void)prctl(PR_GET_PDEATHSIG, &deathsig);
    collect_integer(out, "in.deathsig", FACT_STATIC, deathsig, "fake");
    (void)getrlimit(RLIMIT_CORE, &limit);
    collect_integer(out, "in.core", FACT_STATIC, (int64_t)limit.rlim_cur, "fake");
    (void)getrlimit(RLIMIT_FSIZE, &limit);
    collect_integer(out, "in.fsize", FACT_STATIC, (int64_t)limit.rlim_cur, "fake");
    (void)getrlimit(RLIMIT_CPU, &limit);
    collect_integer(out, "in.cpu", FACT_STATIC, (int64_t)limit.rlim_cur, "fake");
    char c;
    collect_integer(out, "in.stdin", FACT_STATIC, read(0, &c, 1), "fake");
    struct stat null_st;
    struct stat st;
    collect_boolean(out, "in.stderr_is_null", FACT_STATIC,
                    stat("/dev/null", &null_st) == 0 && fstat(2, &st) == 0 &&
                        st.st_rdev == null_st.st_rdev,
                    "fake");
    sigset_t mask;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    collect_boolean(out, "in.term_blocked", FACT_STATIC, sigismember(&mask, SIGTERM) == 1, "fake");
    return COLLECT_OK;
}
FAKE(environment, run_environment, 4000, 12345);

static enum collect_status run_claims_stuck(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    (void)out;
    return COLLECT_STUCK;
}
FAKE(claims_stuck, run_claims_stuck, 0, 0);
