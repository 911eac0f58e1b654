/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective_calls_to_facts(): ranks that call the same collective with different sizes, as msg.ranks_differ.
 * The watchdog prints the call of each rank: "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1024, ...". Pure.
 */
#ifndef DIAGNOSE_COLLECTIVE_CALLS_H
#define DIAGNOSE_COLLECTIVE_CALLS_H

#include <stddef.h>

struct facts;

void collective_calls_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
