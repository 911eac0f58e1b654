/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets planted in random texts are hidden; every fact of real texts stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact.h"
#include "redact_help.h"

/* --- planted secrets --- */

/* `n` characters of a set; the first a letter, the second a digit. */
static void fill(char *out, size_t n, const char *set)
{
    size_t size = strlen(set);
    for (size_t i = 0; i < n; i++)
        out[i] = set[draw() % size];
    out[0] = set[10];
    out[1] = (char)('2' + draw() % 8);
    out[n] = '\0';
}

#define ALNUM "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define UPPER "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define HEX "0123456789abcdef"

/* '%s' is the secret. `set` and `n` make it. */
static const struct {
    const char *around, *set;
    size_t n;
} plants[] = {
    {"HF_TOKEN=hf_%s\n", ALNUM, 34},
    {"using token hf_%s, ok\n", ALNUM, 34},
    {"export GITHUB_TOKEN=\"ghp_%s\"\n", ALNUM, 36},
    {"remote: https://x-access-token:ghs_%s@github.com/a/b.git\n", ALNUM, 36},
    {"github_pat_%s is set\n", ALNUM "_", 82},
    {"OPENAI_API_KEY=sk-proj-%s\n", ALNUM, 48},
    {"('sk-%s',)\n", ALNUM, 48},
    {"aws_access_key_id = AKIA%s\n", UPPER, 16},
    {"AKIA%s\n", UPPER, 16},
    {"AWS_SECRET_ACCESS_KEY=%s\n", ALNUM "+/", 40},
    {"{\"aws_secret_access_key\": \"%s\"}\n", ALNUM "+/", 40},
    {"slack xoxb-%s\n", "0123456789abcdefghij-", 40},
    {"SLACK=xoxp-%s;\n", "0123456789abcdefghij-", 40},
    {"eyJhbGciOiJIUzI1NiJ9.eyJ%s.c2lnbmF0dXJl\n", ALNUM "_-", 60},
    {"jwt='eyJhbGciOiJSUzI1NiJ9.eyJ%s'\n", ALNUM, 40},
    {"Authorization: Bearer %s\n", ALNUM ".", 30},
    {"authorization=Token %s\n", ALNUM, 30},
    {"'Authorization': 'Basic %s'\n", ALNUM "=", 24},
    {"-H 'Proxy-Authorization: %s'\n", ALNUM, 20},
    {"> Bearer %s\n", ALNUM, 40},
    {"Cookie: session=%s; a=b\n", ALNUM, 20},
    {"Set-Cookie: sid=%s\n", ALNUM, 20},
    {"X-Api-Key: %s\n", ALNUM, 20},
    {"postgres://bob:%s@db.example.org:5432/x\n", ALNUM, 12},
    {"redis://:%s@cache/0\n", ALNUM, 16},
    {"https://%s@github.com/x/y\n", ALNUM, 30},
    {"http://h/x?a=1&token=%s&b=2\n", ALNUM, 24},
    {"http://h/x?X-Amz-Signature=%s\n", HEX, 64},
    {"https://acc.blob/x?sv=2022&sig=%s\n", ALNUM "%", 44},
    {"AccountName=a;AccountKey=%s;EndpointSuffix=x\n", ALNUM "+/", 86},
    {"Server=db;User=sa;Password=%s;\n", ALNUM "!#", 12},
    {"PASSWORD=%s\n", ALNUM, 8},
    {"db_password: %s\n", ALNUM, 10},
    {"MYSQL_PWD_DB_PASS='%s'\n", ALNUM, 10},
    {"password = \"%s\"\n", ALNUM " ", 14},
    {"Password:\r\n  %s\r\n", ALNUM, 10},
    {"--password %s --n 3\n", ALNUM, 9},
    {"--token %s\n", ALNUM, 24},
    {"--token=%s\n", ALNUM, 24},
    {"--hf-token\", \"%s\"\n", ALNUM, 24},
    {"--api-key=%s -v\n", ALNUM, 20},
    {"--wandb-api-key %s\n", HEX, 40},
    {"WANDB_API_KEY=%s\n", HEX, 40},
    {"{'api_key': '%s'}\n", ALNUM, 32},
    {"apiKey: %s\n", ALNUM, 32},
    {"clientSecret=%s\n", ALNUM, 32},
    {"AZURE_CLIENT_SECRET: %s\n", ALNUM "~", 34},
    {"\\\"auth_token\\\": \\\"%s\\\"\n", ALNUM, 20},
    {"machine h login u password: %s\n", ALNUM, 10},
    {"nvapi-%s\n", ALNUM "_-", 60},
    {"npm_%s\n", ALNUM, 36},
    {"glpat-%s\n", ALNUM, 20},
    {"AIza%s\n", ALNUM "_-", 35},
    {"-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n", ALNUM, 70},
    {"-----BEGIN PRIVATE KEY-----\\n%s\\n-----END PRIVATE KEY-----\\n", ALNUM, 70},
    {"/home/%s/venv/lib\n", "abcdefghijklmnop", 9},
    {"file:///home/%s\n", "abcdefghijklmnop", 9},
    {"\"/Users/%s/x\"\n", "abcdefghijklmnop", 9},
    {"C:\\\\Users\\\\%s\\\\x\n", "abcdefghijklmnop", 9},
    {"Unique ID: 0x%s\n", HEX, 16},
    {"Serial Number: %s\n", "0123456789012", 12},
    {"ASIC_SERIAL: 0x%s\n", UPPER "A", 0},
    {"unique_id %s\n", "01234567890123", 19},
    {"Uuid:          GPU-%s  \n", HEX, 16},
    {"uuid 7eff74a0-0000-1000-808f-%s\n", HEX, 12},
    {"machine-id: %s\n", HEX, 32},
    {"BOOT_ID=%s\n", HEX, 32},
    {"peer fe80::a1ff:fe00:%.4s up\n", HEX, 12},
    {"mail %s@corp.example.com\n", "abcdefghijklmnop", 9},
};

/* No whole random part may be found, in upper or lower case. */
static int plant_all(struct redactor *r, bool upper)
{
    struct buf text = BUF_INIT;
    char secrets[sizeof plants / sizeof plants[0]][100];
    size_t count = sizeof plants / sizeof plants[0];
    for (size_t i = 0; i < count; i++) {
        secrets[i][0] = '\0';
        if (plants[i].n > 0)
            fill(secrets[i], plants[i].n, plants[i].set);
        if (plants[i].n == 12 && strstr(plants[i].around, "Serial"))
            secrets[i][0] = '6';
        if (strstr(plants[i].around, "unique_id"))
            secrets[i][0] = '9';
        char line[400];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(line, sizeof line, plants[i].around, secrets[i]);
#pragma GCC diagnostic pop
        buf_puts(&text, line);
        buf_puts(&text, "amdgpu 0000:03:00.0: page fault at 0x7f0c1a000000, 2.00 GiB\n");
    }
    if (upper) {
        for (size_t i = 0; i < text.len; i++)
            text.data[i] = (char)toupper((unsigned char)text.data[i]);
    }
    RC_AUTO_FREE char *out = redacted(r, buf_str(&text));
    int leaked = 0;
    for (size_t i = 0; i < count; i++) {
        secrets[i][strstr(plants[i].around, "%.4s") ? 4 : 99] = '\0';
        /* In another case an AKIA key or a JWT is no secret, but the rule for the name before it may still hide it. */
        if (secrets[i][0] != '\0' && strlen(secrets[i]) > 4 && strcasestr(out, secrets[i])) {
            print_message("leaked%s: %s %s", upper ? " (upper)" : "", secrets[i], plants[i].around);
            leaked++;
        }
    }
    char *fact = out;
    size_t facts = 0;
    while ((fact = strcasestr(fact, "0000:03:00.0: page fault at 0x7f0c1a000000, 2.00 GiB")) !=
           NULL)
        facts++, fact++;
    assert_int_equal(facts, count);
    buf_release(&text);
    return leaked;
}

static void test_planted(void **state)
{
    (void)state;
    random_begin();
    int leaked = 0;
    int rounds = 50;
    for (int round = 0; round < rounds; round++) {
        struct redactor *r = new_redactor();
        leaked += plant_all(r, false);
        leaked += plant_all(r, true);
        assert_true(redactor_count(r, REDACT_SECRET) > 80);
        redactor_free(r);
    }
    print_message("%zu planted x %d, %d leaked\n", 2 * sizeof plants / sizeof plants[0], rounds,
                  leaked);
    assert_int_equal(leaked, 0);
}

/* --- known tokens that a line's end cuts, and whose rest stands behind a prefix --- */

/* Before the cut line, between the two parts, behind the rest. The first line has `width` columns up to the cut. */
static const struct {
    const char *before, *between, *behind;
    size_t width;
} shapes[] = {
    {"", "\n    ", "\n", 80},
    {"", "\n                     ", "\n", 80},
    {"", "\r\n    ", "\r\n", 100},
    {"INFO 12:00:07 ", "\nINFO 12:00:08 ", "\n", 80},
    {"INFO 12:00:07 ", "\nINFO 12:00:07 ", "\n", 94},
    {"[rank0]: ", "\n[rank0]: ", "\n", 80},
    {"[rank9]: ", "\n[rank10]: ", "\n", 89},
    {"[rank0]:   ", "\n[rank0]:       ", "\n", 120},
    {"2026-03-01 10:00:00,123 ", "\n2026-03-01 10:00:00,124 ", "\n", 104},
    {"> ", "\n> ", "\n", 82},
    {"# ", "\n# ", "\n", 80},
    {"| ", " |\n| ", " |\n", 78},
    {"", "\\\n", "\n", 40},
    {"", "\\\n      ", " --n 3\n", 70},
    {"", "=\n", "\n", 75},
    {"> ", "=\r\n> ", "\r\n", 77},
    {"x = (\"", "\"\n     \"", "\")\n", 40},
    {"x = '", "' \\\n    '", "'\n", 50},
    {"x = \"", "\" +\n    \"", "\";\n", 50},
    {"x = \"", "\"\n  + f\"", "\";\n", 50},
};

/* One text: `key` cut after `cut` bytes, in this shape. */
static char *cut_in_shape(const char *key, size_t cut, size_t shape)
{
    struct buf text = BUF_INIT;
    size_t width = shapes[shape].width;
    buf_puts(&text, "amdgpu: page fault\n");
    buf_puts(&text, shapes[shape].before);
    for (size_t n = strlen(shapes[shape].before) + cut + 1; n < width; n++)
        buf_puts(&text, "w");
    buf_puts(&text, " ");
    buf_append(&text, key, cut);
    buf_puts(&text, shapes[shape].between);
    buf_puts(&text, key + cut);
    buf_puts(&text, shapes[shape].behind);
    buf_puts(&text, "page fault at 0x7f0c1a000000\n");
    char *copy = strdup(buf_str(&text));
    buf_release(&text);
    return copy;
}

/* Each cut behind the head is tried, in some of the shapes. A rest of four bytes or less may be any word. */
static void test_cut_behind_prefix(void **state)
{
    static const char *const keys[] = {
        "ghp_u7Kq2Lx9Pz4Wm1Tn8Vb3Ys6Dc5Rf0Gh2Jk4Q", "hf_a1Bc3De5Fg7Hi9Jk2Lm4No6Pq8Rs1Tu3Vw", "glpat-abc12De4fGh5iJk6lMn",
        "npm_x9Yz8Wv7Ut6Sr5Qp4On3Ml2Kj1Ih0Gf9Ed8C", "sk-proj-q2Ws4Ed6Rf8Tg1Yh3Uj5Ik7Ol9Pa2Sd4Fg6Hj",
    };
    (void)state;
    int leaked = 0, texts = 0;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        size_t head = strcspn(keys[k], "_-") + 1 + (keys[k][0] == 's' ? 5 : 0);
        for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++)
            for (size_t cut = head + (k + shape) % 8; cut + 4 < strlen(keys[k]); cut += 8, texts++) {
                struct redactor *r = new_redactor();
                RC_AUTO_FREE char *text = cut_in_shape(keys[k], cut, shape);
                RC_AUTO_FREE char *out = redacted(r, text);
                bool seen = strstr(out, keys[k] + cut) != NULL;
                if (seen || strstr(out, "page fault at 0x7f0c1a000000") == NULL)
                    print_message("leaked, shape %zu:\n%s", shape, out);
                leaked += seen;
                assert_non_null(strstr(out, "page fault at 0x7f0c1a000000"));
                redactor_free(r);
            }
    }
    print_message("%d texts, %d leaked\n", texts, leaked);
    assert_int_equal(leaked, 0);
}

/* Text behind a prefix, below a whole token, is the log's own. */
static void test_whole_before_prefix(void **state)
{
    static const char *const next[] = {
        "Traceback (most recent call last):", "RuntimeError: HIP error: out of memory", "RuntimeError", "done", "loss=3.25",
        "step 10 of 20", "0x7f0c1a000000: page fault", "/opt/rocm/lib/libamdhip64.so", "gfx1100: no kernel image", "rank 3",
        "torch.OutOfMemoryError: HIP out of memory", "GPU-0 fault", "a b c",
    };
    static const char *const prefixes[] = {"    ", "[rank0]: ", "INFO 12:00:07 ", "> ", "# "};
    (void)state;
    for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++)
        for (size_t i = 0; i < sizeof next / sizeof next[0]; i++) {
            static const char key[] = "ghp_u7Kq2Lx9Pz4Wm1Tn8Vb3Ys6Dc5Rf0Gh2Jk4Q";
            char line[200], text[400];
            struct redactor *r = new_redactor();
            (void)snprintf(line, sizeof line, "%s%s\n", prefixes[p], next[i]);
            (void)snprintf(text, sizeof text, "%s%s %s\n%s", prefixes[p], "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", key, line);
            RC_AUTO_FREE char *out = redacted(r, text);
            if (strstr(out, line) == NULL || strstr(out, key) != NULL)
                fail_msg("'%s' became '%s'", text, out);
            redactor_free(r);
        }
}

/* --- real texts: every number stays, except in identities that were hidden --- */

static size_t next_number(const char **p, const char **ret)
{
    while (**p != '\0' && !isdigit((unsigned char)**p)) {
        if (**p == '<') { /* "<id1>" is no number of the text */
            size_t n = strspn(*p + 1, "abcdefghijklmnopqrstuvwxyz");
            size_t d = strspn(*p + 1 + n, "0123456789");
            if (n > 0 && d > 0 && (*p)[1 + n + d] == '>') {
                *p += 2 + n + d;
                continue;
            }
        }
        ++*p;
    }
    *ret = *p;
    while (isalnum((unsigned char)**p) || (**p == '.' && isdigit((unsigned char)(*p)[1])))
        ++*p;
    return (size_t)(*p - *ret);
}

static bool same_numbers(const char *a, const char *b)
{
    for (;;) {
        const char *x = NULL, *y = NULL;
        size_t n = next_number(&a, &x);
        size_t m = next_number(&b, &y);
        if (n != m || memcmp(x, y, n) != 0)
            return false;
        if (n == 0)
            return true;
    }
}

/* Lines that name an identity, a machine or a folder may lose it. */
static bool may_change(const char *line)
{
    static const char *const marks[] = {
        "serial",    "unique",   "uuid",    "/home/", "\\users\\",    "bond0:", /* ids, people */
        "/srv/",     "/data/", /* folders */
        " kernel: ", "hostname", " Host: ", " NCCL ", "gnome-shell[", /* the host's name */
    };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strcasestr(line, marks[i]) != NULL)
            return true;
    }
    return false;
}

/* A line that names containers, without their ids of 64 digits and without the pseudonyms of these. */
static void without_containers(char *line)
{
    char *to = line;
    for (const char *p = line; *p != '\0';) {
        size_t hex = strspn(p, "0123456789abcdef");
        size_t id = strncmp(p, "<id", 3) == 0 ? 3 + strspn(p + 3, "0123456789") : 0;
        size_t skipped = hex == 64 ? 64 : id > 3 && p[id] == '>' ? id + 1 : 0;
        size_t kept = skipped > 0 ? 0 : hex > 0 ? hex : 1;
        memmove(to, p, kept);
        to += kept;
        p += skipped + kept;
    }
    *to = '\0';
}

static void check_lines(const char *name, char *before, char *after, int *lines, int *changed)
{
    char *s1 = NULL, *s2 = NULL;
    char *a = strtok_r(before, "\n", &s1);
    char *b = strtok_r(after, "\n", &s2);
    for (; a != NULL && b != NULL; a = strtok_r(NULL, "\n", &s1), b = strtok_r(NULL, "\n", &s2)) {
        ++*lines;
        if (strcmp(a, b) == 0)
            continue;
        ++*changed;
        if (strstr(a, "/docker/") != NULL) {
            without_containers(a);
            without_containers(b);
        }
        if (strcmp(a, b) != 0 && !may_change(a))
            fail_msg("%s: '%s' became '%s'", name, a, b);
        if (strcasestr(a, "/home/") != NULL && strcasestr(a, "bond0") == NULL &&
            !same_numbers(a, b))
            fail_msg("%s: numbers of '%s' became '%s'", name, a, b);
    }
    assert_null(a);
    assert_null(b);
}

static void check_text(const char *name, const char *text, int *lines, int *changed)
{
    struct redactor *r = new_redactor();
    RC_AUTO_FREE char *before = strdup(text);
    RC_AUTO_FREE char *after = redacted(r, text);
    check_lines(name, before, after, lines, changed);
    if (redactor_count(r, REDACT_SECRET) + redactor_count(r, REDACT_MAC) > 0)
        fail_msg("%s: a secret was seen where none is", name);
    redactor_free(r);
}

static void test_records(void **state)
{
    (void)state;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(TEST_SHARED_DIR "/records");
    if (dir == NULL) {
        print_message("skipped: no recorded texts beside this checkout\n");
        skip();
    }
    int files = 0, lines = 0, changed = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[700];
        RC_AUTO_FREE char *text = NULL;
        if (e->d_name[0] == '.' || strstr(e->d_name, ".source") != NULL)
            continue;
        (void)snprintf(path, sizeof path, TEST_SHARED_DIR "/records/%s", e->d_name);
        if (fs_read_all(path, 64 << 20, &text) <= 0)
            continue;
        check_text(e->d_name, text, &lines, &changed);
        files++;
    }
    print_message("%d files, %d lines, %d changed (serials, unique ids)\n", files, lines, changed);
    assert_true(files > 20);
}

static void test_corpus(void **state)
{
    (void)state;
    RC_AUTO_FREE char *all = NULL;
    if (fs_read_all(TEST_SHARED_DIR "/corpus/cases.jsonl", 64 << 20, &all) <= 0) {
        print_message("skipped: no corpus beside this checkout\n");
        skip();
    }
    int cases = 0, lines = 0, changed = 0;
    char *save = NULL;
    for (char *row = strtok_r(all, "\n", &save); row; row = strtok_r(NULL, "\n", &save)) {
        static const char *const fields[] = {"stderr", "dmesg", "gpu", "rocm"};
        cJSON *doc = cJSON_Parse(row);
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(doc, "id"));
        for (size_t i = 0; i < 4; i++) {
            const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(doc, fields[i]));
            if (text != NULL)
                check_text(id, text, &lines, &changed);
        }
        cases += doc != NULL;
        cJSON_Delete(doc);
    }
    print_message("%d cases, %d lines, %d changed (home folders)\n", cases, lines, changed);
    assert_true(cases > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_cut_behind_prefix),
        cmocka_unit_test(test_whole_before_prefix),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
