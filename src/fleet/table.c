/* SPDX-License-Identifier: Apache-2.0 */
/* For a warehouse and for a monitor: a row for each bundle, numbers of all. Neither keeps the records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/say.h"
#include "fleet/table.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Values of the record that are columns, by the name of the fact. */
static const char *const valued[] = {
    "host.kernel",           "host.amdgpu_version",      "software.rocm_version", "software.torch_version",
    "software.python_version", "gpu.0.gfx",              "gpu.0.vram.total_bytes", "gpu.0.vbios",
};

void fleet_table_heading(struct buf *out)
{
    buf_puts(out, "path,class,subclass,confidence,signature,role,job,launcher,rank,world_size,node_rank,boot,signal,"
                  "exit_code,start_us,fell_us,asked_to_end");
    for (size_t i = 0; i < COUNT(valued); i++)
        buf_printf(out, ",%s", valued[i]);
    buf_putc(out, '\n');
}

/* RFC 4180, in one line. A spreadsheet takes a text that begins with one of "=+-@" for a formula, and a terminal may
 * obey a control character: the bundle may be a stranger's. */
static void put_text(const char *text, struct buf *out)
{
    struct buf clean = BUF_INIT;
    say_word(&clean, text);
    const char *word = buf_str(&clean);
    bool formula = word[0] != '\0' && strchr("=+-@", word[0]) != NULL;
    bool quoted = formula || strpbrk(word, ",\"") != NULL;
    if (quoted)
        buf_puts(out, formula ? "\"'" : "\"");
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '"')
            buf_putc(out, '"');
        buf_putc(out, *at);
    }
    if (quoted)
        buf_putc(out, '"');
    buf_release(&clean);
}

static void add_text(const char *text, struct buf *out)
{
    buf_putc(out, ',');
    put_text(text, out);
}

/* An unknown number is an empty cell. */
static void add_number(int64_t number, struct buf *out)
{
    buf_putc(out, ',');
    if (number != FLEET_UNKNOWN)
        buf_printf(out, "%" PRId64, number);
}

static const char *value_of(const struct fleet_record *record, const char *name)
{
    for (size_t i = 0; i < record->value_count; i++)
        if (strcmp(record->values[i].name, name) == 0)
            return record->values[i].text;
    return "";
}

void fleet_table_row(const struct fleet_record *record, struct buf *out)
{
    put_text(record->path, out);
    add_text(record->class_name, out);
    add_text(record->subclass, out);
    add_text(record->confidence, out);
    add_text(record->signature, out);
    add_text(fleet_role_name(record->role), out);
    add_text(record->job, out);
    add_text(record->launcher, out);
    add_number(record->rank, out);
    add_number(record->world_size, out);
    add_number(record->node_rank, out);
    add_text(record->boot, out);
    add_number(record->signal, out);
    add_number(record->exit_code, out);
    add_number(record->start_us, out);
    add_number(record->fell_us, out);
    add_number(record->is_note ? 1 : 0, out);
    for (size_t i = 0; i < COUNT(valued); i++)
        add_text(value_of(record, valued[i]), out);
    buf_putc(out, '\n');
}

/* A class is a label of a time series: only words of the tree's shape, and not too many. */
static bool is_label(const char *text)
{
    return text[0] != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

static struct fleet_class *class_of(struct fleet_metrics *metrics, const char *name)
{
    if (!is_label(name))
        name = "other";
    for (size_t i = 0; i < metrics->class_count; i++)
        if (strcmp(metrics->classes[i].name, name) == 0)
            return &metrics->classes[i];
    struct fleet_class *last = &metrics->classes[COUNT(metrics->classes) - 1];
    if (metrics->class_count == COUNT(metrics->classes)) {
        (void)snprintf(last->name, sizeof last->name, "other");
        return last;
    }
    struct fleet_class *added = &metrics->classes[metrics->class_count++];
    *added = (struct fleet_class){.last_us = FLEET_UNKNOWN};
    (void)snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

void fleet_metrics_add(struct fleet_metrics *metrics, const struct fleet_record *record, int64_t bytes)
{
    metrics->bytes += bytes;
    if (record->is_note) {
        metrics->notes++;
        return;
    }
    struct fleet_class *class = class_of(metrics, record->class_name);
    class->count++;
    if (record->fell_us > class->last_us)
        class->last_us = record->fell_us;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fleet_class *)a)->name, ((const struct fleet_class *)b)->name);
}

void fleet_metrics_text(struct fleet_metrics *metrics, struct buf *out)
{
    qsort(metrics->classes, metrics->class_count, sizeof *metrics->classes, by_name);
    buf_puts(out, "# TYPE rocmcrash_bundles gauge\n# HELP rocmcrash_bundles Bundles in the folder, by class of failure.\n");
    for (size_t i = 0; i < metrics->class_count; i++)
        buf_printf(out, "rocmcrash_bundles{class=\"%s\"} %zu\n", metrics->classes[i].name, metrics->classes[i].count);
    buf_puts(out, "# TYPE rocmcrash_last_failure_timestamp_seconds gauge\n"
                  "# HELP rocmcrash_last_failure_timestamp_seconds When the latest of them happened.\n");
    for (size_t i = 0; i < metrics->class_count; i++)
        if (metrics->classes[i].last_us != FLEET_UNKNOWN)
            buf_printf(out, "rocmcrash_last_failure_timestamp_seconds{class=\"%s\"} %.3f\n", metrics->classes[i].name,
                       (double)metrics->classes[i].last_us / 1e6);
    buf_printf(out,
               "# TYPE rocmcrash_ranks_ended gauge\n"
               "# HELP rocmcrash_ranks_ended Records of ranks that were asked to end.\n"
               "rocmcrash_ranks_ended %zu\n"
               "# TYPE rocmcrash_bundles_unreadable gauge\n"
               "# HELP rocmcrash_bundles_unreadable Bundles that cannot be read.\n"
               "rocmcrash_bundles_unreadable %zu\n"
               "# TYPE rocmcrash_bundle_bytes gauge\n"
               "# HELP rocmcrash_bundle_bytes Size of all of them.\n"
               "rocmcrash_bundle_bytes %" PRId64 "\n# EOF\n",
               metrics->notes, metrics->unreadable, metrics->bytes);
}
