/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the tests of redaction: a redactor that knows some names, and random names and
 * secrets. Their seed is printed and can be given: REDACT_SEED. */
#ifndef TEST_REDACT_HELP_H
#define TEST_REDACT_HELP_H

#include <stdint.h>

struct redactor;

/* Knows the home /scratch/people/marlowe/, the users marlowe and jdo, the host thorin7. */
struct redactor *new_redactor(void);
/* malloc()ed */
char *redacted(struct redactor *r, const char *text);

void random_begin(void);
void random_seed(uint64_t seed);
uint64_t draw(void);

#endif
