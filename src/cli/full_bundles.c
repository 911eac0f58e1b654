/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/full_bundles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_folder.h"
#include "collectors/job.h"
#include "collectors/machine.h"

#define WINDOW_S 60 /* ranks that fail later than this fail of something else, or of its consequences */
#define PREFIX "rank-"

/* Variables that all ranks of a job share, and no other job at that time has alike. */
static const char *const identity[] = {"SLURM_JOB_ID",  "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                                       "MASTER_ADDR",   "MASTER_PORT",   "PMIX_NAMESPACE",      "PBS_JOBID",
                                       "LSB_JOBID",     "FLUX_JOB_ID",   "WORLD_SIZE"};

/* FNV-1a */
static uint64_t add_text(uint64_t hash, const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return (hash ^ 0xff) * 0x100000001b3u;
}

static uint64_t key_of(const char *const *environ_list, const char *cause)
{
    uint64_t hash = add_text(0xcbf29ce484222325u, cause);
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++) {
        const char *value = environ_get(environ_list, identity[i]);
        hash = add_text(hash, value != NULL ? value : "");
    }
    return hash;
}

static bool is_old(int dir_fd, const char *name)
{
    struct stat st;
    time_t now = time(NULL);
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_mtime > now || now - st.st_mtime > WINDOW_S);
}

static void remove_old(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 && is_old(dir_fd, entry->d_name))
            (void)unlinkat(dir_fd, entry->d_name, 0);
    (void)closedir(dir);
}

bool full_bundles_claim(const char *const *environ_list, const char *cause, unsigned most)
{
    int64_t rank, world_size;
    char folder[40];
    struct rc_err err = {""};
    RC_AUTO_CLOSE int dir_fd = -1;
    if (most == 0 || environ_list == NULL || !job_number(environ_list, "job.rank", &rank) ||
        !job_number(environ_list, "job.world_size", &world_size) || world_size < 2)
        return true;
    (void)snprintf(folder, sizeof folder, "rocmcrash-%lu", (unsigned long)geteuid());
    if (own_folder_open("/dev/shm", folder, S_IRWXG | S_IRWXO, &dir_fd, &err) < 0)
        return true;
    remove_old(dir_fd);
    uint64_t key = key_of(environ_list, cause);
    for (unsigned i = 0; i < most; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, PREFIX "%016" PRIx64 ".%u", key, i);
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0)
            (void)close(fd);
        if (fd >= 0 || errno != EEXIST)
            return true;
    }
    return false;
}

static bool is_small(const char *name)
{
    return strcmp(name, "run") == 0 || strcmp(name, "output") == 0 || strcmp(name, "job") == 0;
}

int full_bundles_reduce(const char *stage)
{
    RC_AUTO_CLOSE int dir_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir_fd >= 0 ? openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int r = dir != NULL ? 0 : -errno;
    if (dir == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    for (const struct dirent *entry; r == 0 && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && !is_small(entry->d_name))
            r = fs_remove_tree(dir_fd, entry->d_name);
    (void)closedir(dir);
    return r;
}
