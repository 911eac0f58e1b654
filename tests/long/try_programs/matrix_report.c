// SPDX-License-Identifier: Apache-2.0
// Sums rows into memory that nobody has cleared. Fresh pages happen to be zero; MALLOC_PERTURB_ fills them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 1000 };

int main(void)
{
    int *sums = malloc(ROWS * sizeof *sums);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++)
            sums[r] += c % 7;
        if (sums[r] < 0 || sums[r] > 7 * COLUMNS) {
            fprintf(stderr, "matrix_report: row %d has the impossible sum %d\n", r, sums[r]);
            return 1;
        }
    }
    printf("%d rows\n", ROWS);
    free(sums);
    return 0;
}
