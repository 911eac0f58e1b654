/* SPDX-License-Identifier: Apache-2.0 */
/* Collector infiniband: a machine with two adapters, one without, and garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect/collector.h"
#include "harness.h"

extern const struct collector collector_infiniband;

static void port_file(struct harness *h, const char *port, const char *file, const char *text)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", port, file);
    harness_file(h, path, text);
}

/* Does the staged list of counters have the text? It has no terminal sequence in any case. */
static bool counters_have(struct harness *h, const char *wanted)
{
    char *text = harness_staged(h, "infiniband/counters.txt");
    assert_non_null(text);
    assert_null(strchr(text, '\033'));
    bool found = strstr(text, wanted) != NULL;
    free(text);
    return found;
}

static void test_two_adapters(void **state)
{
    struct harness *h = *state;
    port_file(h, "mlx5_0/ports/1", "state", "4: ACTIVE\n");
    port_file(h, "mlx5_0/ports/1", "rate", "400 Gb/sec (4X NDR)\n");
    port_file(h, "mlx5_0/ports/1", "counters/link_downed", "3\n");
    port_file(h, "mlx5_0/ports/1", "counters/symbol_error", "0\n");
    port_file(h, "mlx5_1/ports/1", "state", "1: DOWN\n");
    port_file(h, "mlx5_1/ports/1", "hw_counters/local_ack_timeout_err", "17\n");
    harness_run(h, &collector_infiniband, h->root);
    assert_int_equal(COLLECT_OK, h->status);
    assert_string_equal("mlx5_0 port 1", harness_text(h, "infiniband.0.name"));
    assert_string_equal("ACTIVE", harness_text(h, "infiniband.0.state"));
    assert_string_equal("400 Gb/sec (4X NDR)", harness_text(h, "infiniband.0.rate"));
    assert_int_equal(3, harness_integer(h, "infiniband.0.link_downed_count"));
    assert_int_equal(0, harness_integer(h, "infiniband.0.symbol_errors_count"));
    assert_string_equal("mlx5_1 port 1", harness_text(h, "infiniband.1.name"));
    assert_string_equal("DOWN", harness_text(h, "infiniband.1.state"));
    /* The driver of the second adapter has no such counter, and that is not 0. */
    assert_int_equal(FACT_ABSENT, harness_fact_status(h, "infiniband.1.link_downed_count"));
    assert_true(counters_have(h, "mlx5_0/ports/1/counters/link_downed: 3\n"));
    assert_true(counters_have(h, "mlx5_1/ports/1/hw_counters/local_ack_timeout_err: 17\n"));
}

static void test_machine_without(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/sys/class/drm/version", "drm 1.1.0\n");
    harness_run(h, &collector_infiniband, h->root);
    assert_int_equal(COLLECT_SKIPPED, h->status);
    assert_int_equal(-1, harness_fact_status(h, "infiniband.0.name"));
}

static void test_garbage(void **state)
{
    struct harness *h = *state;
    port_file(h, "mlx5_0/ports/1", "state", "");
    port_file(h, "mlx5_0/ports/1", "counters/link_downed", "many\n");
    port_file(h, "mlx5_0/ports/1", "counters/link_error_recovery", "-1\n");
    port_file(h, "mlx5_0/ports/1", "counters/symbol_error", "18446744073709551615\n");
    port_file(h, "mlx5_0/ports/1", "hw_counters/lifespan", "a\033[31mb\n");
    harness_run(h, &collector_infiniband, h->root);
    assert_int_equal(COLLECT_OK, h->status);
    assert_int_equal(FACT_UNREADABLE, harness_fact_status(h, "infiniband.0.state"));
    assert_int_equal(FACT_UNREADABLE, harness_fact_status(h, "infiniband.0.link_downed_count"));
    assert_int_equal(FACT_UNREADABLE, harness_fact_status(h, "infiniband.0.link_recovered_count"));
    assert_int_equal(FACT_UNREADABLE, harness_fact_status(h, "infiniband.0.symbol_errors_count"));
    assert_true(counters_have(h, "mlx5_0/ports/1/hw_counters/lifespan: a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_adapters, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_machine_without, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_garbage, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("infiniband", tests, NULL, NULL);
}
