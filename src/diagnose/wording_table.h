/* SPDX-License-Identifier: Apache-2.0 */
/* The words of templates/wording.tsv and templates/frame.tsv, and pairs of neighbouring words ("older_kernel"), and what they
 * speak for; made by wording_table.py. Rarity and bias are tenths. */
#ifndef DIAGNOSE_WORDING_TABLE_H
#define DIAGNOSE_WORDING_TABLE_H

#include <stddef.h>

#define WORDING_WORD_MAX 50u /* bytes of a pair with its NUL */
#define WORDING_COLUMNS_MAX 20u

struct wording_table {
    size_t count, columns;
    double weight_unit;
    const char *const *names; /* of the columns */
    const signed char *bias;  /* of the columns */
    /* Words and pairs, sorted: how many letters each shares with the one before ('A' for none), its
     * other letters, and NUL. So they take a quarter less of the wheel. */
    const char *words;
    const signed char *rarity;  /* of each word */
    const signed char *weights; /* of each word, for each column */
};

/* Classes of failure, in the order of prior_class(), and "unknown": reports that name no cause. */
extern const struct wording_table wording_causes;
/* "own": the author's program failed. "told": the text only tells of a failure. */
extern const struct wording_table wording_frames;

#endif
