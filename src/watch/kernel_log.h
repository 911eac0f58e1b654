/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the kernel log from the start of the run: /dev/kmsg, or a regular file in its place below the
 * sysroot. Used by the recorder process. Each read gives one record:
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

/* A read into a smaller buffer than the record fails. */
#define KERNEL_LOG_RECORD_MAX 8192
#define KERNEL_LOG_SEQ_UNKNOWN UINT64_MAX

struct kernel_log {
    int fd;
    bool regular;      /* a regular file: poll() always reports it ready, so read it at intervals */
    uint64_t next_seq; /* number of the next record, or KERNEL_LOG_SEQ_UNKNOWN */
    uint64_t overruns; /* how often the kernel overwrote records that we had not read */
    uint64_t lost;     /* how many numbers of records were skipped */
    uint64_t offset;   /* regular only: of the next record */
};

enum kernel_line {
    KERNEL_LINE_OTHER,
    KERNEL_LINE_AMDGPU, /* from amdgpu or kfd, or explains their lines (AER); no failure by itself */
    KERNEL_LINE_OOM,    /* a refused allocation or the OOM killer */
    KERNEL_LINE_FAULT,  /* GPU page fault, hardware error */
    KERNEL_LINE_HANG,   /* ring timeout, firmware that does not answer, reset */
};

/* Returns a descriptor at the current end of the log, for kernel_log_open(), or -errno. Reads nothing. */
int kernel_log_mark(void);
/* Opens the log at `mark`, a descriptor of kernel_log_mark() that was not read from; with -1, at the
 * log's end. *log owns the descriptor afterwards. 0 or -errno: -ENOENT (no log on this machine),
 * -EPERM or -EACCES (dmesg_restrict). To learn the next record's number it reads old records for at
 * most 10 ms. */
int kernel_log_open(struct kernel_log *log, int mark, struct rc_err *err);
void kernel_log_close(struct kernel_log *log);
/*
 * Reads the next record with its continuation lines, NUL-terminated. Returns its length, 0 if there is no
 * new record, or -errno. Never blocks. -EINVAL if `size` is not above KERNEL_LOG_RECORD_MAX.
 */
ssize_t kernel_log_read(struct kernel_log *log, char *buf, size_t size);

/* Classifies one record or one line of dmesg; the prefix does not matter. */
enum kernel_line kernel_log_classify(const char *record);

#endif
