/* SPDX-License-Identifier: Apache-2.0 */
#include "redact_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bundle/redact.h"

static uint64_t seed;

struct redactor *new_redactor(void)
{
    struct redactor *r = redactor_new();
    assert_non_null(r);
    assert_int_equal(redactor_add(r, REDACT_HOME, "/scratch/people/marlowe/"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "marlowe"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "jdo"), 0);
    assert_int_equal(redactor_add(r, REDACT_HOST, "thorin7"), 0);
    return r;
}

char *redacted(struct redactor *r, const char *text)
{
    struct buf out = BUF_INIT;
    assert_int_equal(redact_text(r, text, strlen(text), &out), 0);
    return out.data != NULL ? out.data : strdup("");
}

void random_seed(uint64_t value)
{
    seed = value | 1;
}

void random_begin(void)
{
    const char *given = getenv("REDACT_SEED");
    random_seed(given != NULL ? strtoull(given, NULL, 10) : 0x9e3779b97f4a7c15u);
    print_message("REDACT_SEED=%llu\n", (unsigned long long)seed);
}

uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 8;
}
