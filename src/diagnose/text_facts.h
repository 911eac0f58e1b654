/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the text-to-facts parsers: the position in the text, and setting a fact with its line.
 * Internal to diagnose/.
 */
#ifndef DIAGNOSE_TEXT_FACTS_H
#define DIAGNOSE_TEXT_FACTS_H

#include "diagnose/fact.h"
#include "diagnose/text.h"

struct scan {
    struct facts *facts;
    const char *source; /* "stderr" */
    unsigned line;      /* of the text, from 1 */
};

/* Set a LOG fact whose source is "SOURCE line N". Out of memory loses the fact, never the run. */
void scan_integer(const struct scan *, const char *name, int64_t value);
void scan_integer_at(const struct scan *, unsigned line, const char *name, int64_t value);
void scan_real(const struct scan *, const char *name, double value);
void scan_text(const struct scan *, const char *name, struct text value);
void scan_boolean(const struct scan *, const char *name, bool value);
void scan_boolean_at(const struct scan *, unsigned line, const char *name, bool value);
/* The same for another moment. */
void scan_text_when(const struct scan *, const char *name, enum fact_when, struct text value);

/* "gpu.3." + suffix */
#define SCAN_NAME_MAX 96
const char *scan_gpu_name(char out[SCAN_NAME_MAX], unsigned index, const char *suffix);

/* Sets vendor.amd / vendor.nvidia by words that only one vendor prints. CUDA is not such a word. */
void scan_vendor(const struct scan *, struct text line);

/* Finds a gfx name, sets it as the fact `name` (unless NULL), and sets the vendor that follows from
 * it. A different gfx name, on this line or later in the text, sets msg.gfx_several. A list of targets that
 * a build has code for does not name the GPU. */
void scan_gfx_fact(const struct scan *, struct text line, const char *name);

/* "gfx1100", "gfx90a" at a word start: the first in `in`. */
bool scan_gfx(struct text in, struct text *ret);

/* Does the line itself say that the program continues? */
bool scan_is_warning(struct text line);

#endif
