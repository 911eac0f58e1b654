/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/signature.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#define WORD_MAX 160
#define PARTS_MAX 10

/* Failures of which one part or another tells them apart. */
enum kind {
    OF_A_CALL = 1, /* a class that a call, an error or a counter decided */
    OWN = 2,       /* the program's own failure, or one that no rule explains */
    STANDING = 4,  /* it stood still: seen alive */
    ENDED = 8,     /* somebody ended it, wherever it was then */
};

/* The first fact of a row that is known gives the part. */
static const struct part {
    unsigned kinds;
    const char *label;
    const char *facts[3];
} parts[] = {
    {OF_A_CALL | OWN | STANDING, "call", {"ledger.hip.function", "err.api", NULL}},
    {OF_A_CALL | OWN | STANDING, "error", {"err.code", NULL, NULL}},
    {OWN | ENDED, "signal", {"target.failed_signal_name", "target.signal_name", NULL}},
    {OF_A_CALL | OWN, "exception", {"msg.python_exception", NULL, NULL}},
    {OWN, "thrown", {"msg.cxx_type", NULL, NULL}},
    {OWN, "line", {"msg.python_place", "hook.fault_place", NULL}},
    {STANDING, "line", {"f.stands_at", NULL, NULL}},
    {OF_A_CALL, "function", {"stack.top", NULL, NULL}},
    {OWN, "function", {"stack.place", NULL, NULL}},
    {OF_A_CALL | OWN | STANDING | ENDED, "architecture", {"gpu.0.gfx", NULL, NULL}},
};

static const struct {
    const char *label, *fact;
} versions[] = {
    {"rocm", "software.rocm_version"}, {"torch", "software.torch_version"},
    {"jax", "software.jax_version"},   {"vllm", "software.vllm_version"},
    {"linux", "host.kernel"},
};

struct words {
    char text[PARTS_MAX][WORD_MAX];
    size_t count;
};

static void add_word(struct words *words, const char *label, const char *text)
{
    if (words->count < PARTS_MAX && text[0] != '\0')
        (void)snprintf(words->text[words->count++], WORD_MAX, "%.20s %.120s", label, text);
}

/* Without what differs between builds and runs: "main+0x37 (libx.so.1.2)" -> "main (libx.so)", "<project3>.py" ->
 * "<project>.py". */
static void put_lasting(const char *text, char *out, size_t size)
{
    size_t n = 0;
    bool is_pseudonym = false;
    while (*text != '\0' && n + 1 < size) {
        if (strncmp(text, "+0x", 3) == 0)
            text += 3 + strspn(text + 3, "0123456789abcdef");
        else if (is_pseudonym && isdigit((unsigned char)*text))
            text++;
        else {
            is_pseudonym = (is_pseudonym || *text == '<') && *text != '>';
            out[n++] = *text++;
            if (n >= 3 && memcmp(out + n - 3, ".so", 3) == 0)
                text += strspn(text, ".0123456789");
        }
    }
    out[n] = '\0';
}

static bool first_of(const struct facts *facts, const char *const *names, const char **ret)
{
    for (; *names != NULL; names++)
        if (facts_get_text(facts, *names, ret))
            return true;
    return false;
}

static bool add_part(const char *label, const char *const *names, const struct facts *facts, struct words *ret)
{
    const char *text;
    char lasting[WORD_MAX];
    if (!first_of(facts, names, &text))
        return false;
    put_lasting(text, lasting, sizeof lasting);
    add_word(ret, label, lasting);
    return true;
}

static enum kind kind_of(const struct verdict *verdict, const struct facts *facts)
{
    static const char *const names[] = {"target.failed_signal_name", "target.signal_name", NULL};
    static const char *const sent[] = {"KILL", "TERM", "INT", "HUP", "QUIT"};
    const char *text;
    if (strcmp(verdict->class_name, "app-bug") != 0 && strcmp(verdict->class_name, "unknown") != 0)
        return OF_A_CALL;
    if (facts_get_text(facts, "snap.life", &text))
        return STANDING;
    bool by_signal = first_of(facts, names, &text);
    for (size_t i = 0; by_signal && i < sizeof sent / sizeof sent[0]; i++)
        if (strcmp(text, sent[i]) == 0)
            return ENDED;
    return OWN;
}

/* Interpreters have other names on other machines. */
static void add_program(const struct facts *facts, struct words *ret)
{
    static const char *const names[] = {"snap.comm", "target.failed_comm", NULL};
    const char *program;
    if (first_of(facts, names, &program) && strncmp(program, "python", 6) != 0)
        (void)add_part("program", names, facts, ret);
}

static void words_of(const struct verdict *verdict, const struct facts *facts, struct words *ret)
{
    enum kind kind = kind_of(verdict, facts);
    bool placed = kind == OF_A_CALL;
    ret->count = 0;
    add_word(ret, "class", verdict->class_name);
    if (verdict->subclass != NULL)
        add_word(ret, "kind", verdict->subclass);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        bool is_place = strcmp(parts[i].label, "line") == 0 || strcmp(parts[i].label, "function") == 0;
        if ((parts[i].kinds & kind) != 0 && add_part(parts[i].label, parts[i].facts, facts, ret) && is_place)
            placed = true;
    }
    if (!placed)
        add_program(facts, ret);
}

/* FNV-1a, 64 bits: a name to search for, not a protection. */
static uint64_t hash_of(const struct words *words)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < words->count; i++) {
        for (const char *p = words->text[i]; p == words->text[i] || p[-1] != '\0'; p++)
            hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    }
    return hash;
}

void signature_id(const struct verdict *verdict, const struct facts *facts,
                  char ret[SIGNATURE_ID_SIZE])
{
    struct words words;
    words_of(verdict, facts, &words);
    (void)snprintf(ret, SIGNATURE_ID_SIZE, "rc-%012" PRIx64, hash_of(&words) >> 16);
}

/* "6.2.0-66" and "2.5.1+rocm6.2": without the build. */
static void release_of(const char *version, char *out, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && (isdigit((unsigned char)version[n]) || version[n] == '.')) {
        out[n] = version[n];
        n++;
    }
    while (n > 0 && out[n - 1] == '.')
        n--;
    out[n] = '\0';
}

static bool add_list(cJSON *object, const char *key, const struct words *words)
{
    cJSON *list = cJSON_AddArrayToObject(object, key);
    for (size_t i = 0; list != NULL && i < words->count; i++) {
        cJSON *word = cJSON_CreateString(words->text[i]);
        if (word == NULL || !cJSON_AddItemToArray(list, word))
            return false;
    }
    return list != NULL;
}

bool signature_to_json(const struct verdict *verdict, const struct facts *facts,
                       struct cJSON *object)
{
    char id[SIGNATURE_ID_SIZE];
    struct words words;
    struct words releases = {.count = 0};
    cJSON *signature = cJSON_AddObjectToObject(object, "signature");
    signature_id(verdict, facts, id);
    words_of(verdict, facts, &words);
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const char *text = NULL;
        char release[WORD_MAX];
        if (!facts_get_text(facts, versions[i].fact, &text))
            continue;
        release_of(text, release, sizeof release);
        add_word(&releases, versions[i].label, release);
    }
    return signature != NULL && cJSON_AddStringToObject(signature, "id", id) != NULL &&
           add_list(signature, "of", &words) && add_list(signature, "versions", &releases);
}
