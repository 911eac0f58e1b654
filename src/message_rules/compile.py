#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates/messages.rules -> C tables.

  compile.py RULES --facts OUT.c OUT.h    what the finisher reads (diagnose/rules.h)
  compile.py RULES --relay OUT.c          what the relay watches for (watch/match.h)
  compile.py RULES --kernel OUT.c         what a kernel record is about (watch/kernel_log.h)
  compile.py RULES --examples OUT.c       the examples (tests/unit/messages/test_rules.c)

The header of templates/messages.rules describes the language. A mistake there ends the build with
its line.
"""
import re
import sys
from collections import deque

TYPES = "size buffer bytes gib count number hex bits real share yes word code text upto".split()
KEEPS = ("first", "last", "sum", "max")
KINDS = ("oom", "fault", "hang", "error", "plain", "report")
# The order in which the kernel classifier asks; harmless forms of a wording come first.
KERNEL_KINDS = {"calm": "AMDGPU", "oom": "OOM", "fault": "FAULT", "hang": "HANG", "driver": "AMDGPU"}
WORD_MAX = 9  # last bytes of a wording that select a line; the whole is compared on that line


STRIDE = 128  # WORDS_STRIDE of base/words.h


class Mistake(Exception):
    pass


class Part:
    """Words that must stand there, or a figure that is taken. `gap`: anything may come before."""

    def __init__(self, gap, words="", take=None):
        self.gap, self.words, self.take = gap, words, take


class Shape:
    def __init__(self, text, parts, word_start, line_start, line_end, marked):
        self.parts, self.word_start = parts, word_start
        self.line_start, self.line_end = line_start, line_end
        self.marked, self.text = marked, text

    def literals(self):
        words = [p.words for p in self.parts if p.take is None and p.words != "~"]
        return words + [p.take["stops"] for p in self.parts if p.take and p.take["type"] == "code"]

    def longest(self):
        return max(self.literals(), key=len, default="")


class Rule:
    def __init__(self, name, scopes, line):
        self.name, self.scopes, self.line = name, scopes, line
        self.wordings, self.also, self.unless, self.takes = [], [], [], []
        self.end = []
        self.watched = []  # (kind, shape)
        self.kernel = []  # (kind, words, further words)
        self.sets, self.forgets, self.says = [], [], []
        self.count = []
        self.block = self.begin = self.reader = self.record = None
        self.within, self.keep, self.bad = 0, "first", "none"
        self.flags, self.near = set(), []
        self.match, self.never = [], []


def parse_take(text):
    """FACT:TYPE, with "<LIMIT", "(BYTES)" and what is kept behind it, in this order."""
    m = re.fullmatch(r"([a-z0-9_.#]+):([a-z]+)(?:<(\d+))?(?:\((.+)\))?(?: (\w+))?", text, re.S)
    if m is None or m.group(2) not in TYPES or (m.group(5) or "first") not in KEEPS:
        raise Mistake("cannot read {%s}" % text)
    if (m.group(2) == "upto") > bool(m.group(4)):
        raise Mistake("up to which bytes? {%s}" % text)
    return {"fact": m.group(1), "type": m.group(2), "limit": int(m.group(3) or 0),
            "stops": m.group(4) or "", "keep": m.group(5)}


def parse_shape(text):
    parts, words, gap, i = [], "", True, 0
    word_start = text.startswith("^")
    line_start = text.startswith("<") and not text.startswith("<<")
    marked = None
    line_end = text.endswith("$") and not text.endswith("\\$")
    if line_end:
        text = text[:-1]
    i = 1 if word_start or line_start else 0
    gap = not line_start

    def flush():
        nonlocal words, gap
        if words:
            parts.append(Part(gap, words))
            words, gap = "", False

    while i < len(text):
        c = text[i]
        if c == "\\" and i + 1 < len(text):
            words += {"s": " ", "t": "\t"}.get(text[i + 1], text[i + 1])
            i += 2
            continue
        if text.startswith("<<", i):
            marked = len(words)
            i += 1
        elif text.startswith(">>", i) and isinstance(marked, int):
            marked = words[marked:]
            i += 1
        elif c == "*":
            flush()
            gap = True
        elif c == "~":
            flush()
            parts.append(Part(False, "~"))
            gap = False
        elif c == "{":
            flush()
            end = text.index("}", i)  # none of the bytes of an upto() is one
            parts.append(Part(gap, take=parse_take(text[i + 1:end].replace("\\s", " ").replace("\\t", "\t"))))
            gap = False
            i = end
        else:
            words += c
        i += 1
    flush()
    if not parts:
        raise Mistake("an empty wording")
    for at, part in enumerate(parts):
        behind = parts[at + 1] if at + 1 < len(parts) else None
        prefixed = part.take and part.take["type"] == "code" and part.take["stops"]
        if part.take and part.gap and not prefixed and (behind is None or behind.take):
            raise Mistake("what is taken behind '*' needs words behind it")
    return Shape(text, parts, word_start, line_start, line_end, marked)


def shapes_of(text):
    return [parse_shape(p.strip()) for p in re.split(r"(?:^|\s)\|(?=\s|$)", text) if p.strip()]


def add(rule, key, text, number):
    if key == "line":
        rule.wordings += shapes_of(text)
    elif key == "watch":
        kind, _, rest = text.partition(" ")
        if kind in KERNEL_KINDS and ("kernel" in rule.scopes or "context" in rule.scopes):
            for shape in shapes_of(rest):
                words = [shape.marked] if shape.marked else shape.literals()
                rule.kernel.append((kind, words[0], words[1] if len(words) > 1 else None))
                rule.wordings.append(shape)
        elif kind in KINDS:
            for shape in shapes_of(rest):
                rule.watched.append((kind, shape))
                rule.wordings.append(shape)
        else:
            raise Mistake("watched as what? '%s'" % kind)
    elif key == "also":
        rule.also.append(shapes_of(text))
    elif key == "or" and rule.also:
        rule.also[-1] += shapes_of(text)
    elif key == "unless":
        rule.unless += shapes_of(text)
    elif key == "take":
        rule.takes += shapes_of(text)
    elif key == "near":
        rule.near += text.split()
    elif key == "set":
        fact, _, value = text.partition(" ")
        rule.sets.append((fact, value))
    elif key == "keep":
        if text not in KEEPS:
            raise Mistake("keep what? '%s'" % text)
        rule.keep = text
    elif key == "in":
        rule.block, _, within = text.partition(" ")
        rule.within = int(within or 0)
    elif key == "count":
        rule.count += text.split()
    elif key == "end":
        rule.end += text.split()
    elif key in ("begin", "record", "bad"):
        setattr(rule, key, text)
    elif key == "read":
        rule.reader = text
    elif key == "says":
        rule.says += text.split()
    elif key == "forget":
        rule.forgets.append(text)
    elif key in ("warned", "ends", "ladder", "context", "once"):
        rule.flags.add(key)
    elif key in ("match", "never"):
        getattr(rule, key).append(text)
    else:
        raise Mistake("unknown word '%s'" % key)


def check(rule):
    if rule.wordings or rule.block or rule.near or rule.scopes == ["asked"]:
        return
    raise Mistake("rule %s has no wording" % rule.name)


def read_rules(path):
    rules, scopes, number = [], [], 0
    names, defines = set(), {}
    try:
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            line = line.rstrip("\n")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, _, text = line.strip().partition(" ")
            if key == "define":
                name, _, defined = text.partition(" ")
                defines["{{%s}}" % name] = defined
                continue
            for name, defined in defines.items():
                text = text.replace(name, defined)
            if key == "scope":
                scopes = text.split()
            elif key == "rule":
                if text in names:
                    raise Mistake("a second rule %s" % text)
                names.add(text)
                rules.append(Rule(text, scopes, number))
            elif not rules:
                raise Mistake("no rule yet")
            else:
                add(rules[-1], key, text if key in ("match", "never") else text.strip(), number)
        said = {}
        for rule in rules:
            number = rule.line
            check(rule)
            for shape in rule.wordings:
                for scope in rule.scopes:
                    first = said.setdefault((scope, shape.text.replace("<<", "").replace(">>", "")), rule)
                    if first is not rule and not rule.block and scope not in ("asked", "words"):
                        raise Mistake("'%s' stands in rule %s too" % (shape.text, first.name))
    except (Mistake, ValueError) as error:
        sys.exit("%s:%d: %s" % (path, number, error))
    return rules


# ---------------------------------------------------------------- C text

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


def numbers(values):
    values = [str(v) for v in values]
    lines = [", ".join(values[i:i + 24]) for i in range(0, len(values), 24)]
    return ",\n    ".join(lines)


class Automaton:
    """Aho and Corasick's, over classes of bytes. `words`: (bytes, id); `fold`: without regard to case."""

    def __init__(self, words, fold=False):
        used = sorted({b for w, _ in words for b in w})
        self.class_of = [0] * 256
        for i, b in enumerate(used):
            self.class_of[b] = i + 1
            if fold:
                self.class_of[ord(chr(b).upper())] = i + 1
        self.classes = len(used) + 1
        if self.classes > STRIDE:
            sys.exit("too many different bytes for an automaton")
        nxt, out = [{}], [[]]
        for word, ident in words:
            at = 0
            for b in word:
                c = self.class_of[b]
                if c not in nxt[at]:
                    nxt[at][c] = len(nxt)
                    nxt.append({})
                    out.append([])
                at = nxt[at][c]
            if ident not in out[at]:
                out[at].append(ident)
        self.table = [[0] * self.classes for _ in nxt]
        suffix, queue = [0] * len(nxt), deque()
        for c, to in nxt[0].items():
            self.table[0][c] = to
            queue.append(to)
        while queue:
            at = queue.popleft()
            out[at] += [i for i in out[suffix[at]] if i not in out[at]]
            for c in range(self.classes):
                if c in nxt[at]:
                    to = nxt[at][c]
                    self.table[at][c] = to
                    suffix[to] = self.table[suffix[at]][c]
                    queue.append(to)
                else:
                    self.table[at][c] = self.table[suffix[at]][c]
        self.out = out
        if len(nxt) >= 65535:
            sys.exit("too many wordings for an automaton of 16 bits")

    def c_text(self, name):
        """The table, and for each state where its list of ids begins (each ends with 0xffff)."""
        lists, first, at = [65535], {(): 0}, 1
        begins = []
        for ids in self.out:
            key = tuple(ids)
            if key not in first:
                first[key] = at
                lists += list(key) + [65535]
                at += len(key) + 1
            begins.append(first[key])
        if at >= 65535:
            sys.exit("too many outputs for an automaton of 16 bits")
        flat = [v for row in self.table for v in row + [0] * (STRIDE - self.classes)]
        return """static const uint16_t {n}_next[] = {{
    {flat}}};
static const uint16_t {n}_begins[] = {{
    {begins}}};
static const uint16_t {n}_lists[] = {{
    {lists}}};
const struct words {n} = {{
    .class_of = {{{classes}}},
    .starts = {{{starts}}},
    .next = {n}_next, .begins = {n}_begins, .lists = {n}_lists}};
""".format(n=name, flat=numbers(flat), begins=numbers(begins), lists=numbers(lists),
           classes=numbers(self.class_of),
           starts=numbers(int(self.table[0][c] != 0) for c in self.class_of))


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

    def fact(self, name):
        return self.facts.setdefault(name, len(self.facts))

    def shape(self, shape, keep):
        first = len(self.parts)
        for p in shape.parts:
            if p.take is None:
                blanks = p.words == "~"
                self.parts.append("{.kind = %s, .gap = %d, .words = %s, .length = %d}" % (
                    "PART_BLANKS" if blanks else "PART_WORDS", p.gap, quoted(p.words), len(p.words.encode())))
            else:
                t = p.take
                self.parts.append("{.kind = PART_TAKE, .gap = %d, .words = %s, .length = %d, .type = TAKE_%s, "
                                  ".fact = %d, .limit = %s, .keep = KEEP_%s}" % (
                    p.gap, quoted(t["stops"]), len(t["stops"].encode()), t["type"].upper(), self.fact(t["fact"]),
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


def rule_row(tables, rule, blocks):
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
    words = [s.longest() for s in rule.wordings]
    if any(len(w) < 2 for w in words):
        if rule.block:
            return []
        sys.exit("rule %s: a wording of fewer than two bytes needs 'near'" % rule.name)
    # messages begin alike ("failed to ...") and end in what they are about; lines of series have "gpu memory" too
    return [w[-2 * WORD_MAX if w.endswith(" memory") else -WORD_MAX:] for w in words]


def log_words(lists):
    """One automaton for all lists of words, and what is known of each word."""
    shapes = list(dict.fromkeys((s.parts[0].words, s.word_start, s.line_end) for r in lists for s in r.wordings))
    if any(len(s.parts) > 1 or s.parts[0].take or s.parts[0].words != s.parts[0].words.lower()
           for r in lists for s in r.wordings) or len(lists) > 64:
        sys.exit("scope words has at most 64 lists of plain words in small letters")
    of = {k: {i for i, r in enumerate(lists) for s in r.wordings if (s.parts[0].words, s.word_start, s.line_end) == k}
          for k in shapes}
    rows = ["    {UINT64_C(%d), %d, %d, %d},\n" % (sum(1 << i for i in of[k]), len(k[0].encode()), k[1], k[2]) for k in shapes]
    automaton = Automaton([(k[0].encode(), n) for n, k in enumerate(shapes)], fold=True)
    return automaton.c_text("log_words") + "const struct log_word log_word_rows[] = {\n%s};\n\n" % "".join(rows)


def facts(rules, out_c, out_h):
    groups = [r for r in rules if r.scopes == ["words"]]
    rules = [r for r in rules if r.scopes != ["words"]]
    tables, blocks, text = Tables(), [], []
    scopes = list(dict.fromkeys(s for r in rules for s in r.scopes))
    for rule in rules:
        text.append(rule_row(tables, rule, blocks))
        for name in rule.says:
            tables.fact(name)
    readers = list(dict.fromkeys(r.reader for r in rules if r.reader))
    with open(out_h, "w", encoding="utf-8") as f:
        f.write("/* Made from templates/messages.rules. */\n#ifndef DIAGNOSE_RULES_MADE_H\n#define DIAGNOSE_RULES_MADE_H\n\n#include <stdint.h>\n\n")
        f.write("enum rule_scope {\n%s    RULE_SCOPES\n};\n" % "".join("    %s,\n" % enum_name("SCOPE_", s) for s in scopes))
        f.write("enum rule_reader {\n    READ_NONE,\n%s    RULE_READERS\n};\n" % "".join("    %s,\n" % enum_name("READ_", r) for r in readers))
        f.write("enum {\n%s    RULES_COUNT\n};\n" % "".join("    %s,\n" % enum_name("RULE_", r.name) for r in rules))
        for i, r in enumerate(groups):
            f.write("#define %s (UINT64_C(1) << %d)\n" % (enum_name("LOG_WORDS_", r.name), i))
        f.write("#define RULE_FACTS %d\n#define RULE_BLOCKS %d\n" % (len(tables.facts), len(blocks) + 2))
        for name in blocks:
            f.write("#define %s %d\n" % (enum_name("BLOCK_", name), blocks.index(name) + 1))
        f.write("\n#endif\n")
    with open(out_c, "w", encoding="utf-8") as f:
        f.write('/* Made from templates/messages.rules. */\n#include "diagnose/log_words.h"\n#include "diagnose/rules.h"\n\n')
        f.write(log_words(groups))
        for name, kind, rows in (("rule_parts", "struct rule_part", tables.parts), ("rule_shapes", "struct rule_shape", tables.shapes),
                                 ("rule_groups", "struct rule_list", tables.groups or ["{0, 0}"]), ("rule_sets", "struct rule_set", tables.sets or ["{0}"]),
                                 ("rule_fact_names", "char *const", [quoted(n) for n in tables.facts])):
            f.write("const %s %s[] = {\n%s};\n\n" % (kind, name, "".join("    %s,\n" % r for r in rows)))
        f.write("const struct rule rules[] = {\n%s};\n\n" % "".join(text))
        for s in scopes:
            mine = [i for i, r in enumerate(rules) if s in r.scopes]
            words = [(w.encode(), k) for k, i in enumerate(mine) for w in cheap_words(rules[i])]
            always = [k for k, i in enumerate(mine) if not cheap_words(rules[i])]
            n = "rule_words_" + re.sub(r"\W", "_", s)
            f.write(Automaton(words).c_text(n).replace("\nconst struct words", "\nstatic const struct words"))
            f.write("static const uint16_t %s_rules[] = {%s};\n" % (n, numbers(mine)))
            bits = [sum(1 << (k % 64) for k in always if k // 64 == w) for w in range((len(mine) + 63) // 64)]
            f.write("static const uint64_t %s_always[] = {%s};\n\n" % (n, ", ".join("UINT64_C(%d)" % b for b in bits)))
        ending = sorted({tables.fact(n) for r in rules if "ends" in r.flags for n in facts_of(r)})
        f.write("const uint16_t rule_ending_facts[] = {%s};\nconst size_t rule_ending_facts_count = %d;\n\n"
                % (numbers(ending), len(ending)))
        warned = sorted({tables.fact(r.count[0]) for r in rules if "warned" in r.flags})
        f.write("const bool rule_fact_is_warned_of[RULE_FACTS] = {%s};\n\n"
                % ", ".join("[%d] = true" % n for n in warned))
        f.write("const struct rule_index rule_indexes[] = {\n")
        for s in scopes:
            n = "rule_words_" + re.sub(r"\W", "_", s)
            f.write("    [%s] = {&%s, %s_rules, %s_always, %d},\n" % (enum_name("SCOPE_", s), n, n, n, sum(s in r.scopes for r in rules)))
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
