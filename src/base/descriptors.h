/* SPDX-License-Identifier: Apache-2.0 */
/* Closes what a fresh process must not hold. May be called between fork() and exec(). */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

/* Closes `first` to `last`, both included; ~0u = all that follow. */
void close_descriptors(unsigned first, unsigned last);

/* Leaves the caller's session and its standard streams: their readers wait for end of file and must
 * not wait for us. */
void leave_caller(void);

#endif
