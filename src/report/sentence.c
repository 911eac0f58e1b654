/* SPDX-License-Identifier: Apache-2.0 */
/* Bullets whose numbers are facts. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/tree.h"

#include <stdbool.h>
#include <stdlib.h>

#define SENTENCE_MAX 900

static void put_bullet(const struct facts *facts, const char *sentence, bool cited, struct buf *out)
{
    char *text = template_fill(sentence, facts, cited);
    if (text == NULL)
        return;
    buf_puts(out, "- ");
    escape_markdown(out, text, SENTENCE_MAX);
    buf_putc(out, '\n');
    free(text);
}

void report_sentence(const struct facts *facts, const char *sentence, struct buf *out)
{
    put_bullet(facts, sentence, false, out);
}

void report_cited_sentence(const struct facts *facts, const char *sentence, struct buf *out)
{
    put_bullet(facts, sentence, true, out);
}
