/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-hashes 1
 * 64512 1311 4683074240 1700000000000000000 1700000000000000000 <64 hex>      (dev ino size mtime
 * ctime) end <64 hex: SHA-256 of all that is above>
 */
#include "collectors/lib/hash_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/number.h"
#include "base/own_folder.h"
#include "collectors/lib/cleantext.h"

#define FILE_NAME "hashes"
#define HEADER "rocmcrash-hashes 1\n"
#define FILE_MAX ((size_t)1 << 20)
#define TOO_YOUNG_NS UINT64_C(2000000000)

int hash_cache_folder(char *out, size_t size)
{
    const char *base = own_folder_from("XDG_CACHE_HOME");
    const char *home = own_folder_from("HOME");
    int n;
    if (base != NULL)
        n = snprintf(out, size, "%s/rocmcrash", base);
    else if (home != NULL)
        n = snprintf(out, size, "%s/.cache/rocmcrash", home);
    else
        return -ENOENT;
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static uint64_t stamp_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static struct hash_cache_entry entry_of(const struct stat *st)
{
    return (struct hash_cache_entry){.dev = st->st_dev,
                                     .ino = st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .mtime_ns = stamp_ns(&st->st_mtim),
                                     .ctime_ns = stamp_ns(&st->st_ctim)};
}

/* One line; -EINVAL unless it is exactly as we write it. */
static int parse_line(char *line, struct hash_cache_entry *entry)
{
    uint64_t *fields[] = {&entry->dev, &entry->ino, &entry->size, &entry->mtime_ns,
                          &entry->ctime_ns};
    char *p = line;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char *space = strchr(p, ' ');
        if (space == NULL || !number_of_field(p, fields[i]))
            return -EINVAL;
        p = space + 1;
    }
    if (!cleantext_is_hex(p, HASH_SHA256_HEX - 1))
        return -EINVAL;
    memcpy(entry->sha256, p, HASH_SHA256_HEX);
    return 0;
}

static int parse_all(struct hash_cache *cache, char *text)
{
    if (!cleantext_starts(text, HEADER))
        return -EINVAL;
    for (char *line = text + strlen(HEADER); *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end == NULL || cache->count == HASH_CACHE_MAX)
            return -EINVAL;
        *end = '\0';
        if (parse_line(line, &cache->entries[cache->count]) < 0)
            return -EINVAL;
        cache->count++;
        line = end + 1;
    }
    return 0;
}

/* Cuts the checksum line off if it is right. */
static int check_sum(char *text, size_t len)
{
    char sum[HASH_SHA256_HEX];
    const size_t tail = 4 + HASH_SHA256_HEX - 1 + 1; /* "end " hex newline */
    if (len < tail || strlen(text) != len)
        return -EINVAL;
    char *last = text + len - tail;
    hash_memory(text, len - tail, sum);
    if (!cleantext_starts(last, "end ") || memcmp(last + 4, sum, HASH_SHA256_HEX - 1) != 0)
        return -EINVAL;
    *last = '\0';
    return 0;
}

static ssize_t read_ours(const char *folder, char **ret_text)
{
    char path[FS_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" FILE_NAME, folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    struct stat st;
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return -EPERM;
    if (st.st_size <= 0 || (uint64_t)st.st_size > FILE_MAX)
        return -EFBIG;
    RC_AUTO_FREE char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL)
        return -ENOMEM;
    ssize_t got = fs_pread_full(fd, text, (size_t)st.st_size, 0);
    if (got < 0)
        return got;
    text[got] = '\0';
    *ret_text = rc_take(&text);
    return got;
}

void hash_cache_load(struct hash_cache *cache, const char *folder)
{
    *cache = (struct hash_cache){0};
    cache->entries = calloc(HASH_CACHE_MAX, sizeof cache->entries[0]);
    if (cache->entries == NULL)
        return;
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = read_ours(folder, &text);
    if (text == NULL || check_sum(text, (size_t)len) < 0 || parse_all(cache, text) < 0)
        cache->count = 0;
}

void hash_cache_release(struct hash_cache *cache)
{
    free(cache->entries);
    *cache = (struct hash_cache){0};
}

const char *hash_cache_find(const struct hash_cache *cache, const struct stat *st)
{
    struct hash_cache_entry want = entry_of(st);
    for (size_t i = cache->count; i-- > 0;) {
        const struct hash_cache_entry *e = &cache->entries[i];
        if (e->ino == want.ino && e->dev == want.dev && e->size == want.size &&
            e->mtime_ns == want.mtime_ns && e->ctime_ns == want.ctime_ns)
            return e->sha256;
    }
    return NULL;
}

int hash_cache_put(struct hash_cache *cache, const struct stat *st, uint64_t now_wall_ns,
                   const char *sha256)
{
    struct hash_cache_entry entry = entry_of(st);
    if (cache->entries == NULL)
        return -ENOMEM;
    if (entry.mtime_ns + TOO_YOUNG_NS > now_wall_ns)
        return -EAGAIN;
    memcpy(entry.sha256, sha256, HASH_SHA256_HEX);
    size_t kept = 0; /* the former hash of the file is stale */
    for (size_t i = 0; i < cache->count; i++) {
        if (cache->entries[i].dev != entry.dev || cache->entries[i].ino != entry.ino)
            cache->entries[kept++] = cache->entries[i];
    }
    cache->count = kept;
    if (cache->count == HASH_CACHE_MAX) {
        memmove(cache->entries, cache->entries + 1,
                (HASH_CACHE_MAX - 1) * sizeof cache->entries[0]);
        cache->count--;
    }
    cache->entries[cache->count++] = entry;
    return 0;
}

int hash_cache_save(const struct hash_cache *cache, const char *folder)
{
    struct buf text;
    char sum[HASH_SHA256_HEX];
    buf_init(&text, FILE_MAX);
    buf_puts(&text, HEADER);
    for (size_t i = 0; i < cache->count; i++) {
        const struct hash_cache_entry *e = &cache->entries[i];
        buf_printf(&text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                   e->dev, e->ino, e->size, e->mtime_ns, e->ctime_ns, e->sha256);
    }
    hash_memory(buf_str(&text), text.len, sum);
    buf_printf(&text, "end %s\n", sum);
    int r = buf_failed(&text) ? -ENOMEM : 0;
    if (r == 0)
        r = fs_mkdir_p(folder);
    RC_AUTO_CLOSE int dir = r == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (r == 0 && dir < 0)
        r = -errno;
    if (r == 0)
        r = fs_write_file_at(dir, FILE_NAME, text.data, text.len, false);
    buf_release(&text);
    return r;
}
