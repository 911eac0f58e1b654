/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/own_folder.h"
#include "cli/option.h"
#include "cli/suggest.h"

#define SYSTEM_FILE "/etc/rocmcrash/config"
#define ANSWER_MS 1000 /* twice at most; no disk that works needs so long */

/* --- the settings that there are --- */

int config_is_setting(const struct option_def *option)
{
    /* The sysroot decides where /etc lies, so that no file can name it; fs.h reads its variable. */
    static const char *const others[] = {"help", "version", "always", "sysroot"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(option->name, others[i]) == 0)
            return 0;
    return 1;
}

void config_variable(const struct option_def *option, char *out, size_t size)
{
    (void)snprintf(out, size, "ROCMCRASH_%s", option->name);
    for (char *at = out; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

static void list_settings(struct config *config, const struct option_def *table,
                          const struct config_default *defaults)
{
    for (; table->name != NULL && config->count < CONFIG_SETTINGS_MAX; table++) {
        if (!config_is_setting(table))
            continue;
        struct config_setting *setting = &config->settings[config->count++];
        setting->option = table;
        for (const struct config_default *d = defaults; d->name != NULL; d++)
            if (strcmp(d->name, table->name) == 0)
                setting->value = d->value;
    }
}

static struct config_setting *find_setting(struct config *config, const char *name)
{
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->settings[i].option->name, name) == 0)
            return &config->settings[i];
    return NULL;
}

static int unknown_name(const struct config *config, const char *file, unsigned line,
                        const char *name, struct rc_err *err)
{
    const char *best = NULL;
    unsigned nearest = 4; /* fewer than so many letters apart */
    for (size_t i = 0; i < config->count; i++) {
        const char *known = config->settings[i].option->name;
        unsigned distance = suggest_distance(name, known);
        if (distance < nearest && distance < strlen(known) / 2) {
            nearest = distance;
            best = known;
        }
    }
    if (best != NULL)
        return rc_err_set(err, -EINVAL, "%s:%u: there is no setting '%.40s'; did you mean '%s'?",
                          file, line, name, best);
    return rc_err_set(err, -EINVAL, "%s:%u: there is no setting '%.40s' (see rocmcrash config)",
                      file, line, name);
}

/* --- a file --- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static int read_line(struct config *config, const char *file, unsigned number, char *line,
                     struct rc_err *err)
{
    char *name = trim(line);
    char *equals = strchr(name, '=');
    if (name[0] == '\0' || name[0] == '#')
        return 0;
    if (equals == NULL)
        return rc_err_set(err, -EINVAL, "%s:%u: a line is 'name = value'", file, number);
    *equals = '\0';
    name = trim(name);
    struct config_setting *setting = find_setting(config, name);
    if (setting == NULL)
        return unknown_name(config, file, number, name, err);
    char *value = trim(equals + 1);
    if (value[0] == '\0')
        return rc_err_set(err, -EINVAL, "%s:%u: '%s' has no value", file, number, name);
    setting->value = value;
    setting->file = file;
    setting->line = number;
    return 0;
}

static int read_lines(struct config *config, struct config_file *file, struct rc_err *err)
{
    unsigned number = 0;
    for (char *at = file->text, *next = at; next != NULL; at = next) {
        next = strchr(at, '\n');
        if (next != NULL)
            *next++ = '\0';
        int r = read_line(config, file->path, ++number, at, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void refuse(struct config_file *file, const char *why)
{
    file->state = CONFIG_REFUSED;
    (void)snprintf(file->reason, sizeof file->reason, "%s", why);
}

/* The text of a file that nobody else could have written. */
static void open_file(struct config_file *file)
{
    struct stat st;
    RC_AUTO_CLOSE int fd = fs_open_read(file->path);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return;
    if (fd == -EACCES && lstat(file->path, &st) != 0) {
        file->state = CONFIG_HIDDEN;
        return;
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        refuse(file, strerror(fd < 0 ? -fd : errno));
        return;
    }
    const char *why = S_ISREG(st.st_mode) ? own_path_distrust(file->path, &st) : "it is no file";
    if (why != NULL) {
        refuse(file, why);
        return;
    }
    ssize_t len = fs_pread_text(fd, file->text, sizeof file->text);
    if (len < 0)
        refuse(file, len == -EFBIG ? "it is too large" : strerror((int)-len));
    else
        file->state = CONFIG_READ;
}

static bool try_file(void *file)
{
    struct config_file copy = *(const struct config_file *)file;
    if (copy.path[0] != '\0')
        open_file(&copy);
    return true;
}

static bool try_files(void *config)
{
    for (size_t i = 0; i < CONFIG_FILES; i++)
        (void)try_file(&((struct config *)config)->files[i]);
    return true;
}

/* A home on a server that is gone must not keep the user's program from starting. */
static void open_files(struct config *config)
{
    bool all_answer = bounded_reach(try_files, config, ANSWER_MS);
    for (size_t i = 0; i < CONFIG_FILES; i++) {
        struct config_file *file = &config->files[i];
        if (file->path[0] == '\0')
            continue;
        if (all_answer || bounded_reach(try_file, file, ANSWER_MS))
            open_file(file);
        else
            refuse(file, "its file system does not answer");
    }
}

static void find_files(struct config *config)
{
    struct config_file *system = &config->files[0];
    struct config_file *own = &config->files[1];
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int n = 0;
    if (fs_machine_path(system->path, sizeof system->path, SYSTEM_FILE) < 0)
        system->path[0] = '\0';
    if (base != NULL && base[0] == '/')
        n = snprintf(own->path, sizeof own->path, "%s/rocmcrash/config", base);
    else if (home != NULL && home[0] == '/')
        n = snprintf(own->path, sizeof own->path, "%s/.config/rocmcrash/config", home);
    if (n < 0 || (size_t)n >= sizeof own->path)
        own->path[0] = '\0';
}

/* --- all of them --- */

static void read_variables(struct config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        static char names[CONFIG_SETTINGS_MAX][48];
        struct config_setting *setting = &config->settings[i];
        config_variable(setting->option, names[i], sizeof names[i]);
        const char *value = getenv(names[i]);
        if (value == NULL || value[0] == '\0')
            continue;
        setting->value = value;
        setting->file = names[i];
        setting->line = 0;
    }
}

int config_load(struct config *config, const struct option_def *table,
                const struct config_default *defaults, struct rc_err *err)
{
    list_settings(config, table, defaults);
    find_files(config);
    open_files(config);
    for (size_t i = 0; i < CONFIG_FILES; i++) {
        struct config_file *file = &config->files[i];
        int r = file->state == CONFIG_READ ? read_lines(config, file, err) : 0;
        if (r < 0)
            return r;
    }
    read_variables(config);
    return 0;
}

static int switch_value(const char *value, bool *ret)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret = i % 2 == 1;
            return 0;
        }
    }
    return -EINVAL;
}

static int apply_one(const struct config_setting *setting, void *target, struct rc_err *err)
{
    const struct option_def *option = setting->option;
    bool on = false;
    if (option->argument != NULL)
        return option_set(option, target, setting->value, err);
    if (switch_value(setting->value, &on) < 0)
        return rc_err_set(err, -EINVAL, "'%s' is yes or no, not '%.40s'", option->name,
                          setting->value);
    return on ? option_set(option, target, NULL, err) : 0;
}

int config_apply(const struct config *config, void *target, struct rc_err *err)
{
    for (size_t i = 0; i < config->count; i++) {
        const struct config_setting *setting = &config->settings[i];
        struct rc_err why = {""};
        if (setting->value == NULL || apply_one(setting, target, &why) >= 0)
            continue;
        if (setting->line > 0)
            return rc_err_set(err, -EINVAL, "%s:%u: %s", setting->file, setting->line, why.msg);
        return rc_err_set(err, -EINVAL, "%s: %s", setting->file != NULL ? setting->file : "default",
                          why.msg);
    }
    return 0;
}
