/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the manifest of a stranger's bundle that is changed (complete, redact, rerun): read,
 * added to, redacted, written; what is written is read again. */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "bundle/internal.h"
#include "bundle/redact.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void change(struct manifest *manifest)
{
    struct rc_err err = {""};
    struct buf out = BUF_INIT;
    struct redactor *r = redactor_new();
    manifest_forget_item(manifest, "kernel_log");
    if (r == NULL ||
        manifest_add_item(manifest, "kernel_log", COLLECT_PARTIAL, "no \"right\"", 12) < 0 ||
        manifest_redact(manifest, r) < 0)
        abort();
    (void)manifest_name(manifest);
    if (manifest_render(manifest, pieces_folder(), &out, &err) == 0) {
        cJSON *back = cJSON_Parse(buf_str(&out));
        if (back == NULL)
            abort();
        cJSON_Delete(back);
    } else if (err.msg[0] == '\0') {
        abort();
    }
    redactor_free(r);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {MANIFEST_NAME, "SUMMARY.md", "x/y.json"};
    struct rc_err err = {""};
    pieces_fill(names, sizeof names / sizeof names[0], data, size);
    struct manifest *manifest = manifest_load(pieces_folder(), &err);
    if (manifest == NULL && err.msg[0] == '\0')
        abort();
    if (manifest != NULL)
        change(manifest);
    manifest_free(manifest);
    return 0;
}
