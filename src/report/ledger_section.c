/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of the ledger of GPU allocations in a few sentences: refusal, size that grew,
 * fault. */
#include "report/internal.h"

#include "diagnose/fact.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_true(const struct facts *facts, const char *name)
{
    int64_t number = 0;
    return facts_get_integer(facts, name, &number) && number != 0;
}

#define REFUSAL                                                                                    \
    "the driver refused {ledger.refused.size_bytes} ({ledger.refused.kind}) with "                 \
    "{ledger.refused.errno_name}[[, {ledger.refused.age_ms} before the end]]; the process held "   \
    "{ledger.refused.live_bytes} of that kind"

#define GROWTH                                                                                     \
    "{ledger.growth.live_count} live buffers of {ledger.growth.size_bytes} "                       \
    "({ledger.growth.kind}) make up {ledger.growth.live_bytes}; of that size "                     \
    "{ledger.growth.allocations_count} were allocated and {ledger.growth.frees_count} freed"

static void fault(const struct facts *facts, struct buf *out)
{
    const char *place = "";
    (void)facts_get_text(facts, "ledger.fault.place", &place);
    if (strcmp(place, "near null") == 0)
        report_sentence(facts, "the faulting address {ledger.fault.address} is near 0: no buffer",
                        out);
    else if (!facts_is_present(facts, "ledger.fault.buffer_bytes"))
        report_sentence(
            facts, "the faulting address {ledger.fault.address} is not near any known buffer",
            out);
    else if (strcmp(place, "freed") == 0)
        report_sentence(
            facts,
            "the faulting address {ledger.fault.address} lies {ledger.fault.offset_bytes} into a "
            "buffer of {ledger.fault.buffer_bytes} at {ledger.fault.buffer_start} that was "
            "freed[[ {ledger.fault.freed_ms} before the end]]",
            out);
    else
        report_sentence(
            facts,
            strcmp(place, "past end") == 0
                ? "the faulting address {ledger.fault.address} lies {ledger.fault.offset_bytes} "
                  "past the end of a live buffer of {ledger.fault.buffer_bytes} at "
                  "{ledger.fault.buffer_start}"
                : "the faulting address {ledger.fault.address} lies {ledger.fault.offset_bytes} "
                  "into a live buffer of {ledger.fault.buffer_bytes} at "
                  "{ledger.fault.buffer_start}",
            out);
}

void report_ledger(const struct facts *facts, struct buf *out)
{
    if (facts_is_present(facts, "ledger.refused.size_bytes"))
        report_sentence(facts,
                        is_true(facts, "ledger.refused.coped") ? REFUSAL
                            "; it went on allocating after that"
                                                               : REFUSAL,
                        out);
    if (facts_is_present(facts, "ledger.hip.size_bytes"))
        report_sentence(
            facts,
            is_true(facts, "ledger.hip.inside")
                ? "{ledger.hip.function} of {ledger.hip.size_bytes} failed with HIP error "
                  "{ledger.hip.error}: HIP refused it itself and did not ask the driver"
                : "{ledger.hip.function} of {ledger.hip.size_bytes} failed with HIP error "
                  "{ledger.hip.error}, because the driver refused",
            out);
    if (facts_is_present(facts, "ledger.growth.size_bytes"))
        report_sentence(
            facts,
            is_true(facts, "ledger.growth.interleaved_percent") ? GROWTH
                "; before {ledger.growth.interleaved_percent} of these allocations another buffer "
                "was freed"
                                                                : GROWTH,
            out);
    if (facts_is_present(facts, "ledger.fault.place"))
        fault(facts, out);
}
