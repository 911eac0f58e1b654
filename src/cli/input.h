/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a verb: a bundle, a text file, or text on stdin ("-"). Finisher. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct rc_err;
struct stat;

bool input_has_bundle_name(const char *path);
/* Made by rocmcrash: by its name, or by the name in it if somebody renamed it ("NAME.tar (1).gz"). */
bool input_is_bundle_of_ours(const char *path);
/* When its run began, or the snapshot was made: by its name, by the name in it, or by the file's time. Copying or touching
 * a file makes no failure newer. */
time_t input_bundle_time_s(const char *path, const struct stat *st);
/* By name, or by gzip's first bytes: a bundle that a browser renamed. */
bool input_is_bundle(const char *path);
/* For a verb that is given no bundle: the newest one of this folder. Its name is printed on stderr. NULL:
 * there is none; then a message and `usage` are printed. The caller frees. */
char *input_newest_bundle(const char *usage);
/* The exit status where that found none: a folder without bundles is no wrong command line. */
int input_status_of_none(int argc, int at);
/* The one bundle that a verb is given at argv[at], or the newest one (*ret_newest, the caller frees). NULL
 * where at < 0 (*err says why), where several are given, or where there is none; then a message is printed on
 * stderr. */
const char *input_one_bundle(int argc, char *argv[], int at, const char *usage,
                             const struct rc_err *err, char **ret_newest);
/* All of it, NUL-terminated, caller frees. -EFBIG when it is longer than max. */
int input_read(const char *path, size_t max, char **ret, size_t *ret_len, struct rc_err *err);
/* The same for what people keep as a log: UTF-16 becomes UTF-8, and a long one is condensed
 * (diagnose/condense.h). `note`: what its reader should know ("is empty"), "" = nothing. */
int input_read_log(const char *path, size_t max, char **ret, size_t *ret_len, char *note,
                   size_t note_size, struct rc_err *err);

#endif
