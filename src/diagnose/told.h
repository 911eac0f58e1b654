/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that only tell of a failure: somebody saw it at another time or on another machine, or one may see it; the
 * title of a commit, a line of a patch, the answer of a model, the output of a test that passed. They are no
 * evidence, whatever class their words speak for. Pure.
 */
#ifndef DIAGNOSE_TOLD_H
#define DIAGNOSE_TOLD_H

#include <stdbool.h>

#include "diagnose/text.h"

/* Blanks such lines in `copy`, a copy of `all`. All lines keep their places. Returns true if there was one. */
bool told_blank(char *copy, struct text all);

/* Does the line tell a failure? */
bool told_failure(struct text line);

#endif
