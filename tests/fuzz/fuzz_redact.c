/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the redactor. The first byte chooses: even = a text, with a token put in at a place
 * that the second byte chooses, which must not come out; odd = a file of rules.
 * Built with libFuzzer, or with FUZZ_REPLAY as a program that runs the files of a folder.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/redact.h"

#define TOKEN "hf_q7Zk2Xw9Lr4Tn8Vb1Hd6Js3Gm5Py0CfQeRu"
#define NEW_EVERY 200u /* names are remembered, and would make later inputs slower */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_rules(const uint8_t *data, size_t size)
{
    struct rc_err err = {""};
    struct redactor *r = redactor_new_rules((const char *)data, size, "fuzz", &err);
    struct buf out = BUF_INIT;
    if (r == NULL && err.msg[0] == '\0')
        abort(); /* a refusal says why */
    if (r != NULL && size < 4096)
        (void)redact_text(r, (const char *)data, size, &out);
    buf_release(&out);
    redactor_free(r);
}

static void fuzz_text(const uint8_t *data, size_t size, uint8_t place)
{
    static struct redactor *r;
    static unsigned used;
    struct buf text = BUF_INIT;
    struct buf out = BUF_INIT;
    size_t at = size * place / 255;
    if (memmem(data, size, "q7Zk", 4) != NULL || memmem(data, size, TOKEN + 3, 12) != NULL)
        return; /* a fuzzer that looks at comparisons writes it itself, without its beginning */
    if (r == NULL || ++used % NEW_EVERY == 0) {
        redactor_free(r);
        r = redactor_new();
    }
    buf_append(&text, data, at);
    buf_puts(&text, TOKEN);
    buf_append(&text, data + at, size - at);
    if (r == NULL || redactor_learn(r, text.data, text.len) < 0 ||
        redact_text(r, text.data, text.len, &out) < 0)
        abort();
    if (memmem(buf_str(&out), out.len, TOKEN + 3, 12) != NULL)
        abort();
    buf_release(&text);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1 << 16)
        return 0;
    if (data[0] % 2 == 0)
        fuzz_text(data + 2, size - 2, data[1]);
    else
        fuzz_rules(data + 1, size - 1);
    return 0;
}
