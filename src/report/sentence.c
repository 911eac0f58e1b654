/* SPDX-License-Identifier: Apache-2.0 */
/* Bullets whose numbers are facts. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/tree.h"

#include <stdlib.h>

#define SENTENCE_MAX 600

void report_sentence(const struct facts *facts, const char *sentence, struct buf *out)
{
    char *text = template_fill(sentence, facts, false);
    if (text == NULL)
        return;
    buf_puts(out, "- ");
    escape_markdown(out, text, SENTENCE_MAX);
    buf_putc(out, '\n');
    free(text);
}
