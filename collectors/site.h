/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A site's own collector: an executable that prints JSON, an object a line (collectors/README.md).
 * Its facts are named "site.X" and have the source "site:NAME", NAME being the file's.
 */
#ifndef COLLECTORS_SITE_H
#define COLLECTORS_SITE_H

#include "collect/collector.h"

#define SITE_OUTPUT_MAX ((size_t)1 << 20)
#define SITE_FACTS_MAX 200

/* The `run` of such a collector; ctx->program is the file's absolute path. */
enum collect_status site_collector_run(const struct collect_ctx *ctx, struct collect_out *out);

#endif
