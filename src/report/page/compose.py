#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the page's one file out of its parts, as C: page.html with styles and scripts in it, cut at
its {{marks}}. The content security policy names the scripts and styles by hash: nothing else runs,
nothing is fetched.

usage: compose.py FOLDER OUTPUT.c [CHART-LIBRARY.js CHART-LIBRARY.css LICENCE]
"""
import base64
import hashlib
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read().replace("\r\n", "\n")


def csp_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def c_array(name, text):
    data = text.encode()
    lines = [",".join(str(b) for b in data[i:i + 32]) for i in range(0, len(data), 32)]
    return "static const char %s[] = {\n%s,0};\n" % (name, ",\n".join(lines) or "0")


def chart_library(paths):
    if not paths:
        return "", ""
    script, style, licence = (read(path) for path in paths)
    notice = "/*! " + licence.strip().replace("*/", "* /") + " */\n"
    return notice + script, notice + style


def main():
    folder, output, library = sys.argv[1], sys.argv[2], sys.argv[3:]
    library_script, library_style = chart_library(library)
    parts = {
        "style": read(os.path.join(folder, "page.css")),
        "script": read(os.path.join(folder, "page.js")),
        "library_script": library_script,
        "library_style": library_style,
    }
    for text in parts.values():
        if re.search(r"</(script|style)", text, re.I):
            sys.exit("compose: a part would end its element")
    parts["script_hashes"] = " ".join(csp_hash(parts[n]) for n in ("library_script", "script"))
    parts["style_hashes"] = " ".join(csp_hash(parts[n]) for n in ("library_style", "style"))
    # The page is split before the parts go in, so that braces in a library are not taken for marks.
    pieces = re.split(r"\{\{(\w+)\}\}", read(os.path.join(folder, "page.html")))
    texts, marks = [pieces[0]], []
    for mark, text in zip(pieces[1::2], pieces[2::2]):
        if mark in parts:
            texts[-1] += parts[mark] + text
        else:
            marks.append(mark)
            texts.append(text)
    with open(output, "w", encoding="utf-8") as out:
        out.write("/* Made by compose.py. */\n#include \"report/page_parts.h\"\n\n#include <stddef.h>\n\n")
        for i, text in enumerate(texts):
            out.write(c_array("text%d" % i, text))
        out.write("const struct page_part page_parts[] = {\n")
        for i in range(len(texts)):
            mark = "\"%s\"" % marks[i] if i < len(marks) else "NULL"
            out.write("    {text%d, %s},\n" % (i, mark))
        out.write("};\nconst size_t page_part_count = %d;\n" % len(texts))


main()
