/* SPDX-License-Identifier: Apache-2.0 */
/* The trend of a noisy counter. */
#ifndef BASE_SLOPE_H
#define BASE_SLOPE_H

#include <stddef.h>

#define SLOPE_POINTS_MAX 64

/* Theil-Sen: the median of the slopes of all pairs. It tolerates 29 % of outliers. x ascends;
 * pairs of equal x are left out; 0 without a pair. Only the first SLOPE_POINTS_MAX points count.
 * Not for threads. */
double slope_of(const double *x, const double *y, size_t count);

#endif
