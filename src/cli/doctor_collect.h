/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of this machine without a run: the collectors that need none, and one record of the sampler. Everything that may hang is a child with a deadline.
 */
#ifndef CLI_DOCTOR_COLLECT_H
#define CLI_DOCTOR_COLLECT_H

struct facts;
struct rc_err;

/* `argv` (NULL-terminated) is the command whose interpreter and libraries are looked at. 0 or
 * -errno with *err; facts that could not be had are in `facts` with their reasons. */
int doctor_collect(struct facts *facts, const char *const *argv, struct rc_err *err);

#endif
