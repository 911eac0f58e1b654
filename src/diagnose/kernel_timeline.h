/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bad events of a kernel log, a time line for each device: what came first, and what followed from
 * it. Pure; filled by kernel_log_to_facts().
 */
#ifndef DIAGNOSE_KERNEL_TIMELINE_H
#define DIAGNOSE_KERNEL_TIMELINE_H

#include <stdbool.h>

#include "diagnose/text.h"

struct scan;

#define TIMELINE_DEVICES_MAX 8
#define TIMELINE_FOLLOWED_BYTES 480
#define DEVICE_NAME_SIZE 16

struct timeline_event {
    const char *class_name; /* "page-fault", ... */
    struct text text;
    unsigned line;
    double at; /* seconds since boot, -1 = not known */
    bool follows; /* of a kind that is never the first */
};

struct timeline {
    struct timeline_device {
        char name[DEVICE_NAME_SIZE]; /* "0000:83:00.0", "host"; "" = lines that name none */
        const char *first, *last;    /* classes */
        char cause[200];
        unsigned line;
        bool fragment; /* what came first is not in the log */
        char followed[TIMELINE_FOLLOWED_BYTES];
        unsigned left_out; /* of what followed */
    } device[TIMELINE_DEVICES_MAX];
    unsigned count;
    unsigned last, last_line; /* the device that was named last, and where */
};

/* "0000:83:00.0" in a record; false: it names none. */
bool timeline_device_of(struct text record, char ret[DEVICE_NAME_SIZE]);
/* Records that name no device belong to the one that was named just before. */
void timeline_add(struct timeline *, const struct timeline_event *);
/* kmsg.device.N.*, and event.hardware_elsewhere: an error of the hardware of a device that nothing had
 * happened to, whatever happened to another before. */
void timeline_emit(const struct timeline *, const struct scan *);

#endif
