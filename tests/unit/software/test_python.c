/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "python" on made-up environments: packages, versions, and processes that are not Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "collectors/lib/distinfo.h"
#include "sink.h"
#include "software_input.h"

extern const struct collector collector_python;

static void package(const char *site, const char *folder, const char *metadata)
{
    write_text(temp_path("%s/%s/METADATA", site, folder), metadata);
}

static void test_python_venv(void **state)
{
    (void)state;
    const char *site = "pv/lib/python3.11/site-packages";
    char environment[256];
    enum collect_status status;
    write_text(temp_path("pv/pyvenv.cfg"),
               "home = /nowhere/bin\ninclude-system-site-packages = false\n"
               "version = 3.11.7\n");
    write_text(temp_path("pv/bin/python"), "");
    package(site, "torch-2.5.1+rocm6.2.dist-info",
            "Metadata-Version: 2.1\r\nName: torch\r\nVersion: 2.5.1+rocm6.2\r\n\r\nName: no\r\n");
    package(site, "Flash_Attn-2.6.3.dist-info", "Name: Flash_Attn\nVersion: 2.6.3\n");
    write_text(
        temp_path("%s/Flash_Attn-2.6.3.dist-info/direct_url.json", site),
        "{\"url\": \"https://user:token@host/x\", \"vcs_info\": {\"commit_id\": \"abcdef0123\"}}");
    write_text(temp_path("%s/Flash_Attn-2.6.3.dist-info/INSTALLER", site), "uv");
    package(site, "mine-0.1.dist-info", "Name: mine\nVersion: 0.1\n");
    write_text(temp_path("%s/mine-0.1.dist-info/direct_url.json", site),
               "{\"dir_info\": {\"editable\": true}, \"url\": \"file:///x\"}");
    package(site, "vllm-0.6.0.dist-info", ""); /* unreadable metadata: only the folder's name is known */
    write_text(temp_path("%s/old-1.2.egg-info/PKG-INFO", site), "Name: old\nVersion: 1.2\n");
    write_text(temp_path("%s/file-3.egg-info", site), "Name: file\nVersion: 3\n");
    package(site, "~orch-2.4.dist-info", "Name: torch\nVersion: 2.4\n");
    package(site, "broken.dist-info", "Nothing\n");
    write_text(temp_path("%s/torch/version.py", site),
               "__version__ = '2.5.1+rocm6.2'\ndebug = False\ncuda: Optional[str] = None\n"
               "git_version = 'a8d6afb511a69687'\nhip: Optional[str] = '6.2.41133-dd7f95766'\n");
    (void)snprintf(environment, sizeof environment, "PATH=/nonexistent:%s", temp_path("pv/bin"));
    assert_int_equal(chmod(temp_path("pv/bin/python"), 0755), 0);
    const char *const argv[] = {"python", "train.py", NULL};
    const char *const env[] = {environment, "HOME=/nonexistent", NULL};
    struct collect_out *out = run_collector(&collector_python, "", argv, env, &status);
    assert_int_equal(status, COLLECT_PARTIAL); /* broken.dist-info */
    assert_string_equal(sink_text(out, "software.python_version"), "3.11.7");
    assert_string_equal(sink_text(out, "software.python_kind"), "venv");
    assert_string_equal(sink_text(out, "software.torch_version"), "2.5.1+rocm6.2");
    assert_string_equal(sink_text(out, "software.torch_hip_version"), "6.2.41133-dd7f95766");
    assert_non_null(sink_missing(out, "software.torch_cuda_version"));
    assert_string_equal(sink_text(out, "software.torch_git_version"), "a8d6afb511a69687");
    assert_string_equal(sink_text(out, "software.vllm_version"), "0.6.0");
    assert_string_equal(sink_text(out, "software.flash_attn_version"), "2.6.3");
    assert_string_equal(sink_file(out, "requirements.txt"),
                        "file==3\nflash-attn==2.6.3\nmine==0.1  # editable\nold==1.2\n"
                        "torch==2.5.1+rocm6.2\nvllm==0.6.0\n");
    assert_null(strstr(sink_file(out, "packages.json"), "token"));
    assert_non_null(strstr(sink_file(out, "packages.json"), "abcdef0123"));
    sink_free(out);
}

static void test_python_by_maps_and_conda(void **state)
{
    (void)state;
    struct buf maps = BUF_INIT;
    enum collect_status status;
    const char *site = "envs/ml/lib/python3.10/site-packages";
    write_text(temp_path("envs/ml/conda-meta/python-3.10.14-h955ad1f_1.json"), "{}");
    write_text(temp_path("envs/ml/conda-meta/pytorch-2.4.0-cpu_generic_py310_1.json"), "{}");
    write_text(temp_path("envs/ml/conda-meta/history"), "");
    package(site, "numpy-1.26.4.dist-info", "Name: numpy\nVersion: 1.26.4\n");
    write_text(temp_path("envs/ml/bin/python3.10"), "");
    map_line(&maps, temp_path("envs/ml/bin/python3.10"));
    map_line(&maps, temp_path("%s/numpy/core/_multiarray_umath.so", site));
    const char *const env[] = {"VIRTUAL_ENV=/elsewhere", "PYTHONNOUSERSITE=1", NULL};
    struct collect_out *out = run_collector(&collector_python, buf_str(&maps), NULL, env, &status);
    assert_int_equal(status, COLLECT_OK);
    assert_string_equal(sink_text(out, "software.python_version"), "3.10.14");
    assert_string_equal(sink_text(out, "software.python_kind"), "conda");
    assert_string_equal(sink_text(out, "software.torch_version"), "2.4.0");
    assert_string_equal(sink_text(out, "software.numpy_version"), "1.26.4");
    assert_string_equal(sink_file(out, "conda.txt"), "python=3.10.14\npytorch=2.4.0\n");
    assert_string_equal(sink_file(out, "requirements.txt"), "numpy==1.26.4\n");
    sink_free(out);
    buf_release(&maps);
}

static void test_python_first_folder_wins(void **state)
{
    (void)state;
    struct dist_list list = {0};
    package("s0", "x-1.dist-info", "Name: x\nVersion: 1\n");
    package("s1", "x-2.dist-info", "Name: x\nVersion: 2\n");
    assert_int_equal(dist_scan_site(&list, temp_path("s1/."), 1), 1);
    assert_int_equal(dist_scan_site(&list, temp_path("s0/."), 0), 1);
    dist_list_sort(&list);
    assert_string_equal(dist_find(&list, "x")->version, "1");
    assert_true(list.packages[1].shadowed);
    dist_list_release(&list);
}

static void test_not_python(void **state)
{
    (void)state;
    enum collect_status status;
    char environment[256];
    (void)snprintf(environment, sizeof environment, "PYTHONPATH=%s", temp_path("pv/lib"));
    const char *const env[] = {environment, "VIRTUAL_ENV=/x", NULL};
    const char *const argv[] = {"/usr/bin/llama-cli", NULL};
    struct collect_out *out = run_collector(
        &collector_python, "7f0000000000-7f0000001000 r-xp 00000000 fd:01 5 /usr/bin/llama-cli\n",
        argv, env, &status);
    assert_int_equal(status, COLLECT_SKIPPED);
    assert_non_null(sink_missing(out, "software.python_version"));
    sink_free(out);
}

static void test_version_py_odd(void **state)
{
    (void)state;
    char out[64];
    assert_int_equal(dist_parse_version_py("hip = '6'\n", "hip", out, sizeof out), 1);
    assert_string_equal(out, "6");
    assert_int_equal(dist_parse_version_py("hipx = '6'\n", "hip", out, sizeof out), -ENOENT);
    assert_int_equal(dist_parse_version_py("hip: str = \"7\"", "hip", out, sizeof out), 1);
    assert_int_equal(dist_parse_version_py("hip = None", "hip", out, sizeof out), 0);
    assert_int_equal(dist_parse_version_py("hip = 'never closed\n'", "hip", out, sizeof out),
                     -ENOENT);
    assert_int_equal(dist_parse_version_py("hip", "hip", out, sizeof out), -ENOENT);
    assert_int_equal(dist_parse_version_py("", "hip", out, sizeof out), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_venv),
        cmocka_unit_test(test_python_by_maps_and_conda),
        cmocka_unit_test(test_python_first_folder_wins),
        cmocka_unit_test(test_not_python),
        cmocka_unit_test(test_version_py_odd),
    };
    return cmocka_run_group_tests(tests, NULL, remove_input);
}
