/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page cache: after a failure the job is restarted, and the restart needs the model in memory. So
 * resident pages stay. Windows that were not resident are dropped after hashing
 * (POSIX_FADV_DONTNEED); else 100 GB of shards would evict everything else. Residency is asked once
 * before the first read, by mincore() of sampled pages, because read-ahead makes the next window
 * resident. mincore() is true only for the owner of a file and for those who may write it (Linux >=
 * 5.2). For others everything looks resident, and nothing is dropped.
 */
#include "collectors/lib/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"

#define CHUNK ((size_t)2 << 20)
#define WINDOW ((uint64_t)16 << 20) /* unit of giving back; a multiple of CHUNK */
#define SAMPLES_PER_WINDOW 4
#define WINDOWS_MAX ((uint64_t)1 << 20) /* 16 TiB */
#define PROJECT_AFTER ((uint64_t)256 << 20)
#define WORTH_PROJECTING ((uint64_t)64 << 20)

struct residency {
    unsigned char *cold; /* one byte per window: 1 = no sampled page was resident */
    uint64_t windows;
};

struct digest {
    SHA256_CTX sha256;
    SHA_CTX git;
    bool git_wanted;
};

static void digest_start(struct digest *d, const uint64_t *git_size)
{
    (void)SHA256_Init(&d->sha256);
    d->git_wanted = git_size != NULL;
    if (!d->git_wanted)
        return;
    char head[32];
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)*git_size);
    (void)SHA1_Init(&d->git);
    (void)SHA1_Update(&d->git, head, (size_t)n + 1);
}

static void digest_update(struct digest *d, const void *data, size_t len)
{
    (void)SHA256_Update(&d->sha256, data, len);
    if (d->git_wanted)
        (void)SHA1_Update(&d->git, data, len);
}

static void to_hex(const unsigned char *raw, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
    out[2 * len] = '\0';
}

/* ret_git: only where digest_start() was given a size. */
static void digest_end(struct digest *d, char ret_sha256[HASH_SHA256_HEX], char *ret_git)
{
    unsigned char raw[SHA256_DIGEST_LENGTH];
    (void)SHA256_Final(raw, &d->sha256);
    to_hex(raw, SHA256_DIGEST_LENGTH, ret_sha256);
    if (d->git_wanted) {
        (void)SHA1_Final(raw, &d->git);
        to_hex(raw, SHA_DIGEST_LENGTH, ret_git);
    }
}

static void residency_ask(struct residency *res, int fd, uint64_t size)
{
    uint64_t windows = (size + WINDOW - 1) / WINDOW;
    *res = (struct residency){0};
    if (windows == 0 || windows > WINDOWS_MAX)
        return;
    unsigned char *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map == MAP_FAILED)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    res->cold = calloc(1, (size_t)windows);
    res->windows = res->cold != NULL ? windows : 0;
    for (uint64_t w = 0; w < res->windows; w++) {
        bool resident = false;
        for (uint64_t s = 0; s < SAMPLES_PER_WINDOW && !resident; s++) {
            uint64_t at = w * WINDOW + s * (WINDOW / SAMPLES_PER_WINDOW);
            unsigned char in = 0;
            if (at < size)
                resident = mincore(map + at, page, &in) != 0 || (in & 1) != 0;
        }
        res->cold[w] = !resident;
    }
    (void)munmap(map, (size_t)size);
}

static void residency_give_back(const struct residency *res, int fd, uint64_t window)
{
    if (window < res->windows && res->cold[window])
        (void)posix_fadvise(fd, (off_t)(window * WINDOW), (off_t)WINDOW, POSIX_FADV_DONTNEED);
}

/* Would the rest take more than 1.5 times the time left? */
static bool hopeless(double bytes_per_ns, uint64_t left, uint64_t now, uint64_t deadline)
{
    if (now >= deadline)
        return true;
    return bytes_per_ns > 0 && (double)left / bytes_per_ns > 1.5 * (double)(deadline - now);
}

static int hash_range(struct digest *d, int fd, uint64_t from, uint64_t to, unsigned char *buffer,
                      uint64_t deadline)
{
    while (from < to) {
        size_t want = to - from < CHUNK ? (size_t)(to - from) : CHUNK;
        if (clock_mono_ns() >= deadline)
            return -ETIME;
        ssize_t n = fs_pread_full(fd, buffer, want, (off_t)from);
        if (n < 0)
            return (int)n;
        if ((size_t)n != want)
            return -EBUSY;
        digest_update(d, buffer, want);
        from += want;
    }
    return 0;
}

static int hash_windows(struct digest *d, int fd, uint64_t size, struct hash_budget *budget,
                        unsigned char *buffer, const struct residency *res)
{
    uint64_t start = clock_mono_ns();
    int r = 0;
    for (uint64_t at = 0; at < size && r == 0; at += WINDOW) {
        uint64_t end = size - at < WINDOW ? size : at + WINDOW;
        r = hash_range(d, fd, at, end, buffer, budget->deadline_mono_ns);
        residency_give_back(res, fd, at / WINDOW);
        uint64_t now = clock_mono_ns();
        if (end >= WORTH_PROJECTING && now > start)
            budget->bytes_per_ns = (double)end / (double)(now - start);
        if (r == 0 && end >= PROJECT_AFTER &&
            hopeless(budget->bytes_per_ns, size - end, now, budget->deadline_mono_ns) && end < size)
            r = -ETIME;
    }
    return r;
}

int hash_file(int fd, uint64_t size, struct hash_budget *budget, char ret_sha256[HASH_SHA256_HEX],
              char *ret_git)
{
    if (size > 2 * HASH_END_BYTES &&
        hopeless(budget->bytes_per_ns, size, clock_mono_ns(), budget->deadline_mono_ns))
        return -ETIME;
    RC_AUTO_FREE unsigned char *buffer = malloc(CHUNK);
    if (buffer == NULL)
        return -ENOMEM;
    struct digest d;
    digest_start(&d, ret_git != NULL ? &size : NULL);
    struct residency res;
    residency_ask(&res, fd, size);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    int r = hash_windows(&d, fd, size, budget, buffer, &res);
    struct stat st;
    if (r == 0 && (fstat(fd, &st) != 0 || (uint64_t)st.st_size != size))
        r = -EBUSY;
    if (r == 0)
        digest_end(&d, ret_sha256, ret_git);
    free(res.cold);
    return r;
}

int hash_ends(int fd, uint64_t size, const struct hash_budget *budget,
              char ret_sha256[HASH_SHA256_HEX])
{
    if (size <= 2 * HASH_END_BYTES)
        return -EINVAL;
    RC_AUTO_FREE unsigned char *buffer = malloc(CHUNK);
    if (buffer == NULL)
        return -ENOMEM;
    struct digest d;
    digest_start(&d, NULL);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead after the head */
    int r = hash_range(&d, fd, 0, HASH_END_BYTES, buffer, budget->deadline_mono_ns);
    if (r == 0)
        r = hash_range(&d, fd, size - HASH_END_BYTES, size, buffer, budget->deadline_mono_ns);
    if (r == 0)
        digest_end(&d, ret_sha256, NULL);
    return r;
}

void hash_memory(const void *data, size_t len, char ret_sha256[HASH_SHA256_HEX])
{
    struct digest d;
    digest_start(&d, NULL);
    digest_update(&d, data, len);
    digest_end(&d, ret_sha256, NULL);
}
