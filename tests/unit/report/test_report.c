/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUMMARY.md and the terminal lines against golden files. After a wanted change:
 *   ROCMCRASH_UPDATE_GOLDEN=1 test_report
 */
#include "tree_fixture.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/internal.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

struct report_case {
    struct tree *tree;
    struct facts *facts;
    struct verdict verdict;
    cJSON *items;
    char *template_text;
    uint64_t values[200];
    struct report_series series;
    struct report_input in;
};

static int set_up(void **state)
{
    struct report_case *c = calloc(1, sizeof(*c));
    cJSON *json = fixture_json("tests/unit/report/case.json");
    c->tree = fixture_tree();
    c->facts = facts_new();
    assert_int_equal(facts_from_json(c->facts, json, NULL), 0);
    cJSON_Delete(json);
    assert_int_equal(diagnose(c->facts, c->tree, &c->verdict, NULL), 0);
    c->items =
        cJSON_Parse("[{\"name\":\"facts\",\"status\":\"collected\"},"
                    "{\"name\":\"kernel log\",\"status\":\"skipped\",\"reason\":\"no rights\"}]");
    c->template_text = fixture_read("templates/summary.md");
    for (size_t i = 0; i < 200; i++)
        c->values[i] = i >= 90 && i < 95 ? UINT64_MAX : (uint64_t)i * 332000000u;
    c->series = (struct report_series){.label = "GPU 0000:c5:00.0 GTT used",
                                       .total_bytes = UINT64_C(67151813673),
                                       .count = 200,
                                       .values = c->values,
                                       .duration_ms = 93211};
    c->in = (struct report_input){.facts = c->facts,
                                  .verdict = &c->verdict,
                                  .items = c->items,
                                  .series = &c->series,
                                  .series_count = 1,
                                  .command = "python train.py --lr 1e-4",
                                  .bundle_name = "rocmcrash-20261121T030405Z-python-gtt-limit",
                                  .tool_version = "0.0.0",
                                  .template_text = c->template_text};
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    struct report_case *c = *state;
    verdict_release(&c->verdict);
    facts_free(c->facts);
    tree_free(c->tree);
    cJSON_Delete(c->items);
    free(c->template_text);
    free(c);
    return 0;
}

static void compare(const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "tests/unit/report/golden/%s", name);
    if (getenv("ROCMCRASH_UPDATE_GOLDEN") != NULL) {
        char full[4096];
        (void)snprintf(full, sizeof(full), "%s/%s", TEST_SOURCE_DIR, path);
        FILE *f = fopen(full, "w");
        assert_non_null(f);
        (void)fputs(text, f);
        assert_int_equal(fclose(f), 0);
        return;
    }
    char *golden = fixture_read(path);
    if (strcmp(golden, text) != 0) {
        size_t at = 0;
        while (golden[at] != '\0' && golden[at] == text[at])
            at++;
        fail_msg("%s differs at byte %zu: golden '%.80s', now '%.80s'", name, at, golden + at,
                 text + at);
    }
    free(golden);
}

static void summary_is_the_golden_one(void **state)
{
    const struct report_case *c = *state;
    struct buf out = BUF_INIT;
    report_summary(&c->in, &out);
    compare("summary.md", buf_str(&out));
    buf_release(&out);
}

static void summary_fits_a_screen_before_the_path(void **state)
{
    const struct report_case *c = *state;
    struct buf out = BUF_INIT;
    report_summary(&c->in, &out);
    const char *path = strstr(buf_str(&out), "## Why this verdict");
    assert_non_null(path);
    size_t lines = 0;
    for (const char *s = buf_str(&out); s < path; s++)
        lines += *s == '\n';
    assert_in_range(lines, 8, 60);
    buf_release(&out);
}

static void summary_leaves_no_placeholder_and_no_html_of_data(void **state)
{
    const struct report_case *c = *state;
    struct buf out = BUF_INIT;
    report_summary(&c->in, &out);
    assert_null(strstr(buf_str(&out), "{{#"));
    assert_null(strstr(buf_str(&out), "{{/"));
    assert_null(strstr(buf_str(&out), "(template:"));
    /* The program's own words stand in a code span. */
    assert_non_null(strstr(buf_str(&out), "| `expandable_segments:True \\| <script>alert(1)</script> "
                                          "'x' @someone #12` |"));
    assert_null(strstr(buf_str(&out), "(unknown)"));
    buf_release(&out);
}

static void terminal_is_the_golden_one(void **state)
{
    const struct report_case *c = *state;
    struct buf out = BUF_INIT;
    report_terminal(&c->in, "/tmp/x.tar.gz", NULL, &out);
    compare("terminal.txt", buf_str(&out));
    size_t lines = 0;
    for (const char *s = buf_str(&out); *s != '\0'; s = strchr(s, '\n') + 1) {
        assert_int_equal(strncmp(s, "rocmcrash: ", 11), 0);
        lines++;
    }
    assert_in_range(lines, 4, 6);
    buf_release(&out);
}

/* Every line of the chart is one of the five shapes that Mermaid's grammar knows. */
static void flowchart_has_only_known_shapes(void **state)
{
    const struct report_case *c = *state;
    struct buf out = BUF_INIT;
    report_flowchart(&c->verdict, &out);
    char *text = strdup(buf_str(&out));
    char *save = NULL;
    char *line = strtok_r(text, "\n", &save);
    assert_string_equal(line, "flowchart TD");
    while ((line = strtok_r(NULL, "\n", &save)) != NULL) {
        const char *open = strchr(line, '"');
        if (open == NULL) {
            assert_non_null(strstr(line, "-->"));
            continue;
        }
        const char *close = strrchr(line, '"');
        assert_true(close > open);
        assert_null(memchr(open + 1, '"', (size_t)(close - open - 1)));
        assert_true(strcmp(close, "\"]") == 0 || strcmp(close, "\"}}") == 0 ||
                    strcmp(close, "\"]]") == 0 || strcmp(close, "\"])") == 0);
    }
    free(text);
    buf_release(&out);
}

static void unknown_says_what_is_missing(void **state)
{
    const struct report_case *c = *state;
    struct verdict v = {0};
    struct facts *none = facts_new();
    struct buf out = BUF_INIT;
    struct report_input in = c->in;
    assert_int_equal(diagnose(none, c->tree, &v, NULL), 0);
    in.facts = none;
    in.verdict = &v;
    in.items = NULL;
    in.series_count = 0;
    in.command = NULL;
    in.bundle_name = NULL;
    report_summary(&in, &out);
    assert_non_null(strstr(buf_str(&out), "**Missing**"));
    assert_null(strstr(buf_str(&out), "| memory |"));
    buf_release(&out);
    report_terminal(&in, NULL, NULL, &out);
    assert_non_null(strstr(buf_str(&out), "rocmcrash: missing: "));
    buf_release(&out);
    verdict_release(&v);
    facts_free(none);
}

static const char *torch_text(struct buf *out, const char *json)
{
    struct facts *facts = facts_new();
    cJSON *doc = cJSON_Parse(json);
    buf_release(out);
    assert_int_equal(facts_from_json(facts, doc, NULL), 0);
    report_torch(facts, out);
    cJSON_Delete(doc);
    facts_free(facts);
    return buf_str(out);
}

#define FACT(name, value) "{\"name\":\"" name "\",\"value\":" value ",\"when\":\"impact\"}"

static void what_pytorch_knew(void **state)
{
    struct buf out = BUF_INIT;
    (void)state;
    assert_string_equal(torch_text(&out, "{\"format\":1,\"facts\":[]}"), "");
    assert_string_equal(
        torch_text(&out, "{\"format\":1,\"facts\":[" FACT("torch.reserved_bytes", "3221225472") "," FACT(
                             "torch.allocated_bytes", "1073741824") "," FACT("torch.gap_bytes", "524288000") "]}"),
        "- reserved 3.00 GiB, in use 1.00 GiB\n"
        "- the driver counts 500.0 MiB more for this process than PyTorch reserved (context, "
        "libraries, other allocators)\n");
    const char *text = torch_text(
        &out, "{\"format\":1,\"facts\":[" FACT("torch.gap_bytes", "524288000") "," FACT(
                  "torch.gap_steady", "true") "," FACT("torch.gap_growth_bytes", "104857600") "," FACT(
                  "torch.gap_watched_ms", "90000") "," FACT("torch.gap_slope_bytes_per_s", "1165084") ","
                  FACT("f.gap_full_in_min", "7") "," FACT("torch.private_pools_bytes", "0") ","
                  FACT("torch.grown_site", "\"<b>.py:1 f\"") "]}");
    assert_non_null(strstr(text, "grew steadily: 100.0 MiB in 90.0 s, 1.1 MiB/s; at this slope the "
                                 "GPU is full in about 7 min\n"));
    assert_null(strstr(text, "private pools"));
    assert_non_null(strstr(text, "`<b>.py:1`"));
    buf_release(&out);
}

static void what_engines_say(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", ""},
        {"[" FACT("msg.ggml_kv_buffer_bytes", "1073741824") "]", ""},
        {"[" FACT("msg.ggml_model_buffer_bytes", "3221225472") "," FACT("msg.ggml_context_tokens", "8192") "]",
         "- model on the GPU 3.00 GiB; context 8192 tokens\n"},
        {"[" FACT("msg.vllm_weights_bytes", "3221225472") "," FACT("msg.kv_cache_available_bytes", "1073741824") "]",
         "- vLLM: weights 3.00 GiB\n- for the KV cache 1.00 GiB\n"},
        {"[" FACT("f.pool_preallocated", "false") "," FACT("f.pool_bytes", "1073741824") "]", ""},
        {"[" FACT("f.pool_preallocated", "true") "," FACT("f.pool_bytes", "1073741824") "]",
         "- the pool of 1.00 GiB was taken at the start (XLA_PYTHON_CLIENT_PREALLOCATE): this is "
         "neither a leak nor another process\n"},
        /* JAX requested its pool at the start and did not get it. */
        {"[" FACT("f.pool_preallocated", "true") "," FACT("f.pool_bytes", "4294967296") ","
         FACT("jax.limit_bytes", "4294967296") "," FACT("jax.in_use_bytes", "1073741824") ","
         FACT("f.pool_in_use_bytes", "1073741824") ","
         FACT("f.pool_share_percent", "75") "," FACT("f.pool_untaken_bytes", "3221225472") "]",
         "- JAX: 1.00 GiB in use of a pool of 4.00 GiB, 75.0 % of the GPU, 3.00 GiB of it not obtained\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out = BUF_INIT;
        char json[1024];
        struct facts *facts = facts_new();
        (void)snprintf(json, sizeof json, "{\"format\":1,\"facts\":%s}", cases[i].json);
        cJSON *doc = cJSON_Parse(json);
        assert_int_equal(facts_from_json(facts, doc, NULL), 0);
        report_engine(facts, &out);
        assert_string_equal(out.len > 0 ? buf_str(&out) : "", cases[i].text);
        cJSON_Delete(doc);
        facts_free(facts);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(summary_is_the_golden_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(summary_fits_a_screen_before_the_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(summary_leaves_no_placeholder_and_no_html_of_data, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(terminal_is_the_golden_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flowchart_has_only_known_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_says_what_is_missing, set_up, tear_down),
        cmocka_unit_test(what_pytorch_knew),
        cmocka_unit_test(what_engines_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
