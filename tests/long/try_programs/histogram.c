// SPDX-License-Identifier: Apache-2.0
// A histogram over threads whose author forgot "#pragma omp atomic": threads lose each other's counts.
#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 20000000, BINS = 4 };

int main(void)
{
    static volatile long bins[BINS];
    long total = 0;
#pragma omp parallel for
    for (long i = 0; i < VALUES; i++)
        bins[i % BINS]++;
    for (int b = 0; b < BINS; b++)
        total += bins[b];
    if (total != VALUES) {
        fprintf(stderr, "histogram: %ld of %d values are missing\n", VALUES - total, VALUES);
        return 1;
    }
    puts("complete");
    return 0;
}
