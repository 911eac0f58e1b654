/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signature of a failure is equal for the same failure on another day, machine or build, so that a
 * search for its id finds duplicates. It is made of class, failing call, error code, exception,
 * innermost function and architecture; for the program's own failures and unknown ones also of the signal, the file of
 * that function, and the line of Python; for a program that stood still, of where it stood. Without sizes, addresses,
 * paths or pids. Versions are listed beside it: a defect in two releases is one defect. Pure.
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
