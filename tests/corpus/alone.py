#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each message of tests/fixtures/alone.tsv, given alone, give the class that stands beside it?"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import collection  # noqa: E402

FIELDS = ("stderr", "dmesg", "smi", "env", "gpu", "rocm", "framework")


def rows_of(path):
    with open(path, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]


def shown(where, text):
    field, before = ("dmesg", "[  100.000000] ") if where == "kernel" else ("stderr", "")
    return dict.fromkeys(FIELDS, "") | {field: before + text}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("driver", "templates", "messages"):
        parser.add_argument("--" + option, required=True)
    a = parser.parse_args()
    rows = rows_of(a.messages)
    answers, _ = collection.Judge(a.driver, a.templates).run([shown(where, text) for where, _, _, text in rows])
    wrong = 0
    for (_, wanted, reason, text), verdict in zip(rows, answers):
        if verdict["class"] != wanted or (wanted == "unknown") == (reason == "-"):
            print(f"{verdict['class']} ({verdict['confidence']}), wanted {wanted} ({reason}): {text}")
            wrong += 1
    print(f"{len(rows)} messages, {wrong} wrong")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
