/* SPDX-License-Identifier: Apache-2.0 */
/* The words of templates/wording.tsv, and pairs of neighbouring words ("older_kernel"), and what they speak for; made by
 * wording_table.py. Rarity and bias are tenths, weights are whole numbers. */
#ifndef DIAGNOSE_WORDING_TABLE_H
#define DIAGNOSE_WORDING_TABLE_H

#include <stddef.h>

#include "diagnose/prior.h"

#define WORDING_WORD_MAX 50u /* bytes of a pair with its NUL */
#define WORDING_CLASSES (PRIOR_CLASSES + 1) /* the last one is "unknown": reports that name no cause */

extern const size_t wording_count;
extern const char *const wording_classes[WORDING_CLASSES]; /* names of the columns */
extern const signed char wording_bias[WORDING_CLASSES];    /* of the classes themselves */
/* Words and pairs, sorted: how many letters each shares with the one before ('A' for none), its
 * other letters, and NUL. So they take a quarter less of the wheel. */
extern const char wording_words[];
extern const signed char wording_rarity[];                   /* of each word */
extern const signed char wording_weights[][WORDING_CLASSES]; /* of each word, for each class */

#endif
