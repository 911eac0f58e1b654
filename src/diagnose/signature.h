/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signature of a failure: the same for the same failure on another day, machine or build, so that
 * duplicates are found by searching for its id. Made of class, failing call, error code, exception,
 * innermost function and architecture; of no size, address, path or pid. Versions stand beside it, not
 * in it: a defect that two releases have is one defect. Pure.
 */
#ifndef DIAGNOSE_SIGNATURE_H
#define DIAGNOSE_SIGNATURE_H

#include <stdbool.h>

struct buf;
struct cJSON;
struct facts;
struct verdict;

#define SIGNATURE_ID_SIZE 16

/* "rc-1a2b3c4d5e6f". */
void signature_id(const struct verdict *verdict, const struct facts *facts,
                  char ret[SIGNATURE_ID_SIZE]);
/* Adds "signature": {"id", "of": ["class leak", ...], "versions": ["rocm 6.2", ...]}. False: no memory. */
bool signature_to_json(const struct verdict *verdict, const struct facts *facts,
                       struct cJSON *object);

#endif
