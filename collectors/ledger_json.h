/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/ledger.json: the whole ledger for people and tools; the live set is cut to its largest. */
#ifndef COLLECTORS_LEDGER_JSON_H
#define COLLECTORS_LEDGER_JSON_H

struct cJSON;
struct ledger;
struct ledger_view;

/* `gpu_index`: the run's index of each of the ledger's GPUs, -1 = not known. NULL: out of memory.
 */
struct cJSON *ledger_to_json(const struct ledger *ledger, const struct ledger_view *view,
                             const int *gpu_index);

#endif
