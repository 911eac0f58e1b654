/* SPDX-License-Identifier: Apache-2.0 */
/* Well-behaved and faulty collectors. */
#ifndef TEST_COLLECT_FAKES_H
#define TEST_COLLECT_FAKES_H

#include "collect/collector.h"

extern const struct collector fake_good, fake_good2, fake_skips, fake_silent, fake_slow_phase;
extern const struct collector fake_hangs, fake_ignores_term, fake_grandchild, fake_spins;
extern const struct collector fake_segv, fake_abort, fake_exits, fake_exits_after_facts;
extern const struct collector fake_writes_much, fake_open_much, fake_many_files, fake_fills_disk;
extern const struct collector fake_garbage, fake_garbage_first, fake_garbage_flood, fake_many_facts;
extern const struct collector fake_bad_names, fake_makes_links, fake_environment, fake_claims_stuck;
extern const struct collector fake_leaves_background;

/* Files named here tell the test about processes: fake_grandchild writes pids to "pids". */
#endif
