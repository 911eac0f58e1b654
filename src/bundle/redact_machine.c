/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the machine we run on and of whoever runs us. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact.h"

#define CARDS_MAX 64
#define KFD_NODES_MAX 64

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
static int add_id(struct redactor *r, const char *path, size_t least)
{
    char id[128] = "";
    if (fs_read_machine_text(path, id, sizeof id) < (ssize_t)least ||
        strspn(id, "0123456789abcdefABCDEFx-") != strlen(id) || strspn(id, "0x-") == strlen(id))
        return 0;
    return redactor_add(r, REDACT_ID, id);
}

/* unique_id 11651590505119483818 of a KFD node is the same as the card's in hexadecimal. */
static int add_kfd_id(struct redactor *r, unsigned node)
{
    char path[96];
    char text[4096] = "";
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/properties", node);
    if (fs_read_machine_text(path, text, sizeof text) < 0)
        return 0;
    const char *line = strstr(text, "unique_id ");
    unsigned long long id = line != NULL ? strtoull(line + 10, NULL, 10) : 0;
    char decimal[24];
    char hex[24];
    if (id < 1000000)
        return 0;
    (void)snprintf(decimal, sizeof decimal, "%llu", id);
    (void)snprintf(hex, sizeof hex, "%016llx", id);
    int e = redactor_add(r, REDACT_ID, decimal);
    return e == 0 ? redactor_add(r, REDACT_ID, hex) : e;
}

static int add_ids(struct redactor *r)
{
    static const char *const of_machine[] = {
        "/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid",
        "/sys/class/dmi/id/product_serial", "/sys/class/dmi/id/board_serial"};
    static const char *const of_card[] = {"unique_id", "serial_number", "fru_id"};
    int e = 0;
    for (size_t i = 0; e == 0 && i < sizeof of_machine / sizeof of_machine[0]; i++)
        e = add_id(r, of_machine[i], 8);
    for (unsigned card = 0; e == 0 && card < CARDS_MAX; card++) {
        for (size_t i = 0; e == 0 && i < sizeof of_card / sizeof of_card[0]; i++) {
            char path[96];
            (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/%s", card, of_card[i]);
            e = add_id(r, path, 8);
        }
    }
    for (unsigned node = 0; e == 0 && node < KFD_NODES_MAX; node++)
        e = add_kfd_id(r, node);
    return e;
}

int redactor_add_machine(struct redactor *r)
{
    int e = add_people(r);
    if (e == 0)
        e = add_host(r);
    return e == 0 ? add_ids(r) : e;
}
