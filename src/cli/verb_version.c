/* SPDX-License-Identifier: Apache-2.0 */
/* `version`: the lines of rocmcrash --version that are about this program's libraries. */
#include <cjson/cJSON.h>
#include <gnu/libc-version.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/verbs.h"

int verb_version(int argc, char *argv[])
{
    struct buf line = BUF_INIT;
    (void)argc;
    (void)argv;
    bundle_libraries(&line);
    (void)say_line(stdout, "libraries: %s, cJSON %s, glibc %s", buf_str(&line), cJSON_Version(),
                 gnu_get_libc_version());
    buf_release(&line);
    return fflush(stdout) == 0 ? VERB_EXIT_OK : VERB_EXIT_FAILED;
}
