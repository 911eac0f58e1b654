# SPDX-License-Identifier: Apache-2.0
"""wording_table.py NAME WEIGHT_UNIT IN.tsv OUT.c: a table of words as a struct wording_table (diagnose/wording_table.h), half as large in the wheel."""

import os
import sys


SHARED_MAX = 25
WORD_MAX = 50


def without_shared(words):
    """-> each word without the letters that it shares with the one before, and how many these are"""
    before = ""
    for word in words:
        same = len(os.path.commonprefix([before, word[:SHARED_MAX]]))
        yield chr(ord("A") + same) + word[same:]
        before = word


def array(kind, name, items, separator=", "):
    return f"static const {kind} {name}[] = {{{separator.join(items)}}};\n"


def main(name, weight_unit, table, out):
    with open(table, encoding="utf-8") as file:
        head, *rows = [line.rstrip("\n").split("\t") for line in file]
    bias = next(row for row in rows if row[0] == "")
    rows = [row for row in rows if row[0] != ""]
    assert all(a[0] < b[0] for a, b in zip(rows, rows[1:])), "the words are not sorted"
    assert len(rows) <= 16384, "more than WORDS_MAX of wording.c"
    assert len(head) - 2 <= 20, "more than WORDING_COLUMNS_MAX"
    assert max(len(row[0]) for row in rows) < WORD_MAX
    with open(out, "w", encoding="utf-8") as file:
        file.write("/* Made by wording_table.py. */\n#include \"diagnose/wording_table.h\"\n")
        file.write(array("char *const", "names", (f'"{column}"' for column in head[2:])))
        file.write(array("signed char", "bias", bias[2:]))
        file.write(array("char", "words", ("".join(f"'{c}'," for c in word) + "0" for word in without_shared(row[0] for row in rows)), ",\n"))
        file.write(array("signed char", "rarity", (row[1] for row in rows)))
        file.write(array("signed char", "weights", (",".join(row[2:]) for row in rows), ",\n"))
        file.write(f"const struct wording_table wording_{name} = {{{len(rows)}, {len(head) - 2}, {weight_unit}, names, bias, words, rarity, weights}};\n")


main(*sys.argv[1:])
