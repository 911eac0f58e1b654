/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bad events of a kernel log, a timeline for each device: the first event and its consequences.
 * Pure; filled by kernel_log_to_facts().
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
    bool follows; /* a kind that is always a consequence */
};

struct timeline {
    struct timeline_device {
        char name[DEVICE_NAME_SIZE]; /* "0000:83:00.0", "host"; "" = lines without a device */
        const char *first, *last;    /* classes */
        char cause[200];
        unsigned line;
        bool fragment; /* the first event is not in the log */
        char followed[TIMELINE_FOLLOWED_BYTES];
        unsigned left_out; /* of what followed */
    } device[TIMELINE_DEVICES_MAX];
    unsigned count;
    unsigned last, last_line; /* the device that was named last, and its line */
};

/* "0000:83:00.0" in a record; false: it names none. */
bool timeline_device_of(struct text record, char ret[DEVICE_NAME_SIZE]);
/* A record without a device belongs to the device named just before. */
void timeline_add(struct timeline *, const struct timeline_event *);
/* Sets kmsg.device.N.*, and event.hardware_elsewhere: a device without earlier events had a hardware
 * error, while another device had events before. */
void timeline_emit(const struct timeline *, const struct scan *);

#endif
