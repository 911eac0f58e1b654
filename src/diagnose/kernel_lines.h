/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of kernel_log_to_facts(): the order of bad events and the blocks that span records.
 * Internal to diagnose/.
 */
#ifndef DIAGNOSE_KERNEL_LINES_H
#define DIAGNOSE_KERNEL_LINES_H

#include "diagnose/kernel_events.h"
#include "diagnose/kernel_timeline.h"
#include "diagnose/rules_made.h"
#include "diagnose/text_facts.h"

struct rule_takes;

enum bad_class { BAD_NONE, BAD_HW_RAS, BAD_SDMA, BAD_PAGE_FAULT, BAD_GPU_HANG, BAD_HOST_OOM };

struct bad_event {
    unsigned line;
    enum bad_class class;
    char text[160];
};

/* Only changes of class are kept: the first event and its consequences. */
#define BAD_EVENTS_MAX 16

/* A page fault has up to ten records, in any order, with others in between. */
struct fault_block {
    bool open, has_head, has_address, has_status;
    bool silent;    /* the status register had been read already: 0 means nothing */
    bool unhandled; /* bad enough to be an event */
    unsigned line;  /* of the first record */
    unsigned last_line;
    unsigned event; /* index + 1 in events, 0 = none */
    uint64_t status;
    char address[24], client[24], process[64];
    int64_t pid, vmid, permission, walker, rw; /* -1 = not said */
};

struct klog {
    struct scan s;
    struct bad_event events[BAD_EVENTS_MAX];
    unsigned events_count;
    unsigned bad_count;
    struct text stamped;      /* a record whose stamp was not read yet; empty = there is none */
    double now;               /* seconds of the last stamp read, -1 = none that counts seconds */
    double last_bad;          /* of the last bad record */
    double last_crash;        /* of the last record of a program's own crash */
    bool booted;              /* the machine was started after the last bad record */
    bool recovered;           /* the kernel says of the last bad record that the GPU has recovered */
    bool dated, last_dated;   /* these are calendar times, not times since boot */
    unsigned incident;        /* line where the last incident begins; 1 = all of the log */
    unsigned incidents;       /* beside the last one */
    enum bad_class before;    /* class with which the incident before the last began */
    struct fault_block fault; /* the fault being read */
    struct fault_block first_fault; /* line 0 = none yet */
    char first_client[24];          /* of the first fault that names one */
    unsigned first_client_line;
    unsigned faults, echoes, timeouts;
    bool timeout_open;        /* the next "Process" record belongs to a ring timeout */
    char pending_process[64]; /* a "Process" record in front of its fault */
    int64_t pending_pid;
    unsigned pending_line;
    unsigned piece_line;      /* the last line that was a piece of a fault */
    unsigned noted, noted_line; /* bit set of the classes noted for that line */
    struct timeline timeline;
    bool any_rule;                  /* a first pass found that one applies */
    bool follows;                   /* the record comes only after a hang or a fault */
    int64_t target_pid;             /* of the run, -1 = not known */
    char device[DEVICE_NAME_SIZE];  /* device that a record names together with that process; "" =
                                     * none */
};

/* Note a bad event; returns its index + 1, or 0 when it changed nothing. */
unsigned klog_bad(struct klog *, unsigned line, enum bad_class, struct text text);

/* Seconds since boot that dmesg or /dev/kmsg put in front of a record, -1 = none. */
double klog_stamp(struct text record);

/* Calendar seconds, if a record has a date instead (dmesg -T, journalctl, syslog). The origin is
 * arbitrary (without a year: first of January); -1 = none. */
double klog_date(struct text record);
#define KLOG_YEAR_S (366 * 86400.0) /* a smaller one has no year */
#define KLOG_EPOCH_S 62168601600.0  /* that of 1970-01-01 */

/* The fact's name is of those that a kernel log gives. */
bool klog_is_event(const char *fact);

/* A record without its time stamp, as a rule found it; see rules_run.act. */
bool klog_fault_read(struct klog *, enum rule_reader, struct text line, const struct rule_takes *);
bool klog_host_read(struct klog *, enum rule_reader, struct text line, const struct rule_takes *);
void klog_fault_close(struct klog *);
void klog_fault_emit(struct klog *);

/* The record without the prefix of dmesg, syslog, journalctl or /dev/kmsg; false: not a kernel
 * record (another program's line in the journal, a " KEY=value" line of /dev/kmsg). */
bool klog_strip(struct text record, struct text *ret);

#endif
