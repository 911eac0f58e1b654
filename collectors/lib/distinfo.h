/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packages installed in a Python: names and versions from *.dist-info, *.egg-info and
 * conda-meta, as text, without running Python.
 */
#ifndef COLLECTORS_LIB_DISTINFO_H
#define COLLECTORS_LIB_DISTINFO_H

#include <stdbool.h>
#include <stddef.h>

struct dist_package {
    char name[96]; /* normalised: lower case, runs of -_. are '-' (PEP 503) */
    char version[64];
    char installer[16]; /* pip, uv, conda, ... "" = not said */
    char commit[41];    /* of an installation from a repository */
    bool editable;
    bool shadowed; /* a folder that is searched earlier has a package of that name, too */
    unsigned site; /* index of the folder it is in */
};

#define DIST_MAX 4096

struct dist_list {
    struct dist_package *packages;
    size_t count, capacity;
    size_t unreadable; /* folders of metadata without a name or version */
    bool full;
};

void dist_list_release(struct dist_list *list);
/* Adds the packages of `folder` (a site-packages). Number added or -errno. */
int dist_scan_site(struct dist_list *list, const char *folder, unsigned site);
/* Adds the packages of conda-meta/NAME-VERSION-BUILD.json of an environment. Reads only the file
 * names, which hold name and version. Number added or -errno. */
int dist_scan_conda(struct dist_list *list, const char *prefix, unsigned site);
/* Sorts by name, then site, and marks what is shadowed. */
void dist_list_sort(struct dist_list *list);
/* The package that is not shadowed, or NULL. `name` is normalised. */
const struct dist_package *dist_find(const struct dist_list *list, const char *name);

/* Name and Version out of METADATA / PKG-INFO text: headers up to the first empty line. */
bool dist_parse_metadata(const char *text, char *name, size_t name_size, char *version,
                         size_t version_size);
/* Value of `key` in a generated version.py: "hip: Optional[str] = '6.2.41133-dd7f95766'" or
 * "cuda = None". 1 = text, 0 = None, -ENOENT = no such line. */
int dist_parse_version_py(const char *text, const char *key, char *out, size_t size);
void dist_normalise(char *out, size_t size, const char *name, size_t len);

#endif
