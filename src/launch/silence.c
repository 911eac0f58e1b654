/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/silence.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/still.h"
#include "record/shared.h"
#include "watch/relay.h"

void silence_begin(struct silence *w)
{
    *w = (struct silence){.file = -1};
    if (stream_kind_of(STDOUT_FILENO) == STREAM_FILE)
        w->file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
}

/* It is a file or nothing, and does not go through us. The attributes of a file that the kernel has already are
 * enough: a server that does not answer must not keep us. */
static bool look_at_stdout(const struct silence *w, uint32_t kind, uint64_t *ret_mark)
{
    struct statx s;
    if (kind == STREAM_CLOSED || kind == STREAM_OTHER)
        return true;
    if (kind != STREAM_FILE || w->file < 0 ||
        statx(w->file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &s) != 0)
        return false;
    *ret_mark = s.stx_size + (uint64_t)s.stx_mtime.tv_sec * 1000000000u + s.stx_mtime.tv_nsec;
    return true;
}

static bool is_read(const struct relay *relays)
{
    return relays[0].both || relays[1].way != RELAY_NONE;
}

uint64_t silence_turn(struct silence *w, const struct shared *shared, const struct relay *relays)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t on_stdout = 0;
    if (relays[0].way == RELAY_NONE || (!is_read(relays) && !look_at_stdout(w, shared->run.stdout_kind, &on_stdout)))
        return SILENCE_UNKNOWN;
    uint64_t said = shared->stderr_carried.bytes + shared->stdout_carried.bytes + on_stdout;
    bool paused = w->turn_ns != 0 && now_ns - w->turn_ns > STILL_TURNS_APART_MS * NS_PER_MS;
    if (w->turn_ns == 0 || said != w->said || paused || shared->target_stopped != 0)
        *w = (struct silence){.file = w->file, .since_ns = now_ns, .said = said};
    w->turn_ns = now_ns;
    return (now_ns - w->since_ns) / NS_PER_MS;
}
