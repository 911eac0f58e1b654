/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the Python of the failed process and its package folders, from mappings, arguments and
 * environment, without running it.
 */
#ifndef COLLECTORS_LIB_PYTHON_ENV_H
#define COLLECTORS_LIB_PYTHON_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fs.h"

#define PYTHON_SITES_MAX 32

struct python_site {
    char path[FS_PATH_MAX];
    const char *how; /* "PYTHONPATH", "virtual environment", "mapped libraries" ... */
    bool mapped;     /* the process has libraries of it mapped */
};

struct python_env {
    char executable[FS_PATH_MAX];  /* "" = not known */
    char prefix[FS_PATH_MAX];      /* of the virtual or conda environment, "" = none */
    char base_prefix[FS_PATH_MAX]; /* of the installation */
    char series[8];                /* "3.11" */
    char version[32];              /* "3.11.7", or the series */
    const char *version_source;
    const char *kind;  /* "venv", "conda", "system", "unknown" */
    bool system_sites; /* the virtual environment sees the packages of the installation */
    struct python_site
        sites[PYTHON_SITES_MAX]; /* in the order of sys.path, as far as it is known */
    unsigned site_count;
};

struct collect_ctx;

/* false = there is no sign of a Python. `ret` is large: not for the stack. */
bool python_env_find(const struct collect_ctx *ctx, struct python_env *ret);

/* Is this the name of a Python interpreter ("python", "python3.11", "pypy3")? */
bool python_is_interpreter(const char *path);

#endif
