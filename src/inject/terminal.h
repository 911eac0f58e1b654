/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modes of the terminal. The program's stdout and stderr may be the relay's pty, while its stdin and
 * /dev/tty are the real terminal (watch/relay_terminal.c). The relay copies modes from one to the
 * other, but late: a program that sets modes on one and then asks the other would get old ones. So
 * a change is made on both before the call returns. Of the modes of output (c_oflag) only OPOST is
 * changed here; the relay copies the rest. Runs in the target; safe in signal handlers.
 */
#ifndef INJECT_TERMINAL_H
#define INJECT_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

struct terminal_modes;

/* One call that sets modes. */
struct terminal_call {
    int fd;
    unsigned long request;              /* TCSETS and its like */
    const struct terminal_modes *modes; /* what the program gave: struct termios, of libc or kernel */
};

struct terminal_pair {
    uint32_t pty, real;         /* devices as TIOCGDEV tells them; 0 = there is no pty */
    uint32_t supervisor, asked; /* its pid, and its number of relay->asked */
    uint64_t asked_inode;       /* of that pipe: in another PID namespace that pid is another process */
};

/* Called once, by the constructor. */
void terminal_init(const struct terminal_pair *ends);

/* Waits until the relay has carried what was written so far, at most 50 ms. For calls before which
 * a program expects its output on the terminal: opening /dev/tty, TCSADRAIN, tcdrain(). */
void terminal_drain(void);

bool terminal_gets_modes(unsigned long request);
/* After a call that got modes: if they are the pty's, puts those of the real terminal in place. */
void terminal_got(int fd, struct terminal_modes *modes);

bool terminal_sets_modes(unsigned long request);
typedef int (*terminal_call_fn)(const struct terminal_call *call);
/* Makes the call with `set`, and the change on the other one of the two terminals. The real one
 * goes first: a relay that sees the change of the real one copies it to the pty, which is right.
 * Returns and sets errno as `set` does. */
int terminal_set(const struct terminal_call *call, terminal_call_fn set);

bool terminal_is_pty(int fd);
/* Makes an ioctl() that the program made on the pty on the real terminal, too. */
void terminal_repeat(unsigned long request, const void *arg);

/* Whether fd 0, 1 or 2 is the pty. */
bool terminal_is_relayed(void);
struct terminal_kept {
    int fds[3]; /* copies of fd 0 to 2; -1 = that one was not replaced */
};
/* Before an exec of a program that needs the terminal itself (terminal_need.h): puts the real one in the place of the pty
 * on fd 0 to 2. */
void terminal_give_back(struct terminal_kept *kept);
/* The exec failed: undoes that. */
void terminal_take_again(const struct terminal_kept *kept);

#endif
