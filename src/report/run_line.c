/* SPDX-License-Identifier: Apache-2.0 */
/* How the run ended, its duration, its start, and the settings in force. */
#include "report/internal.h"

#include "base/buf.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "report/report.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SETTINGS_MAX 8
#define PART_BYTES 500
#define SETTING_BYTES 120
#define ODD_SETTING_BYTES 400

static void add(struct buf *out, const struct facts *facts, const char *sentence)
{
    char *text = template_fill(sentence, facts, false);
    if (text != NULL && text[0] != '\0') {
        buf_puts(out, out->len > 0 ? ", " : "");
        escape_markdown(out, text, PART_BYTES);
    }
    free(text);
}

/* Variables that change how GPU programs use memory and devices; versions that images set do not. */
static bool is_setting(const char *name)
{
    static const char *const prefixes[] = {
        "PYTORCH_", "HIP_", "HSA_", "ROCR_", "GPU_", "AMD_", "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING", "XLA_", "TF_GPU", "TF_FORCE_GPU", "VLLM_", "GGML_", "NCCL_",
        "MIOPEN_", "OLLAMA_", "OMP_NUM_THREADS"};
    size_t len = strlen(name);
    if (len > 8 && strcmp(name + len - 8, "_VERSION") == 0 && strstr(name, "OVERRIDE") == NULL)
        return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

void report_settings_line(const struct report_input *in, struct buf *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < facts_count(in->facts); i++) {
        const struct fact *f = facts_at(in->facts, i);
        if (strncmp(f->name, "env.", 4) != 0 || f != facts_best(in->facts, f->name) ||
            f->status != FACT_PRESENT || f->type != FACT_TEXT || f->text == NULL || !is_setting(f->name + 4))
            continue;
        if (shown++ == SETTINGS_MAX) {
            buf_puts(out, ", more in environment/");
            return;
        }
        struct buf word = BUF_INIT;
        buf_printf(&word, "%s=%s", f->name + 4, f->text);
        buf_puts(out, shown > 1 ? ", `" : "`");
        escape_code(out, buf_str(&word), SETTING_BYTES);
        buf_putc(out, '`');
        buf_release(&word);
    }
}

/* "rocmcrash-20261122T181938Z-...": the name of a run's bundle holds its start. */
static bool begin_by_name(const char *bundle_name, char out[32])
{
    static const char shape[] = "rocmcrash-dddddddd?dddddd?";
    for (size_t i = 0; shape[i] != '\0'; i++) {
        char c = bundle_name[i];
        if (shape[i] == 'd' ? !isdigit((unsigned char)c) : shape[i] != '?' && c != shape[i])
            return false;
    }
    const char *s = bundle_name + 10;
    (void)snprintf(out, 32, "%.4s-%.2s-%.2s %.2s:%.2s:%.2s UTC", s, s + 4, s + 6, s + 9, s + 11,
                   s + 13);
    return true;
}

/* The name of a snapshot holds the time of the snapshot. */
static bool begin_of(const struct report_input *in, char out[32])
{
    int64_t seconds = 0;
    struct tm tm;
    if (!facts_get_integer(in->facts, "run.start_time_s", &seconds))
        return in->bundle_name != NULL && !facts_is_present(in->facts, "run.snapshot") &&
               begin_by_name(in->bundle_name, out);
    time_t time = (time_t)seconds;
    return gmtime_r(&time, &tm) != NULL && strftime(out, 32, "%Y-%m-%d %H:%M:%S UTC", &tm) > 0;
}

void report_run_line(const struct report_input *in, struct buf *ret)
{
    struct buf line = BUF_INIT;
    const char *signal_name = NULL;
    bool by_signal = facts_get_text(in->facts, "target.signal_name", &signal_name);
    char begin[32];
    add(&line, in->facts, by_signal ? "ended by SIG{target.signal_name}" : "[[ended with exit status {target.exit_code}]]");
    add(&line, in->facts, "[[after {run.duration_ms}]]");
    if (begin_of(in, begin))
        buf_printf(&line, "%sbegan %s", line.len > 0 ? ", " : "", begin);
    add(&line, in->facts, "[[snapshot after {run.snapshot_age_ms}]][[ ({run.snapshot_why})]]");
    add(&line, in->facts, facts_is_present(in->facts, "run.live_bundle")
                              ? "while it ran, a bundle was made: {run.live_bundle} ({run.live_bundle_why}); this one is to be attached, it has the end as well"
                              : "[[while it ran, a bundle was begun ({run.live_bundle_why})]]");
    buf_append(ret, buf_str(&line), line.len);
    buf_release(&line);
}

void report_odd_settings(const struct report_input *in, struct buf *out)
{
    for (size_t i = 0; in->machine != NULL && i < in->machine->finding_count; i++) {
        const struct doctor_finding *f = &in->machine->findings[i];
        if (!f->is_setting)
            continue;
        buf_puts(out, "- **Odd setting:** ");
        escape_markdown(out, f->say, ODD_SETTING_BYTES);
        if (strpbrk(f->gpus, "-,") != NULL)
            buf_printf(out, " (GPUs %s)", f->gpus);
        buf_putc(out, '\n');
    }
}
