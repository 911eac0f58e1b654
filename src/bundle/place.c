/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a bundle: the requested folder, else the user's state folder, else a private
 * folder in /tmp. The steps: a temporary name in the same folder, fsync, rename without overwriting, fsync of
 * the folder. When anything fails, no partial file stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_folder.h"
#include "bundle/internal.h"

#define SAME_NAME_MAX 1000

/* Give the finished file its name; -EEXIST when it is taken. */
static int rename_fresh(int dir_fd, const char *from, const char *to)
{
    if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* NFS and some FUSE file systems lack the flag; link(2) does not overwrite either. */
    if (linkat(dir_fd, from, dir_fd, to, 0) == 0)
        return unlinkat(dir_fd, from, 0) == 0 ? 0 : -errno;
    if (errno == EEXIST)
        return -EEXIST;
    /* No hard links (vfat over FUSE): look, then rename. */
    if (faccessat(dir_fd, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(dir_fd, from, dir_fd, to) == 0 ? 0 : -errno;
}

static int write_temporary(int dir_fd, const char *temporary, struct stage *stage,
                           const char *base_manifest, const char *top, bool *ret_output_failed,
                           struct rc_err *err)
{
    *ret_output_failed = true;
    RC_AUTO_CLOSE int fd =
        openat(dir_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot create the archive");
    int r = fchmod(fd, 0600) == 0 || errno == EPERM ? 0 : -errno; /* umask 0777; vfat */
    if (r < 0)
        return rc_err_errno(err, r, "cannot set the archive's mode");
    r = archive_stage(stage, base_manifest, top, fd, ret_output_failed, err);
    if (r < 0)
        return r;
    *ret_output_failed = true;
    r = fs_sync(fd);
    if (r < 0)
        return rc_err_errno(err, r, "cannot write the archive to the disk");
    r = fs_close(rc_take_fd(&fd)); /* NFS reports a full disk here */
    if (r < 0)
        return rc_err_errno(err, r, "cannot close the archive");
    return 0;
}

/* The first name that is free now: "name", "name-2", ... */
static int free_name(int dir_fd, const char *name, unsigned *number, char *top, size_t size)
{
    for (; *number < SAME_NAME_MAX; ++*number) {
        char file[BUNDLE_TOP_MAX + 32];
        int n = *number < 2 ? snprintf(top, size, "%s", name)
                            : snprintf(top, size, "%s-%u", name, *number);
        if (n < 0 || (size_t)n >= size || !top_name_ok(top))
            return -ENAMETOOLONG;
        (void)snprintf(file, sizeof file, "%s.tar.gz", top);
        if (faccessat(dir_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
            return 0;
    }
    return -EEXIST;
}

int place_in(int dir_fd, struct stage *stage, const char *base_manifest, const char *name,
             struct place_result *result, struct rc_err *err)
{
    char temporary[BUNDLE_TOP_MAX + 64];
    char top[BUNDLE_TOP_MAX + 8];
    static unsigned serial;
    (void)snprintf(temporary, sizeof temporary, ".%s.%ld-%u.partial", name, (long)getpid(),
                   serial++);
    for (unsigned number = 1;; number++) {
        result->output_failed = true;
        int r = free_name(dir_fd, name, &number, top, sizeof top);
        if (r < 0)
            return rc_err_errno(err, r, "no free name for '%s'", name);
        (void)snprintf(result->name, sizeof result->name, "%s.tar.gz", top);
        r = write_temporary(dir_fd, temporary, stage, base_manifest, top, &result->output_failed,
                            err);
        if (r == 0) {
            r = rename_fresh(dir_fd, temporary, result->name);
            if (r < 0 && r != -EEXIST)
                (void)rc_err_errno(err, r, "cannot rename the archive");
        }
        if (r == 0) {
            (void)fs_sync(dir_fd); /* keeps the name; EINVAL on some file systems: the data is safe */
            return 0;
        }
        (void)unlinkat(dir_fd, temporary, 0);
        if (r != -EEXIST || number >= SAME_NAME_MAX) /* EEXIST: another rank took the name */
            return r;
    }
}

/* The user chose this folder: links in its path, and who may read there, are the user's decision. */
static int open_state_dir(const char *path, int *ret_fd, struct rc_err *err)
{
    char parent[FS_PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(parent, sizeof parent, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    int r = fs_mkdir_p(parent);
    if (r < 0)
        return rc_err_errno(err, r, "cannot make '%s'", parent);
    return own_folder_open(parent, slash + 1, S_IWGRP | S_IWOTH, ret_fd, err);
}

#define CLOSED (S_IRWXG | S_IRWXO) /* in a folder that all users share */

/* Any user can take the name rocmcrash-UID. Then one of random name serves, always the same. */
static int find_random(const char *tmp, const char *name, char *out, size_t size)
{
    char prefix[48], found[48];
    (void)snprintf(prefix, sizeof prefix, "%s-", name);
    int r = own_folder_find(tmp, prefix, CLOSED, found, sizeof found);
    int n = r == 0 ? snprintf(out, size, "%s/%s", tmp, found) : 0;
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : r;
}

static int make_random(const char *tmp, const char *name, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/%s-XXXXXX", tmp, name);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : mkdtemp(out) != NULL ? 0 : -errno;
}

/* Opens /tmp/rocmcrash-<uid>, or another folder if that one belongs to somebody else. Path in
 * `out`. */
static int open_tmp_dir(const char *tmp, char *out, size_t size, int *ret_fd, struct rc_err *err)
{
    char name[40];
    (void)snprintf(name, sizeof name, "rocmcrash-%lu", (unsigned long)geteuid());
    int n = snprintf(out, size, "%s/%s", tmp, name);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "'%s' is too long", tmp);
    int r = own_folder_open(tmp, name, CLOSED, ret_fd, err);
    if (r != -EPERM && r != -ELOOP && r != -ENOTDIR && r != -EACCES)
        return r;
    if (find_random(tmp, name, out, size) < 0 && make_random(tmp, name, out, size) < 0)
        return r; /* the first error says more */
    return own_folder_open(tmp, out + strlen(tmp) + 1, CLOSED, ret_fd, err);
}

/* The bundle to be placed, and the folders that may take it. */
struct parcel {
    struct stage *stage;
    const char *base_manifest;
    const char *name;
    const struct place_folders *folders;
};

enum candidate { CANDIDATE_OUTPUT, CANDIDATE_STATE, CANDIDATE_TMP, CANDIDATE_MAX };

/* Path in `out`. */
static int open_candidate(const struct place_folders *folders, enum candidate which, char *out,
                          size_t size, int *ret_fd, struct rc_err *err)
{
    const char *const dirs[] = {[CANDIDATE_OUTPUT] = folders->output,
                                [CANDIDATE_STATE] = folders->state,
                                [CANDIDATE_TMP] = folders->tmp};
    const char *dir = dirs[which];
    if (dir == NULL || dir[0] == '\0')
        return rc_err_set(err, -ENOENT, "no folder is given, or the current one is gone");
    int n = snprintf(out, size, "%s", dir);
    if (n < 0 || (size_t)n >= size)
        return rc_err_set(err, -ENAMETOOLONG, "'%s' is too long", dir);
    if (which == CANDIDATE_STATE)
        return open_state_dir(dir, ret_fd, err);
    if (which == CANDIDATE_TMP)
        return open_tmp_dir(dir, out, size, ret_fd, err);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return rc_err_errno(err, -errno, "cannot open the folder '%s'", dir);
    *ret_fd = fd;
    return 0;
}

/* *ret_output_failed: another folder is worth a try. */
static int try_folder(const struct parcel *parcel, enum candidate which, char *ret_path,
                      size_t ret_size, bool *ret_output_failed, struct rc_err *err)
{
    char dir[FS_PATH_MAX];
    struct place_result result = {.output_failed = true};
    *ret_output_failed = true;
    RC_AUTO_CLOSE int fd = -1;
    int r = open_candidate(parcel->folders, which, dir, sizeof dir, &fd, err);
    if (r < 0)
        return r;
    r = place_in(fd, parcel->stage, parcel->base_manifest, parcel->name, &result, err);
    *ret_output_failed = result.output_failed;
    if (r < 0)
        return rc_err_wrap(err, r, "in '%s'", dir);
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    int n = snprintf(ret_path, ret_size, "%s%s%s", dir, slash, result.name);
    if (n >= 0 && (size_t)n < ret_size)
        return 0;
    *ret_output_failed = false; /* the bundle is written: no second one elsewhere */
    return rc_err_set(err, -ENAMETOOLONG, "'%s' is too long", dir);
}

static int try_folders(const struct parcel *parcel, char *ret_path, size_t ret_size,
                       bool *ret_elsewhere, struct rc_err *err)
{
    struct rc_err first = {""};
    int first_code = 0;
    for (enum candidate which = CANDIDATE_OUTPUT; which < CANDIDATE_MAX; which++) {
        struct rc_err why = {""};
        bool output_failed = true;
        int r = try_folder(parcel, which, ret_path, ret_size, &output_failed, &why);
        if (r == 0) {
            *ret_elsewhere = which > CANDIDATE_OUTPUT;
            if (*ret_elsewhere && err != NULL)
                *err = first;
            return 0;
        }
        if (which == CANDIDATE_OUTPUT) {
            first = why;
            first_code = r;
        }
        if (!output_failed) /* the stage failed: no other folder helps */
            return rc_err_set(err, r, "%s", why.msg);
    }
    return rc_err_set(err, first_code, "%s; nor could it be written elsewhere", first.msg);
}

/* The stage's manifest.json; *ret stays NULL when there is none that could be read. */
static int read_base_manifest(const struct stage *stage, char **ret, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = stage_open_file(stage, MANIFEST_NAME);
    if (fd < 0)
        return stage_open_may_pass(fd) ? rc_err_errno(err, fd, "cannot open the staged manifest")
                                       : 0;
    RC_AUTO_FREE char *text = malloc(BUNDLE_MAX_MANIFEST);
    if (text == NULL)
        return rc_err_errno(err, -ENOMEM, "cannot read the staged manifest");
    ssize_t len = fs_pread_text(fd, text, BUNDLE_MAX_MANIFEST);
    if (len >= 0)
        *ret = rc_take(&text);
    return 0;
}

int place_with_fallbacks(const char *stage_dir, const char *name,
                         const struct place_folders *folders, char *ret_path, size_t ret_size,
                         bool *ret_elsewhere, struct rc_err *err)
{
    if (!top_name_ok(name))
        return rc_err_set(err, -EINVAL, "not a name for a bundle: '%s'", name);
    struct stage stage;
    int r = stage_open(&stage, stage_dir, err);
    if (r < 0)
        return r;
    RC_AUTO_FREE char *base = NULL;
    r = read_base_manifest(&stage, &base, err);
    if (r < 0) {
        stage_release(&stage);
        return r;
    }
    const struct parcel parcel = {&stage, base, name, folders};
    r = try_folders(&parcel, ret_path, ret_size, ret_elsewhere, err);
    stage_release(&stage);
    return r;
}

/* $XDG_STATE_HOME/rocmcrash/bundles, else that below the home; "" = there is none. */
static void user_folder(char *out, size_t size)
{
    const char *xdg = own_folder_from("XDG_STATE_HOME");
    const char *home = own_folder_from("HOME");
    int n = 0;
    out[0] = '\0';
    if (xdg != NULL)
        n = snprintf(out, size, "%s/rocmcrash/bundles", xdg);
    else if (home != NULL)
        n = snprintf(out, size, "%s/.local/state/rocmcrash/bundles", home);
    if (n < 0 || (size_t)n >= size)
        out[0] = '\0';
}

int bundle_shared_folder(char *out, size_t size)
{
    char user[FS_PATH_MAX];
    char name[40];
    const char *state = getenv("ROCMCRASH_STATE_DIR");
    user_folder(user, sizeof user);
    if (user[0] != '\0' || (state != NULL && state[0] != '\0'))
        return -ENOENT;
    (void)snprintf(name, sizeof name, "rocmcrash-%lu", (unsigned long)geteuid());
    return find_random("/tmp", name, out, size);
}

int bundle_write(const char *stage_dir, const char *name, const char *output_dir, char *ret_path,
                 size_t ret_size, bool *ret_elsewhere, struct rc_err *err)
{
    char user[FS_PATH_MAX];
    char named[FS_PATH_MAX] = "";
    const char *state =
        getenv("ROCMCRASH_STATE_DIR"); /* as the run directories (record/rundir.h) */
    user_folder(user, sizeof user);
    if (state != NULL && state[0] != '\0' &&
        (size_t)snprintf(named, sizeof named, "%s/bundles", state) >= sizeof named)
        named[0] = '\0';
    const struct place_folders folders = {output_dir, named[0] != '\0' ? named : user, "/tmp"};
    struct rc_err first = {""};
    int r =
        place_with_fallbacks(stage_dir, name, &folders, ret_path, ret_size, ret_elsewhere, &first);
    bool nowhere = r < 0 && r != -EINVAL && r != -ENOMEM && r != -EFBIG && r != -EBADMSG;
    if (nowhere) {
        /* Files in memory are lost with the machine, but by then somebody may have copied them. */
        const struct place_folders last = {"", named[0] != '\0' ? user : "", "/dev/shm"};
        if (place_with_fallbacks(stage_dir, name, &last, ret_path, ret_size, ret_elsewhere, NULL) ==
            0)
            r = 0;
    }
    if (err != NULL)
        *err = first;
    return r;
}
