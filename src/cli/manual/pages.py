# SPDX-License-Identifier: Apache-2.0
"""pages.py ROCMCRASH SOURCE OUTDIR: the part of rocmcrash(1), which generate.py made, about JSON; rocmcrash-bundle(5) out of templates/schema and the list of collectors, and
rocmcrash-tree(5) out of what templates/tree.json, templates/*.rules and src/diagnose/tree.h say of their languages."""

import json
import os
import re
import subprocess
import sys

from generate import roff

SCHEMAS = ("manifest", "facts", "verdict", "telemetry")


def read(source, *names):
    with open(os.path.join(source, *names), encoding="utf-8") as file:
        return file.read()


def verbatim(lines):
    return "\n".join([".nf", *map(roff, lines), ".fi"])


def about(value):
    """The values that a property of a schema may have, in words."""
    if "const" in value:
        return f"always {json.dumps(value['const'])}"
    if "enum" in value:
        return "one of " + ", ".join(value["enum"])
    kind = value.get("type", "")
    return " or ".join(kind) if isinstance(kind, list) else kind


def properties(schema, inner=False):
    """The properties of an object as a list; those of objects in a list of it below."""
    out = [".RS"] if inner else []
    for name, value in schema["properties"].items():
        need = "" if name in schema.get("required", []) else ", may be missing"
        out += [".TP", f".B {roff(name)}", roff(f"({about(value)}{need}) {value.get('description', '')}")]
        for below in (value, value.get("items", {})):
            if "properties" in below:
                out += properties(below, inner=True)
    for name, value in schema.get("patternProperties", {}).items():
        out += [".TP", f".I {roff('GROUP.NAME')}", roff(f"({about(value)}) {value['description']}")]
    return out + ([".RE"] if inner else [])


def schema_of(source, name):
    return json.loads(read(source, "templates", "schema", name + ".json"))


def schemas(source):
    out = []
    for schema in (schema_of(source, name) for name in SCHEMAS):
        out += [f".SH {roff(schema['title'].upper())}", roff(schema["description"]), *properties(schema)]
    return "\n".join(out)


def outcome(source):
    schema = schema_of(source, "outcome")
    return "\n".join([roff(schema["description"]), *properties(schema)])


def collectors(program):
    text = subprocess.run([program, "collectors"], capture_output=True, text=True, check=True,
                          env={"ROCMCRASH_SYSROOT": "/nonexistent"}).stdout
    out = []
    for line in text.splitlines():
        name, _, words = line.split(None, 2)
        out += [".TP", f".I {name}/", roff(words)]
    return "\n".join(out)


def comment(text, begin, mark):
    """The lines of a comment from the one that holds `begin` to the comment's end, without its mark."""
    lines = text[text.rindex("\n", 0, text.index(begin)) + 1:].splitlines()
    found = []
    for line in lines:
        if not line.lstrip().startswith(mark) or line.strip() == "*/":
            break
        found.append(re.sub(rf"^ ?{re.escape(mark)} ?", "", line))
    return found


def main():
    program, source, outdir = sys.argv[1:]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    made = {
        "@VERSION@": version,
        "@SCHEMAS@": schemas(source),
        "@OUTCOME@": outcome(source),
        "@COLLECTORS@": collectors(program),
        "@TREE@": "\n.PP\n".join(roff(line) for line in json.loads(read(source, "templates", "tree.json"))["how_to_read"]),
        "@LANGUAGE@": verbatim(comment(read(source, "src", "diagnose", "tree.h"), "or, and, not, ( )", "*")),
        "@MESSAGES@": verbatim(comment(read(source, "templates", "messages.rules"), "scope NAME...", "#")),
        "@REDACTION@": verbatim(comment(read(source, "templates", "redaction.rules"), "rule NAME", "#")),
    }
    for page in ("rocmcrash.1", "rocmcrash-bundle.5", "rocmcrash-tree.5"):
        text = read(outdir, page) if page == "rocmcrash.1" else read(source, "src", "cli", "manual", page + ".in")
        for name, words in made.items():
            text = text.replace(name, words)
        with open(os.path.join(outdir, page), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
