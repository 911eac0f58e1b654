/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/terminal_need.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

#include "inject/preload.h"
#include "inject/program.h"
#include "inject/raw.h"

#define GETS 0x5401ul /* TCGETS, as isatty() asks */
#define NAMES(list) list, sizeof(list) / sizeof(list)[0]

static const char *const shells[] = {"sh",   "bash", "dash",  "ash",  "zsh", "ksh", "ksh93",
                                     "mksh", "yash", "rbash", "fish", "csh", "tcsh"};
/* They draw, but read no keys. In a script they stand between lines that go through the relay, in whose order they
 * must stay. */
static const char *const writers[] = {"tput", "clear", "reset", "tset", "tabs", "infocmp"};

static bool is_one_of(const char *path, const char *const *names, size_t count)
{
    const char *name = path;
    for (const char *p = path; *p != '\0'; p++)
        if (*p == '/')
            name = p + 1;
    if (name == path && *name == '-') /* a login shell */
        name++;
    for (size_t i = 0; i < count; i++)
        if (raw_same(name, names[i]))
            return true;
    return false;
}

static bool has(const char *options, char letter)
{
    for (; *options != '\0'; options++)
        if (*options == letter)
            return true;
    return false;
}

/* With -i, or without a script or a command, and with a terminal as stdin. */
static bool is_at_a_prompt(char *const argv[])
{
    char modes[64];
    if (raw_call(SYS_ioctl, 0, GETS, modes, 0) != 0)
        return false;
    for (size_t i = 1; argv[i] != NULL; i++) {
        bool is_short = argv[i][0] == '-' && argv[i][1] != '-';
        if (is_short && has(argv[i], 'i'))
            return true;
        if ((is_short && has(argv[i], 'c')) || argv[i][0] != '-')
            return false; /* a command, or a script */
    }
    return true;
}

/* Compilers that are made of LLVM are linked with the library, too, but only ask it for colours. */
static bool draws(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)])
{
    static const char *const libraries[] = {"libtinfo.so", "libncurses.so", "libncursesw.so"};
    static const char *const functions[] = {"tputs", "tgoto", "tparm", "tiparm", "putp", "initscr", "newterm"};
    bool found = false;
    if (program_needs(scratch, NAMES(libraries)))
        for (size_t i = 0; i < sizeof functions / sizeof functions[0] && !found; i++)
            found = program_names(scratch, functions[i]);
    return found;
}

enum terminal_need terminal_need_of(const char *program, char *const argv[], struct preload_room *room)
{
    char interpreter[256];
    if (argv == NULL || argv[0] == NULL)
        return TERMINAL_NOT_NEEDED;
    if (is_one_of(argv[0], NAMES(shells)) || is_one_of(program, NAMES(shells)))
        return is_at_a_prompt(argv) ? TERMINAL_FOR_A_PROMPT : TERMINAL_NOT_NEEDED;
    for (int depth = 0; depth < PROGRAM_SHEBANG_DEPTH; depth++) {
        if (is_one_of(program, NAMES(shells)) || is_one_of(program, NAMES(writers)))
            return TERMINAL_NOT_NEEDED;
        long fd = raw_call(SYS_openat, AT_FDCWD, program, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
        if (fd < 0)
            return TERMINAL_NOT_NEEDED;
        enum preload_answer answer = program_check((int)fd, interpreter, sizeof interpreter, room->scratch);
        bool is_drawing = answer == PRELOAD_YES && draws(room->scratch);
        (void)raw_call(SYS_close, fd, 0, 0, 0);
        if (answer != PRELOAD_NOT_ELF || interpreter[0] == '\0')
            return is_drawing ? TERMINAL_TO_DRAW : TERMINAL_NOT_NEEDED;
        program = interpreter;
    }
    return TERMINAL_NOT_NEEDED;
}
