/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocmcrash-probe hsa [--library PATH] [--rocminfo] | drm [RENDER_NODE]
 *
 * Prints JSON. On failure it prints {"error": "..."}, the same sentence on stderr, and exits with
 * status 1; with 2 for a wrong command line. Dies with its parent.
 */
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/err.h"
#include "probe/probe.h"
#include "probe/rocminfo.h"

#if !defined(PROBE_HAVE_HSA)
cJSON *probe_hsa(const char *library, struct rc_err *err)
{
    (void)library;
    (void)rc_err_set(err, -1, "this rocmcrash-probe was built without the HSA headers");
    return NULL;
}
#endif

static int fail(const char *message)
{
    cJSON *root = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(root, "error", message);
    char *text = cJSON_Print(root);
    if (text != NULL)
        (void)printf("%s\n", text);
    free(text);
    cJSON_Delete(root);
    (void)fprintf(stderr, "rocmcrash-probe: %s\n", message);
    return 1;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: rocmcrash-probe hsa [--library PATH] [--rocminfo]\n"
                          "       rocmcrash-probe drm [RENDER_NODE]\n");
    return 2;
}

static int print(cJSON *root, bool rocminfo, const struct rc_err *err)
{
    if (root == NULL)
        return fail(err->msg);
    if (rocminfo) {
        struct buf out = BUF_INIT;
        rocminfo_text(root, &out);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    } else {
        char *text = cJSON_Print(root);
        if (text != NULL)
            (void)printf("%s\n", text);
        free(text);
    }
    cJSON_Delete(root);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int run_hsa(int argc, char **argv)
{
    const char *library = NULL;
    bool rocminfo = false;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--rocminfo") == 0)
            rocminfo = true;
        else if (strcmp(argv[i], "--library") == 0 && i + 1 < argc)
            library = argv[++i];
        else
            return usage();
    }
    struct rc_err err = {""};
    return print(probe_hsa(library, &err), rocminfo, &err);
}

int main(int argc, char **argv)
{
    struct rlimit core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &core);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The failed program's tools library and debug settings must not affect us. */
    (void)unsetenv("HSA_TOOLS_LIB");
    (void)unsetenv("HIP_LAUNCH_BLOCKING");
    if (argc >= 2 && strcmp(argv[1], "hsa") == 0)
        return run_hsa(argc, argv);
    struct rc_err err = {""};
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "drm") == 0)
        return print(probe_drm(argc == 3 ? argv[2] : NULL, &err), false, &err);
    return usage();
}
