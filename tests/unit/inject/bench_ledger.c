/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures, not a test: nanoseconds of each call. tests/bench runs it with and without the ledger, on a driver that does
 * nothing. Prints "NAME NANOSECONDS" lines.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define KFD_ALLOC 0xc0284b16ul
#define KFD_FREE 0x40084b17ul
#define KFD_WAIT_EVENTS 0xc0184b0cul
#define HELD 4096

struct alloc {
    uint64_t address, size, handle, offset;
    uint32_t gpu_id, flags;
};

static uint64_t handles[HELD];

static double now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void say(const char *name, double start_ns, unsigned calls)
{
    (void)printf("%s %.1f\n", name, (now_ns() - start_ns) / calls);
}

/* Like a caching allocator: thousands of buffers of some sizes, freed in turn. */
static void allocate_and_free(int fd, unsigned rounds)
{
    struct alloc a = {.gpu_id = 4711, .flags = 1};
    double start_ns = now_ns();
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t *handle = &handles[i % HELD];
        if (*handle != 0)
            (void)ioctl(fd, KFD_FREE, handle);
        a.size = (uint64_t)(2u << 20) * (1 + i % 7);
        a.address = 0x7f0000000000u + (uint64_t)i * (64u << 20);
        (void)ioctl(fd, KFD_ALLOC, &a);
        *handle = a.handle;
    }
    say("allocate-or-free", start_ns, 2 * rounds - HELD);
}

static void wait_for_events(int fd, unsigned rounds)
{
    uint64_t arg[3] = {0, 0, 0};
    double start_ns = now_ns();
    for (unsigned i = 0; i < rounds; i++)
        (void)ioctl(fd, KFD_WAIT_EVENTS, arg);
    say("other-ioctl", start_ns, rounds);
}

static void open_and_close(unsigned rounds)
{
    double start_ns = now_ns();
    for (unsigned i = 0; i < rounds; i++)
        (void)close(open("/dev/null", O_RDONLY | O_CLOEXEC));
    say("open-and-close", start_ns, rounds);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000000;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    allocate_and_free(fd, rounds);
    wait_for_events(fd, rounds);
    open_and_close(rounds / 10);
    return 0;
}
