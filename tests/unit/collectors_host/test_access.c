/* SPDX-License-Identifier: Apache-2.0 */
/* Collector access: display controllers, RDMA devices and rights, on a machine that has them, on one without them, and
 * with garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/collector.h"
#include "harness.h"

extern const struct collector collector_access;

static void pci(struct harness *h, const char *address, const char *vendor, const char *class_number)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    harness_file(h, path, vendor);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
    harness_file(h, path, class_number);
}

static void test_machine_with_devices(void **state)
{
    struct harness *h = *state;
    pci(h, "0000:03:00.0", "0x1002\n", "0x030000\n");
    pci(h, "0000:43:00.0", "0x1002\n", "0x120000\n"); /* an accelerator */
    pci(h, "0000:03:00.1", "0x1002\n", "0x040300\n"); /* the card's audio device */
    pci(h, "0000:04:00.0", "0x10de\n", "0x030200\n");
    harness_file(h, "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    harness_file(h, "/proc/sys/kernel/dmesg_restrict", "1\n");
    harness_file(h, "/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    harness_run(h, &collector_access, h->root);
    assert_int_equal(2, harness_integer(h, "host.pci_amd_displays"));
    assert_int_equal(1, harness_integer(h, "host.pci_nvidia_displays"));
    assert_int_equal(1, harness_integer(h, "host.rdma_devices"));
    assert_int_equal(1, harness_integer(h, "host.dmesg_restrict"));
    /* A recorded machine has no /dev, which says nothing about rights. */
    assert_int_equal(FACT_ABSENT, harness_fact_status(h, "host.kfd_access"));
}

static void test_machine_without(void **state)
{
    struct harness *h = *state;
    harness_file(h, "/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n");
    harness_run(h, &collector_access, h->root);
    assert_int_equal(0, harness_integer(h, "host.pci_amd_displays"));
    assert_int_equal(FACT_ABSENT, harness_fact_status(h, "host.rdma_devices"));
    assert_int_equal(FACT_ABSENT, harness_fact_status(h, "host.dmesg_restrict"));
}

static void test_garbage(void **state)
{
    struct harness *h = *state;
    pci(h, "0000:03:00.0", "", "\xff\xfe");
    pci(h, "0000:04:00.0", "0x1002 0x030000", "0x03");
    harness_file(h, "/proc/sys/kernel/dmesg_restrict", "perhaps\n");
    harness_run(h, &collector_access, h->root);
    assert_int_equal(0, harness_integer(h, "host.pci_amd_displays"));
    assert_int_equal(FACT_UNREADABLE, harness_fact_status(h, "host.dmesg_restrict"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine_with_devices, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_machine_without, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_garbage, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
