/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pickle.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* Opcodes, as Python's pickletools names them. */
#define PROTO '\x80'
#define STOP '.'
#define MARK '('
#define NONE 'N'
#define NEWTRUE '\x88'
#define NEWFALSE '\x89'
#define LONG1 '\x8a'
#define BINFLOAT 'G'
#define BINUNICODE 'X'
#define EMPTY_LIST ']'
#define APPENDS 'e'
#define EMPTY_DICT '}'
#define SETITEMS 'u'

#define WHOLE_MAX 9007199254740992.0 /* 2^53: a larger number in JSON may have been rounded */

static void put_little_endian(uint64_t value, unsigned bytes, struct buf *out)
{
    for (unsigned i = 0; i < bytes; i++)
        buf_putc(out, (char)(value >> (8 * i)));
}

static void put_text(const char *text, struct buf *out)
{
    size_t len = strlen(text);
    buf_putc(out, BINUNICODE);
    put_little_endian(len, 4, out);
    buf_append(out, text, len);
}

/* Eight bytes of two's complement hold every whole number of JSON. */
static void put_number(double value, struct buf *out)
{
    if (value == floor(value) && fabs(value) <= WHOLE_MAX) {
        buf_putc(out, LONG1);
        buf_putc(out, sizeof(int64_t));
        put_little_endian((uint64_t)(int64_t)value, sizeof(int64_t), out);
        return;
    }
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    buf_putc(out, BINFLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_putc(out, (char)(bits >> shift));
}

/* cJSON limits the depth. NOLINTNEXTLINE(misc-no-recursion) */
static void put_value(const cJSON *json, struct buf *out)
{
    const cJSON *item = NULL;
    bool is_dict = cJSON_IsObject(json);
    if (cJSON_IsString(json)) {
        put_text(json->valuestring, out);
    } else if (cJSON_IsNumber(json)) {
        put_number(json->valuedouble, out);
    } else if (cJSON_IsBool(json)) {
        buf_putc(out, cJSON_IsTrue(json) ? NEWTRUE : NEWFALSE);
    } else if (is_dict || cJSON_IsArray(json)) {
        buf_putc(out, is_dict ? EMPTY_DICT : EMPTY_LIST);
        buf_putc(out, MARK);
        cJSON_ArrayForEach(item, json)
        {
            if (is_dict)
                put_text(item->string, out);
            put_value(item, out);
        }
        buf_putc(out, is_dict ? SETITEMS : APPENDS);
    } else {
        buf_putc(out, NONE);
    }
}

void pickle_write(const cJSON *json, struct buf *out)
{
    buf_putc(out, PROTO);
    buf_putc(out, 2);
    put_value(json, out);
    buf_putc(out, STOP);
}
