/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/stack_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions through which a program aborts itself: they do not show the cause. */
static const char *const abort_path[] = {
    "__pthread_kill_implementation", "__pthread_kill_internal", "__pthread_kill", "pthread_kill", "kill",
    "__GI_raise", "raise", "gsignal", "__GI_abort", "abort", "__assert_fail_base",
    "__assert_fail", "__libc_message", "__libc_message_impl", "malloc_printerr", "__fortify_fail",
    "__stack_chk_fail", "_ZSt9terminatev", "_ZN9__gnu_cxx27__verbose_terminate_handlerEv",
    "_ZN10__cxxabiv111__terminateEPFvvE", "__cxa_throw", "__cxa_rethrow",
};

static const char *const gpu_modules[] = {
    "libamdhip64", "libhsa-runtime64", "libhsakmt", "librocblas", "libhipblas", "libhipblaslt",
    "libMIOpen", "librccl", "librocsolver", "librocfft", "libhipfft", "librocsparse",
    "libhiprtc", "libamd_comgr", "libtorch_hip", "libc10_hip", "libggml-hip", "libdrm_amdgpu",
    "librocprofiler", "libroctracer",
};

struct frame_line {
    int number;
    char symbol[STACK_NAME_MAX]; /* "" = none */
    char module[STACK_NAME_MAX];
    char place[STACK_PLACE_MAX]; /* "hipMalloc+0x44 (libamdhip64.so.6)", "" = unknown */
};

/* Is the place, is the name among the frames so far one of the program's own code? */
struct stack_found {
    bool own_place, own_top;
};

static void copy_part(char *out, const char *from, size_t length)
{
    if (length > STACK_NAME_MAX - 1)
        length = STACK_NAME_MAX - 1;
    memcpy(out, from, length);
    out[length] = '\0';
}

/* "hipMalloc+0x44 (libamdhip64.so.6)"; "libm.so.6+0x44" has its file already. */
static void put_place(struct frame_line *frame, const char *name, size_t length)
{
    char where[STACK_NAME_MAX];
    copy_part(where, name, length);
    bool shows_file = frame->symbol[0] != '\0' && frame->module[0] != '\0';
    (void)snprintf(frame->place, sizeof frame->place, "%s%s%s%s", where, shows_file ? " (" : "",
                   shows_file ? frame->module : "", shows_file ? ")" : "");
}

/*   #3   0x00007f0c2d0a1234 in hipMalloc+0x44 (libamdhip64.so.6, build-id 0011...) */
static bool parse_frame(const char *line, size_t length, struct frame_line *ret)
{
    char text[2 * STACK_NAME_MAX + 256];
    if (length >= sizeof text)
        length = sizeof text - 1;
    memcpy(text, line, length);
    text[length] = '\0';
    *ret = (struct frame_line){.number = -1};
    if (strncmp(text, "  #", 3) != 0)
        return false;
    char *end;
    long number = strtol(text + 3, &end, 10);
    const char *name = strstr(text, " in ");
    if (end == text + 3 || number < 0 || number > 9999 || name == NULL)
        return false;
    ret->number = (int)number;
    name += 4;
    const char *open = strstr(name, " (");
    const char *plus = open;
    if (open == NULL)
        return true;
    /* A symbol may hold " (" itself only when demangled, which these are not. */
    copy_part(ret->module, open + 2, strcspn(open + 2, ",)"));
    while (plus > name && *plus != '+')
        plus--;
    copy_part(ret->symbol, name, (size_t)(plus - name));
    if (strcmp(ret->symbol, ret->module) == 0 || ret->symbol[0] == '\0')
        ret->symbol[0] = '\0';
    if (name[0] == '?')
        ret->module[0] = ret->symbol[0] = '\0';
    else
        put_place(ret, name, (size_t)(open - name));
    return true;
}

static bool is_abort_path(const char *symbol)
{
    for (size_t i = 0; i < sizeof abort_path / sizeof *abort_path; i++)
        if (strcmp(symbol, abort_path[i]) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *module, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(module, names[i], length) == 0 &&
            (module[length] == '.' || module[length] == '-' || module[length] == '\0'))
            return true;
    }
    return false;
}

/* Every program stands in these when it aborts, copies or waits. */
static bool is_runtime_module(const char *module)
{
    static const char *const names[] = {"libc", "libm", "libpthread", "libstdc++", "libgcc_s", "libc++", "libc++abi", "ld",
                                        "ld-linux", "ld-musl", "linux-vdso", "[vdso]", "libasan", "libtsan", "libubsan"};
    return is_one_of(module, names, sizeof names / sizeof *names);
}

/* A template of std:: or __gnu_cxx:: is in the program's own file. Their mangling: the C++ ABI, 5.1.10. */
static bool is_of_cxx_library(const char *symbol)
{
    static const char *const begins[] = {"_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZSt"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(symbol, begins[i], strlen(begins[i])) == 0)
            return true;
    if (strncmp(symbol, "_ZN", 3) != 0)
        return false;
    symbol += 3;
    symbol += *symbol == 'K';
    return symbol[0] == 'S' && symbol[1] != '\0' && strchr("tabsiod", symbol[1]) != NULL;
}

static bool is_own(const struct frame_line *frame)
{
    return frame->module[0] != '\0' && !is_runtime_module(frame->module) && !is_of_cxx_library(frame->symbol) &&
           !is_abort_path(frame->symbol);
}

static bool is_gpu_module(const char *module)
{
    return is_one_of(module, gpu_modules, sizeof gpu_modules / sizeof *gpu_modules);
}

/* A frame of the program's own code takes the place of one of the C and C++ libraries. */
static void take_place(struct stack_summary *summary, const struct frame_line *frame, struct stack_found *found)
{
    bool own = is_own(frame);
    if (!found->own_place && (own || summary->place[0] == '\0')) {
        memcpy(summary->place, frame->place, sizeof summary->place);
        summary->place_frame = frame->number;
        found->own_place = own;
    }
    if (frame->symbol[0] != '\0' && !found->own_top && (own || summary->top[0] == '\0')) {
        copy_part(summary->top, frame->symbol, strlen(frame->symbol));
        summary->top_frame = frame->number;
        found->own_top = own;
    }
}

static void take_frame(struct stack_summary *summary, const struct frame_line *frame, struct stack_found *found)
{
    if (frame->number == 0 && frame->module[0] != '\0')
        copy_part(summary->module, frame->module, strlen(frame->module));
    if (frame->number == 0)
        copy_part(summary->innermost, frame->symbol, strlen(frame->symbol));
    if (!is_abort_path(frame->symbol))
        take_place(summary, frame, found);
    if (summary->gpu_module[0] == '\0' && is_gpu_module(frame->module)) {
        copy_part(summary->gpu_module, frame->module, strlen(frame->module));
        summary->gpu_frame = frame->number;
    }
}

/* The next frame of the thread; *at lies in the line before it. False: the thread has no more. */
static bool next_frame(const char **at, struct frame_line *ret)
{
    for (const char *line = *at != NULL ? strchr(*at, '\n') : NULL; line != NULL; line = strchr(line, '\n')) {
        *at = ++line;
        size_t length = strcspn(line, "\n");
        if (length == 0 || strncmp(line, "Thread ", 7) == 0)
            return false;
        if (parse_frame(line, length, ret))
            return true;
    }
    return false;
}

bool stack_text_summary(const char *text, struct stack_summary *ret)
{
    *ret = (struct stack_summary){.top_frame = -1};
    const char *at = strstr(text, "(faulting): ");
    struct frame_line frame;
    struct stack_found found = {false, false};
    bool any = false;
    for (; next_frame(&at, &frame); any = true)
        take_frame(ret, &frame, &found);
    return any;
}

bool stack_text_frames(const char *text, char *out, size_t size)
{
    size_t n = 0;
    const char *at = strstr(text, "\nThread ");
    struct frame_line frame;
    at = at != NULL ? at + 1 : NULL;
    out[0] = '\0';
    while (n < size && next_frame(&at, &frame)) {
        if (frame.module[0] == '\0')
            continue;
        const char *symbol = frame.symbol[0] != '\0' ? frame.symbol : "?";
        n += (size_t)snprintf(out + n, size - n, "%s%s (%s)", n > 0 ? " < " : "", symbol, frame.module);
    }
    return out[0] != '\0';
}

bool stack_text_own_place(const char *text, char *out, size_t size, int *ret_frame)
{
    const char *at = strstr(text, "\nThread ");
    struct frame_line frame;
    at = at != NULL ? at + 1 : NULL;
    out[0] = '\0';
    while (out[0] == '\0' && next_frame(&at, &frame)) {
        if (is_own(&frame) && frame.symbol[0] != '\0') {
            (void)snprintf(out, size, "%s", frame.place);
            *ret_frame = frame.number;
        }
    }
    return out[0] != '\0';
}
