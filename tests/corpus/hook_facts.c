/* SPDX-License-Identifier: Apache-2.0 */
/* usage: hook_facts RUN_DIRECTORY START_NS END_NS: the facts that the collector "hook" gives of what
 * the Python hook wrote there, as facts.json. For recordings that know only what PyTorch said. */
#include "collect/collector.h"
#include "diagnose/fact.h"
#include "sink.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

extern const struct collector collector_hook;

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fputs("usage: hook_facts RUN_DIRECTORY START_NS END_NS\n", stderr);
        return 2;
    }
    struct collect_ctx ctx = {.run_dir = argv[1],
                              .start_mono_ns = strtoull(argv[2], NULL, 10),
                              .end_mono_ns = strtoull(argv[3], NULL, 10),
                              .maps = ""};
    struct collect_out *out = sink_new();
    (void)collector_hook.run(&ctx, out);
    cJSON *json = facts_to_json(out->facts);
    char *text = cJSON_Print(json);
    if (text != NULL)
        (void)puts(text);
    free(text);
    cJSON_Delete(json);
    sink_free(out);
    return text != NULL ? 0 : 1;
}
