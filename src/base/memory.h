/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was memory refused to this process? Most code skips a line for which it gets no memory. Such a
 * line is lost, not absent, so the author of a document must say so.
 *
 * The program's allocator counts (cli/memory_watch.c); always 0 in other programs.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

/* Refusals so far. A child continues its parent's count. */
unsigned memory_refusals(void);
void memory_was_refused(void);

#endif
