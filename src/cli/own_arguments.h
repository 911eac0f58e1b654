/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that ps(1) shows for rocmcrash itself. */
#ifndef CLI_OWN_ARGUMENTS_H
#define CLI_OWN_ARGUMENTS_H

/*
 * Moves the command's arguments, argv[command + 1] and on, to memory of their own, and blanks the
 * place that /proc/PID/cmdline is read from. A program that hides a password by overwriting its own
 * arguments would otherwise still be shown with it, by our processes.
 *
 * Returns the command with its arguments. Without memory that is argv + command, and nothing is
 * blanked.
 */
char **own_arguments_hide(int argc, char *argv[], int command);

#endif
