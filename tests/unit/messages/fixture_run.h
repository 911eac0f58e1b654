/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs tests/fixtures/messages/X_NAME.txt (X: m program output, k kernel log, p pasted, e
 * environment) and compares with X_NAME.facts, one expectation a line:
 *   name = value      the fact is there with this value
 *   !name             there is no such fact
 *   @name line N      its source names that line
 */
#ifndef TESTS_FIXTURE_RUN_H
#define TESTS_FIXTURE_RUN_H

#include "diagnose/fact.h"

void fixture_parse(char kind, struct facts *facts, const char *data, size_t len);
/* Present under LOG or STATIC; NULL when there is none. */
const struct fact *fixture_fact(const struct facts *facts, const char *name);
/* Value as text; "" when absent. */
const char *fixture_value(const struct facts *facts, const char *name, char out[600]);
/* Runs every fixture whose name begins with one of `kinds`. A difference fails the cmocka test. Returns their number.
 * */
unsigned fixture_run_all(const char *kinds);
char *fixture_read(const char *path, size_t *ret_len);

#endif
