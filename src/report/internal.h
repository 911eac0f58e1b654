/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of report/. All text that comes from data passes an escape_*()
 * function. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "report/escape.h"

struct buf;
struct facts;
struct report_input;
struct verdict;

/* Inside the quotes of a Mermaid label. */
void escape_mermaid(struct buf *out, const char *text, size_t max);
/* For a terminal: printable characters only. */
void escape_terminal(struct buf *out, const char *text, size_t max);
/* Inside a fenced code block: as for a terminal, and without a run of backquotes that would end
 * it. */
void escape_code(struct buf *out, const char *text, size_t max);

/* Text of an HTML element or attribute; newlines stay. */
void escape_html(struct buf *out, const char *text);
/* JSON on one line inside <script type="application/json">: nothing in it ends the element. */
void escape_script(struct buf *out, const char *json);

/* Replaces {{name}} by the text that `value` writes. Keeps {{#name}}...{{/name}} only if it writes any. */
typedef void (*template_value)(const struct report_input *in, const char *name, struct buf *out);
void template_render(const char *template_text, const struct report_input *in, template_value value,
                     struct buf *out);

/* The parts of the GPU's memory at the refusal, drawn and as a table. */
void report_account(const struct report_input *in, struct buf *out);
/* The program's output and the frames of its crash: texts for code blocks. */
void report_program_said(const struct report_input *in, struct buf *out);
void report_frames(const struct report_input *in, struct buf *out);
/* "The GPU stopped answering." after a heading with the same words: it is printed only once. */
bool report_is_said(const char *happened, const char *sentence);
/* "" = no ranks are known. Plain text. */
void report_ranks(const struct facts *facts, struct buf *out);
/* "ended with exit status 1, after 11.3 s, began 2026-11-22 18:19:38 UTC" */
void report_run_line(const struct report_input *in, struct buf *out);
/* "`HIP_VISIBLE_DEVICES=0`, `PYTORCH_ALLOC_CONF=...`": variables that were set and matter. */
void report_settings_line(const struct report_input *in, struct buf *out);
/* List items, one for each variable of the environment that the doctor has something to say about. */
void report_odd_settings(const struct report_input *in, struct buf *out);
/* Bullets: the first event and its consequences, for each device with kernel errors. */
void report_kernel_timeline(const struct report_input *in, struct buf *out);
/* Bullets: the purpose of each file of the bundle. */
void report_files(const struct report_input *in, struct buf *out);
void report_memory_table(const struct facts *facts, struct buf *out);
void report_sparklines(const struct report_input *in, struct buf *out);
void report_flowchart(const struct verdict *verdict, struct buf *out);
/* "- " and the sentence, filled like those of the tree: a clause [[...]] with an unknown fact is
 * left out. */
void report_sentence(const struct facts *facts, const char *sentence, struct buf *out);
/* The same with the source of each figure, because some were read long ago, at the start. */
void report_cited_sentence(const struct facts *facts, const char *sentence, struct buf *out);
/* The failure as the ledger of GPU allocations shows it, in sentences. */
void report_ledger(const struct facts *facts, struct buf *out);
/* The state of PyTorch's allocator, in sentences. */
void report_torch(const struct facts *facts, struct buf *out);
/* The memory that engines, JAX and TensorFlow report. */
void report_engine(const struct facts *facts, struct buf *out);
/* Table of the facts whose names begin with one of `prefixes` (NULL-terminated), or with none. */
void report_fact_table(const struct facts *facts, const char *const *prefixes, size_t rows_max,
                       struct buf *out);
void report_other_facts(const struct facts *facts, const char *const *prefixes, size_t rows_max,
                        struct buf *out);
/* "gfx1100, 23.98 GiB; Linux 6.8.0; ROCm 6.2.0; PyTorch 2.5.1", as far as it is known. */
void report_machine_line(const struct facts *facts, struct buf *out);
/* Bullets: what could change the verdict and was not there. */
void report_missing(const struct verdict *verdict, struct buf *out);

/* "at the failure", or "at the snapshot" where a live process was looked at. */
const char *report_impact_words(const struct facts *facts);

#endif
