/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 of large files: one core per file, a time budget, and an unchanged page cache. The only
 * user of libcrypto among the collectors.
 */
#ifndef COLLECTORS_LIB_HASH_H
#define COLLECTORS_LIB_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_SHA256_HEX 65
#define HASH_SHA1_HEX 41
/* Bytes hashed at each end of a file that is too long to be hashed as a whole. */
#define HASH_END_BYTES ((uint64_t)16 << 20)

struct hash_budget {
    uint64_t deadline_mono_ns; /* give up then */
    double bytes_per_ns;       /* measured by earlier files of this process, 0 = not known */
};

/*
 * Whole file. 0; -ETIME when the budget ends, or as soon as it clearly cannot be met (the rest
 * would need 1.5 times the time left); -EBUSY if the file was shorter or longer than `size` at its
 * end; -errno. ret_git, when not NULL, is the git blob id (SHA-1) of the same bytes.
 */
int hash_file(int fd, uint64_t size, struct hash_budget *budget, char ret_sha256[HASH_SHA256_HEX],
              char *ret_git);

/* SHA-256 of the first and the last HASH_END_BYTES, one after the other: NOT the hash of the file.
 * -EINVAL when the file is not longer than both (then hash_file() costs the same). */
int hash_ends(int fd, uint64_t size, const struct hash_budget *budget,
              char ret_sha256[HASH_SHA256_HEX]);

void hash_memory(const void *data, size_t len, char ret_sha256[HASH_SHA256_HEX]);

#endif
