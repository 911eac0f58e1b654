/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More names of this machine and its user than redact_machine.c has: the real place of the home folder, the
 * git configuration, groups, other people with an account, and the folders in which people name things.
 * The rules know usual spellings ("/home/alice"); this file asks the machine.
 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <mntent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact_internal.h"

#define WITHIN_MS 1000
#define FIRST_PERSON 1000 /* smaller ids belong to the system */
#define LAST_PERSON 59999
#define PEOPLE_MAX 64
#define GROUPS_MAX 64
#define PARENTS_MAX 16 /* folders up to the one that holds .git */

/* The findings of the child process, in memory shared with it. A line each: this letter, then the
 * value. */
enum found {
    FOUND_HOME = 'h',
    FOUND_FULL_NAME = 'f',
    FOUND_PERSON = 'p',
    FOUND_GROUP = 'g',
    FOUND_HOST = 'n',
    FOUND_DOMAIN = 'd',
    FOUND_REMOTE = 'r',
    FOUND_TEXT = 't',
};

struct around {
    _Atomic uint32_t next; /* step */
    _Atomic uint32_t len;
    char cwd[FS_PATH_MAX];
    char text[64 * 1024];
};

static void keep(struct around *a, enum found what, const char *value, size_t size)
{
    uint32_t len = a->len;
    if (size < 2 || size + 3 > sizeof a->text - len || memchr(value, '\n', size) != NULL)
        return;
    a->text[len] = (char)what;
    memcpy(a->text + len + 1, value, size);
    a->text[len + 1 + size] = '\n';
    a->len = len + (uint32_t)size + 2; /* a reader sees the whole line or nothing of it */
}

static void keep_word(struct around *a, enum found what, const char *value)
{
    keep(a, what, value, strlen(value));
}

/* --- steps of the child: each may hang at a file system that is gone --- */

static const struct passwd *my_entry(FILE *file)
{
    struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL && entry->pw_uid != getuid())
        ;
    return entry;
}

/* A program that prints its working folder prints the target of a link: /lustre/u/alice for /home/alice. */
static void real_home(struct around *a, const char *home)
{
    char real[PATH_MAX];
    if (home != NULL && strlen(home) > 4 && realpath(home, real) != NULL &&
        strcmp(real, home) != 0 && strlen(real) > 4)
        keep_word(a, FOUND_HOME, real);
}

static void read_homes(struct around *a)
{
    RC_AUTO_FCLOSE FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *pw = my_entry(file);
    real_home(a, getenv("HOME"));
    if (pw != NULL)
        real_home(a, pw->pw_dir);
}

/* "key = value" of one line; the value's length, 0 = another key. */
static size_t git_value(const char *line, size_t len, const char *key, const char **ret)
{
    size_t at = strspn(line, " \t");
    size_t n = strlen(key);
    if (at + n >= len || strncasecmp(line + at, key, n) != 0)
        return 0;
    at += n + strspn(line + at + n, " \t");
    if (line[at] != '=')
        return 0;
    at += 1 + strspn(line + at + 1, " \t\"");
    while (len > at && strchr(" \t\"\r", line[len - 1]) != NULL)
        len--;
    *ret = line + at;
    return len > at ? len - at : 0;
}

/* Another user who can write the file (/tmp/.git/config) could choose what our bundles hide: "out of
 * memory", as if it were a name. */
static bool is_ours(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           (st.st_uid == geteuid() || st.st_uid == 0) && (st.st_mode & S_IWOTH) == 0;
}

static void read_git_config(struct around *a, const char *path)
{
    char text[16 * 1024];
    if (!is_ours(path) || fs_read_machine_text(path, text, sizeof text) <= 0)
        return;
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *value = NULL;
        size_t n = git_value(line, len, "url", &value);
        if (n > 0)
            keep(a, FOUND_REMOTE, value, n);
        n = git_value(line, len, "name", &value);
        if (n > 0)
            keep(a, FOUND_FULL_NAME, value, n);
        line += len + (line[len] == '\n');
    }
}

static void read_git_of_cwd(struct around *a)
{
    char path[FS_PATH_MAX + 16];
    char folder[FS_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s", a->cwd);
    for (int i = 0; i < PARENTS_MAX && folder[0] == '/'; i++) {
        (void)snprintf(path, sizeof path, "%s/.git/config", folder);
        if (access(path, R_OK) == 0) {
            read_git_config(a, path);
            return;
        }
        *strrchr(folder, '/') = '\0';
    }
}

static void read_git_of_home(struct around *a)
{
    char path[FS_PATH_MAX];
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/')
        return;
    if ((size_t)snprintf(path, sizeof path, "%s/.gitconfig", home) < sizeof path)
        read_git_config(a, path);
    if ((size_t)snprintf(path, sizeof path, "%s/.config/git/config", home) < sizeof path)
        read_git_config(a, path);
}

/* "127.0.1.1 mybox.corp.example mybox": the names beside ours are ours. */
static void read_hosts(struct around *a)
{
    char host[256] = "";
    char text[16 * 1024];
    char *line_at = NULL;
    if (gethostname(host, sizeof host - 1) != 0 ||
        fs_read_machine_text("/etc/hosts", text, sizeof text) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &line_at); line != NULL;
         line = strtok_r(NULL, "\n", &line_at)) {
        const char *names[8];
        size_t count = 0;
        bool ours = false;
        char *at = NULL;
        line[strcspn(line, "#")] = '\0';
        (void)strtok_r(line, " \t", &at);
        for (char *name; count < 8 && (name = strtok_r(NULL, " \t", &at)) != NULL;) {
            names[count++] = name;
            ours = ours || strcasecmp(name, host) == 0;
        }
        for (size_t i = 0; ours && i < count; i++) {
            const char *dot = strchr(names[i], '.');
            keep_word(a, FOUND_HOST, names[i]);
            if (dot != NULL)
                keep_word(a, FOUND_DOMAIN, dot + 1);
        }
    }
}

static void read_search_domains(struct around *a)
{
    char text[4096];
    char *line_at = NULL;
    if (fs_read_machine_text("/etc/resolv.conf", text, sizeof text) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &line_at); line != NULL;
         line = strtok_r(NULL, "\n", &line_at)) {
        char *at = NULL;
        const char *word = strtok_r(line, " \t", &at);
        if (word == NULL || (strcmp(word, "search") != 0 && strcmp(word, "domain") != 0))
            continue;
        while ((word = strtok_r(NULL, " \t", &at)) != NULL)
            keep_word(a, FOUND_DOMAIN, word);
    }
}

/* "server:/export" of a mount; the rules know the line. */
static void read_mounts(struct around *a)
{
    char line[2048];
    char room[2048];
    struct mntent entry;
    FILE *file = setmntent("/proc/self/mounts", "re");
    while (file != NULL && getmntent_r(file, &entry, room, sizeof room) != NULL) {
        if (strncmp(entry.mnt_type, "nfs", 3) == 0 &&
            (size_t)snprintf(line, sizeof line, "%s %s %s", entry.mnt_fsname, entry.mnt_dir,
                             entry.mnt_type) < sizeof line)
            keep_word(a, FOUND_TEXT, line);
    }
    if (file != NULL)
        (void)endmntent(file);
}

static bool is_login_shell(const char *shell)
{
    static const char *const none[] = {"", "nologin", "false", "sync", "git-shell"};
    const char *slash = strrchr(shell, '/');
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        if (strcmp(slash != NULL ? slash + 1 : shell, none[i]) == 0)
            return false;
    }
    return true;
}

static void read_people(struct around *a)
{
    RC_AUTO_FCLOSE FILE *file = fopen("/etc/passwd", "re");
    const struct passwd *pw;
    for (int n = 0; file != NULL && n < PEOPLE_MAX && (pw = fgetpwent(file)) != NULL;) {
        if (pw->pw_uid < FIRST_PERSON || pw->pw_uid > LAST_PERSON || !is_login_shell(pw->pw_shell))
            continue;
        n++;
        keep_word(a, FOUND_PERSON, pw->pw_name);
        keep(a, FOUND_FULL_NAME, pw->pw_gecos, strcspn(pw->pw_gecos, ","));
    }
}

static void read_groups(struct around *a)
{
    gid_t mine[GROUPS_MAX];
    int count = getgroups(GROUPS_MAX, mine);
    RC_AUTO_FCLOSE FILE *file = fopen("/etc/group", "re");
    const struct group *group;
    while (file != NULL && (group = fgetgrent(file)) != NULL) {
        bool ours = group->gr_gid == getgid();
        for (int i = 0; i < count; i++)
            ours = ours || mine[i] == group->gr_gid;
        if (ours && group->gr_gid >= FIRST_PERSON && group->gr_gid <= LAST_PERSON)
            keep_word(a, FOUND_GROUP, group->gr_name);
    }
}

static void (*const steps[])(struct around *) = {
    read_people,         read_groups, read_hosts,      read_search_domains,
    read_mounts,         read_homes,  read_git_of_cwd, read_git_of_home,
};

#define STEPS (sizeof steps / sizeof steps[0])

static void read_step(void *context, uint32_t step)
{
    steps[step](context);
}

/* --- what the redactor makes of it --- */

static const struct redact_rule *rule_named(const struct redactor *r, const char *name)
{
    for (size_t i = 0; i < r->rules->count; i++) {
        if (strcmp(r->rules->list[i].name, name) == 0)
            return &r->rules->list[i];
    }
    return NULL;
}

/* Applies one rule to the text. The caller releases `spans`. */
static void ask_rule(const struct redactor *r, const char *name, const char *text, size_t len,
                     struct redact_spans *spans)
{
    const struct redact_rule *rule = rule_named(r, name);
    if (rule != NULL)
        redact_rule_find(r->rules, rule, text, len, 0, len, spans);
}

bool redact_is_given_name(const struct redactor *r, const char *name, size_t len)
{
    char path[NAME_MAX + 8];
    struct redact_spans spans = {0};
    bool given = false;
    if (len == 0 || len > NAME_MAX)
        return false;
    (void)snprintf(path, sizeof path, "~/%.*s/x", (int)len, name);
    ask_rule(r, "project-folder", path, strlen(path), &spans);
    for (size_t i = 0; i < spans.count; i++)
        given = given || (spans.list[i].from == 2 && spans.list[i].to == 2 + len);
    free(spans.list);
    return given;
}

/* Adds owner and name of a repository, and its host, unless the rules know them as public. */
static int add_remote(struct redactor *r, const char *url)
{
    struct redact_spans spans = {0};
    int e = 0;
    ask_rule(r, "git-remote", url, strlen(url), &spans);
    for (size_t i = 0; e == 0 && i < spans.count; i++) {
        const char *p = url + spans.list[i].from;
        size_t len = spans.list[i].to - spans.list[i].from;
        if (spans.list[i].kind == REDACT_HOST || redact_is_given_name(r, p, len))
            e = redact_add_word(r, spans.list[i].kind, p, len);
    }
    free(spans.list);
    return e;
}

/* Adds a full name ("Erika Mustermann"). A single word is not added, because it may be any word. A name with
 * a technical word ("memory access") is not added: people choose their own full name (chfn) and could hide
 * evidence. */
static int add_full_name(struct redactor *r, const char *name)
{
    char words[128];
    char *at = NULL;
    if (strlen(name) < 5 || strlen(name) >= sizeof words || strchr(name, ' ') == NULL)
        return 0;
    memcpy(words, name, strlen(name) + 1);
    for (const char *word = strtok_r(words, " -", &at); word != NULL;
         word = strtok_r(NULL, " -", &at)) {
        if (redact_is_weak(word, 0))
            return 0;
    }
    return redactor_add(r, REDACT_USER, name);
}

static int add_found(struct redactor *r, enum found what, const char *value)
{
    size_t len = strlen(value);
    switch (what) {
    case FOUND_HOME:
        return redactor_add(r, REDACT_HOME, value);
    case FOUND_FULL_NAME:
        return add_full_name(r, value);
    case FOUND_PERSON:
        return redact_add_word(r, REDACT_USER, value, len);
    case FOUND_GROUP:
        return redact_add_word(r, REDACT_ACCOUNT, value, len);
    case FOUND_HOST:
        return redactor_add(r, REDACT_HOST, value);
    case FOUND_DOMAIN:
        return redactor_add_domain(r, value);
    case FOUND_REMOTE:
        return add_remote(r, value);
    case FOUND_TEXT:
        break;
    }
    return redactor_learn(r, value, len);
}

static int add_all_found(struct redactor *r, struct around *a)
{
    int e = 0;
    char *at = NULL;
    a->text[a->len] = '\0';
    for (char *line = strtok_r(a->text, "\n", &at); e == 0 && line != NULL;
         line = strtok_r(NULL, "\n", &at))
        e = add_found(r, (enum found)line[0], line + 1);
    return e;
}

/* If a home has the name of its user, the folder above it holds the homes of others, too. */
static int add_neighbours(struct redactor *r)
{
    int e = 0;
    size_t known = r->count;
    for (size_t i = 0; e == 0 && i < known; i++) {
        char home[FS_PATH_MAX];
        if (r->names[i].kind != REDACT_HOME || !r->names[i].literal ||
            r->names[i].len >= sizeof home)
            continue;
        (void)snprintf(home, sizeof home, "%s", r->names[i].value);
        char *slash = strrchr(home, '/');
        for (size_t k = 0; e == 0 && slash != NULL && k < known; k++) {
            if (r->names[k].kind == REDACT_USER && strcasecmp(r->names[k].value, slash + 1) == 0) {
                *slash = '\0';
                e = redact_add_homes(r, home);
                break;
            }
        }
    }
    return e;
}

/* A rule for texts ends a folder's name at a blank. Here its end is known. */
static int add_names_with_blanks(struct redactor *r, const char *path)
{
    int e = 0;
    for (const char *at = path; e == 0 && *at != '\0';) {
        size_t len = strcspn(at, "/");
        char name[NAME_MAX + 1];
        if (len >= 5 && len < sizeof name && memchr(at, ' ', len) != NULL) {
            (void)snprintf(name, sizeof name, "%.*s", (int)len, at);
            e = redactor_add(r, REDACT_PROJECT, name);
        }
        at += len + (at[len] == '/');
    }
    return e;
}

/* Variables whose values are folders where work is done. */
static int add_places(struct redactor *r, const char *cwd)
{
    static const char *const variables[] = {
        "TMPDIR",          "SCRATCH",       "WORK",         "PROJECT",     "WORKDIR",
        "SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "CONDA_PREFIX", "VIRTUAL_ENV", "SCRATCHDIR"};
    int e = redact_add_place(r, cwd);
    if (e == 0)
        e = redact_add_above(r, cwd);
    for (size_t i = 0; e == 0 && i < sizeof variables / sizeof variables[0]; i++)
        e = redact_add_place(r, getenv(variables[i]));
    return e;
}

int redactor_add_around(struct redactor *r, const char *cwd)
{
    struct around *a =
        mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        return -ENOMEM;
    if (cwd != NULL)
        (void)snprintf(a->cwd, sizeof a->cwd, "%s", cwd);
    else if (getcwd(a->cwd, sizeof a->cwd) == NULL)
        a->cwd[0] = '\0';
    size_t known = r->count;
    bounded_steps(read_step, a, &a->next, STEPS, WITHIN_MS);
    int e = add_all_found(r, a);
    if (e == 0)
        e = add_neighbours(r);
    if (e == 0)
        e = add_places(r, a->cwd);
    if (e == 0)
        e = add_names_with_blanks(r, a->cwd);
    redact_numbers_back(r, known);
    (void)munmap(a, sizeof *a);
    return e;
}
