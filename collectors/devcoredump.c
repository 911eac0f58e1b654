/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dump that amdgpu leaves after a job timeout or a reset: /sys/class/drm/cardN/device/
 * devcoredump/data. The kernel drops it after 5 minutes (drivers/base/devcoredump.c, DEVCD_TIMEOUT)
 * or when anything is written to it, so this file never writes. Rings hold user data: only the part
 * before the first ring goes into the bundle, unless --include asks for all. The file has mode
 * 0600: an ordinary user gets only a row that says so.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "collect/collector.h"
#include "collectors/machine.h"

#define READ_MAX ((size_t)4 << 20) /* dumps in bug reports have 0.5 to 6 MB, nearly all of it rings */
#define HEADER_MAX ((size_t)256 << 10)
#define CARDS_MAX 128

/* The value of "key: value" in a line that starts so: copied, cleaned, trimmed. */
static bool value_of(const char *text, const char *key, char *out, size_t size)
{
    size_t key_len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, key_len) == 0) {
            const char *v = line + key_len;
            v += strspn(v, " \t");
            size_t len = strcspn(v, "\n");
            while (len > 0 && isspace((unsigned char)v[len - 1]))
                len--;
            if (len >= size)
                len = size - 1;
            for (size_t i = 0; i < len; i++)
                out[i] = isprint((unsigned char)v[i]) ? v[i] : '?';
            out[len] = '\0';
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

static void text_fact(struct collect_out *out, const char *text, const char *key, const char *name,
                      const char *source)
{
    char value[128];
    if (value_of(text, key, value, sizeof value) && value[0] != '\0')
        collect_text(out, name, FACT_LOG, value, source);
}

/* time: 3054.167340782          (6.12: ktime_get_ts64, CLOCK_MONOTONIC) */
static void time_fact(const struct collect_ctx *ctx, struct collect_out *out, const char *text,
                      const char *source)
{
    const uint64_t second = 1000000000;
    char value[64];
    const char *p = value;
    uint64_t s = 0;
    uint64_t ns = 0;
    if (!value_of(text, "time:", value, sizeof value) || !number_take_before(&p, 10, '.', &s) ||
        !number_take_before(&p, 10, '\0', &ns) || s >= INT64_MAX / second || ns >= second)
        return;
    uint64_t at = s * second + ns;
    collect_integer(out, "devcoredump.time_ns", FACT_LOG, (int64_t)at, source);
    /* An older dump blocks newer ones for 5 minutes, so the dump may be of another run. */
    if (ctx->start_mono_ns != 0)
        collect_boolean(out, "devcoredump.in_window", FACT_LOG, at + second >= ctx->start_mono_ns,
                        source);
}

/* process_name: python PID: 4242          (only when the kernel knew it) */
static void process_fact(struct collect_out *out, const char *text, const char *source)
{
    char value[128];
    if (!value_of(text, "process_name:", value, sizeof value))
        return;
    char *pid = strstr(value, " PID:");
    uint64_t number = 0;
    if (pid != NULL && fs_parse_u64(pid + 5, &number) == 0 && number <= INT32_MAX)
        collect_integer(out, "devcoredump.process_pid", FACT_LOG, (int64_t)number, source);
    if (pid != NULL)
        *pid = '\0';
    if (value[0] != '\0')
        collect_text(out, "devcoredump.process", FACT_LOG, value, source);
}

/* IP Type: 2 Ring Name: sdma0          (below "Ring timed out details") */
static void ring_fact(struct collect_out *out, const char *text, const char *source)
{
    char value[128];
    if (!value_of(text, "IP Type:", value, sizeof value))
        return;
    char *ring = strstr(value, "Ring Name:");
    if (ring == NULL)
        return;
    ring += 10;
    ring += strspn(ring, " ");
    if (*ring != '\0')
        collect_text(out, "devcoredump.ring", FACT_LOG, ring, source);
}

/* [gfxhub] Page fault observed / Faulty page starting at address: 0x... / Protection fault status
 * register: 0x0. Always printed: address 0 with status 0 means that no fault was recorded. */
static void fault_fact(struct collect_out *out, const char *text, const char *source)
{
    char address[64];
    char status[64] = "";
    if (!value_of(text, "Faulty page starting at address:", address, sizeof address))
        return;
    (void)value_of(text, "Protection fault status register:", status, sizeof status);
    if (strtoull(address, NULL, 16) == 0 && strtoull(status, NULL, 16) == 0) {
        collect_missing(out, "devcoredump.page_fault_address", FACT_LOG, FACT_ABSENT,
                        "address 0 and status 0: no page fault was recorded", source);
        return;
    }
    collect_text(out, "devcoredump.page_fault_address", FACT_LOG, address, source);
    collect_text(out, "devcoredump.page_fault_status", FACT_LOG, status, source);
}

static void vram_fact(struct collect_out *out, const char *text, const char *source)
{
    if (strstr(text, "VRAM is lost due to GPU reset!") != NULL)
        collect_boolean(out, "devcoredump.vram_lost", FACT_LOG, true, source);
    else if (strstr(text, "VRAM lost check is skipped!") != NULL)
        collect_missing(out, "devcoredump.vram_lost", FACT_LOG, FACT_ABSENT,
                        "the driver skipped the check", source);
}

/* The start of the part that may hold user data. */
static size_t header_length(const char *text, size_t len)
{
    static const char *const marks[] = {"Ring buffer information", "Ring contents", "IB contents",
                                        "\nring 0:"};
    size_t end = len < HEADER_MAX ? len : HEADER_MAX;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *at = strstr(text, marks[i]);
        if (at != NULL && (size_t)(at - text) < end)
            end = (size_t)(at - text);
    }
    return end;
}

/* "devcoredump" or "all" is a word of the list. */
static bool is_wanted(const char *include)
{
    for (const char *at = include; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ",");
        if ((len == 11 && strncmp(at, "devcoredump", 11) == 0) ||
            (len == 3 && strncmp(at, "all", 3) == 0))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static int write_whole(struct collect_out *out, int card, const char *text, size_t len)
{
    char name[32];
    (void)snprintf(name, sizeof name, "card%d.whole.txt", card);
    return collect_write(out, name, text, len);
}

static int write_header(struct collect_out *out, int card, const char *text, size_t len, bool cut)
{
    size_t head = header_length(text, len);
    struct buf b = BUF_INIT;
    machine_append_clean(&b, text, head);
    if (head < len)
        buf_printf(&b, "\n# left out here: %zu%s bytes from the first ring dump on\n", len - head,
                   cut ? " or more" : "");
    char name[32];
    (void)snprintf(name, sizeof name, "card%d.txt", card);
    int r = buf_failed(&b) ? -ENOMEM : collect_write(out, name, buf_str(&b), b.len);
    buf_release(&b);
    return r;
}

/* 1 = found, 0 = none on this card, -errno. Facts are those of the first card that has a dump. */
static int collect_card(const struct collect_ctx *ctx, struct collect_out *out, int card,
                        bool with_facts)
{
    char source[96];
    char path[FS_PATH_MAX];
    (void)snprintf(source, sizeof source, "/sys/class/drm/card%d/device/devcoredump/data", card);
    int r = fs_machine_path(path, sizeof path, source);
    if (r < 0)
        return r;
    RC_AUTO_FREE char *text = NULL;
    ssize_t n = fs_read_all(path, READ_MAX, &text);
    if (n == -ENOENT || n == -ENOTDIR)
        return 0;
    if (n < 0 && n != -EFBIG)
        return (int)n;
    size_t len = strlen(text); /* NUL: binary from here on, or padding */
    if (len == 0)
        return 0;
    if (with_facts) {
        collect_boolean(out, "devcoredump.present", FACT_LOG, true, source);
        collect_integer(out, "devcoredump.card", FACT_LOG, card, source);
        text_fact(out, text, "kernel:", "devcoredump.kernel", source);
        time_fact(ctx, out, text, source);
        process_fact(out, text, source);
        ring_fact(out, text, source);
        fault_fact(out, text, source);
        vram_fact(out, text, source);
    }
    r = write_header(out, card, text, len, n == -EFBIG);
    if (r >= 0 && is_wanted(ctx->include))
        r = write_whole(out, card, text, len);
    return r < 0 ? r : 1;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    int cards[CARDS_MAX];
    int count = machine_cards(cards, CARDS_MAX);
    if (count <= 0) {
        collect_missing(out, "devcoredump.present", FACT_LOG, FACT_ABSENT, "no DRM card",
                        "/sys/class/drm");
        return collect_reason(out, COLLECT_SKIPPED, "no DRM card");
    }
    int found = 0;
    int error = 0;
    for (int i = 0; i < count; i++) {
        int r = collect_card(ctx, out, cards[i], found == 0);
        if (r > 0)
            found++;
        else if (r < 0)
            error = r;
    }
    if (error != 0 && found == 0)
        collect_missing(out, "devcoredump.present", FACT_LOG, FACT_UNREADABLE,
                        error == -EACCES ? "there is one, but only root may read it"
                                         : strerror(-error),
                        "devcoredump/data");
    if (error == -EACCES)
        return collect_reason(out, found > 0 ? COLLECT_PARTIAL : COLLECT_SKIPPED,
                              "there is a devcoredump, but only root may read it, and the kernel "
                              "drops it after 5 minutes");
    if (error != 0)
        return collect_reason(out, found > 0 ? COLLECT_PARTIAL : COLLECT_FAILED, "%s",
                              strerror(-error));
    if (found > 0)
        return COLLECT_OK;
    collect_missing(out, "devcoredump.present", FACT_LOG, FACT_ABSENT, "no card has one",
                    "/sys/class/drm/card*/device/devcoredump");
    return collect_reason(out, COLLECT_SKIPPED, "no card has one");
}

const struct collector collector_devcoredump = {
    .name = "devcoredump",
    .describe = "header of the GPU's device core dump (job timeout, reset)",
    .phase = COLLECT_PERISHABLE,
    .needs_run = true,
    .deadline_ms = 3000,
    .max_bytes = 6u << 20,
    .run = run,
};
