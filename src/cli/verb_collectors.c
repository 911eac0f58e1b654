/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "cli/json_print.h"
#include "cli/option.h"
#include "cli/site.h"
#include "cli/verbs.h"
#include "collect/collector.h"

struct collectors_line {
    bool json, help;
};

static const struct option_def collectors_options[] = {
    {"json", 0, NULL, "a JSON object a line", option_on, offsetof(struct collectors_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct collectors_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

/* A site's collector is described by its program. */
static void print_one(const struct collector *c, bool json)
{
    static const char *const phases[] = {"perishable", "quick", "slow"};
    bool is_site = c->program != NULL;
    if (!json) {
        (void)say_line(stdout, "%-14s %-10s %s%s", c->name, phases[c->phase],
                       is_site ? "of this site: " : "", is_site ? c->program : c->describe);
        return;
    }
    cJSON *row = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(row, "name", c->name);
    (void)cJSON_AddStringToObject(row, "phase", phases[c->phase]);
    (void)cJSON_AddStringToObject(row, is_site ? "program" : "describe",
                                  is_site ? c->program : c->describe);
    (void)json_print(row, JSON_LINE);
}

int verb_collectors(int argc, char *argv[])
{
    struct collectors_line line = {.json = false};
    struct rc_err err = {""};
    int at = options_parse_around(collectors_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        help_text("Usage: rocmcrash collectors [--json]\n\nLists what is collected, and when.\n\nOptions:\n");
        options_help(collectors_options);
        return VERB_EXIT_OK;
    }
    if (at < 0 || at != argc) {
        (void)say_line(stderr, "rocmcrash: %s",
                       at < 0 ? err.msg : "usage: rocmcrash collectors [--json]");
        return VERB_EXIT_USAGE;
    }
    for (const struct collector *const *c = collectors; *c != NULL; c++)
        print_one(*c, line.json);
    const struct site *site = site_get();
    for (const struct collector *const *c = site->collectors; *c != NULL; c++)
        print_one(*c, line.json);
    site_tell(site);
    return VERB_EXIT_OK;
}
