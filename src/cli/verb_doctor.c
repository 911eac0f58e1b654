/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `doctor [OPTIONS] [-- COMMAND...]`: what would a bundle say of this machine, before anything has
 * failed? One line a finding, its number in it; the next two say what mends it and how to see that.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/assets.h"
#include "cli/doctor_collect.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "diagnose/computed.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

#define GPUS_MAX 64

struct doctor_line {
    bool json, all, help;
    const char *rules, *facts;
};

static const struct option_def option_table[] = {
    {"json", 0, NULL, "print the findings, and every rule that could not be asked, as JSON",
     option_on, offsetof(struct doctor_line, json)},
    {"all", 'a', NULL, "also print what could not be looked at, and where the rules come from",
     option_on, offsetof(struct doctor_line, all)},
    {"facts", 0, "FILE", "judge these facts (facts.json of a bundle) instead of this machine",
     option_text, offsetof(struct doctor_line, facts)},
    {"rules", 0, "FILE", "rules of one's own instead of templates/doctor.json",
     option_text, offsetof(struct doctor_line, rules)},
    {"sysroot", 0, "DIR", "read /sys, /dev and machine-wide /proc files below DIR",
     option_sysroot, 0},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct doctor_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_help(void)
{
    help_text(
        "Usage: rocmcrash doctor [OPTIONS] [-- COMMAND [ARGUMENT...]]\n\n"
        "Looks at this machine, its limits and its environment for what makes ROCm\n"
        "programs fail. COMMAND is not run: its interpreter and libraries are looked at\n"
        "(default: python3). Nothing is changed, and no GPU that sleeps is woken.\n\nOptions:\n");
    options_help(option_table);
    help_text("\nExit status: 0 nothing is wrong, 1 something may be wrong, 2 something will\n"
              "fail, 125 the doctor itself failed.\n");
}

/* --- the report in words --- */

static void put_line(struct buf *out, const char *label, const char *text)
{
    buf_puts(out, label);
    say_word(out, text);
    buf_putc(out, '\n');
}

static void put_finding(struct buf *out, const struct doctor_finding *f, bool all)
{
    struct buf label = BUF_INIT;
    bool many = strpbrk(f->gpus, ",-") != NULL;
    buf_printf(&label, "%s %s: ", doctor_severity_name(f->severity), f->id);
    if (many)
        buf_printf(&label, "(GPU %s) ", f->gpus);
    put_line(out, buf_str(&label), f->say);
    put_line(out, "     try:    ", f->mend);
    put_line(out, "     check:  ", f->verify);
    if (all)
        put_line(out, "     source: ", f->source);
    buf_release(&label);
}

/* "gfx1100, gfx1036", each kind once */
static void put_targets(struct buf *out, const struct facts *facts, int64_t gpus)
{
    struct buf list = BUF_INIT;
    for (int gpu = 0; gpu < gpus && gpu < GPUS_MAX; gpu++) {
        char name[32];
        char word[40];
        const char *text = NULL;
        (void)snprintf(name, sizeof name, "gpu.%d.gfx", gpu);
        if (!facts_get_text(facts, name, &text))
            continue;
        (void)snprintf(word, sizeof word, "%.30s, ", text);
        if (strstr(buf_str(&list), word) == NULL)
            buf_puts(&list, word);
    }
    if (list.len > 2) {
        list.data[list.len - 2] = '\0';
        buf_printf(out, " (%s)", buf_str(&list));
    }
    buf_release(&list);
}

/* "2 GPUs (gfx1100), Linux 6.12.48, PyTorch 2.9.1+rocm6.4" as far as it is known. */
static void put_machine(struct buf *out, const struct facts *facts)
{
    int64_t gpus = 0;
    const char *text = NULL;
    if (!facts_get_integer(facts, "gpu.count", &gpus) || gpus < 0)
        buf_puts(out, "GPUs unknown");
    else
        buf_printf(out, "%" PRId64 " GPU%s", gpus, gpus == 1 ? "" : "s");
    put_targets(out, facts, gpus);
    if (facts_get_text(facts, "host.kernel", &text))
        buf_printf(out, ", Linux %s", text);
    if (facts_get_text(facts, "software.torch_version", &text))
        buf_printf(out, ", PyTorch %s", text);
}

/* "1 thing will fail, 2 may be wrong: " */
static void put_counts(struct buf *out, const size_t counts[DOCTOR_FAIL + 1])
{
    static const char *const words[] = {[DOCTOR_FAIL] = "will fail", [DOCTOR_WARN] = "may be wrong", [DOCTOR_NOTE] = "to note"};
    bool first = true;
    for (int i = DOCTOR_FAIL; i >= DOCTOR_NOTE; i--) {
        if (counts[i] == 0)
            continue;
        buf_printf(out, "%s%zu%s %s", first ? "" : ", ", counts[i], !first ? "" : counts[i] == 1 ? " thing" : " things", words[i]);
        first = false;
    }
    buf_puts(out, ": ");
}

static void put_summary(struct buf *out, const struct facts *facts,
                        const struct doctor_report *report)
{
    size_t counts[DOCTOR_FAIL + 1] = {0};
    struct buf machine = BUF_INIT;
    for (size_t i = 0; i < report->finding_count; i++)
        counts[report->findings[i].severity]++;
    buf_puts(out, "rocmcrash: ");
    if (doctor_worst(report) == DOCTOR_NOTE)
        buf_puts(out, "nothing that is known to make ROCm programs fail was found: ");
    else
        put_counts(out, counts);
    put_machine(&machine, facts);
    say_word(out, buf_str(&machine)); /* --facts may be a stranger's */
    buf_release(&machine);
    buf_printf(out, "; %zu rules", report->rules);
    if (report->undecided_count > 0)
        buf_printf(out, ", %zu of them could not be asked here (--all lists them)", report->undecided_count);
    buf_putc(out, '\n');
}

static int print_words(const struct facts *facts, const struct doctor_report *report, bool all)
{
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < report->finding_count; i++)
        put_finding(&out, &report->findings[i], all);
    for (size_t i = 0; all && i < report->undecided_count; i++) {
        struct buf label = BUF_INIT;
        buf_printf(&label, "????  %s: ", report->undecided[i].id);
        put_line(&out, buf_str(&label), report->undecided[i].missing);
        buf_release(&label);
    }
    put_summary(&out, facts, report);
    bool ok = !buf_failed(&out) && say_text(stdout, buf_str(&out)) == 0 && fflush(stdout) == 0;
    buf_release(&out);
    return ok ? 0 : -EIO;
}

/* --- the examination --- */

static struct doctor_rules *read_rules(const char *own, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = asset_or_file(own, "doctor.json", &text, err);
    return len < 0 ? NULL
                   : doctor_rules_parse(text, (size_t)len, own != NULL ? own : "doctor.json", err);
}

static int read_facts(struct facts *facts, const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t len = fs_read_all(path, (size_t)16 << 20, &text);
    if (len < 0)
        return rc_err_errno(err, (int)len, "cannot read '%s'", path);
    cJSON *document = cJSON_ParseWithLength(text, (size_t)len);
    int r = document == NULL ? rc_err_set(err, -EBADMSG, "'%s' is not JSON", path)
                             : facts_from_json(facts, document, err);
    cJSON_Delete(document);
    return r;
}

static int add_facts_file(struct facts *facts, const char *path, struct rc_err *err)
{
    struct facts *all = facts_new();
    int r = all == NULL ? -ENOMEM : read_facts(all, path, err);
    if (r == 0)
        r = doctor_facts_before(facts, all);
    facts_free(all);
    return r;
}

static int examine(const struct doctor_line *line, const char *const *argv,
                   const struct doctor_rules *rules, enum doctor_severity *ret, struct rc_err *err)
{
    struct computed *computed = asset_computed(err);
    struct facts *facts = facts_new();
    struct doctor_report report = {.rules = 0};
    int r = facts == NULL ? -ENOMEM : 0;
    if (r == 0 && computed == NULL)
        r = -EINVAL;
    if (r == 0 && line->facts != NULL)
        r = add_facts_file(facts, line->facts, err);
    else if (r == 0)
        r = doctor_collect(facts, argv, err);
    if (r == 0)
        r = doctor_examine(facts, computed, rules, &report, err);
    if (r == 0)
        r = line->json ? json_print(doctor_report_to_json(&report), JSON_PAGES) : print_words(facts, &report, line->all);
    *ret = doctor_worst(&report);
    doctor_report_release(&report);
    facts_free(facts);
    computed_free(computed);
    return r;
}

int verb_doctor(int argc, char *argv[])
{
    static const char *const python[] = {"python3", NULL};
    struct doctor_line line = {.json = false};
    struct rc_err err = {""};
    enum doctor_severity worst = DOCTOR_NOTE;
    int at = options_parse(option_table, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        print_help();
        return VERB_EXIT_OK;
    }
    bool has_command = at > 0 && strcmp(argv[at - 1], "--") == 0 && argv[at] != NULL;
    if (at < 0 || (argv[at] != NULL && !has_command)) {
        if (at < 0)
            (void)say_line(stderr, "rocmcrash: %s", err.msg);
        else
            (void)say_line(stderr, "rocmcrash: a command needs '--' before it: rocmcrash doctor -- %s", argv[at]);
        return VERB_EXIT_USAGE;
    }
    if (has_command && !suggest_finds(argv[at])) {
        (void)say_line(stderr, "rocmcrash: cannot find '%s'", argv[at]);
        return VERB_EXIT_USAGE;
    }
    struct doctor_rules *rules = read_rules(line.rules, &err);
    int r = rules == NULL ? -EINVAL : 0;
    if (r == 0)
        r = examine(&line, has_command ? (const char *const *)argv + at : python, rules, &worst,
                    &err);
    doctor_rules_free(rules);
    if (r < 0 && ferror(stdout))
        return VERB_EXIT_FAILED;
    if (r < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg[0] != '\0' ? err.msg : strerror(-r));
        return VERB_EXIT_USAGE;
    }
    return worst == DOCTOR_FAIL ? VERB_EXIT_FAILED
                                : (worst == DOCTOR_WARN ? VERB_EXIT_BAD : VERB_EXIT_OK);
}
