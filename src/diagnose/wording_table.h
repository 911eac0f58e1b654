/* SPDX-License-Identifier: Apache-2.0 */
/* The words of templates/wording.tsv, and pairs of neighbouring words ("older_kernel"), and what they speak for; made by
 * wording_table.py. Rarity and bias are tenths, weights are whole numbers. */
#ifndef DIAGNOSE_WORDING_TABLE_H
#define DIAGNOSE_WORDING_TABLE_H

#include <stddef.h>

#include "diagnose/prior.h"

#define WORDING_CLASSES (PRIOR_CLASSES + 1) /* the last one is "unknown": reports that name no cause */

extern const size_t wording_count;
extern const char *const wording_classes[WORDING_CLASSES]; /* names of the columns */
extern const signed char wording_bias[WORDING_CLASSES];    /* of the classes themselves */
extern const char wording_words[];                         /* words and pairs, sorted, each with its NUL */
extern const signed char wording_weights[][1 + WORDING_CLASSES]; /* of each word: its rarity, then the classes */

#endif
