#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPU programs as people write them, each with the author's claim of why it ends as it does.

usage: programs.py NAME | --list [--json] [--family FAMILY]
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import capacities, fragmentations, growths, healthy, held, leaks, leaks_of_libraries  # noqa: E401,F401,E402
import registry  # noqa: E402


def show(entries, as_json):
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for entry in entries:
        mark = "unseen" if entry["unseen"] else "seen"
        print(f"{entry['family']:14} {entry['name']:32} {entry['ending']:10} {mark:7} {entry['description']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--family")
    arguments = parser.parse_args()
    if arguments.list:
        show([e for e in registry.listing() if arguments.family in (None, e["family"])], arguments.json)
        return
    entries = [p for p in registry.PROGRAMS if p.name == arguments.name]
    if not entries:
        parser.error("no such program; --list names them")
    registry.execute(entries[0])


if __name__ == "__main__":
    main()
