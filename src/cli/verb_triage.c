/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `triage`: judge a bundle (or every bundle of a directory) again with this tree, or judge text
 * that somebody pasted into an issue. Reads no machine: the same input gives the same answer
 * anywhere.
 */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/assets.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/site.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "diagnose/explain.h"
#include "diagnose/fact.h"
#include "diagnose/features.h"
#include "diagnose/verdict.h"
#include "experiment/campaign_verdict.h"
#include "report/report.h"

#define FACTS_MAX ((size_t)16 << 20) /* the JSON of a bundle, or of --facts */
#define TEXT_MAX ((size_t)8 << 20)
#define LOG_MAX ((size_t)512 << 20)

struct triage_line {
    const char *kernel_log, *env, *facts, *tree, *explain;
    bool json, help;
    bool table; /* of a folder */
};

static const struct option_def option_table[] = {
    {"kernel-log", 0, "FILE", "what the kernel said (dmesg, journalctl -k)",
     option_text, offsetof(struct triage_line, kernel_log)},
    {"env", 0, "FILE", "environment as NAME=VALUE lines",
     option_text, offsetof(struct triage_line, env)},
    {"facts", 0, "FILE", "further facts as JSON", option_text, offsetof(struct triage_line, facts)},
    {"tree", 0, "FILE", "use this decision tree", option_text, offsetof(struct triage_line, tree)},
    {"explain", 0, "CLASS", "say also why it is not CLASS (or why it is)",
     option_text, offsetof(struct triage_line, explain)},
    {"json", 0, NULL, "print the verdict as JSON", option_on, offsetof(struct triage_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct triage_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static int add_facts_file(struct facts *facts, const char *path, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    size_t len = 0;
    int r = input_read(path, FACTS_MAX, &text, &len, err);
    if (r < 0)
        return r;
    const char *end = text;
    cJSON *json = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    unsigned line = 1;
    for (const char *p = text; json == NULL && p < end; p++)
        line += *p == '\n';
    r = json != NULL ? facts_from_json(facts, json, err)
                     : rc_err_set(err, -EBADMSG, "line %u is not JSON", line);
    if (r < 0)
        r = rc_err_wrap(err, r, "facts file '%s'", path);
    cJSON_Delete(json);
    return r;
}

typedef void (*text_reader)(struct facts *, const char *, size_t, const char *);

static int add_text_file(struct facts *facts, const char *path, text_reader reader,
                         const char *source, bool alone, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    size_t len = 0;
    char note[160];
    int r = input_read_log(path, LOG_MAX, &text, &len, note, sizeof note, err);
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    if (r == 0 && len == 0 && alone)
        r = rc_err_set(err, -ENODATA, "'%s' is empty: there is nothing to judge", name);
    if (r == 0 && note[0] != '\0')
        (void)say_line(stderr, "rocmcrash: '%s' %s", name, note);
    if (r == 0)
        reader(facts, text, len, source);
    return r;
}

/* Several bundles: one line for each (JSON Lines). */
static void print_json(const cJSON *judged, const struct explanation *why, const char *name)
{
    cJSON *document = cJSON_Duplicate(judged, true);
    if (name != NULL)
        (void)cJSON_AddStringToObject(document, "file", name);
    if (why != NULL)
        cJSON_AddItemToObject(document, "explain", explanation_to_json(why));
    (void)json_print(document, name != NULL ? JSON_LINE : JSON_PAGES);
}

static void print_conditions(const char *what, const struct verdict_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        (void)say_line(stdout, "    %-8s %s", what, list->text[i]);
}

static void print_question(const struct explain_node *node)
{
    (void)say_line(stdout, "  %s: %s %s%s", node->id, node->question, node->answer,
                   node->later ? ", but an earlier question had decided" : "");
    if (strcmp(node->answer, "yes") == 0)
        print_conditions("holds", &node->holds);
    else if (strcmp(node->answer, "no") == 0)
        print_conditions("fails", &node->fails);
    else
        print_conditions("unknown", &node->unknown);
}

static bool has_decided(const struct explain_node *node)
{
    return strcmp(node->answer, "yes") == 0 && !node->later;
}

/* The question that decided comes first. */
static void print_explanation(const struct explanation *why, const char *class_name, bool is_it)
{
    (void)putchar('\n');
    (void)say_line(stdout, "Why %s%s?", is_it ? "" : "not ", class_name);
    for (size_t i = 0; i < why->count; i++)
        if (has_decided(&why->node[i]))
            print_question(&why->node[i]);
    for (size_t i = 0; i < why->count; i++)
        if (!has_decided(&why->node[i]))
            print_question(&why->node[i]);
}

static void print_verdict(const struct facts *facts, const struct verdict *verdict)
{
    struct buf text = BUF_INIT;
    struct report_style style = terminal_style(STDOUT_FILENO, NULL);
    struct report_input input = {
        .facts = facts, .verdict = verdict, .tool_version = ROCMCRASH_VERSION};
    report_terminal(&input, NULL, &style, &text);
    (void)fputs(buf_str(&text), stdout);
    buf_release(&text);
}

static const char *text_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return text != NULL ? text : "";
}

/* Writes a line about what happened: in the run, or in the campaign if that decides. */
static void happened(const struct facts *facts, const struct verdict *verdict, const cJSON *judged,
                     struct buf *out)
{
    if (campaign_decides(cJSON_GetObjectItemCaseSensitive(judged, "experiment")))
        campaign_headline(judged, out);
    else
        report_happened(facts, verdict, out);
}

/* A folder's bundles as a table: what happened goes below, it may be long. */
static void print_table_row(const struct facts *facts, const struct verdict *verdict,
                            const cJSON *judged, const char *name)
{
    struct buf text = BUF_INIT;
    happened(facts, verdict, judged, &text);
    (void)say_whole(stdout, "%-16s  %-7s  %s", text_of(judged, "class"), text_of(judged, "confidence"), name);
    (void)say_line(stdout, "    %s", buf_str(&text));
    buf_release(&text);
}

/* Prints the result of a campaign. It is no fact of this run, so it is not judged again. */
static void print_campaign(const struct facts *facts, const struct verdict *verdict, const cJSON *judged)
{
    struct buf campaign = BUF_INIT;
    struct buf run = BUF_INIT;
    const cJSON *advice = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(judged, "advice"), 0);
    happened(facts, verdict, judged, &campaign);
    report_happened(facts, verdict, &run);
    (void)say_line(stdout, "rocmcrash: %s", buf_str(&campaign));
    if (cJSON_IsString(advice)) {
        (void)say_line(stdout, "rocmcrash: try: %s", advice->valuestring);
        (void)say_line(stdout, "rocmcrash: check: %s", text_of(judged, "verify"));
    }
    (void)say_line(stdout, "rocmcrash: one run without a change: %s", buf_str(&run));
    buf_release(&campaign);
    buf_release(&run);
}

/* A text alone, without a run, does not show that a program failed. */
static bool tells_of_nothing(const struct facts *facts, const struct verdict *verdict)
{
    static const char *const of_a_failure[] = {"run.", "target.", "msg.", "kmsg.", "oom.", "stack.", "report.", "snap."};
    for (size_t i = 0; i < facts_count(facts); i++)
        for (size_t k = 0; k < sizeof of_a_failure / sizeof of_a_failure[0]; k++)
            if (facts_at(facts, i)->status == FACT_PRESENT && strncmp(facts_at(facts, i)->name, of_a_failure[k], strlen(of_a_failure[k])) == 0)
                return false;
    return strcmp(verdict->class_name, "unknown") == 0 && (verdict->subclass == NULL || verdict->subclass[0] == '\0');
}

static void print_text(const struct facts *facts, const struct verdict *verdict, const cJSON *judged,
                       const char *name)
{
    const cJSON *experiment = cJSON_GetObjectItemCaseSensitive(judged, "experiment");
    if (name != NULL)
        (void)say_whole(stdout, "%s", name);
    if (campaign_decides(experiment)) {
        print_campaign(facts, verdict, judged);
        return;
    }
    if (tells_of_nothing(facts, verdict))
        (void)say_line(stdout, "rocmcrash: the text tells of no failure that rocmcrash knows");
    else
        print_verdict(facts, verdict);
    if (experiment != NULL)
        (void)say_line(stdout, "rocmcrash: experiment: %s", text_of(experiment, "sentence"));
}

/* Another version, or a kernel log that was added, may judge otherwise than when the bundle was made. */
static void tell_earlier(const cJSON *earlier, const cJSON *judged)
{
    const char *class_name = text_of(earlier, "class");
    if (class_name[0] != '\0' && strcmp(class_name, text_of(judged, "class")) != 0)
        (void)say_line(stdout, "rocmcrash: when the bundle was made, the verdict was: %s, %s confidence", class_name,
                       text_of(earlier, "confidence"));
}

/* `name`: of the bundle, when there are several. `earlier`: its own verdict; NULL = it is no bundle. */
static int judge_and_print(struct facts *facts, const struct tree *tree, const struct triage_line *line,
                           const cJSON *earlier, const char *name, struct rc_err *err)
{
    const cJSON *experiment = cJSON_GetObjectItemCaseSensitive(earlier, "experiment");
    struct verdict verdict = {.class_name = NULL};
    struct explanation why = {.count = 0};
    const char *wanted = line->explain;
    int r = diagnose(facts, tree, &verdict, err);
    if (r == 0 && wanted != NULL)
        r = explain_class(facts, tree, &verdict, wanted, &why, err);
    cJSON *judged = r == 0 ? verdict_to_json(&verdict, facts) : NULL;
    if (experiment != NULL)
        campaign_verdict_apply(judged, experiment);
    if (r == 0 && line->json)
        print_json(judged, wanted != NULL ? &why : NULL, name);
    else if (r == 0 && line->table)
        print_table_row(facts, &verdict, judged, name);
    else if (r == 0)
        print_text(facts, &verdict, judged, name);
    if (r == 0 && !line->json && !line->table)
        tell_earlier(earlier, judged);
    if (r == 0 && !line->json && !line->table && wanted != NULL)
        print_explanation(&why, wanted, strcmp(wanted, verdict.class_name) == 0);
    (void)fflush(stdout);
    cJSON_Delete(judged);
    explanation_release(&why);
    verdict_release(&verdict);
    return r;
}

/* The files of a bundle that are judged. */
enum { OF_FACTS, OF_OUTPUT, OF_STDOUT, OF_KERNEL_LOG, PARTS, OF_VERDICT = PARTS, FILES };

static void read_output(struct facts *facts, const char *text, size_t len, const char *source)
{
    output_to_facts(facts, text, len, source);
    site_messages(facts, text, len, source);
}

/* Its texts are read again by the rules of now. */
static const struct {
    text_reader read;
    const char *source; /* that the finisher gave it */
} part_readers[PARTS] = {
    [OF_OUTPUT] = {read_output, "stderr"},
    [OF_STDOUT] = {output_to_facts, "stdout"},
    [OF_KERNEL_LOG] = {kernel_log_to_facts, "kernel log"},
};

/* "stderr line 12" is of "stderr". */
static bool is_from(const cJSON *fact, const char *source)
{
    const char *from = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fact, "source"));
    size_t n = strlen(source);
    return from != NULL && strncmp(from, source, n) == 0 &&
           (from[n] == '\0' || from[n] == ',' || strncmp(from + n, " line ", 6) == 0);
}

/* A text that was cut to fit the bundle is not read again: its facts say more than what is left of it. */
static bool is_read_again(const struct bundle_file *part)
{
    return part->data != NULL && part->len >= 0 &&
           memmem(part->data, (size_t)part->len, BUNDLE_CUT_WORDS, strlen(BUNDLE_CUT_WORDS)) == NULL;
}

/* A fact of a site's own rule stays where there are no such rules that could find it again. */
static bool is_found_again(const char *name)
{
    return strncmp(name, "site.", 5) != 0 || site_get()->messages != NULL;
}

/* Features are derived anew: those in the bundle are of another tree's time. But growth comes from
 * the telemetry, which is not read again. */
static cJSON *without_derived(cJSON *json, const bool read_again[PARTS])
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "facts");
    cJSON *item = list != NULL ? list->child : NULL;
    while (item != NULL) {
        cJSON *next = item->next;
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
        bool drop = name != NULL && feature_is_derived(name);
        for (int i = OF_OUTPUT; i < PARTS && !drop && name != NULL && is_found_again(name); i++)
            drop = read_again[i] && is_from(item, part_readers[i].source);
        if (drop)
            cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
        item = next;
    }
    return json;
}

static void read_texts(struct facts *facts, const struct bundle_file parts[PARTS], const bool read_again[PARTS])
{
    for (int i = OF_OUTPUT; i < PARTS; i++)
        if (read_again[i])
            part_readers[i].read(facts, parts[i].data, (size_t)parts[i].len, part_readers[i].source);
}

/* --kernel-log and --env fill what is not known yet. */
static int add_logs(struct facts *facts, const struct triage_line *line, struct rc_err *err)
{
    int r = 0;
    /* The user gave a log, so it was read: finding nothing in it is then a result. */
    if (line->kernel_log != NULL)
        (void)facts_set_boolean(facts, "kmsg.readable", FACT_STATIC, true, line->kernel_log);
    if (r == 0 && line->kernel_log != NULL)
        r = add_text_file(facts, line->kernel_log, kernel_text_to_facts, "kernel log", false, err);
    if (r == 0 && line->env != NULL)
        r = add_text_file(facts, line->env, environment_to_facts, "environment", false, err);
    return r;
}

static int judge_bundle(struct facts *facts, struct bundle_file parts[PARTS], const char *path,
                        const struct triage_line *line, struct rc_err *err)
{
    const struct bundle_file *part = &parts[OF_FACTS];
    bool read_again[PARTS] = {false};
    int64_t read = 0;
    for (int i = OF_OUTPUT; i < PARTS; i++)
        read_again[i] = is_read_again(&parts[i]);
    cJSON *document = part->len >= 0 ? cJSON_ParseWithLength(part->data, (size_t)part->len) : NULL;
    int r = part->len == -ENOENT ? rc_err_errno(err, -ENOENT, "'%s' is not in the bundle", part->name)
            : part->len < 0      ? (int)part->len
            : document == NULL   ? rc_err_set(err, -EBADMSG, "'%s' holds no readable facts", path)
            : facts == NULL      ? -ENOMEM
                                 : 0;
    if (r == 0 && line->facts != NULL)
        r = add_facts_file(facts, line->facts, err); /* first: the first source of a fact wins */
    if (r == 0)
        r = facts_from_json(facts, without_derived(document, read_again), err);
    if (r == 0)
        read_texts(facts, parts, read_again);
    if (r == 0 && line->kernel_log != NULL && facts_get_integer(facts, "kmsg.readable", &read) &&
        read != 0) /* two logs are not mixed */
        r = rc_err_set(err, -EALREADY, "it has its kernel log already");
    if (r == 0)
        r = add_logs(facts, line, err);
    cJSON_Delete(document);
    return r;
}

static int triage_bundle(const char *path, const struct tree *tree, const struct triage_line *line,
                         const char *name, struct rc_err *err)
{
    struct bundle_file parts[FILES] = {[OF_FACTS] = {.name = "facts.json", .max = FACTS_MAX},
                                       [OF_OUTPUT] = {.name = "output/stderr.txt", .max = TEXT_MAX},
                                       [OF_STDOUT] = {.name = "stdout/stdout.txt", .max = TEXT_MAX},
                                       [OF_KERNEL_LOG] = {.name = "kernel_log/kernel.log", .max = TEXT_MAX},
                                       [OF_VERDICT] = {.name = "verdict.json", .max = FACTS_MAX}};
    struct facts *facts = facts_new();
    struct rc_err damage = {""};
    int r = bundle_read_verified(path, parts, FILES, &damage, err);
    cJSON *verdict = parts[OF_VERDICT].len > 0 ? cJSON_ParseWithLength(parts[OF_VERDICT].data, (size_t)parts[OF_VERDICT].len) : NULL;
    if (r == 0)
        r = judge_bundle(facts, parts, path, line, err);
    if (r == 0)
        r = judge_and_print(facts, tree, line, verdict, name, err);
    if (r == 0)
        verb_say_damage(path, &damage);
    cJSON_Delete(verdict);
    for (int i = 0; i < FILES; i++)
        free(parts[i].data);
    facts_free(facts);
    return r;
}

static int triage_directory(const char *path, const struct tree *tree,
                            const struct triage_line *line, struct rc_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        return rc_err_errno(err, -errno, "cannot read the folder '%s'", path);
    int judged = 0;
    int failed = 0;
    for (int i = 0; i < count; i++) {
        char file[FS_PATH_MAX];
        struct rc_err why = {""};
        int n = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (n > 0 && (size_t)n < sizeof file && input_has_bundle_name(file)) {
            if (judged++ == 0 && line->table)
                (void)say_line(stdout, "%-16s  %-7s  %s", "CLASS", "SURE", "BUNDLE");
            if (triage_bundle(file, tree, line, entries[i]->d_name, &why) < 0) {
                verb_complain(file, &why);
                failed++;
            }
        }
        free(entries[i]);
    }
    free(entries);
    char manifest[FS_PATH_MAX + 16];
    (void)snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    if (judged == 0 && access(manifest, F_OK) == 0)
        return rc_err_set(err, -EISDIR, "'%s' " BUNDLE_UNPACKED, path);
    if (judged == 0)
        return rc_err_set(err, -ENOENT, "there is no bundle (*.tar.gz) in '%s'", path);
    return failed > 0 ? -EIO : 0;
}

static int triage_bundles(char *const files[], const struct tree *tree,
                          const struct triage_line *line)
{
    bool several = files[1] != NULL;
    int failed = 0;
    for (size_t i = 0; files[i] != NULL; i++) {
        struct rc_err why = {""};
        int r = triage_bundle(files[i], tree, line, several ? files[i] : NULL, &why);
        if (r < 0) {
            verb_complain(files[i], &why);
            failed++;
        }
        if (r == -ESRCH) /* --explain: the same for every bundle */
            return r;
    }
    return failed > 0 ? -EIO : 0;
}

static void text_to_facts(struct facts *facts, const char *text, size_t len, const char *source)
{
    any_text_to_facts(facts, text, len, source);
    site_messages(facts, text, len, source);
}

static int triage_texts(const struct triage_line *line, char *const files[],
                        const struct tree *tree, struct rc_err *err)
{
    struct facts *facts = facts_new();
    int r = facts == NULL ? -ENOMEM : 0;
    bool alone = files[0] != NULL && files[1] == NULL && line->facts == NULL && line->kernel_log == NULL && line->env == NULL;
    if (r == 0 && line->facts != NULL)
        r = add_facts_file(facts, line->facts, err);
    for (int i = 0; r == 0 && files[i] != NULL; i++) {
        if (input_is_bundle(files[i]))
            r = rc_err_set(err, -EINVAL, "'%s' is a bundle: name it alone, or with others",
                           files[i]);
        else
            r = add_text_file(facts, files[i], text_to_facts,
                              i == 0 ? "stderr" : "further text", alone, err);
    }
    if (r == 0)
        r = add_logs(facts, line, err);
    if (r == 0)
        r = judge_and_print(facts, tree, line, NULL, NULL, err);
    facts_free(facts);
    return r;
}

static void print_help(void)
{
    help_text("Usage: rocmcrash triage [OPTIONS] BUNDLE...|DIRECTORY|LOG...\n\n"
              "Judges bundles again, every bundle of a directory, or text that somebody\n"
              "pasted ('-' is stdin). Reads nothing of this machine.\n\nOptions:\n");
    options_help(option_table);
    help_text("\nExit status: 0 judged, 2 could not be read, 125 wrong option.\n");
}

static int judge(const struct triage_line *line, char *const files[], bool folder, bool bundles,
                 struct rc_err *err)
{
    struct tree *tree = asset_tree(line->tree, err);
    int r = -EINVAL;
    site_tell(site_get());
    if (tree != NULL && folder)
        r = triage_directory(files[0], tree, line, err);
    else if (tree != NULL && bundles)
        r = triage_bundles(files, tree, line);
    else if (tree != NULL)
        r = triage_texts(line, files, tree, err);
    tree_free(tree);
    return r;
}

int verb_triage(int argc, char *argv[])
{
    struct triage_line line = {.kernel_log = NULL};
    struct rc_err err = {""};
    struct stat st;
    int at = options_parse_around(option_table, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        print_help();
        return VERB_EXIT_OK;
    }
    char *const *files = argv + (at >= 0 ? at : argc);
    bool folder = files[0] != NULL && stat(files[0], &st) == 0 && S_ISDIR(st.st_mode);
    bool bundles = files[0] != NULL && !folder && input_is_bundle(files[0]);
    line.table = folder && !line.json && line.explain == NULL;
    bool of_one = line.kernel_log != NULL || line.env != NULL || line.facts != NULL;
    if (at >= 0 && files[0] == NULL && line.kernel_log == NULL && line.facts == NULL)
        at = rc_err_set(&err, -EINVAL, "usage: rocmcrash triage [OPTIONS] BUNDLE|DIRECTORY|LOG...");
    else if (at >= 0 && of_one && (folder || (bundles && files[1] != NULL)))
        at = rc_err_set(&err, -EINVAL, "--kernel-log, --env and --facts are of one run: name one");
    if (at < 0) {
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
        return VERB_EXIT_USAGE;
    }
    int r = judge(&line, files, folder, bundles, &err);
    if (r < 0 && err.msg[0] != '\0')
        verb_complain(NULL, &err);
    return r == -ESRCH ? VERB_EXIT_USAGE : r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK; /* --explain: there is no such class */
}
