/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a DRM fdinfo text (/proc/PID/fdinfo/FD of a render node). Pure; any bytes.
 *
 * Three generations of keys: Linux 5.19-6.2 (drm-memory-*), 6.3-6.12 (+ amd-evicted-vram,
 * amd-requested-*, drm-shared-*), later (+ drm-total/resident/...). The unit is chosen per value:
 * none (bytes), KiB, MiB. The caller counts each (pdev, client id) once.
 */
#ifndef TELEMETRY_FDINFO_H
#define TELEMETRY_FDINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fdinfo_have {
    FDINFO_HAVE_DRIVER = 1u << 0,
    FDINFO_HAVE_PDEV = 1u << 1,
    FDINFO_HAVE_CLIENT_ID = 1u << 2,
    FDINFO_HAVE_PASID = 1u << 3,
    FDINFO_HAVE_VRAM = 1u << 4,
    FDINFO_HAVE_GTT = 1u << 5,
    FDINFO_HAVE_CPU = 1u << 6,
    FDINFO_HAVE_EVICTED_VRAM = 1u << 7,
    FDINFO_HAVE_REQUESTED_VRAM = 1u << 8,
    FDINFO_HAVE_REQUESTED_GTT = 1u << 9,
    FDINFO_HAVE_SHARED_VRAM = 1u << 10,
    FDINFO_HAVE_VISIBLE_VRAM = 1u << 11,
};

struct fdinfo {
    uint32_t have; /* enum fdinfo_have */
    char driver[16];
    char pdev[16]; /* "0000:d0:00.0" */
    uint64_t client_id;
    uint64_t pasid; /* links the client to the lines of the kernel log */
    uint64_t vram_bytes; /* resident: drm-memory-vram, else drm-resident-vram */
    uint64_t gtt_bytes;
    uint64_t cpu_bytes;
    uint64_t evicted_vram_bytes;   /* prefers VRAM but lies elsewhere */
    uint64_t requested_vram_bytes;
    uint64_t requested_gtt_bytes;
    uint64_t shared_vram_bytes;
    uint64_t visible_vram_bytes;
};

/* True = a DRM client (some drm- key was there); false = another kind of file, *ret is zero. */
bool fdinfo_parse(const char *text, size_t len, struct fdinfo *ret);

#endif
