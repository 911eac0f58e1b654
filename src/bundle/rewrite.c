/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Change a bundle that exists (`complete`, `redact`, `triage --update`).
 *
 * `sudo rocmcrash complete` runs this as root on a user's file in a user's folder: the bundle is
 * opened once and judged before it is unpacked, the folder is pinned by its descriptor, nothing is
 * opened through a link, and the new file gets the owner of the old one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/internal.h"

#define TEMPORARY_TRIES 16

struct rewrite {
    int dir_fd;     /* of the bundle */
    char file[256]; /* its name there */
    char top[BUNDLE_TOP_MAX + 1];
    int fd;         /* the old bundle */
    struct stat st; /* of it */
    char stage[64]; /* private folder */
    pid_t guard;    /* removes it if we are killed; 0 = none */
    mode_t mode_mask;
};

static int open_old(struct rewrite *w, const char *path, struct rc_err *err)
{
    char copy[FS_PATH_MAX];
    int n = snprintf(copy, sizeof copy, "%s", path);
    if (n < 0 || (size_t)n >= sizeof copy)
        return rc_err_set(err, -ENAMETOOLONG, "'%s' is too long", path);
    char *slash = strrchr(copy, '/');
    const char *file = slash != NULL ? slash + 1 : copy;
    n = snprintf(w->file, sizeof w->file, "%s", file);
    if (n <= 0 || (size_t)n >= sizeof w->file)
        return rc_err_set(err, -EINVAL, "'%s' is not a file name", path);
    if (slash != NULL)
        slash[slash == copy ? 1 : 0] = '\0';
    w->dir_fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->dir_fd < 0)
        return rc_err_errno(err, -errno, "cannot open the folder of '%s'", path);
    w->fd = openat(w->dir_fd, w->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (w->fd < 0 && errno == ELOOP)
        return rc_err_set(err, -ELOOP, "'%s' is a symbolic link: name the file itself", path);
    if (w->fd < 0 || fstat(w->fd, &w->st) != 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", path);
    if (!S_ISREG(w->st.st_mode))
        return rc_err_set(err, -EINVAL, "'%s' is not a regular file", path);
    return 0;
}

/* The top folder stays what it was. */
static int read_top(struct rewrite *w, struct rc_err *err)
{
    struct reader *reader = NULL;
    struct reader_entry entry;
    int r = lseek(w->fd, 0, SEEK_SET) < 0 ? -errno : reader_open(&reader, w->fd, err);
    if (r == 0)
        r = reader_next(reader, &entry, err);
    if (r > 0) {
        (void)snprintf(w->top, sizeof w->top, "%s", reader_top(reader));
        r = 0;
    }
    reader_close(reader);
    return r;
}

/* This process removes the stage, whatever ends `parent`: SIGINT, SIGKILL, too little memory. */
_Noreturn static void guard_stage(const char *stage, pid_t parent, const sigset_t *blocked)
{
    leave_caller();
    close_descriptors(STDERR_FILENO + 1, ~0u);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1);
    while (getppid() == parent)
        (void)sigwaitinfo(blocked, NULL);
    (void)fs_remove_tree(AT_FDCWD, stage);
    _exit(0);
}

/* The stage holds what is not redacted yet. Signals are blocked before the fork: Ctrl-C reaches the
 * guard, too. */
static void start_guard(struct rewrite *w)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    w->guard = fork();
    if (w->guard == 0)
        guard_stage(w->stage, parent, &all);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void end_guard(const struct rewrite *w)
{
    if (w->guard > 0 && kill(w->guard, SIGKILL) == 0)
        while (waitpid(w->guard, NULL, 0) < 0 && errno == EINTR)
            ;
}

static int unpack_old(struct rewrite *w, struct rc_err *err)
{
    const char *tmp = "/tmp"; /* TMPDIR of a user who ran sudo is not to be trusted */
    (void)snprintf(w->stage, sizeof w->stage, "%s/rocmcrash-stage-XXXXXX", tmp);
    if (mkdtemp(w->stage) == NULL) {
        int r = -errno;
        w->stage[0] = '\0';
        return rc_err_errno(err, r, "cannot make a folder in '%s'", tmp);
    }
    start_guard(w);
    RC_AUTO_CLOSE int stage_fd = open(w->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (stage_fd < 0 || lseek(w->fd, 0, SEEK_SET) < 0)
        return rc_err_errno(err, -errno, "cannot open '%s'", w->stage);
    return bundle_unpack_fd(w->fd, stage_fd, err);
}

/* Applies the caller's changes to the stage, and adds the caller's rows to the manifest. */
static int apply(struct rewrite *w, bundle_change_fn change, void *arg, struct rc_err *err)
{
    struct manifest *manifest = manifest_load(w->stage, err);
    if (manifest == NULL)
        return -EBADMSG;
    struct buf text = BUF_INIT;
    int r = manifest_set_name(manifest, w->top);
    if (r == 0)
        r = change(arg, w->stage, manifest, err);
    if (r == 0 && manifest_top(manifest) != NULL)
        (void)snprintf(w->top, sizeof w->top, "%s", manifest_top(manifest));
    if (r == 0)
        r = manifest_render(manifest, w->stage, &text, err);
    if (r == 0) {
        RC_AUTO_CLOSE int fd = open(w->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : fs_write_file_at(fd, MANIFEST_NAME, buf_str(&text), text.len, false);
        if (r < 0)
            (void)rc_err_errno(err, r, "cannot write the manifest");
    }
    buf_release(&text);
    manifest_free(manifest);
    return r;
}

/* Others may write to the folder, too: they cannot take a name that they cannot guess. -errno. */
static int open_temporary(int dir_fd, char *name, size_t size)
{
    int fd = -EEXIST;
    for (unsigned tries = 0; fd == -EEXIST && tries < TEMPORARY_TRIES; tries++) {
        uint64_t number = clock_mono_ns();
        (void)!getrandom(&number, sizeof number, GRND_NONBLOCK);
        (void)snprintf(name, size, ".rocmcrash-%016" PRIx64 ".partial", number);
        fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            fd = -errno;
    }
    return fd;
}

/* Closes `own_fd`, which is the file `temporary`. */
static int write_new(struct rewrite *w, int own_fd, const char *temporary, struct rc_err *err)
{
    RC_AUTO_CLOSE int fd = own_fd;
    RC_AUTO_FREE char *base = NULL;
    char path[sizeof w->stage + 16];
    (void)snprintf(path, sizeof path, "%s/" MANIFEST_NAME, w->stage);
    ssize_t n = fs_read_all(path, BUNDLE_MAX_MANIFEST, &base);
    if (n < 0)
        return rc_err_errno(err, (int)n, "cannot read the manifest");
    struct stage stage;
    int r = stage_open(&stage, w->stage, err);
    if (r < 0)
        return r;
    bool output_failed = false;
    r = archive_stage(&stage, base, w->top, fd, &output_failed, err);
    stage_release(&stage);
    if (r < 0)
        return r;
    /* Set the owner first: fchown() clears no bit that we need, and fchmod() then sets the final
     * mode. */
    if ((w->st.st_uid != geteuid() || w->st.st_gid != getegid()) &&
        fchown(fd, w->st.st_uid, w->st.st_gid) != 0 && geteuid() == 0)
        return rc_err_errno(err, -errno, "cannot give '%s' back to its owner", w->file);
    if (fchmod(fd, w->st.st_mode & w->mode_mask) != 0 || fs_sync(fd) != 0)
        return rc_err_errno(err, -errno, "cannot write '%s'", w->file);
    r = fs_close(rc_take_fd(&fd));
    if (r < 0)
        return rc_err_errno(err, r, "cannot write '%s'", w->file);
    if (renameat(w->dir_fd, temporary, w->dir_fd, w->file) != 0)
        return rc_err_errno(err, -errno, "cannot rename over '%s'", w->file);
    (void)fs_sync(w->dir_fd);
    return 0;
}

static int replace_old(struct rewrite *w, struct rc_err *err)
{
    char temporary[64];
    int fd = open_temporary(w->dir_fd, temporary, sizeof temporary);
    if (fd < 0)
        return rc_err_errno(err, fd, "cannot write beside '%s'", w->file);
    int r = write_new(w, fd, temporary, err);
    if (r < 0)
        (void)unlinkat(w->dir_fd, temporary, 0);
    return r;
}

int bundle_rewrite(const char *path, mode_t mode_mask, bundle_change_fn change, void *arg,
                   struct rc_err *err)
{
    struct rewrite w = {.dir_fd = -1, .fd = -1, .mode_mask = mode_mask};
    int r = open_old(&w, path, err);
    if (r == 0)
        r = bundle_verify_fd(w.fd, err);
    if (r == 0)
        r = read_top(&w, err);
    if (r == 0)
        r = unpack_old(&w, err);
    if (r == 0)
        r = apply(&w, change, arg, err);
    if (r == 0)
        r = replace_old(&w, err);
    if (w.stage[0] != '\0')
        (void)fs_remove_tree(AT_FDCWD, w.stage);
    end_guard(&w);
    if (w.fd >= 0)
        (void)close(w.fd);
    if (w.dir_fd >= 0)
        (void)close(w.dir_fd);
    return r;
}
