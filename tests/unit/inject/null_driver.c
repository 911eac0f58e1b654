/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after the ledger: a driver that does nothing, so that the measured time is the ledger's. */
#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_GET_VERSION 0x80084b01ul
#define KFD_ALLOC 0xc0284b16ul
#define KFD_FREE 0x40084b17ul
#define HANDLES_MAX 65536

/* Like idr_alloc() of the kernel: freed numbers are reused. For one thread. */
static uint64_t given_back[HANDLES_MAX];
static unsigned count;

int ioctl(int fd, unsigned long request, ...)
{
    static uint64_t handles;
    va_list args;
    va_start(args, request);
    uint64_t *arg = va_arg(args, uint64_t *);
    va_end(args);
    if ((request >> 8 & 0xff) != 'K')
        return (int)syscall(SYS_ioctl, fd, request, arg);
    if (request == KFD_GET_VERSION)
        *arg = 1;
    else if (request == KFD_ALLOC)
        arg[2] = count > 0 ? given_back[--count] : ++handles;
    else if (request == KFD_FREE && count < HANDLES_MAX)
        given_back[count++] = arg[0];
    return 0;
}
