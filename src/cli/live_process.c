/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live_process.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/proc_stat.h"
#include "base/say.h"

#define PF_KTHREAD 0x00200000u /* linux/sched.h, the same since 2.6.27 */

static bool is_of_the_kernel(pid_t pid)
{
    return (proc_stat_of(pid, 9) & PF_KTHREAD) != 0;
}

static int parse_process(const char *word, pid_t *ret, struct rc_err *err)
{
    uint64_t number = 0;
    if (fs_parse_u64(word, &number) < 0 || number == 0 || number > INT_MAX)
        return rc_err_set(err, -EINVAL, "'%s' is not the number of a process", word);
    *ret = (pid_t)number;
    if (is_of_the_kernel(*ret))
        return rc_err_set(err, -ENOTSUP, "%d is a thread of the kernel", (int)*ret);
    pid_t process = (pid_t)proc_status_number(*ret, "Tgid");
    if (process > 0 && process != *ret) {
        (void)fprintf(stderr, "rocmcrash: %d is a thread of process %d\n", (int)*ret, (int)process);
        *ret = process;
    }
    return 0;
}

bool live_process(const char *verb, int argc, char *argv[], int at, pid_t *ret)
{
    struct rc_err err = {""};
    if (at != argc - 1)
        (void)say_line(stderr, "rocmcrash: usage: rocmcrash %s [OPTIONS] PID", verb);
    else if (parse_process(argv[at], ret, &err) < 0)
        (void)say_line(stderr, "rocmcrash: %s: %s", verb, err.msg);
    else
        return true;
    return false;
}
