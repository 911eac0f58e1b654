/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "telemetry/dirscan.h"
#include "telemetry/values.h"

/* A segment closes after the first record that passes SEGMENT_BYTES. */
#define SEGMENT_FILE_MAX (SEGMENT_BYTES + sizeof(struct sample_header) +                           \
                          VALUES_ENTRIES_MAX * sizeof(struct sample_entry))

struct segment {
    uint32_t number;
    uint64_t first_ns; /* time of its first record, 0 = it has none */
};

static struct writer {
    char run_dir[1024];
    int dirfd;
    int fd; /* the last segment, -1 = none */
    size_t bytes;
    uint32_t count;
    struct segment segments[SEGMENTS_MAX + 2];
    /* The position of the appended bytes in a record. */
    unsigned char header[sizeof(struct sample_header)];
    size_t header_have;
    uint64_t body_left;
} writer = {.dirfd = -1, .fd = -1};

static bool durable_writes = true;

void segment_set_durable(bool durable)
{
    durable_writes = durable;
}

int64_t segment_number(const char *name)
{
    return number_in_name(name, "samples.");
}

/* --- reading --- */

struct sample_entry segment_entry(const unsigned char *data, size_t entries_at, uint32_t index)
{
    struct sample_entry entry;
    memcpy(&entry, data + entries_at + index * sizeof entry, sizeof entry);
    return entry;
}

static bool is_record(const unsigned char *data, size_t len, size_t at, struct sample_header *ret)
{
    if (len - at < sizeof *ret)
        return false;
    memcpy(ret, data + at, sizeof *ret);
    if (ret->magic != SAMPLE_MAGIC || ret->time_ns == 0 || ret->entries > VALUES_ENTRIES_MAX ||
        (ret->flags & ~(SAMPLE_FULL | SAMPLE_BASELINE | SAMPLE_IMPACT | SAMPLE_AFTER |
                        SAMPLE_THINNED)) != 0 ||
        len - at - sizeof *ret < ret->entries * sizeof(struct sample_entry))
        return false;
    for (uint32_t i = 0; i < ret->entries; i++) {
        struct sample_entry e = segment_entry(data, at + sizeof *ret, i);
        if (metric_find(e.metric) == NULL || e.status > VALUE_STALLED || e.reserved != 0)
            return false;
    }
    return true;
}

bool segment_next(const unsigned char *data, size_t len, size_t *at, struct sample_header *ret,
                  size_t *ret_entries_at, uint64_t *skipped)
{
    for (; *at < len; (*at)++) {
        if (is_record(data, len, *at, ret)) {
            *ret_entries_at = *at + sizeof *ret;
            *at = *ret_entries_at + ret->entries * sizeof(struct sample_entry);
            return true;
        }
        if (skipped != NULL)
            (*skipped)++;
    }
    return false;
}

/* --- the list of segments --- */

static void segment_name(char *out, size_t size, uint32_t number)
{
    (void)snprintf(out, size, "samples.%04u", number);
}

static uint64_t read_first_time(int dirfd, uint32_t number)
{
    static unsigned char head[4096];
    char name[32];
    segment_name(name, sizeof name, number);
    RC_AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd < 0 ? -1 : fs_pread_full(fd, head, sizeof head, 0);
    /* The header is enough: the record itself may be larger than this piece. */
    for (ssize_t at = 0; at + (ssize_t)sizeof(struct sample_header) <= len; at++) {
        struct sample_header h;
        memcpy(&h, head + at, sizeof h);
        if (h.magic == SAMPLE_MAGIC && h.entries <= VALUES_ENTRIES_MAX && h.time_ns != 0)
            return h.time_ns;
    }
    return 0;
}

static void insert_segment(struct writer *w, uint32_t number)
{
    if (w->count == sizeof w->segments / sizeof w->segments[0])
        return;
    uint32_t at = w->count++;
    for (; at > 0 && w->segments[at - 1].number > number; at--)
        w->segments[at] = w->segments[at - 1];
    w->segments[at] = (struct segment){.number = number};
}

static int list_segments(struct writer *w)
{
    struct dirscan dir;
    int r = dirscan_openat(&dir, w->dirfd, ".");
    if (r < 0)
        return r;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t number = segment_number(name);
        if (number >= 0)
            insert_segment(w, (uint32_t)number);
    }
    dirscan_close(&dir);
    for (uint32_t i = 0; i < w->count; i++)
        w->segments[i].first_ns = read_first_time(w->dirfd, w->segments[i].number);
    return 0;
}

void segment_close(bool durable)
{
    if (writer.fd >= 0) {
        if (durable)
            (void)fs_sync(writer.fd);
        (void)close(writer.fd);
    }
    if (writer.dirfd >= 0)
        (void)close(writer.dirfd);
    memset(&writer, 0, sizeof writer);
    writer.fd = writer.dirfd = -1;
}

static int open_segment(struct writer *w, uint32_t number)
{
    char name[32];
    struct stat st;
    segment_name(name, sizeof name, number);
    w->fd = fs_open_write(w->dirfd, name, O_WRONLY | O_APPEND);
    if (w->fd < 0)
        return w->fd;
    if (fstat(w->fd, &st) != 0)
        return -errno;
    w->bytes = (size_t)st.st_size;
    return 0;
}

static int open_writer(struct writer *w, const char *run_dir)
{
    if (strlen(run_dir) >= sizeof w->run_dir)
        return -ENAMETOOLONG;
    w->dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (w->dirfd < 0)
        return -errno;
    (void)snprintf(w->run_dir, sizeof w->run_dir, "%s", run_dir);
    int r = list_segments(w);
    if (r < 0)
        return r;
    if (w->count == 0)
        insert_segment(w, 0);
    r = open_segment(w, w->segments[w->count - 1].number);
    if (r < 0 || w->bytes % sizeof(struct sample_entry) == 0)
        return r;
    /* Everything in the ring is a multiple of 16 bytes, also the remainder that a dead recorder
     * leaves to its successor. Another size means a short write or a power cut. If we appended
     * here, the torn record could swallow the next one. */
    (void)close(w->fd);
    insert_segment(w, w->segments[w->count - 1].number + 1);
    return open_segment(w, w->segments[w->count - 1].number);
}

/* --- thinning --- */

/* Both files one after the other in `data`; bytes or -errno. */
static int64_t read_pair(const struct writer *w, uint32_t index, unsigned char *data, size_t max)
{
    size_t len = 0;
    for (uint32_t i = index; i < index + 2; i++) {
        char name[32];
        segment_name(name, sizeof name, w->segments[i].number);
        RC_AUTO_CLOSE int fd = openat(w->dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            return -errno;
        ssize_t n;
        while (len < max && (n = read(fd, data + len, max - len)) != 0) {
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return -errno;
            len += (size_t)n;
        }
    }
    return (int64_t)len;
}

static int merge_pair(struct writer *w, uint32_t index)
{
    const size_t in_max = 2 * SEGMENT_FILE_MAX;
    /* Mapped once per written segment and unmapped at once: no memory is held between thinnings. */
    unsigned char *memory = mmap(NULL, in_max + SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    unsigned char *out = memory + in_max;
    int64_t len = read_pair(w, index, memory, in_max);
    if (len >= 0)
        len = segment_thin(memory, (size_t)len, out, SEGMENT_BYTES);
    char name[32];
    segment_name(name, sizeof name, w->segments[index].number);
    int r = len < 0 ? (int)len : fs_write_file_at(w->dirfd, name, out, (size_t)len, durable_writes);
    (void)munmap(memory, in_max + SEGMENT_BYTES);
    if (r < 0)
        return r;
    if (durable_writes)
        (void)fs_sync(w->dirfd); /* the new one is there before the old one goes */
    segment_name(name, sizeof name, w->segments[index + 1].number);
    (void)unlinkat(w->dirfd, name, 0);
    w->count--;
    memmove(&w->segments[index + 1], &w->segments[index + 2],
            (w->count - index - 1) * sizeof w->segments[0]);
    return 0;
}

/* The pair that covers the least time relative to its age. */
static uint32_t choose_pair(const struct writer *w)
{
    uint32_t best = 0;
    double best_score = 0;
    uint64_t now = w->segments[w->count - 1].first_ns;
    for (uint32_t i = 0; i + 2 + SEGMENTS_FRESH < w->count; i++) {
        uint64_t from = w->segments[i].first_ns;
        uint64_t to = w->segments[i + 2].first_ns;
        double score = to > from && now > to ? (double)(to - from) / (double)(now - to + 1) : 0;
        if (i == 0 || score < best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

static int rotate(struct writer *w)
{
    if (durable_writes)
        (void)fdatasync(w->fd);
    (void)close(w->fd);
    w->fd = -1;
    int thinned = 0;
    if (w->count >= SEGMENTS_MAX)
        thinned = merge_pair(w, choose_pair(w));
    if (thinned < 0 && w->count >= SEGMENTS_MAX + 1) {
        /* Cannot thin (disk full): to stay within the budget, give up the oldest segment but the
         * first. */
        char name[32];
        segment_name(name, sizeof name, w->segments[1].number);
        (void)unlinkat(w->dirfd, name, 0);
        w->count--;
        memmove(&w->segments[1], &w->segments[2], (w->count - 1) * sizeof w->segments[0]);
    }
    uint32_t number = w->segments[w->count - 1].number + 1;
    insert_segment(w, number);
    int r = open_segment(w, number);
    return r < 0 ? r : thinned;
}

/* --- appending --- */

/* How many of these bytes still belong to the record that is being written. Without a valid header
 * (we began in the middle) counts byte by byte up to the next magic. */
static size_t to_boundary(struct writer *w, const unsigned char *data, size_t len)
{
    size_t used = 0;
    while (used < len) {
        if (w->body_left > 0) {
            size_t n = w->body_left < len - used ? (size_t)w->body_left : len - used;
            used += n;
            w->body_left -= n;
            if (w->body_left == 0)
                return used;
            continue;
        }
        w->header[w->header_have++] = data[used++];
        if (w->header_have < sizeof w->header)
            continue;
        struct sample_header h;
        memcpy(&h, w->header, sizeof h);
        if (h.magic != SAMPLE_MAGIC || h.entries > VALUES_ENTRIES_MAX) {
            memmove(w->header, w->header + 1, --w->header_have);
            continue;
        }
        w->header_have = 0;
        struct segment *last = &w->segments[w->count - 1];
        if (last->first_ns == 0)
            last->first_ns = h.time_ns;
        w->body_left = h.entries * sizeof(struct sample_entry);
        if (w->body_left == 0)
            return used;
    }
    return used;
}

static bool at_boundary(const struct writer *w)
{
    return w->header_have == 0 && w->body_left == 0;
}

static int append(struct writer *w, const unsigned char *data, size_t len, size_t *taken)
{
    while (*taken < len) {
        int r = 0;
        if (w->bytes >= SEGMENT_BYTES && at_boundary(w))
            r = rotate(w);
        if (w->fd < 0)
            return r < 0 ? r : -EBADF;
        size_t used = 0;
        do
            used += to_boundary(w, data + *taken + used, len - *taken - used);
        while (used < len - *taken && w->bytes + used < SEGMENT_BYTES);
        r = fs_write_all(w->fd, data + *taken, used);
        if (r < 0) {
            (void)fs_truncate(w->fd, (off_t)w->bytes);
            return r;
        }
        w->bytes += used;
        *taken += used;
    }
    return 0;
}

int segment_append_some(const char *run_dir, const void *data, size_t len, size_t *ret_taken)
{
    *ret_taken = 0;
    if (writer.dirfd < 0 || strcmp(writer.run_dir, run_dir) != 0) {
        segment_close(false);
        int r = open_writer(&writer, run_dir);
        if (r < 0) {
            segment_close(false);
            return r;
        }
    }
    int r = append(&writer, data, len, ret_taken);
    if (r < 0)
        segment_close(false); /* open again next time */
    return r;
}

int segment_append(const char *run_dir, const void *data, size_t len)
{
    size_t taken;
    return segment_append_some(run_dir, data, len, &taken);
}

void segment_sync(void)
{
    if (writer.fd >= 0 && durable_writes)
        (void)fdatasync(writer.fd);
}
