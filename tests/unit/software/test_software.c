/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "software" on made-up trees, wheels and packages. */
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
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collectors/lib/elf_notes.h"
#include "collectors/lib/procmaps.h"
#include "collectors/lib/rocm_tree.h"
#include "sink.h"
#include "software_input.h"

extern const struct collector collector_software;

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

/* A library that this program uses, compared with the linker's output. */
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
    struct collect_out *out = run_collector(&collector_software, buf_str(&maps), NULL, NULL, &status);
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
    /* upgraded while the process ran: the present file is not the one that was loaded */
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
    struct collect_out *out = run_collector(&collector_software, buf_str(&maps), NULL, NULL, &status);
    assert_int_equal(sink_integer(out, "software.rocm_runtime_twice"), 1);
    assert_non_null(strstr(sink_file(out, "software.json"), "two_runtimes_mapped"));
    sink_free(out);
    buf_release(&maps);
}

static void test_no_runtime(void **state)
{
    (void)state;
    enum collect_status status;
    struct collect_out *out = run_collector(&collector_software, "", NULL, NULL, &status);
    assert_int_equal(status, COLLECT_PARTIAL);
    assert_string_equal(sink_missing(out, "software.rocm_version"),
                        "the mappings of the failed process are not known");
    sink_free(out);
    char *maps = NULL; /* this very process: no ROCm, but a C library */
    assert_true(fs_read_all("/proc/self/maps", 4u << 20, &maps) > 0);
    out = run_collector(&collector_software, maps, NULL, NULL, &status);
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
    struct collect_out *out = run_collector(&collector_software, "", NULL, NULL, &status);
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
    };
    return cmocka_run_group_tests(tests, NULL, remove_input);
}
