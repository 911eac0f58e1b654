/* SPDX-License-Identifier: Apache-2.0 */
/* The collectors "software" and "python" over invented trees, wheels and environments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collectors/lib/distinfo.h"
#include "collectors/lib/elf_notes.h"
#include "collectors/lib/procmaps.h"
#include "collectors/lib/rocm_tree.h"
#include "sink.h"

extern const struct collector collector_software;
extern const struct collector collector_python;

static struct collect_out *run(const struct collector *c, const char *maps, const char *const *argv,
                               const char *const *environment, enum collect_status *ret)
{
    static const char *const none[] = {NULL};
    struct collect_ctx ctx = {.run_dir = "",
                              .argv = argv ? argv : none,
                              .cwd = "/",
                              .fds = "",
                              .maps = maps,
                              .environ_at_impact = environment ? environment : none};
    struct collect_out *out = sink_new();
    *ret = c->run(&ctx, out);
    return out;
}

static void map_line(struct buf *maps, const char *path)
{
    static unsigned at = 0x1000;
    buf_printf(maps, "7f%06x000-7f%06x000 r-xp 00000000 fd:01 1234     %s\n", at, at + 1, path);
    at += 2;
}

/* A small ELF file: PT_LOAD over all of it, PT_NOTE with a build-id, PT_DYNAMIC with a soname. */
struct tiny_elf {
    Elf64_Ehdr header;
    Elf64_Phdr programs[3];
    uint32_t note[3];
    char note_name[4];
    unsigned char id[20];
    Elf64_Dyn dynamic[3];
    char strings[32];
};

static void tiny_elf(struct tiny_elf *e, const char *soname)
{
    *e = (struct tiny_elf){.header = {.e_type = ET_DYN,
                                      .e_phoff = offsetof(struct tiny_elf, programs),
                                      .e_phentsize = sizeof(Elf64_Phdr),
                                      .e_phnum = 3}};
    memcpy(e->header.e_ident, ELFMAG, SELFMAG);
    e->header.e_ident[EI_CLASS] = ELFCLASS64;
    e->header.e_ident[EI_DATA] = ELFDATA2LSB;
    e->programs[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = sizeof *e};
    e->programs[1] = (Elf64_Phdr){
        .p_type = PT_NOTE, .p_offset = offsetof(struct tiny_elf, note), .p_filesz = 36};
    e->programs[2] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
                                  .p_offset = offsetof(struct tiny_elf, dynamic),
                                  .p_filesz = sizeof e->dynamic};
    e->note[0] = 4;
    e->note[1] = 20;
    e->note[2] = NT_GNU_BUILD_ID;
    memcpy(e->note_name, "GNU", 4);
    for (int i = 0; i < 20; i++)
        e->id[i] = (unsigned char)(i * 13);
    e->dynamic[0] = (Elf64_Dyn){.d_tag = DT_SONAME, .d_un.d_val = 1};
    e->dynamic[1] =
        (Elf64_Dyn){.d_tag = DT_STRTAB, .d_un.d_ptr = 0x10000 + offsetof(struct tiny_elf, strings)};
    (void)snprintf(e->strings + 1, sizeof e->strings - 1, "%s", soname);
}

static const char *library(const char *path, const char *soname)
{
    struct tiny_elf e;
    tiny_elf(&e, soname);
    write_bytes(path, &e, sizeof e);
    return path;
}

static void test_elf(void **state)
{
    (void)state;
    struct elf_identity id;
    struct tiny_elf e;
    tiny_elf(&e, "libx.so.6");
    const char *path = temp_path("libx.so");
    write_bytes(path, &e, sizeof e);
    assert_int_equal(elf_identify(path, &id), 0);
    assert_string_equal(id.soname, "libx.so.6");
    assert_string_equal(id.build_id, "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7");
    for (size_t len = 0; len < sizeof e; len++) { /* every truncation ends */
        write_bytes(path, &e, len);
        (void)elf_identify(path, &id);
    }
    unsigned seed = 1;
    for (int i = 0; i < 3000; i++) {
        struct tiny_elf mutant = e;
        for (int k = 0; k < 3; k++) {
            seed = seed * 1103515245u + 12345u;
            ((unsigned char *)&mutant)[16 + (seed >> 8) % (sizeof e - 16)] =
                (unsigned char)(seed >> 24);
        }
        write_bytes(path, &mutant, sizeof mutant);
        assert_int_equal(elf_identify(path, &id), 0);
    }
    write_text(path, "#!/bin/sh\n");
    assert_int_equal(elf_identify(path, &id), -ENOEXEC);
    assert_int_equal(elf_identify("/dev/zero", &id), -ENODEV);
}

/* A library that this very program uses, against what its linker wrote. */
static void test_elf_of_a_real_library(void **state)
{
    (void)state;
    Dl_info info;
    struct elf_identity id;
    void *symbol = dlsym(RTLD_DEFAULT, "qsort");
    assert_true(symbol != NULL && dladdr(symbol, &info) != 0);
    if (strstr(info.dli_fname, "libc.so.6") == NULL) {
        print_message("skipped: qsort is in %s\n", info.dli_fname);
        skip();
    }
    assert_int_equal(elf_identify(info.dli_fname, &id), 0);
    assert_string_equal(id.soname, "libc.so.6");
    assert_int_equal(strlen(id.build_id), 40);
}

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t number;
        bool patch;
    } cases[] = {{"6.2.0-66", 60200, true},
                 {"6.2", 60200, false},
                 {"7.0.0rc20250806", 70000, true},
                 {"5.7.1", 50701, true},
                 {"7.10.0a20251020", 71000, true},
                 {"6.2.41133-dd7f95766", 60200, false},
                 {"6.4.1.lw.git1234", 60401, true},
                 {"nonsense", 0, false},
                 {"6", 0, false},
                 {"", 0, false},
                 {"99999.1", 0, false},
                 {"0.1", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rocm_version v = {0};
        int r = rocm_parse_version(cases[i].text, &v);
        assert_int_equal(r, cases[i].number == 0 ? -EINVAL : 0);
        assert_int_equal(v.number, cases[i].number);
        assert_int_equal(v.patch_known, cases[i].patch);
    }
}

static void test_rocm_tree(void **state)
{
    (void)state;
    struct buf maps = BUF_INIT;
    enum collect_status status;
    char id[64];
    write_text(temp_path("opt/rocm-6.2.4/.info/version"), "6.2.4-120\n");
    map_line(&maps,
             library(temp_path("opt/rocm-6.2.4/lib/libamdhip64.so.6.2.60204"), "libamdhip64.so.6"));
    map_line(&maps, library(temp_path("opt/rocm-6.2.4/lib/libhsa-runtime64.so.1.14.60204"),
                            "libhsa-runtime64.so.1"));
    map_line(&maps, "/usr/lib/librocksdb.so.8");
    map_line(&maps, "/usr/lib/rocmcrash/librocmcrash-ledger.so"); /* ours */
    fs_set_sysroot(temp_dir());
    struct collect_out *out = run(&collector_software, buf_str(&maps), NULL, NULL, &status);
    fs_set_sysroot("");
    assert_int_equal(status, COLLECT_OK);
    assert_string_equal(sink_text(out, "software.rocm_version"), "6.2.4");
    assert_int_equal(sink_integer(out, "software.rocm_version_number"), 60204);
    assert_int_equal(sink_integer(out, "software.rocm_runtime_twice"), 0);
    assert_string_equal(sink_text(out, "software.rocm_origin"), "ROCm tree");
    assert_string_equal(sink_text(out, "software.rocm_installed"), "6.2.4-120");
    assert_non_null(sink_missing(out, "software.amdgpu_version"));
    const char *json = sink_file(out, "software.json");
    assert_non_null(strstr(json, "\"libamdhip64.so.6\""));
    assert_non_null(strstr(json, "\"6.2.60204\""));
    (void)snprintf(id, sizeof id, "000d1a27");
    assert_non_null(strstr(json, id));
    assert_null(strstr(json, "rocksdb"));
    assert_null(strstr(json, "librocmcrash")); /* the checkout may be called rocmcrash, too */
    sink_free(out);
    buf_release(&maps);
}

static const char *version_of(const char *path, bool deleted)
{
    static struct rocm_version v;
    return rocm_version_of(path, deleted, &v) == 0 ? v.text : "?";
}

static void test_where_the_version_comes_from(void **state)
{
    (void)state;
    const char *site = "venv/lib/python3.11/site-packages";
    write_text(temp_path("%s/torch/version.py", site),
               "from typing import Optional\n__version__ = '2.5.1+rocm6.2'\ndebug = False\n"
               "cuda: Optional[str] = None\ngit_version = 'a8d6afb5'\n"
               "hip: Optional[str] = '6.2.41133-dd7f95766'\n");
    assert_string_equal(
        version_of(library(temp_path("%s/torch/lib/libamdhip64.so", site), "x"), false), "6.2");
    write_text(temp_path("sdk/site-packages/rocm_sdk_core-7.0.0rc20250806.dist-info/METADATA"),
               "Metadata-Version: 2.1\nName: rocm-sdk-core\nVersion: 7.0.0rc20250806\n");
    assert_string_equal(
        version_of(library(temp_path("sdk/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7"), "x"),
                   false),
        "7.0.0rc20250806");
    write_text(temp_path("conda/conda-meta/rocm-core-6.3.1-h123_0.json"), "{}");
    assert_string_equal(version_of(library(temp_path("conda/lib/libamdhip64.so.6"), "x"), false),
                        "6.3.1");
    /* a folder's name, when .info is missing; a file's name, when the folder says nothing */
    assert_string_equal(
        version_of(library(temp_path("apps/rocm-6.1.2/lib/libamdhip64.so.6"), "x"), false),
        "6.1.2");
    assert_string_equal(version_of(library(temp_path("own/libamdhip64.so.6.0.60002"), "x"), false),
                        "6.0.2");
    assert_string_equal(version_of(library(temp_path("own/libamdhip64.so.6.2.41134"), "x"), false),
                        "6.2");
    assert_string_equal(version_of(library(temp_path("own/libhsa-runtime64.so.1.5.0"), "x"), false),
                        "?");
    /* upgraded while the process ran: the file there now is not the one that ran */
    write_text(temp_path("opt2/rocm/.info/version"), "7.0.0-1");
    const char *old = temp_path("opt2/rocm/lib/libamdhip64.so.6.2.60204");
    assert_string_equal(version_of(old, true), "6.2.4");
    assert_string_equal(version_of(temp_path("opt2/rocm/lib/libamdhip64.so.6"), true), "?");
}

/* No list of releases: a future major version is recognised, wherever it lies. */
static void test_majors_to_come(void **state)
{
    (void)state;
    static const struct {
        const char *file, *version_file, *text, *want;
        enum rocm_origin origin;
    } rows[] = {
        {"fut/opt/rocm-8.1.0/lib/libamdhip64.so.8", NULL, NULL, "8.1.0", ROCM_ORIGIN_TREE},
        {"fut/opt/rocm/lib/libamdhip64.so.10.0.100003", NULL, NULL, "10.0.3", ROCM_ORIGIN_TREE},
        {"fut/opt2/rocm/lib/libamdhip64.so.8", "fut/opt2/rocm/.info/version", "8.0.0-7\n", "8.0.0",
         ROCM_ORIGIN_TREE},
        {"fut/therock-dist-linux/lib/libamdhip64.so.7", "fut/therock-dist-linux/.info/version",
         "7.10.0a20251120\n", "7.10.0a20251120", ROCM_ORIGIN_TREE},
        {"fut/site-packages/_rocm_sdk_core/lib/libhsa-runtime64.so.1",
         "fut/site-packages/rocm_sdk_core-9.2.1.dist-info/METADATA",
         "Metadata-Version: 2.1\nName: rocm-sdk-core\nVersion: 9.2.1\n", "9.2.1",
         ROCM_ORIGIN_SDK_WHEEL},
        {"fut/own/libamdhip64.so.8.3.65001", NULL, NULL, "8.3", ROCM_ORIGIN_OTHER},
        {"fut/own/libhsa-runtime64.so.2.0.0", NULL, NULL, "?", ROCM_ORIGIN_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rocm_place place;
        const char *path = library(temp_path("%s", rows[i].file), "x");
        if (rows[i].version_file != NULL)
            write_text(temp_path("%s", rows[i].version_file), rows[i].text);
        assert_string_equal(version_of(path, false), rows[i].want);
        rocm_place(path, &place);
        assert_int_equal(place.origin, rows[i].origin);
    }
}

/* Debian 13 with experimental: libamdhip64-6 and libamdhip64-7 side by side. */
static void test_two_majors_installed(void **state)
{
    (void)state;
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"/usr/lib/x86_64-linux-gnu/libamdhip64.so.7.2.53211", "7.2.4"},
        {"/usr/lib/x86_64-linux-gnu/libamdhip64.so.6.4.43484", "6.4.3"},
        {"/usr/lib/x86_64-linux-gnu/libamdhip64.so.10.1.90000", "10.1.2"},
        {"/usr/lib/x86_64-linux-gnu/libamdhip64.so.1.0.5", "1.0"}, /* no package: its own name */
        {"/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.18.0", "7.2.4"},
    };
    write_text(temp_path("two/var/lib/dpkg/status"),
               "Package: libamdhip64-6\nStatus: install ok installed\nVersion: 6.4.3-4\n\n"
               "Package: libamdhip64-10\nStatus: install ok installed\nVersion: 10.1.2-1\n\n"
               "Package: libamdhip64-7\nStatus: install ok installed\nVersion: 7.2.4-1~exp2\n\n"
               "Package: libhsa-runtime64-1\nStatus: install ok installed\nVersion: "
               "7.2.4+dfsg-1~exp1\n\n");
    fs_set_sysroot(temp_path("two"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rocm_version v;
        assert_int_equal(rocm_version_of(rows[i].path, false, &v), 0);
        assert_int_equal(strncmp(v.text, rows[i].want, strlen(rows[i].want)), 0);
    }
    /* AMD's package has no major in its name: its version has */
    write_text(temp_path("amd/var/lib/dpkg/status"),
               "Package: hip-runtime-amd\nStatus: install ok installed\nVersion: 6.2.41133.60204-1\n\n"
               "Package: hip-runtime-amd7.0.0\nStatus: install ok installed\nVersion: "
               "7.0.51831.70000-1\n\n");
    fs_set_sysroot(temp_path("amd"));
    assert_string_equal(version_of("/usr/lib/libamdhip64.so.7.0.51831", false), "7.0.51831.70000");
    assert_string_equal(version_of("/usr/lib/libamdhip64.so.6.2.41133", false), "6.2.41133.60204");
    fs_set_sysroot("");
}

static void test_two_runtimes(void **state)
{
    (void)state;
    struct buf maps = BUF_INIT;
    enum collect_status status;
    map_line(&maps, temp_path("opt/rocm-6.2.4/lib/libamdhip64.so.6.2.60204"));
    map_line(&maps, temp_path("venv/lib/python3.11/site-packages/torch/lib/libamdhip64.so"));
    struct collect_out *out = run(&collector_software, buf_str(&maps), NULL, NULL, &status);
    assert_int_equal(sink_integer(out, "software.rocm_runtime_twice"), 1);
    assert_non_null(strstr(sink_file(out, "software.json"), "two_runtimes_mapped"));
    sink_free(out);
    buf_release(&maps);
}

static void test_no_runtime(void **state)
{
    (void)state;
    enum collect_status status;
    struct collect_out *out = run(&collector_software, "", NULL, NULL, &status);
    assert_int_equal(status, COLLECT_PARTIAL);
    assert_string_equal(sink_missing(out, "software.rocm_version"),
                        "the mappings of the failed process are not known");
    sink_free(out);
    char *maps = NULL; /* this very process: no ROCm, but a C library */
    assert_true(fs_read_all("/proc/self/maps", 4u << 20, &maps) > 0);
    out = run(&collector_software, maps, NULL, NULL, &status);
    assert_int_equal(status, COLLECT_OK);
    assert_non_null(sink_missing(out, "software.rocm_version"));
    assert_null(sink_text(out, "software.rocm_origin"));
    const char *libc = sink_text(out, "software.libc");
    assert_true(libc != NULL && (strncmp(libc, "glibc 2.", 8) == 0 || strcmp(libc, "musl") == 0));
    sink_free(out);
    free(maps);
}

static void test_dpkg_and_driver(void **state)
{
    (void)state;
    enum collect_status status;
    write_text(
        temp_path("m/var/lib/dpkg/status"),
        "Package: rocm-core\nStatus: install ok installed\nVersion: 6.2.4.60204-120~22.04\n\n"
        "Package: hipblas\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: bash\nStatus: install ok installed\nVersion: 5\n\n"
        "Package: libdrm-amdgpu1\nStatus: install ok installed\nDescription: x\n y\nVersion: "
        "2.4.114-1\n");
    write_text(temp_path("m/sys/module/amdgpu/version"), "6.8.5\n");
    fs_set_sysroot(temp_path("m"));
    struct collect_out *out = run(&collector_software, "", NULL, NULL, &status);
    fs_set_sysroot("");
    const char *json = sink_file(out, "software.json");
    assert_string_equal(sink_text(out, "software.amdgpu_version"), "6.8.5");
    assert_string_equal(sink_text(out, "software.libdrm_version"), "2.4.114-1");
    assert_non_null(strstr(json, "6.2.4.60204-120~22.04"));
    assert_null(strstr(json, "hipblas"));
    assert_null(strstr(json, "bash"));
    sink_free(out);
}

static void test_maps_lines(void **state)
{
    (void)state;
    const char *text = "garbage\n"
                       "7f0000000000-7f0000001000 r-xp 00002000 fd:01 1835045     /a b/lib.so\n"
                       "7f0000001000-7f0000002000 rw-p 00000000 00:00 0           [anon:x/y]\n"
                       "7f0000002000-7f0000003000 r--p 00000000 08:02 42 /tmp/x\\012y (deleted)\n"
                       "7f0000003000-7f00 r--p";
    struct procmaps_entry e;
    assert_true(procmaps_next(&text, &e));
    assert_string_equal(e.path, "/a b/lib.so");
    assert_int_equal(e.offset, 0x2000);
    assert_int_equal(e.inode, 1835045);
    assert_false(e.deleted);
    assert_true(procmaps_next(&text, &e));
    assert_string_equal(e.path, "/tmp/x\ny");
    assert_true(e.deleted);
    assert_int_equal(e.dev_major, 8);
    assert_false(procmaps_next(&text, &e));
}

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
    package(site, "vllm-0.6.0.dist-info", ""); /* unreadable metadata: the folder's name is left */
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
    struct collect_out *out = run(&collector_python, "", argv, env, &status);
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
    struct collect_out *out = run(&collector_python, buf_str(&maps), NULL, env, &status);
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
    struct collect_out *out = run(
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

static int teardown(void **state)
{
    (void)state;
    temp_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elf),
        cmocka_unit_test(test_elf_of_a_real_library),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_rocm_tree),
        cmocka_unit_test(test_where_the_version_comes_from),
        cmocka_unit_test(test_majors_to_come),
        cmocka_unit_test(test_two_majors_installed),
        cmocka_unit_test(test_two_runtimes),
        cmocka_unit_test(test_no_runtime),
        cmocka_unit_test(test_dpkg_and_driver),
        cmocka_unit_test(test_maps_lines),
        cmocka_unit_test(test_python_venv),
        cmocka_unit_test(test_python_by_maps_and_conda),
        cmocka_unit_test(test_python_first_folder_wins),
        cmocka_unit_test(test_not_python),
        cmocka_unit_test(test_version_py_odd),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
