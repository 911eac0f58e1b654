/* SPDX-License-Identifier: Apache-2.0 */
/* A hexadecimal dump of memory that holds a secret: its digits and its letters are hidden, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "bundle/redact.h"
#include "redact_help.h"

#define ROW 16u

/* How a program writes one line of a dump. */
struct style {
    const char *name, *before, *address; /* the address is written with the offset */
    unsigned group;                      /* bytes */
    const char *digits, *between, *bar;  /* no bar = no letters */
    bool gap;                            /* one more blank in the middle */
};
static const struct style styles[] = {
    {"hexdump -C", "", "%08zx  ", 1, "%02x", " ", "|", true},
    {"xxd", "", "%08zx: ", 2, "%02x", " ", "", false},
    {"the kernel", "[  412.1182] amdgpu: ", "%08zx: ", 1, "%02x", " ", "", false},
    {"gdb", "", "0x7ffd%04zx:\t", 1, "0x%02x", "\t", NULL, false},
    {"indented", "    ", "%04zx ", 1, "%02X", " ", "", false},
    {"no address", "", "", 1, "%02x", " ", " ", false},
};

static void put_row(struct buf *out, const struct style *style, const char *p, size_t at, size_t n)
{
    buf_puts(out, style->before);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (style->address[0] != '\0')
        buf_printf(out, style->address, at);
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i == 0 || i % style->group > 0 ? "" : style->between);
        buf_puts(out, style->gap && i == ROW / 2 ? " " : "");
        buf_printf(out, style->digits, (unsigned char)p[at + i]);
    }
#pragma GCC diagnostic pop
    buf_puts(out, style->bar != NULL ? "  " : "");
    buf_puts(out, style->bar != NULL ? style->bar : "");
    for (size_t i = 0; i < n && style->bar != NULL; i++)
        buf_putc(out, p[at + i] >= ' ' && p[at + i] < 0x7f ? p[at + i] : '.');
    buf_puts(out, style->bar != NULL ? style->bar : "");
    buf_putc(out, '\n');
}

static void put_dump(struct buf *out, const struct style *style, const char *p, size_t len)
{
    for (size_t at = 0; at < len; at += ROW)
        put_row(out, style, p, at, len - at < ROW ? len - at : ROW);
}

#define SECRET "hunterQx" "kvwmTzLbXc" "RnPdSgHyJf"

/* The whole memory is dumped; what stands before and after the secret stays. */
static void test_secret_in_lines(void **state)
{
    static const char memory[] = "\x7f" "ELF\1\2\3\4xXSHELL=/bin/sh\0DB_PASSWORD=" SECRET "\0LANG=C.UTF-8\0\xc0\xff\xee\0\1\2\3";
    (void)state;
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        struct buf text = BUF_INIT;
        put_dump(&text, &styles[i], memory, sizeof memory);
        struct redactor *r = new_redactor();
        RC_AUTO_FREE char *out = redacted(r, buf_str(&text));
        RC_AUTO_FREE char *again = redacted(r, out);
        /* "hunt" and "SgHy" as digits and as letters. */
        static const char *const gone[] = {"68 75 6e", "6875 6e", "0x68\t0x75", "53 67 48", "5367", "0x67\t0x48", "hunt", "Qxkvw", "SgHyJ"};
        for (size_t k = 0; k < sizeof gone / sizeof gone[0]; k++)
            if (strcasestr(out, gone[k]) != NULL)
                fail_msg("%s: '%s' is left:\n%s\nof\n%s", styles[i].name, gone[k], out, buf_str(&text));
        /* The first and the last line have nothing of it. */
        const char *line = strchr(buf_str(&text), '\n');
        assert_memory_equal(out, buf_str(&text), (size_t)(line - buf_str(&text)));
        assert_non_null(strstr(out, "<secret:named>"));
        assert_string_equal(again, out);
        redactor_free(r);
        buf_release(&text);
    }
}

/* An address of mail and a home are hidden in the bytes, too. */
static void test_mail_in_lines(void **state)
{
    static const char memory[] = "\1\2from: vera.kettledrum@quern-orsini.example\n/home/kettledrum/run.py\0\3\4\5\6\7";
    (void)state;
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        struct buf text = BUF_INIT;
        put_dump(&text, &styles[i], memory, sizeof memory);
        struct redactor *r = new_redactor();
        RC_AUTO_FREE char *out = redacted(r, buf_str(&text));
        static const char *const gone[] = {"76 65 72 61", "7665 7261", "0x76\t0x65", "vera", "drum"};
        for (size_t k = 0; k < sizeof gone / sizeof gone[0]; k++)
            if (strstr(out, gone[k]) != NULL)
                fail_msg("%s: '%s' is left:\n%s\nof\n%s", styles[i].name, gone[k], out, buf_str(&text));
        redactor_free(r);
        buf_release(&text);
    }
}

/* A secret in a dump is learned, and hidden where it stands as text. */
static void test_learned(void **state)
{
    static const char memory[] = "PAGER=less\0DB_PASSWORD=" SECRET "\0LANG=C";
    struct buf text = BUF_INIT;
    (void)state;
    put_dump(&text, &styles[0], memory, sizeof memory);
    struct redactor *r = new_redactor();
    assert_int_equal(redactor_learn(r, buf_str(&text), text.len), 0);
    RC_AUTO_FREE char *out = redacted(r, "read " SECRET " twice\n");
    assert_ptr_equal(strstr(out, "read <secret:"), out);
    redactor_free(r);
    buf_release(&text);
}

/* Code, weights and numbers are no secret, however they are written. */
static void test_others_stay(void **state)
{
    static const char *const texts[] = {
        "00000040: 746f 6b65 6e5f 656d 6264 2e77 6569 6768  token_embd.weigh\n00000050: 7400 0000 0000 0000  t.......\n",
        "Code: 48 89 e5 0f 1f 40 00 c3 66 2e 0f 1f 84 00 00 00 00 00 55 48 89 e5 41 57\n",
        "0x7fffffffe0a0:\t0x48\t0x89\t0xe5\t0x0f\t0x1f\t0x40\t0x00\t0xc3\n0x7fffffffe0a8:\t0x55\n",
        "00000000  7f 45 4c 46 02 01 01 40  03 00 00 00 00 00 00 00  |.ELF...@........|\n*\n00000040\n",
        "10 20 30 40 50 60 70 80 90\n12 34 rows\n",
        "00000000  40 61 40 2e 62 40 01 2e  63 40 64 00 00 00 00 00  |@a@.b@..c@d.....|\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct redactor *r = new_redactor();
        RC_AUTO_FREE char *out = redacted(r, texts[i]);
        assert_string_equal(out, texts[i]);
        redactor_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret_in_lines),
        cmocka_unit_test(test_mail_in_lines),
        cmocka_unit_test(test_learned),
        cmocka_unit_test(test_others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
