/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test may expect a failure, or survive one: then the failure stands in the output of a test that passed, and is not the
 * failure of the run. The lines in which tests begin and end are rules of scope "asked" (unit-...). Pure.
 */
#ifndef DIAGNOSE_UNITS_H
#define DIAGNOSE_UNITS_H

#include <stddef.h>

struct facts;

/* Returns the text with blanks for the lines of tests that passed although a failure is told in them. Lines keep their
 * numbers. Sets log.passed_failures. NULL: there are none, or memory is short. free() it; its length is that of the text. */
char *units_without_passed(struct facts *facts, const char *text, size_t len, const char *source);

#endif
