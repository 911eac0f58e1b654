/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel log of the run's window, as text. Perishable: new records overwrite the ring. In order
 * of trust: the records that the recorder followed while the run went on, completed from /dev/kmsg;
 * journalctl; else the reason why there is none (dmesg_restrict=1 is the default of Debian and
 * Ubuntu, and containers have no CAP_SYSLOG).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collect/exec.h"
#include "collectors/kmsg_text.h"

#define READ_MAX ((size_t)8 << 20) /* CONFIG_LOG_BUF_SHIFT is rarely above 22 */
#define KEEP_MAX ((size_t)1536 << 10)
#define RECORD_MAX 8192 /* PRINTKRB_RECORD_MAX is 1 KiB of text, escaped up to four times */

/* The kernel logs a reset tens of seconds after the hang that it ends. Later records, when
 * `complete` runs in the evening, belong to another run. */
#define AFTER_END_S 60u


struct source {
    struct buf text;
    char where[96];    /* for the fact's source */
    char why_not[256]; /* what was tried and failed */
    bool found;
};

static void why_not(struct source *s, const char *what, const char *words)
{
    size_t len = strlen(s->why_not);
    (void)snprintf(s->why_not + len, sizeof s->why_not - len, "%s%s: %s", len > 0 ? "; " : "", what,
                   words);
}

/* Errors of opening and of the first read (EPERM comes at read() under some filters). */
static const char *kmsg_error_words(int code)
{
    char text[16];
    if (code == -ENOENT)
        return "there is none (a container usually has none)";
    if ((code == -EPERM || code == -EACCES) &&
        fs_read_machine_text("/proc/sys/kernel/dmesg_restrict", text, sizeof text) > 0 &&
        strcmp(text, "0") != 0)
        return "not permitted: kernel.dmesg_restrict=1 and no CAP_SYSLOG";
    return strerror(-code);
}

static void note_records(struct source *s, const char *where)
{
    size_t len = strlen(s->where);
    (void)snprintf(s->where + len, sizeof s->where - len, "%s%s", len > 0 ? " and " : "", where);
    s->found = true;
}

static void read_followed(struct source *s, const struct collect_ctx *ctx,
                          struct kmsg_window *window)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *data = NULL;
    if (ctx->run_dir[0] == '\0' ||
        snprintf(path, sizeof path, "%s/kmsg", ctx->run_dir) >= (int)sizeof path)
        return;
    ssize_t n = fs_read_all(path, READ_MAX, &data);
    if (n <= 0 && n != -EFBIG)
        return;
    /* Sequence numbers decide which records are the run's: printk's clock and ours drift apart
     * (base/clock.h). */
    uint64_t until_usec = window->until_usec;
    window->until_usec = 0;
    kmsg_append_records(&s->text, data, strlen(data), window);
    window->until_usec = until_usec;
    note_records(s, "records followed during the run");
}

/* Each read() gives one record. EPIPE: the record was overwritten, the next read continues after
 * the gap. EAGAIN: the end. */
static void read_device(struct source *s, const struct collect_ctx *ctx, struct kmsg_window *window)
{
    RC_AUTO_CLOSE int fd = fs_open_machine("/dev/kmsg");
    if (fd < 0) {
        why_not(s, "/dev/kmsg", kmsg_error_words(fd));
        return;
    }
    char record[RECORD_MAX];
    bool any = false;
    for (size_t total = 0; total < READ_MAX && clock_mono_ns() < ctx->deadline_mono_ns;) {
        ssize_t n = read(fd, record, sizeof record);
        if (n < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (n < 0 && errno != EAGAIN && !any) {
            why_not(s, "/dev/kmsg", kmsg_error_words(-errno));
            return;
        }
        if (n <= 0)
            break;
        any = true;
        total += (size_t)n;
        kmsg_append_records(&s->text, record, (size_t)n, window);
    }
    note_records(s, "/dev/kmsg");
}

static void read_journal(struct source *s, const struct collect_ctx *ctx)
{
    const uint64_t second = 1000000000;
    char since[32];
    char until[32] = "now";
    char boot[40] = "-b";
    /* journalctl(1): -b[ID], 32 digits. */
    for (const char *c = ctx->boot_id; c != NULL && *c != '\0' && strlen(boot) < 34; c++)
        if (*c != '-')
            strncat(boot, c, 1);
    if (ctx->end_mono_ns > ctx->start_mono_ns)
        (void)snprintf(until, sizeof until, "@%" PRIu64,
                       (ctx->start_wall_ns + ctx->end_mono_ns - ctx->start_mono_ns) / second +
                           AFTER_END_S);
    (void)snprintf(since, sizeof since, "@%" PRIu64, ctx->start_wall_ns / second);
    const char *const argv[] = {"journalctl",      "-k",      boot,  "-q",      "--no-pager", "-o",
                                "short-monotonic", "--since", since, "--until", until,        NULL};
    struct buf raw;
    buf_init(&raw, READ_MAX);
    struct rc_err err;
    uint64_t now = clock_mono_ns();
    uint64_t left = ctx->deadline_mono_ns > now ? ctx->deadline_mono_ns - now : 0;
    int r = collect_exec(argv, now + left / 4 * 3, &raw, &err);
    if (r == 0 || r == -EFBIG)
        kmsg_append_journal(&s->text, buf_str(&raw), raw.len);
    /* An unprivileged journalctl succeeds with empty output: then the kernel log is not
     * readable. */
    if (s->text.len > 0)
        note_records(s, "journalctl -k");
    else if (r == 0)
        why_not(s, "journalctl", "no kernel lines (not permitted, or the kernel logged nothing)");
    else
        why_not(s, "journalctl", r < 0 ? err.msg : "failed");
    buf_release(&raw);
}

/* A recorded machine: the whole file stands for the window. */
static void read_recorded(struct source *s)
{
    static const char *const paths[] = {"/dev/kmsg", "/dmesg"};
    for (size_t i = 0; i < 2 && !s->found; i++) {
        char full[FS_PATH_MAX];
        RC_AUTO_FREE char *data = NULL;
        if (fs_machine_path(full, sizeof full, paths[i]) < 0)
            continue;
        ssize_t n = fs_read_all(full, READ_MAX, &data);
        if (n < 0 && n != -EFBIG) {
            why_not(s, paths[i], strerror((int)-n));
            continue;
        }
        struct kmsg_window all = {.records = 0};
        if (kmsg_is_records(data))
            kmsg_append_records(&s->text, data, strlen(data), &all);
        else
            buf_append(&s->text, data, strlen(data));
        note_records(s, paths[i]);
    }
}

/* With a torn run.json the window of the run is not known, and lines of other runs would be blamed on
 * it. Without any time the whole log is wanted (doctor). */
static bool began_sometime(const struct collect_ctx *ctx)
{
    return ctx->start_mono_ns == 0 &&
           (ctx->window_is_claimed || (ctx->start_wall_ns != 0 && ctx->kmsg_start_seq == UINT64_MAX));
}

static void read_machine(struct source *s, const struct collect_ctx *ctx)
{
    struct kmsg_window window = {.first_seq = 0};
    if (ctx->boot_id != NULL) /* only this may have the last lines before the machine crashed */
        read_journal(s, ctx);
    if (s->found)
        return;
    if (ctx->end_mono_ns > 0)
        window.until_usec = ctx->end_mono_ns / 1000u + AFTER_END_S * 1000000u;
    if (ctx->kmsg_start_seq != UINT64_MAX)
        window.first_seq = ctx->kmsg_start_seq;
    else if (ctx->start_mono_ns > 1000000000u)
        window.first_usec = ctx->start_mono_ns / 1000u - 1000000u; /* the clocks differ by ms */
    if (ctx->window_is_claimed)
        kmsg_window_cap(&window, ctx->start_mono_ns / 1000u, ctx->end_mono_ns / 1000u, clock_mono_ns() / 1000u);
    read_followed(s, ctx, &window);
    if (began_sometime(ctx)) {
        if (!s->found)
            why_not(s, "kernel log", "when the run began is not known");
        return;
    }
    if (window.records > 0)
        window.first_seq = window.last_seq + 1;
    if (ctx->boot_id == NULL)
        read_device(s, ctx, &window);
    else
        why_not(s, "/dev/kmsg", "the machine was restarted since");
    if (window.lost > 0)
        buf_printf(&s->text, "# %llu records were overwritten before they could be read\n",
                   (unsigned long long)window.lost);
    if (!s->found && ctx->boot_id == NULL && !ctx->window_is_claimed)
        read_journal(s, ctx);
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    struct source s = {.found = false};
    buf_init(&s.text, 2 * READ_MAX);
    if (fs_sysroot()[0] != '\0')
        read_recorded(&s);
    else
        read_machine(&s, ctx);
    if (!s.found) {
        collect_missing(out, "kmsg.readable", FACT_STATIC, FACT_UNREADABLE, s.why_not,
                        "kernel log");
        buf_release(&s.text);
        return collect_reason(out, COLLECT_SKIPPED, "%s", s.why_not);
    }
    collect_boolean(out, "kmsg.readable", FACT_STATIC, true, s.where);
    struct buf kept = BUF_INIT;
    size_t left_out = ctx->window_is_claimed
                          ? kmsg_select_relevant(&kept, buf_str(&s.text), s.text.len, KEEP_MAX)
                          : kmsg_select(&kept, buf_str(&s.text), s.text.len, KEEP_MAX);
    int r = collect_write(out, "kernel.log", buf_str(&kept), kept.len);
    buf_release(&kept);
    buf_release(&s.text);
    if (r < 0)
        return collect_reason(out, COLLECT_FAILED, "cannot write: %s", strerror(-r));
    if (left_out > 0)
        return collect_reason(out, COLLECT_PARTIAL, "%zu lines of no interest were left out",
                              left_out);
    return s.why_not[0] != '\0' ? collect_reason(out, COLLECT_PARTIAL, "%s", s.why_not)
                                : COLLECT_OK;
}

const struct collector collector_kernel_log = {
    .name = "kernel_log",
    .describe = "kernel log of the run's window",
    .phase = COLLECT_PERISHABLE,
    .deadline_ms = 3000,
    .max_bytes = 2u << 20,
    .run = run,
};
