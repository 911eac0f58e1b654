/* SPDX-License-Identifier: Apache-2.0 */
/* `recover`: bundle what is left of runs that nobody finished. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"
#include "cli/job.h"
#include "cli/outcome.h"
#include "cli/verbs.h"
#include "record/rundir.h"

#define RECOVER_MAX 32

struct found {
    int count, more;
    char dirs[RECOVER_MAX][FS_PATH_MAX];
};

static const struct plain_verb verb = {
    .name = "recover", .usage = "recover [--json]",
    .help = "Makes bundles of runs that did not finish: power cut, everything killed."};

static void on_unfinished(void *context, const char *run_dir)
{
    struct found *found = context;
    if (found->count < RECOVER_MAX)
        (void)snprintf(found->dirs[found->count++], FS_PATH_MAX, "%s", run_dir);
    else
        found->more++;
}

/* Returns the exit status of this one. */
static int recover_one(const char *run_dir, bool json)
{
    static const struct job_options options = {
        .finish_within_ms = 5000, .hash_budget_ms = 60000, .cancel_fd = -1};
    struct outcome outcome;
    struct rc_err err = {""};
    char path[FS_PATH_MAX];
    outcome_begin(&outcome, verb.name, json);
    outcome_text(&outcome, "run", run_dir);
    int r = job_run(run_dir, NULL, &options, path, sizeof path, &err);
    if (r == 0)
        outcome_bundle(&outcome, path);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, NULL, &err);
}

int verb_recover(int argc, char *argv[])
{
    static struct found found;
    struct rc_err err = {""};
    bool json = false;
    int worst = plain_verb_parse(&verb, argc, argv, &json, NULL);
    if (worst != OUTCOME_GOES_ON)
        return worst;
    (void)umask(077);
    if (rundir_unfinished(on_unfinished, &found, &err) < 0) {
        verb_complain(NULL, &err);
        return VERB_EXIT_FAILED;
    }
    if (found.count == 0 && !json)
        (void)printf("rocmcrash: every run is finished\n");
    worst = VERB_EXIT_OK;
    for (int i = 0; i < found.count; i++) {
        int status = recover_one(found.dirs[i], json);
        worst = status > worst ? status : worst;
    }
    if (found.more > 0)
        (void)fprintf(json ? stderr : stdout,
                      "rocmcrash: %d more unfinished runs remain; call 'rocmcrash recover' again\n",
                      found.more);
    return worst;
}
