/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_counts_to_facts(): a count beside a failure that stands at a limit of the process ("handle #1019: out of
 * memory", with 1024 open files allowed), as quantity.count_at_limit, quantity.count_limit and quantity.count_limit_name. Each handle, piece
 * or mapping takes a descriptor or an entry of the address space, and the runtime reports that none is left as
 * 'out of memory'. Pure; after the readers that set the limits.
 */
#ifndef DIAGNOSE_LIMIT_COUNTS_H
#define DIAGNOSE_LIMIT_COUNTS_H

#include <stddef.h>

struct facts;

void limit_counts_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
