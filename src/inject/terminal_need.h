/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of programs get the terminal itself, not the relay's pty (watch/relay_terminal.c): a shell at a prompt, because
 * its job control asks fd 2 (tcgetpgrp), and a program that draws on the terminal, because it may read keys from fd 1 or 2.
 * Runs where preload.h says.
 */
#ifndef INJECT_TERMINAL_NEED_H
#define INJECT_TERMINAL_NEED_H

struct preload_room;

enum terminal_need { TERMINAL_NOT_NEEDED, TERMINAL_FOR_A_PROMPT, TERMINAL_TO_DRAW };

/* For the program that execve(program, argv) would start; follows "#!" lines. Uses room->scratch only. */
enum terminal_need terminal_need_of(const char *program, char *const argv[], struct preload_room *room);

#endif
