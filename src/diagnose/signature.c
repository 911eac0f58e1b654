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
#define PARTS_MAX 8

/* The first fact of a row that is known gives the part. */
static const struct {
    const char *label;
    const char *facts[3];
} parts[] = {
    {"call", {"ledger.hip.function", "err.api", NULL}},
    {"error", {"err.code", NULL, NULL}},
    {"exception", {"msg.python_exception", NULL, NULL}},
    {"function", {"stack.top", NULL, NULL}},
    {"architecture", {"gpu.0.gfx", NULL, NULL}},
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

static void words_of(const struct verdict *verdict, const struct facts *facts, struct words *ret)
{
    ret->count = 0;
    add_word(ret, "class", verdict->class_name);
    if (verdict->subclass != NULL)
        add_word(ret, "kind", verdict->subclass);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < 3 && parts[i].facts[k] != NULL && text == NULL; k++)
            (void)facts_get_text(facts, parts[i].facts[k], &text);
        if (text != NULL)
            add_word(ret, parts[i].label, text);
    }
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
