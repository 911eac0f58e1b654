/* SPDX-License-Identifier: Apache-2.0 */
/* `config [--json]`: the settings in force, and where each comes from. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/say.h"
#include "cli/assets.h"
#include "cli/config.h"
#include "cli/json_print.h"
#include "cli/run_options.h"
#include "cli/site.h"
#include "cli/verbs.h"
#include "diagnose/site_rules.h"
#include "diagnose/verdict.h"

#define CONFIG_FORMAT 1

struct config_line {
    bool json, help;
};

static const struct option_def config_options[] = {
    {"json", 0, NULL, "the same as a JSON object", option_on, offsetof(struct config_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct config_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static const char *state_name(const struct config_file *file)
{
    static const char *const names[] = {"absent", "read", "not read", "in a folder that is closed to us"};
    return names[file->state];
}

/* "no" for a switch, "" for a value that nobody gave. */
static const char *shown_value(const struct config_setting *setting)
{
    if (setting->value != NULL)
        return setting->value;
    return setting->option->argument == NULL ? "no" : "";
}

static void shown_origin(const struct config_setting *setting, struct buf *out)
{
    say_word(out, setting->file != NULL ? setting->file : "default");
    if (setting->line > 0)
        buf_printf(out, ":%u", setting->line);
}

/* Prints what the site's folder holds. Reading the tree checks its nodes. */
static void print_site(struct buf *out)
{
    const struct site *site = site_get();
    if (site->folder[0] != '\0') {
        say_word(out, site->folder);
        buf_printf(out, ": %zu files of nodes, %zu message rules, %s redaction rules, %zu collectors\n",
                   site->tree_count, site->messages != NULL ? site_rules_count(site->messages) : 0,
                   site->redaction != NULL ? "own" : "no", site->collector_count);
    }
    if (site_trouble(site) != NULL) {
        say_word(out, site_trouble(site));
        buf_putc(out, '\n');
    }
}

static void print_text(const struct config *config)
{
    struct buf out = BUF_INIT;
    buf_puts(&out, "setting         value                   from\n");
    for (size_t i = 0; i < config->count; i++) {
        const struct config_setting *setting = &config->settings[i];
        const char *value = shown_value(setting);
        size_t begin = out.len;
        buf_printf(&out, "%-15s ", setting->option->name);
        say_word(&out, value[0] != '\0' ? value : "-");
        do
            buf_putc(&out, ' ');
        while (out.len < begin + 40);
        shown_origin(setting, &out);
        buf_putc(&out, '\n');
    }
    buf_putc(&out, '\n');
    for (size_t i = 0; i < CONFIG_FILES; i++) {
        const struct config_file *file = &config->files[i];
        if (file->path[0] == '\0')
            continue;
        say_word(&out, file->path);
        buf_printf(&out, ": %s%s", state_name(file), file->reason[0] != '\0' ? ", " : "");
        say_word(&out, file->reason);
        buf_putc(&out, '\n');
    }
    print_site(&out);
    buf_puts(&out, "A variable ROCMCRASH_NAME is stronger than the files, an option of the command "
                   "line\nis stronger than all.\n");
    (void)say_text(stdout, buf_str(&out));
    buf_release(&out);
}

static cJSON *setting_json(const struct config_setting *setting)
{
    struct buf from = BUF_INIT;
    cJSON *row = cJSON_CreateObject();
    const char *value = shown_value(setting);
    shown_origin(setting, &from);
    (void)cJSON_AddStringToObject(row, "name", setting->option->name);
    if (value[0] != '\0')
        (void)cJSON_AddStringToObject(row, "value", value);
    else
        (void)cJSON_AddNullToObject(row, "value");
    (void)cJSON_AddStringToObject(row, "from", buf_str(&from));
    buf_release(&from);
    return row;
}

static int print_json(const struct config *config)
{
    cJSON *root = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(root, "format", CONFIG_FORMAT);
    cJSON *settings = cJSON_AddArrayToObject(root, "settings");
    for (size_t i = 0; i < config->count; i++)
        (void)cJSON_AddItemToArray(settings, setting_json(&config->settings[i]));
    cJSON *files = cJSON_AddArrayToObject(root, "files");
    for (size_t i = 0; i < CONFIG_FILES; i++) {
        const struct config_file *file = &config->files[i];
        if (file->path[0] == '\0')
            continue;
        cJSON *row = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(row, "path", file->path);
        (void)cJSON_AddStringToObject(row, "state", state_name(file));
        (void)cJSON_AddStringToObject(row, "reason", file->reason);
        (void)cJSON_AddItemToArray(files, row);
    }
    if (site_trouble(site_get()) != NULL)
        (void)cJSON_AddStringToObject(root, "site_trouble", site_trouble(site_get()));
    return json_print(root, JSON_PAGES) == 0 ? VERB_EXIT_OK : VERB_EXIT_FAILED;
}

static int print_help(void)
{
    help_text("Usage: rocmcrash config [--json]\n\n"
              "The settings in force, and where each comes from: a default, a file, or a\n"
              "variable. A setting is an option of a run: 'bundle-on = oom' is a line of\n"
              "/etc/rocmcrash/config or ~/.config/rocmcrash/config, ROCMCRASH_BUNDLE_ON a\n"
              "variable.\n\nOptions:\n");
    options_help(config_options);
    help_text("\nExit status: 0; 2 if something is wrong: a file, a value, a part\n"
              "of the site's folder.\n");
    return VERB_EXIT_OK;
}

static bool is_refused(const struct config *config)
{
    bool refused = false;
    for (size_t i = 0; i < CONFIG_FILES; i++)
        refused = refused || config->files[i].state == CONFIG_REFUSED;
    return refused;
}

int verb_config(int argc, char *argv[])
{
    static struct config config;
    struct config_line line = {.json = false};
    struct command_line run = {.help = false};
    struct rc_err err = {""};
    int at = options_parse(config_options, &line, argc, argv, &err);
    if (at < 0 || at < argc) {
        (void)say_line(stderr, "rocmcrash: %s (see rocmcrash config --help)",
                       at < 0 ? err.msg : "config takes no argument");
        return VERB_EXIT_USAGE;
    }
    if (line.help)
        return print_help();
    int r = config_load(&config, run_options, run_defaults, &err);
    if (r == 0)
        r = config_apply(&config, &run, &err);
    if (r < 0) {
        verb_complain(NULL, &err);
        return VERB_EXIT_FAILED;
    }
    (void)setenv("ROCMCRASH_SITE", run.launch.site != NULL ? run.launch.site : SITE_DEFAULT, 1);
    tree_free(asset_tree(NULL, &err));
    int status = VERB_EXIT_OK;
    if (line.json)
        status = print_json(&config);
    else
        print_text(&config);
    return is_refused(&config) || site_trouble(site_get()) != NULL ? VERB_EXIT_FAILED : status;
}
