/* SPDX-License-Identifier: Apache-2.0 */
/* The last lines on the terminal after a failure: a sentence first, each line "rocmcrash: ...". */
#include "report/report.h"

#include "base/buf.h"
#include "base/wrap.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/internal.h"

#include <stdbool.h>
#include <string.h>

#define LINE_BYTES 600
#define PREFIX "rocmcrash: "
#define BUNDLE "bundle: "
#define BOLD "\x1b[1m"
#define PLAIN "\x1b[0m"

/* Appends `text` to a line that has `column` columns already. */
static void wrap(struct buf *out, const char *text, size_t column, const struct report_style *style)
{
    size_t indent = wrap_indent(PREFIX, style->columns);
    size_t n = wrap_piece(text, style->columns > column ? style->columns - column : 0);
    int below = 0;
    buf_append(out, text, n);
    while (*(text += n + strspn(text + n, " ")) != '\0') {
        n = wrap_below(text, indent, style->columns, &below);
        buf_printf(out, "%s%*s", style->line_end, below, "");
        buf_append(out, text, n);
    }
}

static void line(struct buf *out, const char *label, const char *text, bool bold,
                 const struct report_style *style)
{
    struct buf clean = BUF_INIT;
    bool is_whole = strcmp(label, BUNDLE) == 0; /* a path is copied */
    escape_terminal(&clean, text, LINE_BYTES);
    buf_puts(out, PREFIX);
    if (style->colour && (bold || label[0] != '\0'))
        buf_puts(out, BOLD);
    buf_puts(out, label);
    if (style->colour && !bold && label[0] != '\0')
        buf_puts(out, PLAIN);
    if (style->columns >= WRAP_COLUMNS_MIN && !is_whole)
        wrap(out, buf_str(&clean), sizeof(PREFIX) - 1 + strlen(label), style);
    else
        buf_puts(out, buf_str(&clean));
    if (style->colour && bold)
        buf_puts(out, PLAIN);
    buf_puts(out, style->line_end);
    buf_release(&clean);
}

void report_terminal_line(const char *label, const char *text, const struct report_style *style,
                          struct buf *out)
{
    line(out, label, text, false, style);
}

/* The advice without its "To see that it helped" and source: those are in the summary. */
static void advice_line(const struct verdict *v, const struct report_style *style, struct buf *out)
{
    struct buf advice = BUF_INIT;
    const char *full = v->advice.text[0];
    const char *end = strstr(full, " To see that it helped: ");
    if (end == NULL)
        end = strrchr(full, '[') != NULL ? strrchr(full, '[') : full + strlen(full);
    buf_append(&advice, full, (size_t)(end - full));
    line(out, "try: ", buf_str(&advice), false, style);
    buf_release(&advice);
}

bool report_is_said(const char *happened, const char *sentence)
{
    size_t len = strlen(sentence);
    len -= len > 0 && sentence[len - 1] == '.';
    return strncmp(happened, sentence, len) == 0;
}

static void runner_up_line(const struct verdict *v, const struct report_style *style, struct buf *out)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, v->runner_up);
    if (v->decides[0] != '\0')
        buf_printf(&text, "; what decides: %s", v->decides);
    line(out, "else: ", buf_str(&text), false, style);
    buf_release(&text);
}

void report_terminal(const struct report_input *in, const char *bundle_path,
                     const struct report_style *style, struct buf *out)
{
    static const struct report_style plain = {.line_end = "\n"};
    const struct verdict *v = in->verdict;
    struct buf happened = BUF_INIT;
    struct buf ranks = BUF_INIT;
    if (style == NULL)
        style = &plain;
    report_happened(in->facts, v, &happened);
    line(out, "", buf_str(&happened), true, style);
    if (!report_is_said(buf_str(&happened), v->sentence))
        line(out, "why: ", v->sentence, false, style);
    buf_release(&happened);
    report_ranks(in->facts, &ranks);
    if (ranks.len > 0)
        line(out, "ranks: ", buf_str(&ranks), false, style);
    buf_release(&ranks);
    if (v->runner_up != NULL && v->runner_up[0] != '\0' && strcmp(v->confidence, "high") != 0)
        runner_up_line(v, style, out);
    if (strcmp(v->class_name, "unknown") == 0 && v->lacks.count > 0)
        line(out, "missing: ", v->lacks.text[0], false, style);
    if (v->advice.count > 0)
        advice_line(v, style, out);
    if (v->verify != NULL && v->verify[0] != '\0')
        line(out, "check: ", v->verify, false, style);
    if (bundle_path != NULL)
        line(out, BUNDLE, bundle_path, false, style);
}
