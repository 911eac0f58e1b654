/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_info.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "cli/workers.h"
#include "collectors/waits_subject.h"
#include "record/run_json_fields.h"
#include "record/rundir.h"

#define RUN_JSON_MAX (1u << 20)
#define OUTPUT_MAX (2u << 20)
#define ROOM_TO_PARSE 64 /* bytes of a parsed text, at most, a byte of it */

/* Each of these leaves *ret as it is if the field is absent or of another type. */
static void read_big(const cJSON *json, const char *key, uint64_t *ret)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    uint64_t value;
    if (text != NULL && fs_parse_u64(text, &value) == 0)
        *ret = value;
}

static void read_number(const cJSON *json, const char *key, int *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (cJSON_IsNumber(item))
        *ret = item->valueint;
}

static void read_count(const cJSON *json, const char *key, unsigned *ret)
{
    int value = -1;
    read_number(json, key, &value);
    if (value >= 0)
        *ret = (unsigned)value;
}

static void read_flag(const cJSON *json, const char *key, bool *ret)
{
    int value = *ret;
    read_number(json, key, &value);
    *ret = value != 0;
}

/* "" if the field is absent; NULL if memory is short. */
static char *json_text(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return strdup(text != NULL ? text : "");
}

static char **json_argv(const cJSON *json)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "argv");
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    char **argv = calloc((size_t)count + 1, sizeof *argv);
    const cJSON *item;
    int n = 0;
    if (argv == NULL)
        return NULL;
    cJSON_ArrayForEach(item, list)
    {
        const char *text = cJSON_GetStringValue(item);
        if (n < count && (argv[n] = strdup(text != NULL ? text : "")) != NULL)
            n++;
    }
    return argv;
}

/* One line of all. */
static char *json_lines(const cJSON *json, const char *name)
{
    char all[512] = "";
    size_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, name))
    {
        const char *text = cJSON_GetStringValue(item);
        if (text != NULL && n < sizeof all)
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n > 0 ? "; " : "", text);
    }
    return strdup(all);
}

#define READ_TEXT(name, member) info->name = json_text(json, #name);
#define READ_NUMBER(type, name, member) read_##type(json, #name, &info->name);
#define IS_THERE(name, member) &&info->name != NULL

/* 0 or -ENOMEM. */
static int parse_run(struct run_info *info, const cJSON *json)
{
    RUN_JSON_TEXTS(READ_TEXT)
    RUN_JSON_NUMBERS(READ_NUMBER)
    info->argv = json_argv(json);
    info->hook_trouble = json_lines(json, "hook_trouble");
    static const char *const helpers[] = {"sampler_generation", "relay_generation",
                                          "recorder_generation", "stdout_relay_generation"};
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        unsigned generation = 0;
        read_count(json, helpers[i], &generation);
        info->helper_restarts += generation > 1 ? generation - 1 : 0;
    }
    return info->argv != NULL && info->hook_trouble != NULL RUN_JSON_TEXTS(IS_THERE) ? 0 : -ENOMEM;
}

/* "20261121T164059Z-4711": run directories tell by their names when the run began. */
static uint64_t start_in_name(const char *dir)
{
    const char *name = strrchr(dir, '/');
    struct tm utc = {.tm_mday = 0};
    time_t seconds = -1;
    if (name != NULL && strptime(name + 1, "%Y%m%dT%H%M%SZ", &utc) != NULL)
        seconds = timegm(&utc);
    return seconds > 0 ? (uint64_t)seconds * 1000000000u : 0;
}

/* True if the file itself is the trouble. Otherwise this process lacks something, such as memory, and a
 * later attempt may succeed. */
static bool is_of_the_file(int code)
{
    return code == -ENOENT || code == -EIO || code == -EFBIG || code == -ELOOP || code == -EISDIR;
}

/* cJSON does not distinguish a damaged text from refused memory. If memory for many times the text can be
 * had, and the text is refused again, it is damaged. */
static cJSON *parse_or_no_memory(const char *text, size_t len, bool *ret_no_memory)
{
    cJSON *json = cJSON_ParseWithLength(text, len);
    if (json != NULL)
        return json;
    void *volatile room = malloc(ROOM_TO_PARSE * (len + 64));
    *ret_no_memory = room == NULL;
    free(room);
    return *ret_no_memory ? NULL : cJSON_ParseWithLength(text, len);
}

/* The machine's end can leave run.json empty or torn; the rest is evidence all the same. */
static int load_run_json(struct run_info *info, struct rc_err *err)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/run.json", info->dir);
    ssize_t len = fs_read_all(path, RUN_JSON_MAX, &text);
    if (len < 0 && !is_of_the_file((int)len))
        return rc_err_errno(err, (int)len, "cannot read '%s'", path);
    bool no_memory = false;
    cJSON *json = len >= 0 ? parse_or_no_memory(text, (size_t)len, &no_memory) : NULL;
    if (no_memory)
        return rc_err_errno(err, -ENOMEM, "cannot read '%s'", path);
    if (len < 0)
        (void)snprintf(info->damage, sizeof info->damage, "run.json: %s", strerror((int)-len));
    else if (!cJSON_IsObject(json))
        (void)snprintf(info->damage, sizeof info->damage,
                       "run.json is damaged, or was not written to its end");
    int r = parse_run(info, json); /* without a document all fields stay unknown */
    cJSON_Delete(json);
    if (info->start_wall_ns == 0)
        info->start_wall_ns = start_in_name(info->dir);
    return r;
}

/* A file that is absent was never recorded. One that cannot be read is missing evidence, which is noted. */
static void note_unread(struct run_info *info, const char *name, int code)
{
    if (code < 0 && code != -ENOENT && code != -EFBIG && info->unread[0] == '\0')
        (void)snprintf(info->unread, sizeof info->unread, "%s: %s", name, strerror(-code));
}

/* "1b9d2c6e-...-0242ac120002 1795000000" */
static void load_boot(struct run_info *info)
{
    char path[FS_PATH_MAX];
    char text[80];
    char now[40];
    uint64_t seconds;
    (void)snprintf(path, sizeof path, "%s/boot", info->dir);
    ssize_t len = fs_read_text(path, text, sizeof text);
    note_unread(info, "boot", (int)len);
    char *space = len > 0 ? strchr(text, ' ') : NULL;
    if (space == NULL || space - text != 36 || fs_parse_u64(space + 1, &seconds) < 0)
        return;
    (void)snprintf(info->boot_id, sizeof info->boot_id, "%.36s", text);
    info->boot_time_s = (int64_t)seconds;
    info->restarted = fs_read_text("/proc/sys/kernel/random/boot_id", now, sizeof now) > 0 &&
                      strcmp(now, info->boot_id) != 0;
}

/* The earliest signal, else the earliest exit: a worker that crashed took the others with it. */
static int first_failure(const struct run_info *info)
{
    int best = -1;
    for (size_t i = 0; i < info->impact_count; i++) {
        const struct shared_impact *impact = &info->impacts[i].header;
        const struct shared_impact *other = best >= 0 ? &info->impacts[best].header : NULL;
        if (impact->kind == IMPACT_SNAPSHOT) /* it lived on */
            continue;
        bool crash = impact->signo != 0;
        bool better = other == NULL || (crash && other->signo == 0) ||
                      (crash == (other->signo != 0) && impact->time_ns < other->time_ns);
        if (better)
            best = (int)i;
    }
    struct worker workers[SHARED_IMPACTS_MAX];
    size_t ranks = workers_find(info, workers);
    /* With several ranks, the first that failed: the others often crash because of it, or are killed. */
    return ranks > 1 ? (int)workers[0].impact : best;
}

bool run_info_ended_still(const struct run_info *info)
{
    return info->still_asked_ns != 0 && info->still_began_ns < info->still_asked_ns &&
           (info->first_match_ns == 0 || info->first_match_ns > info->still_asked_ns);
}

/* The process that the bundle is about: one that crashed, else the one that stood still. */
static int process_to_tell_of(const struct run_info *info)
{
    int failed = first_failure(info);
    if (info->snapshot_wall_ns != 0)
        return waits_subject(info->impacts, info->impact_count, 0);
    int still = run_info_ended_still(info) ? waits_subject(info->impacts, info->impact_count, info->still_began_ns) : -1;
    bool crashed = failed >= 0 && info->impacts[failed].header.kind == IMPACT_SIGNAL_STOP;
    return still >= 0 && !crashed ? still : failed;
}

static void load_impacts(struct run_info *info)
{
    for (unsigned i = 0; i < SHARED_IMPACTS_MAX; i++) {
        char path[FS_PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/impact.%u", info->dir, i);
        int r = impact_record_read(&info->impacts[info->impact_count], path, NULL);
        info->impact_count += r == 0;
        note_unread(info, path + strlen(info->dir) + 1, r);
    }
    info->failed = process_to_tell_of(info);
}

static void append_output(struct run_info *info, struct buf *text, const char *name)
{
    char path[FS_PATH_MAX];
    RC_AUTO_FREE char *data = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", info->dir, name);
    ssize_t len = fs_read_all(path, OUTPUT_MAX, &data);
    note_unread(info, name, (int)len);
    if (data != NULL)
        buf_append(text, data, len >= 0 ? (size_t)len : strlen(data));
}

/* Removes the rest of a line after each gap, because its beginning is lost. */
static void drop_cut_lines(struct buf *text)
{
    static const char mark[] = OUTPUT_WITHIN_LINE "\n";
    size_t at = 0;
    const char *found;
    while (at < text->len &&
           (found = memmem(text->data + at, text->len - at, mark, sizeof mark - 1)) != NULL) {
        at = (size_t)(found - text->data) + sizeof mark - 1;
        size_t end = at;
        while (end < text->len && text->data[end] != '\n')
            end++;
        memmove(text->data + at, text->data + end, text->len - end + 1);
        text->len -= end - at;
    }
}

/* The first ones and the last ones overlap where they are few. */
static void append_found(struct run_info *info, struct buf *text)
{
    struct buf first = BUF_INIT, last = BUF_INIT;
    append_output(info, &first, "output.first");
    append_output(info, &last, "output.last");
    bool same = first.len > 0 && last.len >= first.len && memcmp(first.data, last.data, first.len) == 0;
    if (!same && first.len > 0)
        buf_append(text, first.data, first.len);
    if (last.len > 0)
        buf_append(text, last.data, last.len);
    buf_release(&first);
    buf_release(&last);
}

/* Offset of the first note about a gap in the output; 0 if there is none. */
static size_t first_gap(const struct buf *all)
{
    static const char note[] = "[rocmcrash: ";
    for (size_t at = 0; at < all->len;) {
        if (all->len - at > sizeof note - 1 && memcmp(all->data + at, note, sizeof note - 1) == 0)
            return at;
        const char *end = memchr(all->data + at, '\n', all->len - at);
        at = end != NULL ? (size_t)(end + 1 - all->data) : all->len;
    }
    return 0;
}

/* Lines that are known although their part of the output is not kept, before the gap's note: how
 * memory is used, and messages of failure. */
static void insert_lines(struct run_info *info, struct buf *all)
{
    struct buf report = BUF_INIT;
    struct buf lines = BUF_INIT;
    append_output(info, &report, "output.report");
    append_found(info, &report);
    char *line = report.len > 0 ? report.data : NULL;
    for (char *end; line != NULL && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        size_t len = (size_t)(end + 1 - line);
        if (all->len == 0 || memmem(all->data, all->len, line, len) == NULL)
            buf_append(&lines, line, len);
    }
    if (lines.len > 0) {
        struct buf with = BUF_INIT;
        size_t gap = first_gap(all);
        if (gap > 0)
            buf_append(&with, all->data, gap);
        buf_puts(&with, "[rocmcrash: of what follows only these lines are kept]\n");
        buf_append(&with, lines.data, lines.len);
        if (all->len > gap)
            buf_append(&with, all->data + gap, all->len - gap);
        if (!buf_failed(&with) && !buf_failed(&lines)) {
            buf_release(all);
            *all = with;
        } else {
            buf_release(&with);
        }
    }
    buf_release(&lines);
    buf_release(&report);
}

/* output.0 and output.1 are the tail; the head is only of use when they do not reach back to it. */
static void load_output(struct run_info *info)
{
    struct buf tail = BUF_INIT;
    struct buf all = BUF_INIT;
    append_output(info, &tail, "output.0");
    bool rotated = tail.len > 0;
    append_output(info, &tail, "output.1");
    append_output(info, &all, "output.head");
    size_t overlap = all.len < tail.len ? all.len : tail.len;
    /* Without a head (the recorder came too late for it) the tail begins anywhere. */
    bool tail_has_head =
        overlap == all.len && (all.len == 0 ? !rotated : memcmp(all.data, tail.data, overlap) == 0);
    if (tail_has_head) {
        buf_release(&all);
        all = tail;
    } else {
        /* Whole lines only: half of one hides what its value is. */
        while (all.len > 0 && all.data[all.len - 1] != '\n')
            all.data[--all.len] = '\0';
        const char *end = tail.len > 0 ? memchr(tail.data, '\n', tail.len) : NULL;
        buf_puts(&all, "[rocmcrash: the middle is not kept]\n");
        if (end != NULL)
            buf_append(&all, end + 1, tail.len - (size_t)(end + 1 - tail.data));
        buf_release(&tail);
    }
    drop_cut_lines(&all);
    insert_lines(info, &all);
    info->output_len = all.len;
    info->output = all.data;
}

int run_info_load(struct run_info *info, const char *dir, struct rc_err *err)
{
    *info = (struct run_info){.failed = -1, .kmsg_start_seq = UINT64_MAX};
    info->dir = strdup(dir);
    int r = info->dir == NULL ? -ENOMEM : load_run_json(info, err);
    if (r < 0)
        return r;
    load_boot(info);
    load_impacts(info);
    load_output(info);
    return 0;
}

#define FREE(name, member) free(info->name);

void run_info_release(struct run_info *info)
{
    for (size_t i = 0; info->argv != NULL && info->argv[i] != NULL; i++)
        free(info->argv[i]);
    free(info->argv);
    free(info->dir);
    RUN_JSON_TEXTS(FREE)
    free(info->hook_trouble);
    free(info->output);
    for (size_t i = 0; i < info->impact_count; i++)
        impact_record_release(&info->impacts[i]);
    *info = (struct run_info){.failed = -1};
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The command after "rocmcrash ... --", however often that is repeated: an inner rocmcrash only runs its
 * command. */
static char **own_argv(const struct run_info *info)
{
    char **argv = info->argv;
    for (char **word = argv; strcmp(last_component(argv[0]), "rocmcrash") == 0 && *word != NULL;
         word++)
        if (strcmp(*word, "--") == 0 && word[1] != NULL)
            argv = word + 1;
    return argv;
}

const char *run_info_program(const struct run_info *info)
{
    if (info->argv == NULL || info->argv[0] == NULL)
        return "unknown";
    char **argv = own_argv(info);
    const char *program = last_component(argv[0]);
    if (strncmp(program, "python", 6) != 0)
        return program;
    for (char **word = argv + 1; *word != NULL; word++) {
        if (strcmp(*word, "-m") == 0)
            return word[1] != NULL ? word[1] : program;
        if (strcmp(*word, "-c") == 0)
            return program;
        if ((*word)[0] != '-')
            return last_component(*word);
    }
    return program;
}
