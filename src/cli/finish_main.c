/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-finish: makes bundles and works on them. Started by rocmcrash when there is something
 * to bundle, and for every verb; has the libraries that the small program beside the target does
 * without.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/loader_variables.h"
#include "base/say.h"
#include "base/say_in_time.h"
#include "bundle/bundle.h"
#include "cli/memory_watch.h"
#include "cli/trace_split.h"
#include "cli/verbs.h"

#define STACK_BYTES ((size_t)1 << 20)
#define VERBS_OF_A_RUN 3
#define WAIT_FOR_ROOM_MS 5000 /* of the terminal; the verdict is in the bundle, too */

static const struct {
    const char *name;
    int (*run)(int argc, char *argv[]);
} verbs[] = {
    {"run", verb_run},           {"record", verb_record},           {"ended", verb_ended},           {"recover", verb_recover},
    {"show", verb_show},         {"open", verb_open},               {"verify", verb_verify},
    {"triage", verb_triage},     {"complete", verb_complete},       {"collectors", verb_collectors},
    {"doctor", verb_doctor},     {"issue", verb_issue},
    {"reveal", verb_reveal},         {"try", verb_try},               {"fit", verb_fit},
    {"rerun", verb_rerun},       {"trace-split", verb_trace_split}, {"diff", verb_diff},
    {"fleet", verb_fleet},
    {"redact", verb_redact},     {"export", verb_export},
    {"config", verb_config},     {"stacks", verb_stacks},     {"release", verb_release},     {"list", verb_list},               {"version", verb_version},   {"failed", verb_failed},
};

void verb_complain(const char *path, const struct rc_err *err)
{
    if (err->msg[0] == '\0') /* stdout failed: main() says why */
        return;
    if (path == NULL || strstr(err->msg, path) != NULL)
        (void)say_line(stderr, "rocmcrash: %s", err->msg);
    else
        (void)say_line(stderr, "rocmcrash: '%s': %s", path, err->msg);
}

void verb_say_damage(const char *path, const struct rc_err *damage)
{
    if (damage->msg[0] != '\0')
        (void)say_line(stderr, "rocmcrash: '%s' is damaged, only what could be read is used: %s", path, damage->msg);
}

void verb_tell_damage(const char *path)
{
    struct rc_err err = {""};
    if (bundle_verify(path, &err) == -EBADMSG)
        verb_say_damage(path, &err);
}

static bool child_signal_was_ignored;

void verb_put_back_child_signal(void)
{
    if (child_signal_was_ignored)
        (void)signal(SIGCHLD, SIG_IGN);
}

struct call {
    int argc, status;
    char **argv;
};

static void *run_verb(void *argument)
{
    struct call *call = argument;
    for (size_t i = 0; call->argc > 1 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(call->argv[1], verbs[i].name) != 0)
            continue;
        call->status = verbs[i].run(call->argc - 2, call->argv + 2);
        return NULL;
    }
    (void)fprintf(stderr, "rocmcrash-finish: this program is started by rocmcrash\n");
    call->status = VERB_EXIT_USAGE;
    return NULL;
}

/* If the limit (ulimit -Hs) leaves the first thread too small a stack, the work is done by a thread
 * with a stack of its own. */
static bool run_on_own_stack(struct call *call)
{
    struct rlimit limit;
    pthread_attr_t attributes;
    pthread_t thread;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES ||
        pthread_attr_init(&attributes) != 0)
        return false;
    bool started = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
                   pthread_create(&thread, &attributes, run_verb, call) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started && pthread_join(thread, NULL) == 0;
}

/* A finisher of a run prints where the program printed. Its bundle counts, not its last lines. These verbs come first. */
static bool is_of_a_run(int argc, char *argv[])
{
    for (size_t i = 0; argc > 1 && i < VERBS_OF_A_RUN; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return true;
    return false;
}

int main(int argc, char *argv[])
{
    struct call call = {.argc = argc, .argv = argv};
    child_signal_was_ignored = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
    loader_variables_put_back();
    memory_watch_start();
    if (is_of_a_run(argc, argv)) {
        say_in_time(&stdout, WAIT_FOR_ROOM_MS);
        say_in_time(&stderr, WAIT_FOR_ROOM_MS);
    }
    if (!run_on_own_stack(&call))
        (void)run_verb(&call);
    if (!is_of_a_run(argc, argv) && say_end() < 0 && call.status < VERB_EXIT_FAILED)
        return VERB_EXIT_FAILED;
    return call.status;
}
