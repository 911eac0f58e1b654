/* SPDX-License-Identifier: Apache-2.0 */
#include "software_input.h"

#include <stddef.h>

#include "sink.h"

struct collect_out *run_collector(const struct collector *c, const char *maps, const char *const *argv,
                                  const char *const *environment, enum collect_status *ret)
{
    return run_collector_on(0, c, maps, argv, environment, ret);
}

struct collect_out *run_collector_on(pid_t pid, const struct collector *c, const char *maps, const char *const *argv,
                                     const char *const *environment, enum collect_status *ret)
{
    static const char *const none[] = {NULL};
    struct collect_ctx ctx = {.run_dir = "",
                              .target_pid = pid,
                              .argv = argv ? argv : none,
                              .cwd = "/",
                              .fds = "",
                              .maps = maps,
                              .environ_at_impact = environment ? environment : none};
    struct collect_out *out = sink_new();
    *ret = c->run(&ctx, out);
    return out;
}

void map_line(struct buf *maps, const char *path)
{
    static unsigned at = 0x1000;
    buf_printf(maps, "7f%06x000-7f%06x000 r-xp 00000000 fd:01 1234     %s\n", at, at + 1, path);
    at += 2;
}

int remove_input(void **state)
{
    (void)state;
    temp_remove();
    return 0;
}
