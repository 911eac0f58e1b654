# SPDX-License-Identifier: Apache-2.0
"""The automaton of base/words.h: made from a list of words, and written as C tables."""

import sys
from collections import deque

STRIDE = 128  # WORDS_STRIDE of base/words.h


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
            if fold and b < 0x80:
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
