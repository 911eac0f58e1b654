/* SPDX-License-Identifier: Apache-2.0 */
/* A key or an address ends with its line: the next line is its rest, or a line of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bundle/redact.h"
#include "redact_help.h"

#define HF "hf_a1Bc3De5Fg7Hi9Jk2Lm4No6Pq8Rs1Tu3Vw"

/* Lines may have each width that a screen has, and others. */
static const int widths[] = {79, 80, 93, 100, 120, 132, 150};
#define WIDTHS (sizeof widths / sizeof widths[0])

/* "loading of the shard ..... TAIL", as wide as asked. */
static void put_line(char *out, size_t size, int width, const char *tail)
{
    static const char head[] = "loading of the shard ";
    int dots = width - (int)sizeof head - (int)strlen(tail);
    (void)snprintf(out, size, "%s%.*s %s", head, dots > 0 ? dots : 0,
                   "...................................................................................................."
                   "....................................................................................................",
                   tail);
}

/* The line below stays, letter by letter. */
static void test_the_next_line_stays(void **state)
{
    static const char *const tails[] = {
        "api_key=9d1b4f7a2c8e5d0f6b3a9c7e1d4f8b2ae8f1", "owner=jane.doe@example.org", HF, "password=aB3xY9mQ2zLw",
        "Authorization: Bearer x9Yz8Wv7Ut6Sr5Qp4On3Ml2Kj1Ih0Gf9Ed8C", "user_id=6f1c2b7e-93aa-4d5c-8e21-0b7d5a9c3f44",
    };
    static const char *const nexts[] = {
        "HIP out of memory. Tried to allocate 2.00 GiB", "Aborted (core dumped)", "Killed", "SIGSEGV", "GPU 0 hang",
        "INFO 11-24 10:02:11 executor.py:57] # GPU blocks: 1234, # CPU blocks: 5678", "INFO checkpoint shard 3 written in 0.1234 s",
        "0 1 2 tokens", "E1124 failed", "4096 MiB free", "12.5GiB free", "0x7f3a2c00 in ?? ()", "gfx1100 hang", "137",
        "MI300X out of memory", "2026-11-24T10:02:11Z fatal", "hipErrorOutOfMemory", "rank0 died", "Abgebrochen", "Erreur",
        "libamdhip64.so.6 missing", "4ad159b6 docs: more", "3.0e-04 3.1e-04", "Float8_e4m3fn unsupported", "i9-14900K detected",
    };
    (void)state;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        for (size_t k = 0; k < sizeof nexts / sizeof nexts[0]; k++) {
            char line[600], text[1000], wanted[200];
            put_line(line, sizeof line, widths[(i + k) % WIDTHS], tails[i]);
            (void)snprintf(text, sizeof text, "step 1\n%s\n%s\nstep 2\n", line, nexts[k]);
            (void)snprintf(wanted, sizeof wanted, "\n%s\nstep 2\n", nexts[k]);
            struct redactor *r = new_redactor();
            RC_AUTO_FREE char *out = redacted(r, text);
            if (strstr(out, wanted) == NULL || strstr(out, tails[i]) != NULL)
                fail_msg("'%s' became '%s'", text, out);
            redactor_free(r);
        }
}

/* Cuts a line with the key at the width. No piece with more than nine bytes may be seen. */
static void check_cut(const char *key, int width, size_t cut, const char *behind)
{
    char line[600], text[1200];
    char first[200];
    (void)snprintf(first, sizeof first, "%.*s", (int)cut, key);
    put_line(line, sizeof line, width, first);
    (void)snprintf(text, sizeof text, "step 1\n%s\n%s%s\nstep 2 of 20\n", line, key + cut, behind);
    struct redactor *r = new_redactor();
    RC_AUTO_FREE char *out = redacted(r, text);
    if (strstr(out, key + cut) != NULL || strstr(out, first) != NULL || strstr(out, "\nstep 2 of 20\n") == NULL ||
        strstr(out, behind) == NULL)
        fail_msg("'%s' became '%s'", text, out);
    redactor_free(r);
}

static void test_the_rest_of_a_key_is_hidden(void **state)
{
    static const char named[] = "api_key=x9Yz8Wv7Ut6Sr5Qp4On3Ml2Kj1Ih0Gf9Ed8C";
    static const char *const behind[] = {"", "') and nothing else", " and nothing else"};
    (void)state;
    for (size_t i = 0; i < WIDTHS; i++)
        for (size_t cut = 12; cut < 30; cut++) {
            /* Its length says that the rest is missing, whatever the width is. */
            check_cut(HF, widths[i], cut, behind[cut % 3]);
            bool of_screen = widths[i] != 93 && widths[i] != 150;
            if (of_screen)
                check_cut(named, widths[i], cut, behind[cut % 3]);
        }
}

/* Two lines are as wide as each other, and no other is wider: that was a screen of 97 columns. */
static void test_lines_of_one_width(void **state)
{
    static const char key[] = "sk-proj-q2Ws4Ed6Rf8Tg1Yh3Uj5Ik7Ol9Pa2Sd4Fg6Hj";
    char a[600], b[600], text[1400];
    (void)state;
    put_line(a, sizeof a, 97, "of the model");
    put_line(b, sizeof b, 97, "sk-proj-q2Ws4Ed6Rf8Tg1Yh3Uj5");
    (void)snprintf(text, sizeof text, "%s\n%s\n%s was refused\n", a, b, key + 28);
    struct redactor *r = new_redactor();
    RC_AUTO_FREE char *out = redacted(r, text);
    assert_null(strstr(out, "Ik7Ol9Pa2Sd4"));
    assert_non_null(strstr(out, " was refused\n"));
    redactor_free(r);
}

/* An address that lacks the end of its domain goes on, a path too. */
static void test_words_are_cut(void **state)
{
    static const struct {
        const char *tail, *next, *hidden;
    } rows[] = {
        {"owner=jane.doe@wendelhuus", ".example.org was told\n", "wendelhuus"},
        {"cwd=/home/mar", "lowexbert/run failed\n", "lowexbert"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[600], text[800];
        put_line(line, sizeof line, 80, rows[i].tail);
        (void)snprintf(text, sizeof text, "%s\n%s", line, rows[i].next);
        struct redactor *r = new_redactor();
        RC_AUTO_FREE char *out = redacted(r, text);
        if (strstr(out, rows[i].hidden) != NULL)
            fail_msg("'%s' became '%s'", text, out);
        redactor_free(r);
    }
}

/* A key that ends before the border of its box was not cut. */
static void test_a_box(void **state)
{
    static const char next[] = "\xe2\x94\x82 HIP out of memory                        \xe2\x94\x82\n";
    char text[400];
    (void)state;
    (void)snprintf(text, sizeof text, "\xe2\x94\x82 %s    \xe2\x94\x82\n%s", HF, next);
    struct redactor *r = new_redactor();
    RC_AUTO_FREE char *out = redacted(r, text);
    assert_non_null(strstr(out, next));
    assert_null(strstr(out, HF));
    redactor_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_line_stays), cmocka_unit_test(test_the_rest_of_a_key_is_hidden),
        cmocka_unit_test(test_lines_of_one_width),  cmocka_unit_test(test_words_are_cut),
        cmocka_unit_test(test_a_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
