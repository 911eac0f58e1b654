/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suggest.h"
#include "base/ending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORD_MAX 31
#define FAR 99u
#define PATH_BYTES 4096

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned suggest_distance(const char *a, const char *b)
{
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    size_t n = strlen(a);
    size_t m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return FAR;
    for (size_t i = 0; i <= n; i++) {
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (unsigned)(i + k);
                continue;
            }
            unsigned change = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            d[i][k] = least(change, least(d[i - 1][k], d[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
        }
    }
    return d[n][m];
}

const char *suggest_near(const char *word, suggest_words words)
{
    const char *best = NULL;
    unsigned nearest = strlen(word) < 5 ? 2 : 3; /* fewer than so many */
    for (size_t i = 0; words(i) != NULL; i++) {
        unsigned distance = suggest_distance(word, words(i));
        if (distance < nearest) {
            nearest = distance;
            best = words(i);
        }
    }
    return best;
}

/* As execvp(3) looks for it. */
static bool is_in_path(const char *word)
{
    char path[PATH_BYTES];
    const char *at = getenv("PATH");
    if (at == NULL)
        at = "/bin:/usr/bin";
    for (;;) {
        size_t len = strcspn(at, ":");
        int n = snprintf(path, sizeof path, "%.*s%s%s", (int)len, at, len > 0 ? "/" : "./", word);
        if (n > 0 && (size_t)n < sizeof path && access(path, X_OK) == 0)
            return true;
        if (at[len] == '\0')
            return false;
        at += len + 1;
    }
}

bool suggest_finds(const char *word)
{
    return strchr(word, '/') != NULL ? access(word, X_OK) == 0 : is_in_path(word);
}

static bool hint_of_file(const char *word, char *hint, size_t size)
{
    struct stat st;
    if (stat(word, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    bool can_run = access(word, X_OK) == 0;
    if (ends_with(word, ".tar.gz"))
        (void)snprintf(hint, size, "'%.80s' is no command; did you mean 'rocmcrash show %.80s'?",
                       word, word);
    else if (ends_with(word, ".py") && !(can_run && strchr(word, '/') != NULL))
        (void)snprintf(hint, size,
                       "'%.60s' is no command; did you mean 'rocmcrash -- python3 %.60s'?", word,
                       word);
    else if (can_run && strchr(word, '/') == NULL)
        (void)snprintf(hint, size, "'%.80s' is no command; did you mean 'rocmcrash -- ./%.80s'?",
                       word, word);
    else
        return false;
    return true;
}

bool suggest_command(char *const argv[], suggest_words verbs, char *hint, size_t size)
{
    const char *word = argv[0];
    if (strchr(word, '/') == NULL && is_in_path(word))
        return false;
    if (hint_of_file(word, hint, size))
        return true;
    const char *near = strchr(word, '/') == NULL ? suggest_near(word, verbs) : NULL;
    if (near != NULL && strcmp(near, word) == 0)
        (void)snprintf(hint, size,
                       "options of a run come before a command; did you mean 'rocmcrash %s'?",
                       near);
    else if (near != NULL)
        (void)snprintf(hint, size, "'%.31s' is no verb and no command; did you mean "
                                   "'rocmcrash %s'?",
                       word, near);
    return near != NULL;
}
