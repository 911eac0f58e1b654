/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the bytes that are carried, in the relay process: tee(2) gives a second reference to their
 * pages. The pages are read, matched, and put into the shared ring. Above 50 MB/s we look at a part
 * only, which always includes the last 32 KiB before a pause or the end.
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/shared.h"

#define RATE_WINDOW_NS 20000000u
#define RATE_WINDOW_BYTES (1u << 20) /* in RATE_WINDOW_NS: 52 MB/s */
#define RUSH_WINDOW_BYTES (1u << 18) /* in RATE_WINDOW_NS: 13 MB/s */
#define PEEK_KEEP_BYTES ((size_t)32 << 10)
/* 32 pages, so 32 writes however small. Twice as many make bulk data a fifth slower. If the kernel refuses this size, the pipe
 * keeps its 16. */
#define PEEK_PIPE_BYTES (128 << 10)

char look_buffer[CARRY_CHUNK_BYTES];

void look_init(struct carrier *c)
{
    matcher_init(&c->matcher);
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
            struct shared_run *run = &c->shared->run;
            char *why = c->lines_only ? run->stdout_error : run->follow_error;
            (void)snprintf(why, sizeof run->follow_error, "no pipes to look at it with: %s",
                           strerror(errno));
            c->blind = true;
            return;
        }
        (void)fcntl(ends[1], F_SETPIPE_SZ, PEEK_PIPE_BYTES);
        c->peek[i] = (struct peek_pipe){.read_end = ends[0], .write_end = ends[1]};
    }
}

static void publish_matches(struct carrier *c)
{
    struct shared *s = c->shared;
    _Atomic uint64_t *first = &s->first_match_ns;
    _Atomic uint32_t *const counts[MATCH_REPORT] = {&s->oom_matches, &s->fault_matches,
                                                    &s->hang_matches, &s->error_matches,
                                                    &s->plain_matches};
    for (int kind = 0; kind < MATCH_REPORT; kind++) {
        uint64_t fresh = c->matcher.count[kind] - c->published[kind];
        if (fresh == 0)
            continue;
        c->published[kind] = c->matcher.count[kind];
        if (kind < MATCH_ERROR)
            shared_counters_at_message(s);
        uint64_t none = 0;
        (void)atomic_compare_exchange_strong(first, &none, clock_mono_ns());
        if (atomic_fetch_add(counts[kind], (uint32_t)fresh) == 0)
            shared_event(s, "relay", "first %s message: %s", match_kind_name(kind),
                         match_patterns[c->matcher.first_index[kind]].text);
    }
}

void look_gap(struct carrier *c)
{
    static const char note[] = "\n[rocmcrash: some output was carried, but not kept]\n";
    matcher_gap(&c->matcher);
    report_gap(c);
    (void)atomic_fetch_add(&c->carried->unseen, 1);
    /* Write it now: the lost line may be the last one. */
    if (!c->resync && !c->lines_only)
        ring_write(&c->shared->output, note, sizeof note - 1);
    c->resync = true;
}

/* Keeps the beginning of the output. It ends at the first gap. */
static void keep_head(struct shared *s, const char *data, size_t len)
{
    uint32_t used = atomic_load(&s->output_head_used);
    if (used >= OUTPUT_HEAD_BYTES || atomic_load(&s->stderr_carried.unseen) > 0)
        return;
    size_t left = OUTPUT_HEAD_BYTES - used;
    len = len < left ? len : left;
    memcpy(s->output_head + used, data, len);
    atomic_store(&s->output_head_used, used + (uint32_t)len);
}

/* Returns how many of the last bytes of `data` are in the ring now. */
static size_t keep_in_ring(struct carrier *c, const char *data, size_t len)
{
    if (c->resync) {
        const char *end = memchr(data, '\n', len);
        if (end == NULL)
            return 0;
        c->resync = false;
        len -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    ring_write(&c->shared->output, data, len);
    keep_head(c->shared, data, len);
    return len;
}

void look_at(struct carrier *c, const void *data, size_t len)
{
    if (len == 0)
        return;
    size_t kept = c->lines_only ? 0 : keep_in_ring(c, data, len);
    const char *newline = memrchr(data, '\n', len);
    c->since_newline = newline != NULL ? len - (size_t)(newline + 1 - (const char *)data) : c->since_newline + len;
    matcher_feed(&c->matcher, data, len);
    publish_matches(c);
    report_look(c, data, len);
    if (!c->lines_only)
        found_look(c, kept);
}

static size_t lies_in(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

/* If a read fails while bytes are in the pipe, it is repeated. Otherwise the next read would take these
 * bytes for newer ones, and the pipe would fill until tee(2) finds no room in it. */
ssize_t look_read_all(int fd, char *data, size_t len)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = read(fd, data + have, len - have);
        if (n < 0 && (errno == EINTR || errno == EAGAIN) && lies_in(fd) > 0)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

size_t look_whole_lines(const char *data, size_t len)
{
    const char *newline = memrchr(data, '\n', len);
    return newline != NULL ? (size_t)(newline + 1 - data) : len;
}

void look_discard(struct carrier *c, int fd, size_t len)
{
    while (len > 0) {
        ssize_t n = c->null_fd >= 0 ? splice(fd, NULL, c->null_fd, NULL, len, 0) : -1;
        if (n <= 0)
            n = look_read_all(fd, look_buffer, len < sizeof look_buffer ? len : sizeof look_buffer);
        if (n <= 0)
            return;
        len -= (size_t)n;
    }
}

/* Looks at all unread bytes of one peek pipe. */
static void peek_read(struct carrier *c, struct peek_pipe *p)
{
    while (p->unread > 0) {
        size_t want = p->unread < sizeof look_buffer ? p->unread : sizeof look_buffer;
        ssize_t n = look_read_all(p->read_end, look_buffer, want);
        if (n <= 0)
            break;
        look_at(c, look_buffer, (size_t)n);
        p->unread -= (size_t)n;
    }
    p->unread = 0;
}

void look_catch_up(struct carrier *c)
{
    if (c->peek[0].unread == 0 && c->peek[1].unread == 0)
        return;
    if (c->skipped) {
        look_gap(c);
    }
    c->skipped = false;
    peek_read(c, &c->peek[c->peek_active ^ 1u]);
    peek_read(c, &c->peek[c->peek_active]);
}

static void peek_switch(struct carrier *c)
{
    c->peek_active ^= 1u;
    struct peek_pipe *p = &c->peek[c->peek_active];
    if (p->unread == 0)
        return;
    look_discard(c, p->read_end, p->unread);
    p->unread = 0;
    c->skipped = true;
}

/* Bytes wait, but a peek pipe that should be empty has no room: an earlier read failed. The bytes that
 * are left in it would block tee(2) for ever, so discard them. */
static void peek_empty(struct carrier *c)
{
    for (int i = 0; i < 2; i++) {
        size_t left = lies_in(c->peek[i].read_end);
        look_discard(c, c->peek[i].read_end, left);
        c->skipped = c->skipped || left > 0;
        c->peek[i].unread = 0;
    }
}

/* Whole buffers of the pipe: a write of up to PIPE_BUF bytes is in one of them, and must not be carried in two pieces. */
static ssize_t tee_to_peek(struct carrier *c)
{
    struct peek_pipe *p = &c->peek[c->peek_active];
    ssize_t n = tee(c->relay->from, p->write_end, PEEK_PIPE_BYTES, SPLICE_F_NONBLOCK);
    if (n < 0)
        return -errno;
    p->unread += (size_t)n;
    return n;
}

/* tee(2) from relay->from. -EAGAIN has two meanings: relay->from is empty, or the peek pipe is full of
 * small pieces. So if we know that bytes wait, make room and try again. A full peek pipe also hides the
 * end of relay->from, because the kernel checks for room first (fs/splice.c). */
static ssize_t tee_ahead(struct carrier *c)
{
    if (c->peek[c->peek_active].unread >= PEEK_KEEP_BYTES)
        peek_switch(c);
    bool something_waits = c->something_waits;
    c->something_waits = false;
    ssize_t n = tee_to_peek(c);
    if (n == -EAGAIN && something_waits) {
        look_catch_up(c);
        n = tee_to_peek(c);
    }
    if (n == -EAGAIN && something_waits) {
        peek_empty(c);
        n = tee_to_peek(c);
    }
    return n;
}

/* Without peek pipes the bytes are carried, but not looked at. */
static ssize_t wait_blindly(const struct carrier *c)
{
    struct pollfd p = {.fd = c->relay->from, .events = POLLIN};
    int waiting = 0;
    if (poll(&p, 1, 0) < 0)
        return -errno;
    if ((p.revents & POLLIN) != 0 && ioctl(c->relay->from, FIONREAD, &waiting) == 0 && waiting > 0)
        return waiting;
    return (p.revents & (POLLHUP | POLLERR)) != 0 ? 0 : -EAGAIN;
}

ssize_t look_ahead(struct carrier *c)
{
    if (c->blind) {
        ssize_t waiting = wait_blindly(c);
        c->ahead = waiting > 0 ? (size_t)waiting : 0;
        return waiting;
    }
    if (c->ahead > 0) {
        look_behind(c);
        return (ssize_t)c->ahead;
    }
    ssize_t n = tee_ahead(c);
    if (n <= 0)
        return n;
    if (!c->sampling)
        look_catch_up(c);
    c->ahead = (size_t)n;
    return n;
}

void look_behind(struct carrier *c)
{
    if (c->blind)
        return;
    look_catch_up(c);
    struct peek_pipe *p = &c->peek[c->peek_active];
    ssize_t n = tee(c->relay->from, p->write_end, CARRY_CHUNK_BYTES, SPLICE_F_NONBLOCK);
    if (n <= 0)
        return;
    size_t got = (size_t)look_read_all(p->read_end, look_buffer, (size_t)n);
    if (got == CARRY_CHUNK_BYTES) /* there is more: a write may go on behind it */
        got = look_whole_lines(look_buffer, got);
    if (got <= c->ahead)
        return;
    look_at(c, look_buffer + c->ahead, got - c->ahead);
    c->ahead = got;
}

/* A SCHED_BATCH task does not preempt the task that wakes it. So a target on the same CPU goes on until
 * the pipe is full; otherwise each line interrupts it. Measured on one CPU with lines of 200 bytes:
 * 1.4 times the throughput of `| cat` instead of 0.7 times. */
static void give_way(struct carrier *c, bool way)
{
    struct sched_param none = {0};
    if (way == c->gives_way || (way && sched_getscheduler(0) != SCHED_OTHER))
        return;
    if (sched_setscheduler(0, way ? SCHED_BATCH : SCHED_OTHER, &none) == 0)
        c->gives_way = way;
}

void look_rate(struct carrier *c, size_t carried)
{
    c->window_bytes += carried;
    uint64_t now = clock_mono_ns();
    if (now - c->window_start_ns < RATE_WINDOW_NS)
        return;
    uint64_t windows = (now - c->window_start_ns) / RATE_WINDOW_NS;
    c->sampling = c->window_bytes > RATE_WINDOW_BYTES * windows;
    give_way(c, c->window_bytes > RUSH_WINDOW_BYTES * windows);
    c->window_start_ns = now;
    c->window_bytes = 0;
    look_catch_up(c);
}
