/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aho and Corasick's automaton over bytes folded to lower case: one pass over a text finds every
 * keyword of every rule and every known name. Runs in the finisher.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_rules.h"

#define NONE UINT32_MAX

struct output {
    uint32_t id;
    uint32_t length;
    uint32_t next; /* of the same state */
};

struct redact_scan {
    unsigned char class_of[256]; /* 0 = in no word */
    unsigned classes;
    uint32_t *next;   /* state * classes + class */
    uint32_t *fail;   /* state for the longest proper ending of its word that begins another */
    uint32_t *output; /* first of its outputs */
    uint32_t *chain;  /* nearest state with outputs on the way along `fail` */
    uint32_t states, state_capacity;
    struct output *outputs;
    uint32_t output_count, output_capacity;
};

static unsigned char fold(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

static int grow_states(struct redact_scan *s)
{
    uint32_t capacity = s->state_capacity ? s->state_capacity * 2 : 1024;
    uint32_t *next = realloc(s->next, (size_t)capacity * s->classes * sizeof *next);
    if (next != NULL)
        s->next = next;
    uint32_t *fail = realloc(s->fail, capacity * sizeof *fail);
    if (fail != NULL)
        s->fail = fail;
    uint32_t *output = realloc(s->output, capacity * sizeof *output);
    if (output != NULL)
        s->output = output;
    uint32_t *chain = realloc(s->chain, capacity * sizeof *chain);
    if (chain != NULL)
        s->chain = chain;
    if (next == NULL || fail == NULL || output == NULL || chain == NULL)
        return -ENOMEM;
    s->state_capacity = capacity;
    return 0;
}

static int add_state(struct redact_scan *s, uint32_t *ret)
{
    if (s->states == s->state_capacity && grow_states(s) < 0)
        return -ENOMEM;
    uint32_t state = s->states++;
    memset(s->next + (size_t)state * s->classes, 0xff, s->classes * sizeof *s->next); /* NONE */
    s->fail[state] = 0;
    s->output[state] = NONE;
    s->chain[state] = NONE;
    *ret = state;
    return 0;
}

struct redact_scan *redact_scan_new(void)
{
    struct redact_scan *s = calloc(1, sizeof *s);
    uint32_t root = 0;
    if (s == NULL)
        return NULL;
    /* A class for each printable ASCII character in lower case, one for all other bytes below 0x80,
     * which no word holds, and one for each byte above: names are in all languages. */
    s->classes = 1;
    for (unsigned c = 0x20; c < 256; c++) {
        if (fold((unsigned char)c) == c && c != 0x7f)
            s->class_of[c] = (unsigned char)s->classes++;
    }
    for (unsigned c = 'A'; c <= 'Z'; c++)
        s->class_of[c] = s->class_of[fold((unsigned char)c)];
    if (add_state(s, &root) < 0) {
        redact_scan_free(s);
        return NULL;
    }
    return s;
}

void redact_scan_free(struct redact_scan *s)
{
    if (s == NULL)
        return;
    free(s->next);
    free(s->fail);
    free(s->output);
    free(s->chain);
    free(s->outputs);
    free(s);
}

int redact_scan_add(struct redact_scan *s, const char *word, size_t len, uint32_t id)
{
    uint32_t state = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = s->class_of[(unsigned char)word[i]];
        if (c == 0)
            return 0; /* a control character: no word of ours */
        uint32_t to = s->next[(size_t)state * s->classes + c];
        if (to == NONE) {
            if (add_state(s, &to) < 0)
                return -ENOMEM;
            s->next[(size_t)state * s->classes + c] = to;
        }
        state = to;
    }
    if (s->output_count == s->output_capacity) {
        uint32_t capacity = s->output_capacity ? s->output_capacity * 2 : 256;
        struct output *grown = realloc(s->outputs, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        s->outputs = grown;
        s->output_capacity = capacity;
    }
    s->outputs[s->output_count] = (struct output){id, (uint32_t)len, s->output[state]};
    s->output[state] = s->output_count++;
    return 0;
}

int redact_scan_build(struct redact_scan *s)
{
    uint32_t *queue = malloc(s->states * sizeof *queue);
    size_t head = 0, tail = 0;
    if (queue == NULL)
        return -ENOMEM;
    for (unsigned c = 0; c < s->classes; c++) {
        uint32_t to = s->next[c];
        if (to == NONE)
            s->next[c] = 0;
        else
            queue[tail++] = to;
    }
    while (head < tail) {
        uint32_t state = queue[head++];
        uint32_t fail = s->fail[state];
        uint32_t *row = s->next + (size_t)state * s->classes;
        const uint32_t *other = s->next + (size_t)fail * s->classes;
        s->chain[state] = s->output[fail] != NONE ? fail : s->chain[fail];
        for (unsigned c = 0; c < s->classes; c++) {
            if (row[c] == NONE) {
                row[c] = other[c];
            } else {
                s->fail[row[c]] = other[c];
                queue[tail++] = row[c];
            }
        }
    }
    free(queue);
    return 0;
}

void redact_scan_run(const struct redact_scan *s, const char *text, size_t len, redact_scan_fn fn,
                     void *arg)
{
    uint32_t state = 0;
    for (size_t i = 0; i < len; i++) {
        state = s->next[(size_t)state * s->classes + s->class_of[(unsigned char)text[i]]];
        uint32_t at = s->output[state] != NONE ? state : s->chain[state];
        for (; at != NONE; at = s->chain[at]) {
            for (uint32_t o = s->output[at]; o != NONE; o = s->outputs[o].next)
                fn(arg, s->outputs[o].id, i + 1 - s->outputs[o].length, i + 1);
        }
    }
}
