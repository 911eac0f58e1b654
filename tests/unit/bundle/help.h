/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the tests of bundle/: a scratch folder, files, other programs, a ready
 * bundle. */
#ifndef TEST_BUNDLE_HELP_H
#define TEST_BUNDLE_HELP_H

#include <stddef.h>
#include <stdint.h>

/* A path below the scratch folder of this test program; a few live at once. */
const char *scratch(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int scratch_setup(void **state);
int scratch_teardown(void **state);

void put_file(const char *path, const void *data, size_t len); /* makes the folders */
void put_text(const char *path, const char *text);
void put_noise(const char *path, size_t len, uint64_t seed);       /* incompressible */
void put_noise_lines(const char *path, size_t len, uint64_t seed); /* text, hardly compressible */
char *get_file(const char *path, size_t *ret_len);                 /* malloc()ed, NUL-terminated */
size_t count_files(const char *dir);                               /* entries but "." and ".." */

/* Run a program, stdout and stderr together into *ret_output (malloc()ed). Exit status, or -1. */
int run_program(const char *const argv[], char **ret_output);

/* A small stage of the usual shape, with its manifest. */
void make_stage(const char *dir);
/* make_stage() and bundle_write(); the path of the bundle. */
const char *make_bundle(const char *name);

#endif
