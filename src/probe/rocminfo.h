/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree that rocmcrash-probe prints as JSON, in the layout of rocminfo. Pure. The probe uses it, and the
 * collector, which keeps both forms of one answer.
 */
#ifndef PROBE_ROCMINFO_H
#define PROBE_ROCMINFO_H

struct buf;
struct cJSON;

void rocminfo_text(const struct cJSON *hsa, struct buf *out);

#endif
