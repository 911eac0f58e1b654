/* SPDX-License-Identifier: Apache-2.0 */
/* Planted secrets go, facts stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact.h"

static struct redactor *new_redactor(void)
{
    struct redactor *r = redactor_new();
    assert_non_null(r);
    assert_int_equal(redactor_add(r, REDACT_HOME, "/scratch/people/marlowe/"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "marlowe"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "jdo"), 0);
    assert_int_equal(redactor_add(r, REDACT_HOST, "thorin7"), 0);
    return r;
}

static char *redacted(struct redactor *r, const char *text)
{
    struct buf out = BUF_INIT;
    assert_int_equal(redact_text(r, text, strlen(text), &out), 0);
    return out.data != NULL ? out.data : strdup("");
}

static void test_examples(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"cd /home/alice/x && ls /home/bob /home/alice", "cd <home1>/x && ls <home2> <home1>"},
        {"/root/.cache /rootfs /sys/root x/root", "<home1>/.cache /rootfs /sys/root x/root"},
        {"C:\\Users\\Bobby\\x", "C:\\Users\\<user3>\\x"},
        {"/scratch/people/marlowe/run by MARLOWE on Thorin7.cluster",
         "<home1>/run by <user1> on <host1>.cluster"},
        {"job_marlowe_3 jdo jdoe", "job_<user1>_3 <user2> jdoe"},
        {"HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv1234 python", "HF_TOKEN=<secret:hugging-face> python"},
        {"got hf_AbCdEfGhIjKlMnOpQrStUv1234.", "got <secret:hugging-face>."},
        {"--api-key=abc123 --token xyz987654 --max-tokens 512",
         "--api-key=<secret:named> --token <secret:flag-odd> --max-tokens 512"},
        {"['--token', 'xyz987654', '-n', '4']", "['--token', '<secret:flag-odd>', '-n', '4']"},
        {"{\"password\": \"p w\", \"n\": 3}", "{\"password\": \"<secret:named>\", \"n\": 3}"},
        {"Authorization: Bearer abc.def\nnext", "Authorization: <secret:authorization>\nnext"},
        {"curl -H 'Authorization: Basic dTpw' x",
         "curl -H 'Authorization: <secret:authorization>' x"},
        {"https://bob:pw@host/x https://host/a@b",
         "https://<secret:url-login>@host/x https://host/a@b"},
        {"a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b",
         "a <secret:private-key> b"},
        {"-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nMII"},
        {"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w", "<secret:private-key>"},
        {"10.1.2.3 10.1.2.4 10.1.2.3:29500 127.0.0.1 0.0.0.0",
         "<ip1> <ip2> <ip1>:29500 127.0.0.1 0.0.0.0"},
        {"fe80::1ff:fe23:4567:890a 2001:db8::1 ::1", "<ip1> <ip2> ::1"},
        {"52:54:00:12:34:56 0000:03:00.0 12:34:56", "<mac1> 0000:03:00.0 12:34:56"},
        {"GPU[0]\t\t: Serial Number: 692347006052", "GPU[0]\t\t: Serial Number: <id1>"},
        {"unique_id 11651590505119483818\nsimd_count 256", "unique_id <id1>\nsimd_count 256"},
        {"Uuid:                    GPU-0213fb02cc8c08a4", "Uuid:                    <id1>"},
        {"mail Joe.Bloggs@example.org now", "mail <email1> now"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        assert_int_equal(redactor_add(r, REDACT_HOME, "/scratch/people/marlowe/"), 0);
        if (strstr(rows[i][0], "people") == NULL) { /* numbers are given in order of appearance */
            redactor_free(r);
            r = redactor_new();
        }
        assert_int_equal(redactor_add(r, REDACT_USER, "marlowe"), 0);
        assert_int_equal(redactor_add(r, REDACT_USER, "jdo"), 0);
        assert_int_equal(redactor_add(r, REDACT_HOST, "thorin7"), 0);
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

/* Facts that look nearly like secrets. */
static void test_facts_stay(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "print_info: EOS token        = 151645 '<|im_end|>'",
        "llama_model_loader: - kv  19: tokenizer.ggml.bos_token_id u32 = 151643",
        "max_tokens=4096, pad_token_id: 0, n_tokens = 512, tokens per second: 12.5",
        "Memory access fault by GPU node-1 (Agent handle: 0x55d0c8a0b2c0) on address "
        "0x7f0c1a000000.",
        "amdgpu 0000:c1:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:8 pasid:32770)",
        "terminate called after throwing an instance of 'c10::Error' at c10::cuda::a1()",
        "libamdhip64.so.7.1.25424.0 rocm 6.4.1.60401 version 10.20.30.40 firmware: 64.1.2.3",
        "SMC firmware version: 00.85.123.00, driver 6.14.14.0, vbios 113-D3040100-U00",
        "gfx1100 gfx90a:sramecc+:xnack- amdgcn-amd-amdhsa--gfx942",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "BuildID[sha1]=da39a3ee5e6b4b0d3255bfef95601890afd80709 torch 2.5.1+rocm6.2 py3.12",
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of which 1.34 GiB is "
        "free.",
        "[Tue Jan  7 10:00:00 2026] amdgpu 0000:03:00.0: [drm] ring sdma0 timeout, signaled seq=12",
        "File \"/opt/rocm-6.4.1/lib/librocblas.so.4\", ISA 12.0.1, 1.2.3.4, 00:00:00:00:00:00",
        "std::vector<int>::at() dead::code abc::def",
        "PWD=/data OLDPWD=/opt SSH_AUTH_SOCK=3",
        "unexpected token: identifier; token = None; password: None",
        "fdinfo: drm-client-id:\t1234567 drm-pdev:\t0000:03:00.0 serial console ttyS0 serial: 0",
    };
    struct redactor *r = new_redactor();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        RC_AUTO_FREE char *out = redacted(r, rows[i]);
        assert_string_equal(out, rows[i]);
    }
    redactor_free(r);
    r = redactor_new(); /* account names that are words of the trade */
    assert_int_equal(redactor_add(r, REDACT_USER, "torch"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "root"), 0);
    assert_int_equal(redactor_add(r, REDACT_HOST, "gfx1100"), 0);
    RC_AUTO_FREE char *out =
        redacted(r, "torch.OutOfMemoryError on gfx1100 by root in /home/torch");
    assert_string_equal(out, "torch.OutOfMemoryError on gfx1100 by root in <home1>");
    redactor_free(r);
}

/* A machine called "vm", a user called "max": hidden where they are meant, and nowhere else. */
static void test_names_that_are_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/proc/sys/vm/max_map_count vm.max_map_count /sys/kernel/mm/vm kvm vm", NULL},
        {"PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128 --max-model-len 4096 memory.max max 3 GiB",
         NULL},
        {"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", NULL},
        {"/sys/class/zeus7/x /proc/zeus7 /sys/devices/virtual/marlowe", NULL},
        {"gpu:0 vm:0 host memory is full", NULL},
        {"/sys/fs/cgroup/memory/marlowe/job /opt/zeus7/x",
         "/sys/fs/cgroup/memory/<user1>/job /opt/<host1>/x"},
        {"max@vm:~$ cd", "<user1>@<host1>:~$ cd"},
        {"ssh://vm/x http://vm:8080/ vm:/export vm:4711:4720 [0] NCCL INFO",
         "ssh://<host1>/x http://<host1>:8080/ <host1>:/export <host1>:4711:4720 [0] NCCL INFO"},
        {"hostname: vm, HOST=vm \"node\": \"VM\" MASTER_ADDR=vm",
         "hostname: <host1>, HOST=<host1> \"node\": \"<host1>\" MASTER_ADDR=<host1>"},
        {"Jan  7 10:00:00 vm kernel: amdgpu\n2026-01-07T10:00:00.123+00:00 vm kernel: x",
         "Jan  7 10:00:00 <host1> kernel: amdgpu\n2026-01-07T10:00:00.123+00:00 <host1> kernel: x"},
        {"Linux vm 6.18.4 #1 SMP", "Linux <host1> 6.18.4 #1 SMP"},
        {"USER=max uid=1000(max) LOGNAME=\"max\"",
         "USER=<user1> uid=1000(<user1>) LOGNAME=\"<user1>\""},
        {"root@localhost USER=root", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        bool strong = strstr(rows[i][0], "marlowe") != NULL;
        assert_int_equal(redactor_add(r, REDACT_HOST, strong ? "zeus7" : "vm"), 0);
        assert_int_equal(redactor_add(r, REDACT_USER, strong ? "marlowe" : "max"), 0);
        assert_int_equal(redactor_add(r, REDACT_USER, "root"), 0);
        assert_int_equal(redactor_add(r, REDACT_HOST, "localhost"), 0);
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1] != NULL ? rows[i][1] : rows[i][0]);
        redactor_free(r);
    }
}

/* Value by value: names, moments and classes stay, what is under them does not; a number that is a
 * serial becomes a string, so that the document stays one. */
static void test_json(void **state)
{
    (void)state;
    static const char in[] =
        "{\"name\":\"oom.marlowe_bytes\",\"when\":\"marlowe\",\"value\":3,\"n\":[\"a\\n/home/x/y\","
        "\"marlowe\",true,null,1.5],\"unique_id\":1234567890123,\"/home/x\":\"\","
        "\"argv\":[\"--token\",\"xyz987654\",\"--max-tokens\",\"512\"],"
        "\"deep\":[{\"name\":\"env.API_KEY\",\"value\":\"two words\"}]}";
    static const char want[] =
        "{\"name\":\"oom.marlowe_bytes\",\"when\":\"marlowe\",\"value\":3,\"n\":[\"a\\n<home1>/y\","
        "\"<user1>\",true,null,1.5],\"unique_id\":\"<id1>\",\"<home1>\":\"\","
        "\"argv\":[\"--token\",\"<secret:named-odd>\",\"--max-tokens\",\"512\"],"
        "\"deep\":[{\"name\":\"env.API_KEY\",\"value\":\"<secret:named>\"}]}";
    static const char *const keep[] = {"name", "when", NULL};
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_add(r, REDACT_USER, "marlowe"), 0);
    cJSON *doc = cJSON_Parse(in);
    assert_non_null(doc);
    assert_int_equal(redact_json(r, doc, keep), 0);
    char *out = cJSON_PrintUnformatted(doc);
    assert_string_equal(out, want);
    free(out);
    cJSON_Delete(doc);
    redactor_free(r);
}

/* --- planted secrets --- */

static uint64_t seed;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 8;
}

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

/* The random part of each, whole, must not be found in either case. */
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
        /* AKIA and JWT are no secrets in another case, but their names may still give them away. */
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
    seed = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u | 1;
    const char *given = getenv("REDACT_SEED");
    if (given != NULL)
        seed = strtoull(given, NULL, 10) | 1;
    print_message("REDACT_SEED=%llu\n", (unsigned long long)seed);
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

/* --- real texts: every number stays but where an identity was taken out --- */

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
        "/srv/",     "/data/",                                                  /* folders */
        " kernel: ", "hostname", " Host: ", " NCCL ", "gnome-shell[", /* the host's name */
    };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strcasestr(line, marks[i]) != NULL)
            return true;
    }
    return false;
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
        if (!may_change(a))
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

static void test_report_and_machine(void **state)
{
    (void)state;
    struct redactor *r = new_redactor();
    assert_int_equal(redactor_add(r, REDACT_SECRET, "x"), -EINVAL);
    assert_int_equal(redactor_add(r, REDACT_USER, ""), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, NULL), 0);
    assert_int_equal(redactor_add_machine(r), 0);
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    char text[600];
    (void)snprintf(text, sizeof text, "PASSWORD=hunter2 marlowe ghp_%s MARLOWE",
                   "0123456789abcdefghij0123456789abcdef");
    RC_AUTO_FREE char *out = redacted(r, text);
    assert_null(strstr(out, "hunter2"));
    cJSON *doc = redactor_report(r);
    assert_non_null(doc);
    cJSON *counts = cJSON_GetObjectItem(doc, "counts");
    cJSON *secrets = cJSON_GetObjectItem(doc, "secrets");
    assert_int_equal(cJSON_GetObjectItem(counts, "secret")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(counts, "user")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(secrets, "named")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(secrets, "github")->valueint, 1);
    char *printed = cJSON_PrintUnformatted(doc);
    assert_null(strstr(printed, "marlowe"));
    free(printed);
    cJSON_Delete(doc);
    redactor_free(r);
    redactor_free(NULL);
}

/* Bytes of all kinds, NULs, and every cut of a text that ends inside a form. */
static void test_garbage(void **state)
{
    (void)state;
    static const char text[] = "a://b:c@d -----BEGIN X PRIVATE KEY----- eyJabcdefgh.ijklmnopqr "
                               "--token\0x1234567890 fe80::1:2 52:54:00:12:34:56 Serial Number: "
                               "123456 hf_0123456789012345678901 /home/x 10.0.0.1 a@b.cd password=";
    struct redactor *r = new_redactor();
    for (size_t n = 0; n < sizeof text; n++) {
        char *exact = malloc(n + 1); /* its own block, so that ASan sees a read behind the end */
        memcpy(exact, text, n);
        char *tight = realloc(exact, n > 0 ? n : 1);
        struct buf out = BUF_INIT;
        assert_int_equal(redact_text(r, tight, n, &out), 0);
        buf_release(&out);
        free(tight);
    }
    seed = 12345;
    for (int round = 0; round < 300; round++) {
        char noise[2000];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = round % 2 ? (char)draw() : ":=./-@ \"0a"[draw() % 10];
        struct buf out = BUF_INIT;
        assert_int_equal(redact_text(r, noise, sizeof noise, &out), 0);
        buf_release(&out);
    }
    redactor_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_facts_stay),
        cmocka_unit_test(test_names_that_are_words),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_report_and_machine),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
