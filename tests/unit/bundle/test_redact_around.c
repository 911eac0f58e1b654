/* SPDX-License-Identifier: Apache-2.0 */
/* Names from the machine that identify the place of a run are hidden, whatever their form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bundle/redact.h"
#include "bundle/redact_internal.h"
#include "redact_help.h"

/* A path below a folder of the cluster, and the name of the working folder itself. */
static void test_place(void **state)
{
    static const char *const rows[][2] = {
        {"/fast/heartofgold/src/magrathea/x.py: 3", "/fast/<project1>/src/<project2>/x.py: 3"},
        {"cwd /fast/heartofgold", "cwd /fast/<project1>"},
        {"cwd=/fast/heartofgold\"", "cwd=/fast/<project1>\""},
        {"file:///fast/vogons/x -I/fast/vogons/include/x.h",
         "file:///fast/<project1>/x -I/fast/<project1>/include/x.h"},
        {"/opt/conda/envs/milliways/lib/x.so /opt/conda/envs/milliways",
         "/opt/conda/envs/<project1>/lib/x.so /opt/conda/envs/<project1>"},
        {"/opt/rocm/lib/libx.so /opt/attention/x", "/opt/rocm/lib/libx.so /opt/attention/x"},
        {"http://h/fast/beams/x /notfast/beams/x /fastest/beams/x",
         "http://h/fast/beams/x /notfast/beams/x /fastest/beams/x"},
        {"/fast/checkpoints/rocm-6.2/lib/gcc-12.3.0/x", "/fast/checkpoints/rocm-6.2/lib/gcc-12.3.0/x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        assert_non_null(r);
        assert_int_equal(redact_add_place(r, "/fast/heartofgold/"), 0);
        assert_int_equal(redact_add_place(r, "/opt/conda/envs/milliways"), 0);
        assert_int_equal(redact_add_place(r, "/usr"), 0);
        assert_int_equal(redact_add_place(r, "relative/x"), 0);
        assert_int_equal(redact_add_place(r, "/"), 0);
        assert_int_equal(redact_add_place(r, "//x"), 0);
        assert_int_equal(redact_add_place(r, "/./x"), 0);
        assert_int_equal(redact_add_place(r, NULL), 0);
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

/* A program that lies beside the working folder has the names of the folders above it: hidden in one, hidden in both. */
static void test_above(void **state)
{
    static const char *const rows[][2] = {
        {"/fast/heartofgold/magrathea/x /fast/heartofgold/beams/y.py", "/fast/<project1>/<project2>/x /fast/<project1>/<project3>/y.py"},
        {"/fast/heartofgold/y.py", "/fast/<project1>/y.py"},
        {"/fast/beams/x", "/fast/beams/x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        assert_non_null(r);
        assert_int_equal(redact_add_above(r, "/fast/heartofgold/magrathea/src"), 0);
        assert_int_equal(redact_add_above(r, "/fast"), 0);
        assert_int_equal(redact_add_above(r, "/opt/conda"), 0);
        assert_int_equal(redact_add_above(r, NULL), 0);
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

static void test_homes(void **state)
{
    struct redactor *r = redactor_new();
    (void)state;
    assert_non_null(r);
    assert_int_equal(redact_add_homes(r, "/people/z"), 0);
    assert_int_equal(redact_add_homes(r, "/opt"), 0);
    RC_AUTO_FREE char *out =
        redacted(r, "/people/z/trillian/vogons/x /people/z/ /people/z/models/x /people/zz/y/x");
    assert_string_equal(out, "<home1>/<project1>/x /people/z/ /people/z/models/x /people/zz/y/x");
    redactor_free(r);
}

/* A table's longest line ends with a path and the next line begins with one: that is not one wrapped path. */
static void test_table_of_mounts(void **state)
{
    struct redactor *r = redactor_new();
    (void)state;
    assert_non_null(r);
    RC_AUTO_FREE char *out = redacted(r, "filer7:/vol/heartofgold/ckpt  nfs4  92T   88T  4.1T  96% /mnt/heartofgold\n"
                                         "/dev/nvme0n1p2  ext4  879G  611G  224G  74% /\n");
    assert_non_null(strstr(out, "\n/dev/nvme0n1p2  ext4"));
    assert_null(strstr(out, "heartofgold"));
    redactor_free(r);
}

/* A program's JSON in which every character is escaped. */
static void test_escaped_characters(void **state)
{
    static const char token[] = "ghp_ABCDEFGHijklmnopQRSTUVWX1234567890ab";
    static const char *const forms[] = {"\\u00", "\\x", "%"};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct redactor *r = redactor_new();
        assert_non_null(r);
        char text[512] = "{\"key\": \"";
        for (const char *c = token; *c != '\0'; c++)
            (void)snprintf(text + strlen(text), 16, "%s%02x", forms[i], (unsigned)*c);
        (void)snprintf(text + strlen(text), 16, "\", \"n\": 1}");
        RC_AUTO_FREE char *out = redacted(r, text);
        if (strchr(out, '<') == NULL || strstr(out, "31") != NULL || strstr(out, "\", \"n\": 1}") == NULL)
            fail_msg("form %zu: %s", i, out);
        redactor_free(r);
    }
}

/* A reader of the page sees the whole token and can copy it. */
static void test_invisible_characters(void **state)
{
    static const char *const hidden[] = {"\xe2\x80\x8b", "\xe1\xa0\x8e", "\xe1\x85\x9f", "\xe3\x85\xa4", "\x01", "\b",
                                         "\x7f", "\xf3\xa0\x81\x81", "\xc2\xad", "\xe2\x80\xae", "\xc2\x85", "\xef\xbb\xbf"};
    (void)state;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        struct redactor *r = redactor_new();
        assert_non_null(r);
        char text[200];
        (void)snprintf(text, sizeof text, "login failed for ghp_ABCDEFGH%sijklmnopQRSTUVWX1234567890ab, try again", hidden[i]);
        RC_AUTO_FREE char *out = redacted(r, text);
        if (strstr(out, "ABCDEFGH") != NULL || strstr(out, "1234567890") != NULL || strstr(out, ", try again") == NULL)
            fail_msg("character %zu: %s", i, out);
        redactor_free(r);
    }
}

static void test_keep(void **state)
{
    struct redactor *r = redactor_new();
    (void)state;
    assert_non_null(r);
    assert_int_equal(redactor_keep(r, "projects,homes", NULL), 0);
    assert_int_equal(redact_add_place(r, "/fast/heartofgold"), 0);
    assert_int_equal(redact_add_homes(r, "/people"), 0);
    RC_AUTO_FREE char *out = redacted(r, "/fast/heartofgold /people/trillian/x");
    assert_string_equal(out, "/fast/heartofgold /people/trillian/x");
    redactor_free(r);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

/* The home is a link; the working folder lies in a clone of a private remote. */
static void test_machine(void **state)
{
    static const char config[] = "[core]\n\tbare = false\n"
                                 "[remote \"origin\"]\n"
                                 "\turl = git@forge.magrathea.example:milliways/slartibartfast-net.git\n"
                                 "[remote \"up\"]\n\turl = https://github.com/ROCm/vllm.git\n";
    char top[] = "/tmp/around.XXXXXX";
    char real[64], home[64], cwd[80], path[128], text[640];
    (void)state;
    assert_non_null(mkdtemp(top));
    (void)snprintf(real, sizeof real, "%s/real", top);
    (void)snprintf(home, sizeof home, "%s/home", top);
    (void)snprintf(cwd, sizeof cwd, "%s/run", real);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(mkdir(cwd, 0700), 0);
    assert_int_equal(symlink("real", home), 0);
    (void)snprintf(path, sizeof path, "%s/.gitconfig", home);
    write_file(path, "[user]\n\tname = \"Trillian Astra\"\n\temail = t@x.example\n");
    (void)snprintf(path, sizeof path, "%s/.git", real);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/.git/config", real);
    write_file(path, config);
    assert_int_equal(setenv("HOME", home, 1), 0);

    struct redactor *r = redactor_new();
    assert_non_null(r);
    assert_int_equal(redactor_add_machine(r), 0);
    assert_int_equal(redactor_add_around(r, cwd), 0);
    (void)snprintf(text, sizeof text,
                   "%s/vogons/x %s/run/x by Trillian Astra, job slartibartfast-net of "
                   "/x/milliways/y at forge.magrathea.example; vllm of ROCm",
                   real, home);
    RC_AUTO_FREE char *out = redacted(r, text);
    static const char *const hidden[] = {"real", "vogons", "Trillian", "slarti", "/milliways",
                                         "magrathea"};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        if (strstr(out, hidden[i]) != NULL)
            fail_msg("'%s' stayed: %s", hidden[i], out);
    }
    assert_non_null(strstr(out, "vllm of ROCm"));
    redactor_free(r);

    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/.git", real);
    (void)rmdir(path);
    (void)snprintf(path, sizeof path, "%s/.gitconfig", real);
    (void)unlink(path);
    (void)rmdir(cwd);
    (void)rmdir(real);
    (void)unlink(home);
    assert_int_equal(rmdir(top), 0);
}

/* A rule for texts ends a folder's name at a blank. */
static void test_a_folder_with_blanks(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_add_around(r, "/tmp/cwdt/Acme Secret Project Zeta"), 0);
    RC_AUTO_FREE char *out = redacted(r, "in /tmp/cwdt/Acme Secret Project Zeta, line 3");
    assert_null(strstr(out, "Secret"));
    assert_null(strstr(out, "Zeta"));
    redactor_free(r);
}

/* A file that others can write must not decide what is hidden, and evidence must not become a hidden
 * name. */
static void test_names_of_others(void **state)
{
    char top[] = "/tmp/around.XXXXXX";
    char path[128];
    (void)state;
    assert_non_null(mkdtemp(top));
    assert_int_equal(setenv("HOME", top, 1), 0);
    (void)snprintf(path, sizeof path, "%s/.gitconfig", top);
    static const struct {
        const char *name;
        mode_t mode;
        bool hidden;
    } rows[] = {{"Yellow Tuesday", 0600, true}, /* words of any log: a rule does not hide them */
                {"Yellow Tuesday", 0666, false},
                {"Fault out of memory", 0600, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "[user]\n\tname = %s\n", rows[i].name);
        write_file(path, text);
        assert_int_equal(chmod(path, rows[i].mode), 0);
        struct redactor *r = redactor_new();
        assert_non_null(r);
        assert_int_equal(redactor_add_around(r, top), 0);
        (void)snprintf(text, sizeof text, "it says: %s.", rows[i].name);
        RC_AUTO_FREE char *out = redacted(r, text);
        assert_int_equal(strstr(out, rows[i].name) == NULL, rows[i].hidden);
        redactor_free(r);
    }
    (void)unlink(path);
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_above),
        cmocka_unit_test(test_homes),
        cmocka_unit_test(test_table_of_mounts),
        cmocka_unit_test(test_escaped_characters),
        cmocka_unit_test(test_invisible_characters),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_a_folder_with_blanks), cmocka_unit_test(test_names_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
