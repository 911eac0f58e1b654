/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that carry a hash: the cache of huggingface_hub and the store of Ollama.
 *
 *   .../models--org--name/snapshots/<revision>/model.safetensors -> ../../blobs/<64 hex: SHA-256>
 *   .../models--org--name/snapshots/<revision>/config.json       -> ../../blobs/<40 hex: git blob
 * id>
 *   .../blobs/sha256-<64 hex>                                       (Ollama)
 */
#ifndef COLLECTORS_LIB_HUB_H
#define COLLECTORS_LIB_HUB_H

#include <stddef.h>

enum hub_kind {
    HUB_NONE,
    HUB_SHA256,   /* huggingface_hub, large file: the name is the SHA-256 of the contents */
    HUB_GIT_BLOB, /* huggingface_hub, small file: the name is the git blob id */
    HUB_OLLAMA,
};

struct hub_name {
    enum hub_kind kind;
    char digest[65]; /* as named */
    char repository[160];
    char revision[48];
    char file[256]; /* name below the snapshot, "" = not found */
};

/* Follows links. Leaves HUB_NONE if the path has neither layout. May touch the disk. */
void hub_identify(const char *path, struct hub_name *ret);

/* Folder of the snapshot of `id` ("org/name") in the cache that the environment names. 0 or -ENOENT
 * ... */
int hub_resolve(const char *id, const char *const *environment, char *out, size_t size);

/* Value of NAME in "NAME=VALUE" strings; NULL. */
const char *hub_env(const char *const *environment, const char *name);

#endif
