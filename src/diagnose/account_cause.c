/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counterfactuals on the account of PyTorch's allocator: would the request have fitted without the
 * idle pieces, how much longer would the run have gone on, and which part took the slack?
 *
 * demand = in use + request; tax = free + idle - request: the cost of idle pieces at the failure.
 * tax < 0: no allocator could have served the request. Else the run would continue until demand has
 * grown by tax. "free + idle >= request" alone is true at the end of nearly every run that fills a
 * GPU.
 */
#include "diagnose/account.h"

#include "diagnose/fact.h"
#include "diagnose/features_internal.h"

#include <math.h>

#define OUTGROWS 100.0 /* percent: as long again as the run so far */
#define STEPS_MIN 4
#define GAIN_MAX 100000.0
#define LOADED_ONCE 1.05 /* [eng] */
#define REPLACES 50.0 /* percent: as t.replaces in templates/tree.json. [lab] */
#define FASTER 12.0 /* percent: as in torch_kept.c. [lab] */

static bool input(const struct facts *facts, const char *name, double *ret)
{
    return feature_input(facts, name, ret);
}

static double or_zero(const struct facts *facts, const char *name)
{
    double value = 0;
    return input(facts, name, &value) ? value : 0;
}

/* Idle memory from which this request could have been served. */
static double idle_bytes(const struct facts *facts)
{
    return or_zero(facts, "account.idle_bytes") + or_zero(facts, "account.idle_split_bytes") +
           or_zero(facts, "account.idle_whole_bytes");
}

static double live_bytes(const struct facts *facts)
{
    return or_zero(facts, "account.live_bytes") + or_zero(facts, "account.plateau_bytes") +
           or_zero(facts, "account.growth_bytes") + or_zero(facts, "account.step_bytes");
}

/* A memory fraction may allow less than the device has free. */
static double room_bytes(struct facts *facts)
{
    static const char *const device[] = {"account.total_bytes", "account.free_bytes"};
    static const char *const limit[] = {"oom.allowed_bytes", "f.held_bytes"};
    double room = or_zero(facts, device[1]);
    double total = or_zero(facts, device[0]);
    double allowed = 0;
    bool limited = input(facts, limit[0], &allowed) && allowed < total;
    if (limited)
        room = fmin(room, fmax(0, allowed - or_zero(facts, limit[1])));
    feature_set(facts, "account.budget_bytes", limited ? allowed : total, limited ? limit : device,
                1);
    feature_set(facts, "account.room_bytes", room, limited ? limit : device + 1, limited ? 2 : 1);
    return room;
}

struct end {
    double request, live, idle, room, demand, tax;
    double others; /* memory of other processes; 0 if the program's own limit refused */
};

/* PyTorch hands out larger blocks than requested, because of its rounding or its settings. */
static void derive_rounding(struct facts *facts, double held)
{
    static const char *const inputs[] = {"torch.allocated_bytes", "torch.requested_live_bytes",
                                         "f.held_bytes"};
    double given = 0;
    double asked = 0;
    if (held > 0 && input(facts, inputs[0], &given) && input(facts, inputs[1], &asked) &&
        given >= asked)
        feature_set(facts, "account.rounding_percent", 100 * (given - asked) / held, inputs, 3);
}

static void put_end(struct facts *facts, const struct end *e)
{
    static const char *const demand[] = {"account.live_bytes", "oom.requested_bytes"};
    static const char *const tax[] = {"account.room_bytes", "f.idle_bytes",
                                      "oom.requested_bytes"};
    static const char *const idle[] = {"f.idle_bytes", "f.held_bytes"};
    double held = or_zero(facts, idle[1]);
    feature_set(facts, "account.demand_bytes", e->demand, demand, 2);
    feature_set(facts, "account.tax_bytes", e->tax, tax, 3);
    if (held > 0)
        feature_set(facts, "account.idle_percent", 100 * e->idle / held, idle, 2);
    derive_rounding(facts, held);
}

/* The peak that this step would have reached: at least the demand, and at least an earlier peak if
 * that exceeds the last quarter's. With few steps, an earlier peak may belong to another phase. */
static double step_peak_bytes(const struct facts *facts)
{
    double demand = or_zero(facts, "oom.allocated_bytes") + or_zero(facts, "oom.requested_bytes");
    double earlier = 0;
    double late = 0;
    if (or_zero(facts, "torch.steps_count") >= STEPS_MIN &&
        input(facts, "torch.earlier_peak_bytes", &earlier) &&
        input(facts, "torch.late_run_peak_bytes", &late) && earlier > late)
        return fmax(demand, earlier);
    return demand;
}

/* The rise of the steps' peaks over the whole run, extrapolated from its second half. */
static bool rise_bytes(const struct facts *facts, double *ret)
{
    double half = 0;
    if (!input(facts, "torch.half_run_peak_bytes", &half))
        return false;
    *ret = fmax(0, 2 * (step_peak_bytes(facts) - half));
    return true;
}

/* The same, extrapolated from the last quarter: memory that has reached its bound rises no more. If the same
 * amount was handed out in less and less time, the work has no bound yet: then the larger rise counts. */
static bool late_rise_bytes(const struct facts *facts, double *ret)
{
    double late = 0;
    bool known = rise_bytes(facts, ret);
    if (!input(facts, "torch.late_run_peak_bytes", &late))
        return known;
    double last = fmax(0, 4 * (step_peak_bytes(facts) - late));
    bool rises = known && or_zero(facts, "torch.kept.faster_percent") >= FASTER;
    *ret = rises ? fmax(*ret, last) : last;
    return true;
}

/* Blocks that live long, but not for ever, are replaced: then the memory in use rises by less. */
bool account_kept_growth(const struct facts *facts, double *ret)
{
    double rise = 0;
    if (!input(facts, "torch.kept.growth_bytes", ret))
        return false;
    if (or_zero(facts, "torch.kept.steady") == 0)
        *ret = 0;
    else if (rise_bytes(facts, &rise))
        *ret = fmin(*ret, rise);
    return true;
}

/* The growth of permanently kept memory: by the blocks, else by the lows of the steps. */
static bool kept_growth_bytes(const struct facts *facts, double *ret)
{
    double rising = 0;
    *ret = 0;
    return account_kept_growth(facts, ret) ||
           (input(facts, "torch.growth.rising_share_percent", &rising) && rising >= 60 &&
            input(facts, "torch.growth.total_bytes", ret));
}

/* The rise of what is usually in use: at most that of the highest peaks. Where blocks that outlive steps are replaced,
 * memory in use has a bound, and the rise ends there. */
static double usual_rise_bytes(const struct facts *facts, const struct end *e)
{
    double replaced = 0;
    double rise = 0;
    double half = 0;
    if (!input(facts, "torch.kept.replaced_percent", &replaced) || replaced >= REPLACES ||
        !input(facts, "torch.usual_rise_bytes", &rise) || !input(facts, "torch.half_run_peak_bytes", &half))
        return 0;
    double peak = fmax(e->demand, or_zero(facts, "torch.earlier_peak_bytes"));
    return fmin(rise, fmax(0, 2 * (peak - half)));
}

/* How much demand has grown over the whole run, by a growth that continues: that of kept memory or of
 * the peaks. At most the whole demand. False: not known. */
static bool grown_bytes(const struct facts *facts, const struct end *e, double *ret)
{
    double rise = 0;
    double kept = 0;
    bool by_peaks = late_rise_bytes(facts, &rise);
    bool by_kept = kept_growth_bytes(facts, &kept);
    *ret = fmin(e->demand, fmax(kept, rise));
    return by_peaks || by_kept;
}

/* For a run too short for a history: PyTorch's own peak shows whether as much has fitted before. In a long
 * run it does not show that, because the steps of a leak reach as high. */
static bool derive_peak(struct facts *facts, const struct end *e)
{
    static const char *const inputs[] = {"torch.allocated_peak_bytes", "account.demand_bytes"};
    double peak = 0;
    if (!input(facts, inputs[0], &peak) || peak < e->demand)
        return false;
    feature_flag(facts, "account.fitted_before", true, inputs, 2);
    return true;
}

/* All that was ever handed out lay there at once, and it was more than is wanted now: the run has only loaded. Its samples rose
 * with the load, however many there are, and say nothing of later demand. */
static bool loaded_more(const struct facts *facts, const struct end *e)
{
    double total = 0;
    double peak = 0;
    return input(facts, "torch.allocated_total_bytes", &total) && input(facts, "torch.allocated_peak_bytes", &peak) &&
           peak >= e->demand && total <= LOADED_ONCE * peak;
}

/* Does idle memory cost more than all growth? Then, without it, the run would finish, or last twice as
 * long. */
static void derive_life(struct facts *facts, const struct end *e)
{
    static const char *const inputs[] = {"account.tax_bytes", "torch.half_run_peak_bytes",
                                         "torch.growth.total_bytes"};
    static const char *const bound[] = {"account.tax_bytes", "account.demand_bytes"};
    static const char *const before[] = {"torch.earlier_peak_bytes", "account.demand_bytes"};
    static const char *const cupy_before[] = {"cupy.earlier_peak_bytes", "account.demand_bytes"};
    static const char *const peak[] = {"torch.allocated_peak_bytes", "account.demand_bytes"};
    double earlier = 0;
    double grown = 0;
    if (input(facts, before[0], &earlier))
        feature_flag(facts, "account.fitted_before", earlier >= e->demand, before, 2);
    else if (input(facts, cupy_before[0], &earlier))
        feature_flag(facts, "account.fitted_before", earlier >= e->demand, cupy_before, 2);
    if (e->tax < 0) {
        feature_flag(facts, "account.idle_outgrows", false, bound, 1);
        return;
    }
    if (!loaded_more(facts, e) && grown_bytes(facts, e, &grown)) {
        grown = fmin(e->demand, fmax(grown, usual_rise_bytes(facts, e)));
        double left = fmax(0, e->tax - (step_peak_bytes(facts) - e->demand)); /* after this step */
        if (grown > 0)
            feature_set(facts, "account.gain_percent",
                        fmin(GAIN_MAX, floor(100 * left / grown)), inputs, 3);
        feature_flag(facts, "account.idle_outgrows",
                     left > 0 && 100 * left >= OUTGROWS * grown, inputs, 3);
        return;
    }
    /* Demand is below the idle memory, so any growth is smaller still. */
    if (e->tax >= e->demand)
        feature_flag(facts, "account.idle_outgrows", true, bound, 2);
    else if (derive_peak(facts, e))
        feature_flag(facts, "account.idle_outgrows", true, peak, 2);
    else if (earlier >= e->demand)
        feature_flag(facts, "account.idle_outgrows", true, cupy_before, 2);
    else
        feature_missing(facts, "account.idle_outgrows", inputs + 1, 2);
}

/* The shares of the parts that took the room left at the plateau. */
static void derive_shares(struct facts *facts, const struct end *e)
{
    static const char *const inputs[] = {"account.growth_bytes", "account.plateau_bytes",
                                         "torch.half_run_peak_bytes", "account.tax_bytes"};
    double growth = 0;
    double half = 0;
    if (!input(facts, inputs[0], &growth))
        return;
    double step = or_zero(facts, "account.step_bytes") + e->request;
    /* the step was as high when half of the growth was done */
    double usual = input(facts, inputs[2], &half)
                       ? fmax(0, half - or_zero(facts, inputs[1]) - growth / 2)
                       : 0;
    double more = fmax(0, step - usual);
    double outside = or_zero(facts, "account.outside_bytes");
    double tax = fmax(0, e->tax);
    double others = e->others;
    double slack = growth + more + outside + others + tax;
    const struct {
        const char *name;
        double part;
    } shares[] = {{"account.growth_share_percent", growth},
                  {"account.step_share_percent", more},
                  {"account.outside_share_percent", outside},
                  {"account.others_share_percent", others},
                  {"account.idle_share_percent", tax}};
    for (size_t i = 0; slack > 0 && i < sizeof shares / sizeof shares[0]; i++)
        feature_set(facts, shares[i].name, floor(100 * shares[i].part / slack + 0.5), inputs, 4);
}

/*
 * Did other processes cause the failure? Either their arrival is most of the change during the run.
 * Or the request fits without them, and the run would last as long again. Where memory is
 * permanently kept, it would have to last twice as long again, because that fills their share, too.
 */
static void derive_others(struct facts *facts, const struct end *e)
{
    static const char *const inputs[] = {"account.others_bytes", "account.demand_bytes",
                                         "f.others_came_bytes"};
    double kept = 0;
    double grown = 0;
    double came = 0;
    double rise = 0;
    double without = e->others - (e->request - e->room);
    if (!input(facts, inputs[0], &(double){0}))
        return;
    (void)kept_growth_bytes(facts, &kept);
    if (!grown_bytes(facts, e, &grown))
        grown = e->demand;
    if (!rise_bytes(facts, &rise))
        rise = 2 * e->demand;
    bool they_came = input(facts, inputs[2], &came) && came > 0 && came >= e->tax &&
                     came >= fmax(kept, rise / 2);
    double times = kept > 0.05 * e->demand && or_zero(facts, "torch.steps_count") > 2 ? 2 : 1;
    feature_flag(facts, "account.others_outweigh",
                 e->others > 0 && without >= 0 &&
                     (they_came || (without >= times * grown && without >= e->tax)),
                 inputs, 3);
}

/* Each step leaves as many blocks behind as before, but larger ones: an object is replaced by a
 * larger one (a cache that torch.cat() grows). */
static void derive_kind(struct facts *facts)
{
    static const char *const inputs[] = {"torch.growth.blocks_count",
                                         "torch.growth.plateau_blocks_count"};
    static const char *const kept_growth[] = {"torch.kept.growth_bytes"};
    double more = 0;
    double before = 0;
    double kept = 0;
    if (account_kept_growth(facts, &kept) && kept > 0) {
        feature_flag(facts, "account.grows_in_size", false, kept_growth, 1);
        return;
    }
    if (or_zero(facts, "account.growth_bytes") > 0 && input(facts, inputs[0], &more) &&
        input(facts, inputs[1], &before) && before > 0)
        feature_flag(facts, "account.grows_in_size", more <= fmax(4, before / 50), inputs, 2);
}

void account_derive_cause(struct facts *facts)
{
    struct end e = {0};
    if (!input(facts, "oom.requested_bytes", &e.request) ||
        !input(facts, "f.held_bytes", &(double){0}))
        return;
    e.live = live_bytes(facts);
    e.idle = idle_bytes(facts);
    e.room = room_bytes(facts);
    e.demand = e.live + e.request;
    e.tax = e.room + e.idle - e.request;
    /* if the program's own limit refused, the memory of others does not matter */
    if (or_zero(facts, "account.budget_bytes") >= or_zero(facts, "account.total_bytes"))
        e.others = or_zero(facts, "account.others_bytes");
    put_end(facts, &e);
    derive_life(facts, &e);
    derive_others(facts, &e);
    derive_shares(facts, &e);
    derive_kind(facts);
}
