/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

#define HELD_LOOK_NS 2000000000u

uint64_t proc_stat_field(const char *line, int number)
{
    const char *at = strrchr(line, ')');
    for (int field = 2; at != NULL && field < number; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static const char *read_line(pid_t pid, char line[1024])
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    (void)fs_read_text(path, line, 1024);
    return line;
}

uint64_t proc_stat_of(pid_t pid, int number)
{
    char line[1024];
    return proc_stat_field(read_line(pid, line), number);
}

char proc_state_of(pid_t pid)
{
    char line[1024];
    const char *name_end = strrchr(read_line(pid, line), ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : '\0';
}

bool proc_stays_held(struct held_look *look, pid_t pid, uint64_t now_ns)
{
    if (now_ns - look->at_ns < HELD_LOOK_NS)
        return false;
    bool before = look->was_held;
    *look = (struct held_look){.at_ns = now_ns, .was_held = proc_state_of(pid) == 't'};
    return before && look->was_held;
}

uint64_t proc_status_number(pid_t pid, const char *field)
{
    char path[64];
    char key[32];
    char text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    (void)snprintf(key, sizeof key, "\n%s:", field);
    (void)fs_read_text(path, text, sizeof text); /* the wanted fields stand in the first 4 KiB */
    const char *line = strstr(text, key);
    return line != NULL ? strtoull(line + strlen(key), NULL, 10) : 0;
}
