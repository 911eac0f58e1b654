/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/fdinfo.h"

#include <string.h>

#include "telemetry/keys.h"

struct field {
    const char *key;
    uint32_t have;
    size_t offset;
};

/* Order matters within one field: drm-memory-* is the older key and wins when both are there. */
static const struct field memory_fields[] = {
    {"drm-memory-vram", FDINFO_HAVE_VRAM, offsetof(struct fdinfo, vram_bytes)},
    {"drm-resident-vram", FDINFO_HAVE_VRAM, offsetof(struct fdinfo, vram_bytes)},
    {"drm-memory-gtt", FDINFO_HAVE_GTT, offsetof(struct fdinfo, gtt_bytes)},
    {"drm-resident-gtt", FDINFO_HAVE_GTT, offsetof(struct fdinfo, gtt_bytes)},
    {"drm-memory-cpu", FDINFO_HAVE_CPU, offsetof(struct fdinfo, cpu_bytes)},
    {"drm-resident-cpu", FDINFO_HAVE_CPU, offsetof(struct fdinfo, cpu_bytes)},
    {"amd-evicted-vram", FDINFO_HAVE_EVICTED_VRAM, offsetof(struct fdinfo, evicted_vram_bytes)},
    {"amd-requested-vram", FDINFO_HAVE_REQUESTED_VRAM,
     offsetof(struct fdinfo, requested_vram_bytes)},
    {"amd-requested-gtt", FDINFO_HAVE_REQUESTED_GTT, offsetof(struct fdinfo, requested_gtt_bytes)},
    {"drm-shared-vram", FDINFO_HAVE_SHARED_VRAM, offsetof(struct fdinfo, shared_vram_bytes)},
    {"amd-memory-visible-vram", FDINFO_HAVE_VISIBLE_VRAM,
     offsetof(struct fdinfo, visible_vram_bytes)},
};

/* "544428 KiB", "22 MiB", "0", "23048 KiB" */
static bool parse_bytes(struct span s, uint64_t *ret)
{
    struct span unit;
    uint64_t value = 0;
    if (!span_u64_unit(s, &value, &unit))
        return false;
    unsigned shift;
    if (unit.len == 0)
        shift = 0;
    else if (span_equal(unit, "KiB"))
        shift = 10;
    else if (span_equal(unit, "MiB"))
        shift = 20;
    else if (span_equal(unit, "GiB"))
        shift = 30;
    else
        return false;
    if (value > UINT64_MAX >> shift)
        return false;
    *ret = value << shift;
    return true;
}

static void parse_memory(struct span key, struct span value, struct fdinfo *info,
                         uint32_t *preferred)
{
    for (size_t i = 0; i < sizeof memory_fields / sizeof memory_fields[0]; i++) {
        const struct field *field = &memory_fields[i];
        if (!span_equal(key, field->key))
            continue;
        bool resident = span_starts(key, "drm-resident-");
        uint64_t bytes = 0;
        if ((resident && (*preferred & field->have) != 0) || !parse_bytes(value, &bytes))
            return;
        memcpy((char *)info + field->offset, &bytes, sizeof bytes);
        info->have |= field->have;
        if (!resident)
            *preferred |= field->have;
        return;
    }
}

static void parse_identity(struct span key, struct span value, struct fdinfo *info)
{
    if (span_equal(key, "drm-driver") && value.len > 0) {
        span_copy(info->driver, sizeof info->driver, value);
        info->have |= FDINFO_HAVE_DRIVER;
    } else if (span_equal(key, "drm-pdev") && value.len > 0 && value.len < sizeof info->pdev) {
        span_copy(info->pdev, sizeof info->pdev, value);
        info->have |= FDINFO_HAVE_PDEV;
    } else if (span_equal(key, "drm-client-id") && span_u64(value, &info->client_id)) {
        info->have |= FDINFO_HAVE_CLIENT_ID;
    } else if (span_equal(key, "pasid") && span_u64(value, &info->pasid)) {
        info->have |= FDINFO_HAVE_PASID;
    }
}

bool fdinfo_parse(const char *text, size_t len, struct fdinfo *ret)
{
    memset(ret, 0, sizeof *ret);
    struct span rest = {text, len};
    struct span line;
    uint32_t preferred = 0;
    bool is_drm = false;
    while (span_line(&rest, &line)) {
        const char *colon = memchr(line.data, ':', line.len);
        if (colon == NULL)
            continue;
        struct span key = {line.data, (size_t)(colon - line.data)};
        struct span value =
            span_trim((struct span){colon + 1, line.len - (size_t)(colon + 1 - line.data)});
        is_drm |= span_starts(key, "drm-");
        parse_identity(key, value, ret);
        parse_memory(key, value, ret, &preferred);
    }
    if (!is_drm)
        memset(ret, 0, sizeof *ret);
    return is_drm;
}
