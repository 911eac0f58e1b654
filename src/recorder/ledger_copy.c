/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/ledger_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "inject/settle.h"
#include "record/ledger.h"
#include "record/shared.h"

#define COPY_NAME "ledger"
#define COPY_PERIOD_NS 30000000000u
#define BLOCK 16384

/* Writes only the blocks that differ from those on disk: even a busy table changes few of its pages. */
static int copy_block(int from, int to, off_t at, size_t len)
{
    static char new[BLOCK];
    static char old[BLOCK];
    ssize_t n = fs_pread_full(from, new, len, at);
    if (n <= 0)
        return n < 0 ? (int)n : -EIO;
    if (fs_pread_full(to, old, (size_t)n, at) == n && memcmp(old, new, (size_t)n) == 0)
        return 0;
    return fs_pwrite_all(to, new, (size_t)n, at);
}

static int copy_data(int from, int to, off_t size)
{
    off_t at = 0;
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA); /* holes of the sparse file were never written */
        if (data < 0)
            return errno == ENXIO ? 0 : -errno;
        at = data - data % BLOCK;
        off_t end = lseek(from, data, SEEK_HOLE);
        if (end < 0)
            return -errno;
        for (; at < end && at < size; at += BLOCK) {
            int r = copy_block(from, to, at, size - at < BLOCK ? (size_t)(size - at) : BLOCK);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int ledger_copy(int fd, int dirfd)
{
    /* Open it again: all processes share the file position of the inherited descriptor. */
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RC_AUTO_CLOSE int from = open(path, O_RDONLY | O_CLOEXEC);
    RC_AUTO_CLOSE int to = fs_open_write(dirfd, COPY_NAME, O_RDWR);
    if (to < 0)
        return to;
    struct stat st;
    if (fstat(to, &st) != 0)
        return -errno;
    int r = st.st_size == (off_t)sizeof(struct ledger)
                ? 0
                : fs_truncate(to, (off_t)sizeof(struct ledger));
    return r < 0 ? r : copy_data(from >= 0 ? from : fd, to, (off_t)sizeof(struct ledger));
}

int ledger_copy_turn(struct ledger *ledger, const struct shared *shared, int dirfd, bool final)
{
    static uint64_t copied_events, copied_refusals, copied_ns;
    static uint32_t copied_impacts;
    if (ledger == NULL)
        return 0;
    uint64_t now_ns = clock_mono_ns();
    ledger_settle(ledger, now_ns);
    uint64_t refusals = ledger->refusals_head + ledger->hip_refusals_head;
    uint64_t events = ledger->events_head + ledger->models_used + refusals;
    bool urgent = final || refusals != copied_refusals || shared->impacts_used != copied_impacts;
    if (dirfd < 0 || (events == copied_events && !urgent) || events == 0 ||
        (!urgent && now_ns - copied_ns < COPY_PERIOD_NS))
        return 0;
    int r = ledger_copy(shared->run.ledger_fd, dirfd);
    if (r < 0)
        return r;
    copied_events = events;
    copied_refusals = refusals;
    copied_impacts = shared->impacts_used;
    copied_ns = now_ns;
    return 0;
}

int ledger_copy_late(const struct shared *shared, const char *run_dir)
{
    char path[64];
    if (shared->run.ledger_fd < 0)
        return 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", shared->run.supervisor_pid,
                   shared->run.ledger_fd);
    RC_AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
    RC_AUTO_CLOSE int dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || dirfd < 0)
        return -errno;
    /* It fails if this descriptor is another file by now. */
    const struct ledger *ledger = ledger_open(fd, NULL);
    if (ledger == NULL)
        return -EINVAL;
    bool empty = ledger->events_head + ledger->models_used + ledger->hip_refusals_head == 0;
    ledger_close(ledger);
    return empty ? 0 : ledger_copy(fd, dirfd);
}
