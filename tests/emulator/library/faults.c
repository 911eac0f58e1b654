/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "machine.h"
#include "state.h"

#define RULES_MAX 32
/* The address of a fault if the rule names none: canonical, never mapped. */
#define ADDRESS_DEFAULT 0x7fff00dead000ull

enum what { ALLOC, LATENCY, FDS, MAPPINGS, PAGE_FAULT, HANG };

struct rule {
    enum what what;
    enum fault_moment moment;
    unsigned kinds;
    uint64_t nth, count; /* of the events that match: from the nth on, count of them */
    uint64_t seen;
    int error;
    unsigned ms;
    uint64_t max;
    uint64_t address;
    unsigned reset_ms;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static unsigned rule_count;
static bool loaded;
static struct timespec file_time;
static off_t file_size;

struct name_value {
    const char *name;
    int value;
};

static const struct name_value whats[] = {{"alloc", ALLOC},       {"latency", LATENCY},       {"fds", FDS},
             {"mappings", MAPPINGS}, {"page-fault", PAGE_FAULT}, {"hang", HANG}};
static const struct name_value kinds[] = {{"vram", FAULT_VRAM},     {"gtt", FAULT_GTT}, {"userptr", FAULT_USERPTR},
             {"public", FAULT_PUBLIC}, {"any", FAULT_ANY}};
static const struct name_value moments[] = {{"dispatch", FAULT_DISPATCH}, {"copy", FAULT_COPY}, {"now", FAULT_NOW}};
static const struct name_value errors[] = {{"ENOMEM", ENOMEM}, {"EINVAL", EINVAL}, {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE},
              {"EPERM", EPERM},   {"EBUSY", EBUSY},   {"EIO", EIO},       {"ENODEV", ENODEV}};

#define LOOK_UP(table, text) look_up(table, sizeof(table) / sizeof(table)[0], text)

static int look_up(const struct name_value *entries, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, text) == 0)
            return entries[i].value;
    return -1;
}

static bool set_key(struct rule *rule, const char *key, const char *value)
{
    int named = -2;
    if (strcmp(key, "kind") == 0)
        rule->kinds = (unsigned)(named = LOOK_UP(kinds, value));
    else if (strcmp(key, "on") == 0)
        rule->moment = (enum fault_moment)(named = LOOK_UP(moments, value));
    else if (strcmp(key, "errno") == 0)
        rule->error = named = LOOK_UP(errors, value);
    else if (strcmp(key, "nth") == 0)
        rule->nth = strtoull(value, NULL, 0);
    else if (strcmp(key, "count") == 0)
        rule->count = strtoull(value, NULL, 0);
    else if (strcmp(key, "ms") == 0)
        rule->ms = (unsigned)strtoul(value, NULL, 0);
    else if (strcmp(key, "max") == 0)
        rule->max = strtoull(value, NULL, 0);
    else if (strcmp(key, "address") == 0)
        rule->address = strtoull(value, NULL, 0);
    else if (strcmp(key, "reset-ms") == 0)
        rule->reset_ms = (unsigned)strtoul(value, NULL, 0);
    else
        return false;
    return named != -1;
}

/* "alloc kind=vram nth=3 count=2 errno=ENOMEM" */
static bool parse_rule(char *line, struct rule *ret)
{
    char *rest = NULL;
    char *word = strtok_r(line, " \t\r", &rest);
    if (word == NULL || word[0] == '#')
        return false;
    *ret = (struct rule){.kinds = FAULT_ANY, .nth = 1, .count = UINT64_MAX, .error = ENOMEM,
                         .address = ADDRESS_DEFAULT, .moment = FAULT_DISPATCH};
    int what = LOOK_UP(whats, word);
    bool good = what >= 0;
    ret->what = (enum what)what;
    while (good && (word = strtok_r(NULL, " \t\r", &rest)) != NULL) {
        char *equals = strchr(word, '=');
        if (equals != NULL)
            *equals = '\0';
        good = equals != NULL && set_key(ret, word, equals + 1);
    }
    if (!good) {
        state_lock();
        journal("\"event\":\"bad-rule\",\"near\":\"%.20s\"", word != NULL ? word : "");
        state_unlock();
    }
    return good;
}

static void parse_rules(char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, ";\n", &rest); line != NULL && rule_count < RULES_MAX;
         line = strtok_r(NULL, ";\n", &rest))
        if (parse_rule(line, &rules[rule_count]))
            rule_count++;
}

/* Reads the rules if they have changed. Called with the mutex held. */
static void refresh(void)
{
    char path[PATH_MAX];
    char text[4096];
    struct stat st = {0};
    if (!file_path(path, sizeof path, "/emulator/faults") ||
        syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0) != 0)
        memset(&st, 0, sizeof st);
    if (loaded && st.st_size == file_size && st.st_mtim.tv_sec == file_time.tv_sec &&
        st.st_mtim.tv_nsec == file_time.tv_nsec)
        return;
    loaded = true;
    file_size = st.st_size;
    file_time = st.st_mtim;
    rule_count = 0;
    const char *given = getenv("EMULATOR_FAULTS");
    if (given != NULL && strlen(given) < sizeof text) {
        memcpy(text, given, strlen(given) + 1);
        parse_rules(text);
    }
    if (st.st_size > 0 && file_read(path, text, sizeof text) > 0)
        parse_rules(text);
}

static bool is_due(struct rule *rule)
{
    rule->seen++;
    return rule->seen >= rule->nth && rule->seen - rule->nth < rule->count;
}

int faults_on_alloc(unsigned wanted)
{
    unsigned sleep_ms = 0;
    int error = 0;
    (void)pthread_mutex_lock(&mutex);
    refresh();
    for (unsigned i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        if ((rule->what != ALLOC && rule->what != LATENCY) || (rule->kinds & wanted) == 0 ||
            !is_due(rule))
            continue;
        if (rule->what == LATENCY)
            sleep_ms += rule->ms;
        else
            error = -rule->error;
    }
    (void)pthread_mutex_unlock(&mutex);
    struct timespec pause = {sleep_ms / 1000, (long)(sleep_ms % 1000) * 1000000};
    if (sleep_ms > 0)
        (void)nanosleep(&pause, NULL);
    return error;
}

static const struct rule *first(enum what what)
{
    for (unsigned i = 0; i < rule_count; i++)
        if (rules[i].what == what)
            return &rules[i];
    return NULL;
}

bool faults_descriptor_per_buffer(void)
{
    (void)pthread_mutex_lock(&mutex);
    bool found = first(FDS) != NULL;
    (void)pthread_mutex_unlock(&mutex);
    return found;
}

uint64_t faults_mappings_max(void)
{
    (void)pthread_mutex_lock(&mutex);
    const struct rule *rule = first(MAPPINGS);
    uint64_t max = rule != NULL ? rule->max : 0;
    (void)pthread_mutex_unlock(&mutex);
    return max;
}

struct fault faults_on_gpu(enum fault_moment moment)
{
    struct fault fault = {.effect = FAULT_NONE};
    (void)pthread_mutex_lock(&mutex);
    refresh();
    for (unsigned i = 0; i < rule_count && fault.effect == FAULT_NONE; i++) {
        struct rule *rule = &rules[i];
        if ((rule->what != PAGE_FAULT && rule->what != HANG) || rule->moment != moment)
            continue;
        rule->seen++;
        if (rule->seen != rule->nth)
            continue;
        fault.effect = rule->what == HANG ? FAULT_HANG : FAULT_PAGE_FAULT;
        fault.address = rule->address;
        fault.reset_ms = rule->reset_ms;
    }
    (void)pthread_mutex_unlock(&mutex);
    return fault;
}

void faults_after_fork(void)
{
    (void)pthread_mutex_init(&mutex, NULL);
}
