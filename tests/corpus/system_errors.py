#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the operating system refused, as each language and runtime words it: the class of each row of
tests/fixtures/system_errors.tsv, judged from those lines alone."""
import argparse
import json
import os
import subprocess
import sys

ROWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures/system_errors.tsv")


def rows():
    with open(ROWS, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                classes, text = line.rstrip("\n").split("\t")
                yield classes.split(), text.replace("\\n", "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--templates", required=True)
    a = parser.parse_args()
    wrong = count = 0
    for classes, text in rows():
        done = subprocess.run([a.program, "triage", "--json", "-"], input=text, capture_output=True, text=True, check=False,
                              env={**os.environ, "ROCMCRASH_TEMPLATES": a.templates})
        verdict = json.loads(done.stdout)
        count += 1
        if verdict["class"] not in classes:
            wrong += 1
            print(f"{verdict['class']} ({verdict['confidence']}), not {' or '.join(classes)}: {text!r}")
    print(f"{count - wrong} of {count} right")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
