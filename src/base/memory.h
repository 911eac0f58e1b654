/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory was refused to this process: what lacks a line for that is not absent, it is lost,
 * and whoever makes a document of it says so. Most code passes such a line by and goes on.
 *
 * Counted by whoever allocates for the program (cli/memory_watch.c); always 0 in other programs.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

/* So far; a child goes on from its parent's count. */
unsigned memory_refusals(void);
void memory_was_refused(void);

#endif
