/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the doctor: a rule as it was read (doctor_rules.c), for those who ask it (doctor.c). */
#ifndef DIAGNOSE_DOCTOR_INTERNAL_H
#define DIAGNOSE_DOCTOR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/doctor.h"

#define DOCTOR_RULES_MAX 128
#define DOCTOR_MENDS_MAX 8

struct doctor_mend {
    char *when; /* NULL = always */
    char *say;
};

struct doctor_rule {
    char *id;
    enum doctor_severity severity;
    bool each_gpu;
    char *when;
    char *say;
    char *verify;
    char *source;
    char *unless; /* ids of rules whose finding makes this one superfluous, by blanks */
    size_t mend_count;
    struct doctor_mend mend[DOCTOR_MENDS_MAX];
};

struct doctor_rules {
    size_t count;
    struct doctor_rule rule[DOCTOR_RULES_MAX];
};

/* `text` with N of "gpu.N." and "GPU N" as the number of the GPU; NULL when out of memory. */
char *doctor_for_gpu(const char *text, int gpu);

#endif
