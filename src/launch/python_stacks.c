/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/python_stacks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/room.h"
#include "launch/process_memory.h"

#define THREADS_MAX 4096
#define INTERPRETERS_MAX 16
#define FRAMES_MAX 256
#define CODES 128 /* functions that are remembered: threads of a pool stand in the same ones */
#define LINE_TABLE_MAX 4096
#define NAME_MAX_BYTES 256
#define TID_MAX 4194304 /* PID_MAX_LIMIT */
#define CODE_BYTES 256
#define THREAD_BYTES 192
#define FRAME_BYTES 96

/* The parts of a code object that we use. */
struct code {
    uint64_t address; /* 0 = free */
    uint64_t line_table;
    uint32_t first_line;
    char file[NAME_MAX_BYTES], function[NAME_MAX_BYTES];
};

struct reader {
    const struct python_place *place;
    pid_t pid;
    uint64_t until_ns;
    char *out;
    size_t size, length;
    unsigned threads;
    const char *ended; /* why it ended early, NULL = it did not */
};

static struct code *codes; /* of CODES */

static bool read_there(const struct reader *r, uint64_t address, void *out, size_t length)
{
    return address != 0 && process_memory_read(r->pid, address, out, length);
}

static uint64_t word_at(const unsigned char *bytes, size_t offset)
{
    uint64_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

__attribute__((format(printf, 2, 3))) static void print(struct reader *r, const char *fmt, ...)
{
    size_t room = r->size - r->length;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(r->out + r->length, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room)
        r->ended = "there was no room for more";
    else
        r->length += (size_t)n;
}

/* Names of files and functions are ASCII in all but the rarest programs; others are shown as '?'. */
static bool read_text(const struct reader *r, uint64_t address, char *out)
{
    unsigned char head[48];
    uint64_t length;
    out[0] = '\0';
    if (!read_there(r, address, head, sizeof head))
        return false;
    length = word_at(head, 16);
    bool compact_ascii = (head[32] & 0x60) == 0x60;
    if (length > (1u << 20))
        return false;
    if (!compact_ascii) {
        (void)snprintf(out, NAME_MAX_BYTES, "?");
        return true;
    }
    if (length > NAME_MAX_BYTES - 1) { /* the end tells more */
        address += length - (NAME_MAX_BYTES - 1);
        length = NAME_MAX_BYTES - 1;
    }
    if (!read_there(r, address + r->place->layout.text_data, out, length))
        return false;
    out[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] > '~')
            out[i] = '?';
    return true;
}

static const struct code *code_at(struct reader *r, uint64_t address)
{
    const struct python_layout *l = &r->place->layout;
    unsigned char bytes[CODE_BYTES];
    struct code *code = &codes[(address >> 4) % CODES];
    if (code->address == address)
        return code;
    code->address = 0;
    if (!read_there(r, address, bytes, sizeof bytes) ||
        !read_text(r, word_at(bytes, l->file), code->file) ||
        !read_text(r, word_at(bytes, l->qualname), code->function))
        return NULL;
    memcpy(&code->first_line, bytes + l->first_line, sizeof code->first_line);
    code->line_table = word_at(bytes, l->line_table);
    code->address = address;
    return code;
}

/* --- line numbers: Objects/locations.md --- */

struct table {
    unsigned char bytes[LINE_TABLE_MAX];
    size_t length, at;
};

static uint32_t take_number(struct table *t)
{
    uint32_t value = 0;
    for (unsigned shift = 0; t->at < t->length && shift < 32; shift += 6) {
        unsigned char byte = t->bytes[t->at++];
        value |= (uint32_t)(byte & 63) << shift;
        if ((byte & 64) == 0)
            break;
    }
    return value;
}

static int32_t take_signed(struct table *t)
{
    uint32_t value = take_number(t);
    return (value & 1) != 0 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* By how much the line changes in an entry of this kind, and past its other numbers. */
static int32_t line_change(struct table *t, unsigned kind)
{
    int32_t change = 0;
    switch (kind) {
    case 15: /* no location */
        return 0;
    case 14: /* line change, end line, both columns */
        change = take_signed(t);
        (void)take_number(t);
        (void)take_number(t);
        (void)take_number(t);
        return change;
    case 13: /* line change, no columns */
        return take_signed(t);
    case 10:
    case 11:
    case 12: /* line change 0 to 2, two bytes of columns */
        t->at += 2;
        return (int32_t)kind - 10;
    default: /* the same line, one byte of columns */
        t->at += 1;
        return 0;
    }
}

static bool read_table(const struct reader *r, uint64_t address, struct table *t)
{
    unsigned char head[32];
    *t = (struct table){.length = 0};
    if (!read_there(r, address, head, sizeof head))
        return false;
    uint64_t length = word_at(head, 16);
    t->length = length < sizeof t->bytes ? (size_t)length : sizeof t->bytes;
    return read_there(r, address + 32, t->bytes, t->length); /* PyBytesObject.ob_sval */
}

/* 0 = not known. `at` is the instruction's offset in the bytecode. */
static uint32_t line_of(const struct reader *r, const struct code *code, uint64_t at)
{
    static struct table table;
    int64_t line = code->first_line;
    uint64_t end = 0;
    if (!read_table(r, code->line_table, &table))
        return 0;
    while (table.at < table.length) {
        unsigned char first = table.bytes[table.at++];
        unsigned kind = first >> 3 & 15;
        line += line_change(&table, kind);
        end += 2 * ((uint64_t)(first & 7) + 1);
        if (at < end)
            return kind == 15 || line < 0 ? 0 : (uint32_t)line;
    }
    return 0;
}

/* --- frames and threads --- */

/* CPython 3.13 describes its layout itself. Any process may claim to be one. */
static bool fits(const struct python_layout *l)
{
    return l->thread_next <= THREAD_BYTES - 8 && l->native_tid <= THREAD_BYTES - 8 &&
           l->frame <= THREAD_BYTES - 8 && l->code <= FRAME_BYTES - 8 &&
           l->previous <= FRAME_BYTES - 8 && l->instruction <= FRAME_BYTES - 8 &&
           l->owner < FRAME_BYTES && l->file <= CODE_BYTES - 8 && l->qualname <= CODE_BYTES - 8 &&
           l->line_table <= CODE_BYTES - 8 && l->first_line <= CODE_BYTES - 4;
}

static void print_frame(struct reader *r, const unsigned char *frame)
{
    const struct python_layout *l = &r->place->layout;
    uint64_t address = word_at(frame, l->code);
    uint64_t instruction = word_at(frame, l->instruction);
    if (frame[l->owner] == l->owner_c)
        return;
    const struct code *code = code_at(r, address);
    if (code == NULL) {
        print(r, "  ? (a frame that could not be read)\n");
        return;
    }
    uint64_t begin = address + l->bytecode;
    uint32_t line = instruction >= begin ? line_of(r, code, instruction - begin) : code->first_line;
    if (line != 0)
        print(r, "  %s:%" PRIu32 " in %s\n", code->file, line, code->function);
    else
        print(r, "  %s in %s\n", code->file, code->function);
}

static void print_frames(struct reader *r, const unsigned char *thread)
{
    const struct python_layout *l = &r->place->layout;
    unsigned char frame[FRAME_BYTES];
    uint64_t at = word_at(thread, l->frame);
    if (l->cframe_frame != PYTHON_NO_CFRAME) {
        uint64_t cframe = at;
        if (!read_there(r, cframe + l->cframe_frame, &at, sizeof at))
            at = 0;
    }
    for (int depth = 0; at != 0 && depth < FRAMES_MAX && r->ended == NULL; depth++) {
        if (!read_there(r, at, frame, sizeof frame)) {
            print(r, "  ? (a frame that could not be read)\n");
            return;
        }
        print_frame(r, frame);
        at = word_at(frame, l->previous);
        if (clock_mono_ns() > r->until_ns)
            r->ended = "the time was over";
    }
    if (at != 0 && r->ended == NULL)
        print(r, "  ... more frames\n");
}

static void print_thread(struct reader *r, const unsigned char *thread)
{
    uint64_t tid = word_at(thread, r->place->layout.native_tid);
    if (tid > TID_MAX) {
        r->ended = "its structures are not those of this version";
        return;
    }
    r->threads++;
    print(r, "Thread %" PRIu64 ":\n", tid);
    print_frames(r, thread);
}

/* The last one of the list, which is the first that was made: the main thread. 0 = not known. */
static uint64_t last_thread(struct reader *r, uint64_t first, unsigned char *ret)
{
    uint64_t last = 0;
    unsigned count = 0;
    for (uint64_t at = first; at != 0; at = word_at(ret, r->place->layout.thread_next)) {
        if (count++ >= THREADS_MAX || !read_there(r, at, ret, THREAD_BYTES))
            return 0;
        last = at;
    }
    return last;
}

/* The main thread comes first: it tells most, and the time may be over before the others are read. */
static void print_threads(struct reader *r, uint64_t first)
{
    unsigned char thread[THREAD_BYTES];
    uint64_t main_thread = last_thread(r, first, thread);
    if (main_thread != 0)
        print_thread(r, thread);
    for (uint64_t at = first; at != 0 && at != main_thread && r->ended == NULL;
         at = word_at(thread, r->place->layout.thread_next)) {
        if (r->threads >= THREADS_MAX || !read_there(r, at, thread, sizeof thread)) {
            r->ended = "a thread could not be read";
            return;
        }
        print_thread(r, thread);
    }
}

size_t python_stacks_read(const struct python_place *place, pid_t pid, char *out, size_t size,
                          uint64_t until_ns)
{
    struct reader r = {.place = place, .pid = pid, .until_ns = until_ns, .out = out,
                       .size = size > 128 ? size - 128 : 0};
    uint64_t interpreter = 0;
    uint64_t threads = 0;
    if (codes == NULL)
        codes = room_for(CODES * sizeof *codes);
    if (r.size == 0 || codes == NULL)
        return 0;
    memset(codes, 0, CODES * sizeof *codes);
    if (!fits(&place->layout))
        r.ended = "its structures are not those of this version";
    else if (!read_there(&r, place->runtime + place->layout.interpreters, &interpreter,
                         sizeof interpreter))
        r.ended = "its memory may not be read";
    for (int i = 0; interpreter != 0 && i < INTERPRETERS_MAX && r.ended == NULL; i++) {
        if (!read_there(&r, interpreter + place->layout.threads, &threads, sizeof threads))
            r.ended = "an interpreter could not be read";
        else
            print_threads(&r, threads);
        if (!read_there(&r, interpreter + place->layout.interpreter_next, &interpreter,
                        sizeof interpreter))
            interpreter = 0;
    }
    r.size = size;
    if (r.ended != NULL)
        print(&r, "%s: %s\n", r.threads > 0 ? "incomplete" : "no stacks", r.ended);
    return r.length;
}
