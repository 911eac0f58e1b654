/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUMMARY.md: the values of the {{placeholders}} of templates/summary.md. The template has the
 * order and the words around them.
 */
#include "report/report.h"

#include "base/buf.h"
#include "diagnose/fact.h"
#include "diagnose/signature.h"
#include "diagnose/verdict.h"
#include "report/internal.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LINE_MAX_BYTES 600
#define NOT_COLLECTED_MAX 6
#define ISSUE_BODY_MAX 60000u /* GitHub takes 65,536 characters, and the user adds some */

static void text(struct buf *out, const char *value)
{
    if (value != NULL)
        escape_markdown(out, value, LINE_MAX_BYTES);
}

static void bullets(const struct verdict_list *list, size_t from, struct buf *out)
{
    for (size_t i = from; i < list->count; i++) {
        buf_puts(out, "- ");
        text(out, list->text[i]);
        buf_putc(out, '\n');
    }
}

static void happened(const struct report_input *in, struct buf *out)
{
    struct buf plain = BUF_INIT;
    report_happened(in->facts, in->verdict, &plain);
    text(out, buf_str(&plain));
    buf_release(&plain);
}

static const char *item_text(const cJSON *item, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

/* On a machine with NVIDIA GPUs, facts that only the amdgpu driver has do not count as missing. */
static bool is_foreign_to(const struct facts *facts, const char *name)
{
    static const char *const amd_only[] = {"drm", "hsa", "devcoredump"};
    const char *driver = NULL;
    if (!facts_get_text(facts, "gpu.0.driver", &driver) || strcmp(driver, "nvidia") != 0)
        return false;
    for (size_t i = 0; i < sizeof(amd_only) / sizeof(amd_only[0]); i++) {
        if (strcmp(name, amd_only[i]) == 0)
            return true;
    }
    return false;
}

/* A "skipped" collector does not apply to this run, or was left out on purpose: it is listed
 * further down. */
static void rows_of(const struct report_input *in, bool skipped, size_t max, const char *between,
                    struct buf *out)
{
    size_t shown = 0;
    size_t more = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, in->items)
    {
        const char *status = item_text(item, "status");
        if (is_foreign_to(in->facts, item_text(item, "name")) && !skipped)
            continue;
        if (strcmp(status, "collected") == 0 || strcmp(status, "ok") == 0 || status[0] == '\0' ||
            (strcmp(status, "skipped") == 0) != skipped)
            continue;
        if (shown == max) {
            more++;
            continue;
        }
        buf_puts(out, shown++ > 0 ? between : "");
        escape_markdown(out, item_text(item, "name"), 60);
        if (!skipped) {
            buf_puts(out, ": ");
            escape_markdown(out, status, 20);
        }
        if (item_text(item, "reason")[0] != '\0') {
            buf_puts(out, skipped ? ": " : ", ");
            escape_markdown(out, item_text(item, "reason"), 120);
        }
    }
    if (more > 0)
        buf_printf(out, "; %zu more in manifest.json", more);
}

/* A signal that somebody sends comes wherever the program is: it did not crash there. */
static void frames_heading(const struct report_input *in, struct buf *out)
{
    static const char *const sent[] = {"KILL", "TERM", "INT", "HUP", "QUIT", "ALRM", "XCPU", "USR1", "USR2", "PIPE"};
    const char *name = NULL;
    int64_t sender = 0, own = 0;
    bool is_sent = facts_get_integer(in->facts, "target.signal_sender_pid", &sender) &&
                   facts_get_integer(in->facts, "target.failed_pid", &own) && sender != own;
    if (facts_get_text(in->facts, "snap.life", &name))
        buf_puts(out, facts_is_present(in->facts, "snap.python_stack") ? "Where it stood, lines of Python" : "Where it stood");
    if (facts_is_present(in->facts, "snap.life") || !facts_get_text(in->facts, "target.failed_signal_name", &name))
        return;
    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
        is_sent = is_sent || strcmp(name, sent[i]) == 0;
    if (is_sent)
        buf_printf(out, "Where it was when SIG%s came", name);
    else
        buf_puts(out, "Where it crashed");
}

static void not_collected(const struct report_input *in, struct buf *out)
{
    rows_of(in, false, NOT_COLLECTED_MAX, "; ", out);
}

static void left_alone(const struct report_input *in, struct buf *out)
{
    struct buf rows = BUF_INIT;
    rows_of(in, true, SIZE_MAX, "\n- ", &rows);
    if (rows.len > 0)
        buf_printf(out, "- %s\n", buf_str(&rows));
    buf_release(&rows);
}

/* The first advice without its verify step, which has its own line. */
static void first_advice(const struct report_input *in, struct buf *out)
{
    static const char words[] = " To see that it helped: ";
    if (in->verdict->advice.count == 0)
        return;
    const char *full = in->verdict->advice.text[0];
    const char *check = strstr(full, words);
    const char *source = strrchr(full, '[');
    struct buf plain = BUF_INIT;
    buf_append(&plain, full, check != NULL ? (size_t)(check - full) : strlen(full));
    if (check != NULL && source != NULL && source > check)
        buf_printf(&plain, " %s", source);
    text(out, buf_str(&plain));
    buf_release(&plain);
}

static void verify(const struct report_input *in, struct buf *out)
{
    text(out, in->verdict->verify);
}

static void more_advice(const struct report_input *in, struct buf *out)
{
    bullets(&in->verdict->advice, 1, out);
}

static void why(const struct report_input *in, struct buf *out)
{
    bullets(&in->verdict->why, 0, out);
}

static void against(const struct report_input *in, struct buf *out)
{
    bullets(&in->verdict->against, 0, out);
}

static void also(const struct report_input *in, struct buf *out)
{
    if (in->verdict->also.count > 0)
        buf_puts(out, "These rules hold, too. rocmcrash asks for the more special cause first, and the first rule that holds is the verdict.\n\n");
    bullets(&in->verdict->also, 0, out);
}

static void missing(const struct report_input *in, struct buf *out)
{
    report_missing(in->verdict, out);
}

static void machine_line(const struct report_input *in, struct buf *out)
{
    report_machine_line(in->facts, out);
}

static void sentence(const struct report_input *in, struct buf *out)
{
    struct buf heading = BUF_INIT;
    report_happened(in->facts, in->verdict, &heading);
    if (!report_is_said(buf_str(&heading), in->verdict->sentence))
        text(out, in->verdict->sentence);
    buf_release(&heading);
}

static void file_at(const struct report_input *in, struct buf *out)
{
    text(out, in->verdict->file_at);
}

static void command(const struct report_input *in, struct buf *out)
{
    if (in->command != NULL)
        escape_code(out, in->command, LINE_MAX_BYTES);
}

static void bundle(const struct report_input *in, struct buf *out)
{
    if (in->bundle_name != NULL)
        escape_code(out, in->bundle_name, LINE_MAX_BYTES);
}

/* Nearly everywhere only root may read the kernel log, and no one should run a model as root. */
static void complete_command(const struct report_input *in, struct buf *out)
{
    const struct fact *log = facts_best(in->facts, "kmsg.readable");
    if (log == NULL || log->status != FACT_UNREADABLE || in->bundle_name == NULL)
        return;
    buf_puts(out, "sudo rocmcrash complete ");
    escape_code(out, in->bundle_name, LINE_MAX_BYTES);
    buf_puts(out, ".tar.gz");
}

static void signature(const struct report_input *in, struct buf *out)
{
    char id[SIGNATURE_ID_SIZE];
    signature_id(in->verdict, in->facts, id);
    buf_puts(out, id);
}

static void version(const struct report_input *in, struct buf *out)
{
    text(out, in->tool_version);
}

static void memory(const struct report_input *in, struct buf *out)
{
    report_memory_table(in->facts, out);
}

static void ranks(const struct report_input *in, struct buf *out)
{
    struct buf plain = BUF_INIT;
    report_ranks(in->facts, &plain);
    escape_markdown(out, buf_str(&plain), LINE_MAX_BYTES);
    buf_release(&plain);
}

static void flowchart(const struct report_input *in, struct buf *out)
{
    report_flowchart(in->verdict, out);
}

static void ledger(const struct report_input *in, struct buf *out)
{
    report_ledger(in->facts, out);
}

/* The tables of details: each has the facts whose names begin with one of these prefixes. */
#define PREFIXES_MAX 6
static const struct {
    const char *name;
    const char *prefixes[PREFIXES_MAX];
} tables[] = {
    {"timeline", {"run.", "target.", "job.", "stack.", "snap."}},
    {"messages", {"oom.", "msg.", "kmsg.", "devcoredump.", "vendor."}},
    {"machine", {"gpu.", "hsa."}},
    {"host", {"host.", "report."}},
    {"processes", {"proc.", "others.", "siblings."}},
    {"versions", {"software."}},
    {"environment", {"env."}},
    {"torch_facts", {"torch.", "jax.", "tensorflow.", "hook."}},
    {"models", {"models."}},
    {"ledger_facts", {"ledger."}},
    {"features", {"f.", "account."}},
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static void torch(const struct report_input *in, struct buf *out)
{
    report_torch(in->facts, out);
}

static void engine(const struct report_input *in, struct buf *out)
{
    report_engine(in->facts, out);
}

static void other_facts(const struct report_input *in, struct buf *out)
{
    const char *all[TABLES * PREFIXES_MAX + 1];
    size_t n = 0;
    for (size_t i = 0; i < TABLES; i++) {
        for (size_t k = 0; k < PREFIXES_MAX && tables[i].prefixes[k] != NULL; k++)
            all[n++] = tables[i].prefixes[k];
    }
    all[n] = NULL;
    report_other_facts(in->facts, all, in->fact_rows_max, out);
}

/* The heading is printed only if a part below it prints text. */
static void memory_heading(const struct report_input *in, struct buf *out)
{
    static void (*const parts[])(const struct report_input *, struct buf *) = {
        report_account, memory, report_sparklines, ledger, torch, engine};
    struct buf probe = BUF_INIT;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i](in, &probe);
    if (probe.len > 0)
        buf_puts(out, "## Memory\n\n");
    buf_release(&probe);
}

static const struct {
    const char *name;
    void (*write)(const struct report_input *, struct buf *);
} values[] = {
    {"happened", happened},
    {"memory_heading", memory_heading},
    {"program_said", report_program_said},
    {"frames", report_frames},
    {"frames_heading", frames_heading},
    {"run_line", report_run_line},
    {"settings_line", report_settings_line},
    {"odd_settings", report_odd_settings},
    {"files", report_files},
    {"verify", verify},
    {"sentence", sentence},
    {"command", command},
    {"bundle", bundle},
    {"tool_version", version},
    {"signature", signature},
    {"account", report_account},
    {"ranks", ranks},
    {"memory_table", memory},
    {"sparklines", report_sparklines},
    {"first_advice", first_advice},
    {"more_advice", more_advice},
    {"file_at", file_at},
    {"not_collected", not_collected},
    {"complete_command", complete_command},
    {"flowchart", flowchart},
    {"why", why},
    {"against", against},
    {"kernel_timeline", report_kernel_timeline},
    {"also", also},
    {"missing", missing},
    {"ledger", ledger},
    {"torch", torch},
    {"engine", engine},
    {"machine_line", machine_line},
    {"left_alone", left_alone},
    {"other_facts", other_facts},
};

static void write_value(const struct report_input *in, const char *name, struct buf *out)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (strcmp(values[i].name, name) == 0) {
            values[i].write(in, out);
            return;
        }
    }
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(tables[i].name, name) == 0) {
            const char *prefixes[PREFIXES_MAX + 1] = {NULL};
            memcpy(prefixes, tables[i].prefixes, sizeof(tables[i].prefixes));
            report_fact_table(in->facts, prefixes, in->fact_rows_max, out);
            return;
        }
    }
    buf_printf(out, "(template: no value '%s')", name);
}

/* The tables get shorter until the text fits; facts.json has all of them. */
void report_summary(const struct report_input *in, struct buf *out)
{
    static const size_t rows[] = {160, 40, 12, 3};
    struct report_input fitting = *in;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_release(out);
        fitting.fact_rows_max = rows[i];
        template_render(in->template_text, &fitting, write_value, out);
        if (out->len <= ISSUE_BODY_MAX)
            return;
    }
}
