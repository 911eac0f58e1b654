/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledger of GPU allocations saw, in a few sentences: refusal, size that grew, fault. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#include <stdint.h>
#include <string.h>

/* The fact's value as people read it; "?" when it is not there. */
static void value(struct buf *out, const struct facts *facts, const char *name)
{
    char text[64] = "?";
    const struct fact *f = facts_best(facts, name);
    if (f != NULL && f->status == FACT_PRESENT)
        fact_format(f, text, sizeof(text));
    escape_markdown(out, text, 60);
}

static bool is_there(const struct facts *facts, const char *name)
{
    const struct fact *f = facts_best(facts, name);
    return f != NULL && f->status == FACT_PRESENT;
}

static bool is_true(const struct facts *facts, const char *name)
{
    int64_t number = 0;
    return facts_get_integer(facts, name, &number) && number != 0;
}

/* fact_format() leaves short ones bare. */
static void duration(struct buf *out, const struct facts *facts, const char *name)
{
    int64_t ms = 0;
    value(out, facts, name);
    if (facts_get_integer(facts, name, &ms) && ms < 1000)
        buf_puts(out, " ms");
}

static void kernel_refusal(const struct facts *facts, struct buf *out)
{
    buf_puts(out, "- the driver refused ");
    value(out, facts, "ledger.refused.size_bytes");
    buf_puts(out, " (");
    value(out, facts, "ledger.refused.kind");
    buf_puts(out, ") with ");
    value(out, facts, "ledger.refused.errno_name");
    if (is_there(facts, "ledger.refused.age_ms")) {
        buf_puts(out, ", ");
        duration(out, facts, "ledger.refused.age_ms");
        buf_puts(out, " before the end");
    }
    buf_puts(out, "; the process held ");
    value(out, facts, "ledger.refused.live_bytes");
    buf_puts(out, " of that kind");
    if (is_true(facts, "ledger.refused.coped"))
        buf_puts(out, "; it went on allocating after that");
    buf_putc(out, '\n');
}

static void hip_refusal(const struct facts *facts, struct buf *out)
{
    buf_puts(out, "- ");
    value(out, facts, "ledger.hip.function");
    buf_puts(out, " of ");
    value(out, facts, "ledger.hip.size_bytes");
    buf_puts(out, " failed with HIP error ");
    value(out, facts, "ledger.hip.error");
    buf_puts(out, is_true(facts, "ledger.hip.inside")
                      ? ": HIP refused it by itself, the driver was not asked\n"
                      : ", because the driver refused\n");
}

static void growth(const struct facts *facts, struct buf *out)
{
    buf_puts(out, "- ");
    value(out, facts, "ledger.growth.live_count");
    buf_puts(out, " live buffers of ");
    value(out, facts, "ledger.growth.size_bytes");
    buf_puts(out, " (");
    value(out, facts, "ledger.growth.kind");
    buf_puts(out, ") make up ");
    value(out, facts, "ledger.growth.live_bytes");
    buf_puts(out, "; of ");
    value(out, facts, "ledger.growth.allocations_count");
    buf_puts(out, " of that size ");
    value(out, facts, "ledger.growth.frees_count");
    buf_puts(out, " were given back, and others came between ");
    value(out, facts, "ledger.growth.interleaved_percent");
    buf_puts(out, " of them\n");
}

static void fault(const struct facts *facts, struct buf *out)
{
    const char *place = "";
    (void)facts_get_text(facts, "ledger.fault.place", &place);
    buf_puts(out, "- the faulting address ");
    value(out, facts, "ledger.fault.address");
    if (strcmp(place, "near null") == 0) {
        buf_puts(out, " is near 0: no buffer\n");
        return;
    }
    if (!is_there(facts, "ledger.fault.buffer_bytes")) {
        buf_puts(out, " is near no buffer that is known\n");
        return;
    }
    buf_puts(out, " lies ");
    value(out, facts, "ledger.fault.offset_bytes");
    buf_puts(out, strcmp(place, "past end") == 0 ? " behind the end of" : " into");
    buf_puts(out, strcmp(place, "freed") == 0 ? " a buffer that was given back, of "
                                              : " a live buffer of ");
    value(out, facts, "ledger.fault.buffer_bytes");
    buf_puts(out, " at ");
    value(out, facts, "ledger.fault.buffer_start");
    buf_putc(out, '\n');
}

void report_ledger(const struct facts *facts, struct buf *out)
{
    if (is_there(facts, "ledger.refused.size_bytes"))
        kernel_refusal(facts, out);
    if (is_there(facts, "ledger.hip.size_bytes"))
        hip_refusal(facts, out);
    if (is_there(facts, "ledger.growth.size_bytes"))
        growth(facts, out);
    if (is_there(facts, "ledger.fault.place"))
        fault(facts, out);
}
