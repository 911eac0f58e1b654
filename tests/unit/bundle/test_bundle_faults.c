/* SPDX-License-Identifier: Apache-2.0 */
/* The Nth allocation of our code and of cJSON fails, for every N: an error or the right result. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "help.h"

static long fail_at; /* 0 = never; counts down */
static bool failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

static pid_t owner;

/* Not in a child that accesses a file system: libgcov's allocations at its end must not fail. */
static bool fails_now(void)
{
    if (fail_at == 0 || getpid() != owner || --fail_at > 0)
        return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}

static const char *bundle;
static char stage_dir[600];
static char out_dir[600];

static int do_verify(void)
{
    return bundle_verify(bundle, NULL);
}

static int do_read(void)
{
    char *data = NULL;
    ssize_t n = bundle_read_file(bundle, "manifest.json", 1 << 20, &data, NULL);
    free(data);
    return n < 0 ? (int)n : 0;
}

static int do_write(void)
{
    char path[700];
    bool elsewhere = false;
    int r = bundle_write(stage_dir, "w", out_dir, path, sizeof path, &elsewhere, NULL);
    if (r == 0) {
        long was = fail_at; /* judge with memory */
        fail_at = 0;
        assert_false(elsewhere);
        assert_int_equal(bundle_verify(path, NULL), 0);
        fail_at = was;
        assert_int_equal(unlink(path), 0);
    }
    return r;
}

static int do_manifest(void)
{
    struct buf out = BUF_INIT;
    struct manifest *m = manifest_new();
    int r = m == NULL ? -ENOMEM : manifest_add_item(m, "a", COLLECT_OK, NULL, 1);
    if (r == 0)
        r = manifest_set(m, "k", cJSON_CreateString("v"));
    if (r == 0)
        r = manifest_render(m, stage_dir, &out, NULL);
    manifest_free(m);
    buf_release(&out);
    return r;
}

static int change_nothing(void *arg, const char *dir, struct manifest *m, struct rc_err *err)
{
    (void)arg, (void)dir, (void)m, (void)err;
    return 0;
}

static int do_rewrite(void)
{
    return bundle_rewrite(bundle, BUNDLE_MODE_KEPT, change_nothing, NULL, NULL);
}

/* Without memory nothing is written, or only fully redacted text. */
static int do_redact(void)
{
    static const char text[] =
        "USER=marlowe HF_TOKEN=hf_0123456789abcdefghijABCDEFGHIJ0123 at /home/marlowe/x\n"
        "a traceback: \\nhf_0123456789abcdefghijABCDEFGHIJ0123 10.11.12.13\n";
    struct buf out = BUF_INIT;
    struct redactor *redactor = redactor_new();
    cJSON *json = cJSON_CreateString(text);
    int r = redactor == NULL || json == NULL ? -ENOMEM : redactor_learn(redactor, text, sizeof text);
    if (r == 0)
        r = redact_text(redactor, text, sizeof text, &out);
    if (r == 0)
        r = redact_json(redactor, json, NULL);
    if (r == 0) {
        assert_null(strstr(buf_str(&out), "0123456789abc"));
        assert_null(strstr(buf_str(&out), "marlowe"));
        assert_null(strstr(json->valuestring, "0123456789abc"));
    }
    cJSON_Delete(json);
    redactor_free(redactor);
    buf_release(&out);
    return r;
}

static void fail_each(const char *what, int (*run)(void))
{
    long n = 1;
    for (;; n++) {
        failed = false;
        fail_at = n;
        int r = run();
        fail_at = 0;
        assert_true(r == 0 || r == -ENOMEM || r == -EBADMSG || r == -EFBIG);
        if (!failed) {
            assert_int_equal(r, 0);
            break;
        }
        assert_int_equal(bundle_verify(bundle, NULL), 0); /* never damaged */
        assert_int_equal(count_files(out_dir), 0);        /* no partial file */
    }
    print_message("%s: %ld allocations failed in turn\n", what, n - 1);
    assert_true(n > 5);
}

static void test_each(void **state)
{
    (void)state;
    cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
    owner = getpid();
    bundle = make_bundle("faulty");
    (void)snprintf(stage_dir, sizeof stage_dir, "%s", scratch("stage-faulty"));
    (void)snprintf(out_dir, sizeof out_dir, "%s", scratch("out"));
    assert_int_equal(mkdir(out_dir, 0700), 0);
    fail_each("verify", do_verify);
    fail_each("read", do_read);
    fail_each("manifest", do_manifest);
    fail_each("write", do_write);
    fail_each("rewrite", do_rewrite);
    fail_each("redact", do_redact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
