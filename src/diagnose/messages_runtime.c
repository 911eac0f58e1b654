/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the HSA and HIP runtimes, the loader, Python and the shell that carry names.
 *
 * Pure; one line at a time. Each parser has its sample above it.
 */
#include "diagnose/messages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The program went on when it printed so many lines behind the last refusal of a ladder. */
#define AFTER_LADDER_LINES 5

/* Memory access fault by GPU node-1 (Agent handle: 0x55..) on address 0x7f40c8c94000. Reason: Page
 * not present or supervisor privilege.                 (ROCr runtime.cpp; "on address (nil)" too)
 */
static void memory_fault(const struct scan *s, struct runtime_state *st, struct text line)
{
    struct text t, rest;
    uint64_t node;
    if (!text_after(line, "Memory access fault by GPU node-", &t))
        return;
    if (st->faults++ == 0)
        st->fault_line = s->line;
    else
        return;
    rest = t;
    if (text_take_u64(&rest, &node) && node < 4096)
        scan_integer(s, "msg.memory_access_fault_node", (int64_t)node);
    if (text_after(t, "on address ", &rest)) {
        struct text address = text_until(rest, " \t");
        while (address.len > 0 && address.at[address.len - 1] == '.')
            address.len--;
        scan_text(s, "msg.memory_access_fault_address", text_until(address, ",;"));
        if (text_has(rest, "may not be exact"))
            scan_boolean(s, "msg.memory_access_fault_inexact", true);
    }
    if (text_after(t, "Reason: ", &rest))
        scan_text(s, "msg.memory_access_fault_reason", text_until(rest, "."));
}

/* HW Exception by GPU node-1 (Agent handle: 0x6318e252e6a0) reason :GPU Hang */
static void hw_exception(const struct scan *s, struct text line)
{
    struct text t;
    uint64_t node;
    if (!text_after(line, "HW Exception by GPU node-", &t))
        return;
    struct text rest = t;
    if (text_take_u64(&rest, &node) && node < 4096)
        scan_integer(s, "msg.hw_exception_node", (int64_t)node);
    scan_text(s, "msg.hw_exception", text_after(t, "reason :", &rest) ? rest : t);
}

/* Callback: Queue 0x7fb3d0000000 aborting with error : HSA_STATUS_ERROR_INVALID_ISA: The
 * instruction set architecture is invalid. code: 0x100f
 * ... Aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: ... Available Free mem : 17 MB
 * hsa api call failure at line 900, file: rocminfo.cc. Call returned 4104 */
static void hsa_status(const struct scan *s, struct text line)
{
    struct text t;
    uint64_t code;
    int64_t size;
    ptrdiff_t at = text_find(line, "HSA_STATUS_ERROR");
    if (at >= 0) {
        t = text_skip(line, (size_t)at);
        size_t n = 0;
        while (n < t.len && (isupper((unsigned char)t.at[n]) || t.at[n] == '_'))
            n++;
        scan_text(s, "msg.hsa_status", text_first(t, n));
        if ((text_after(t, "ode: 0x", &t) || text_after(t, "(0x", &t)) &&
            text_take_hex(&t, &code) && code <= INT32_MAX)
            scan_integer(s, "msg.hsa_code", (int64_t)code);
    }
    if (text_after(line, "Call returned ", &t) && text_take_u64(&t, &code) && code <= INT32_MAX)
        scan_integer(s, "msg.hsa_code", (int64_t)code);
    if (text_after(line, "Available Free mem : ", &t) &&
        text_take_size(&t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &size))
        scan_integer(s, "msg.hsa_free_bytes", size);
}

/* Unable to open /dev/kfd read-write: Permission denied */
static void kfd_open(const struct scan *s, struct text line)
{
    struct text t;
    if (text_after(line, "Unable to open /dev/kfd read-write: ", &t) ||
        text_after(line, "open /dev/kfd failed: ", &t))
        scan_text(s, "msg.kfd_open_failed", t);
    else if (text_like(line, "/dev/kfd*ermission denied"))
        scan_text(s, "msg.kfd_open_failed", (struct text){"Permission denied", 17});
    else if (text_like(line, "/dev/kfd*o such file or directory"))
        scan_text(s, "msg.kfd_open_failed", (struct text){"No such file or directory", 25});
}

/* ImportError: libamdhip64.so.7: cannot open shared object file: No such file or directory
 * ImportError: /opt/rocm-7.2.0/lib/libMIOpen.so.1: undefined symbol: _ZN2ck16tensor...
 * error: unsupported target: 'gfx906' */
static void loader(const struct scan *s, struct text line)
{
    struct text t;
    /* An exception ends a program; what else prints such a line may go on, or be another program. */
    const char *missing[] = {"msg.library_missing", "msg.undefined_symbol"};
    if (scan_is_warning(line)) {
        missing[0] = "msg.warned.library_missing";
        missing[1] = "msg.warned.undefined_symbol";
    } else if (!text_has(line, "Error: ")) {
        missing[0] = "msg.aside.library_missing";
        missing[1] = "msg.aside.undefined_symbol";
    }
    if (text_before(line, ": cannot open shared object file", &t)) {
        size_t n = t.len;
        while (n > 0 && !isspace((unsigned char)t.at[n - 1]) && t.at[n - 1] != '\'')
            n--;
        if (n < t.len)
            scan_text(s, missing[0], text_skip(t, n));
    }
    if (text_after(line, "undefined symbol: ", &t))
        scan_text(s, missing[1], text_until(t, " ,\t'"));
    if (text_after(line, "unsupported target: '", &t))
        scan_text(s, "msg.unsupported_target", text_until(t, "'"));
}

/* #0  0x0000762e5827c160 in ?? () from /opt/rocm/lib/libamdhip64.so.6 */
static void native_frame(const struct scan *s, struct text line)
{
    static const char *const libraries[] = {"libamdhip64", "libhsa-runtime", "librocr",
                                            "libhsakmt"};
    struct text t = text_trim(line);
    if (!text_starts(t, "#0 "))
        return;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (text_has(t, libraries[i]))
            scan_text(s, "msg.crash_in_hip_runtime",
                      (struct text){libraries[i], strlen(libraries[i])});
}

/* ".../lib/libLLVM.so.22.0(+0x2d56da3) [0x7bfa58556da3]", "#4 0x7f.. in ?? () from libLLVM-15.so":
 * one process, two LLVMs (the graphics driver's and ROCm's). */
static void llvm_frame(const struct scan *s, struct runtime_state *st, struct text line)
{
    struct text t;
    uint64_t major;
    if (!text_after(line, "libLLVM", &t))
        return;
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
    struct text rest = text_skip(t, n);
    if (text_starts(rest, ":"))
        rest = text_skip(rest, 1);
    (void)text_copy(text_trim(rest), st->message, sizeof st->message);
    st->exception_line = s->line;
}

/* The class stands at the start of the line, or behind a log prefix: "...core.py:51] ValueError:
 * x", "trainers.common - torch.OutOfMemoryError: HIP out of memory". After a traceback any name
 * does. */
static void python(const struct scan *s, struct runtime_state *st, struct text line)
{
    size_t n;
    if (text_has(line, "Traceback (most recent call last)")) {
        if (st->tracebacks++ == 0)
            st->first_traceback = s->line;
        st->in_traceback = true;
        return;
    }
    if (text_like(line, "^File \"*, line *, in "))
        st->pin_frame = text_has(line, ", in pin_memory") || text_has(line, ", in _pin_memory");
    bool indented = isspace((unsigned char)line.at[0]);
    if (!indented && (n = exception_name(line, st->in_traceback)) > 0) {
        keep_exception(s, st, line, n);
        st->in_traceback = false;
        return;
    }
    if (!indented)
        st->in_traceback = false;
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
static bool exit_of_sigkill(struct text line)
{
    static const char *const numbers[] = {"137", "-9"};
    for (size_t i = 0; i < 2; i++) {
        struct text t = line;
        for (ptrdiff_t at; (at = text_find(t, numbers[i])) >= 0;) {
            size_t begin = (size_t)(t.at - line.at) + (size_t)at, end = begin + strlen(numbers[i]);
            t = text_skip(line, end);
            if ((t.len > 0 && (isalnum((unsigned char)t.at[0]) || strchr("_-", t.at[0]) != NULL)) ||
                (begin > 0 && is_name(line.at[begin - 1])))
                continue;
            size_t n = begin;
            while (n > 0 && begin - n < 4 && strchr(" :=\"'(", line.at[n - 1]) != NULL)
                n--;
            struct text before = text_first(line, n);
            size_t back = before.len < 10 ? before.len : 10;
            before = text_skip(before, before.len - back);
            if (text_ifind(before, "code") == (ptrdiff_t)before.len - 4 ||
                (before.len >= 6 && text_ifind(before, "status") == (ptrdiff_t)before.len - 6) ||
                (before.len >= 6 && text_ifind(before, "exited") == (ptrdiff_t)before.len - 6))
                return true;
        }
    }
    return false;
}

/* Killed | ./run.sh: line 118: 7080 Killed   python train.py | signal: killed | exited with code
 * 137 */
static void killed(const struct scan *s, struct runtime_state *st, struct text line)
{
    static const char *const words[] = {
        "signal: killed",
        "with signal SIGKILL",
        "Signals.SIGKILL",
        "ignal 9 (SIGKILL)",
    };
    struct text t = text_trim(line);
    bool hit = text_equals(t, "Killed") || text_like(line, ": line *: * Killed") ||
               text_like(line, ": line *: * killed");
    for (size_t i = 0; !hit && i < sizeof words / sizeof words[0]; i++)
        hit = text_has(line, words[i]);
    hit = hit || exit_of_sigkill(line);
    if (hit && st->killed++ == 0)
        st->killed_line = s->line;
}

/* C:\Users\user\venv\... or E:/AI/...: a drive letter with nothing in front of it */
static void windows_path(const struct scan *s, struct text line)
{
    for (struct text t = line; t.len > 2; t = text_skip(t, 1)) {
        const char *colon = memchr(t.at + 1, ':', t.len - 1);
        if (colon == NULL)
            return;
        size_t at = (size_t)(colon - line.at);
        t = text_skip(line, at);
        char drive = line.at[at - 1];
        bool slash = at + 1 < line.len && (line.at[at + 1] == '\\' || line.at[at + 1] == '/');
        bool twice = at + 2 < line.len && line.at[at + 2] == '/';
        bool alone = at < 2 || !is_name(line.at[at - 2]);
        if (slash && !twice && alone && isupper((unsigned char)drive)) {
            scan_boolean(s, "msg.is_windows", true);
            return;
        }
    }
}

/* pytorch version: 2.5.1+rocm6.2 */
static void versions(const struct scan *s, struct text line)
{
    ptrdiff_t at = text_find(line, "+rocm");
    if (at > 0) {
        size_t begin = (size_t)at;
        while (begin > 0 && is_name(line.at[begin - 1]))
            begin--;
        struct text t = text_skip(line, begin);
        size_t n = (size_t)at - begin + 5;
        while (n < t.len && is_name(t.at[n]))
            n++;
        if (isdigit((unsigned char)t.at[0]))
            scan_text(s, "msg.torch_version", text_first(t, n));
    }
}

void runtime_line(const struct scan *s, struct runtime_state *st, struct text line)
{
    memory_fault(s, st, line);
    hw_exception(s, line);
    hsa_status(s, line);
    kfd_open(s, line);
    loader(s, line);
    native_frame(s, line);
    llvm_frame(s, st, line);
    python(s, st, line);
    killed(s, st, line);
    windows_path(s, line);
    versions(s, line);
}

void runtime_ladder_step(const struct scan *s, struct runtime_state *st)
{
    st->after_ladder = 0;
    if (st->ladder++ == 0)
        st->ladder_line = s->line;
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
    if (st->faults > 0)
        scan_integer_at(s, st->fault_line, "msg.memory_access_fault", st->faults);
    if (st->tracebacks > 0)
        scan_integer_at(s, st->first_traceback, "msg.python_traceback", st->tracebacks);
    if (st->ladder > 0)
        scan_integer_at(s, st->ladder_line, "msg.allocation_ladder", st->ladder);
    if (runtime_ladder_ended(st))
        scan_boolean_at(s, st->ladder_line, "msg.allocation_ladder_ended", true);
    if (st->pin_line > 0 && st->pin_line == st->exception_line)
        scan_boolean_at(s, st->pin_line, "msg.pin_memory_raised", true);
    if (st->killed > 0)
        scan_integer_at(s, st->killed_line, "msg.killed", st->killed);
    if (st->exception_line > 0) {
        at.line = st->exception_line;
        scan_text(&at, "msg.python_exception", (struct text){st->exception, strlen(st->exception)});
        scan_text(&at, "msg.python_message", (struct text){st->message, strlen(st->message)});
    }
}
