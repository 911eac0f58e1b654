/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/site.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "collect/exec.h"
#include "diagnose/site_rules.h"

#define BEFORE_THE_END_MS 200 /* so that the output printed so far is still read */
#define WHOLE_MAX 9007199254740992.0 /* 2^53: a larger number in JSON may have been rounded */

struct answer {
    struct collect_out *out;
    char source[80];
    unsigned line, facts;
    enum collect_status status;
    char reason[300]; /* its own */
    char wrong[200];  /* the first part that was not understood */
    unsigned wrongs;
};

__attribute__((format(printf, 2, 3))) static void complain(struct answer *a, const char *fmt, ...)
{
    char words[160];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    if (a->wrongs++ == 0)
        (void)snprintf(a->wrong, sizeof a->wrong, "line %u: %s", a->line, words);
}

static const char *word(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* The moment; "after" if none is given. */
static bool read_when(struct answer *a, const cJSON *object, enum fact_when *ret)
{
    static const struct {
        const char *name;
        enum fact_when when;
    } moments[] = {{"static", FACT_STATIC}, {"after", FACT_AFTER}, {"log", FACT_LOG}};
    const char *name = word(object, "when");
    *ret = FACT_AFTER;
    for (size_t i = 0; name != NULL && i < sizeof moments / sizeof moments[0]; i++) {
        if (strcmp(moments[i].name, name) == 0) {
            *ret = moments[i].when;
            return true;
        }
    }
    if (name != NULL)
        complain(a, "\"when\" is static, after or log");
    return name == NULL;
}

static bool name_is_good(struct answer *a, const char *name)
{
    if (!site_fact_name(name, strlen(name)) || strlen(name) > 60)
        complain(a, "a site's fact is named site.something, not '%.60s'", name);
    else if (a->facts++ >= SITE_FACTS_MAX)
        complain(a, "more than %d facts", SITE_FACTS_MAX);
    else
        return true;
    return false;
}

static void read_fact(struct answer *a, const cJSON *object, const char *name)
{
    enum fact_when when;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, "value");
    if (!name_is_good(a, name) || !read_when(a, object, &when))
        return;
    if (cJSON_IsString(value))
        collect_text(a->out, name, when, value->valuestring, a->source);
    else if (cJSON_IsBool(value))
        collect_boolean(a->out, name, when, cJSON_IsTrue(value), a->source);
    else if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble))
        complain(a, "\"value\" is a number, a text, true or false");
    else if (value->valuedouble == trunc(value->valuedouble) && fabs(value->valuedouble) <= WHOLE_MAX)
        collect_integer(a->out, name, when, (int64_t)value->valuedouble, a->source);
    else
        collect_real(a->out, name, when, value->valuedouble, a->source);
}

static void read_missing(struct answer *a, const cJSON *object, const char *name)
{
    enum fact_when when;
    const char *reason = word(object, "reason");
    if (reason == NULL)
        complain(a, "\"missing\" without \"reason\"");
    else if (name_is_good(a, name) && read_when(a, object, &when))
        collect_missing(a->out, name, when, FACT_UNREADABLE, reason, a->source);
}

static void read_file(struct answer *a, const cJSON *object, const char *name)
{
    const char *text = word(object, "text");
    int r = text != NULL ? collect_write(a->out, name, text, strlen(text)) : -EINVAL;
    if (r < 0)
        complain(a, "cannot keep the file '%.60s': %s", name, strerror(-r));
}

static void read_status(struct answer *a, const cJSON *object, const char *name)
{
    static const char *const names[] = {
        [COLLECT_OK] = "ok", [COLLECT_PARTIAL] = "partial", [COLLECT_SKIPPED] = "skipped",
        [COLLECT_FAILED] = "failed"};
    const char *reason = word(object, "reason");
    (void)snprintf(a->reason, sizeof a->reason, "%s", reason != NULL ? reason : "");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            a->status = (enum collect_status)i;
            return;
        }
    }
    complain(a, "\"status\" is ok, partial, skipped or failed");
}

static void read_line(struct answer *a, const char *line, size_t len)
{
    static const struct {
        const char *key;
        void (*read)(struct answer *, const cJSON *, const char *);
    } kinds[] = {{"fact", read_fact},
                 {"missing", read_missing},
                 {"file", read_file},
                 {"status", read_status}};
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts(line, len, &end, false);
    bool known = false;
    if (!cJSON_IsObject(object) || strspn(end, " \t\r\n") < len - (size_t)(end - line)) {
        complain(a, "not a JSON object");
        cJSON_Delete(object);
        return;
    }
    for (size_t i = 0; !known && i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *name = word(object, kinds[i].key);
        known = name != NULL;
        if (known)
            kinds[i].read(a, object, name);
    }
    if (!known)
        complain(a, "no \"fact\", \"missing\", \"file\" or \"status\"");
    cJSON_Delete(object);
}

/* Whole lines; the last one only if the program exited. */
static void read_lines(struct answer *a, const char *text, size_t len)
{
    for (const char *end; len > 0 && (end = memchr(text, '\n', len)) != NULL;) {
        size_t line = (size_t)(end - text);
        a->line++;
        if (line > 0)
            read_line(a, text, line);
        text += line + 1;
        len -= line + 1;
    }
    a->line++;
    if (len > 0)
        complain(a, "its end is missing");
}

/* Environment variables that describe the run to the program. */
static void tell_program(const struct collect_ctx *ctx)
{
    char text[32];
    (void)setenv("ROCMCRASH_PROTOCOL", "1", 1);
    (void)setenv("ROCMCRASH_TARGET_CWD", ctx->cwd, 1);
    (void)snprintf(text, sizeof text, "%lld", (long long)ctx->target_pid);
    (void)setenv("ROCMCRASH_TARGET_PID", text, 1);
    (void)snprintf(text, sizeof text, "%lld", (long long)ctx->failed_pid);
    (void)setenv("ROCMCRASH_FAILED_PID", text, 1);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)(ctx->start_wall_ns / (1000 * NS_PER_MS)));
    (void)setenv("ROCMCRASH_START_TIME", text, 1);
}

static enum collect_status conclude(struct answer *a, int end, const struct rc_err *err)
{
    char why[300] = "";
    if (end < 0 && end != -EFBIG)
        (void)snprintf(why, sizeof why, "%s", err->msg);
    else if (end == -EFBIG)
        (void)snprintf(why, sizeof why, "it printed more than %zu bytes", SITE_OUTPUT_MAX);
    else if (end > COLLECT_EXEC_SIGNAL)
        (void)snprintf(why, sizeof why, "ended by signal %d", end - COLLECT_EXEC_SIGNAL);
    else if (end > 0)
        (void)snprintf(why, sizeof why, "ended with status %d", end);
    else if (a->wrongs == 0)
        return a->reason[0] != '\0' ? collect_reason(a->out, a->status, "%s", a->reason) : a->status;
    bool nothing = a->facts == 0;
    return collect_reason(a->out, nothing ? COLLECT_FAILED : COLLECT_PARTIAL, "%s%s%s%s", why,
                          why[0] != '\0' && a->wrongs > 0 ? "; " : "", a->wrongs > 0 ? a->wrong : "",
                          a->wrongs > 1 ? ", and more" : "");
}

enum collect_status site_collector_run(const struct collect_ctx *ctx, struct collect_out *out)
{
    const char *const argv[] = {ctx->program, NULL};
    const char *slash = strrchr(ctx->program, '/');
    struct answer a = {.out = out, .status = COLLECT_OK};
    struct buf text;
    struct rc_err err = {""};
    (void)snprintf(a.source, sizeof a.source, "site:%.60s", slash != NULL ? slash + 1 : ctx->program);
    tell_program(ctx);
    buf_init(&text, SITE_OUTPUT_MAX);
    int end = collect_exec(argv, ctx->deadline_mono_ns - BEFORE_THE_END_MS * NS_PER_MS, &text, &err);
    read_lines(&a, buf_str(&text), text.len);
    buf_release(&text);
    return conclude(&a, end, &err);
}
