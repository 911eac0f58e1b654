/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging folder: the files in it are opened without following links, and hashed.
 *
 * Collectors that were abandoned (stuck in D state) may still write into it. So a file has the size
 * that was listed, and its bytes are hashed while they are archived.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/internal.h"

#define STAGE_MAX_DEPTH 16
#define OPEN_TRIES 10
#define OPEN_AGAIN_MS 20

static int add_file(struct stage *stage, const char *path, const struct stat *st, const char *why)
{
    if (stage->count >= BUNDLE_MAX_FILES - 1) { /* one is the manifest */
        stage->unlisted++;
        return 0;
    }
    if (stage->count == stage->capacity) {
        size_t capacity = stage->capacity ? stage->capacity * 2 : 64;
        struct stage_file *grown = realloc(stage->files, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        stage->files = grown;
        stage->capacity = capacity;
    }
    size_t len = strlen(path);
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, path, len + 1);
    stage->files[stage->count++] = (struct stage_file){
        .path = copy,
        .bytes = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .mtime = st->st_mtime,
        .rank = cut_rank(path),
        .plan = why != NULL ? PLAN_DROP : PLAN_KEEP,
        .why = why,
    };
    stage->total_bytes += why == NULL ? (uint64_t)st->st_size : 0;
    return 0;
}

static int walk(struct stage *stage, int dir_fd, const char *prefix, int depth);

static int add_entry(struct stage *stage, int dir_fd, const char *prefix, const char *name,
                     int depth)
{
    char path[BUNDLE_NAME_MAX + 300];
    int n = snprintf(path, sizeof path, "%s%s", prefix, name);
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno; /* a collector's temporary file went away */
    if (n < 0 || (size_t)n >= sizeof path || !entry_name_ok(path))
        return add_file(stage, path, &st, "its name cannot be archived");
    if (S_ISDIR(st.st_mode)) {
        if (depth >= STAGE_MAX_DEPTH)
            return add_file(stage, path, &st, "folder too deep");
        RC_AUTO_CLOSE int fd =
            openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        char below[sizeof path + 1];
        (void)snprintf(below, sizeof below, "%s/", path);
        return walk(stage, fd, below, depth + 1);
    }
    if (!S_ISREG(st.st_mode))
        return add_file(stage, path, &st, "not a regular file");
    if (strcmp(path, MANIFEST_NAME) == 0)
        return 0;
    return add_file(stage, path, &st, NULL);
}

static int walk(struct stage *stage, int dir_fd, const char *prefix, int depth)
{
    RC_AUTO_CLOSEDIR DIR *dir = fs_open_folder(dir_fd, ".");
    if (dir == NULL)
        return -errno;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return -errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int r = add_entry(stage, dir_fd, prefix, entry->d_name, depth);
        if (r < 0)
            return r;
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct stage_file *)a)->path, ((const struct stage_file *)b)->path);
}

/* Names that differ in case only would overwrite each other where some users unpack; the reader
 * refuses them, so the writer must not make them. n is small and the list sorted: 5000^2/2 compares
 * would be 50 ms, a second sort is 1 ms. */
static int by_path_no_case(const void *a, const void *b)
{
    const struct stage_file *const *x = a;
    const struct stage_file *const *y = b;
    int r = strcasecmp((*x)->path, (*y)->path);
    return r != 0 ? r : strcmp((*x)->path, (*y)->path);
}

static int drop_same_names(struct stage *stage)
{
    RC_AUTO_FREE struct stage_file **order = malloc((stage->count + 1) * sizeof *order);
    if (order == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < stage->count; i++)
        order[i] = &stage->files[i];
    qsort(order, stage->count, sizeof *order, by_path_no_case);
    for (size_t i = 1; i < stage->count; i++) {
        if (strcasecmp(order[i - 1]->path, order[i]->path) != 0)
            continue;
        if (order[i]->plan == PLAN_KEEP)
            stage->total_bytes -= order[i]->bytes;
        order[i]->plan = PLAN_DROP;
        order[i]->why = "its name differs from another's in case only";
    }
    return 0;
}

int stage_open(struct stage *stage, const char *dir, struct rc_err *err)
{
    *stage = (struct stage){.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (stage->fd < 0)
        return rc_err_errno(err, -errno, "cannot open the staging folder '%s'", dir);
    int r = walk(stage, stage->fd, "", 0);
    if (r == 0)
        r = drop_same_names(stage);
    if (r < 0) {
        stage_release(stage);
        return rc_err_errno(err, r, "cannot list the staging folder '%s'", dir);
    }
    if (stage->count > 0)
        qsort(stage->files, stage->count, sizeof *stage->files, by_path);
    return 0;
}

void stage_release(struct stage *stage)
{
    for (size_t i = 0; i < stage->count; i++)
        free(stage->files[i].path);
    free(stage->files);
    if (stage->fd >= 0)
        (void)close(stage->fd);
    *stage = (struct stage){.fd = -1};
}

/* Does our own process lack something for the moment? The file itself is readable. */
bool stage_open_may_pass(int code)
{
    return code == -EMFILE || code == -ENFILE || code == -ENOMEM || code == -EINTR;
}

int stage_open_file(const struct stage *stage, const char *path)
{
    int fd = -1;
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        fd = openat(stage->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0)
            break;
        int r = -errno;
        if (!stage_open_may_pass(r) || tries == OPEN_TRIES - 1)
            return r;
        (void)poll(NULL, 0, OPEN_AGAIN_MS);
    }
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    (void)close(fd);
    return -EINVAL;
}

void sha256_to_hex(SHA256_CTX *sha, char hex[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_LENGTH];
    (void)SHA256_Final(digest, sha);
    for (size_t i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

void bundle_digest(const void *data, size_t len, char hex[BUNDLE_DIGEST_SIZE])
{
    SHA256_CTX sha;
    (void)SHA256_Init(&sha);
    (void)SHA256_Update(&sha, data, len);
    sha256_to_hex(&sha, hex);
}

int stage_hash_file(const struct stage *stage, const char *path, char hex[SHA256_HEX],
                    uint64_t *ret_bytes, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = stage_open_file(stage, path);
    if (fd < 0)
        return rc_err_errno(err, fd, "cannot open '%s'", path);
    SHA256_CTX sha;
    char data[64 * 1024];
    uint64_t bytes = 0;
    ssize_t n;
    (void)SHA256_Init(&sha);
    while ((n = read(fd, data, sizeof data)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rc_err_errno(err, -errno, "cannot hash '%s'", path);
        (void)SHA256_Update(&sha, data, (size_t)n);
        bytes += (uint64_t)n;
    }
    sha256_to_hex(&sha, hex);
    *ret_bytes = bytes;
    return 0;
}
