/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/event.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "collect/exec.h"
#include "diagnose/fact.h"
#include "diagnose/signature.h"
#include "diagnose/verdict.h"

#define EVENT_MS 2000
#define WORDS_MAX 8

struct words {
    struct buf texts[WORDS_MAX];
    size_t count;
};

static void add_text(struct words *words, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    words->texts[words->count] = (struct buf)BUF_INIT;
    buf_printf(&words->texts[words->count++], "%s=%s", name, value);
}

static void add_number(struct words *words, const struct facts *facts, const char *name)
{
    int64_t number;
    if (!facts_get_integer(facts, name, &number))
        return;
    words->texts[words->count] = (struct buf)BUF_INIT;
    buf_printf(&words->texts[words->count++], "%s=%" PRId64, name, number);
}

/* RFC 8089; what a path may hold as it is: RFC 3986. */
static void add_file(struct words *words, const char *name, const char *path)
{
    RC_AUTO_FREE char *whole = realpath(path, NULL);
    struct buf uri = BUF_INIT;
    buf_puts(&uri, "file://");
    for (const char *at = whole != NULL ? whole : path; *at != '\0'; at++) {
        bool plain = isalnum((unsigned char)*at) || strchr("/-._~!$&'()*+,;=:@", *at) != NULL;
        buf_printf(&uri, plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    add_text(words, name, buf_str(&uri));
    buf_release(&uri);
}

static void collect_words(struct words *words, const struct verdict *verdict, const struct facts *judged, const char *bundle_path)
{
    char signature[SIGNATURE_ID_SIZE] = "";
    signature_id(verdict, judged, signature);
    add_text(words, "rocmcrash.class", verdict->class_name);
    add_text(words, "rocmcrash.subclass", verdict->subclass);
    add_text(words, "rocmcrash.confidence", verdict->confidence);
    add_text(words, "rocmcrash.signature", signature);
    add_file(words, "rocmcrash.bundle", bundle_path);
    add_number(words, judged, "job.id");
    add_number(words, judged, "job.rank");
    add_number(words, judged, "job.world_size");
}

static int run(const char *const *argv, struct rc_err *err)
{
    struct buf said = BUF_INIT;
    int r = collect_exec(argv, clock_mono_ns() + EVENT_MS * NS_PER_MS, &said, err);
    buf_release(&said);
    return r > 0 ? rc_err_set(err, -EIO, "'%s' ended with status %d", argv[0], r) : r;
}

int event_send(const char *program, const char *sentence, const struct verdict *verdict, const struct facts *judged, const char *bundle_path,
               struct rc_err *err)
{
    struct words words = {.count = 0};
    const char *argv[WORDS_MAX + 3] = {program, sentence != NULL ? sentence : ""};
    bool failed = false;
    collect_words(&words, verdict, judged, bundle_path);
    for (size_t i = 0; i < words.count; i++) {
        failed = failed || buf_failed(&words.texts[i]);
        argv[i + 2] = buf_str(&words.texts[i]);
    }
    int r = failed ? rc_err_errno(err, -ENOMEM, "no event") : run(argv, err);
    for (size_t i = 0; i < words.count; i++)
        buf_release(&words.texts[i]);
    return r;
}
