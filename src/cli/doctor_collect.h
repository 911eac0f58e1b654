/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of this machine without a run: the collectors of a bundle, three of the doctor's own, and one
 * record of the sampler. Everything that may hang is a child with a deadline.
 */
#ifndef CLI_DOCTOR_COLLECT_H
#define CLI_DOCTOR_COLLECT_H

#include "collect/collector.h"

struct facts;
struct rc_err;

extern const struct collector collector_doctor_access;    /* devices, groups, log access */
extern const struct collector collector_doctor_tracing;   /* can a child be traced */
extern const struct collector collector_doctor_libraries; /* runtimes that would be loaded */

/* `argv` (NULL-terminated) is the command whose interpreter and libraries are looked at. 0 or
 * -errno with *err; facts that could not be had are in `facts` with their reasons. */
int doctor_collect(struct facts *facts, const char *const *argv, struct rc_err *err);

#endif
