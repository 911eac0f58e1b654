/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs watch_driver with a chosen kind of stderr and plays the reader (or the terminal's screen).
 * For the tests of the relay; fails the test on anything unexpected.
 */
#ifndef TEST_WATCH_RELAY_RUN_H
#define TEST_WATCH_RELAY_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "temp_folder.h"

/* ON_FILE_OVER: "2<> file", at the start of a file with 65 older bytes. */
/* The first three are carried. */
enum run_on { ON_PIPE, ON_SOCKET, ON_TERMINAL, ON_FILE, ON_FILE_APPEND, ON_FILE_OVER, ON_FILE_READ_ONLY, ON_PACKETS };

struct run_options {
    enum run_on on;
    bool both;     /* fd 1 is fd 2; else /dev/null */
    bool nonblock; /* O_NONBLOCK on the descriptor the driver gets */
    bool nonblock_1; /* on fd 1 alone, which then has its own open file description */
    bool raw;      /* the real terminal does no output processing */
    const char *driver[8];
    const char *target[8];
};

struct run {
    struct run_options options;
    char dir[TEMP_FOLDER_MAX];
    char report[TEMP_FOLDER_MAX + 16]; /* FILE for the driver's report */
    char result[TEMP_FOLDER_MAX + 16]; /* FILE for the target's; it replaces "@" in target[] */
    char file[TEMP_FOLDER_MAX + 16];   /* stderr of ON_FILE* */
    int reader;      /* the end at which the driver's stderr arrives, or -1 */
    int slave;       /* keeps the terminal open */
    int steps;       /* a byte lets the target go on */
    int status_pipe;
    int release;
    pid_t leader; /* session leader, outlives the driver */
    int status;   /* the driver's exit status, -1 = still running */
};

void run_start(struct run *run, const struct run_options *options);
void run_step(struct run *run);
void run_close_reader(struct run *run);
/* Reads `want` bytes. If more arrive, the test fails. */
void run_expect(struct run *run, const char *want, size_t len);
/* Reads until the driver has ended and no bytes are left. Passes every piece to `take`. Returns the
 * driver's exit status. */
int run_drain(struct run *run, void (*take)(void *arg, const unsigned char *data, size_t len),
              void *arg);
/* Reads until end of file (pipes); the driver may have ended long before. */
void run_expect_eof(struct run *run);
int run_wait(struct run *run);
/* Waits until the relay process ended while driver and target live; false where /proc cannot tell.
 */
bool run_relay_is_gone(struct run *run);
/* "name=" of the report. */
long long run_reported(struct run *run, const char *name);
void run_read_file(const char *path, char *out, size_t size);
void run_end(struct run *run);

#endif
