/* SPDX-License-Identifier: Apache-2.0 */
/* One failure, seen from the other ranks: does it stand for itself, or does another rank's explain it? */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/fact.h"
#include "fleet/internal.h"

const char *fleet_role_name(enum fleet_role role)
{
    static const char *const names[] = {"caused", "elsewhere", "killed",  "unclear",
                                        "lost-peer", "waited", "ended"};
    return names[role];
}

const char *fleet_sure_name(enum fleet_sure sure)
{
    static const char *const names[] = {"none", "low", "high"};
    return names[sure];
}

static void decide(struct fleet_record *record, enum fleet_role role, const char *reason)
{
    record->role = role;
    (void)snprintf(record->reason, sizeof record->reason, "%s", reason);
}

static bool said(const struct facts *facts, const char *name)
{
    int64_t count;
    return facts_get_integer(facts, name, &count) && count > 0;
}

/* True if this rank itself said so: no other rank that writes to the same file may have written the line. */
static bool said_itself(const struct facts *facts, const char *name)
{
    const struct fact *fact = facts_best(facts, name);
    return fact != NULL && !fact_has_mark(fact, FACT_MARK_PERHAPS_OTHERS) && !fact_has_mark(fact, FACT_MARK_ONE_OF_RANKS) &&
           facts_is_present(facts, name);
}

/* An allocation failed earlier, perhaps another rank's: what ended this one is that its peer was gone. */
static bool lost_peer_in_the_end(const struct facts *facts)
{
    return said_itself(facts, "msg.exception_after_oom") && said_itself(facts, "msg.remote_process_exited");
}

/* A process that is alive: it waits for the others, or is where they do not wait for it. */
static void decide_alive(struct fleet_record *record)
{
    bool waits = strcmp(record->class_name, "collective") == 0;
    decide(record, waits ? FLEET_WAITED : FLEET_ELSEWHERE,
           waits ? "alive, waits in a collective" : "alive, and not in a collective");
}

static bool is_polite(int64_t signo)
{
    return signo == SIGTERM || signo == SIGINT || signo == SIGHUP;
}

static void decide_ended(struct fleet_record *record, const struct facts *facts)
{
    int64_t sender;
    char reason[160];
    const char *name = NULL;
    if (record->is_note && record->signal == FLEET_UNKNOWN) {
        decide(record, FLEET_ENDED, "asked to end, and ended by itself");
        return;
    }
    if (!facts_get_text(facts, "target.signal_name", &name))
        (void)facts_get_text(facts, "target.failed_signal_name", &name);
    int n = snprintf(reason, sizeof reason, "ended by SIG%s", name != NULL ? name : "TERM");
    if (facts_get_integer(facts, "target.signal_sender_pid", &sender) && n > 0)
        (void)snprintf(reason + n, sizeof reason - (size_t)n, " from process %" PRId64, sender);
    decide(record, FLEET_ENDED, reason);
}

/* The class says whether it failed by itself: the decision tree calls a failure "collective" only where the rank
 * shows none of its own. A signal counts only where the class says nothing: a program that is out of memory may be
 * killed in the end, too. */
void fleet_decide_role(struct fleet_record *record, const struct facts *facts)
{
    bool timed_out = said(facts, "msg.collective_timeout");
    bool lost_peer = said(facts, "msg.remote_process_exited");
    bool unknown = strcmp(record->class_name, "unknown") == 0;
    bool was_ended = record->is_note || (unknown && is_polite(record->signal));
    if (record->snapshot)
        decide_alive(record);
    else if (was_ended)
        decide_ended(record, facts);
    else if ((strcmp(record->class_name, "collective") == 0 && lost_peer) || lost_peer_in_the_end(facts))
        decide(record, FLEET_LOST_PEER, "its peer was gone");
    else if (strcmp(record->class_name, "collective") == 0 && timed_out)
        decide(record, FLEET_WAITED, "waited for another rank until it gave up");
    else if (strcmp(record->class_name, "collective") == 0)
        decide(record, FLEET_WAITED, "a collective failed, and nothing of its own");
    else if (!unknown)
        decide(record, FLEET_CAUSED, "a failure of its own");
    else if (record->signal == SIGKILL)
        decide(record, FLEET_KILLED, "SIGKILL, which names no sender");
    else
        decide(record, FLEET_UNCLEAR, "the cause of its failure is not known");
}
