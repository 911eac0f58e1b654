/* SPDX-License-Identifier: Apache-2.0 */
/* The usual names of signals and errors. glibc has them since 2.32 only. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

/* "SEGV" of SIGSEGV; NULL for real-time and unknown ones. */
const char *name_of_signal(int signo);
/* "ENOMEM"; NULL for an unknown one. */
const char *name_of_error(int error);

#endif
