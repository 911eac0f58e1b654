# SPDX-License-Identifier: Apache-2.0
"""usage: words_tables.py OUT.c       automata of words that overlap, and these words (test_words.c)"""
import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src/message_rules"))
from automaton import Automaton  # noqa: E402

WORDS = ["a", "ab", "bab", "bc", "bca", "c", "caa", "abcabc", "abcabcabd", "bcabcab", "aaaa", "\xe9b", "d d", "bab"]
WORDS += ["".join(letters) for letters in itertools.product("abd", repeat=5)][::7]

rows = [(word.encode("latin-1"), number) for number, word in enumerate(WORDS)]
with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write('#include "base/words.h"\n#include "base/words_tables.h"\n')
    out.write(Automaton(rows).c_text("words_as_written") + Automaton(rows, fold=True).c_text("words_in_any_case"))
    out.write("const char *const words_texts[] = {%s, 0};\n" % ", ".join(
        '"%s"' % "".join("\\%03o" % byte for byte in word) for word, _ in rows))
