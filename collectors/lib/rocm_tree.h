/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the origin and the ROCm version of a mapped ROCm library.
 */
#ifndef COLLECTORS_LIB_ROCM_TREE_H
#define COLLECTORS_LIB_ROCM_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fs.h"

enum rocm_origin {
    ROCM_ORIGIN_TREE,        /* /opt/rocm-6.2.0, or any folder with .info/version */
    ROCM_ORIGIN_TORCH_WHEEL, /* site-packages/torch/lib */
    ROCM_ORIGIN_SDK_WHEEL,   /* site-packages/_rocm_sdk_core */
    ROCM_ORIGIN_OTHER_WHEEL,
    ROCM_ORIGIN_CONDA,
    ROCM_ORIGIN_DISTRIBUTION, /* /usr/lib/... */
    ROCM_ORIGIN_OTHER,
};

struct rocm_place {
    enum rocm_origin origin;
    char root[FS_PATH_MAX]; /* the tree, the site-packages or the conda prefix; "" = none */
};

struct rocm_version {
    char text[64];    /* "6.2.0", as found */
    int64_t number;   /* major*10000 + minor*100 + patch */
    bool patch_known; /* a wheel may say "6.2" only */
    char source[256];
};

const char *rocm_origin_name(enum rocm_origin origin);
/* Is this file a library of ROCm or libdrm, by its name? */
bool rocm_is_library(const char *path);
/* "libamdhip64" of ".../libamdhip64.so.6.2.60200" or ".../libamdhip64-ab12cd34.so". */
void rocm_library_stem(const char *path, char *out, size_t size);
void rocm_place(const char *path, struct rocm_place *ret);

/* "6.2.0-66", "7.0.0rc20250806", "6.2" -> number. 0 or -EINVAL (no major.minor, or absurd). */
int rocm_parse_version(const char *text, struct rocm_version *ret);

/*
 * Version of the runtime at `path` (as mapped): .info/version beside it, a wheel's own metadata, the
 * name of the folder, the number that ROCm's packages put into file names (so.6.2.60200), the
 * distribution's package of the same soname, major and minor of HIP's file name; in that order. For
 * a deleted file only its name counts. No list of known releases. 0 or -ENOENT.
 */
int rocm_version_of(const char *path, bool deleted, struct rocm_version *ret);

#endif
