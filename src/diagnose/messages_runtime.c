/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's exceptions, and the readers in C of rules for the HSA and HIP runtimes, the loader and
 * the shell. Pure; one line at a time.
 */
#include "diagnose/messages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* So many lines after the last refusal of a pool's retries show that the program continued. */
#define AFTER_LADDER_LINES 5

/* A name that the loader did not find: in an exception, in a warning, or elsewhere. */
static void loader(const struct scan *s, struct text line, const char *what, struct text name)
{
    char fact[SCAN_NAME_MAX];
    const char *how = scan_is_warning(line) ? "warned." : text_has(line, "Error: ") ? "" : "aside.";
    (void)snprintf(fact, sizeof fact, "msg.%s%s", how, what);
    scan_text(s, fact, name);
}

/* ".../lib/libLLVM.so.22.0(+0x2d56da3) [0x7bfa58556da3]", "#4 0x7f.. in ?? () from libLLVM-15.so":
 * one process, two LLVMs (the graphics driver's and ROCm's). `t` is the text after the name. */
static void llvm_frame(const struct scan *s, struct runtime_state *st, struct text line,
                       struct text t)
{
    uint64_t major;
    bool frame =
        text_has(line, "(+0x") || text_has(line, "(_Z") || text_starts(text_trim(line), "#");
    t = text_starts(t, ".so.") ? text_skip(t, 4) : text_skip(t, 1);
    if (!frame || !text_take_u64(&t, &major) || major == 0 || major > 200)
        return;
    if (st->llvm != 0 && st->llvm != (unsigned)major)
        scan_boolean(s, "msg.two_llvm", true);
    st->llvm = (unsigned)major;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Length of a dotted class name at the front that ends in a word of exceptions; 0 = none. */
static size_t exception_name(struct text t, bool any_word)
{
    static const char *const endings[] = {"Error", "Exception", "Interrupt", "Exit"};
    size_t n = 0;
    while (n < t.len && n < 90 && is_name(t.at[n]))
        n++;
    if (n < 5 || isdigit((unsigned char)t.at[0]) || t.at[0] == '.' || (n < t.len && t.at[n] != ':'))
        return 0;
    if (any_word)
        return n;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t len = strlen(endings[i]);
        if (n > len && memcmp(t.at + n - len, endings[i], len) == 0)
            return n;
    }
    return 0;
}

static void keep_exception(const struct scan *s, struct runtime_state *st, struct text t, size_t n)
{
    if (st->pin_frame)
        st->pin_line = s->line;
    st->pin_frame = false;
    (void)text_copy(text_first(t, n), st->exception, sizeof st->exception);
    if (st->first_line == 0) {
        st->first_line = s->line;
        memcpy(st->first, st->exception, sizeof st->first);
    }
    struct text rest = text_skip(t, n);
    if (text_starts(rest, ":"))
        rest = text_skip(rest, 1);
    (void)text_copy(text_trim(rest), st->message, sizeof st->message);
    st->exception_line = s->line;
    memcpy(st->place, st->frame, sizeof st->place);
    st->frame[0] = '\0';
}

/* "/home/a/train.py", 12, "step" -> "train.py:12 in step" */
static void keep_frame(struct runtime_state *st, const struct rule_takes *takes)
{
    struct text file = rule_taken_text(takes, "_file");
    struct text line = rule_taken_text(takes, "_line");
    struct text function = rule_taken_text(takes, "_function");
    if (text_is_of_python_library(file))
        return;
    for (ptrdiff_t at; (at = text_find(file, "/")) >= 0;)
        file = text_skip(file, (size_t)at + 1);
    (void)snprintf(st->frame, sizeof st->frame, "%.*s:%.*s in %.*s", (int)file.len, file.at, (int)line.len, line.at,
                   (int)function.len, function.at);
}

/* The class stands at the start of the line, or after a log prefix: "...core.py:51] ValueError:
 * x", "trainers.common - torch.OutOfMemoryError: HIP out of memory". After a traceback any class
 * name counts. */
void runtime_line(const struct scan *s, struct runtime_state *st, const struct line_words *words)
{
    const struct text line = words->text;
    st->after_ladder++;
    size_t n;
    if (line_is(words, RULE_TRACEBACK_BEGINS)) {
        if (st->tracebacks++ == 0)
            st->first_traceback = s->line;
        st->in_traceback = true;
        st->frame[0] = '\0';
        return;
    }
    bool indented = isspace((unsigned char)line.at[0]);
    if (!indented && (n = exception_name(line, st->in_traceback)) > 0) {
        keep_exception(s, st, line, n);
        st->in_traceback = false;
        return;
    }
    if (!indented)
        st->in_traceback = false;
    if (!line_is(words, RULE_NAMES_EXCEPTION))
        return;
    for (size_t i = 1; i < line.len && i < 400; i++) {
        if (is_name(line.at[i - 1]) || !isalpha((unsigned char)line.at[i]))
            continue;
        if (line.at[i - 1] != ' ' && line.at[i - 1] != '\t')
            continue;
        n = exception_name(text_skip(line, i), false);
        if (n > 0) {
            keep_exception(s, st, text_skip(line, i), n);
            return;
        }
    }
}

/* "exit code 137", "Exited (137)", "ExitCode:137", "status code 137", "exitcode  : -9 (pid: 7)" */
static bool status_of_sigkill(struct text line)
{
    static const char *const words[] = {"code", "status", "exited"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct text t = line;
        for (ptrdiff_t at; (at = text_ifind(t, words[i])) >= 0;) {
            t = text_skip(t, (size_t)at + strlen(words[i]));
            struct text number = text_skip_any(t, " :=\"'(");
            struct text rest = text_skip(number, text_starts(number, "137") ? 3 : 2);
            bool is_kill = text_starts(number, "137") || text_starts(number, "-9");
            if (is_kill && (rest.len == 0 || !(text_is_word(rest.at[0]) || rest.at[0] == '-')))
                return true;
        }
    }
    return false;
}

bool runtime_read(const struct scan *s, struct runtime_state *st, enum rule_reader reader,
                  struct text line, const struct rule_takes *takes)
{
    switch (reader) {
    case READ_LOADER_LIBRARY:
        loader(s, line, "library_missing", rule_taken_text(takes, "_name"));
        break;
    case READ_LOADER_SYMBOL:
        loader(s, line, "undefined_symbol", rule_taken_text(takes, "_name"));
        break;
    case READ_LLVM_FRAME:
        llvm_frame(s, st, line, rule_taken_text(takes, "_rest"));
        break;
    case READ_STATUS_OF_SIGKILL:
        return status_of_sigkill(line);
    case READ_PYTHON_FRAME:
        st->pin_frame = text_has(line, ", in pin_memory") || text_has(line, ", in _pin_memory");
        keep_frame(st, takes);
        break;
    case READ_LADDER_STEP:
        st->after_ladder = 0;
        if (st->ladder++ == 0)
            st->ladder_line = s->line;
        break;
    default:
        break;
    }
    return true;
}

/* "failed to allocate 7.35G ... 6.61G ... 5.95G from device", then the training's own lines */
bool runtime_ladder_ended(const struct runtime_state *st)
{
    return st->ladder > 0 && st->after_ladder >= AFTER_LADDER_LINES &&
           st->exception_line <= st->ladder_line;
}

void runtime_emit(const struct scan *s, const struct runtime_state *st)
{
    struct scan at = *s;
    if (st->tracebacks > 0)
        scan_integer_at(s, st->first_traceback, "msg.python_traceback", st->tracebacks);
    if (st->ladder > 0)
        scan_integer_at(s, st->ladder_line, "msg.allocation_ladder", st->ladder);
    if (runtime_ladder_ended(st))
        scan_boolean_at(s, st->ladder_line, "msg.allocation_ladder_ended", true);
    if (st->pin_line > 0 && st->pin_line == st->exception_line)
        scan_boolean_at(s, st->pin_line, "msg.pin_memory_raised", true);
    if (strcmp(st->first, st->exception) != 0) {
        at.line = st->first_line;
        scan_text(&at, "msg.python_first_exception", text_of(st->first));
    }
    if (st->exception_line > 0) {
        at.line = st->exception_line;
        scan_text(&at, "msg.python_exception", text_of(st->exception));
        scan_text(&at, "msg.python_message", text_of(st->message));
        if (st->place[0] != '\0')
            scan_text(&at, "msg.python_place", text_of(st->place));
    }
}
