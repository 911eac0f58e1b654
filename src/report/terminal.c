/* SPDX-License-Identifier: Apache-2.0 */
/* The last lines on the terminal after a failure: four to six, each "rocmcrash: ...". */
#include "report/report.h"

#include "base/buf.h"
#include "diagnose/verdict.h"
#include "report/internal.h"

#include <stdbool.h>
#include <string.h>

#define LINE_BYTES 300

static void line(struct buf *out, const char *label, const char *text)
{
    buf_puts(out, "rocmcrash: ");
    buf_puts(out, label);
    escape_terminal(out, text, LINE_BYTES);
    buf_putc(out, '\n');
}

static void class_line(const struct verdict *v, struct buf *out)
{
    buf_puts(out, "rocmcrash: ");
    escape_terminal(out, v->class_name, 40);
    if (v->subclass != NULL && v->subclass[0] != '\0') {
        buf_puts(out, " (");
        escape_terminal(out, v->subclass, 80);
        buf_puts(out, ")");
    }
    if (strcmp(v->class_name, "unknown") == 0)
        buf_puts(out, ": not enough is known for a verdict\n");
    else
        buf_printf(out, ", %s confidence\n", v->confidence);
}

/* The advice without its "To see that it helped" and source: those are in the summary. */
static void advice_line(const struct verdict *v, struct buf *out)
{
    struct buf advice = BUF_INIT;
    const char *full = v->advice.text[0];
    const char *end = strstr(full, " To see that it helped: ");
    if (end == NULL)
        end = strrchr(full, '[') != NULL ? strrchr(full, '[') : full + strlen(full);
    buf_append(&advice, full, (size_t)(end - full));
    line(out, "try: ", buf_str(&advice));
    buf_release(&advice);
}

void report_terminal(const struct report_input *in, const char *bundle_path, struct buf *out)
{
    const struct verdict *v = in->verdict;
    bool unknown = strcmp(v->class_name, "unknown") == 0;
    class_line(v, out);
    line(out, "", v->sentence);
    if (unknown && v->missing.count > 0)
        line(out, "missing: ", v->missing.text[0]);
    if (v->advice.count > 0)
        advice_line(v, out);
    if (v->verify != NULL && v->verify[0] != '\0')
        line(out, "it helped if: ", v->verify);
    if (bundle_path != NULL)
        line(out, "bundle to attach: ", bundle_path);
}
