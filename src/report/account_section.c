/* SPDX-License-Identifier: Apache-2.0 */
/* The account of the GPU that refused: a drawn bar and the parts, which add up to its total. */
#include "diagnose/account.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "report/internal.h"
#include "report/report.h"

#include <math.h>
#include <stdbool.h>

#define BAR_COLUMNS 60
#define SOURCE_MAX 200

static bool number(const struct facts *facts, const char *name, double *ret)
{
    const struct fact *f = facts_best(facts, name);
    if (f == NULL || f->status != FACT_PRESENT || f->type == FACT_TEXT)
        return false;
    *ret = f->type == FACT_REAL ? f->real : (double)f->integer;
    return true;
}

/* Each column is a sixtieth of the total; rounding goes on from part to part. */
static void draw(const struct facts *facts, double total, struct buf *out)
{
    double sum = 0;
    long drawn = 0;
    buf_puts(out, "`[");
    for (size_t i = 0; i < account_part_count; i++) {
        double part = 0;
        if (!number(facts, account_parts[i].fact, &part) || part <= 0)
            continue;
        sum += part;
        long until = lround(fmin(sum / total, 1) * BAR_COLUMNS);
        for (; drawn < until; drawn++)
            buf_putc(out, account_parts[i].mark);
    }
    for (; drawn < BAR_COLUMNS; drawn++)
        buf_putc(out, ' ');
    buf_puts(out, "]`\n\n");
}

static void row(const struct facts *facts, const struct account_part *part, double total,
                struct buf *out)
{
    const struct fact *f = facts_best(facts, part->fact);
    double value = 0;
    char text[64];
    if (!number(facts, part->fact, &value) || value == 0)
        return;
    fact_format(f, text, sizeof text);
    buf_printf(out, "| `%c` %s | %s | %.1f %% | ", part->mark, part->label, text,
               100 * value / total);
    escape_markdown(out, f->source != NULL ? f->source : "", SOURCE_MAX);
    buf_puts(out, " |\n");
}

void report_account(const struct report_input *in, struct buf *out)
{
    double total = 0;
    char text[64];
    const struct fact *whole = facts_best(in->facts, "account.total_bytes");
    if (!number(in->facts, "account.total_bytes", &total) || total <= 0)
        return;
    fact_format(whole, text, sizeof text);
    draw(in->facts, total, out);
    buf_puts(out, "| memory of the GPU at the refusal | bytes | share | source |\n|---|---|---|---|\n");
    for (size_t i = 0; i < account_part_count; i++)
        row(in->facts, &account_parts[i], total, out);
    buf_printf(out, "| total | %s | 100 %% | ", text);
    escape_markdown(out, whole->source != NULL ? whole->source : "", SOURCE_MAX);
    buf_puts(out, " |\n");
}
