/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prose_to_facts(): what a reporter says in words: that memory grows or is not given back, that
 * copies hang, that a run without SDMA passes, that the GPU faults, hangs or is not found.
 *
 * Pure; runs in `triage` over pasted text only, never over a program's own output: a person is a
 * witness, and what programs print has other readers. A sentence counts when it is about memory and
 * says "grows", or says "not freed" or "still held" together with what should have freed it.
 *
 *   "VRAM is not freed, even after the test exits."
 *   "GPU memory usage keeps growing with every request"
 *   "VRAM stays allocated after the container was stopped, no process is listed"
 */
#include "diagnose/messages.h"

#include <ctype.h>
#include <string.h>

/* Longer lines are logs or dumps, not sentences. */
#define SENTENCE_MAX 600

static const char *const subjects[] = {
    "vram", "gpu memory", "video memory", "device memory", "memory", "ram", NULL};
static const char *const grows[] = {"keeps growing",
                                    "keep growing",
                                    "keeps increasing",
                                    "keeps rising",
                                    "keeps climbing",
                                    "ever-increasing",
                                    "ever-growing",
                                    "ever increasing",
                                    "memory leak",
                                    "vram leak",
                                    "leaks memory",
                                    "leaking",
                                    "leaks vram",
                                    "creeps up",
                                    "creeping up",
                                    "infinite vram",
                                    "infinite memory",
                                    "infinitely",
                                    NULL};
static const char *const verbs[] = {"grow",   "increas", "climb",   "creep", "rise",
                                    "rising", "accumul", "balloon", NULL};
static const char *const manners[] = {
    "over time",  "hours",       "until",         "slowly",      "unbounded",   "steadily",
    "gradually",  "continuous",  "constantly",    "each",        "every",       "after",
    "indefinite", "across runs", "without limit", "never stops", "drastically", NULL};
static const char *const kept[] = {"not freed",        "not released",
                                   "not be freed",     "not be released",
                                   "never freed",      "never released",
                                   "n't freed",        "n't released",
                                   "n't free ",        "n't release ",
                                   "not free ",        "not release ",
                                   "not returned",     "not reclaimed",
                                   "not unload",       "n't unload",
                                   "stays occupied",   "stays allocated",
                                   "stays used",       "stays in use",
                                   "remains occupied", "remains allocated",
                                   "remains used",     "remains in use",
                                   "still occupied",   "still allocated",
                                   "still used",       "still in use",
                                   "still holds",      "still held",
                                   "stuck at",         "left vram",
                                   "leaves vram",      "leaves memory",
                                   "vram used",        "vram is used",
                                   "residual",         NULL};
static const char *const causes[] = {
    "after",   "even though", "although", "despite",       "once the",    "when the",     "on exit",
    "closing", "unload",      "sleep",    "several hours", "hours later", "until reboot", NULL};

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* "hipMemcpy hangs on the second call", "setting HSA_ENABLE_SDMA=0 solved the problem" */
static const char *const copies[] = {"hipmemcpy", "memcpy", "copy", "copies", "h2d", "d2h", NULL};
static const char *const hangs[] = {"hang",           "stuck",    "never return",
                                    "blocks forever", "deadlock", NULL};
static const char *const helps[] = {"solv",   "fix",  "work", "help", "resolv",
                                    "passes", "runs", "gone", NULL};
static const char *const denials[] = {"not ",    "n't",   "no effect", "no difference",
                                      "nothing", "n\xe2", NULL};

/* A sentence that says something of a thing. The tree asks these last, at low confidence. */
struct saying {
    const char *fact;
    const char *things[14], *says[36], *unless[16];
};

static const struct saying sayings[] = {
    /* "triggers a reproducible GPU page fault" */
    {"report.page_fault",
     {"gpu", "amdgpu", "radeon", "card"},
     {"page fault", "memory access fault", "illegal memory access", "memory violation"},
     {"no page fault", "no gpu page fault", "not a page fault", "without", "not log", "no more",
      "no longer"}},
    /* "the whole system freezes after an hour of training" */
    {"report.gpu_hangs",
     {"gpu", "amdgpu", "driver", "system", "desktop", "machine", "computer", "pc", "screen",
      "display", "card"},
     {"gpu hang",     "hangs the",      "freez",        "frozen",         "froze",
      "lock up",      "locks up",       "locked up",    "lockup",         "lock-up",
      "hard hang",    "gpu reset",      "gpu crash",    "resets the gpu", "driver reset",
      "driver crash", "driver timeout", "black screen", "unresponsive",   "hard reboot"},
     {"no hang", "not hang", "n't hang", "no longer", "without", "not freeze", "n't freeze",
      "no freez", "no gpu reset", "are working", "is working", "works now"}},
    /* "ollama does not detect my GPU and falls back to the CPU" */
    {"report.gpu_not_found",
     {"gpu", "gpus", "amdgpu", "radeon", "igpu", "dgpu", "card"},
     {"not detected",
      "n't detected",
      "n't detect",
      "not detect",
      "not recogni",
      "n't recogni",
      "not see",
      "n't see",
      "n't find",
      "not find",
      "no gpu found",
      "no gpu is found",
      "no gpu detected",
      "no gpus",
      "no usable",
      "falls back to cpu",
      "falls back to the cpu",
      "fall back to cpu",
      "fallback to cpu",
      "falling back to cpu",
      "cpu instead",
      "only cpu is used",
      "only uses cpu",
      "only use cpu",
      "not using gpu",
      "not using the gpu",
      "n't use gpu",
      "n't use the gpu",
      "not use gpu",
      "not use the gpu"},
     {"not a cpu fallback", "no problem", "was detected", "is detected", "are detected"}},
    /* "it fills up the system RAM and the box starts to swap" */
    {"report.host_memory_full",
     {"ram", "system memory", "host memory", "main memory", "cpu memory", "swap"},
     {"run out", "runs out", "ran out", "running out", "fills up", "filled up", "is full",
      "completely full", "exhaust", "out of ram", "out of system memory", "out of host memory",
      "eats all", "uses all", "using all"},
     {"video ram", "gpu ram", "no swap", "not run out", "n't run out"}},
    /* "another process is eating up all the GPU memory" */
    {"report.other_holder",
     {"vram", "gpu memory", "video memory", "gpu"},
     {"another process is", "other processes are", "other process is", "another program is",
      "other programs are", "zombie process", "stale process", "leftover process",
      "orphaned process", "used by another", "used by other", "held by another", "taken by another",
      "another application is", "another user is", "other users are"},
     {"no other process", "no zombie", "not another", "if another", "unless"}},
    /* "the extension is ABI-incompatible with that torch" */
    {"report.versions_differ",
     {"version", "versions", "abi", "built", "compiled", "library", "libraries", "symbols",
      "driver", "torch", "rocm"},
     {"abi mismatch", "abi-incompatible", "abi incompatib", "version mismatch",
      "mismatched version", "versions mismatch", "incompatible version",
      "incompatible with the installed", "undefined symbol", "undefined hip", "built against a",
      "compiled against a", "built for a different", "built for another"},
     {"no version mismatch", "not a version", "no mismatch"}},
    /* "it goes out of memory on a 24 GB card" */
    {"report.out_of_memory",
     {"vram", "gpu", "memory", "card", "gb", "model", "oom"},
     {"out of memory", "oom", "ooms", "oom'd", "out of vram", "not enough vram",
      "not enough gpu memory", "not enough video memory", "insufficient vram",
      "insufficient memory", "insufficient gpu memory"},
     {"no oom", "not oom", "n't oom", "without", "not out of memory", "n't out of memory",
      "no out of memory", "oom killer", "oom-kill", "oom_kill"}},
};
#define SAYINGS (sizeof sayings / sizeof sayings[0])

/* One of the words, begun at the start of a word. */
static bool has_one(struct text line, const char *const *words)
{
    for (; *words != NULL; words++) {
        struct text t = line;
        for (ptrdiff_t at; (at = text_ifind(t, *words)) >= 0;) {
            const char *hit = t.at + at;
            bool inside = hit > line.at && is_word_byte(hit[-1]);
            if (!inside || **words == 'n')
                return true;
            t = text_skip(t, (size_t)at + 1);
        }
    }
    return false;
}

struct tally {
    unsigned count, line;
};

static void tally(struct tally *t, const struct scan *s, bool hit)
{
    if (hit && t->count++ == 0)
        t->line = s->line;
}

static void tally_emit(const struct scan *s, const struct tally *t, const char *fact)
{
    if (t->count > 0)
        scan_integer_at(s, t->line, fact, t->count);
}

/* "name=value" and "[12:34:56]" are a log's, not a person's. */
static bool is_sentence(struct text line)
{
    size_t spaces = 0, odd = 0;
    for (size_t i = 0; i < line.len; i++) {
        spaces += line.at[i] == ' ';
        odd += strchr("={}[]|<>\\", line.at[i]) != NULL && line.at[i] != '\0';
    }
    return line.len <= SENTENCE_MAX && spaces >= 3 && odd <= 2;
}

void prose_to_facts(struct facts *facts, const char *data, size_t len, const char *source)
{
    unsigned before;
    struct text rest = text_tail(data, len, &before), line;
    struct scan s = {.facts = facts, .source = source != NULL ? source : "text", .line = before};
    struct tally grown = {0}, held = {0}, hung = {0}, helped = {0}, said[SAYINGS] = {{0}};
    while (text_next_line(&rest, &line)) {
        s.line++;
        if (!is_sentence(line))
            continue;
        tally(&helped, &s,
              text_has(line, "HSA_ENABLE_SDMA=0") && has_one(line, helps) &&
                  !has_one(line, denials));
        tally(&hung, &s, has_one(line, copies) && has_one(line, hangs));
        for (size_t i = 0; i < SAYINGS; i++)
            tally(&said[i], &s,
                  has_one(line, sayings[i].says) && has_one(line, sayings[i].things) &&
                      !has_one(line, sayings[i].unless));
        if (!has_one(line, subjects))
            continue;
        tally(&grown, &s, has_one(line, grows) || (has_one(line, verbs) && has_one(line, manners)));
        tally(&held, &s, has_one(line, kept) && has_one(line, causes));
    }
    tally_emit(&s, &grown, "report.memory_grows");
    tally_emit(&s, &held, "report.memory_stays");
    tally_emit(&s, &hung, "report.copy_hangs");
    tally_emit(&s, &helped, "report.sdma_off_helps");
    for (size_t i = 0; i < SAYINGS; i++)
        tally_emit(&s, &said[i], sayings[i].fact);
}
