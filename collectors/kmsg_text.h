/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel-log records as readable lines: "[ secs.usecs] text". Pure. Used by kernel_log.c, and by
 * its tests over recorded and broken input.
 */
#ifndef COLLECTORS_KMSG_TEXT_H
#define COLLECTORS_KMSG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct kmsg_window {
    uint64_t first_seq;  /* records before are left out; 0 = all */
    uint64_t first_usec; /* likewise */
    uint64_t until_usec; /* records after are left out; 0 = all */
    uint64_t last_seq;   /* out: the last record that was kept, valid when records > 0 */
    uint64_t records;    /* out: kept */
    uint64_t lost;       /* out: sequence numbers that are missing between kept records */
};

/* `sudo rocmcrash complete` takes the time of the run from a stranger's bundle. So take at most the
 * last hour before the end of the run (end_usec; 0 or in the future = now), and nothing from before the run. The kernel's
 * clock drifts (base/clock.h): a minute and 50 ppm of the uptime are allowed for that. */
#define KMSG_CLAIMED_BEFORE_S 60u
#define KMSG_CLAIMED_WINDOW_S 3600u
void kmsg_window_cap(struct kmsg_window *window, uint64_t start_usec, uint64_t end_usec, uint64_t now_usec);

/* Append the records of /dev/kmsg's text (also several, also cut at the end) as lines. Lines that
 * are no record are left out. */
void kmsg_append_records(struct buf *out, const char *text, size_t len, struct kmsg_window *window);
/* Does the text start like /dev/kmsg ("6,1234,5678,-;")? */
bool kmsg_is_records(const char *text);

/* A line of `journalctl -o short-monotonic`: takes out host name and "kernel:". */
void kmsg_append_journal(struct buf *out, const char *text, size_t len);

/*
 * Shorten to max_bytes. Keeps every line about GPUs, memory and machine checks, and the last 200 of
 * any kind, in order; if that is still too much, the first and the last of these. A line that
 * starts with '#' tells how many lines were left out. Returns that number.
 */
size_t kmsg_select(struct buf *out, const char *text, size_t len, size_t max_bytes);
/* The same, but of a text of any length keeps only lines about GPUs, memory and machine checks. */
size_t kmsg_select_relevant(struct buf *out, const char *text, size_t len, size_t max_bytes);

#endif
