/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "models": hashes of real files, their cache, names of model hubs, and the budget of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "collectors/lib/hash.h"
#include "collectors/lib/hash_cache.h"
#include "make_model.h"
#include "models_run.h"
#include "sink.h"

static const char *cached_run(const char *name, struct run *r)
{
    static char from[64];
    *r = (struct run){.argv = {"x", name}, .budget_ms = 10000};
    run_models(r);
    const char *at = strstr(sink_file(r->out, "models.json"), "\"sha256_from\":");
    from[0] = '\0';
    if (at != NULL)
        (void)sscanf(at, "\"sha256_from\": \"%63[^\"]", from);
    return from;
}

static void test_cache(void **state)
{
    (void)state;
    struct run r;
    struct stat st;
    char before[65];
    const char *cache = temp_path("cache/rocmcrash/hashes");
    (void)unlink(cache);
    fill(temp_path("big.safetensors"), 3 * MIB, 7);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    (void)snprintf(before, sizeof before, "%s", sink_text(r.out, "models.0.sha256"));
    sink_free(r.out);
    assert_int_equal(stat(cache, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_memory_equal(cached_run("big.safetensors", &r), "cache", 5);
    assert_string_equal(sink_text(r.out, "models.0.sha256"), before);
    sink_free(r.out);
    /* other contents with the same size and mtime: the inode's ctime shows it */
    fill(temp_path("big.safetensors"), 3 * MIB, 8);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    assert_string_not_equal(sink_text(r.out, "models.0.sha256"), before);
    (void)snprintf(before, sizeof before, "%s", sink_text(r.out, "models.0.sha256"));
    sink_free(r.out);
    /* one flipped digit in the cache: the whole cache is ignored */
    char *text = NULL;
    ssize_t len = fs_read_all(cache, MIB, &text);
    assert_true(len > 0);
    char *digit = strchr(text + 20, '\n') - 3;
    *digit = *digit == '0' ? '1' : '0';
    write_bytes(cache, text, (size_t)len);
    assert_int_equal(chmod(cache, 0600), 0);
    free(text);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    assert_string_equal(sink_text(r.out, "models.0.sha256"), before);
    sink_free(r.out);
    assert_memory_equal(cached_run("big.safetensors", &r), "cache", 5);
    sink_free(r.out);
    assert_int_equal(chmod(cache, 0666), 0); /* another user could have written it */
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    sink_free(r.out);
}

static void test_cache_bounds(void **state)
{
    (void)state;
    struct hash_cache cache;
    struct stat st = {.st_size = 5, .st_mtim = {.tv_sec = 1000}};
    char sum[65];
    hash_memory("x", 1, sum);
    assert_string_equal(sum, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    hash_cache_load(&cache, temp_path("empty"));
    for (unsigned i = 0; i < HASH_CACHE_MAX + 10; i++) {
        st.st_ino = i;
        assert_int_equal(hash_cache_put(&cache, &st, UINT64_C(5000000000000), sum), 0);
    }
    assert_int_equal(cache.count, HASH_CACHE_MAX);
    st.st_ino = 5;
    assert_null(hash_cache_find(&cache, &st)); /* the oldest entry was removed */
    st.st_ino = 11;
    assert_non_null(hash_cache_find(&cache, &st));
    assert_int_equal(hash_cache_put(&cache, &st, UINT64_C(1001000000000), sum), -EAGAIN);
    assert_int_equal(hash_cache_save(&cache, temp_path("full/a/b")), 0);
    struct hash_cache again;
    hash_cache_load(&again, temp_path("full/a/b"));
    assert_int_equal(again.count, HASH_CACHE_MAX);
    assert_non_null(hash_cache_find(&again, &st));
    hash_cache_release(&cache);
    hash_cache_release(&again);
}

static void test_hub_names(void **state)
{
    (void)state;
    char sum[65];
    char target[128];
    char maps[1200];
    const char *snapshot = "hf/hub/models--org--tiny-model/snapshots/0123abc";
    tiny_safetensors(temp_path("plain.safetensors"));
    sha256sum("sha256sum", temp_path("plain.safetensors"), sum, 64);
    tiny_safetensors(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum));
    (void)snprintf(target, sizeof target, "../../blobs/%s", sum);
    assert_int_equal(symlink(target, temp_path("%s/model-1.safetensors", snapshot)), 0);
    /* a blob whose contents do not match its name */
    char wrong[65];
    memcpy(wrong, sum, sizeof wrong);
    wrong[0] = wrong[0] == 'f' ? '0' : 'f';
    tiny_safetensors(temp_path("hf/hub/models--org--tiny-model/blobs/%s", wrong));
    (void)snprintf(target, sizeof target, "../../blobs/%s", wrong);
    assert_int_equal(symlink(target, temp_path("%s/model-2.safetensors", snapshot)), 0);
    /* a small file under its git blob id: `echo hello | git hash-object --stdin` */
    const char *git = "ce013625030ba8dba906f756967f9e9ca394464a";
    write_text(temp_path("hf/hub/models--org--tiny-model/blobs/%s", git), "hello\n");
    (void)snprintf(target, sizeof target, "../../blobs/%s", git);
    assert_int_equal(symlink(target, temp_path("%s/small.gguf", snapshot)), 0);
    write_text(temp_path("hf/hub/models--org--tiny-model/refs/main"), "0123abc");
    char home[256];
    (void)snprintf(home, sizeof home, "HF_HOME=%s", temp_path("hf"));
    (void)snprintf(maps, sizeof maps, "7f0000000000-7f0000100000 r--s 00000000 fd:01 7 %s\n",
                   temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum));
    struct run r = {.argv = {"vllm", "serve", "org/tiny-model"},
                    .environment = {home},
                    .maps = maps,
                    .budget_ms = 5000};
    run_models(&r);
    const char *json = sink_file(r.out, "models.json");
    assert_int_equal(sink_integer(r.out, "models.count"), 3);
    assert_string_equal(sink_text(r.out, "models.0.name_check"), "matches its Hugging Face name");
    assert_int_equal(sink_integer(r.out, "models.name_mismatch_count"), 1);
    assert_memory_equal(sink_text(r.out, "models.1.name_check"), "MISMATCH", 8);
    assert_string_equal(sink_text(r.out, "models.2.name_check"),
                        "matches its Hugging Face name (git blob id)");
    assert_non_null(strstr(json, "\"org/tiny-model\""));
    assert_non_null(strstr(json, "argument 2 (Hugging Face cache)"));
    assert_non_null(strstr(json, "\"0123abc\""));
    sink_free(r.out);
    /* found by its mapping only, the name comes from the snapshot's link */
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum), b.data, b.len);
    buf_release(&b);
    assert_int_equal(truncate(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum), MIB), 0);
    struct run mapped = {.argv = {"python"}, .maps = maps, .budget_ms = 5000};
    run_models(&mapped);
    assert_string_equal(sink_text(mapped.out, "models.0.path"), "model-1.safetensors");
    assert_memory_equal(sink_text(mapped.out, "models.0.name_check"), "MISMATCH", 8);
    sink_free(mapped.out);
}

static void test_git_blob_and_ollama(void **state)
{
    (void)state;
    char sum[65];
    int fd = open(temp_path("four"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "hello\n", 6), 6);
    struct hash_budget budget = {.deadline_mono_ns = UINT64_MAX};
    char blob[41];
    assert_int_equal(hash_file(fd, 6, &budget, sum, blob), 0);
    assert_string_equal(blob, "ce013625030ba8dba906f756967f9e9ca394464a"); /* git's own example */
    (void)close(fd);
    tiny_gguf(temp_path("o"));
    sha256sum("sha256sum", temp_path("o"), sum, 64);
    const char *path = temp_path("models/blobs/sha256-%s", sum);
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(path, b.data, b.len);
    buf_release(&b);
    assert_int_equal(truncate(path, (off_t)MIB), 0); /* large enough to be looked into */
    struct run r = {.argv = {"ollama", "runner", "--model", path}, .budget_ms = 5000};
    run_models(&r);
    assert_int_equal(sink_integer(r.out, "models.count"), 1);
    assert_memory_equal(sink_text(r.out, "models.0.name_check"), "MISMATCH: its Ollama", 20);
    sink_free(r.out);
}

/* Hashing after the budget gets a second. Tried more than once, because the machine may stall. */
static void run_past_budget(struct run *run)
{
    for (int tries = 0; tries < 5; tries++) {
        run_models(run);
        if (sink_text(run->out, "models.0.sha256_of_head_and_tail") != NULL)
            return;
        sink_free(run->out);
    }
    fail_msg("no hash of head and tail in five tries");
}

static void test_budget(void **state)
{
    (void)state;
    char ends[65];
    fill(temp_path("large.safetensors"), 40 * MIB, 3);
    fill(temp_path("small.safetensors"), 2 * MIB, 4);
    /* the first and the last 16 MiB, made by hand */
    char *text = NULL;
    assert_int_equal(fs_read_all(temp_path("large.safetensors"), 64 * MIB, &text), 40 * MIB);
    memmove(text + 16 * MIB, text + 24 * MIB, 16 * MIB);
    hash_memory(text, 32 * MIB, ends);
    free(text);
    struct run r = {.argv = {"x", "large.safetensors", "small.safetensors"}, .budget_ms = 0};
    run_past_budget(&r);
    assert_int_equal(r.status, COLLECT_PARTIAL);
    assert_null(sink_text(r.out, "models.0.sha256"));
    assert_string_equal(sink_missing(r.out, "models.0.sha256"), "sha256 of head+tail only, budget");
    assert_string_equal(sink_text(r.out, "models.0.sha256_of_head_and_tail"), ends);
    assert_non_null(sink_text(r.out, "models.1.sha256")); /* its two ends are the whole file */
    assert_non_null(strstr(sink_file(r.out, "models.json"), "this is not the hash of the file"));
    sink_free(r.out);
    /* a file that was read in part is not in the cache */
    struct run again = {.argv = {"x", "large.safetensors"}, .budget_ms = 10000};
    run_models(&again);
    assert_int_equal(again.status, COLLECT_OK);
    char whole[65];
    sha256sum("sha256sum", temp_path("large.safetensors"), whole, 64);
    assert_string_equal(sink_text(again.out, "models.0.sha256"), whole);
    assert_string_not_equal(whole, ends);
    sink_free(again.out);
}

static void test_sparse_and_huge(void **state)
{
    (void)state;
    int fd = open(temp_path("huge.gguf"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)1 << 40) != 0) {
        (void)close(fd);
        print_message("skipped: no sparse file of 1 TiB here: %s\n", strerror(errno));
        skip();
    }
    (void)close(fd);
    uint64_t start_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct run r = {.argv = {"x", "huge.gguf"}, .budget_ms = 60000};
    run_past_budget(&r);
    /* it gives up as soon as that is clear, not after the budget */
    assert_true(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns < UINT64_C(20000000000));
    assert_non_null(strstr(sink_file(r.out, "models.json"), "\"allocated_bytes\""));
    sink_free(r.out);
    (void)unlink(temp_path("huge.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_bounds),
        cmocka_unit_test(test_hub_names),
        cmocka_unit_test(test_git_blob_and_ollama),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_sparse_and_huge),
    };
    return cmocka_run_group_tests(tests, models_set_up, models_tear_down);
}
