/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of failure that the words of a report speak for. templates/wording.tsv has the weights of words, and of pairs of neighbours, for each
 * class of failure, learned from labelled reports (tests/corpus/wording.py, which explains the model). It is
 * weak evidence, for reports in which no message decides. Pure; for `triage` of texts only: the words of a
 * run's own output were not learned.
 */
#ifndef DIAGNOSE_WORDING_H
#define DIAGNOSE_WORDING_H

#include <stddef.h>

struct facts;

/* Sets wording.N.words: the words of this text that the table has. A text too long for a report sets nothing. */
void wording_to_facts(struct facts *, const char *text, size_t len, const char *source);

/* Sets wording.class, .percent, .count, .likely and .says from all wording.N.words; nothing if there are few, or if
 * the facts are those of a watched run (run.boot). */
void wording_derive(struct facts *);

#endif
