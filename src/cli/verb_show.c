/* SPDX-License-Identifier: Apache-2.0 */
/* `show BUNDLE` and `verify BUNDLE`: the bundle may be a stranger's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "cli/verbs.h"

#define SUMMARY_MAX (4u << 20)

static const char *one_bundle(int argc, char *argv[], const char *verb)
{
    if (argc == 1 && argv[0][0] != '-')
        return argv[0];
    (void)fprintf(stderr, "rocmcrash: usage: rocmcrash %s BUNDLE\n", verb);
    return NULL;
}

int verb_show(int argc, char *argv[])
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = NULL;
    const char *path = one_bundle(argc, argv, "show");
    if (path == NULL)
        return VERB_EXIT_USAGE;
    ssize_t len = bundle_read_file(path, "SUMMARY.md", SUMMARY_MAX, &text, &err);
    if (len < 0) {
        verb_complain(path, &err);
        return VERB_EXIT_FAILED;
    }
    struct buf clean = BUF_INIT;
    bundle_sanitize_text(&clean, text, (size_t)len);
    bool ok = fputs(buf_str(&clean), stdout) >= 0 && fflush(stdout) == 0;
    buf_release(&clean);
    return ok ? VERB_EXIT_OK : VERB_EXIT_FAILED;
}

int verb_verify(int argc, char *argv[])
{
    struct rc_err err = {""};
    const char *path = one_bundle(argc, argv, "verify");
    if (path == NULL)
        return VERB_EXIT_USAGE;
    int r = bundle_verify(path, &err);
    if (r == 0) {
        (void)printf("%s: good\n", path);
        return VERB_EXIT_OK;
    }
    verb_complain(path, &err);
    return r == -EBADMSG ? VERB_EXIT_BAD : VERB_EXIT_FAILED;
}
