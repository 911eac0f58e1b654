/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/lib/distro_packages.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collectors/lib/cleantext.h"

#define DPKG_STATUS "/var/lib/dpkg/status"
#define PACMAN_LOCAL "/var/lib/pacman/local"
#define LINES_MAX 2000000
#define ENTRIES_MAX 65536

static bool exists(const char *machine_path)
{
    char path[FS_PATH_MAX];
    struct stat st;
    return fs_machine_path(path, sizeof path, machine_path) == 0 && stat(path, &st) == 0;
}

const char *distro_packages_kind(void)
{
    if (exists(DPKG_STATUS))
        return "dpkg";
    if (exists(PACMAN_LOCAL))
        return "pacman";
    if (exists("/var/lib/rpm") || exists("/usr/lib/sysimage/rpm"))
        return "rpm (not read)";
    return "";
}

static bool wanted(const char *const *prefixes, const char *name)
{
    for (size_t i = 0; prefixes[i] != NULL; i++) {
        if (cleantext_starts(name, prefixes[i]))
            return true;
    }
    return false;
}

static int compare_packages(const void *a, const void *b)
{
    const struct distro_package *x = a;
    const struct distro_package *y = b;
    int r = strcmp(x->name, y->name);
    return r != 0 ? r : strcmp(x->version, y->version);
}

/*
 * Package: libdrm-amdgpu1
 * Status: install ok installed
 * ...
 * Version: 2.4.114-1+b1
 */
static size_t read_dpkg(FILE *f, const char *const *prefixes, struct distro_package *ret,
                        size_t max)
{
    char line[1024];
    struct distro_package p = {0};
    bool installed = false;
    bool line_start = true;
    size_t count = 0;
    for (int i = 0; i < LINES_MAX && count < max; i++) {
        bool more = fgets(line, sizeof line, f) != NULL;
        bool fresh = line_start;
        size_t len = more ? strcspn(line, "\n") : 0;
        line_start = more && line[len] == '\n';
        if (more && !fresh) /* rest of a long line */
            continue;
        line[len] = '\0';
        if (!more || len == 0) { /* a paragraph ends */
            if (installed && p.version[0] != '\0' && wanted(prefixes, p.name))
                ret[count++] = p;
            p = (struct distro_package){0};
            installed = false;
            if (!more)
                break;
        } else if (cleantext_starts(line, "Package: ")) {
            cleantext_copy(p.name, sizeof p.name, line + 9, len - 9);
        } else if (cleantext_starts(line, "Version: ")) {
            cleantext_copy(p.version, sizeof p.version, line + 9, len - 9);
        } else if (cleantext_starts(line, "Status: ")) {
            installed = cleantext_ends(line, " installed");
        }
    }
    return count;
}

/* Folder names: "hip-runtime-amd-6.2.0-1": version and release are the last two parts. */
static size_t read_pacman(DIR *dir, const char *const *prefixes, struct distro_package *ret,
                          size_t max)
{
    size_t count = 0;
    struct dirent *entry;
    for (int i = 0; i < ENTRIES_MAX && count < max && (entry = readdir(dir)) != NULL; i++) {
        const char *name = entry->d_name;
        const char *release = strrchr(name, '-');
        const char *version = release != NULL ? memrchr(name, '-', (size_t)(release - name)) : NULL;
        if (version == NULL || version == name || !wanted(prefixes, name))
            continue;
        struct distro_package *p = &ret[count++];
        cleantext_copy(p->name, sizeof p->name, name, (size_t)(version - name));
        cleantext_copy(p->version, sizeof p->version, version + 1, strlen(version + 1));
    }
    return count;
}

int distro_packages(const char *const *prefixes, struct distro_package *ret, size_t max)
{
    char path[FS_PATH_MAX];
    size_t count = 0;
    if (exists(DPKG_STATUS)) {
        int fd = fs_open_machine(DPKG_STATUS);
        RC_AUTO_FCLOSE FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
        if (f == NULL) {
            if (fd >= 0)
                (void)close(fd);
            return fd < 0 ? fd : -ENOMEM;
        }
        count = read_dpkg(f, prefixes, ret, max);
    } else {
        if (fs_machine_path(path, sizeof path, PACMAN_LOCAL) < 0)
            return -ENAMETOOLONG;
        RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
        if (dir == NULL)
            return -ENOENT;
        count = read_pacman(dir, prefixes, ret, max);
    }
    if (count > 1)
        qsort(ret, count, sizeof ret[0], compare_packages);
    return (int)count;
}
