/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the machine we run on and of whoever runs us. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "bundle/redact.h"

#define CARDS_MAX 64
#define KFD_NODES_MAX 64
#define IDS_MS 1000

/* Not getpwuid(): it asks directory servers, which may not answer. A name that only they know comes
 * from the environment. */
static const struct passwd *passwd_entry(FILE *file, uid_t uid)
{
    struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
        ;
    return entry;
}

static int add_people(struct redactor *r)
{
    RC_AUTO_FCLOSE FILE *passwd_file = fopen("/etc/passwd", "re");
    const struct passwd *pw = passwd_entry(passwd_file, getuid());
    const char *const users[] = {getenv("USER"), getenv("LOGNAME"), getenv("SUDO_USER"),
                                 pw != NULL ? pw->pw_name : NULL};
    const char *const homes[] = {getenv("HOME"), pw != NULL ? pw->pw_dir : NULL};
    int e = 0;
    for (size_t i = 0; i < 2 && e == 0; i++)
        e = homes[i] != NULL && strlen(homes[i]) > 4 ? redactor_add(r, REDACT_HOME, homes[i]) : 0;
    for (size_t i = 0; i < 4 && e == 0; i++)
        e = redactor_add(r, REDACT_USER, users[i]);
    return e;
}

static int add_host(struct redactor *r)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        return 0;
    int e = redactor_add(r, REDACT_HOST, host);
    char *dot = strchr(host, '.');
    if (dot != NULL)
        *dot = '\0';
    return e == 0 && dot != NULL ? redactor_add(r, REDACT_HOST, host) : e;
}

/* An id that is all zeros is none. */
static void tell_id(int fd, const char *path, size_t least)
{
    char id[128] = "";
    if (fs_read_machine_text(path, id, sizeof id) >= (ssize_t)least &&
        strspn(id, "0123456789abcdefABCDEFx-") == strlen(id) && strspn(id, "0x-") != strlen(id))
        (void)dprintf(fd, "%s\n", id);
}

/* unique_id 11651590505119483818 of a KFD node is the same as the card's in hexadecimal. */
static void tell_kfd_id(int fd, unsigned node)
{
    char path[96];
    char text[4096] = "";
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/properties", node);
    if (fs_read_machine_text(path, text, sizeof text) < 0)
        return;
    const char *line = strstr(text, "unique_id ");
    unsigned long long id = line != NULL ? strtoull(line + 10, NULL, 10) : 0;
    if (id >= 1000000)
        (void)dprintf(fd, "%llu\n%016llx\n", id, id);
}

static void tell_ids(int fd)
{
    static const char *const of_machine[] = {
        "/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid",
        "/sys/class/dmi/id/product_serial", "/sys/class/dmi/id/board_serial"};
    static const char *const of_card[] = {"unique_id", "serial_number", "fru_id"};
    for (size_t i = 0; i < sizeof of_machine / sizeof of_machine[0]; i++)
        tell_id(fd, of_machine[i], 8);
    for (unsigned card = 0; card < CARDS_MAX; card++) {
        for (size_t i = 0; i < sizeof of_card / sizeof of_card[0]; i++) {
            char path[96];
            (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/%s", card, of_card[i]);
            tell_id(fd, path, 8);
        }
    }
    for (unsigned node = 0; node < KFD_NODES_MAX; node++)
        tell_kfd_id(fd, node);
}

/* What came in time, or all of it. */
static size_t read_ids(int fd, char *text, size_t size)
{
    size_t len = 0;
    uint64_t give_up_ns = clock_mono_ns() + IDS_MS * NS_PER_MS;
    for (uint64_t now_ns; len < size && (now_ns = clock_mono_ns()) < give_up_ns;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)((give_up_ns - now_ns) / NS_PER_MS) + 1) <= 0)
            continue;
        ssize_t n = read(fd, text + len, size - len);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    return len;
}

/* A file of a GPU in trouble may never return: a child reads them, and is left behind then. */
static int add_ids(struct redactor *r)
{
    static char text[64 * 1024];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0 && dup2(ends[1], STDIN_FILENO) == STDIN_FILENO)
        (void)close_range(STDIN_FILENO + 1, ~0U, 0); /* left behind it must hold nothing */
    if (child <= 0) {
        tell_ids(child == 0 ? STDIN_FILENO
                            : ends[1]); /* without a child: few enough for the pipe */
        if (child == 0)
            _exit(0);
    }
    (void)close(ends[1]);
    size_t len = read_ids(ends[0], text, sizeof text - 1);
    (void)close(ends[0]);
    if (child > 0 && (kill(child, SIGKILL), waitpid(child, NULL, WNOHANG)) == 0) {
        (void)poll(NULL, 0, 1);
        (void)waitpid(child, NULL, WNOHANG);
    }
    text[len] = '\0';
    int e = 0;
    char *at = NULL;
    for (char *id = strtok_r(text, "\n", &at); e == 0 && id != NULL; id = strtok_r(NULL, "\n", &at))
        e = redactor_add(r, REDACT_ID, id);
    return e;
}

int redactor_add_machine(struct redactor *r)
{
    int e = add_people(r);
    if (e == 0)
        e = add_host(r);
    return e == 0 ? add_ids(r) : e;
}
