/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of the target can outlive us and keeps the name of the library in its environment. So the
 * name must lead to our file for good. /proc/PID/fd/N does not: the next process with that PID
 * decides what is there. The link stays after the run.
 */
#include "launch/library_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/own_folder.h"

#define SPLITS ": "
#define FOLDER "library"
#define LINK_WAIT_MS 100

static const struct {
    const char *variable, *tail;
} places[] = {{"ROCMCRASH_STATE_DIR", ""},
              {"XDG_STATE_HOME", "/rocmcrash"},
              {"HOME", "/.local/state/rocmcrash"}};

struct link {
    const char *variable;
    const char *library;
    char parent[FS_PATH_MAX];
    char name[64];
};

static bool leads_to(int folder_fd, const struct link *link)
{
    char to[FS_PATH_MAX];
    ssize_t n = readlinkat(folder_fd, link->name, to, sizeof to);
    return n > 0 && (size_t)n == strlen(link->library) && memcmp(to, link->library, (size_t)n) == 0;
}

/* In a child: a home folder may lie on a server that does not answer. */
static bool make_link(void *context)
{
    const struct link *link = context;
    char folder[FS_PATH_MAX + sizeof FOLDER];
    struct stat st;
    RC_AUTO_CLOSE int fd = -1;
    (void)snprintf(folder, sizeof folder, "%s/" FOLDER, link->parent);
    if (own_folder_from(link->variable) == NULL || fs_mkdir_p(link->parent) < 0 ||
        own_folder_open(link->parent, FOLDER, S_IRWXG | S_IRWXO, &fd, NULL) < 0 ||
        fstat(fd, &st) != 0 || own_path_distrust(folder, &st) != NULL)
        return false;
    return (symlinkat(link->library, fd, link->name) == 0 || errno == EEXIST) && leads_to(fd, link);
}

/* Two installations have two links. FNV-1a. */
static uint64_t hash(const char *text)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        sum = (sum ^ (unsigned char)*text) * 0x100000001b3u;
    return sum;
}

static int link_in(size_t place, const char *path, char *ret, size_t size)
{
    struct link link = {.variable = places[place].variable, .library = path};
    const char *folder = getenv(link.variable);
    if (folder == NULL || strpbrk(folder, SPLITS) != NULL)
        return -ENOENT;
    int n = snprintf(link.parent, sizeof link.parent, "%s%s", folder, places[place].tail);
    if (n < 0 || (size_t)n >= sizeof link.parent)
        return -ENAMETOOLONG;
    (void)snprintf(link.name, sizeof link.name, "librocmcrash-ledger-%016" PRIx64 ".so", hash(path));
    n = snprintf(ret, size, "%s/" FOLDER "/%s", link.parent, link.name);
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    return bounded_ask(make_link, &link, LINK_WAIT_MS) ? 0 : -EACCES;
}

int library_name(const char *path, char *ret, size_t size)
{
    int r = -ENOENT;
    if (strpbrk(path, SPLITS) == NULL)
        return (size_t)snprintf(ret, size, "%s", path) < size ? 0 : -ENAMETOOLONG;
    for (size_t place = 0; r < 0 && place < sizeof places / sizeof places[0]; place++)
        r = link_in(place, path, ret, size);
    return r;
}
