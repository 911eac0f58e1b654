/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the doctor: a rule as doctor_rules.c reads it and doctor.c asks it. */
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
    bool is_setting; /* about a variable of the environment */
    char *when;
    char *say;
    char *verify;
    char *source;
    char *unless; /* ids, separated by blanks, of rules whose finding makes this one superfluous */
    size_t mend_count;
    struct doctor_mend mend[DOCTOR_MENDS_MAX];
};

struct doctor_rules {
    size_t count;
    struct doctor_rule rule[DOCTOR_RULES_MAX];
};

/* `text` with the number of the GPU for N in "gpu.N." and "GPU N"; NULL when out of memory. */
char *doctor_for_gpu(const char *text, int gpu);

#endif
