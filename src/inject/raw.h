/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and byte loops without libc. Code inside a foreign program must not call functions
 * that the program or another preloaded library has replaced, and must not change errno. Runs in
 * the target. x86-64 only, as ROCm.
 */
#ifndef INJECT_RAW_H
#define INJECT_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "the ledger library is for x86-64, as ROCm is"
#endif

/* The compiler must not turn copy loops into memcpy(): a sanitizer or a profiler may have its
 * own. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#ifdef __clang_analyzer__
/* The compiler does not see what the instruction writes. */
long raw_call6(long number, long a, long b, long c, long d, long e, long f);
#else
static inline long raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#endif

/* 0 and up, or -errno. */
#define raw_call(number, a, b, c, d)                                                               \
    raw_call6((number), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* NULL on failure. */
static inline void *raw_map(size_t size, int flags, int fd, uint64_t offset)
{
    const long read_and_write = 3; /* PROT_READ | PROT_WRITE */
    long at = raw_call6(SYS_mmap, 0, (long)size, read_and_write, flags, fd, (long)offset);
    return at > 0 || at < -4095 ? (void *)at : NULL;
}

static inline size_t raw_length(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0')
        n++;
    return n;
}

static inline bool raw_equal(const void *left, const void *right, size_t n)
{
    const unsigned char *a = left;
    const unsigned char *b = right;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static inline bool raw_same(const char *left, const char *right)
{
    size_t n = raw_length(left);
    return raw_equal(left, right, n + 1 <= raw_length(right) + 1 ? n + 1 : raw_length(right) + 1);
}

static inline bool raw_starts(const char *text, const char *prefix)
{
    while (*prefix != '\0')
        if (*text++ != *prefix++)
            return false;
    return true;
}

/* Copies with an end, cut at size - 1; the length copied. */
static inline size_t raw_put(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; n + 1 < size && text[n] != '\0'; n++)
        out[n] = text[n];
    out[n] = '\0';
    return n;
}

static inline size_t raw_put_number(char *out, uint64_t number, unsigned base)
{
    char digits[24];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    out[n] = '\0';
    return n;
}

/* The number at *text; moves *text past its digits; 0 if there are none. */
static inline uint64_t raw_number(const char **text, unsigned base)
{
    uint64_t number = 0;
    for (;; (*text)++) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit >= base)
            return number;
        number = number * base + digit;
    }
}

#endif
