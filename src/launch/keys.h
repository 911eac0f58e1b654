/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for a pager. less, more and vim read keys from the terminal that stderr leads to, as their stdin is a
 * pipe. That is our pty (watch/relay_terminal.c) where they do not get the real terminal (inject/terminal_need.h; system()
 * starts them without our library), so what a person types on the real
 * terminal goes on to the pty: only while a program has switched the pty to single keys without echo, and a
 * process of the run waits for input from it. All other programs read the real terminal as without us.
 */
#ifndef LAUNCH_KEYS_H
#define LAUNCH_KEYS_H

struct relay;

/* In each turn of the supervisor's loop. Does not block. */
void keys_turn(const struct relay *);
/* The next turn must not be later than this; -1 = at any time. */
int keys_due_ms(const struct relay *);

#endif
