/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the kernel log from the start of the run on: /dev/kmsg, or a regular file in its place
 * below the sysroot. Used by the recorder process. One record per read:
 *
 *   3,1042,70212345,-;amdgpu 0000:03:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, ...\n
 *    SUBSYSTEM=pci\n
 */
#ifndef WATCH_KERNEL_LOG_H
#define WATCH_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rc_err;

/* The kernel refuses to give a record to a smaller buffer. */
#define KERNEL_LOG_RECORD_MAX 8192
#define KERNEL_LOG_SEQ_UNKNOWN UINT64_MAX

struct kernel_log {
    int fd;
    bool regular;      /* a file: poll() always says ready, so read it by a timer */
    uint64_t next_seq; /* of the next record to be read; KERNEL_LOG_SEQ_UNKNOWN */
    uint64_t overruns; /* how often the kernel overwrote records that we had not read */
    uint64_t lost;     /* records that are missing by their numbers */
    uint64_t offset;   /* regular only */
};

enum kernel_line {
    KERNEL_LINE_OTHER,
    KERNEL_LINE_AMDGPU, /* from amdgpu or kfd, or of use with them (AER); no verdict by itself */
    KERNEL_LINE_OOM,    /* a refused allocation or the OOM killer */
    KERNEL_LINE_FAULT,  /* GPU page fault, hardware error */
    KERNEL_LINE_HANG,   /* ring timeout, firmware that does not answer, reset */
};

/* A descriptor at the current end of the log, for kernel_log_open(), or -errno. Reads nothing.
 */
int kernel_log_mark(void);
/* Opens and goes to the end, or to `mark` (>= 0: takes the descriptor over; nothing was read from
 * it yet). 0 or -errno: -ENOENT (none on this machine), -EPERM or -EACCES (dmesg_restrict). Reads
 * at most 10 ms of old records to learn the sequence number. */
int kernel_log_open(struct kernel_log *log, int mark, struct rc_err *err);
void kernel_log_close(struct kernel_log *log);
/*
 * The next record, NUL-terminated, with its continuation lines. Its length, 0 = nothing new, or
 * -errno; never blocks. `size` must be > KERNEL_LOG_RECORD_MAX, else -EINVAL.
 */
ssize_t kernel_log_read(struct kernel_log *log, char *buf, size_t size);

/* Classifies one record or one line of dmesg; the prefix does not matter. */
enum kernel_line kernel_log_classify(const char *record);

#endif
