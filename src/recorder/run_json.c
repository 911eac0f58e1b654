/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/run_json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "record/run_json_fields.h"
#include "record/shared.h"
#include "watch/stream.h"

struct text {
    char *out;
    size_t size;
    size_t len;
    bool overflow;
};

static void text_add(struct text *t, const char *bytes, size_t len)
{
    if (t->overflow || t->size - t->len <= len) {
        t->overflow = true;
        return;
    }
    memcpy(t->out + t->len, bytes, len);
    t->len += len;
    t->out[t->len] = '\0';
}

static void text_puts(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

static void text_string(struct text *t, const char *s, size_t len)
{
    text_puts(t, "\"");
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        size_t n = utf8_length((const unsigned char *)s + i, len - i);
        char escaped[8];
        if (n == 0) {
            text_puts(t, "\\ufffd");
            n = 1;
        } else if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            text_add(t, escaped, 2);
        } else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
            text_add(t, escaped, 6);
        } else {
            text_add(t, s + i, n);
        }
        i += n;
    }
    text_puts(t, "\"");
}

static void field_string(struct text *t, const char *key, const char *value)
{
    text_puts(t, "  \"");
    text_puts(t, key);
    text_puts(t, "\": ");
    text_string(t, value, strlen(value));
    text_puts(t, ",\n");
}

static void field_number(struct text *t, const char *key, int64_t value)
{
    char line[128];
    int n = snprintf(line, sizeof line, "  \"%s\": %" PRId64 ",\n", key, value);
    text_add(t, line, (size_t)n);
}

static void field_big(struct text *t, const char *key, uint64_t value)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    field_string(t, key, digits);
}

static void field_argv(struct text *t, const struct shared_run *run)
{
    text_puts(t, "  \"argv\": [");
    uint32_t bytes = run->argv_bytes < sizeof run->argv ? run->argv_bytes : sizeof run->argv;
    for (uint32_t at = 0; at < bytes;) {
        size_t len = strnlen(run->argv + at, bytes - at);
        if (at > 0)
            text_puts(t, ", ");
        text_string(t, run->argv + at, len);
        at += (uint32_t)len + 1;
    }
    text_puts(t, "],\n");
}

static void render_helpers(struct text *t, const struct shared *s)
{
    static const char *const names[HELPER_MAX] = {"tracer", "sampler", "relay", "recorder",
                                            "stdout_relay"};
    for (int i = 0; i < HELPER_MAX; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s_generation", names[i]);
        field_number(t, key, s->helpers[i].generation);
    }
}

/* The target may write anything there, so bound each slot. */
static void field_hook_trouble(struct text *t, const struct shared *s)
{
    text_puts(t, "  \"hook_trouble\": [");
    for (size_t i = 0, n = 0; i < SHARED_HOOK_SLOTS; i++) {
        char slot[SHARED_HOOK_TEXT];
        memcpy(slot, s->hook_trouble[i], sizeof slot);
        size_t len = strnlen(slot, sizeof slot);
        if (len > 0 && n++ > 0)
            text_puts(t, ", ");
        if (len > 0)
            text_string(t, slot, len);
    }
    text_puts(t, "],\n");
}

/* How it ended, so far as the wait status says. */
static void say_status(const struct shared *s, char *out, size_t size)
{
    int status = s->target_status;
    if (s->target_state != TARGET_ENDED)
        (void)snprintf(out, size, "%s", s->target_state == TARGET_RUNNING ? "running" : "not started");
    else if (s->status_unknown)
        (void)snprintf(out, size, "ended, how is not known");
    else if (WIFSIGNALED(status))
        (void)snprintf(out, size, "ended by signal %d%s", WTERMSIG(status), WCOREDUMP(status) ? ", core dumped" : "");
    else
        (void)snprintf(out, size, "ended with exit status %d", WEXITSTATUS(status));
}

static void say_start(const struct shared *s, char *out, size_t size)
{
    time_t seconds = (time_t)(s->run.start_wall_ns / UINT64_C(1000000000));
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || strftime(out, size, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        out[0] = '\0';
}

/* The numbers above that nobody can read without the source. */
static void field_in_words(struct text *t, const struct shared *s)
{
    static const char *const modes[] = {"auto", "eager", "late", "none"}; /* enum trace_mode, the words of --trace */
    char words[64];
    uint32_t mode = s->run.trace_mode;
    text_puts(t, "  \"in_words\": {\n  ");
    say_start(s, words, sizeof words);
    field_string(t, "began", words);
    say_status(s, words, sizeof words);
    text_puts(t, "  ");
    field_string(t, "target", words);
    text_puts(t, "  ");
    uint32_t kind = s->run.stderr_kind; /* the target's user can write to the shared memory */
    field_string(t, "stderr", stream_kind_name(kind < STREAM_OTHER ? (enum stream_kind)kind : STREAM_OTHER));
    text_puts(t, "  \"trace\": ");
    const char *trace = mode < sizeof modes / sizeof *modes ? modes[mode] : "";
    text_string(t, trace, strlen(trace));
    text_puts(t, "\n  },\n");
}

/* A number in JSON is a number, whatever its type is in C. */
#define field_count field_number
#define field_flag field_number
#define TEXT(name, member) field_string(&t, #name, shared->member);
#define NUMBER(type, name, member) field_##type(&t, #name, shared->member);

size_t run_json_render(const struct shared *shared, char *out, size_t size)
{
    struct text t = {.out = out, .size = size};
    text_puts(&t, "{\n");
    field_argv(&t, &shared->run);
    RUN_JSON_TEXTS(TEXT)
    RUN_JSON_NUMBERS(NUMBER)
    RUN_JSON_FOR_PEOPLE(NUMBER)
    field_string(&t, "sysroot", shared->run.sysroot);
    field_hook_trouble(&t, shared);
    field_in_words(&t, shared);
    render_helpers(&t, shared);
    text_puts(&t, "  \"format\": 1\n}\n");
    if (t.overflow) {
        out[0] = '\0';
        return 0;
    }
    return t.len;
}
