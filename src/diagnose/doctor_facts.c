/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a bundle as the doctor would have read them before the run. */
#include <string.h>

#include "diagnose/doctor.h"
#include "diagnose/fact.h"

static bool is_of_a_run(const struct facts *facts)
{
    for (size_t i = 0; i < facts_count(facts); i++)
        if (facts_at(facts, i)->when == FACT_BASELINE)
            return true;
    return false;
}

static bool is_counter(const char *name)
{
    return strncmp(name, "gpu.", 4) == 0 || strncmp(name, "others.", 7) == 0 ||
           strncmp(name, "host.", 5) == 0;
}

static int copy_fact(struct facts *to, const struct fact *f)
{
    if (f->status != FACT_PRESENT)
        return facts_set_missing(to, f->name, f->when, f->status, f->reason, f->source);
    switch (f->type) {
    case FACT_TEXT:
        return facts_set_text(to, f->name, f->when, f->text, f->source);
    case FACT_REAL:
        return facts_set_real(to, f->name, f->when, f->real, f->source);
    case FACT_BOOLEAN:
        return facts_set_boolean(to, f->name, f->when, f->integer != 0, f->source);
    default:
        return facts_set_integer(to, f->name, f->when, f->integer, f->source);
    }
}

int doctor_facts_before(struct facts *to, const struct facts *all)
{
    bool run = is_of_a_run(all);
    int r = 0;
    for (size_t i = 0; r == 0 && i < facts_count(all); i++) {
        const struct fact *f = facts_at(all, i);
        bool before = f->when == FACT_BASELINE || f->when == FACT_STATIC;
        bool later = run && !before && (is_counter(f->name) || strncmp(f->name, "f.", 2) == 0);
        if (!later)
            r = copy_fact(to, f);
    }
    return r;
}
