/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of installed distribution packages, read from the databases that are text: dpkg and
 * pacman. rpm's is a binary database and is not read.
 */
#ifndef COLLECTORS_LIB_DISTRO_PACKAGES_H
#define COLLECTORS_LIB_DISTRO_PACKAGES_H

#include <stddef.h>

struct distro_package {
    char name[96];
    char version[96];
};

/* Packages whose name begins with one of `prefixes` (NULL-terminated), sorted by name, at most max.
 * Count; -ENOENT if this machine has neither database. Below the sysroot. */
int distro_packages(const char *const *prefixes, struct distro_package *ret, size_t max);

/* "dpkg", "pacman", "rpm (not read)" or "". */
const char *distro_packages_kind(void);

#endif
