/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that were cut: those that are completed, and those that must not change. */
#include "diagnose/text_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void completed(void **state)
{
    static const char *const rows[][2] = {
        /* words of a rule; figures before them stay */
        {"ggml_host_malloc: failed to allocate 1900.00 MiB of pinn", "ed memory: "},
        {"ImportError: libamdhip64.so.7: cannot open shared ob", "ject file"},
        {"[  108.96] [drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Not enough m", "emory for command submission"},
        /* an error code by name and by string, in any case */
        {"ERROR: HIPError(code hipErrorOutOfMemor", "y"},
        {"Callback: Queue aborting with error : HSA_STATUS_ERROR_MEMORY_APER", "TURE_VIOLATION"},
        {"RuntimeError: CUDA error: Uncorrectable EC", "C error encountered"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200], expected[400];
        size_t len = 0;
        strcpy(text, "one\n");
        strcat(text, rows[i][0]);
        strcat(text, "\nthree\n");
        strcpy(expected, "one\n");
        strcat(expected, rows[i][0]);
        strcat(expected, rows[i][1]);
        strcat(expected, "\nthree\n");
        char *out = text_complete(text, strlen(text), &len);
        if (out == NULL)
            fail_msg("not completed: %s", rows[i][0]);
        assert_string_equal(out, expected);
        assert_int_equal(len, strlen(expected));
        free(out);
    }
}

static void left_alone(void **state)
{
    static const char *const rows[] = {
        "RuntimeError: HIP error: invalid",                   /* several codes go on so */
        "the admin says that gromacs was built with",         /* a whole word: not "without" */
        "RuntimeError: HIP error: invalid argument",          /* whole; another code goes on behind it */
        "srun: error: gpu-b03: Exited with exit code 1",      /* a number may end anywhere */
        "ggml_host_malloc: failed to allocate 1900.00",       /* a figure is never added */
        "error: HIPError(code hipErrorOutOfMemory",           /* whole */
        "hipErrorOutOfMemor",                                 /* too short for a line that was cut */
        "an allocation of pinn",                              /* the rest of the message does not stand there */
        "[  108.96] RuntimeError: CUDA error: Uncorrectable EC", /* no words of the kernel */
        "", "\n\n\n", "\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = 0;
        char *out = text_complete(rows[i], strlen(rows[i]), &len);
        if (out != NULL)
            fail_msg("completed: %s", out);
    }
}

static void too_long(void **state)
{
    static const char line[] = "ERROR: HIPError(code hipErrorOutOfMemor\n";
    size_t n = ((size_t)256 << 10) / (sizeof line - 1) + 1, len = 0;
    char *text = malloc(n * (sizeof line - 1));
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * (sizeof line - 1), line, sizeof line - 1);
    assert_null(text_complete(text, n * (sizeof line - 1), &len));
    char *out = text_complete(text, (n - 2) * (sizeof line - 1), &len); /* every line grows */
    assert_non_null(out);
    assert_int_equal(len, (n - 2) * sizeof line);
    free(out);
    free(text);
}

/* A cut at any place, also within a character, adds at most the rest of known words. */
static void garbage(void **state)
{
    char text[600];
    uint32_t seed = 7;
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            static const char letters[] = "hipError out of memory failed to allocate HSA_STATUS_\n\xc3\xa9 0123";
            seed = seed * 1664525u + 1013904223u;
            text[i] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        size_t len = 0;
        char *out = text_complete(text, sizeof text, &len);
        if (out != NULL)
            assert_int_equal(strlen(out), len);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completed),
        cmocka_unit_test(left_alone),
        cmocka_unit_test(too_long),
        cmocka_unit_test(garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
