#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates/messages.rules -> C tables.

  compile.py RULES --facts OUT.c OUT.h    what the finisher reads (diagnose/rules.h)
  compile.py RULES --relay OUT.c          what the relay watches for (watch/match.h)
  compile.py RULES --kernel OUT.c         what a kernel record is about (watch/kernel_log.h)
  compile.py RULES --examples OUT.c       the examples (tests/unit/messages/test_rules.c)

rules_file.py reads the rules, automaton.py makes the tables of words.
"""
import re
import sys

from automaton import Automaton, numbers
from rules_file import KERNEL_KINDS, KINDS, read_rules

WORD_MAX = 9  # last bytes of a wording that select a line; the whole is compared on that line


def quoted(text):
    out = ""
    for byte in text.encode():
        c = chr(byte)
        if c in '"\\' or c == "?":
            out += "\\" + c
        elif 32 <= byte < 127:
            out += c
        else:
            out += "\\%03o" % byte
    return '"%s"' % out


# ---------------------------------------------------------------- the relay

def relay(rules, out):
    rows, seen = [], {}
    for rule in rules:
        for kind, shape in rule.watched:
            word = shape.marked or shape.longest()
            if seen.setdefault(word, kind) != kind:
                sys.exit("'%s' is watched as %s and as %s" % (word, seen[word], kind))
            if (kind, word) not in rows:
                rows.append((kind, word))
    rows.sort(key=lambda r: KINDS.index(r[0]))
    # one message, one count: a word that holds another one is not needed
    for kind, word in rows:
        for other_kind, other in rows:
            if word != other and other in word and kind != other_kind:
                sys.exit("'%s' is watched as %s, '%s' in it as %s" % (word, kind, other, other_kind))
    rows = [r for r in rows if not any(r[1] != other and other in r[1] for _, other in rows)]
    automaton = Automaton([(w.encode(), i) for i, (_, w) in enumerate(rows)])
    # of those that end at a state only the longest counts: it is the first
    with open(out, "w", encoding="utf-8") as f:
        f.write('/* Made from templates/messages.rules. */\n#include "base/words.h"\n'
                '#include "watch/match.h"\n\nconst struct match_pattern match_patterns[] = {\n')
        for kind, word in rows:
            f.write("    {MATCH_%s, %s},\n" % (kind.upper(), quoted(word)))
        f.write("};\nconst size_t match_pattern_count = %d;\n\n" % len(rows))
        f.write(automaton.c_text("match_words"))


def kernel(rules, out):
    rows = [row for kind in KERNEL_KINDS for rule in rules for row in rule.kernel if row[0] == kind]
    with open(out, "w", encoding="utf-8") as f:
        f.write('/* Made from templates/messages.rules. */\n#include "watch/kernel_pattern.h"\n\n'
                'const struct kernel_pattern kernel_patterns[] = {\n')
        for kind, words, further in rows:
            f.write("    {KERNEL_LINE_%s, %s, %s},\n"
                    % (KERNEL_KINDS[kind], quoted(words), quoted(further) if further else "0"))
        f.write("};\nconst size_t kernel_pattern_count = %d;\n" % len(rows))


# ---------------------------------------------------------------- the finisher

class Tables:
    def __init__(self):
        self.parts, self.shapes, self.groups, self.sets, self.names = [], [], [], [], []
        self.facts = {}
        self.texts, self.texts_bytes = {"": 0}, 1

    def fact(self, name):
        return self.facts.setdefault(name, len(self.facts))

    def text(self, text):
        """The offset of the text in rule_part_texts."""
        if text not in self.texts:
            self.texts[text] = self.texts_bytes
            self.texts_bytes += len(text.encode()) + 1
        return self.texts[text]

    def shape(self, shape, keep):
        first = len(self.parts)
        for p in shape.parts:
            if p.take is None:
                blanks = p.words == "~"
                self.parts.append("{.kind = %s, .gap = %d, .words = %d, .length = %d}" % (
                    "PART_BLANKS" if blanks else "PART_WORDS", p.gap, self.text(p.words), len(p.words.encode())))
            else:
                t = p.take
                self.parts.append("{.kind = PART_TAKE, .gap = %d, .words = %d, .length = %d, .type = TAKE_%s, "
                                  ".fact = %d, .limit = %s, .keep = KEEP_%s}" % (
                    p.gap, self.text(t["stops"]), len(t["stops"].encode()), t["type"].upper(), self.fact(t["fact"]),
                    ("UINT64_C(%d)" % t["limit"]) if t["limit"] else 0, (t["keep"] or keep).upper()))
        self.shapes.append("{%d, %d, %d, %d, %d}" % (first, len(shape.parts), shape.word_start,
                                                     shape.line_start, shape.line_end))

    def shape_list(self, shapes, keep):
        first = len(self.shapes)
        for s in shapes:
            self.shape(s, keep)
        return "{%d, %d}" % (first, len(shapes))

    def group_list(self, groups, keep):
        rows = [self.shape_list(g, keep) for g in groups]
        first = len(self.groups)
        self.groups += rows
        return "{%d, %d}" % (first, len(rows))

    def set_list(self, sets):
        first = len(self.sets)
        for fact, value in sets:
            if value in ("true", "false"):
                v = ".type = VALUE_BOOLEAN, .integer = %d" % (value == "true")
            elif re.fullmatch(r"-?\d+", value):
                v = ".type = VALUE_INTEGER, .integer = %s" % value
            else:
                v = ".type = VALUE_TEXT, .text = {%s, %d}" % (quoted(value), len(value.encode()))
            self.sets.append("{%d, {%s}}" % (self.fact(fact), v))
        return "{%d, %d}" % (first, len(sets))


def enum_name(prefix, name):
    return prefix + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def rule_row(tables, rule, blocks, asked):
    fields = ['.name = "%s"' % rule.name]
    fields.append(".line = " + tables.shape_list(rule.wordings, rule.keep))
    fields.append(".also = " + tables.group_list(rule.also, rule.keep))
    fields.append(".unless = " + tables.shape_list(rule.unless, rule.keep))
    fields.append(".takes = " + tables.shape_list(rule.takes, rule.keep))
    fields.append(".sets = " + tables.set_list(rule.sets))
    fields.append(".keep = KEEP_%s" % rule.keep.upper())
    if rule.count:
        fields.append(".count = {%s}" % ", ".join(str(tables.fact(f) + 1) for f in rule.count))
    blocks += [b for b in dict.fromkeys([rule.block, rule.begin] + rule.end) if b and b not in blocks]
    for key in ("block", "begin"):
        if getattr(rule, key):
            fields.append(".%s = %d" % (key, blocks.index(getattr(rule, key)) + 1))
    if rule.end:
        fields.append(".end = {%s}" % ", ".join(str(blocks.index(b) + 1) for b in rule.end))
    if rule.within:
        fields.append(".within = %d" % rule.within)
    if rule.reader:
        fields.append(".reader = %s" % enum_name("READ_", rule.reader))
    if rule.record:
        fields.append('.record = "%s"' % rule.record)
    if rule.bad != "none":
        fields.append(".bad = %s" % enum_name("BAD_", rule.bad))
    if rule.forgets:
        fields.append('.forget = "%s"' % rule.forgets[0])
    if rule in asked:
        fields.append(".asked = %d" % (asked.index(rule) + 1))
    for flag in sorted(rule.flags - {"ends", "warned"}):
        fields.append(".%s = true" % flag.replace("-", "_"))
    return "    {%s},\n" % ", ".join(fields)


def facts_of(rule):
    """All that the rule always says."""
    taken = [p.take["fact"] for s in rule.wordings for p in s.parts if p.take]
    return [n for n in rule.count + rule.says + [f for f, _ in rule.sets] + taken if "." in n]


def cheap_words(rule):
    """The words that select a line for the rule; none: all lines of its block."""
    if rule.near:
        return [w for w in rule.near]
    words = words_of(rule.wordings)
    if rule.wordings and not words and not rule.block:
        sys.exit("rule %s: a wording of fewer than two bytes needs 'near'" % rule.name)
    return words


def words_of(shapes):
    """One of them is on each line that matches; none: no such words are known."""
    words = [s.longest() for s in shapes]
    if any(len(w) < 2 for w in words):
        return []
    # messages begin alike ("failed to ...") and end in what they are about; lines of series have "gpu memory" too
    return [w[-2 * WORD_MAX if w.endswith(" memory") else -WORD_MAX:] for w in words]


def words_of_groups(rule):
    """The words that select a line for the rule: one of each group must be there."""
    return [cheap_words(rule)] + [words_of(group) for group in rule.also]


def log_words(lists, asked):
    """One automaton for all lists of words and for the words that select a rule of scope "asked", and what is known of each word."""
    keys = {}
    for i, r in enumerate(lists):
        for s in r.wordings:
            keys.setdefault((s.parts[0].words.encode(), s.word_start, s.line_end), [0, 0])[0] |= 1 << i
    if any(len(s.parts) > 1 or s.parts[0].take or s.parts[0].words != s.parts[0].words.lower()
           for r in lists for s in r.wordings) or len(lists) > 64:
        sys.exit("scope words has at most 64 lists of plain words in small letters")
    if len(asked) > 64 or any(not cheap_words(r) and r.wordings for r in asked):
        sys.exit("scope asked has at most 64 rules, all with wordings of two bytes or more")
    for i, r in enumerate(asked):
        for word in cheap_words(r):
            keys.setdefault((word.encode().lower(), False, False), [0, 0])[1] |= 1 << i
    automaton = Automaton([(k[0], k) for k in keys], fold=True)
    rows = {}

    def row(of, length=0, begins=False, ends=False):
        return rows.setdefault("    {UINT64_C(%d), UINT64_C(%d), %d, %d, %d},\n" % (*of, length, begins, ends), len(rows))

    def rows_of(out):
        """The words that end at a state: those with no condition are one row."""
        free = [0, 0]
        for of in (keys[k] for k in out if not (k[1] or k[2])):
            free = [free[0] | of[0], free[1] | of[1]]
        some = (row(free),) if free != [0, 0] else ()
        return some + tuple(row(keys[k], len(k[0]), k[1], k[2]) for k in out if k[1] or k[2])

    automaton.out = [rows_of(out) for out in automaton.out]
    return automaton.c_text("log_words") + "const struct log_word log_word_rows[] = {\n%s};\n\n" % "".join(rows)


def width(rules):
    """How many words of 64 bits hold one bit for each."""
    return (len(rules) + 63) // 64


def most(groups):
    return max(len(g) for g in groups)


def facts(rules, out_c, out_h):
    groups = [r for r in rules if r.scopes == ["words"]]
    rules = [r for r in rules if r.scopes != ["words"]]
    tables, blocks, text = Tables(), [], []
    asked = [r for r in rules if r.scopes == ["asked"]]
    scopes = list(dict.fromkeys(s for r in rules if r not in asked for s in r.scopes))
    for rule in rules:
        text.append(rule_row(tables, rule, blocks, asked))
        for name in rule.says:
            tables.fact(name)
    of_scope = {s: [i for i, r in enumerate(rules) if s in r.scopes] for s in scopes}
    readers = list(dict.fromkeys(r.reader for r in rules if r.reader))
    with open(out_h, "w", encoding="utf-8") as f:
        f.write("/* Made from templates/messages.rules. */\n#ifndef DIAGNOSE_RULES_MADE_H\n#define DIAGNOSE_RULES_MADE_H\n\n#include <stdint.h>\n\n")
        f.write("enum rule_scope {\n%s    RULE_SCOPES\n};\n" % "".join("    %s,\n" % enum_name("SCOPE_", s) for s in scopes))
        f.write("enum rule_reader {\n    READ_NONE,\n%s    RULE_READERS\n};\n" % "".join("    %s,\n" % enum_name("READ_", r) for r in readers))
        f.write("enum {\n%s    RULES_COUNT\n};\n" % "".join("    %s,\n" % enum_name("RULE_", r.name) for r in rules))
        for i, r in enumerate(groups):
            f.write("#define %s (UINT64_C(1) << %d)\n" % (enum_name("LOG_WORDS_", r.name), i))
        f.write("#define RULES_WORDS %d\n" % max(width(of) * most(words_of_groups(rules[i]) for i in of) for of in of_scope.values()))
        f.write("#define RULE_FACTS %d\n#define RULE_BLOCKS %d\n" % (len(tables.facts), len(blocks) + 2))
        for name in blocks:
            f.write("#define %s %d\n" % (enum_name("BLOCK_", name), blocks.index(name) + 1))
        f.write("\n#endif\n")
    with open(out_c, "w", encoding="utf-8") as f:
        f.write('/* Made from templates/messages.rules. */\n#include "diagnose/log_words.h"\n#include "diagnose/rules.h"\n\n')
        f.write(log_words(groups, asked))
        texts = b"".join(text.encode() + b"\0" for text in tables.texts)
        f.write("const char rule_part_texts[] = {%s};\n\n" % numbers(b - 256 if b > 127 else b for b in texts))
        for name, kind, rows in (("rule_parts", "struct rule_part", tables.parts), ("rule_shapes", "struct rule_shape", tables.shapes),
                                 ("rule_groups", "struct rule_list", tables.groups or ["{0, 0}"]), ("rule_sets", "struct rule_set", tables.sets or ["{0}"]),
                                 ("rule_fact_names", "char *const", [quoted(n) for n in tables.facts])):
            f.write("const %s %s[] = {\n%s};\n\n" % (kind, name, "".join("    %s,\n" % r for r in rows)))
        f.write("const struct rule rules[] = {\n%s};\n\n" % "".join(text))
        for s in scopes:
            groups = [words_of_groups(rules[i]) for i in of_scope[s]]
            n = "rule_words_" + re.sub(r"\W", "_", s)
            words, always = [], [0] * (width(groups) * most(groups))
            for g in range(most(groups)):
                for k, of_rule in enumerate(groups):
                    bit = g * width(groups) * 64 + k
                    if g < len(of_rule) and of_rule[g]:
                        words += [(w.encode(), bit) for w in of_rule[g]]
                    else:
                        always[bit // 64] |= 1 << (bit % 64)
            f.write(Automaton(words).c_text(n).replace("\nstruct words", "\nstatic struct words"))
            f.write("static const uint16_t %s_rules[] = {%s};\n" % (n, numbers(of_scope[s])))
            f.write("static const uint64_t %s_always[] = {%s};\n\n" % (n, ", ".join("UINT64_C(%d)" % b for b in always)))
        ending = sorted({tables.fact(n) for r in rules if "ends" in r.flags for n in facts_of(r)})
        f.write("const uint16_t rule_ending_facts[] = {%s};\nconst size_t rule_ending_facts_count = %d;\n\n"
                % (numbers(ending), len(ending)))
        warned = sorted({tables.fact(r.count[0]) for r in rules if "warned" in r.flags})
        f.write("const bool rule_fact_is_warned_of[RULE_FACTS] = {%s};\n\n"
                % ", ".join("[%d] = true" % n for n in warned))
        f.write("const struct rule_index rule_indexes[] = {\n")
        for s in scopes:
            n = "rule_words_" + re.sub(r"\W", "_", s)
            f.write("    [%s] = {&%s, %s_rules, %s_always, %d, %d},\n" % (
                enum_name("SCOPE_", s), n, n, n, len(of_scope[s]), most(words_of_groups(rules[i]) for i in of_scope[s])))
        f.write("};\n")


# ---------------------------------------------------------------- examples

def sample(shape):
    """A text of the shape, where nothing is taken."""
    return "".join((" x " if p.gap and i > 0 else "") + ("" if p.words == "~" else p.words)
                   for i, p in enumerate(shape.parts)) + ("" if shape.line_end else " x")


def own_examples(rule):
    """Each wording by itself, with the first of what must stand there too."""
    further = [group[0] for group in rule.also]
    for shape in rule.wordings:
        if not any(p.take for s in [shape] + further for p in s.parts) and not rule.reader and not rule.block:
            yield " ".join([sample(shape)] + [sample(s) for s in further])


def examples(rules, out):
    with open(out, "w", encoding="utf-8") as f:
        f.write('/* Made from templates/messages.rules. */\n#include "messages/rule_examples.h"\n\n'
                'const struct rule_example rule_examples[] = {\n')
        count = 0
        for index, rule in enumerate(rules):
            wanted = [n.replace("#", "0") for n in dict.fromkeys(facts_of(rule)) if n[0] != "_"]
            if rule.scopes == ["asked"] or not (
                    wanted or rule.reader or rule.begin or rule.end or rule.bad != "none"):
                continue
            rows = [(True, t.replace("\\n", "\n")) for t in rule.match]
            rows += [(True, t) for t in own_examples(rule)]
            if not rows:
                sys.exit("rule %s needs an example: match TEXT" % rule.name)
            rows += [(False, t.replace("\\n", "\n")) for t in rule.never]
            for match, text in rows:
                f.write("    {%d, %s, %d, %s, {%s}},\n" % (
                    index, enum_name("SCOPE_", rule.scopes[0]), match, quoted(text),
                    ", ".join(quoted(n) for n in wanted) or "0"))
                count += 1
        f.write("};\nconst size_t rule_examples_count = %d;\n" % count)


def main():
    rules = read_rules(sys.argv[1])
    if sys.argv[2] == "--relay":
        relay(rules, sys.argv[3])
    elif sys.argv[2] == "--kernel":
        kernel(rules, sys.argv[3])
    elif sys.argv[2] == "--examples":
        examples([r for r in rules if r.scopes != ["words"]], sys.argv[3])
    else:
        facts(rules, sys.argv[3], sys.argv[4])


if __name__ == "__main__":
    main()
