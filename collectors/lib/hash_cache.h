/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of earlier runs, so that the second crash of a job is quick. One text file of the user,
 * bounded, replaced atomically, with a checksum. A cache that is damaged, belongs to another user
 * or is writable by others is ignored.
 */
#ifndef COLLECTORS_LIB_HASH_CACHE_H
#define COLLECTORS_LIB_HASH_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "collectors/lib/hash.h"

#define HASH_CACHE_MAX 4096

struct hash_cache_entry {
    uint64_t dev, ino, size, mtime_ns, ctime_ns;
    char sha256[HASH_SHA256_HEX];
};

struct hash_cache {
    struct hash_cache_entry *entries; /* oldest first */
    size_t count;
};

/* $XDG_CACHE_HOME/rocmcrash, else $HOME/.cache/rocmcrash, if it is the effective user's
 * (base/own_folder.h). 0, -ENOENT (there is neither), -errno. */
int hash_cache_folder(char *out, size_t size);

/* Never fails: a cache that cannot be trusted counts as empty. */
void hash_cache_load(struct hash_cache *cache, const char *folder);
void hash_cache_release(struct hash_cache *cache);
/* NULL when not known. */
const char *hash_cache_find(const struct hash_cache *cache, const struct stat *st);
/* Removes the oldest when it is full. Files that changed in the last two seconds are not stored:
 * they can change again without a new time stamp. 0, -EAGAIN (too young), -ENOMEM. */
int hash_cache_put(struct hash_cache *cache, const struct stat *st, uint64_t now_wall_ns,
                   const char *sha256);
int hash_cache_save(const struct hash_cache *cache, const char *folder);

#endif
