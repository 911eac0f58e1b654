/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account: the memory of the GPU that refused, split into parts that add up to its total. The
 * remainder is a part of its own. Also tells whether the request would have fitted without one of the
 * parts. Pure: facts in, facts account.* out; the source of each is "computed from ...".
 *
 * PyTorch:    total = others + siblings + beside PyTorch (at its start, since) + private pools + plateau +
 *             growth + step + idle (whole, in pieces) + free + remainder
 * XLA, HIP:   total = others + siblings + beside the pool + in use + idle + free + remainder
 *
 * A part that was not measured is absent, and its bytes are in the remainder.
 */
#ifndef DIAGNOSE_ACCOUNT_H
#define DIAGNOSE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

struct cJSON;
struct facts;

/* In the order of the table. */
struct account_part {
    const char *fact;  /* "account.free_bytes" */
    const char *label; /* for people */
    char mark;         /* in the drawn bar */
};

extern const struct account_part account_parts[];
extern const size_t account_part_count;

struct account {
    const char *name;    /* in verdict.json; "" = that of the GPU */
    const char *heading; /* for people */
    const char *total;   /* fact */
    const struct account_part *parts; /* the last one is the remainder */
    size_t count;
};

extern const struct account account_of_gpu;
extern const struct account account_of_host; /* account_host.c */
extern const struct account account_of_gtt;

/* Facts account.*; called by features_derive() after all other features. */
void account_derive(struct facts *facts);
/* By how many bytes permanently kept memory grew in the run, measured by the blocks that were in
 * use earlier and still are. False: not known. */
bool account_kept_growth(const struct facts *facts, double *ret);
/* Facts account.host.* and account.gtt.* (account_host.c). */
void account_derive_host(struct facts *facts);
/* Adds conclusions from the account: fit, life gained, shares (account_cause.c). */
void account_derive_cause(struct facts *facts);

/* Adds "account" to verdict.json's object if there is an account. False: no memory. */
bool account_to_json(const struct facts *facts, struct cJSON *verdict);

#endif
