/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that a test asks for: rules in EMULATOR_FAULTS (separated by ';') and in the control file
 * ROOT/emulator/faults (one a line), which is read again when it changes, also while the program
 * runs. README.md lists the rules. Counts are per process.
 */
#ifndef EMULATOR_FAULTS_H
#define EMULATOR_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Bits, for a rule may name several. */
enum fault_kind {
    FAULT_VRAM = 1,
    FAULT_GTT = 2,
    FAULT_USERPTR = 4,
    FAULT_PUBLIC = 8, /* VRAM that the CPU may map */
    FAULT_ANY = 15,
};

/* The GPU's next action. FAULT_NOW matches rules that wait for nothing. */
enum fault_moment { FAULT_DISPATCH, FAULT_COPY, FAULT_NOW };

enum fault_effect { FAULT_NONE, FAULT_PAGE_FAULT, FAULT_HANG };

struct fault {
    enum fault_effect effect;
    uint64_t address;  /* FAULT_PAGE_FAULT */
    unsigned reset_ms; /* FAULT_HANG: the driver notices and resets after that; 0 = never */
};

/* Sleeps if a rule says so, then returns 0 or the -errno of the refusal. Takes no other lock. */
int faults_on_alloc(unsigned kinds);
/* Keep one descriptor per allocation. */
bool faults_descriptor_per_buffer(void);
/* The number of mappings after which further ones fail; 0 = no limit. */
uint64_t faults_mappings_max(void);
struct fault faults_on_gpu(enum fault_moment moment);

void faults_after_fork(void);

#endif
