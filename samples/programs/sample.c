/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE (2 * MIB)

static const char *program;
static bool is_silent;
static char watchdog_message[256];

bool sample_options(int argc, char **argv, const char *what, const char *near_miss)
{
    const char *slash = strrchr(argv[0], '/');
    bool is_near_miss = false;
    program = slash != NULL ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--near-miss") == 0) {
            is_near_miss = true;
        } else if (strcmp(argv[i], "--silent") == 0) {
            is_silent = true;
        } else {
            (void)fprintf(stderr,
                          "usage: %s [--near-miss] [--silent]\n"
                          "  (nothing)    %s\n  --near-miss  %s\n"
                          "  --silent     writes nothing to stderr\n",
                          program, what, near_miss);
            exit(strcmp(argv[i], "--help") == 0 ? 0 : 2);
        }
    }
    return is_near_miss;
}

void sample_say(const char *format, ...)
{
    va_list arguments;
    if (is_silent)
        return;
    va_start(arguments, format);
    (void)fprintf(stderr, "%s: ", program);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

int sample_refused(const char *call, size_t bytes, hipError_t error)
{
    sample_say("%s of %zu bytes failed: %s: %s", call, bytes, hipGetErrorName(error),
               hipGetErrorString(error));
    return 1;
}

size_t sample_total(void)
{
    size_t free_bytes = 0;
    size_t total = 0;
    hipError_t error = hipMemGetInfo(&free_bytes, &total);
    if (error == hipSuccess)
        return total;
    sample_say("no GPU to work on: %s", hipGetErrorName(error));
    exit(3);
}

size_t sample_share(size_t parts)
{
    size_t pieces = sample_total() / parts / PIECE;
    return (pieces > 0 ? pieces : 1) * PIECE;
}

size_t sample_fill(void **buffers, size_t most, size_t bytes, hipError_t *ret_error)
{
    size_t count = 0;
    hipError_t error = hipSuccess;
    while (count < most && (error = hipMalloc(&buffers[count], bytes)) == hipSuccess)
        count++;
    if (ret_error != NULL)
        *ret_error = error;
    return count;
}

void sample_free(void **buffers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)hipFree(buffers[i]);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    if (!is_silent)
        (void)!write(STDERR_FILENO, watchdog_message, strlen(watchdog_message));
    abort();
}

void sample_watchdog(unsigned seconds, const char *message)
{
    (void)snprintf(watchdog_message, sizeof watchdog_message, "%s: %s within %u s\n", program,
                   message, seconds);
    (void)signal(SIGALRM, on_alarm);
    (void)alarm(seconds);
}

int sample_crash(void)
{
    static volatile int *const nothing = NULL;
    return *nothing;
}
