/* SPDX-License-Identifier: Apache-2.0 */
/*
 * {"__metadata__":{"format":"pt"},
 *  "model.embed.weight":{"dtype":"BF16","shape":[32000,4096],"data_offsets":[0,262144000]}, ...}
 *
 * A pull parser for the needed part of JSON: it counts nesting without recursion and cuts strings
 * to fixed buffers. The offsets are relative to the end of the JSON, so file size = 8 + length +
 * largest end. That shows an incomplete download.
 */
#include "collectors/lib/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectors/lib/byte_reader.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/weights.h"

#define HEADER_MAX ((uint64_t)100000000) /* safetensors' own limit */
#define DEPTH_MAX 64
#define KEY_MAX 128

struct json {
    struct byte_reader *r;
    struct weights *w;
    int next; /* one character of look-ahead, -1 = end */
};

struct tensor {
    char dtype[16];
    uint64_t elements, rows;
    uint64_t begin, end;
    bool has_dtype, has_offsets;
};

static bool json_problem(struct json *j, const char *what)
{
    if (j->w->problem[0] == '\0')
        (void)snprintf(j->w->problem, sizeof j->w->problem, "%s at byte %" PRIu64, what, j->r->pos);
    return false;
}

static void json_advance(struct json *j)
{
    j->next = byte_reader_byte(j->r);
}

static void json_space(struct json *j)
{
    while (j->next == ' ' || j->next == '\t' || j->next == '\n' || j->next == '\r')
        json_advance(j);
}

/* Skips white space, then `c` if it is next. */
static bool json_accept(struct json *j, int c)
{
    json_space(j);
    if (j->next != c)
        return false;
    json_advance(j);
    return true;
}

static bool json_expect(struct json *j, int c)
{
    if (json_accept(j, c))
        return true;
    if (j->next < 0)
        return json_problem(j, "the header ends early");
    return json_problem(j, "the header is not the JSON of safetensors");
}

/* A string, cut to size; escapes are kept as '?' where they are not one plain character. */
static bool json_string(struct json *j, char *out, size_t size)
{
    char raw[256] = "";
    size_t len = 0;
    if (!json_expect(j, '"'))
        return false;
    while (j->next != '"') {
        int c = j->next;
        if (c == '\\') {
            json_advance(j);
            c = j->next == '"' || j->next == '\\' || j->next == '/' ? j->next : '?';
        }
        if (j->next < 0)
            return json_problem(j, "the header ends within a string");
        if (len < sizeof raw)
            raw[len++] = (char)c;
        json_advance(j);
    }
    json_advance(j);
    cleantext_copy(out, size, raw, len);
    return true;
}

/* Non-negative integer; fractions and signs are not in the format. */
static bool json_u64(struct json *j, uint64_t *ret)
{
    json_space(j);
    if (!isdigit(j->next))
        return json_problem(j, "a number was expected");
    uint64_t value = 0;
    while (isdigit(j->next)) {
        value = weights_sat_add(weights_sat_mul(value, 10), (uint64_t)(j->next - '0'));
        json_advance(j);
    }
    *ret = value;
    return true;
}

/* Any value; brackets are matched by kind with a bounded stack. */
static bool json_skip(struct json *j)
{
    char stack[DEPTH_MAX];
    char ignored[8];
    size_t depth = 0;
    do {
        json_space(j);
        int c = j->next;
        if (c < 0)
            return json_problem(j, "the header ends early");
        if (c == '"') {
            if (!json_string(j, ignored, sizeof ignored))
                return false;
            continue;
        }
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX)
                return json_problem(j, "JSON nested too deep");
            stack[depth++] = c == '{' ? '}' : ']';
        } else if (c == '}' || c == ']') {
            if (depth == 0 || stack[depth - 1] != c)
                return json_problem(j, "unbalanced JSON");
            depth--;
        } else if (depth == 0) { /* number, true, false, null: to the end of the word */
            while (isalnum(j->next) || j->next == '-' || j->next == '+' || j->next == '.')
                json_advance(j);
            return isspace(j->next) || j->next == ',' || j->next == '}'
                       ? true
                       : json_problem(j, "the header is not the JSON of safetensors");
        }
        json_advance(j);
    } while (depth > 0);
    return true;
}

static bool tensor_shape(struct json *j, struct tensor *t)
{
    t->elements = 1;
    if (!json_expect(j, '['))
        return false;
    if (json_accept(j, ']'))
        return true;
    do {
        uint64_t length = 0;
        if (!json_u64(j, &length))
            return false;
        t->rows = t->rows == 0 ? length : t->rows; /* [rows, columns] */
        t->elements = weights_sat_mul(t->elements, length);
    } while (json_accept(j, ','));
    return json_expect(j, ']');
}

static bool tensor_offsets(struct json *j, struct tensor *t)
{
    t->has_offsets = true;
    return json_expect(j, '[') && json_u64(j, &t->begin) && json_expect(j, ',') &&
           json_u64(j, &t->end) && json_expect(j, ']');
}

/* Calls `member` for each member of the object that comes next. */
static bool json_object(struct json *j, bool (*member)(struct json *, const char *key, void *),
                        void *context)
{
    char key[KEY_MAX];
    if (!json_expect(j, '{'))
        return false;
    if (json_accept(j, '}'))
        return true;
    do {
        if (!json_string(j, key, sizeof key) || !json_expect(j, ':') || !member(j, key, context))
            return false;
    } while (json_accept(j, ','));
    return json_expect(j, '}');
}

static bool tensor_member(struct json *j, const char *key, void *context)
{
    struct tensor *t = context;
    if (strcmp(key, "dtype") == 0) {
        t->has_dtype = true;
        return json_string(j, t->dtype, sizeof t->dtype);
    }
    if (strcmp(key, "shape") == 0)
        return tensor_shape(j, t);
    if (strcmp(key, "data_offsets") == 0)
        return tensor_offsets(j, t);
    return json_skip(j);
}

static bool metadata_member(struct json *j, const char *key, void *context)
{
    (void)context;
    if (strcmp(key, "format") == 0)
        return json_string(j, j->w->metadata_format, sizeof j->w->metadata_format);
    return json_skip(j);
}

static bool header_member(struct json *j, const char *key, void *context)
{
    uint64_t *max_end = context;
    if (strcmp(key, "__metadata__") == 0)
        return json_object(j, metadata_member, NULL);
    struct tensor t = {0};
    if (!json_object(j, tensor_member, &t))
        return false;
    if (!t.has_dtype || !t.has_offsets || t.end < t.begin)
        return json_problem(j, "a tensor without type or with impossible offsets");
    weights_add_tensor(j->w, t.dtype, t.elements, t.end - t.begin);
    if (t.dtype[0] != 'U' && t.dtype[0] != 'I') /* packed numbers have another shape */
        weights_note_attention(j->w, key, t.rows);
    *max_end = t.end > *max_end ? t.end : *max_end;
    return true;
}

void safetensors_read(struct byte_reader *r, struct weights *w)
{
    struct json j = {.r = r, .w = w, .next = -1};
    uint64_t max_end = 0;
    w->format = WEIGHTS_SAFETENSORS;
    uint64_t length = byte_reader_uint(r, 8, false);
    if (r->error != 0) {
        w->truncated = true;
        (void)json_problem(&j, "shorter than the length of its header");
        return;
    }
    if (length > HEADER_MAX) {
        (void)json_problem(&j, "the header says it is longer than 100 MB");
        return;
    }
    w->needed_bytes = 8 + length;
    if (length > r->size - 8) {
        w->truncated = true;
        weights_judge_size(w, r->size);
        return;
    }
    if (r->limit > 8 + length)
        r->limit = 8 + length;
    json_advance(&j);
    if (json_object(&j, header_member, &max_end)) {
        json_space(&j);
        if (j.next >= 0) /* padding is spaces only */
            (void)json_problem(&j, "something follows the JSON of the header");
        w->needed_bytes = weights_sat_add(8 + length, max_end);
        weights_judge_size(w, r->size);
    }
    weights_sort_types(w);
}
