/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/package_family.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/text_facts.h"

#define LINE_MAX_BYTES 256
#define PACKAGES 6

enum { TORCH, TORCHAUDIO, TORCHVISION, JAX, JAXLIB, JAX_PLUGIN };

static const char *const names[PACKAGES] = {"torch", "torchaudio", "torchvision", "jax", "jaxlib", "jax-rocm"};

struct version {
    unsigned major, minor;
    bool is_known;
    unsigned line;
};

/* The releases that belong together: torchvision 0.22 and torchaudio 2.7 to torch 2.7; jaxlib to jax. */
static const struct {
    unsigned of, with, minor_ahead;
    bool same_major;
} families[] = {
    {TORCHAUDIO, TORCH, 0, true},
    {TORCHVISION, TORCH, 15, false},
    {JAXLIB, JAX, 0, true},
    {JAX_PLUGIN, JAX, 0, true},
};

static bool take_version(struct text t, struct version *ret)
{
    uint64_t major, minor;
    if (!text_take_u64(&t, &major) || !text_starts(t, ".") || major > 99)
        return false;
    t = text_skip(t, 1);
    if (!text_take_u64(&t, &minor) || minor > 99)
        return false;
    *ret = (struct version){.major = (unsigned)major, .minor = (unsigned)minor, .is_known = true};
    return true;
}

/* "torch   2.7.1+rocm7.0", "torch==2.7.1", "jax-rocm60-plugin 0.4.35": the first version of each counts. */
static void read_line(struct text line, unsigned number, struct version found[PACKAGES])
{
    struct text rest = text_trim(line), name = text_until(rest, " =\t"), word;
    struct version v;
    rest = text_skip(rest, name.len);
    while (rest.len > 0 && strchr("= \t", rest.at[0]) != NULL)
        rest = text_skip(rest, 1);
    if (!text_next_word(&rest, &word) || rest.len > 0 || !take_version(word, &v))
        return;
    v.line = number;
    for (size_t i = 0; i < PACKAGES; i++)
        if (!found[i].is_known && (i == JAX_PLUGIN ? text_starts(name, names[i]) : text_equals(name, names[i])))
            found[i] = v;
}

/* Blanks aside; most lines are left at their first letter. */
static bool begins_with(struct text line, const char *name)
{
    while (line.len > 0 && line.at[0] == ' ')
        line = text_skip(line, 1);
    return line.len > 0 && line.at[0] == name[0] && text_starts(line, name);
}

static bool belong_together(size_t family, const struct version *of, const struct version *with)
{
    return of->minor == with->minor + families[family].minor_ahead && (!families[family].same_major || of->major == with->major);
}

void package_family_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    struct version found[PACKAGES] = {{.is_known = false}};
    struct scan at = {.facts = facts, .source = source != NULL ? source : "text"};
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    for (unsigned number = before + 1; text_next_line(&rest, &line); number++)
        if (line.len <= LINE_MAX_BYTES && (begins_with(line, "torch") || begins_with(line, "jax")))
            read_line(line, number, found);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct version *of = &found[families[i].of], *with = &found[families[i].with];
        char words[96];
        /* torchvision 0.15 came with torch 2.0 */
        if (!of->is_known || !with->is_known || (families[i].with == TORCH && with->major != 2) || belong_together(i, of, with))
            continue;
        (void)snprintf(words, sizeof words, "%s %u.%u with %s %u.%u", names[families[i].of], of->major, of->minor,
                       names[families[i].with], with->major, with->minor);
        at.line = of->line;
        scan_text(&at, "msg.family_mismatch", (struct text){words, strlen(words)});
        return;
    }
}
