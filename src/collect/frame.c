/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/frame.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Follows the header of FRAME_FACT. Name, source and text follow it, each NUL-terminated. */
struct frame_fact {
    int64_t integer;
    double real;
    uint8_t status;
    uint8_t type;
    uint8_t when;
    uint8_t is_reason; /* the text is the reason, not the value */
    uint32_t reserved;
};

static size_t put_header(unsigned char *out, enum frame_type type, size_t length)
{
    struct frame_header header = {
        .magic = FRAME_MAGIC, .type = (uint16_t)type, .length = (uint16_t)length};
    memcpy(out, &header, sizeof header);
    return sizeof header + length;
}

/* Copies at most max-1 bytes and the NUL; never cuts through a UTF-8 sequence. */
static size_t put_string(unsigned char *out, const char *s, size_t max)
{
    if (s == NULL)
        s = "";
    size_t len = strnlen(s, max);
    if (len == max) {
        len = max - 1;
        while (len > 0 && ((unsigned char)s[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(out, s, len);
    out[len] = '\0';
    return len + 1;
}

size_t frame_encode_fact(unsigned char *out, const struct fact *fact)
{
    bool missing = fact->status != FACT_PRESENT;
    struct frame_fact head = {.integer = fact->integer,
                              .real = fact->real,
                              .status = (uint8_t)fact->status,
                              .type = (uint8_t)fact->type,
                              .when = (uint8_t)fact->when,
                              .is_reason = missing};
    unsigned char *payload = out + sizeof(struct frame_header);
    memcpy(payload, &head, sizeof head);
    size_t n = sizeof head;
    n += put_string(payload + n, fact->name, FRAME_NAME_MAX);
    n += put_string(payload + n, fact->source, FRAME_WORDS_MAX);
    n += put_string(payload + n, missing ? fact->reason : fact->text, FRAME_TEXT_MAX);
    return put_header(out, FRAME_FACT, n);
}

size_t frame_encode_reason(unsigned char *out, const char *reason)
{
    size_t n = put_string(out + sizeof(struct frame_header), reason, FRAME_WORDS_MAX);
    return put_header(out, FRAME_REASON, n);
}

size_t frame_encode_done(unsigned char *out, enum collect_status status, bool cut)
{
    int32_t words[2] = {(int32_t)status, cut};
    memcpy(out + sizeof(struct frame_header), words, sizeof words);
    return put_header(out, FRAME_DONE, sizeof words);
}

/* The next NUL-terminated string of the payload, NULL when there is none. */
static const char *take_string(const unsigned char **p, const unsigned char *end, size_t max)
{
    size_t left = (size_t)(end - *p);
    const unsigned char *nul = memchr(*p, '\0', left < max ? left : max);
    if (nul == NULL)
        return NULL;
    const char *s = (const char *)*p;
    *p = nul + 1;
    return s;
}

/* Dotted names. Capitals are allowed because of env.NAME. */
static bool name_is_valid(const char *name)
{
    if (!islower((unsigned char)name[0]))
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            return false;
    return true;
}

static int decode_fact(const unsigned char *payload, size_t length, struct fact *ret)
{
    struct frame_fact head;
    if (length < sizeof head)
        return -EBADMSG;
    memcpy(&head, payload, sizeof head);
    const unsigned char *p = payload + sizeof head;
    const unsigned char *end = payload + length;
    const char *name = take_string(&p, end, FRAME_NAME_MAX);
    const char *source = name != NULL ? take_string(&p, end, FRAME_WORDS_MAX) : NULL;
    const char *text = source != NULL ? take_string(&p, end, FRAME_TEXT_MAX) : NULL;
    if (text == NULL || p != end || !name_is_valid(name) || head.status > FACT_BLIND ||
        head.type > FACT_BOOLEAN || head.when > FACT_LOG ||
        (head.is_reason != 0) != (head.status != FACT_PRESENT))
        return -EBADMSG;
    *ret = (struct fact){.name = name,
                         .status = (enum fact_status)head.status,
                         .type = (enum fact_type)head.type,
                         .when = (enum fact_when)head.when,
                         .integer = head.integer,
                         .real = head.real,
                         .text = head.is_reason ? "" : text,
                         .source = source,
                         .reason = head.is_reason ? text : ""};
    return 0;
}

static int decode_done(const unsigned char *payload, size_t length, struct frame *ret)
{
    int32_t words[2];
    if (length != sizeof words)
        return -EBADMSG;
    memcpy(words, payload, sizeof words);
    /* Only the runner sets TIMED_OUT and the values after it. */
    if (words[0] < COLLECT_OK || words[0] > COLLECT_FAILED || (words[1] & ~1) != 0)
        return -EBADMSG;
    ret->status = (enum collect_status)words[0];
    ret->cut = words[1] != 0;
    return 0;
}

int frame_decode(const unsigned char *data, size_t len, struct frame *ret)
{
    struct frame_header header;
    if (len < sizeof header)
        return 0;
    memcpy(&header, data, sizeof header);
    if (header.magic != FRAME_MAGIC || header.length > FRAME_PAYLOAD_MAX)
        return -EBADMSG;
    if (len < sizeof header + header.length)
        return 0;
    const unsigned char *payload = data + sizeof header;
    const unsigned char *p = payload;
    int r = 0;
    *ret = (struct frame){.type = (enum frame_type)header.type};
    switch (header.type) {
    case FRAME_FACT:
        r = decode_fact(payload, header.length, &ret->fact);
        break;
    case FRAME_REASON:
        ret->reason = take_string(&p, payload + header.length, FRAME_WORDS_MAX);
        r = ret->reason != NULL && p == payload + header.length ? 0 : -EBADMSG;
        break;
    case FRAME_DONE:
        r = decode_done(payload, header.length, ret);
        break;
    default:
        r = -EBADMSG;
    }
    return r < 0 ? r : (int)(sizeof header + header.length);
}
