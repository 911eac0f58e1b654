/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/rank_lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/fact.h"
#include "diagnose/text.h"

#define DIGITS_MAX 9
#define MARK_MAX 80 /* bytes within the brackets of mpirun */

struct ranks {
    int64_t rank, local_rank; /* -1 = not known */
    bool labelled;            /* srun -l began each line with "2: " */
};

enum writer { WRITER_UNKNOWN, WRITER_SELF, WRITER_OTHER };

static bool take_number(struct text *line, int64_t *ret)
{
    struct text at = *line;
    size_t digits = 0;
    *ret = 0;
    for (; at.len > 0 && *at.at >= '0' && *at.at <= '9' && digits < DIGITS_MAX; digits++) {
        *ret = *ret * 10 + (*at.at - '0');
        at = text_skip(at, 1);
    }
    if (digits == 0)
        return false;
    *line = at;
    return true;
}

static bool take_word(struct text *line, const char *word)
{
    if (!text_starts(*line, word))
        return false;
    *line = text_skip(*line, strlen(word));
    return true;
}

/* "[rank12]: ..." with the word "[rank": 12. Moves the line past the mark. */
static bool take_named(struct text *line, const char *word, int64_t *ret)
{
    struct text at = *line;
    if (!take_word(&at, word) || !take_number(&at, ret) || !take_word(&at, "]"))
        return false;
    (void)take_word(&at, ":");
    *line = at;
    return true;
}

/* "[1,12]<stderr>:", "[1,12][host:4711]<stderr>:", "[prterun-host-17@1,12]<stderr>: ": 12. */
static bool take_mpirun(struct text *line, int64_t *ret)
{
    struct text at = *line, inside;
    if (!take_word(&at, "[") || !text_before(text_first(at, MARK_MAX), "]", &inside) || !text_after(inside, ",", &inside) ||
        !take_number(&inside, ret) || inside.len > 0 || !text_after(at, "]", &at))
        return false;
    if (text_starts(at, "[") && !text_after(at, "]", &at))
        return false;
    if (!take_word(&at, "<stderr>") && !take_word(&at, "<stdout>"))
        return false;
    (void)take_word(&at, ":");
    (void)take_word(&at, " ");
    *line = at;
    return true;
}

/* "12: ", " 2: ", as wide as the largest rank. */
static bool take_label(struct text *line, int64_t *ret)
{
    struct text at = *line;
    while (take_word(&at, " "))
        continue;
    if (!take_number(&at, ret) || !take_word(&at, ":") || (at.len > 0 && !take_word(&at, " ")))
        return false;
    *line = at;
    return true;
}

static void note(enum writer *writer, int64_t own, int64_t number)
{
    if (own >= 0 && number != own)
        *writer = WRITER_OTHER;
    else if (own >= 0 && *writer == WRITER_UNKNOWN)
        *writer = WRITER_SELF;
}

/* Tells by its mark who wrote the line. *line is moved past the marks of launchers; PyTorch's mark belongs to
 * its message. */
static enum writer writer_of(struct text *line, const struct ranks *own)
{
    enum writer writer = WRITER_UNKNOWN;
    int64_t number;
    if (own->labelled && take_label(line, &number))
        note(&writer, own->rank, number);
    if (take_mpirun(line, &number))
        note(&writer, own->rank, number);
    if (take_named(line, "[default", &number))
        note(&writer, own->local_rank, number);
    struct text rest = *line;
    if (take_named(&rest, "[rank", &number))
        note(&writer, own->rank, number);
    return text_starts(*line, "rocmcrash: ") ? WRITER_OTHER : writer;
}

/* srun -l labels every line; a program that numbers some of its own lines does not. A program may also number all of
 * its lines: so numbers are labels of ranks only if the run's own number and another one occur. */
static bool is_labelled(const char *text, size_t len, int64_t own)
{
    struct text rest = {text, len}, line;
    bool has_own = false, has_other = false;
    while (text_next_line(&rest, &line)) {
        int64_t number;
        bool others = line.len == 0 || text_starts(line, "rocmcrash: ") || text_starts(line, "srun: ") ||
                      text_starts(line, "slurmstepd: ");
        if (others)
            continue;
        if (!take_label(&line, &number))
            return false;
        has_own |= number == own;
        has_other |= number != own;
    }
    return has_own && has_other;
}

/* False: the run is not one of several ranks. */
static bool find_ranks(const struct facts *facts, const char *text, size_t len, struct ranks *ret)
{
    int64_t world_size;
    *ret = (struct ranks){-1, -1, false};
    if (!facts_get_integer(facts, "job.world_size", &world_size) || world_size < 2)
        return false;
    (void)facts_get_integer(facts, "job.rank", &ret->rank);
    (void)facts_get_integer(facts, "job.local_rank", &ret->local_rank);
    ret->labelled = rank_lines_writer(facts) == RANK_LINES_SHARED && is_labelled(text, len, ret->rank);
    return true;
}

static size_t copy_own(char *out, const char *text, size_t len, const struct ranks *own)
{
    size_t used = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t bytes = end != NULL ? (size_t)(end - (text + at)) : len - at;
        struct text line = {text + at, bytes};
        if (writer_of(&line, own) != WRITER_OTHER) {
            memcpy(out + used, line.at, line.len);
            used += line.len;
        }
        if (end != NULL)
            out[used++] = '\n';
        at += bytes + (end != NULL);
    }
    out[used] = '\0';
    return used;
}

char *rank_lines_own(const struct facts *facts, const char *text, size_t len, size_t *ret_len)
{
    struct ranks own;
    if (!find_ranks(facts, text, len, &own))
        return NULL;
    char *out = malloc(len + 1);
    if (out == NULL)
        return NULL;
    size_t used = copy_own(out, text, len, &own);
    return text_if_changed(out, used, used < len, ret_len);
}

static bool says_yes(const struct facts *facts, const char *name)
{
    int64_t yes;
    return facts_get_integer(facts, name, &yes) && yes == 1;
}

enum rank_lines_writer rank_lines_writer(const struct facts *facts)
{
    int64_t world_size, local_world_size;
    if (!facts_get_integer(facts, "job.world_size", &world_size) || world_size < 2)
        return RANK_LINES_OWN;
    if (facts_is_present(facts, "worker.1.rank"))
        return RANK_LINES_BELOW;
    bool alone = facts_get_integer(facts, "job.local_world_size", &local_world_size) && local_world_size == 1;
    bool shared = says_yes(facts, "run.output_is_file") && !alone;
    return shared && facts_is_present(facts, "job.rank") ? RANK_LINES_SHARED : RANK_LINES_OWN;
}

void rank_lines_doubt(struct facts *facts, size_t from, const char *text, size_t len)
{
    enum rank_lines_writer writer = rank_lines_writer(facts);
    struct text rest = {text, len}, line;
    struct ranks own;
    size_t count = facts_count(facts);
    if (writer == RANK_LINES_OWN || !find_ranks(facts, text, len, &own))
        return;
    for (unsigned number = 1; text_next_line(&rest, &line); number++) {
        if (writer_of(&line, &own) == WRITER_SELF)
            continue;
        for (size_t i = from; i < count; i++)
            if (fact_source_line(facts_at(facts, i)) == number)
                facts_mark(facts, i, writer == RANK_LINES_SHARED ? FACT_MARK_PERHAPS_OTHERS : FACT_MARK_ONE_OF_RANKS);
    }
}
