/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/procfs.h"

#include <string.h>

#include "telemetry/keys.h"

/* "  307200 kB" */
static bool parse_kb(struct span value, uint64_t *ret)
{
    struct span unit;
    uint64_t kib = 0;
    if (value.data == NULL || !span_u64_unit(value, &kib, &unit) || !span_equal(unit, "kB") ||
        kib > UINT64_MAX >> 10)
        return false;
    *ret = kib << 10;
    return true;
}

static bool parse_hex(struct span value, uint64_t *ret)
{
    uint64_t bits = 0;
    if (value.data == NULL || value.len == 0 || value.len > 16)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15)
            return false;
        bits = bits << 4 | digit;
    }
    *ret = bits;
    return true;
}

static bool parse_pid(struct span value, int32_t *ret)
{
    uint64_t pid = 0;
    if (!span_u64(value, &pid) || pid > INT32_MAX)
        return false;
    *ret = (int32_t)pid;
    return true;
}

/* "1000\t1000\t1000\t1000" */
static bool parse_uids(struct span value, uint32_t ret[4])
{
    for (int i = 0; i < 4; i++) {
        uint64_t uid = 0;
        struct span rest;
        if (value.data == NULL || !span_u64_unit(value, &uid, &rest) || uid > UINT32_MAX)
            return false;
        ret[i] = (uint32_t)uid;
        value = rest;
    }
    return true;
}

enum value_kind { KIND_KB, KIND_COUNT, KIND_HEX, KIND_PID };

struct status_field {
    const char *key;
    uint32_t have;
    enum value_kind kind;
    size_t offset;
};

#define FIELD(key, have, kind, member) {key, have, kind, offsetof(struct proc_status, member)}
static const struct status_field status_fields[] = {
    FIELD("Tgid", PROC_HAVE_TGID, KIND_PID, tgid),
    FIELD("PPid", PROC_HAVE_PPID, KIND_PID, ppid),
    FIELD("TracerPid", PROC_HAVE_TRACER, KIND_PID, tracer_pid),
    FIELD("VmRSS", PROC_HAVE_RSS, KIND_KB, rss_bytes),
    FIELD("VmHWM", PROC_HAVE_RSS_PEAK, KIND_KB, rss_peak_bytes),
    FIELD("RssShmem", PROC_HAVE_RSS_SHMEM, KIND_KB, rss_shmem_bytes),
    FIELD("VmSwap", PROC_HAVE_SWAP, KIND_KB, swap_bytes),
    FIELD("VmPin", PROC_HAVE_PINNED, KIND_KB, pinned_bytes),
    FIELD("VmLck", PROC_HAVE_LOCKED, KIND_KB, locked_bytes),
    FIELD("Threads", PROC_HAVE_THREADS, KIND_COUNT, threads),
    FIELD("SigCgt", PROC_HAVE_SIG_CAUGHT, KIND_HEX, sig_caught),
    FIELD("SigIgn", PROC_HAVE_SIG_IGNORED, KIND_HEX, sig_ignored),
    FIELD("SigBlk", PROC_HAVE_SIG_BLOCKED, KIND_HEX, sig_blocked),
};

static void parse_status_field(struct span key, struct span value, struct proc_status *status)
{
    for (size_t i = 0; i < sizeof status_fields / sizeof status_fields[0]; i++) {
        const struct status_field *f = &status_fields[i];
        if (!span_equal(key, f->key))
            continue;
        void *out = (char *)status + f->offset;
        bool ok = f->kind == KIND_KB    ? parse_kb(value, out)
                  : f->kind == KIND_HEX ? parse_hex(value, out)
                  : f->kind == KIND_PID ? parse_pid(value, out)
                                        : span_u64(value, out);
        if (ok)
            status->have |= f->have;
        return;
    }
    if (span_equal(key, "Name")) {
        span_copy(status->name, sizeof status->name, value);
        status->have |= PROC_HAVE_NAME;
    } else if (span_equal(key, "State") && value.len > 0) {
        status->state = value.data[0];
        status->have |= PROC_HAVE_STATE;
    } else if (span_equal(key, "Uid") && parse_uids(value, status->uid)) {
        status->have |= PROC_HAVE_UID;
    }
}

/* "Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\n...VmRSS:\t  307200 kB\n..." (1.4 KiB). The
 * kernel escapes a newline in the name, so a name cannot forge a line. */
void procfs_parse_status(const char *text, size_t len, struct proc_status *ret)
{
    memset(ret, 0, sizeof *ret);
    struct span rest = {text, len};
    struct span line;
    while (span_line(&rest, &line)) {
        const char *colon = memchr(line.data, ':', line.len);
        if (colon == NULL)
            continue;
        size_t key_len = (size_t)(colon - line.data);
        parse_status_field(
            (struct span){line.data, key_len},
            span_trim((struct span){colon + 1, line.len - key_len - 1}), ret);
    }
}

/* "MemTotal:       65610692 kB\n" */
void procfs_parse_meminfo(const char *text, size_t len, struct meminfo *ret)
{
    static const struct {
        const char *key;
        uint32_t have;
        size_t offset;
    } fields[] = {
        {"MemTotal", MEMINFO_HAVE_TOTAL, offsetof(struct meminfo, total_bytes)},
        {"MemAvailable", MEMINFO_HAVE_AVAILABLE, offsetof(struct meminfo, available_bytes)},
        {"SwapTotal", MEMINFO_HAVE_SWAP_TOTAL, offsetof(struct meminfo, swap_total_bytes)},
        {"SwapFree", MEMINFO_HAVE_SWAP_FREE, offsetof(struct meminfo, swap_free_bytes)},
        {"Shmem", MEMINFO_HAVE_SHMEM, offsetof(struct meminfo, shmem_bytes)},
    };
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t bytes = 0;
        if (!parse_kb(key_find(text, len, fields[i].key, ':'), &bytes))
            continue;
        memcpy((char *)ret + fields[i].offset, &bytes, sizeof bytes);
        ret->have |= fields[i].have;
    }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0.00 ... total=678\n" */
static bool parse_pressure_total(struct span line, uint64_t *ret)
{
    for (size_t i = 0; line.data != NULL && i + 6 <= line.len; i++)
        if (memcmp(line.data + i, "total=", 6) == 0)
            return span_u64((struct span){line.data + i + 6, line.len - i - 6}, ret);
    return false;
}

void procfs_parse_pressure(const char *text, size_t len, struct pressure *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->has_some = parse_pressure_total(key_find(text, len, "some", ' '), &ret->some_us);
    ret->has_full = parse_pressure_total(key_find(text, len, "full", ' '), &ret->full_us);
}

/* "Max open files            1024                 1048576              files     \n" */
bool procfs_parse_fd_limit(const char *text, size_t len, uint64_t *ret)
{
    struct span value = key_find(text, len, "Max open files", ' ');
    struct span rest;
    return value.data != NULL && span_u64_unit(value, ret, &rest);
}

static void copy_path(char *out, size_t size, struct span path, bool *cut)
{
    if (path.len == 0 || path.data[0] != '/')
        return;
    if (path.len >= size) {
        *cut = true;
        return;
    }
    memcpy(out, path.data, path.len);
    out[path.len] = '\0';
}

static bool list_contains(struct span list, const char *word)
{
    while (list.len > 0) {
        const char *comma = memchr(list.data, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.data) : list.len;
        if (span_equal((struct span){list.data, len}, word))
            return true;
        size_t used = comma != NULL ? len + 1 : len;
        list.data += used;
        list.len -= used;
    }
    return false;
}

/* "0::/user.slice/session-1.scope\n" or "9:memory:/docker/abc\n" */
void procfs_parse_cgroup(const char *text, size_t len, struct cgroup_paths *ret)
{
    memset(ret, 0, sizeof *ret);
    struct span rest = {text, len};
    struct span line;
    while (span_line(&rest, &line)) {
        const char *first = memchr(line.data, ':', line.len);
        if (first == NULL)
            continue;
        size_t left = line.len - (size_t)(first + 1 - line.data);
        const char *second = memchr(first + 1, ':', left);
        if (second == NULL)
            continue;
        struct span controllers = {first + 1, (size_t)(second - first - 1)};
        struct span path = {second + 1, line.len - (size_t)(second + 1 - line.data)};
        if (controllers.len == 0 && line.data[0] == '0' && ret->v2[0] == '\0')
            copy_path(ret->v2, sizeof ret->v2, path, &ret->cut);
        else if (list_contains(controllers, "memory") && ret->v1_memory[0] == '\0')
            copy_path(ret->v1_memory, sizeof ret->v1_memory, path, &ret->cut);
    }
}

bool procfs_parse_oom_kills(const char *text, size_t len, uint64_t *ret)
{
    return key_u64(text, len, "oom_kill", ' ', ret);
}

uint64_t procfs_count_lines(const char *text, size_t len)
{
    uint64_t lines = 0;
    const char *end = text + len;
    for (const char *p = text; p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        lines++;
    return lines;
}
