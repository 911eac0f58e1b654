# SPDX-License-Identifier: Apache-2.0
"""The words of base/words.h, written as C tables. Their automaton's transitions are made at run time."""

import sys

UNIT = 16  # WORDS_UNIT of base/words.h


def numbers(values):
    values = [str(v) for v in values]
    lines = [", ".join(values[i:i + 24]) for i in range(0, len(values), 24)]
    return ",\n    ".join(lines)


class Automaton:
    """Aho and Corasick's, over classes of bytes. `words`: (bytes, id); `fold`: without regard to case."""

    def __init__(self, words, fold=False):
        ids = {}
        for word, ident in words:
            ids.setdefault(word, []).append(ident)
        self.class_of = [1] * 256
        for i, b in enumerate(sorted({b for w in ids for b in w})):
            self.class_of[b] = i + 2
            if fold and b < 0x80:
                self.class_of[ord(chr(b).upper())] = i + 2
        # A state is a beginning of words. The order is breadth-first: children of one state are neighbours.
        states = sorted({w[:n] for w in ids for n in range(len(w) + 1)}, key=lambda s: (len(s), s))
        children = {s: [] for s in states}
        for s in states[1:]:
            children[s[:-1]].append(self.class_of[s[-1]])
        self.children = [children[s] for s in states]
        self.out = [tuple(dict.fromkeys(i for n in range(len(s)) for i in ids.get(s[n:], ()))) for s in states]
        self.units = -(-(max(self.class_of) + 1) // UNIT)
        if len(states) * self.units > 65536:
            sys.exit("too many wordings for an automaton of 16 bits")

    def c_text(self, name):
        """The tree of the words, and for each state where its list of ids begins (each ends with 0xffff)."""
        lists, first = [65535], {(): 0}
        for ids in self.out:
            if ids not in first:
                first[ids] = len(lists)
                lists += [*ids, 65535]
        if len(lists) > 65536:
            sys.exit("too many outputs for an automaton of 16 bits")
        return """static const uint8_t {n}_tree[] = {{
    {tree}}};
static const uint16_t {n}_begins[] = {{
    {begins}}};
static const uint16_t {n}_lists[] = {{
    {lists}}};
struct words {n} = {{
    .class_of = {{{classes}}},
    .starts = {{{starts}}},
    .tree = {n}_tree, .begins = {n}_begins, .lists = {n}_lists, .states = {states}, .units = {units}}};
""".format(n=name, tree=numbers(c for row in self.children for c in row + [0]), begins=numbers(first[ids] for ids in self.out),
           lists=numbers(lists), classes=numbers(self.class_of), starts=numbers(int(c in self.children[0]) for c in self.class_of),
           states=len(self.out), units=self.units)
