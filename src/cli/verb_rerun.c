/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rerun [--trace-alloc] BUNDLE` or `rerun [--trace-alloc] -- COMMAND...`: runs the command of a
 * bundle once more under rocmcrash, with the ROCm runtime's own trace of its allocations switched
 * on, and puts that trace into the new bundle. The trace is separated from the program's stderr by
 * a process of ours around it (trace_split.c): the libraries write both to one stream.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_path.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/again.h"
#include "cli/option.h"
#include "cli/outcome.h"
#include "cli/stage_redact.h"
#include "cli/terminal.h"
#include "cli/trace_split.h"
#include "cli/verbs.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "report/report.h"

#define JSON_MAX ((size_t)1 << 20)
#define TRACE_BYTES 8000000u

struct rerun {
    bool trace, json, help;
    struct outcome outcome;
    const char *output_dir;
    char folder[FS_PATH_MAX]; /* ours: trace and new bundle */
    struct again again;
};

static const struct option_def table[] = {
    {"trace-alloc", 0, NULL, "with the runtime's own trace of its allocations",
     option_on, offsetof(struct rerun, trace)},
    {"yes", 'y', NULL, "run the command that a bundle names without asking",
     option_on, offsetof(struct rerun, again.yes)},
    {"output-dir", 'o', "DIR", "where the new bundle goes (default: the current directory)",
     option_text, offsetof(struct rerun, output_dir)},
    {"json", 0, NULL, "print the new bundle as a JSON object; all else goes to stderr",
     option_on, offsetof(struct rerun, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct rerun, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* --- running it --- */

static void set_trace_environment(void)
{
    /* CLR: level 4 is debug; mask 0x20000 is memory, 1 the API. libhsakmt: 7 is debug. What the
     * user set stays. A file of CLR's own would grow without end. */
    (void)setenv("AMD_LOG_LEVEL", "4", 0);
    (void)setenv("AMD_LOG_MASK", "0x20001", 0);
    (void)setenv("HSAKMT_DEBUG_LEVEL", "7", 0);
    (void)unsetenv("AMD_LOG_LEVEL_FILE");
}

static _Noreturn void exec_run(const struct rerun *r, const char *folder)
{
    char rocmcrash[FS_PATH_MAX];
    char finisher[FS_PATH_MAX];
    char named[FS_PATH_MAX + 512];
    char bytes[16];
    const char *argv[AGAIN_ARGUMENTS_MAX + 16];
    size_t n = 0;
    if (own_path_find("rocmcrash", X_OK, rocmcrash, sizeof rocmcrash) < 0 ||
        own_path_find("rocmcrash-finish", X_OK, finisher, sizeof finisher) < 0)
        _exit(125);
    (void)snprintf(bytes, sizeof bytes, "%u", TRACE_BYTES);
    /* Under the command's name, which the new bundle is called by. */
    const char *slash = strrchr(r->again.command[0], '/');
    (void)snprintf(named, sizeof named, "%s/as", folder);
    (void)mkdir(named, 0700);
    (void)snprintf(named, sizeof named, "%s/as/%s", folder,
                   slash != NULL ? slash + 1 : r->again.command[0]);
    const char *splitter = symlink(finisher, named) == 0 ? named : finisher;
    const char *const before[] = {rocmcrash, "--always", "--quiet", "--output-dir", folder, "--"};
    const char *const split[] = {splitter, "trace-split", folder, bytes, "--"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        argv[n++] = before[i];
    for (size_t i = 0; r->trace && i < sizeof split / sizeof *split; i++)
        argv[n++] = split[i];
    for (size_t i = 0; i < AGAIN_ARGUMENTS_MAX && r->again.command[i] != NULL; i++)
        argv[n++] = r->again.command[i];
    argv[n] = NULL;
    if (r->again.cwd[0] != '\0' && chdir(r->again.cwd) != 0)
        dprintf(STDERR_FILENO, "rocmcrash: cannot go to the bundle's folder, staying here\n");
    if (r->trace)
        set_trace_environment();
    (void)execv(rocmcrash, (char *const *)(uintptr_t)argv);
    (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", rocmcrash, strerror(errno));
    _exit(125);
}

static int run_command(const struct rerun *r, int *ret_status)
{
    /* The terminal's signals are for the command. */
    void (*interrupt)(int) = signal(SIGINT, SIG_IGN);
    void (*quit)(int) = signal(SIGQUIT, SIG_IGN);
    again_adopt_orphans();
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(125);
        (void)signal(SIGINT, interrupt);
        (void)signal(SIGQUIT, quit);
        verb_put_back_child_signal();
        exec_run(r, r->folder);
    }
    while (pid > 0 && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 ? -errno : 0;
}

/* --- the trace in the bundle --- */

static void append_part(struct buf *out, const char *folder, const char *name, bool *ret_any)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    ssize_t n = fs_read_all(path, TRACE_BYTES, &text);
    if (n > 0) {
        buf_append(out, text, (size_t)n);
        *ret_any = true;
    }
}

/* Beginning, then the older of the two tails, then the newer. */
static void read_trace(const char *folder, struct buf *out, bool *ret_is_cut)
{
    struct stat tails[2] = {{0}, {0}};
    bool any = false;
    append_part(out, folder, TRACE_HEAD, &any);
    *ret_is_cut = false;
    for (unsigned i = 0; i < 2; i++) {
        char path[FS_PATH_MAX + 16];
        (void)snprintf(path, sizeof path, "%s/" TRACE_TAIL, folder, i);
        (void)stat(path, &tails[i]);
    }
    bool one_is_newer = tails[1].st_mtim.tv_sec != tails[0].st_mtim.tv_sec
                            ? tails[1].st_mtim.tv_sec > tails[0].st_mtim.tv_sec
                            : tails[1].st_mtim.tv_nsec > tails[0].st_mtim.tv_nsec;
    unsigned newer = one_is_newer ? 1 : 0;
    if (tails[newer].st_size == 0)
        return;
    *ret_is_cut = tails[1].st_size > 0;
    if (*ret_is_cut)
        buf_puts(out, "... what was said between here and the end may be missing ...\n");
    char name[16];
    (void)snprintf(name, sizeof name, TRACE_TAIL, 1 - newer);
    append_part(out, folder, name, &any);
    (void)snprintf(name, sizeof name, TRACE_TAIL, newer);
    append_part(out, folder, name, &any);
}

static int add_trace(void *arg, const char *stage_dir, struct manifest *manifest,
                     struct rc_err *err)
{
    const struct rerun *r = arg;
    struct buf trace = BUF_INIT;
    struct buf clean = BUF_INIT;
    bool is_cut = false;
    char folder[FS_PATH_MAX];
    read_trace(r->folder, &trace, &is_cut);
    static const struct privacy nothing_kept = {.keep = NULL};
    struct rc_err why = {""}; /* of the rules: the built-in ones do */
    struct redactor *redactor = stage_redactor(&nothing_kept, &why);
    int code = redactor == NULL ? -ENOMEM : stage_reserve(redactor, stage_dir, err);
    if (code == 0)
        code = redactor_learn(redactor, buf_str(&trace), trace.len);
    if (code == 0)
        code = redact_text(redactor, buf_str(&trace), trace.len, &clean);
    (void)snprintf(folder, sizeof folder, "%s/trace", stage_dir);
    if (code == 0)
        code = fs_mkdir_p(folder);
    int dir = code == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0) {
        code = fs_write_file_at(dir, "runtime.log", buf_str(&clean), clean.len, false);
        (void)close(dir);
    }
    if (code == 0)
        code = manifest_add_item(manifest, "trace",
                                 trace.len == 0 ? COLLECT_SKIPPED
                                 : is_cut       ? COLLECT_PARTIAL
                                                : COLLECT_OK,
                                 trace.len == 0 ? "the runtime wrote no trace"
                                 : is_cut       ? "the middle was not kept"
                                                : "",
                                 0);
    redactor_free(redactor);
    buf_release(&trace);
    buf_release(&clean);
    return code < 0 ? rc_err_errno(err, code, "cannot add the trace") : 0;
}

static int deliver(struct rerun *r, const char *bundle, char *ret_path, size_t size,
                   struct rc_err *err)
{
    const char *name = strrchr(bundle, '/');
    int code = r->trace ? bundle_rewrite(bundle, BUNDLE_MODE_KEPT, add_trace, r, err) : 0;
    if (code < 0)
        return code;
    if (snprintf(ret_path, size, "%s%s", r->output_dir, name) >= (int)size)
        return -ENAMETOOLONG;
    if (rename(bundle, ret_path) != 0)
        return rc_err_errno(err, -errno, "cannot move the bundle to '%s'", r->output_dir);
    return 0;
}

static char *copy_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return strdup(text != NULL ? text : "");
}

/* The parts of a verdict that are printed. */
static void read_verdict(const cJSON *json, struct verdict *ret)
{
    const cJSON *advice = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "advice"), 0);
    ret->class_name = copy_of(json, "class");
    ret->subclass = copy_of(json, "subclass");
    ret->confidence = copy_of(json, "confidence");
    ret->sentence = copy_of(json, "sentence");
    ret->runner_up = copy_of(json, "runner_up");
    ret->decides = copy_of(json, "decides");
    ret->verify = copy_of(json, "verify");
    if (cJSON_IsString(advice))
        verdict_list_take(&ret->advice, strdup(advice->valuestring));
}

static cJSON *read_json(const char *bundle, const char *name)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    return bundle_read_file(bundle, name, JSON_MAX, &text, &err) < 0 ? NULL : cJSON_Parse(text);
}

/* The new verdict, as a run prints it. */
static void print_verdict(const char *bundle)
{
    struct report_style style = terminal_style(STDOUT_FILENO, NULL);
    struct verdict verdict = {.class_name = NULL};
    struct rc_err err = {""};
    struct buf text = BUF_INIT;
    struct facts *facts = facts_new();
    cJSON *json = read_json(bundle, "verdict.json");
    cJSON *of_run = read_json(bundle, "facts.json");
    read_verdict(json, &verdict);
    if (json != NULL && facts != NULL && of_run != NULL && facts_from_json(facts, of_run, &err) == 0) {
        const struct report_input input = {.facts = facts, .verdict = &verdict, .tool_version = ROCMCRASH_VERSION};
        report_terminal(&input, NULL, &style, &text);
        (void)fputs(buf_str(&text), stdout);
    }
    buf_release(&text);
    facts_free(facts);
    verdict_release(&verdict);
    cJSON_Delete(json);
    cJSON_Delete(of_run);
}

/* --- the verb --- */

static int rerun(struct rerun *r, struct rc_err *err)
{
    char bundle[FS_PATH_MAX];
    char path[FS_PATH_MAX];
    int status = 0;
    if (snprintf(r->folder, sizeof r->folder, "%s/.rocmcrash-rerun-XXXXXX", r->output_dir) >=
            (int)sizeof r->folder ||
        mkdtemp(r->folder) == NULL)
        return rc_err_errno(err, -errno, "cannot write into '%s'", r->output_dir);
    int code = run_command(r, &status);
    if (code == 0)
        code = again_wait_for_bundle(r->folder, &(struct again_wait){.milliseconds = AGAIN_BUNDLE_MS}, bundle, sizeof bundle);
    if (code == -ETIMEDOUT)
        (void)rc_err_set(err, code, "the run left no bundle");
    if (code == 0)
        code = deliver(r, bundle, path, sizeof path, err);
    (void)fs_remove_tree(AT_FDCWD, r->folder);
    if (code < 0)
        return code;
    outcome_bundle(&r->outcome, path);
    if (!r->json) {
        print_verdict(path);
        (void)say_whole(stdout, "rocmcrash: bundle%s: %s", r->trace ? " with the trace" : "", path);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int verb_rerun(int argc, char *argv[])
{
    struct rerun r = {.output_dir = NULL};
    struct rc_err err = {""};
    char here[FS_PATH_MAX];
    int at = options_parse(table, &r, argc, argv, &err);
    if (at >= 0 && r.help) {
        help_text("Usage: rocmcrash rerun [OPTIONS] BUNDLE\n"
                  "       rocmcrash rerun [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
                  "Runs the command of a bundle, or COMMAND, once more and bundles it. Asks\n"
                  "before it runs what a bundle names, which may be a stranger's.\n\n"
                  "Options:\n");
        options_help(table);
        help_text("\nExit status: COMMAND's own; 128 + its signal; 125 wrong option.\n");
        return VERB_EXIT_OK;
    }
    outcome_begin(&r.outcome, "rerun", at >= 0 && r.json);
    int code = at < 0 ? at : again_choose(&r.again, argc, argv, at, "rerun [--trace-alloc] BUNDLE | -- COMMAND...", &err);
    if (code == 0) {
        if (r.output_dir == NULL || r.output_dir[0] != '/') {
            char *found = realpath(r.output_dir != NULL ? r.output_dir : ".", here);
            r.output_dir = found != NULL ? found : "/tmp";
        }
        code = rerun(&r, &err);
    }
    int status = code >= 0                       ? code
                 : at < 0 || code == -EINVAL ? VERB_EXIT_USAGE
                                             : VERB_EXIT_FAILED;
    static const struct rc_err none = {""}; /* the status is the command's */
    status = outcome_end(&r.outcome, status, r.again.bundle, code < 0 ? &err : &none);
    again_release(&r.again);
    return status;
}
