/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the machine we run on and of whoever runs us. */
#include <errno.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bounded.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact.h"

#define CARDS_MAX 64
#define KFD_NODES_MAX 64
#define ID_MIN 8 /* characters */
#define FULL_NAME_MIN 5
#define IDS_WITHIN_MS 1000

/* Not getpwuid(): it asks directory servers, which may not answer. A name that only they know comes
 * from the environment. */
static const struct passwd *passwd_entry(FILE *file, uid_t uid)
{
    struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
        ;
    return entry;
}

/* "Erika Mustermann,room 1,..." A single word may be any ("root", "backup"). */
static int add_full_name(struct redactor *r, const char *gecos)
{
    char name[128];
    size_t len = gecos != NULL ? strcspn(gecos, ",") : 0;
    if (len < FULL_NAME_MIN || len >= sizeof name || memchr(gecos, ' ', len) == NULL)
        return 0;
    memcpy(name, gecos, len);
    name[len] = '\0';
    return redactor_add(r, REDACT_USER, name);
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
    return e == 0 && pw != NULL ? add_full_name(r, pw->pw_gecos) : e;
}

static int add_host(struct redactor *r)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        return 0;
    int e = redactor_add(r, REDACT_HOST, host);
    char *dot = strchr(host, '.');
    if (dot == NULL || e < 0)
        return e;
    e = redactor_add_domain(r, dot + 1);
    *dot = '\0';
    return e == 0 ? redactor_add(r, REDACT_HOST, host) : e;
}

/* --- ids of this machine --- */

static const char *const machine_files[] = {
    "/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid",
    "/sys/class/dmi/id/product_serial", "/sys/class/dmi/id/board_serial"};
static const char *const card_files[] = {"unique_id", "serial_number", "fru_id"};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define SOURCES (COUNT(machine_files) + CARDS_MAX * COUNT(card_files) + KFD_NODES_MAX)

/* Shared with a child that reads. */
struct ids {
    _Atomic uint32_t next; /* the next source */
    _Atomic uint32_t len;
    char text[64 * 1024]; /* a line each */
};

static void keep_id(struct ids *ids, const char *id)
{
    uint32_t len = ids->len;
    size_t size = strlen(id);
    if (size + 2 > sizeof ids->text - len)
        return;
    memcpy(ids->text + len, id, size);
    ids->text[len + size] = '\n';
    ids->len = len + (uint32_t)size + 1; /* a reader sees the whole line or nothing of it */
}

/* An id of zeros only does not count as one. */
static void read_id(struct ids *ids, const char *path)
{
    char id[128] = "";
    if (fs_read_machine_text(path, id, sizeof id) >= ID_MIN &&
        strspn(id, "0123456789abcdefABCDEFx-") == strlen(id) && strspn(id, "0x-") != strlen(id))
        keep_id(ids, id);
}

/* unique_id 11651590505119483818 of a KFD node is the same as the card's in hexadecimal. */
static void read_kfd_id(struct ids *ids, unsigned node)
{
    char path[96];
    char text[4096] = "";
    (void)snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%u/properties", node);
    if (fs_read_machine_text(path, text, sizeof text) < 0)
        return;
    const char *line = strstr(text, "unique_id ");
    unsigned long long id = line != NULL ? strtoull(line + 10, NULL, 10) : 0;
    if (id < 1000000)
        return;
    (void)snprintf(text, sizeof text, "%llu", id);
    keep_id(ids, text);
    (void)snprintf(text, sizeof text, "%016llx", id);
    keep_id(ids, text);
}

static void read_source(void *context, uint32_t i)
{
    struct ids *ids = context;
    if (i < COUNT(machine_files)) {
        read_id(ids, machine_files[i]);
        return;
    }
    i -= (uint32_t)COUNT(machine_files);
    if (i >= CARDS_MAX * COUNT(card_files)) {
        read_kfd_id(ids, (unsigned)(i - CARDS_MAX * COUNT(card_files)));
        return;
    }
    char path[96];
    (void)snprintf(path, sizeof path, "/sys/class/drm/card%u/device/%s", i / (uint32_t)COUNT(card_files),
                   card_files[i % COUNT(card_files)]);
    read_id(ids, path);
}

static int add_ids(struct redactor *r)
{
    struct ids *ids =
        mmap(NULL, sizeof *ids, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ids == MAP_FAILED)
        return -ENOMEM;
    bounded_steps(read_source, ids, &ids->next, SOURCES, IDS_WITHIN_MS);
    int e = 0;
    char *at = NULL;
    ids->text[ids->len] = '\0';
    for (char *id = strtok_r(ids->text, "\n", &at); e == 0 && id != NULL;
         id = strtok_r(NULL, "\n", &at))
        e = redactor_add(r, REDACT_ID, id);
    (void)munmap(ids, sizeof *ids);
    return e;
}

int redactor_add_machine(struct redactor *r)
{
    int e = add_people(r);
    if (e == 0)
        e = add_host(r);
    return e == 0 ? add_ids(r) : e;
}
