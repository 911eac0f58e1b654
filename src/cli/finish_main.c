/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-finish: makes bundles and works on them. Started by rocmcrash when there is something
 * to bundle, and for every verb; has the libraries that the small program beside the target does
 * without.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/memory_watch.h"
#include "cli/trace_split.h"
#include "cli/verbs.h"

static const struct {
    const char *name;
    int (*run)(int argc, char *argv[]);
} verbs[] = {
    {"run", verb_run},           {"record", verb_record},           {"recover", verb_recover},
    {"show", verb_show},         {"open", verb_open},               {"verify", verb_verify},
    {"triage", verb_triage},     {"complete", verb_complete},       {"collectors", verb_collectors},
    {"doctor", verb_doctor},     {"issue", verb_issue},
    {"reveal", verb_reveal},
    {"rerun", verb_rerun},       {"trace-split", verb_trace_split}, {"diff", verb_diff},
    {"redact", verb_redact},     {"export", verb_export},
    {"config", verb_config},     {"stacks", verb_stacks},     {"list", verb_list},               {"version", verb_version},
};

void verb_complain(const char *path, const struct rc_err *err)
{
    if (path == NULL || strstr(err->msg, path) != NULL)
        (void)say_line(stderr, "rocmcrash: %s", err->msg);
    else
        (void)say_line(stderr, "rocmcrash: '%s': %s", path, err->msg);
}

void verb_tell_damage(const char *path)
{
    struct rc_err err = {""};
    if (bundle_verify(path, &err) == -EBADMSG)
        (void)say_line(stderr, "rocmcrash: '%s' is damaged, only what could be read is used: %s", path,
                       err.msg);
}

int main(int argc, char *argv[])
{
    memory_watch_start();
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 2, argv + 2);
    (void)fprintf(stderr, "rocmcrash-finish: this program is started by rocmcrash\n");
    return VERB_EXIT_USAGE;
}
