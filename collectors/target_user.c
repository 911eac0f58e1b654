/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/target_user.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fs.h"
#include "collectors/machine.h"

#define STATUS_SIZE 8192
#define GROUPS_MAX 256 /* of the target: without the others we have fewer rights, not more */
#define OWN_GROUPS_MAX 65536

struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    size_t group_count;
};

static struct {
    bool active;
    gid_t *groups; /* our own */
    int group_count;
} saved;

/* The numbers behind a name of /proc/PID/status, at most `max`. */
static size_t numbers(const char *status, const char *name, unsigned *out, size_t max)
{
    const char *p = strstr(status, name);
    size_t count = 0;
    if (p == NULL)
        return 0;
    for (p += strlen(name); count < max; count++) {
        char *end = NULL;
        p += strspn(p, " \t");
        if (*p < '0' || *p > '9')
            break;
        out[count] = (unsigned)strtoul(p, &end, 10);
        p = end;
    }
    return count;
}

/* A program that gains root (real user 1000, effective user 0) was started with the paths of user 1000. */
static bool parse_user(const char *status, struct user *ret)
{
    unsigned uids[4];
    unsigned gids[4];
    size_t i = 0;
    if (numbers(status, "\nUid:", uids, 4) != 4 || numbers(status, "\nGid:", gids, 4) != 4)
        return false;
    while (i < 3 && uids[i] == 0)
        i++;
    ret->uid = uids[i];
    ret->gid = gids[i];
    ret->group_count = numbers(status, "\nGroups:", ret->groups, GROUPS_MAX);
    return true;
}

static bool find_user(const struct collect_ctx *ctx, struct user *ret)
{
    char status[STATUS_SIZE];
    char path[64];
    int64_t pid = ctx->failed_pid > 0 ? ctx->failed_pid : ctx->target_pid;
    if (impact_text(ctx, CHUNK_STATUS, status, sizeof status) > 0 && parse_user(status, ret))
        return true;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/status", pid);
    return pid > 0 && fs_read_text(path, status, sizeof status) > 0 && parse_user(status, ret);
}

static int save_groups(void)
{
    gid_t *groups = malloc(OWN_GROUPS_MAX * sizeof groups[0]);
    int count = groups != NULL ? getgroups(OWN_GROUPS_MAX, groups) : -1;
    if (count < 0) {
        int error = groups != NULL ? errno : ENOMEM;
        free(groups);
        return -error;
    }
    saved.groups = groups;
    saved.group_count = count;
    return 0;
}

/* setfsuid() does not report a failure, and the kernel forgets the signal for our parent's death. */
static bool change(uid_t uid, gid_t gid)
{
    int death = 0;
    pid_t parent = getppid();
    (void)prctl(PR_GET_PDEATHSIG, &death);
    (void)setfsgid(gid);
    (void)setfsuid(uid);
    if (death != 0) {
        (void)prctl(PR_SET_PDEATHSIG, death);
        if (getppid() != parent)
            (void)raise(death);
    }
    return setfsuid((uid_t)-1) == (int)uid && setfsgid((gid_t)-1) == (int)gid;
}

int target_user_begin(const struct collect_ctx *ctx)
{
    struct user user = {0};
    if (geteuid() != 0 || saved.active || !find_user(ctx, &user) || user.uid == 0)
        return 0;
    int r = save_groups();
    if (r < 0)
        return r;
    saved.active = true;
    if (setgroups(user.group_count, user.groups) != 0)
        r = -errno;
    else if (!change(user.uid, user.gid))
        r = -EPERM;
    if (r < 0)
        target_user_end();
    return r;
}

void target_user_end(void)
{
    if (!saved.active)
        return;
    (void)change(geteuid(), getegid());
    (void)setgroups((size_t)saved.group_count, saved.groups);
    free(saved.groups);
    saved.groups = NULL;
    saved.active = false;
}

enum collect_status target_user_refused(struct collect_out *out, int error)
{
    return collect_reason(out, COLLECT_FAILED, "root cannot read with the rights of the process's user: %s",
                          strerror(-error));
}
