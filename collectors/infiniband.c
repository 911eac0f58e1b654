/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of InfiniBand and RoCE adapters (/sys/class/infiniband/DEVICE/ports/N): state, rate, and the counters of
 * errors. The counters run since the driver was loaded, so a number alone does not say that this run had the
 * error. A driver asks the adapter's firmware for each counter, which takes long when that hangs: the collector
 * is slow, and its deadline covers it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/machine.h"

static const char adapters[] = "/sys/class/infiniband";

enum {
    ADAPTERS_MAX = 64,
    PORTS_MAX = 16, /* of one adapter */
    COUNTERS_MAX = 128,
    PATH_SIZE = 256,
};

/* Documentation/ABI/stable/sysfs-class-infiniband: symbol_error and the like. */
static const struct counter {
    const char *file;
    const char *fact;
} counters[] = {
    {"link_downed", "link_downed_count"},
    {"link_error_recovery", "link_recovered_count"},
    {"symbol_error", "symbol_errors_count"},
    {"port_rcv_errors", "receive_errors_count"},
    {"port_xmit_discards", "send_discards_count"},
};

/* "4: ACTIVE" -> "ACTIVE"; "100 Gb/sec (4X EDR)" stays. */
static void give_word(struct collect_out *out, int number, const char *port, const char *file, const char *fact)
{
    char path[PATH_SIZE];
    char name[64];
    char text[64];
    (void)snprintf(path, sizeof path, "%s/%s", port, file);
    (void)snprintf(name, sizeof name, "infiniband.%d.%s", number, fact);
    ssize_t n = fs_read_machine_text(path, text, sizeof text);
    if (n <= 0) {
        machine_missing(out, name, FACT_AFTER, n < 0 ? (int)n : -EINVAL, path);
        return;
    }
    const char *word = strstr(text, ": ");
    collect_text(out, name, FACT_AFTER, word != NULL ? word + 2 : text, path);
}

static void give_counters(struct collect_out *out, int number, const char *port)
{
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        char path[PATH_SIZE];
        char name[64];
        (void)snprintf(path, sizeof path, "%.200s/counters/%s", port, counters[i].file);
        (void)snprintf(name, sizeof name, "infiniband.%d.%s", number, counters[i].fact);
        machine_integer(out, name, FACT_AFTER, path);
    }
}

/* Every counter that the driver has, as text: adapters of different vendors have different ones. */
static void add_folder(struct buf *text, const char *port, const char *folder)
{
    static char names[COUNTERS_MAX][MACHINE_NAME_MAX];
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s", port, folder);
    int n = machine_list(path, names, COUNTERS_MAX);
    for (int i = 0; i < n; i++) {
        char value[64];
        (void)snprintf(path, sizeof path, "%.160s/%s/%.63s", port, folder, names[i]);
        if (fs_read_machine_text(path, value, sizeof value) <= 0)
            continue;
        buf_printf(text, "%s: ", path);
        machine_append_clean(text, value, strlen(value));
        buf_putc(text, '\n');
    }
}

static void give_port(struct collect_out *out, struct buf *text, int number, const char *adapter, const char *port)
{
    char path[PATH_SIZE];
    char name[64];
    char value[2 * MACHINE_NAME_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/%.63s/ports/%.63s", adapters, adapter, port);
    (void)snprintf(name, sizeof name, "infiniband.%d.name", number);
    (void)snprintf(value, sizeof value, "%.63s port %.63s", adapter, port);
    collect_text(out, name, FACT_STATIC, value, path);
    give_word(out, number, path, "state", "state");
    give_word(out, number, path, "rate", "rate");
    give_word(out, number, path, "link_layer", "link_layer");
    give_counters(out, number, path);
    add_folder(text, path, "counters");
    add_folder(text, path, "hw_counters");
}

/* Number of ports so far, with those of this adapter. */
static int give_adapter(struct collect_out *out, struct buf *text, int number, const char *adapter)
{
    char ports[PORTS_MAX][MACHINE_NAME_MAX];
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%.63s/ports", adapters, adapter);
    int n = machine_list(path, ports, PORTS_MAX);
    for (int i = 0; i < n; i++)
        give_port(out, text, number++, adapter, ports[i]);
    return number;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    static char names[ADAPTERS_MAX][MACHINE_NAME_MAX];
    struct buf text = BUF_INIT;
    int ports = 0;
    (void)ctx;
    int n = machine_list(adapters, names, ADAPTERS_MAX);
    if (n < 0 && n != -ENOENT)
        return collect_reason(out, COLLECT_FAILED, "%s: %s", adapters, strerror(-n));
    for (int i = 0; i < n; i++)
        ports = give_adapter(out, &text, ports, names[i]);
    if (ports == 0)
        return collect_reason(out, COLLECT_SKIPPED, "no InfiniBand or RoCE adapter");
    int r = buf_failed(&text) ? -ENOMEM : collect_write(out, "counters.txt", buf_str(&text), text.len);
    buf_release(&text);
    return r < 0 ? collect_reason(out, COLLECT_PARTIAL, "counters.txt: %s", strerror(-r)) : COLLECT_OK;
}

const struct collector collector_infiniband = {
    .name = "infiniband",
    .describe = "ports of InfiniBand and RoCE adapters: state, rate, counters of errors",
    .phase = COLLECT_SLOW,
    .run = run,
};
