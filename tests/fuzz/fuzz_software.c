/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what is installed, as other people's files say it: packages, ROCm trees, Python
 * environments; and the mappings that lead there. Both collectors run over a small tree.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/lib/distinfo.h"
#include "collectors/lib/rocm_tree.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const struct collector collector_software;
extern const struct collector collector_python;

static const char *const names[] = {
    "var/lib/dpkg/status",
    "opt/rocm-6.2.0/.info/version",
    "opt/rocm-6.2.0/lib/libamdhip64.so.6.2.60200",
    "venv/pyvenv.cfg",
    "venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA",
    "venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/direct_url.json",
    "venv/lib/python3.11/site-packages/torch/version.py",
    "venv/lib/python3.11/site-packages/x.egg-info",
    "sys/module/amdgpu/version",
};

static void parse(const char *text)
{
    char name[96];
    char version[64];
    struct rocm_version rocm;
    struct rocm_place place;
    (void)dist_parse_metadata(text, name, sizeof name, version, sizeof version);
    (void)dist_parse_version_py(text, "hip", version, sizeof version);
    dist_normalise(name, sizeof name, text, strlen(text));
    (void)rocm_parse_version(text, &rocm);
    (void)rocm_is_library(text);
    rocm_library_stem(text, name, sizeof name);
    rocm_place(text, &place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char python[600];
    static char home[600];
    const char *root = pieces_folder();
    fs_set_sysroot(root);
    char *lines = pieces_next(&data, &size);
    pieces_fill(names, sizeof names / sizeof names[0], data, size);
    parse(lines);
    /* Mappings below the tree: "R/" at the beginning of a path stands for its place. */
    char *maps = calloc(1, strlen(lines) * 32 + 1);
    char *to = maps;
    if (maps == NULL)
        abort();
    for (const char *from = lines; *from != '\0'; from++) {
        if (from[0] == 'R' && from[1] == '/')
            to = stpcpy(to, root);
        else
            *to++ = *from;
    }
    (void)snprintf(python, sizeof python, "%s/venv/bin/python3", root);
    (void)snprintf(home, sizeof home, "VIRTUAL_ENV=%s/venv", root);
    const char *const argv[] = {python, "train.py", NULL};
    const char *const environment[] = {home, "PYTHONPATH=/nowhere", NULL};
    struct collect_ctx ctx = {.run_dir = root,
                              .failed_pid = 7,
                              .argv = argv,
                              .cwd = root,
                              .maps = maps,
                              .fds = "",
                              .environ_at_impact = environment,
                              .deadline_mono_ns = UINT64_MAX};
    (void)collector_software.run(&ctx, NULL);
    (void)collector_python.run(&ctx, NULL);
    free(maps);
    free(lines);
    return 0;
}
