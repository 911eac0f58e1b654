/* SPDX-License-Identifier: Apache-2.0 */
#include "base/target_change.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/number.h"

/* The text after `word`; NULL = there is another change, or none. */
static const char *behind(const char *word)
{
    const char *text = getenv(TARGET_CHANGE);
    size_t len = strlen(word);
    return text != NULL && strncmp(text, word, len) == 0 ? text + len : NULL;
}

static int set_limit(const char *text)
{
    uint64_t number[3];
    for (int i = 0; i < 3; i++) {
        text += *text == ' ';
        if (!number_take(&text, 10, &number[i]))
            return -EINVAL;
    }
    const struct rlimit limit = {.rlim_cur = number[1], .rlim_max = number[2]};
    return setrlimit((__rlimit_resource_t)number[0], &limit) == 0 ? 0 : -errno;
}

int target_change_apply(void)
{
    const char *set = behind("set ");
    const char *unset = behind("unset ");
    const char *limit = behind("limit ");
    int r = set != NULL     ? (putenv((char *)(uintptr_t)set) == 0 ? 0 : -errno)
            : unset != NULL ? (unsetenv(unset) == 0 ? 0 : -errno)
            : limit != NULL ? set_limit(limit)
                            : 0;
    (void)unsetenv(TARGET_CHANGE); /* the strings stay where they are */
    return r;
}

/* "NAME=VALUE" or "NAME": is it of that variable? */
static bool is_of(const char *text, const char *name, size_t len)
{
    return text != NULL && strncmp(text, name, len) == 0 && (text[len] == '=' || text[len] == '\0');
}

const char *target_change_variable(const char *name)
{
    size_t len = strlen(name);
    const char *set = behind("set ");
    if (is_of(set, name, len) && set[len] == '=')
        return set + len + 1;
    return is_of(behind("unset "), name, len) ? NULL : getenv(name);
}

const char **target_change_environment(void)
{
    const char *set = behind("set ");
    const char *unset = behind("unset ");
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    const char **list = calloc(count + 2, sizeof *list);
    if (list == NULL)
        return NULL;
    size_t n = 0;
    for (char **entry = environ; *entry != NULL; entry++) {
        size_t len = strcspn(*entry, "=");
        if (!is_of(set, *entry, len) && !is_of(unset, *entry, len) && !is_of(TARGET_CHANGE, *entry, len))
            list[n++] = *entry;
    }
    list[n] = set;
    return list;
}

bool target_change_is_variable(void)
{
    return behind("set ") != NULL || behind("unset ") != NULL;
}

bool target_change_is_limit(void)
{
    return behind("limit ") != NULL;
}
