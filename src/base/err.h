/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that carry one sentence and need no memory.
 *
 * Fallible functions return 0 (or a count >= 0) or -errno, and take an optional last parameter
 * `struct rc_err *err`. The message is lower case, has no period, and names the subject in quotes:
 * "cannot open '/sys/class/kfd'". Callers add context in front with rc_err_wrap().
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

struct rc_err {
    char msg[256];
};

/* Write the message (truncated to fit) and return `code`; `err` may be NULL. */
int rc_err_set(struct rc_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As rc_err_set(), with ": " and strerror(-code) appended. */
int rc_err_errno(struct rc_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "context: " in front of the message that is there; returns `code`. */
int rc_err_wrap(struct rc_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
