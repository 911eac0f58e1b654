# SPDX-License-Identifier: Apache-2.0
"""Reads templates/messages.rules, whose head describes the language. A mistake there ends the build with its line."""

import re
import sys

TYPES = "size buffer bytes gib kib count number hex bits real share yes word code text upto".split()
KEEPS = ("first", "last", "sum", "max")
KINDS = ("oom", "fault", "hang", "error", "plain", "report")
# The order in which the kernel classifier asks; harmless forms of a wording come first.
KERNEL_KINDS = {"calm": "AMDGPU", "oom": "OOM", "fault": "FAULT", "hang": "HANG", "driver": "AMDGPU"}


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
    """FACT:TYPE, with "<LIMIT", "(BYTES)" and after it what is kept, in this order."""
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
            raise Mistake("what is taken after '*' needs words after it")
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
