/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel log record by record, in the recorder process; see kernel_log.h. Each read of the
 * device gives one record. A regular file in its place is cut into records here.
 */
#include "watch/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"

#define SCAN_BUDGET_NS 10000000u

/* "3,1042,70212345,-;text" -> 1042. False for a line of another form. */
static bool parse_seq(const char *record, uint64_t *ret)
{
    const char *p = record;
    while (*p >= '0' && *p <= '9')
        p++;
    if (p == record || *p != ',')
        return false;
    uint64_t seq = 0;
    const char *digits = ++p;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (seq > (UINT64_MAX - 9) / 10)
            return false;
        seq = seq * 10 + (uint64_t)(*p - '0');
    }
    if (p == digits || *p != ',' || seq == UINT64_MAX)
        return false;
    *ret = seq;
    return true;
}

static void note_seq(struct kernel_log *log, const char *record)
{
    uint64_t seq;
    if (!parse_seq(record, &seq))
        return;
    if (log->next_seq != KERNEL_LOG_SEQ_UNKNOWN && seq > log->next_seq)
        log->lost += seq - log->next_seq;
    log->next_seq = seq + 1;
}

/* /dev/kmsg gives one record per read; EPIPE once if the next record was overwritten. */
static ssize_t read_device(struct kernel_log *log, char *buf, size_t size)
{
    for (int tries = 0; tries < 8; tries++) {
        ssize_t n = read(log->fd, buf, size - 1);
        if (n >= 0) {
            buf[n] = '\0';
            if (n > 0)
                note_seq(log, buf);
            return n;
        }
        if (errno == EAGAIN)
            return 0;
        if (errno == EPIPE)
            log->overruns++;
        else if (errno != EINTR)
            return -errno;
    }
    return 0;
}

/* Length of the first record in text[0..len), with its continuation lines, which begin with a blank.
 * 0 = not complete yet. */
static size_t record_length(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        const char *newline = memchr(text + at, '\n', len - at);
        if (newline == NULL)
            return 0;
        at = (size_t)(newline - text) + 1;
        if (at == len || text[at] != ' ')
            return at;
    }
    return 0;
}

static ssize_t read_regular(struct kernel_log *log, char *buf, size_t size)
{
    struct stat st;
    if (fstat(log->fd, &st) == 0 && (uint64_t)st.st_size < log->offset)
        log->offset = 0; /* the file was replaced or truncated */
    ssize_t n = pread(log->fd, buf, KERNEL_LOG_RECORD_MAX, (off_t)log->offset);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    size_t len = record_length(buf, (size_t)n);
    if (len == 0 && n < KERNEL_LOG_RECORD_MAX)
        return 0; /* still being written */
    if (len == 0)
        len = (size_t)n; /* longer than any record: pass it on in pieces */
    log->offset += len;
    buf[len < size ? len : size - 1] = '\0';
    note_seq(log, buf);
    return (ssize_t)len;
}

ssize_t kernel_log_read(struct kernel_log *log, char *buf, size_t size)
{
    if (size <= KERNEL_LOG_RECORD_MAX)
        return -EINVAL;
    return log->regular ? read_regular(log, buf, size) : read_device(log, buf, size);
}

/*
 * The number of the next record is known only from the record before it. So read the old records (1.2
 * us each: 341 in 0.4 ms). If that takes longer than SCAN_BUDGET_NS, go to the end without the number.
 */
static void go_to_end_of_device(struct kernel_log *log)
{
    char record[KERNEL_LOG_RECORD_MAX + 1];
    uint64_t start = clock_mono_ns();
    ssize_t n;
    do {
        n = read_device(log, record, sizeof record);
    } while (n > 0 && clock_mono_ns() - start < SCAN_BUDGET_NS);
    if (n != 0) {
        (void)lseek(log->fd, 0, SEEK_END);
        log->next_seq = KERNEL_LOG_SEQ_UNKNOWN;
    }
    log->overruns = 0; /* they happened before the run */
    log->lost = 0;
}

static void go_to_end_of_file(struct kernel_log *log, uint64_t size)
{
    char record[KERNEL_LOG_RECORD_MAX + 1];
    log->offset = size > 65536 ? size - 65536 : 0;
    while (log->offset < size) {
        ssize_t n = read_regular(log, record, sizeof record);
        if (n <= 0)
            break;
    }
    log->offset = size;
    log->lost = 0;
}

int kernel_log_mark(void)
{
    int fd = fs_open_machine("/dev/kmsg");
    if (fd >= 0)
        (void)lseek(fd, 0, SEEK_END);
    return fd;
}

/* Records after the mark were written since the run began. Their numbers may be below next_seq. */
static void go_to_mark(struct kernel_log *log, int mark)
{
    off_t at = log->regular ? lseek(mark, 0, SEEK_CUR) : 0;
    (void)close(log->fd);
    log->fd = mark;
    if (log->regular && at >= 0)
        log->offset = (uint64_t)at;
}

int kernel_log_open(struct kernel_log *log, int mark, struct rc_err *err)
{
    *log = (struct kernel_log){.fd = -1, .next_seq = KERNEL_LOG_SEQ_UNKNOWN};
    int fd = fs_open_machine("/dev/kmsg");
    if (fd < 0)
        return rc_err_errno(err, fd, "cannot read the kernel log");
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int r = -errno;
        (void)close(fd);
        return rc_err_errno(err, r, "cannot read the kernel log");
    }
    log->fd = fd;
    log->regular = S_ISREG(st.st_mode);
    char record[KERNEL_LOG_RECORD_MAX + 1];
    /* With dmesg_restrict the open succeeds on some kernels and the read is refused. */
    ssize_t n = log->regular ? 0 : read_device(log, record, sizeof record);
    if (n < 0) {
        kernel_log_close(log);
        return rc_err_errno(err, (int)n, "cannot read the kernel log");
    }
    if (log->regular)
        go_to_end_of_file(log, (uint64_t)st.st_size);
    else
        go_to_end_of_device(log);
    if (mark >= 0)
        go_to_mark(log, mark);
    return 0;
}

void kernel_log_close(struct kernel_log *log)
{
    if (log->fd >= 0)
        (void)close(log->fd);
    log->fd = -1;
}
