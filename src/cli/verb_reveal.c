/* SPDX-License-Identifier: Apache-2.0 */
/* `reveal BUNDLE [FILE|PSEUDONYM]`: what the pseudonyms of one's own bundle stand for. */
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
            (void)say_whole(stdout, "%-12s %s", name->string, name->valuestring);
    }
}

static bool is_pseudonym(const char *word)
{
    return word[0] == '<' && word[strlen(word) - 1] == '>';
}

static int reveal_name(const char *pseudonym, const cJSON *map, struct rc_err *err)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, pseudonym));
    if (name == NULL)
        return rc_err_set(err, -ENOENT, "the bundle has no name for '%s'", pseudonym);
    (void)say_whole(stdout, "%s", name);
    return 0;
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
        help_text("Usage: rocmcrash reveal [OPTIONS] BUNDLE [FILE|PSEUDONYM]\n\n"
                  "Says what the pseudonyms (<host1>) of a bundle stand for that was made by this\n"
                  "user on this machine; what one of them stands for ('<host1>', in quotes); or\n"
                  "replaces them in the text of a file (- is stdin).\n\nOptions:\n");
        options_help(reveal_options);
        return VERB_EXIT_OK;
    }
    if (at < 0)
        (void)say_line(stderr, "rocmcrash: %s", err.msg);
    else if (argc - at < 1 || argc - at > 2)
        (void)say_line(stderr, "rocmcrash: usage: rocmcrash reveal [OPTIONS] BUNDLE [FILE|PSEUDONYM]");
    if (at < 0 || argc - at < 1 || argc - at > 2)
        return VERB_EXIT_USAGE;
    if (access(argv[at], R_OK) != 0) {
        (void)rc_err_errno(&err, -errno, "cannot open '%s'", argv[at]);
        verb_complain(NULL, &err);
        return VERB_EXIT_FAILED;
    }
    cJSON *map = name_map_of_file(argv[at], &err);
    const char *operand = argc - at == 2 ? argv[at + 1] : NULL;
    int r = map == NULL ? -ENOENT : 0;
    if (r == 0 && operand != NULL)
        r = is_pseudonym(operand) ? reveal_name(operand, map, &err) : reveal_text(operand, map, &err);
    else if (r == 0)
        print_map(map, line.json);
    if (r < 0)
        verb_complain(map == NULL ? argv[at] : NULL, &err);
    cJSON_Delete(map);
    return r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK;
}
