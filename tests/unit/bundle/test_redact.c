/* SPDX-License-Identifier: Apache-2.0 */
/* Examples of text that is hidden and text that stays, in texts and in JSON; the report;
 * garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact.h"
#include "bundle/redact_internal.h"
#include "redact_help.h"

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the forms of a list */

static void test_examples(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"cd /home/alice/x && ls /home/bob /home/alice", "cd <home1>/x && ls <home2> <home1>"},
        {"/root/.cache /rootfs /sys/root x/root", "<home1>/.cache /rootfs /sys/root x/root"},
        {"C:\\Users\\Bobby\\x", "C:\\Users\\<user3>\\x"},
        {"/scratch/people/marlowe/run by MARLOWE on Thorin7.cluster",
         "<home1>/run by <user1> on <host2>"},
        {"job_marlowe_3 jdo jdoe", "job_<user1>_3 <user2> jdoe"},
        {"HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv1234 python", "HF_TOKEN=<secret:hugging-face> python"},
        {"got hf_AbCdEfGhIjKlMnOpQrStUv1234.", "got <secret:hugging-face>."},
        {"--api-key=abc123 --token xyz987654 --max-tokens 512",
         "--api-key=<secret:named> --token <secret:flag-odd> --max-tokens 512"},
        {"['--token', 'xyz987654', '-n', '4']", "['--token', '<secret:flag-odd>', '-n', '4']"},
        {"['a', ['run', '--token', 'xyz987654'], ['--token', 'xyz987655']]",
         "['a', ['run', '--token', '<secret:flag-odd>'], ['--token', '<secret:flag-odd>']]"},
        {"{\"password\": \"p w\", \"n\": 3}", "{\"password\": \"<secret:named>\", \"n\": 3}"},
        {"Authorization: Bearer abc.def\nnext", "Authorization: <secret:authorization>\nnext"},
        {"x --header Authorization: Bearer abc.def --steps 10 --no-cache",
         "x --header Authorization: <secret:authorization> --steps 10 --no-cache"},
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
        {"mail Joe.Bloggs@example.org score=-0.31 in 981 documents", "mail <email1> score=-0.31 in 981 documents"},
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

/* Folders that the user has named are hidden below this machine's homes, wherever these lie. */
static void test_projects_below_an_unusual_home(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_add(r, REDACT_HOME, "/u/z/zaphodbx"), 0);
    RC_AUTO_FREE char *out =
        redacted(r, "[\"/u/z/zaphodbx/heartofgold/engine/x\", \"/u/z/zaphodbx/work/milliways/x\"] "
                    "/u/z/zaphodbx-2/beams/x /u/z/other/beams/x");
    assert_string_equal(out, "[\"<home1>/<project1>/engine/x\", \"<home1>/work/<project2>/x\"] "
                             "<home2>/beams/x /u/z/other/beams/x");
    redactor_free(r);
}

/* Facts that look almost like secrets. */
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
        "./run.sh: Zeile 3: 4711 Speicherzugriffsfehler  (Speicherabzug geschrieben) python3",
        "cp: Auf dem Gerät ist kein Speicherplatz mehr verfügbar",
        "Erreur de segmentation (core dumped)",
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
    r = redactor_new(); /* account names that are technical words */
    assert_int_equal(redactor_add(r, REDACT_USER, "torch"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "root"), 0);
    assert_int_equal(redactor_add(r, REDACT_HOST, "gfx1100"), 0);
    RC_AUTO_FREE char *out =
        redacted(r, "torch.OutOfMemoryError on gfx1100 by root in /home/torch");
    assert_string_equal(out, "torch.OutOfMemoryError on gfx1100 by root in <home1>");
    redactor_free(r);
}

/* A summary drops these characters, and that would join the secret again. */
static void test_characters_that_nobody_sees(void **state)
{
    (void)state;
    static const char *const hidden[] = {"\xe2\x80\x8b", "\x01", "\x7f", "\xc2\x9b", "\xe2\x81\xa6", "\xcd\x8f", "\xf3\xa0\x81\x81",
                                         "\xe2\x80\x8b\xef\xbb\xbf", "\x1b[31m\xe2\x80\x8b", "\x1b]8;;http://a.b/\x1b\\"};
    static const char fact[] = "\xef\xbb\xbftorch\xe2\x80\x8b.OutOfMemoryError on gfx\xe2\x80\x8b" "1100 at 0x7f0c\x01" "1a000000\n";
    struct redactor *r = new_redactor();
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        char text[160];
        (void)snprintf(text, sizeof text, "%slogin ghp_ABCDEFGH%sijklmnopQRSTUVWX1234567890ab failed", fact, hidden[i]);
        RC_AUTO_FREE char *out = redacted(r, text);
        (void)snprintf(text, sizeof text, "%slogin <secret:github> failed", fact);
        assert_string_equal(out, text);
    }
    redactor_free(r);
}

/* A machine called "vm", a user called "max": hidden only where the machine or the user is
 * meant. */
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

/* One place gives the name of a program away. Then the name is hidden in all classes, files and options of that program. */
static void test_parts_of_a_program(void **state)
{
    (void)state;
    static const char learned[] = "python -m phalarope_rt.serve --port 1";
    static const char *const rows[][2] = {
        {"class PhalaropeRouter in phalarope_rt/router.py", "class <project1>Router in <project1>_rt/router.py"},
        {"PHALAROPE_HOME libphalarope.so rt2phalarope2", "<project1>_HOME lib<project1>.so rt2<project1>2"},
        {"n\\nphalarope.core", "n\\n<project1>.core"},
        {"phalaropey xphalarope", "phalaropey xphalarope"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        assert_int_equal(redactor_learn(r, learned, sizeof learned - 1), 0);
        redactor_measured(r, true); /* only what was learned is hidden */
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

/* A name that a rule found by its place is hidden wherever else it stands in the text, but not a word of any log. */
static void test_what_is_said_again(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"out/tolvane_sft saved\nJob Name: tolvane_sft\n", "out/<project1> saved\nJob Name: <project1>\n"},
        {"{'mrn': '77120493'}\nrow 77120493 of 1771204930", "{'mrn': '<account1>'}\nrow <account1> of 1771204930"},
        {"Job Name: memory\nout of memory", "Job Name: memory\nout of memory"},
        {"X509v3 Subject Alternative Name: DNS:zxqkv-k7, DNS:zxqkv-k7.calcul.example.fr\n",
         "X509v3 Subject Alternative Name: DNS:<host1>, DNS:<host2>\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

/* A user's name stays a user's name, where it is the name of a program, too. */
static void test_a_user_in_a_program(void **state)
{
    (void)state;
    static const char learned[] = "python -m marlowe_tools.serve";
    struct redactor *r = new_redactor();
    assert_int_equal(redactor_learn(r, learned, sizeof learned - 1), 0);
    RC_AUTO_FREE char *out = redacted(r, "by marlowe on x");
    assert_string_equal(out, "by <user1> on x");
    redactor_free(r);
}

/* A file that one text names is hidden in all, also where the rules of that text would leave it. */
static void test_a_file_in_another_text(void **state)
{
    (void)state;
    static const char learned[] = "Loading /tmp/x/merger_plan_march.json and train.json";
    struct redactor *r = new_redactor();
    assert_int_equal(redactor_learn(r, learned, sizeof learned - 1), 0);
    redactor_measured(r, true);
    RC_AUTO_FREE char *out = redacted(r, "/x/merger_plan_march of train.json");
    assert_string_equal(out, "/x/<project1> of train.json");
    redactor_free(r);
}

/* Frees the redactor. */
static void becomes_json(struct redactor *r, const char *in, const char *const *keep, const char *want)
{
    cJSON *doc = cJSON_Parse(in);
    assert_non_null(doc);
    assert_int_equal(redact_json(r, doc, keep), 0);
    char *out = cJSON_PrintUnformatted(doc);
    assert_string_equal(out, want);
    free(out);
    cJSON_Delete(doc);
    redactor_free(r);
}

/* Value by value: names, moments and classes stay, private values do not. A serial number becomes a
 * string, so that the document stays JSON. */
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
    becomes_json(r, in, keep, want);
}

/* A known name is hidden in a short key, too; our own words stay, whatever a user is called. */
static void test_json_keys(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_add(r, REDACT_USER, "marlowe"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "reason"), 0);
    becomes_json(r, "{\"marlowe\":1,\"of_marlowe\":2,\"reason\":3}", NULL, "{\"<user1>\":1,\"of_<user1>\":2,\"reason\":3}");
}

/* Functions of libraries that everybody has keep their names; those of somebody's program do not. */
static void test_public_symbols(void **state)
{
    (void)state;
    static const char maps[] = "7f00-7f01 r-xp 0 08:01 1 /root/.pyenv/versions/3.11.7/lib/libpython3.11.so.1.0\n"
                               "7f01-7f02 r-xp 0 08:01 2 /usr/lib/x86_64-linux-gnu/libsanderling.so.2\n"
                               "7f02-7f03 r-xp 0 08:01 3 /home/x/libthistle.so\n7f03-7f04 rw-p 0 00:00 0\n"
                               "7f04-7f05 rw-p 0 00:00 0 [heap]";
    static const char in[] = "#4 cfunction_vectorcall_NOARGS+0x62 (libpython3.11.so.1.0)\n"
                             "#5 0x7f cfunction_vectorcall_NOARGS+0x62 (libpython3.11.so.1.0, build-id 49)\n"
                             "#6 kittiwake_walk+0x1 (libsanderling.so.2)\n#7 sanderling_step+0x1 (libthistle.so)\n"
                             "#8 sanderling_step+0x (libsanderling.so.2)\nsanderling_step\n"
                             "sanderling_step: abort+0x12 (libpython3.11.so.1.0)\n";
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_learn_maps(r, maps, sizeof maps - 1), 0);
    RC_AUTO_FREE char *out = redacted(r, in);
    assert_non_null(strstr(out, "#4 cfunction_vectorcall_NOARGS+0x62 (libpython3.11.so.1.0)\n"));
    assert_non_null(strstr(out, "#5 0x7f cfunction_vectorcall_NOARGS+0x62 (libpython3.11.so.1.0, build-id 49)\n"));
    assert_non_null(strstr(out, "#6 kittiwake_walk+0x1 ("));
    assert_non_null(strstr(out, "#7 <project"));
    assert_non_null(strstr(out, "#8 <project"));
    assert_null(strstr(out, "\nsanderling_step"));
    redactor_free(r);
}

/* It is asked for each find: if it read the rest of the line, a long line of finds would take the square of its length. */
static void test_a_public_symbol_is_looked_for_nearby(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct redactor *r = redactor_new();
    char *text = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(text, MAP_FAILED);
    memset(text, 'a', 2 * page);
    assert_int_equal(mprotect(text + page, page, PROT_NONE), 0); /* a look further on ends the test */
    const struct redact_text t = {text, 2 * page};
    assert_false(redact_is_public_symbol(r, &t, 0));
    (void)munmap(text, 2 * page);
    redactor_free(r);
}

/* Other words for a name and its value, and the values of a list that has the name. */
static void test_json_of_names_and_values(void **state)
{
    (void)state;
    static const char in[] = "[{\"Name\":\"DB_PASSWORD\",\"Value\":\"summer rain\"},{\"val\":\"summer rain\",\"key\":\"api_token\"},"
                             "{\"ParameterKey\":\"DBPassword\",\"ParameterValue\":\"tulips\"},{\"k\":\"rank\",\"v\":\"none of it\"},"
                             "{\"api_keys\":[\"tulips\",\"Kx7pQ2mV9\"],\"tokens\":[\"the\",\"layer12\"]}]";
    static const char want[] = "[{\"Name\":\"DB_PASSWORD\",\"Value\":\"<secret:named>\"},{\"val\":\"<secret:named>\",\"key\":\"api_token\"},"
                               "{\"ParameterKey\":\"DBPassword\",\"ParameterValue\":\"<secret:named>\"},{\"k\":\"rank\",\"v\":\"none of it\"},"
                               "{\"api_keys\":[\"<secret:named>\",\"<secret:named>\"],\"tokens\":[\"the\",\"layer12\"]}]";
    becomes_json(redactor_new(), in, NULL, want);
}

/* A log with an object on each line: what is hidden ends at the quotes of a string, takes no part of an escape, and a number
 * becomes a string. Our own times stay. */
static void test_lines_of_json_stay_json(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"t\":1764453123456789,\"pid\":4242,\"message\":\"ada@heron.example order 77-1203 \\u001b[0m\"}",
         "{\"t\":1764453123456789,\"pid\":4242,\"message\":\"<email1> order <account1> \\u001b[0m\"}"},
        {"{\"mail\":\"ada@heron.example\",\"order\":77120345,\"more\":[[7712034, 7712035],7712036],\"ok\":true}",
         "{\"mail\":\"<email1>\",\"order\":\"<account1>\",\"more\":[[\"<account2>\", \"<account3>\"],\"<account4>\"],\"ok\":true}"},
        {"{\"time\":\"2026-11-29T21:44:11\",\"patient\":\"Ada Brook\",\"diagnosis\":\"flu\"}", NULL},
        {"{\"name\":\"DB_PASSWORD\",\"value\":12345678}", "{\"name\":\"DB_PASSWORD\",\"value\":\"<secret:named-fields>\"}"},
        {"{\"input_ids\":[[1, 2345, 6789, 1011, 1213], [1, 4567, 8910]],\"n\":2}", NULL},
        {"{\"arguments\":{\"q\":\"where can it be\",\"k\":[1,2],\"deep\":{\"x\":-1.5e3,\"y\":null}}}", NULL},
        {"{\"cookie\":\"a=Kx7pQ2mV9; \\\"b\\\"=Kx7pQ2mV8\",\"n\":1}", NULL},
        {"{\"log\":\"user=ada@heron.example\\n77120345 77120346 \\u001b[31m\\u2026\"}", NULL},
        {"[{\"user\":\"ada@heron.example\"},{\"id\":\"C:\\\\Users\\\\nora\\\\77120345\"}]", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        RC_AUTO_FREE char *twice = redacted(r, out);
        cJSON *doc = cJSON_Parse(out);
        if (doc == NULL)
            fail_msg("%s", out);
        assert_string_equal(twice, out);
        if (rows[i][1] != NULL)
            assert_string_equal(out, rows[i][1]);
        else
            assert_null(strstr(out, "771203"));
        cJSON_Delete(doc);
        redactor_free(r);
    }
}

/* A document knows the end of a value: blanks, quotes and brackets are part of a password. */
static void test_json_hides_secrets_whole(void **state)
{
    (void)state;
    static const char in[] =
        "[\"x\",\"--password\",\"Tr0ub4dor&3 x9!kQpp\",\"--token\",\"x'tail0fit99\",\"--secret\",\"<angle>rest6\","
        "\"--sort-key\",\"col7 name8\",\"--max-tokens\",\"512\"]";
    static const char want[] =
        "[\"x\",\"--password\",\"<secret:named>\",\"--token\",\"<secret:flag-odd>\",\"--secret\",\"<secret:named>\","
        "\"--sort-key\",\"col7 name8\",\"--max-tokens\",\"512\"]";
    struct redactor *r = redactor_new();
    cJSON *doc = cJSON_Parse(in);
    assert_int_equal(redact_json(r, doc, NULL), 0);
    char *out = cJSON_PrintUnformatted(doc);
    assert_string_equal(out, want);
    free(out);
    cJSON_Delete(doc);
    redactor_free(r);
}

/* An argument of several words is hidden as a whole, or stays as a whole: in a list, in a shell's line and in Python's list. What
 * was learned there is hidden where blanks join the arguments. */
static void test_arguments_as_a_whole(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *shown;
    } rows[] = {
        {"-e", "DB_PASSWORD=violet ladder under moss", "DB_PASSWORD=<secret:named>"},
        {"-v", "--env=API_KEY=correct pony battery clip", "--env=API_KEY=<secret:named>"},
        {"now", "password:Kx7pQ2 of the page", "password:<secret:named>"},
        {"--password", "my otter is striped", "<secret:named>"},
        {"--token", "rose under the whistle", "<secret:argument>"},
        {"--author", "Mary of the hill", "<user1>"},
        {"--name", "mary of the hill", "<user1>"},
        {"-v", "patient.name=mary of the hill", "patient.name=<user1>"},
        {"--comment", "ask pedro whether it is his", "<text: 27 characters>"},
        {"--model-name", "Llama 3 8B", NULL},
        {"--run-name", "lr 1e-4 bs 32", NULL},
        {"--device-name", "AMD Radeon RX 7900 XTX", NULL},
        {"--sort-key", "name desc", NULL},
        {"--description", "fix the loss scale of the run", NULL},
        {"-e", "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True, max_split_size_mb:64", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *shown = rows[i].shown != NULL ? rows[i].shown : rows[i].value;
        const char *const argv[] = {"run", rows[i].option, rows[i].value, "--n", NULL};
        static const char *const forms[] = {"[\"run\",\"%s\",\"%s\",\"--n\"]", "run %s '%s' --n", "['run', '%s', '%s', '--n']"};
        char in[200], want[200];
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            struct redactor *r = redactor_new();
            (void)snprintf(in, sizeof in, forms[k], rows[i].option, rows[i].value);
            (void)snprintf(want, sizeof want, forms[k], rows[i].option, shown);
            RC_AUTO_FREE char *out = redacted(r, in);
            assert_string_equal(out, want);
            redactor_free(r);
        }
        struct redactor *r = redactor_new();
        cJSON *list = cJSON_CreateStringArray(argv, 4);
        assert_int_equal(redactor_learn_arguments(r, argv), 0);
        (void)snprintf(in, sizeof in, "12 ? R run %s %s --n", rows[i].option, rows[i].value);
        RC_AUTO_FREE char *joined = redacted(r, in);
        const char *words = strrchr(rows[i].value, ' ');
        if ((strstr(joined, words) == NULL) != (rows[i].shown != NULL))
            fail_msg("%s", joined);
        assert_int_equal(redact_json(r, list, NULL), 0);
        assert_string_equal(cJSON_GetArrayItem(list, 2)->valuestring, shown);
        cJSON_Delete(list);
        redactor_free(r);
    }
}

/* "--name=value" says nothing of the argument behind it, and a person's name nothing of a technical argument on its line. */
static void test_arguments_beside_others(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"[\"x\",\"--env=API_KEY=correct pony clip\",\"--password\",\"my otter is striped\"]",
         "[\"x\",\"--env=API_KEY=<secret:named>\",\"--password\",\"<secret:named>\"]"},
        {"[\"x\",\"--patient\",\"jane of the mill\",\"--device-name\",\"AMD Radeon RX 7900 XTX\"]",
         "[\"x\",\"--patient\",\"<user1>\",\"--device-name\",\"AMD Radeon RX 7900 XTX\"]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        cJSON *list = cJSON_Parse(rows[i][0]);
        assert_int_equal(redact_json(r, list, NULL), 0);
        RC_AUTO_FREE char *out = cJSON_PrintUnformatted(list);
        assert_string_equal(out, rows[i][1]);
        cJSON_Delete(list);
        redactor_free(r);
    }
}

/* A line of a shell within an argument goes on behind a value, and behind an argument of its own. */
static void test_scripts_in_arguments(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"['sh', '-c', 'API_KEY=Kx7pQ2mV9 python3 train.py --lr 1e-4']", "['sh', '-c', 'API_KEY=<secret:named> python3 train.py --lr 1e-4']"},
        {"{\"cmd\": \"run -e \\\"DB_PASSWORD=hopar of the page\\\" x\"}", "{\"cmd\": \"run -e \\\"DB_PASSWORD=<secret:named>\\\" x\"}"},
        {"cmd='run -e \"DB_PASSWORD=hopar of the page\" x'", "cmd='run -e \"DB_PASSWORD=<secret:named>\" x'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
}

static int learn_variable(struct redactor *r, const char *name, const char *value)
{
    char entry[80];
    (void)snprintf(entry, sizeof entry, "%s=%s", name, value);
    return redactor_learn_arguments(r, (const char *const[]){entry, NULL});
}

/* ... also as JSON, an address or HTML spells it. */
static void test_values_are_known_in_other_spellings(void **state)
{
    (void)state;
    static const char value[] = "Tu&lip= 77\"ri/des\\9";
    static const char *const spelled[] = {"Tu&lip= 77\\\"ri/des\\\\9",     "Tu&lip= 77\\\"ri\\/des\\\\9",
                                          "Tu&lip= 77\\\\\\\"ri/des\\\\\\\\9", "Tu%26lip%3D%2077%22ri%2Fdes%5C9",
                                          "Tu%26lip%3D+77%22ri%2Fdes%5C9",   "Tu&amp;lip= 77&quot;ri/des\\9"};
    for (size_t i = 0; i < sizeof spelled / sizeof spelled[0]; i++) {
        char text[120];
        struct redactor *r = redactor_new();
        assert_int_equal(learn_variable(r, "SMTP_PASSWORD", value), 0);
        (void)snprintf(text, sizeof text, "loss is %s and done", spelled[i]);
        char *out = redacted(r, text);
        assert_string_equal(out, "loss is <secret:named> and done");
        free(out);
        redactor_free(r);
    }
}

/* Between the name of a secret and its sign stands which one it is: as text, in JSON and in HTML. */
static void test_qualified_names(void **state)
{
    (void)state;
    static const char hex[] = "8f7e6d5c4b3a29180f1e2d3c4b5a69788f7e6d5c4b3a29180f1e2d3c4b5a6978";
    static const char *const forms[] = {
        "master key (hex) = %s",       "encryption key (AES-256): %s",   "decryption key (32 bytes): %s", "key [hex]: %s",
        "token (staging): %s",         "token (\"prod\"): %s",           "password (old): %s",            "Secret (optional)? %s",
        "{\"a\":\"key (\\\"x\\\"): %s\"}", "api key (&quot;prod&quot;): %s", "token&lt;prod&gt;: %s",         "token\\u003cprod\\u003e: %s",
        "token<prod>: %s",             "token{prod}=%s",                 "token, prod: %s",               "token #2: %s",
        "token 2/3: %s",               "&quot;pwd (old)&quot;: &quot;%s&quot;",
    };
    static const char *const facts[] = {
        "tokens (prompt): 512",           "key (shape): torch.float16",    "token (id 128001): </s>",
        "password (required): yes",       "secret (optional)?",            "keys [0]: model.layers.0.weight",
        "Unexpected key(s): model.bias",  "missing key (model.lm_head): torch.Size",
        "cache key (sha256): 8f7e6d5c4b3a29180f1e2d3c4b5a69788f7e6d5c4b3a29180f1e2d3c4b5a6978",
    };
    char text[200];
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct redactor *r = redactor_new();
        snprintf(text, sizeof text, forms[i], hex);
        RC_AUTO_FREE char *out = redacted(r, text);
        if (strstr(out, "8f7e") != NULL)
            fail_msg("%s", out);
        redactor_free(r);
    }
    struct redactor *r = redactor_new();
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        RC_AUTO_FREE char *out = redacted(r, facts[i]);
        assert_string_equal(out, facts[i]);
    }
    redactor_free(r);
}

/* A secret that a text announces is known in other spellings, too. */
static void test_found_secrets_are_known_in_json(void **state)
{
    (void)state;
    static const char text[] = "db_password = ab7Cd/Ef9hIjK/2LmNo\nsent {\"x\":\"ab7Cd\\/Ef9hIjK\\/2LmNo\"}";
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_learn(r, text, strlen(text)), 0);
    char *out = redacted(r, text);
    assert_null(strstr(out, "Ef9hIjK"));
    free(out);
    redactor_free(r);
}

/* A word stands for what programs make of it. Names of people do not end so. */
static void test_forms_of_words(void **state)
{
    (void)state;
    static const char *const known[] = {"all tokenwise steps", "a finalised buffer", "two quantises failed", "the cardinalities differ"};
    static const char *const names[] = {"ask Denise about it", "ask Elinor about it", "ask Brunetise about it"};
    struct redactor *r = redactor_new();
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char *out = redacted(r, known[i]);
        assert_string_equal(out, known[i]);
        free(out);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *out = redacted(r, names[i]);
        assert_string_equal(out, i == 0 ? "ask <user1> about it" : i == 1 ? "ask <user2> about it" : "ask <user3> about it");
        free(out);
    }
    redactor_free(r);
}

/* A frame of a library of nobody here keeps its function. One's own package, a file that a product does not have, and the values
 * of arguments do not. */
static void test_frames_of_public_libraries(void **state)
{
    (void)state;
    static const char *const stay[] = {
        "#3  0x00007f11 in zwirbelFill<float> () from /opt/rocm-7.1.0/lib/librocblas.so.5",
        "frame #4: at::native::zwirbel(at::Tensor const&) + 0x2d (0x7f2b in /x/lib/python3.12/site-packages/torch/lib/libtorch.so)",
        "  File \"/x/lib/python3.12/site-packages/torch/nn/modules/module.py\", line 8, in zwirbel_hook\n    return zwirbel_head(x)\n",
    };
    static const char *const go[] = {
        "#3  0x00007f11 in zwirbelFill<float> () from /usr/local/lib/libx.so.5",
        "#3  0x00007f11 in strlen (s=0x7f <zwirbel_text>) from /usr/lib/libc.so.6",
        "frame #4: zwirbel::fill() + 0x2d (0x7f2b in /x/lib/python3.12/site-packages/goldfinch/_C.so)",
        "  File \"/x/lib/python3.12/site-packages/goldfinch/module.py\", line 8, in zwirbel_hook\n    return zwirbel_head(x)\n",
        "  File \"/x/lib/python3.12/site-packages/vllm/models/osprey.py\", line 8, in zwirbel_hook\n    return zwirbel_head(x)\n",
        "  File \"/x/lib/python3.12/site-packages/torch/nn/modules/module.py\", line 8, in x\n    return y(x)\nzwirbel_head: bad\n",
    };
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++) {
        struct redactor *r = redactor_new();
        char *out = redacted(r, stay[i]);
        assert_string_equal(out, stay[i]);
        free(out);
        redactor_free(r);
    }
    for (size_t i = 0; i < sizeof go / sizeof go[0]; i++) {
        struct redactor *r = redactor_new();
        char *out = redacted(r, go[i]);
        assert_null(strstr(out, "zwirbel"));
        free(out);
        redactor_free(r);
    }
}

/* ... and it is hidden where a program prints it. */
static void test_values_are_learned_whole(void **state)
{
    (void)state;
    static const char *const values[] = {"longer secret pass phrase", "x'tail0fit99", "a+b/c=9xYz", "ab\"c1dEfg", "tr&il<ing>9", "$ecret Word9"};
    static const char *const others[][2] = {
        {"SMTP_PASSWORD", "carpets"}, {"SMTP_PASSWORD", "20261129"}, {"SMTP_PASSWORD", "${HOME_OF_9}"}, {"GREETING", "good morning 99"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[80];
        struct redactor *r = redactor_new();
        assert_int_equal(learn_variable(r, "SMTP_PASSWORD", values[i]), 0);
        (void)snprintf(text, sizeof text, "loss is %s and done", values[i]);
        char *out = redacted(r, text);
        assert_string_equal(out, "loss is <secret:named> and done");
        free(out);
        redactor_free(r);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char text[80];
        struct redactor *r = redactor_new();
        assert_int_equal(learn_variable(r, others[i][0], others[i][1]), 0);
        (void)snprintf(text, sizeof text, "loss is %s and done", others[i][1]);
        char *out = redacted(r, text);
        assert_null(strstr(out, "<secret"));
        free(out);
        redactor_free(r);
    }
}

/* Seconds of CPU for an object, or a list, of so many members: how it opens, each one before and after its number, how it ends. */
static double seconds_of_members(const char *const row[4], int count)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, row[0]);
    for (int i = 0; i < count; i++)
        buf_printf(&text, "%s%s%d%s", i > 0 ? "," : "", row[1], i, row[2]);
    buf_puts(&text, row[3]);
    struct redactor *r = redactor_new();
    cJSON *doc = cJSON_Parse(buf_str(&text));
    assert_non_null(doc);
    clock_t begin = clock();
    assert_int_equal(redact_json(r, doc, NULL), 0);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    cJSON_Delete(doc);
    redactor_free(r);
    buf_release(&text);
    return seconds;
}

/* Sixteen times as many members take some sixteen times as long, not 256 times: a stranger makes the object. */
static void test_json_of_many_members(void **state)
{
    (void)state;
    static const char *const rows[][4] = {
        {"{", "\"k", "\":1", "}"},
        {"{\"name\":\"x\",", "\"value\":\"abc", "\"", "}"},
        {"[", "\"a", "@example.org\"", "]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double few = seconds_of_members(rows[i], 2500);
        double many = seconds_of_members(rows[i], 40000);
        print_message("%s: %.3f and %.3f s\n", rows[i][1], few, many);
        assert_true(many < 70 * few + 0.5);
    }
}

/* A secret that is learned from one word of a list is hidden everywhere. While it learns, the findings of several rules overlap
 * and stand in the order of the rules: each word comes first once. */
static void test_json_is_learned(void **state)
{
    (void)state;
    static const char *const words[] = {"https://joe:Xq7vPw2LmZ@git.example.org/a", "AKIAQ3E5GT7YHU9IJK2M", "--seed", "17", "--token",
                                        "ghp_EWbS4HAE56yUhQqg0e7N1ygQdvpSfF5PH5nL", "--password=T9kfWq3zRb8", "AKIAZ3E5GT7YHU9IJK2X"};
    static const char *const secrets[] = {"Xq7vPw2LmZ", "AKIAQ3E5GT7YHU9IJK2M", "ghp_EWbS4HAE56yUhQqg0e7N1ygQdvpSfF5PH5nL", "T9kfWq3zRb8",
                                          "AKIAZ3E5GT7YHU9IJK2X"};
    const size_t count = sizeof words / sizeof *words;
    for (size_t first = 0; first < count; first++) {
        struct redactor *r = redactor_new();
        cJSON *doc = cJSON_CreateArray();
        for (size_t i = 0; i < count; i++)
            assert_true(cJSON_AddItemToArray(doc, cJSON_CreateString(words[(first + i) % count])));
        assert_int_equal(redactor_learn_json(r, doc), 0);
        for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
            RC_AUTO_FREE char *out = redacted(r, secrets[i]);
            assert_null(strstr(out, secrets[i]));
        }
        cJSON_Delete(doc);
        redactor_free(r);
    }
}

/* Machines of the same site get different pseudonyms, and no real name is shown. */
/* Such a line is one that names somebody; on other lines these rules find nothing. */
static void test_records(void **state)
{
    static const char *const rows[][2] = {
        {"bay 48213 for ada@heron.example", "bay <account1> for <email1>"},
        {"bay 48213 for nobody", NULL},
        {"ada@heron.example: tried to allocate 2048 MiB at 0x7f3a12345678 in train.py:1284 after 1200 steps, pid 4711",
         "<email1>: tried to allocate 2048 MiB at 0x7f3a12345678 in train.py:1284 after 1200 steps, pid 4711"},
        {"2026-01-07 10:00:00,123 ada@heron.example on gfx1100 and MI300X: torch 2.11.0 loss 0.2231 took 1204ms, status 500",
         "2026-01-07 10:00:00,123 <email1> on gfx1100 and MI300X: torch 2.11.0 loss 0.2231 took 1204ms, status 500"},
        {"ada@heron.example: Xid (PCI:0000:c1:00): 31, uid=1000 max_model_len=32768 [::1]:50051 version 2023.3",
         "<email1>: Xid (PCI:0000:c1:00): 31, uid=1000 max_model_len=32768 [::1]:50051 version 2023.3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1] != NULL ? rows[i][1] : rows[i][0]);
        redactor_free(r);
    }
}

/* Other lines stand between the rows of a table, and the last cell of a row may be empty. */
static void test_lines_between_rows(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"patient_id,loss,lr\n7000001,0.5,0.1\n\n7000002,0.5,0.1\nWARNING: something,else\n7000003,0.6,\n",
         "patient_id,loss,lr\n<account1>,0.5,0.1\n\n<account2>,0.5,0.1\nWARNING: something,else\n<account3>,0.6,\n"},
        {"adm_no  x   marks\n7741    31  61\n\nTraceback (most recent call last):\n7752    32  60\n",
         "adm_no  x   marks\n<account1>    31  61\n\nTraceback (most recent call last):\n<account2>    32  60\n"},
        {"JobID  NodeList\n------ --------\n   441 gcn14\n\nsrun: warning\n   442 gcn15\n",
         "JobID  NodeList\n------ --------\n   441 <host1>\n\nsrun: warning\n   442 <host2>\n"},
        {"student,mark,room\nAl Frost,0.5,0.1\n\nstep 12, loss 0.31, rate 0.1\n",
         "student,mark,room\n<user1>,0.5,0.1\n\nstep 12, loss 0.31, rate 0.1\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redactor *r = redactor_new();
        RC_AUTO_FREE char *out = redacted(r, rows[i][0]);
        assert_string_equal(out, rows[i][1]);
        redactor_free(r);
    }
    struct buf far = BUF_INIT; /* the table has ended */
    buf_puts(&far, "patient_id,loss,lr\n7000001,0.5,0.1\n");
    for (int i = 0; i < 100; i++)
        buf_puts(&far, "epoch done\n");
    buf_puts(&far, "7000002,0.5,0.1\n");
    struct redactor *r = redactor_new();
    RC_AUTO_FREE char *out = redacted(r, buf_str(&far));
    assert_null(strstr(out, "7000001"));
    assert_non_null(strstr(out, "7000002"));
    redactor_free(r);
    buf_release(&far);
}

/* `every`: each so many columns are hidden. */
static void check_wide_table(size_t columns, size_t every)
{
    struct buf table = BUF_INIT;
    for (size_t i = 0; i < columns; i++)
        buf_printf(&table, "%s%s", i > 0 ? "," : "", i % every == every - 1 ? "patient_id" : "loss");
    for (size_t row = 0; row < 3; row++)
        for (size_t i = 0; i < columns; i++)
            buf_printf(&table, "%s%s%zu", i > 0 ? "," : "\n", i % every == every - 1 ? "7000" : "0.", i % 10);
    struct redactor *r = redactor_new();
    RC_AUTO_FREE char *out = redacted(r, buf_str(&table));
    assert_null(strstr(out, "7000"));
    assert_int_equal(redactor_count(r, REDACT_ACCOUNT), 3 * (columns / every));
    assert_non_null(strstr(out, "0.0,0.1,"));
    redactor_free(r);
    buf_release(&table);
}

static void test_wide_tables(void **state)
{
    (void)state;
    check_wide_table(40, 4);
    check_wide_table(70, 4);
    check_wide_table(400, 4); /* more columns with names than cells that were looked at */
    check_wide_table(6000, 5000);
}

static void test_a_name_in_camel_case_is_no_host(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    RC_AUTO_FREE char *out = redacted(r, "source instance: InsufficientInstanceCapacity: Call to cuMemcpyDtoH results in x");
    assert_string_equal(out, "source instance: InsufficientInstanceCapacity: Call to cuMemcpyDtoH results in x");
    redactor_free(r);
}

static void test_an_error_code_is_no_name(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    RC_AUTO_FREE char *out = redacted(r, "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR");
    assert_string_equal(out, "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR");
    redactor_free(r);
}

static void test_own_domain(void **state)
{
    (void)state;
    struct redactor *r = redactor_new();
    assert_int_equal(redactor_add_domain(r, "hpc.example.org"), 0);
    assert_int_equal(redactor_add_domain(r, "local"), 0);
    assert_int_equal(redactor_add(r, REDACT_USER, "Erika Mustermann"), 0);
    RC_AUTO_FREE char *out =
        redacted(r, "on node7.hpc.example.org, node8.HPC.example.org: local, by Erika Mustermann");
    assert_string_equal(out, "on <host2>, <host3>: local, by <user1>");
    redactor_free(r);
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

/* Bytes of all values, NULs, and a text that is cut at every place inside a pattern. */
static void test_garbage(void **state)
{
    (void)state;
    static const char text[] = "a://b:c@d -----BEGIN X PRIVATE KEY----- eyJabcdefgh.ijklmnopqr "
                               "--token\0x1234567890 fe80::1:2 52:54:00:12:34:56 Serial Number: "
                               "123456 hf_0123456789012345678901 /home/x 10.0.0.1 a@b.cd password=";
    struct redactor *r = new_redactor();
    for (size_t n = 0; n < sizeof text; n++) {
        char *exact = malloc(n + 1); /* its own block, so that ASan sees a read past the end */
        memcpy(exact, text, n);
        char *tight = realloc(exact, n > 0 ? n : 1);
        struct buf out = BUF_INIT;
        assert_int_equal(redact_text(r, tight, n, &out), 0);
        buf_release(&out);
        free(tight);
    }
    random_seed(12345);
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

static double cpu_s_of(struct redactor *r, const char *piece)
{
    static char text[512 * 1024];
    size_t n = strlen(piece);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = piece[i % n];
    struct buf out = BUF_INIT;
    clock_t start = clock();
    assert_int_equal(redact_text(r, text, sizeof text, &out), 0);
    double cpu_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    buf_release(&out);
    return cpu_s;
}

/* A program's output must not make its bundle slow: twice the text may take twice the time. */
static void test_no_text_is_much_slower_than_another(void **state)
{
    (void)state;
    static const char *const pieces[] = {"['a", "['a', '", "['a', '-", "\\", "\x1b[1;", "\\u00", "a@",
                                         "{\"a\":\"", "/home/a", "token=", "1.", "'", "&#", "=\n"};
    struct redactor *r = new_redactor();
    double plain_s = cpu_s_of(r, "a line of text\n");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        double cpu_s = cpu_s_of(r, pieces[i]);
        if (cpu_s > 0.25 + 20 * plain_s)
            fail_msg("\"%s\" takes %.2f s, plain text %.3f s", pieces[i], cpu_s, plain_s);
    }
    redactor_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples), cmocka_unit_test(test_json_hides_secrets_whole), cmocka_unit_test(test_arguments_as_a_whole),
        cmocka_unit_test(test_scripts_in_arguments), cmocka_unit_test(test_arguments_beside_others), cmocka_unit_test(test_values_are_learned_whole), cmocka_unit_test(test_values_are_known_in_other_spellings), cmocka_unit_test(test_found_secrets_are_known_in_json), cmocka_unit_test(test_forms_of_words), cmocka_unit_test(test_frames_of_public_libraries),
        cmocka_unit_test(test_projects_below_an_unusual_home),
        cmocka_unit_test(test_facts_stay), cmocka_unit_test(test_qualified_names),
        cmocka_unit_test(test_characters_that_nobody_sees),
        cmocka_unit_test(test_names_that_are_words),
        cmocka_unit_test(test_parts_of_a_program),
        cmocka_unit_test(test_what_is_said_again),
        cmocka_unit_test(test_a_user_in_a_program),
        cmocka_unit_test(test_a_file_in_another_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_keys),
        cmocka_unit_test(test_public_symbols),
        cmocka_unit_test(test_a_public_symbol_is_looked_for_nearby),
        cmocka_unit_test(test_json_of_names_and_values),
        cmocka_unit_test(test_lines_of_json_stay_json),
        cmocka_unit_test(test_json_of_many_members),
        cmocka_unit_test(test_json_is_learned),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_lines_between_rows),
        cmocka_unit_test(test_wide_tables),
        cmocka_unit_test(test_a_name_in_camel_case_is_no_host),
        cmocka_unit_test(test_an_error_code_is_no_name),
        cmocka_unit_test(test_own_domain),
        cmocka_unit_test(test_report_and_machine),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_no_text_is_much_slower_than_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
