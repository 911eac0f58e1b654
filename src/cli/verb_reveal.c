/* SPDX-License-Identifier: Apache-2.0 */
/* `reveal BUNDLE [TEXT]`: what the pseudonyms of one's own bundle stand for. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/say.h"
#include "cli/input.h"
#include "cli/json_print.h"
#include "cli/name_map.h"
#include "cli/option.h"
#include "cli/verbs.h"

#define TEXT_MAX ((size_t)64 << 20)

struct reveal_line {
    bool json, help;
};

static const struct option_def reveal_options[] = {
    {"json", 0, NULL, "an object: pseudonym to name",
     option_on, offsetof(struct reveal_line, json)},
    {"help", 'h', NULL, "print this and exit", option_on, offsetof(struct reveal_line, help)},
    {NULL, 0, NULL, NULL, NULL, 0},
};

static void print_map(const cJSON *map, bool json)
{
    const cJSON *name = NULL;
    if (json)
        (void)json_print(cJSON_Duplicate(map, true), JSON_LINE);
    for (name = json ? NULL : map->child; name != NULL; name = name->next) {
        if (cJSON_IsString(name))
            (void)say_line(stdout, "%-12s %s", name->string, name->valuestring);
    }
}

static int reveal_text(const char *path, const cJSON *map, struct rc_err *err)
{
    RC_AUTO_FREE char *text = NULL;
    size_t len = 0;
    struct buf whole = BUF_INIT;
    struct buf clean = BUF_INIT;
    int r = input_read(path, TEXT_MAX, &text, &len, err);
    if (r < 0)
        return r;
    name_map_apply(map, text, &whole);
    if (isatty(STDOUT_FILENO))
        say_clean(&clean, buf_str(&whole), whole.len);
    const struct buf *shown = isatty(STDOUT_FILENO) ? &clean : &whole;
    r = buf_failed(shown) ? rc_err_errno(err, -ENOMEM, "cannot read '%s'", path) : 0;
    if (r == 0)
        (void)fwrite(buf_str(shown), 1, shown->len, stdout);
    buf_release(&whole);
    buf_release(&clean);
    return r;
}

int verb_reveal(int argc, char *argv[])
{
    struct reveal_line line = {.json = false};
    struct rc_err err = {""};
    int at = options_parse_around(reveal_options, &line, argc, argv, &err);
    if (at >= 0 && line.help) {
        (void)printf("Usage: rocmcrash reveal [OPTIONS] BUNDLE [TEXT]\n\n"
                     "Says what the pseudonyms (<host1>) of a bundle stand for that was made by this\n"
                     "user on this machine, or replaces them in a text ('-' is stdin).\n\nOptions:\n");
        options_help(reveal_options);
        return VERB_EXIT_OK;
    }
    if (at < 0)
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    else if (argc - at < 1 || argc - at > 2)
        (void)say_line(stderr, "rocmcrash: usage: rocmcrash reveal [--json] BUNDLE [TEXT]");
    if (at < 0 || argc - at < 1 || argc - at > 2)
        return VERB_EXIT_USAGE;
    cJSON *map = name_map_of_file(argv[at], &err);
    int r = map == NULL ? -ENOENT : argc - at == 2 ? reveal_text(argv[at + 1], map, &err) : 0;
    if (r == 0 && argc - at == 1)
        print_map(map, line.json);
    cJSON_Delete(map);
    if (r < 0)
        verb_complain(argv[at], &err);
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
