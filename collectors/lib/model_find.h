/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the model files of this run: named by arguments, open or mapped at the failure, or opened
 * according to the ledger.
 */
#ifndef COLLECTORS_LIB_MODEL_FIND_H
#define COLLECTORS_LIB_MODEL_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fs.h"
#include "collectors/lib/hash.h"
#include "collectors/lib/hub.h"
#include "collectors/lib/weights.h"

#define MODEL_MAX 512

enum model_hash {
    MODEL_HASH_NONE,
    MODEL_HASH_FULL,
    MODEL_HASH_CACHED, /* full, by an earlier run */
    MODEL_HASH_ENDS,   /* first and last 16 MiB: the budget did not reach */
};

/* One file. Lives in memory shared with the workers: no pointers. */
struct model {
    char path[FS_PATH_MAX];
    char found[160]; /* "argument 3; fd 17; mapping" */
    uint64_t dev, ino;
    uint64_t size, mtime_ns, ctime_ns, allocated_bytes;
    bool there;           /* it existed when we looked, and is a regular file */
    bool deleted;         /* unlinked while in use: only the process could still read it */
    bool header_read;     /* weights is valid */
    bool changed_hashing; /* size or time changed while it was read */
    bool hash_tried;
    enum model_hash hash;
    char sha256[HASH_SHA256_HEX];
    char git_blob[HASH_SHA1_HEX];
    char trouble[160]; /* why something is missing */
    struct hub_name hub;
    struct weights weights;
};

struct model_list {
    struct model *models; /* MODEL_MAX of them, given by the caller */
    size_t count;
    size_t omitted;                          /* found beyond MODEL_MAX */
    size_t arguments, descriptors, mappings; /* files that were examined */
    size_t opened; /* files with a model's name that the ledger saw opened */
};

struct collect_ctx;

/* Fills the list in the order of discovery, each file once (device and inode). */
void model_find(const struct collect_ctx *ctx, struct model_list *list);

#endif
