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
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own_path.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "bundle/redact.h"
#include "cli/name_map.h"
#include "cli/option.h"
#include "cli/stage_redact.h"
#include "cli/trace_split.h"
#include "cli/verbs.h"

#define RUN_JSON_MAX ((size_t)4 << 20)
#define VERDICT_MAX ((size_t)1 << 20)
#define WAIT_FOR_BUNDLE_MS 90000
#define TRACE_BYTES 8000000u
#define ARGUMENTS_MAX 4096

struct rerun {
    bool trace, yes, help;
    const char *output_dir;
    const char *bundle; /* while something may be wrong with it */
    char folder[FS_PATH_MAX]; /* ours: trace and new bundle */
    char **command;
    char cwd[FS_PATH_MAX];
    cJSON *run; /* run.json of the bundle, which holds the strings of `command` */
};

static const struct option_def table[] = {
    {"trace-alloc", 0, NULL, "with the runtime's own trace of its allocations",
     option_on, offsetof(struct rerun, trace)},
    {"yes", 'y', NULL, "run the command that a bundle names without asking",
     option_on, offsetof(struct rerun, yes)},
    {"output-dir", 'o', "DIR", "where the new bundle goes (default: the current directory)",
     option_text, offsetof(struct rerun, output_dir)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct rerun, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* --- the command --- */

/* What was private was replaced: such a command line cannot be run. */
static bool has_pseudonym(const char *text)
{
    const char *open = strchr(text, '<');
    return open != NULL && strchr(open, '>') != NULL;
}

/*
 * "<home1>/train.py" as it was, where this user's home is what was replaced. More than one home, or
 * anything else that was private, cannot be known. `name` holds the pseudonym once there is one.
 * False: leave the text alone.
 */
static bool restore_home(const char *text, char *name, size_t name_size, struct buf *out)
{
    const char *home = getenv("HOME");
    const char *open;
    const char *end;
    while ((open = strchr(text, '<')) != NULL && (end = strchr(open, '>')) != NULL) {
        size_t length = (size_t)(end + 1 - open);
        if (home == NULL || home[0] != '/' || strncmp(open, "<home", 5) != 0 || length >= name_size)
            return false;
        if (name[0] == '\0')
            (void)snprintf(name, name_size, "%.*s", (int)length, open);
        if (strncmp(open, name, length) != 0)
            return false;
        buf_append(out, text, (size_t)(open - text));
        buf_puts(out, home);
        text = end + 1;
    }
    buf_puts(out, text);
    return !buf_failed(out);
}

/* In place: the strings stay those of run.json. Where what was named is not there, this is another
 * machine. */
static void restore_homes(cJSON *run, cJSON *argv)
{
    char name[32] = "";
    cJSON *items[] = {argv->child, cJSON_GetObjectItemCaseSensitive(run, "cwd")};
    for (size_t list = 0; list < sizeof items / sizeof items[0]; list++) {
        for (cJSON *item = items[list]; item != NULL; item = list == 0 ? item->next : NULL) {
            const char *text = cJSON_GetStringValue(item);
            struct buf restored = BUF_INIT;
            if (text != NULL && has_pseudonym(text) &&
                restore_home(text, name, sizeof name, &restored) &&
                (item != argv->child || access(buf_str(&restored), X_OK) == 0))
                (void)cJSON_SetValuestring(item, buf_str(&restored));
            buf_release(&restored);
        }
    }
}

/* On the machine, and of the user, where the bundle was made: every name that is not a secret. */
static void restore_names(cJSON *run, cJSON *argv, const char *bundle)
{
    struct rc_err none = {""};
    cJSON *map = name_map_of_file(bundle, &none);
    cJSON *cwd = cJSON_GetObjectItemCaseSensitive(run, "cwd");
    for (cJSON *item = argv->child; map != NULL && item != NULL;) {
        const char *text = cJSON_GetStringValue(item);
        struct buf restored = BUF_INIT;
        if (text != NULL && has_pseudonym(text)) {
            name_map_apply(map, text, &restored);
            if (!buf_failed(&restored))
                (void)cJSON_SetValuestring(item, buf_str(&restored));
        }
        buf_release(&restored);
        item = item == cwd ? NULL : item->next != NULL ? item->next : cwd;
    }
    cJSON_Delete(map);
}

static int command_of_bundle(struct rerun *r, const char *bundle, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    ssize_t n = bundle_read_file(bundle, "run/run.json", RUN_JSON_MAX, &text, err);
    if (n < 0)
        return (int)n;
    r->run = cJSON_Parse(text);
    cJSON *argv = cJSON_GetObjectItemCaseSensitive(r->run, "argv");
    if (cJSON_IsArray(argv)) {
        restore_names(r->run, argv, bundle);
        restore_homes(r->run, argv);
    }
    const char *cwd = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r->run, "cwd"));
    int count = cJSON_GetArraySize(argv);
    const cJSON *cut = cJSON_GetObjectItemCaseSensitive(r->run, "argv_cut");
    if (count <= 0 || count > ARGUMENTS_MAX || (cJSON_IsNumber(cut) && cut->valueint != 0))
        return rc_err_set(err, -EINVAL,
                          "the bundle does not hold the whole command: name it after --");
    r->command = calloc((size_t)count + 1, sizeof *r->command);
    if (r->command == NULL)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        r->command[i] = cJSON_GetStringValue(cJSON_GetArrayItem(argv, i));
        if (r->command[i] == NULL || has_pseudonym(r->command[i]))
            return rc_err_set(err, -EINVAL,
                              "what is private in the command was replaced: name it after --");
    }
    if (cwd != NULL && !has_pseudonym(cwd))
        (void)snprintf(r->cwd, sizeof r->cwd, "%s", cwd);
    return 0;
}

/* Blanks in a row could push the rest of a command out of sight. */
static bool is_odd(const char *text, const char *p)
{
    return *p < ' ' || *p > '~' || (*p == ' ' && p > text && p[-1] == ' ');
}

/* So that a shell reads the same word, and nobody sees another: 'a b', 'it'\''s'; where a byte is no
 * printable ASCII $'\xe2\x80\x8b', which bash, zsh and ksh know. */
static void put_quoted(struct buf *out, const char *text)
{
    bool plain = true;
    for (const char *p = text; *p != '\0'; p++)
        plain = plain && !is_odd(text, p);
    buf_puts(out, plain ? "'" : "$'");
    for (const char *p = text; *p != '\0'; p++) {
        if (plain && *p == '\'')
            buf_puts(out, "'\\''");
        else if (is_odd(text, p))
            buf_printf(out, "\\x%02x", (unsigned char)*p);
        else if (!plain && (*p == '\'' || *p == '\\'))
            buf_printf(out, "\\%c", *p);
        else
            buf_putc(out, *p);
    }
    buf_puts(out, "'");
}

/* A bundle may be a stranger's, and so is then the command in it. */
static int ask(const struct rerun *r, struct rc_err *err)
{
    char answer[16] = "";
    struct buf shown = BUF_INIT;
    if (r->yes)
        return 0;
    buf_puts(&shown, "rocmcrash: the bundle's command:");
    for (size_t i = 0; r->command[i] != NULL; i++) {
        buf_putc(&shown, ' ');
        put_quoted(&shown, r->command[i]);
    }
    if (r->cwd[0] != '\0') {
        buf_puts(&shown, " in ");
        put_quoted(&shown, r->cwd);
    }
    (void)fputs(buf_str(&shown), stderr); /* printable ASCII, quoted; longer than a line may be */
    (void)fputc('\n', stderr);
    buf_release(&shown);
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
        (void)fputs("rocmcrash: run it? [y/N] ", stderr);
        if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] | 32) == 'y')
            return 0;
        return rc_err_set(err, -ECANCELED, "not run");
    }
    return rc_err_set(err, -EINVAL, "what a bundle names is not run unasked: --yes runs it");
}

static int choose_command(struct rerun *r, int argc, char *argv[], int at, struct rc_err *err)
{
    bool named = at > 0 && strcmp(argv[at - 1], "--") == 0;
    if (named && argc - at > ARGUMENTS_MAX)
        return rc_err_set(err, -E2BIG, "more than %d arguments", ARGUMENTS_MAX);
    if (named && at < argc) {
        r->command = calloc((size_t)(argc - at) + 1, sizeof *r->command);
        if (r->command == NULL)
            return -ENOMEM;
        memcpy(r->command, argv + at, (size_t)(argc - at) * sizeof *argv);
        return 0;
    }
    if (named || at + 1 != argc)
        return rc_err_set(err, -EINVAL,
                          "usage: rocmcrash rerun [--trace-alloc] BUNDLE | -- COMMAND...");
    r->bundle = argv[at];
    int code = bundle_verify(argv[at], err);
    if (code < 0)
        return code == -EINVAL ? -EBADMSG : code; /* -EINVAL is the command line's */
    code = command_of_bundle(r, argv[at], err);
    if (code == 0)
        r->bundle = NULL;
    return code == 0 ? ask(r, err) : code;
}

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
    const char *argv[ARGUMENTS_MAX + 16];
    size_t n = 0;
    if (own_path_find("rocmcrash", X_OK, rocmcrash, sizeof rocmcrash) < 0 ||
        own_path_find("rocmcrash-finish", X_OK, finisher, sizeof finisher) < 0)
        _exit(125);
    (void)snprintf(bytes, sizeof bytes, "%u", TRACE_BYTES);
    /* Under the command's name, which the new bundle is called by. */
    const char *slash = strrchr(r->command[0], '/');
    (void)snprintf(named, sizeof named, "%s/as", folder);
    (void)mkdir(named, 0700);
    (void)snprintf(named, sizeof named, "%s/as/%s", folder,
                   slash != NULL ? slash + 1 : r->command[0]);
    const char *splitter = symlink(finisher, named) == 0 ? named : finisher;
    const char *const before[] = {rocmcrash, "--always", "--quiet", "--output-dir", folder, "--"};
    const char *const split[] = {splitter, "trace-split", folder, bytes, "--"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        argv[n++] = before[i];
    for (size_t i = 0; r->trace && i < sizeof split / sizeof *split; i++)
        argv[n++] = split[i];
    for (size_t i = 0; i < ARGUMENTS_MAX && r->command[i] != NULL; i++)
        argv[n++] = r->command[i];
    argv[n] = NULL;
    if (r->cwd[0] != '\0' && chdir(r->cwd) != 0)
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
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGINT, interrupt);
        (void)signal(SIGQUIT, quit);
        exec_run(r, r->folder);
    }
    while (pid > 0 && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 ? -errno : 0;
}

/* The finisher goes on when the command is over: the bundle is there when it has its final name. */
static int wait_for_bundle(const struct rerun *r, char *out, size_t size)
{
    char pattern[FS_PATH_MAX + 32];
    uint64_t until = clock_mono_ns() + WAIT_FOR_BUNDLE_MS * NS_PER_MS;
    (void)snprintf(pattern, sizeof pattern, "%s/rocmcrash-*.tar.gz", r->folder);
    for (;;) {
        glob_t found;
        bool there = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
        if (there)
            (void)snprintf(out, size, "%s", found.gl_pathv[0]);
        globfree(&found);
        if (there || clock_mono_ns() > until)
            return there ? 0 : -ETIMEDOUT;
        (void)poll(NULL, 0, 50);
    }
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

/* The new verdict, as a run prints it. */
static void print_verdict(const char *bundle)
{
    RC_AUTO_FREE char *text = NULL;
    struct rc_err err = {""};
    if (bundle_read_file(bundle, "verdict.json", VERDICT_MAX, &text, &err) < 0)
        return;
    cJSON *json = cJSON_Parse(text);
    static const char *const keys[] = {"class", "confidence", "sentence"};
    const char *values[3];
    for (size_t i = 0; i < 3; i++) {
        values[i] = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, keys[i]));
        if (values[i] == NULL)
            values[i] = "";
    }
    (void)say_line(stdout, "rocmcrash: %s, %s confidence", values[0], values[1]);
    (void)say_line(stdout, "rocmcrash: %s", values[2]);
    cJSON_Delete(json);
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
        code = wait_for_bundle(r, bundle, sizeof bundle);
    if (code == -ETIMEDOUT)
        (void)rc_err_set(err, code, "the run left no bundle");
    if (code == 0)
        code = deliver(r, bundle, path, sizeof path, err);
    (void)fs_remove_tree(AT_FDCWD, r->folder);
    if (code < 0)
        return code;
    print_verdict(path);
    (void)say_line(stdout, "rocmcrash: bundle%s: %s", r->trace ? " with the trace" : "", path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int verb_rerun(int argc, char *argv[])
{
    struct rerun r = {.output_dir = NULL};
    struct rc_err err = {""};
    char here[FS_PATH_MAX];
    int at = options_parse(table, &r, argc, argv, &err);
    if (at >= 0 && r.help) {
        (void)printf("Usage: rocmcrash rerun [OPTIONS] BUNDLE\n"
                     "       rocmcrash rerun [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
                     "Runs the command of a bundle, or COMMAND, once more and bundles it. Asks\n"
                     "before it runs what a bundle names, which may be a stranger's.\n\n"
                     "Options:\n");
        options_help(table);
        (void)printf("\nExit status: COMMAND's own; 128 + its signal; 125 wrong option.\n");
        return VERB_EXIT_OK;
    }
    int code = at < 0 ? at : choose_command(&r, argc, argv, at, &err);
    if (code == 0) {
        if (r.output_dir == NULL || r.output_dir[0] != '/') {
            char *found = realpath(r.output_dir != NULL ? r.output_dir : ".", here);
            r.output_dir = found != NULL ? found : "/tmp";
        }
        code = rerun(&r, &err);
    }
    if (code < 0)
        verb_complain(r.bundle, &err);
    free(r.command);
    cJSON_Delete(r.run);
    return code < 0 ? (at < 0 || code == -EINVAL ? VERB_EXIT_USAGE : VERB_EXIT_FAILED) : code;
}
