/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/flush.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/room.h"
#include "record/rundir.h"
#include "record/shared.h"
#include "recorder/run_json.h"
#include "telemetry/segment.h"

/* run.json holds argv (16 KiB), every byte of which may need six characters. */
#define RUN_JSON_MAX (160u << 10)
#define OUTPUT_TAIL_BYTES (512u << 10)
#define FOUND_FIRST_BYTES ((size_t)64 << 10)
#define SYNC_PERIOD_MS 10000u
#define SYNC_FIRST_MS 2000u

/* Each function of this file reads into it, then writes. There is only one, because RLIMIT_DATA counts .bss. */
static char scratch[RUN_JSON_MAX];
_Static_assert(sizeof scratch >= SHARED_FOUND_RING_BYTES && sizeof scratch >= FOUND_FIRST_BYTES,
               "the rings of lines are read at once");

/* Writes all or nothing: after a short write to a full disk the caller offers the whole piece again. */
static int append_at(int dirfd, const char *name, const void *data, size_t len)
{
    struct stat st;
    int fd = fs_open_write(dirfd, name, O_WRONLY | O_APPEND);
    if (fd < 0)
        return fd;
    int r = fstat(fd, &st) != 0 ? -errno : 0;
    if (r == 0 && (r = fs_write_all(fd, data, len)) < 0)
        (void)fs_truncate(fd, st.st_size);
    int closed = fs_close(fd);
    return r == 0 ? closed : r;
}

static int flush_impact(const struct shared *s, int dirfd, uint32_t index)
{
    const struct shared_impact *impact = &s->impacts[index];
    if (impact->arena_offset > sizeof s->arena ||
        impact->arena_length > sizeof s->arena - impact->arena_offset)
        return -EINVAL;
    char name[32];
    (void)snprintf(name, sizeof name, "impact.%u", index);
    int fd = fs_open_write(dirfd, name, O_WRONLY | O_TRUNC);
    if (fd < 0)
        return fd;
    int r = fs_write_all(fd, impact, sizeof *impact);
    if (r == 0)
        r = fs_write_all(fd, s->arena + impact->arena_offset, impact->arena_length);
    if (r == 0)
        r = fs_sync(fd);
    int closed = fs_close(fd);
    return r == 0 ? closed : r;
}

static int flush_impacts(struct shared *s, int dirfd, struct record_progress *progress)
{
    int first = 0;
    uint32_t used = s->impacts_used < SHARED_IMPACTS_MAX ? s->impacts_used : SHARED_IMPACTS_MAX;
    for (uint32_t i = 0; i < used; i++) {
        if ((progress->impacts_written & (1u << i)) != 0 || s->impacts[i].state == IMPACT_EMPTY)
            continue;
        /* If the tracer is gone, no more of the impact follows. */
        bool complete = s->impacts[i].state == IMPACT_COMPLETE || s->helpers[HELPER_TRACER].pid == 0;
        int r = flush_impact(s, dirfd, i);
        if (r < 0 && first == 0)
            first = r;
        if (r == 0 && complete)
            progress->impacts_written |= 1u << i;
    }
    return first;
}

/* The output goes into two files that take turns: output.0 and output.1. */
static int append_output(int dirfd, const char *data, size_t len)
{
    struct stat st;
    if (fstatat(dirfd, "output.1", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_size >= (off_t)(OUTPUT_TAIL_BYTES / 2) &&
        renameat(dirfd, "output.1", dirfd, "output.0") != 0)
        return -errno;
    return append_at(dirfd, "output.1", data, len);
}

static int flush_head(const unsigned char *head, uint32_t used, int dirfd, const char *name,
                      uint64_t *written)
{
    if (used > OUTPUT_HEAD_BYTES || used <= *written)
        return 0;
    int r = append_at(dirfd, name, (const char *)head + *written, used - *written);
    if (r == 0)
        *written = used;
    return r;
}

static int flush_output(struct shared *s, int dirfd, struct record_progress *progress)
{
    for (;;) {
        uint64_t lost = progress->output_lost;
        uint64_t start = progress->output_cursor;
        size_t len = ring_read(&s->output, &progress->output_cursor, scratch, sizeof scratch,
                               &progress->output_lost);
        if (len == 0)
            return 0;
        int r = 0;
        const char *kept = scratch;
        if (progress->output_lost != lost) {
            /* Redaction might not recognise a secret in half a line, so drop the incomplete first
             * line. If that line is longer, the finisher drops the rest: it sees where the line
             * ends. */
            const char *end = memchr(scratch, '\n', len);
            kept = end != NULL ? end + 1 : scratch;
            len -= (size_t)(kept - scratch);
            char note[120];
            int n = snprintf(note, sizeof note, "\n[rocmcrash: %llu bytes not kept]%s\n",
                             (unsigned long long)(progress->output_lost - lost),
                             end != NULL ? "" : OUTPUT_WITHIN_LINE);
            r = append_output(dirfd, note, (size_t)n);
        }
        if (r == 0)
            r = append_output(dirfd, kept, len);
        if (r < 0) {
            progress->output_cursor = start;
            progress->output_lost = lost;
            return r;
        }
    }
}

/* Whole lines only: redaction might not recognise a secret in half a line. The first line is incomplete
 * if the ring has lost bytes, the last one if it does not fit into `max`. */
static size_t read_lines(const struct ring *ring, uint64_t *cursor, char *text, size_t max,
                         const char **ret_lines)
{
    uint64_t lost = 0;
    size_t len = ring_read(ring, cursor, text, max, &lost);
    const char *begin = lost > 0 ? memchr(text, '\n', len) : NULL;
    const char *end = memrchr(text, '\n', len);
    *ret_lines = begin != NULL ? begin + 1 : text;
    return end == NULL || (lost > 0 && begin == NULL) ? 0 : (size_t)(end + 1 - *ret_lines);
}

/* The file is written whole each time: it is small and seldom changes. */
static int flush_last_lines(const struct ring *ring, int dirfd, const char *name, uint64_t *written)
{
    uint64_t cursor = 0;
    const char *lines = NULL;
    if (atomic_load(&ring->head) == *written)
        return 0;
    size_t len = read_lines(ring, &cursor, scratch, SHARED_FOUND_RING_BYTES, &lines);
    int r = fs_write_file_at(dirfd, name, lines, len, false);
    if (r == 0)
        *written = cursor;
    return r;
}

/* Appends to the file until it is full. */
static int flush_first_lines(const struct ring *ring, int dirfd, const char *name, uint64_t *cursor)
{
    uint64_t next = *cursor;
    const char *lines = NULL;
    if (next >= FOUND_FIRST_BYTES || atomic_load(&ring->head) == next)
        return 0;
    size_t len = read_lines(ring, &next, scratch, FOUND_FIRST_BYTES - (size_t)next, &lines);
    int r = append_at(dirfd, name, lines, len);
    if (r == 0)
        *cursor = next;
    return r;
}

static int flush_events(struct shared *s, int dirfd, struct record_progress *progress)
{
    size_t len;
    while ((len = ring_read(&s->events, &progress->event_cursor, scratch, sizeof scratch,
                            &progress->events_lost)) > 0) {
        int r = append_at(dirfd, "events", scratch, len);
        if (r < 0) {
            progress->event_cursor -= len;
            return r;
        }
    }
    return 0;
}

static int flush_samples(struct shared *s, const char *run_dir, struct record_progress *progress)
{
    size_t len;
    while ((len = ring_read(&s->samples, &progress->sample_cursor, scratch, sizeof scratch,
                            &progress->samples_lost)) > 0) {
        size_t taken = 0;
        int r = segment_append_some(run_dir, scratch, len, &taken);
        if (r < 0) {
            progress->sample_cursor -= len - taken;
            return r;
        }
    }
    return 0;
}

/* After a reboot the finisher must not read the kernel log of another boot. */
static int flush_boot(int dirfd)
{
    char id[40];
    char text[80];
    if (faccessat(dirfd, "boot", F_OK, 0) == 0 ||
        fs_read_text("/proc/sys/kernel/random/boot_id", id, sizeof id) <= 0)
        return 0;
    int n =
        snprintf(text, sizeof text, "%s %llu\n", id,
                 (unsigned long long)(clock_wall_ns() - clock_ns(CLOCK_BOOTTIME)) / 1000000000u);
    return fs_write_file_at(dirfd, "boot", text, (size_t)n, false);
}

static void number_or_dash(char *out, size_t size, uint32_t number)
{
    if (number == SHARED_GPU_NONE)
        (void)snprintf(out, size, "-");
    else
        (void)snprintf(out, size, "%u", number);
}

/* It is written once: the first sampler's order holds for the whole run. */
static int flush_gpus(const struct shared *s, int dirfd)
{
    static char text[SHARED_GPUS_MAX * 48];
    uint32_t listed = s->gpus_listed;
    if (listed == 0 || listed - 1 > SHARED_GPUS_MAX || faccessat(dirfd, "gpus", F_OK, 0) == 0)
        return 0;
    size_t len = 0;
    for (uint32_t i = 0; i + 1 < listed; i++) {
        const struct shared_gpu *gpu = &s->gpus[i];
        char node[16];
        char card[16];
        number_or_dash(node, sizeof node, gpu->kfd_node);
        number_or_dash(card, sizeof card, gpu->card);
        len += (size_t)snprintf(text + len, sizeof text - len, "%.15s %s %s\n",
                                gpu->pci[0] != '\0' ? gpu->pci : "-", node, card);
    }
    return fs_write_file_at(dirfd, "gpus", text, len, false);
}

/* A summary of the failures seen so far. When it changes, the records are synced at once, so
 * that they survive the end of the machine. */
static uint32_t trouble_seen(const struct shared *s)
{
    return (s->impacts_used & 0xffffu) | (uint32_t)(s->oom_matches > 0) << 16 |
           (uint32_t)(s->fault_matches > 0) << 17 | (uint32_t)(s->hang_matches > 0) << 18 |
           (uint32_t)(s->kernel_oom_matches > 0) << 19 |
           (uint32_t)(s->supervisor_killed != 0) << 20;
}

/* If the new file were renamed over the old one before it is on the disk, a crash could lose both.
 * So it is fsynced first. A change of mere counters waits until a sync is due. */
static int flush_run_json(const struct shared *s, int dirfd, bool sync_due)
{
    static char *written; /* where there is no room for it, the file is written each time */
    if (written == NULL)
        written = room_for(RUN_JSON_MAX);
    bool first = written == NULL || written[0] == '\0';
    if (!first && !sync_due && s->target_state != TARGET_ENDED)
        return 0;
    size_t len = run_json_render(s, scratch, sizeof scratch);
    if (len == 0)
        return -EFBIG;
    if (!first && strcmp(scratch, written) == 0 && faccessat(dirfd, "run.json", F_OK, 0) == 0)
        return 0;
    int r = fs_write_file_at(dirfd, "run.json", scratch, len, sync_due);
    if (r == 0 && written != NULL)
        memcpy(written, scratch, len + 1);
    return r;
}

/* Syncs only the files that have grown: a quiet program costs two fsyncs per SYNC_PERIOD_MS. */
static void sync_file(int dirfd, const char *name, off_t *synced_bytes)
{
    struct stat st;
    RC_AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == *synced_bytes || fdatasync(fd) != 0)
        return;
    *synced_bytes = st.st_size;
}

/* A GPU failure may crash the machine. So the data is synced soon, and at once when trouble was
 * noticed. The directory is synced last: a name that is on the disk before its bytes is an empty
 * file. */
static void sync_run(int dirfd)
{
    static const char *const names[] = {"output.head", "output.0", "output.1", "output.report",
                                        "output.first", "output.last", "stdout.head", "stdout.last",
                                        "events",       "kmsg",        "gpus",         "boot"};
    static off_t synced_bytes[sizeof names / sizeof names[0]];
    static bool parent_synced;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        sync_file(dirfd, names[i], &synced_bytes[i]);
    segment_sync();
    (void)fs_sync(dirfd);
    if (parent_synced)
        return;
    RC_AUTO_CLOSE int parent = openat(dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    parent_synced = parent >= 0 && fs_sync(parent) == 0;
}

int recorder_flush(struct shared *shared, const char *run_dir, struct rc_err *err)
{
    struct record_progress *progress = &shared->progress;
    RC_AUTO_CLOSE int dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dirfd < 0)
        return rc_err_errno(err, -errno, "cannot open run directory '%s'", run_dir);
    static uint64_t synced_ns;
    uint64_t now_ns = clock_mono_ns();
    uint32_t trouble = trouble_seen(shared);
    if (synced_ns == 0)
        synced_ns = now_ns - (SYNC_PERIOD_MS - SYNC_FIRST_MS) * NS_PER_MS;
    bool due =
        trouble != progress->trouble_synced ||
        (shared->target_state != TARGET_ENDED && now_ns - synced_ns >= SYNC_PERIOD_MS * NS_PER_MS);
    int results[] = {
        flush_impacts(shared, dirfd, progress),
        flush_head(shared->output_head, shared->output_head_used, dirfd, "output.head",
                   &progress->head_written),
        flush_output(shared, dirfd, progress),
        flush_last_lines(&shared->report, dirfd, "output.report", &progress->report_written),
        flush_first_lines(&shared->found, dirfd, "output.first", &progress->found_cursor),
        flush_last_lines(&shared->found, dirfd, "output.last", &progress->found_written),
        flush_head(shared->stdout_head, shared->stdout_head_used, dirfd, "stdout.head",
                   &progress->stdout_head_written),
        flush_last_lines(&shared->stdout_lines, dirfd, "stdout.last", &progress->stdout_written),
        flush_events(shared, dirfd, progress),
        flush_samples(shared, run_dir, progress),
        flush_gpus(shared, dirfd),
        flush_boot(dirfd),
        flush_run_json(shared, dirfd, due),
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i] < 0)
            return rc_err_errno(err, results[i], "cannot write to run directory '%s'", run_dir);
    if (due) {
        sync_run(dirfd);
        synced_ns = clock_mono_ns();
        progress->trouble_synced = trouble;
    }
    return 0;
}
