/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One change that `try` makes to a program: a variable or a limit. It is for the program alone, so it comes to
 * the run's rocmcrash as text in the variable TARGET_CHANGE, which the finisher inherits and the program does
 * not. The child that becomes the program makes the change.
 *
 * "set NAME=VALUE", "unset NAME", or "limit RESOURCE SOFT HARD" in numbers of setrlimit(2).
 */
#ifndef BASE_TARGET_CHANGE_H
#define BASE_TARGET_CHANGE_H

#include <stdbool.h>

#define TARGET_CHANGE "ROCMCRASH_CHANGE"

/* Makes it in this process, and takes TARGET_CHANGE out of the environment. 0, also when there is none, or
 * -errno. */
int target_change_apply(void);
/* The value that the program's variable has; NULL = it has none. */
const char *target_change_variable(const char *name);
/* The environment that the program was started with: ours with the change. NULL = no memory; free() it, not its
 * strings. */
const char **target_change_environment(void);
/* The program's environment is not ours. */
bool target_change_is_variable(void);
/* The program's limits are not ours. */
bool target_change_is_limit(void);

#endif
