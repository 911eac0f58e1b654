/* SPDX-License-Identifier: Apache-2.0 */
/* `recover`: bundle what is left of runs that nobody finished. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "cli/job.h"
#include "cli/verbs.h"
#include "record/rundir.h"

#define RECOVER_MAX 32

struct found {
    int count, more;
    char dirs[RECOVER_MAX][FS_PATH_MAX];
};

static void on_unfinished(void *context, const char *run_dir)
{
    struct found *found = context;
    if (found->count < RECOVER_MAX)
        (void)snprintf(found->dirs[found->count++], FS_PATH_MAX, "%s", run_dir);
    else
        found->more++;
}

int verb_recover(int argc, char *argv[])
{
    static struct found found;
    static const struct job_options options = {
        .finish_within_ms = 5000, .hash_budget_ms = 60000, .cancel_fd = -1};
    struct rc_err err = {""};
    int failed = 0;
    (void)argv;
    if (argc > 0) {
        (void)fprintf(stderr, "rocmcrash: usage: rocmcrash recover\n");
        return VERB_EXIT_USAGE;
    }
    (void)umask(077);
    if (rundir_unfinished(on_unfinished, &found, &err) < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return VERB_EXIT_FAILED;
    }
    if (found.count == 0)
        (void)printf("rocmcrash: every run is finished\n");
    for (int i = 0; i < found.count; i++) {
        char path[FS_PATH_MAX];
        if (job_run(found.dirs[i], NULL, &options, path, sizeof path, &err) < 0) {
            (void)say_line(stderr, "rocmcrash: %s", err.msg);
            failed++;
        }
    }
    if (found.more > 0)
        (void)printf("rocmcrash: %d more unfinished runs remain; call 'rocmcrash recover' again\n",
                     found.more);
    return failed > 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
