/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts that are computed from other facts by expressions in the tree's language; the expressions
 * are data, templates/computed.json. Features that need C (choosing the GPU, reading names and
 * headers) are in features*.c. Pure.
 */
#ifndef DIAGNOSE_COMPUTED_H
#define DIAGNOSE_COMPUTED_H

#include <stddef.h>

struct computed; /* opaque */
struct expr;
struct facts;
struct rc_err;

/* templates/computed.json. NULL with file, line and reason in *err; caller releases. */
struct computed *computed_parse(const char *json, size_t len, const char *name, struct rc_err *err);
/* The same from a file. */
struct computed *computed_read(const char *path, struct rc_err *err);
void computed_free(struct computed *); /* NULL allowed */

/* Computes all of them, in their order. Existing facts stay. Each fact has "computed from ..." as
 * its source. A fact that cannot be computed is missing, and the reason names its inputs. */
void computed_derive(const struct computed *, struct facts *facts);

#endif
