/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a report. templates/wording.tsv has the weights of words, and of pairs of neighbours, for each class of
 * failure; templates/frame.tsv for a text that only tells of a failure: a document, a test, somebody else's. Both are learned
 * from labelled texts (tests/corpus/wording.py, which explains the model). They are weak evidence, for reports in which no
 * message decides, and a doubt about those in which one does. Pure; for `triage` of texts only: the words of a run's own
 * output were not learned.
 */
#ifndef DIAGNOSE_WORDING_H
#define DIAGNOSE_WORDING_H

#include <stddef.h>

struct facts;

/* Sets wording.N.words: the words of this text that one of the tables has, and wording.N.others_count: how many others it has. A text too long for a report sets nothing. */
void wording_to_facts(struct facts *, const char *text, size_t len, const char *source);

/* Sets wording.class, .percent, .count, .known_percent, .likely and .says, .told_percent, .told_count and .told_says, from all wording.N.words; nothing if
 * there are few, or if the facts are those of a watched run (run.boot). */
void wording_derive(struct facts *);

#endif
