/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's rank that failed first, as the tracer saw it or else as the launcher reports it. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "report/report.h"

#include <stdlib.h>

void report_ranks(const struct facts *facts, struct buf *out)
{
    int64_t timed_out;
    bool waited = facts_get_integer(facts, "msg.collective_timeout", &timed_out) && timed_out > 0;
    const char *sentence =
        facts_is_present(facts, "worker.story") && waited
            ? "{worker.story}[[; rank {worker.not_failed} did not fail: the others waited in a collective]]"
        : facts_is_present(facts, "worker.story")
            ? "{worker.story}[[; not seen to fail: rank {worker.not_failed}]]"
        : facts_is_present(facts, "launcher.first_rank")
            ? "rank {launcher.first_rank}[[ (pid {launcher.first_pid})]] by the launcher's own report"
              "[[, signal {launcher.first_signal}]][[, exit status {launcher.first_exit_code}]]"
            : "";
    char *text = template_fill(sentence, facts, false);
    if (text != NULL)
        buf_puts(out, text);
    free(text);
}
