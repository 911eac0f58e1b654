/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate before libarchive: a strict look at the tar stream as it passes.
 *
 * libarchive reads a dozen dialects with sparse maps, binary sizes, ACLs and extensions; a bundle
 * needs none. Only plain files and folders with octal sizes, and small pax records that rename or
 * date them, go through; everything else is refused here, by name. Accepts what libarchive's
 * restricted pax, GNU tar and Python's tarfile write for such entries.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "bundle/internal.h"

#define PADDING_AFTER_END_MAX ((uint64_t)64 * 1024)

static int refuse(const struct tar_gate *gate, struct rc_err *err, const char *what)
{
    char raw[101];
    char shown[120];
    memcpy(raw, gate->block, 100);
    raw[100] = '\0';
    return rc_err_set(err, -EBADMSG, "entry '%s' %s", printable_name(shown, sizeof shown, raw),
                      what);
}

/* Octal digits, then spaces or NULs; base-256 and signs are refused. */
static bool parse_octal(const unsigned char *field, size_t size, uint64_t *ret)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < size && field[i] == ' ')
        i++;
    size_t digits = i;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    if (i == digits || size > 12)
        return false;
    for (; i < size; i++) {
        if (field[i] != ' ' && field[i] != '\0')
            return false;
    }
    *ret = value;
    return true;
}

static bool checksum_right(const unsigned char block[512])
{
    uint64_t want = 0;
    unsigned sum = 0;
    if (!parse_octal(block + 148, 8, &want))
        return false;
    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : block[i];
    return sum == want;
}

/* Text fields end at the first NUL. Some readers would see the bytes after it, and others would
 * not. */
static bool name_field_clean(const unsigned char *field, size_t size)
{
    size_t len = strnlen((const char *)field, size);
    for (size_t i = len; i < size; i++) {
        if (field[i] != 0)
            return false;
    }
    return true;
}

static bool all_zero(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

/* Empty, or octal digits. At anything else, other programs stop reading or skip the rest. `is_id`: GNU tar
 * writes 0x80 and a binary number of 32 bits for a user above 2097151. */
static bool is_plain_number(const unsigned char *field, size_t size, bool is_id)
{
    uint64_t value = 0;
    return all_zero(field, size) || parse_octal(field, size, &value) ||
           (is_id && field[0] == 0x80 && all_zero(field + 1, 3));
}

/* Mode, user, group, time, device: we do not read them, but other programs do. */
static bool other_fields_plain(const unsigned char *b)
{
    return is_plain_number(b + 100, 8, false) && is_plain_number(b + 108, 8, true) && is_plain_number(b + 116, 8, true) &&
           is_plain_number(b + 136, 12, false) && is_plain_number(b + 329, 8, false) &&
           is_plain_number(b + 337, 8, false);
}

static int check_header(struct tar_gate *gate, struct rc_err *err)
{
    const unsigned char *b = gate->block;
    bool ustar = memcmp(b + 257,
                        "ustar\0"
                        "00",
                        8) == 0;
    bool gnu = memcmp(b + 257, "ustar  \0", 8) == 0;
    if (!checksum_right(b))
        return refuse(gate, err, "has a damaged header: no bundle, or damaged on its way: fetch it again");
    if (!ustar && !gnu)
        return refuse(gate, err, "is in no known tar format");
    if (!name_field_clean(b, 100) || (ustar && !name_field_clean(b + 345, 155)))
        return refuse(gate, err, "hides bytes after its name");
    /* Times, sparse maps and offsets of GNU tar. Python's tarfile takes them for ustar's folder before the name. */
    if (gnu && !all_zero(b + 345, 155))
        return refuse(gate, err, "has fields of GNU tar that no bundle has");
    uint64_t size = 0;
    if (!parse_octal(b + 124, 12, &size))
        return refuse(gate, err, "has no plain size");
    if (!other_fields_plain(b))
        return refuse(gate, err, "has a value that no bundle has");
    char type = (char)b[156];
    switch (type) {
    case '0':
    case '\0':
        if (size > BUNDLE_MAX_TOTAL)
            return refuse(gate, err, "is larger than a bundle may be");
        break;
    case '5':
        if (size != 0)
            return refuse(gate, err, "is a folder with data");
        break;
    case 'x':
        if (gate->pax_before)
            return refuse(gate, err, "has two extended headers");
        if (size == 0 || size >= sizeof gate->pax)
            return refuse(gate, err, "has a huge or empty extended header");
        break;
    case '1':
    case '2':
        return refuse(gate, err, "is a link");
    case '3':
    case '4':
    case '6':
        return refuse(gate, err, "is a device or pipe");
    default:
        return refuse(gate, err, "is of a type that no bundle has");
    }
    gate->in_pax = type == 'x';
    gate->pax_before = type == 'x';
    gate->pax_fill = 0;
    gate->data_left = size;
    gate->skip = (size + 511) / 512 * 512;
    return 0;
}

/* Times and ids are numbers ("1700000000.25"). Names and comments may be any text. A path is
 * checked as a path. */
static bool pax_value_plain(const char *key, size_t key_len, const char *value, size_t len)
{
    bool is_text = key_len > 4 && (memcmp(key + 1, "name", 4) == 0 || memcmp(key, "comme", 5) == 0);
    bool is_path = key_len == 4 && memcmp(key, "path", 4) == 0;
    size_t i = 0;
    while (i < len && ((value[i] >= '0' && value[i] <= '9') || value[i] == '.'))
        i++;
    return is_text || (len > 0 && (is_path || (i == len && value[0] != '.')));
}

static bool pax_key_known(const char *key, size_t len)
{
    static const char *const known[] = {"path", "mtime", "atime", "ctime",  "uid",
                                        "gid",  "uname", "gname", "comment"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i]) == len && memcmp(known[i], key, len) == 0)
            return true;
    }
    return false;
}

/* Records "LENGTH key=value\n", LENGTH counting itself: "27 path=rocmcrash-x/SUMMARY\n". */
static int check_pax(struct tar_gate *gate, struct rc_err *err)
{
    size_t at = 0;
    bool seen_path = false;
    while (at < gate->pax_fill) {
        const char *record = gate->pax + at;
        size_t left = gate->pax_fill - at;
        size_t len = 0;
        size_t i = 0;
        for (; i < left && i < 6 && record[i] >= '0' && record[i] <= '9'; i++)
            len = len * 10 + (size_t)(record[i] - '0');
        if (i == 0 || i >= left || record[i] != ' ' || len > left || len < i + 4 ||
            record[len - 1] != '\n' || memchr(record, '\0', len) != NULL)
            return refuse(gate, err, "has a damaged extended header");
        const char *key = record + i + 1;
        const char *equal = memchr(key, '=', len - i - 2);
        if (equal == NULL || !pax_key_known(key, (size_t)(equal - key)))
            return refuse(gate, err, "has an extended header that no bundle has");
        if (!pax_value_plain(key, (size_t)(equal - key), equal + 1, (size_t)(record + len - equal - 2)))
            return refuse(gate, err, "has a value that no bundle has");
        bool is_path = equal - key == 4 && memcmp(key, "path", 4) == 0;
        if (is_path && seen_path)
            return refuse(gate, err, "has two names");
        seen_path = seen_path || is_path;
        at += len;
    }
    return 0;
}

static int take_block(struct tar_gate *gate, struct rc_err *err)
{
    if (all_zero(gate->block, sizeof gate->block)) {
        if (gate->pax_before)
            return rc_err_set(err, -EBADMSG, "the tar data ends after an extended header");
        gate->zero_blocks++;
        return 0;
    }
    if (gate->zero_blocks == 1)
        return rc_err_set(err, -EBADMSG, "a lone zero block in the tar data");
    return check_header(gate, err);
}

/* Pass data and padding of an entry; returns how many bytes were taken. */
static size_t pass_data(struct tar_gate *gate, const unsigned char *p, size_t len)
{
    size_t take = gate->skip < len ? (size_t)gate->skip : len;
    size_t data = gate->data_left < take ? (size_t)gate->data_left : take;
    if (gate->in_pax) {
        memcpy(gate->pax + gate->pax_fill, p, data);
        gate->pax_fill += data;
    }
    gate->data_left -= data;
    gate->skip -= take;
    return take;
}

int tar_gate_feed(struct tar_gate *gate, const void *data, size_t len, struct rc_err *err)
{
    const unsigned char *p = data;
    while (len > 0) {
        size_t take;
        int r = 0;
        if (gate->zero_blocks >= 2) {
            gate->after_end += len;
            if (!all_zero(p, len) || gate->after_end > PADDING_AFTER_END_MAX)
                return rc_err_set(err, -EBADMSG, "there is more data after the end of the tar data");
            return 0;
        }
        if (gate->skip > 0) {
            take = pass_data(gate, p, len);
            if (gate->skip == 0 && gate->in_pax)
                r = check_pax(gate, err);
        } else {
            take = sizeof gate->block - gate->fill;
            take = take < len ? take : len;
            memcpy(gate->block + gate->fill, p, take);
            gate->fill += take;
            if (gate->fill == sizeof gate->block) {
                gate->fill = 0;
                r = take_block(gate, err);
            }
        }
        if (r < 0)
            return r;
        p += take;
        len -= take;
    }
    return 0;
}

int tar_gate_finish(const struct tar_gate *gate, struct rc_err *err)
{
    if (gate->zero_blocks >= 2)
        return 0;
    return rc_err_set(err, -EBADMSG, "the tar data ends in the middle (truncated)");
}
