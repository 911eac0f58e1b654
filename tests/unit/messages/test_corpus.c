/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collection of labelled reports: every case is parsed, and its plain statements must be found.
 * Skipped where the collection is absent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "diagnose/verdict.h"
#include "fixture_run.h"

#define CORPUS TEST_SHARED_DIR "/corpus/cases.jsonl"

static struct facts *case_facts(const cJSON *json)
{
    struct facts *f = facts_new();
    const cJSON *context = cJSON_GetObjectItem(json, "context");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(json, "stderr"));
    if (text != NULL)
        messages_to_facts(f, text, strlen(text), "stderr");
    text = cJSON_GetStringValue(cJSON_GetObjectItem(json, "dmesg"));
    if (text != NULL)
        kernel_log_to_facts(f, text, strlen(text), "kernel log");
    text = cJSON_GetStringValue(cJSON_GetObjectItem(context, "rocm_smi"));
    if (text != NULL)
        pasted_to_facts(f, text, strlen(text), "rocm-smi");
    return f;
}

static bool has(const struct facts *f, const char *name)
{
    return fixture_fact(f, name) != NULL;
}

/* Text in the case -> fact that must be there. */
static void check_says(const char *id, const char *text, const struct facts *f)
{
    static const struct {
        const char *words, *fact;
    } says[] = {
        {"Tried to allocate", "oom.requested_bytes"},
        {"total capacity", "oom.total_bytes"},
        {"is free.", "oom.free_bytes"},
        {"allocated by PyTorch", "oom.allocated_bytes"},
        {"reserved by PyTorch", "oom.reserved_unallocated_bytes"},
        {"allowed;", "oom.allowed_bytes"},
        {"memory in use. Of", "oom.holder_bytes"},
        {"HIP out of memory", "vendor.amd"},
        {"invalid device function", "msg.invalid_device_function"},
        {"Memory access fault", "msg.memory_access_fault_reason"},
        {"HW Exception", "msg.hw_exception"},
        {"HSA_STATUS_ERROR", "msg.hsa_status"},
        {"cannot open shared object file", "msg.library_missing"},
        {"undefined symbol", "msg.undefined_symbol"},
        {"pinned memory", "msg.pinned_failed"},
        {"page fault (src_id", "kmsg.page_fault"},
        {"mem_info_vram_total", "gpu.0.vram.total_bytes"},
    };
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++)
        if (strstr(text, says[i].words) != NULL && !has(f, says[i].fact))
            fail_msg("%s says '%s' but has no %s", id, says[i].words, says[i].fact);
}

/* A label that follows from the kernel log alone. */
static unsigned check_label(const char *id, const char *label, const struct facts *f)
{
    char first[600];
    static const char *const by_kernel[] = {"page-fault", "gpu-hang", "hw-ras"};
    (void)fixture_value(f, "kmsg.first_bad", first);
    for (size_t i = 0; i < 3; i++)
        if (first[0] != '\0' && strcmp(label, by_kernel[i]) == 0 && strcmp(label, first) != 0)
            fail_msg("%s is %s, the kernel log says %s", id, label, first);
    return first[0] != '\0';
}

static void test_every_case(void **state)
{
    (void)state;
    size_t len;
    unsigned cases = 0, decided = 0, vendor_wrong = 0, vendor_known = 0;
    if (access(CORPUS, R_OK) != 0) {
        print_message("skipped: no collection of reports here\n");
        skip();
    }
    char *text = fixture_read(CORPUS, &len);
    assert_non_null(text);
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        cJSON *json = cJSON_Parse(line);
        assert_non_null(json);
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(json, "id"));
        const char *vendor = cJSON_GetStringValue(cJSON_GetObjectItem(json, "vendor"));
        struct facts *f = case_facts(json);
        static const char *const keys[] = {"stderr", "dmesg"};
        for (size_t i = 0; i < 2; i++) {
            const char *part = cJSON_GetStringValue(cJSON_GetObjectItem(json, keys[i]));
            if (part != NULL)
                check_says(id, part, f);
        }
        decided += check_label(id, cJSON_GetStringValue(cJSON_GetObjectItem(json, "label")), f);
        bool amd = has(f, "vendor.amd"), nvidia = has(f, "vendor.nvidia");
        vendor_known += amd != nvidia;
        vendor_wrong += amd != nvidia && amd != (strcmp(vendor, "amd") == 0);
        facts_free(f);
        cJSON_Delete(json);
        cases++;
    }
    print_message("%u cases, %u with a bad kernel line, vendor said by %u, wrong in %u\n", cases,
                  decided, vendor_known, vendor_wrong);
    assert_true(cases >= 200);
    assert_true(decided >= 19);
    /* two reports: an AMD iGPU beside the NVIDIA card, and a HIP wheel on an NVIDIA machine */
    assert_true(vendor_wrong <= 2);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_case)};
    return cmocka_run_group_tests_name("messages_corpus", tests, NULL, NULL);
}
