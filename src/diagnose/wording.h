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

#include "diagnose/text.h"

struct facts;

/* Sets wording.N.words and wording.N.others_count: which words of `rest` templates/wording.tsv has, and how many others there are; and
 * wording.N.frame_words: which words of the whole text templates/frame.tsv has. `rest` is the text without failures that it only quotes or that the program
 * survived: they are no sign of a cause, but of the frame. A text too long for a report sets nothing.
 */
void wording_to_facts(struct facts *, struct text whole, struct text rest, const char *source);

/* From these, wording.told_percent, .told_count and .told_says, and where there are enough words wording.class, .percent, .count, .known_percent, .likely and
 * .says; nothing if the facts are those of a watched run (run.boot). */
void wording_derive(struct facts *);

#endif
