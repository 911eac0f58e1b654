/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle's charts while each allocation in turn fails: charts, or -ENOMEM. */
#include "starved.h"

#include "base/buf.h"
#include "report/chart.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* True if that allocation was never reached. */
static bool read_without(long n)
{
    static const char telemetry[] = "time_s,flags,gpu.0.vram.total_bytes,gpu.0.vram.used_bytes,"
                                    "proc.7.rss_bytes,proc.7.kfd_vram_bytes,proc.7.outside\n"
                                    "0.5,,17179869184,10737418240,1048576,6442450944,\n"
                                    "1.0,impact,17179869184,12884901888,1048576,8589934592,\n";
    static const char torch[] = "time_s,device,allocated_bytes,reserved_bytes\n"
                                "0.4,0,3221225472,5368709120\n";
    struct charts charts;
    struct buf text = BUF_INIT;
    allocations_left = n;
    int r = charts_read(&charts, telemetry, torch, false);
    bool reached = allocations_left < 0;
    allocations_left = -1;
    assert_true(r == 0 || (r == -ENOMEM && reached));
    if (r == 0) {
        assert_int_equal(charts.rows, 2);
        charts_to_json(&charts, &text);
        assert_false(buf_failed(&text));
    }
    buf_release(&text);
    charts_release(&charts);
    return !reached;
}

static void every_allocation_fails_once(void **state)
{
    long n = 0;
    (void)state;
    while (n < 1000 && !read_without(n))
        n++;
    assert_in_range(n, 15, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests_name("chart_starved", tests, NULL, NULL);
}
