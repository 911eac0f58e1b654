/* SPDX-License-Identifier: Apache-2.0 */
/* The trend of a noisy counter. */
#ifndef BASE_SLOPE_H
#define BASE_SLOPE_H

#include <stddef.h>

#define SLOPE_POINTS_MAX 64

/* Theil-Sen: the median of the slopes of all pairs, which a third of wild points does not move.
 * x ascends; pairs of one x are left out; 0 without a pair. More than SLOPE_POINTS_MAX points: the
 * first ones. Not for threads. */
double slope_of(const double *x, const double *y, size_t count);

#endif
