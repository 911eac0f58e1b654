/* SPDX-License-Identifier: Apache-2.0 */
#include "expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "help.h"

void expect_metric(struct shared *shared, enum metric metric, uint32_t instance,
                   enum value_status status, uint64_t value)
{
    struct series_set set;
    help_ring_to_series(shared, &set);
    const struct series_point *p = series_at(series_find(&set, metric, instance), UINT64_MAX);
    if (p == NULL)
        fail_msg("nothing of metric %d of %u", (int)metric, instance);
    assert_int_equal(p->status, status);
    assert_int_equal(p->value, status == VALUE_OK ? value : 0);
    series_release(&set);
}
