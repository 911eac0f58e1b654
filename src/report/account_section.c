/* SPDX-License-Identifier: Apache-2.0 */
/* The account of the memory that ran out (of the GPU, of an APU's GTT, of the host): a bar and the
 * table of its parts, which add up to its total. */
#include "diagnose/account.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "diagnose/verdict.h"
#include "report/internal.h"
#include "report/report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_COLUMNS 60
#define SOURCE_MAX 200

/* Each column is a sixtieth of the total; the rounding error carries over from part to part. */
static void draw(const struct facts *facts, const struct account *a, double total, struct buf *out)
{
    double sum = 0;
    long drawn = 0;
    buf_puts(out, "`[");
    for (size_t i = 0; i < a->count; i++) {
        double part = 0;
        if (!facts_get_number(facts, a->parts[i].fact, &part) || part <= 0)
            continue;
        sum += part;
        long until = lround(fmin(sum / total, 1) * BAR_COLUMNS);
        for (; drawn < until; drawn++)
            buf_putc(out, a->parts[i].mark);
    }
    for (; drawn < BAR_COLUMNS; drawn++)
        buf_putc(out, ' ');
    buf_puts(out, "]`\n\n");
}

/* Prints the place where a figure was read; for a computed figure, the places of its inputs. */
static void put_source(const struct facts *facts, const char *fact, struct buf *out)
{
    char cited[80];
    (void)snprintf(cited, sizeof cited, "{%s}", fact);
    RC_AUTO_FREE char *text = template_fill(cited, facts, true); /* "1.5 GiB [place; place]" */
    char *places = text != NULL ? strstr(text, " [") : NULL;
    if (places == NULL)
        return;
    size_t len = strlen(places);
    if (places[len - 1] == ']')
        places[len - 1] = '\0';
    if (strstr(places, "; ") != NULL)
        buf_puts(out, "computed from ");
    escape_markdown(out, places + 2, SOURCE_MAX);
}

static bool is_remainder(const char *fact)
{
    static const char end[] = "remainder_bytes";
    size_t len = strlen(fact);
    return len >= sizeof end - 1 && strcmp(fact + len - (sizeof end - 1), end) == 0;
}

static void row(const struct facts *facts, const struct account_part *part, double total,
                struct buf *out)
{
    const struct fact *f = facts_best(facts, part->fact);
    double value = 0;
    char text[64];
    if (!facts_get_number(facts, part->fact, &value) || value == 0)
        return;
    fact_format(f, text, sizeof text);
    buf_printf(out, "| `%c` %s | %s | %.1f %% | ", part->mark, part->label, text,
               100 * value / total);
    if (is_remainder(part->fact))
        buf_puts(out, "the total without the rows above");
    else
        put_source(facts, part->fact, out);
    buf_puts(out, " |\n");
}

static bool is_known(const struct facts *facts, const struct account *a)
{
    double total = 0;
    return facts_get_number(facts, a->total, &total) && total > 0;
}

static bool is_of_host(const struct verdict *v)
{
    static const char *const limits[] = {"address space", "pinned host memory", "locked memory"};
    if (v == NULL)
        return false;
    for (size_t i = 0; v->subclass != NULL && i < sizeof limits / sizeof limits[0]; i++)
        if (strcmp(v->class_name, "resource-limit") == 0 && strcmp(v->subclass, limits[i]) == 0)
            return true;
    return strcmp(v->class_name, "host-oom") == 0;
}

/* The account of the memory that the verdict blames; NULL = none. */
static const struct account *choose(const struct report_input *in)
{
    double said = 0;
    bool gtt = in->verdict != NULL && strcmp(in->verdict->class_name, "gtt-limit") == 0;
    if (is_of_host(in->verdict) && is_known(in->facts, &account_of_host))
        return &account_of_host;
    if (in->verdict != NULL && strcmp(in->verdict->class_name, "host-oom") == 0)
        return NULL;
    /* PyTorch's message reports that memory itself. */
    if (gtt && !facts_get_number(in->facts, "oom.total_bytes", &said) &&
        is_known(in->facts, &account_of_gtt))
        return &account_of_gtt;
    return is_known(in->facts, &account_of_gpu) ? &account_of_gpu : NULL;
}

void report_account(const struct report_input *in, struct buf *out)
{
    const struct account *a = choose(in);
    double total = 0;
    char text[64];
    if (a == NULL || !facts_get_number(in->facts, a->total, &total))
        return;
    const struct fact *whole = facts_best(in->facts, a->total);
    fact_format(whole, text, sizeof text);
    draw(in->facts, a, total, out);
    buf_printf(out, "| %s | bytes | share | source |\n|---|---|---|---|\n", a->heading);
    for (size_t i = 0; i < a->count; i++)
        row(in->facts, &a->parts[i], total, out);
    buf_printf(out, "| total | %s | 100 %% | ", text);
    put_source(in->facts, a->total, out);
    buf_puts(out, " |\n");
}
