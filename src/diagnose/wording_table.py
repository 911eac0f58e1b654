# SPDX-License-Identifier: Apache-2.0
"""wording_table.py IN.tsv OUT.c: templates/wording.tsv as the arrays of diagnose/wording_table.h, half as large in the wheel."""

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


def main(table, out):
    with open(table, encoding="utf-8") as file:
        head, *rows = [line.rstrip("\n").split("\t") for line in file]
    bias = next(row for row in rows if row[0] == "")
    rows = [row for row in rows if row[0] != ""]
    assert all(a[0] < b[0] for a, b in zip(rows, rows[1:])), "the words are not sorted"
    assert len(rows) <= 12288, "more than WORDS_MAX of wording.c"
    assert max(len(row[0]) for row in rows) < WORD_MAX
    with open(out, "w", encoding="utf-8") as file:
        file.write("/* Made from templates/wording.tsv. */\n#include \"diagnose/wording_table.h\"\n"
                   f"const size_t wording_count = {len(rows)};\n")
        file.write(f"const char *const wording_classes[WORDING_CLASSES] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in head[2:])}}};\n")
        file.write(f"const signed char wording_bias[WORDING_CLASSES] = {{{', '.join(bias[2:])}}};\n")
        file.write("const char wording_words[] = {\n" + "\n".join("".join(f"'{c}'," for c in word) + "0," for word in without_shared(row[0] for row in rows)) + "\n};\n")
        file.write(f"const signed char wording_rarity[] = {{{','.join(row[1] for row in rows)}}};\n")
        file.write("const signed char wording_weights[][WORDING_CLASSES] = {\n" +
                   "\n".join("{" + ",".join(row[2:]) + "}," for row in rows) + "\n};\n")


main(*sys.argv[1:])
