/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slope.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double slope_of(const double *x, const double *y, size_t count)
{
    static double slopes[SLOPE_POINTS_MAX * (SLOPE_POINTS_MAX - 1) / 2];
    size_t n = 0;
    if (count > SLOPE_POINTS_MAX)
        count = SLOPE_POINTS_MAX;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            if (x[k] > x[i])
                slopes[n++] = (y[k] - y[i]) / (x[k] - x[i]);
    if (n == 0)
        return 0;
    qsort(slopes, n, sizeof slopes[0], compare_doubles);
    return n % 2 != 0 ? slopes[n / 2] : (slopes[n / 2 - 1] + slopes[n / 2]) / 2;
}
