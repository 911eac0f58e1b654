#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is every threshold of the tree tested on both of its sides?

Each number in a node's test, in what makes it sure, or in a term is made a tenth smaller and a tenth larger, one at a time; some fixture of
tests/fixtures/tree must then give another answer than it gives now. What no fixture notices is listed; the test fails
for those that ALLOWED does not name with a reason. It is slow, so the default run only checks the answers of the
fixtures (--answers); the numbers are changed in full with no option.
"""
import argparse, json, os, re, subprocess, sys, tempfile

import tree_files

NUMBER = re.compile(r"(?<![\w.'])(\d+(?:\.\d+)?)(?![\w.'])")
QUOTED = re.compile(r"'[^']*'")
# constant -> why no fixture can notice a tenth
ALLOWED = {
    ("other-allocator-in-process", "0.5", "smaller"): "held-by-others is asked first, with the same number from the other side",
    ("engine-setting", "0.8", "smaller"): "engine-start-occupied is asked first, with the same number from the other side",
    ("allocation-cap-by-ledger", "100", "larger"): "a request above the whole GPU is no cap's (and larger-than-gpu-by-ledger is asked first)",
    ("queue-without-resources", "1", "smaller"): "queue-without-memory is asked first, with the same number from the other side",
}


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f)


def fixture_rows(folder):
    """-> [(facts, expected answer or None, what)]"""
    nodes, rows = read(folder, "nodes.json"), []
    for row in nodes + read(folder, "worked.json"):
        rows.append((row["facts"], None, ""))
        if "not" in row:
            rows.append((row["not"] if "facts" in row["not"] else {**row["facts"], **row["not"]}, None, ""))
    base = {row["node"]: row["facts"] for row in nodes}
    for edge in read(folder, "edges.json"):
        for side in edge["sides"]:
            want = side["is"] + (" " + side["advice"] if "advice" in side else "")
            rows.append(({**base.get(edge["base"], {}), **edge["with"], **side["facts"]}, want, edge["what"]))
    return rows


def as_list(row):
    """The fixture's facts with the two logs read, as fixture_facts() of the unit tests does."""
    if "facts" in row and isinstance(row["facts"], list):
        names = {f["name"] for f in row["facts"]}
        extra = [{"name": n, "value": True, "when": "static", "source": "test"}
                 for n in ("log.output_read", "kmsg.readable") if n not in names]
        return {**row, "facts": row["facts"] + extra}
    full = {"log.output_read": True, "kmsg.readable": True, **row}
    return {k: v for k, v in full.items() if v is not None}


class Answers:
    def __init__(self, driver, templates, rows, folder):
        self.command = [driver, os.path.join(folder, "tree.json"), os.path.join(templates, "defects.json"), "--batch"]
        self.tree_path, lines = self.command[1], []
        for i, row in enumerate(rows):
            facts, args = os.path.join(folder, f"{i}.json"), os.path.join(folder, f"{i}.args")
            with open(facts, "w", encoding="utf-8") as f:
                json.dump(as_list(row), f)
            with open(args, "w", encoding="utf-8") as f:
                f.write(f"--facts\n{facts}\n")
            lines.append(args)
        self.input = "\n".join(lines) + "\n"

    def of(self, tree):
        with open(self.tree_path, "w", encoding="utf-8") as f:
            json.dump(tree, f)
        run = subprocess.run(self.command, input=self.input, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(run.stderr)
        return [f"{v['path'][-1]['node']} {v['confidence']} {first_advice(v)}" for v in map(json.loads, run.stdout.splitlines())]


def first_advice(verdict):
    return verdict["advice"][0] if verdict.get("advice") else ""


def is_as_named(got, want):
    """`want`: a node, its confidence, how the first advice begins; as much of it as the fixture names."""
    return want is None or got.split()[0] == want or got.startswith(want)


def places(tree):
    """(holder, key, where) of every expression that decides an answer."""
    for name in tree["terms"]:
        yield from lines(tree["terms"], name, name)
    for node in tree["nodes"]:
        yield from lines(node, "test", node["id"])
        for level in node.get("confidence", {}):
            yield from lines(node["confidence"], level, f"{node['id']} {level}")


def lines(holder, key, where):
    """A condition is a text or a list of lines."""
    if isinstance(holder[key], list):
        for i in range(len(holder[key])):
            yield holder[key], i, where
    else:
        yield holder, key, where


def numbers(text):
    quoted = [m.span() for m in QUOTED.finditer(text)]
    for m in NUMBER.finditer(text):
        if float(m.group(1)) != 0 and not any(a <= m.start() < b for a, b in quoted):
            yield m


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--driver", required=True)
    p.add_argument("--templates", required=True)
    p.add_argument("--fixtures", required=True)
    p.add_argument("--answers", action="store_true", help="only that the fixtures give the answers that they name")
    a = p.parse_args()
    tree = tree_files.load(a.templates)
    unseen, total = [], 0
    with tempfile.TemporaryDirectory() as folder:
        rows = fixture_rows(a.fixtures)
        answers = Answers(a.driver, a.templates, [row[0] for row in rows], folder)
        now = answers.of(tree)
        wrong = [(what, got, want) for (_, want, what), got in zip(rows, now)
                 if not is_as_named(got, want)]
        for holder, key, where in () if a.answers else places(tree):
            text = holder[key]
            for m in numbers(text):
                total += 1
                missed = []
                for factor in (0.9, 1.1):
                    value = float(m.group(1)) * factor
                    if float(m.group(1)).is_integer() and float(m.group(1)) < 10 and "iB" not in text[m.end():m.end() + 5]:
                        value = float(m.group(1)) + (1 if factor > 1 else -1)  # a count
                    holder[key] = f"{text[:m.start()]}{value:.6f}{text[m.end():]}"
                    if answers.of(tree) == now:
                        missed.append("smaller" if factor < 1 else "larger")
                holder[key] = text
                missed = [side for side in missed if (where, m.group(1), side) not in ALLOWED]
                if missed:
                    around = text[max(0, m.start() - 45):m.end() + 8]
                    unseen.append((where, m.group(1), "/".join(missed), around))
    for what, got, want in wrong:
        print(f"{what}: {got}, not {want}")
    for where, number, side, around in unseen:
        print(f"{where:18} {number:>6} {side:15} ...{around}")
    print(f"{total} thresholds, {len(unseen)} with a side that no fixture notices ({len(ALLOWED)} known and explained); "
          f"{len(rows)} fixtures")
    sys.exit(1 if unseen or wrong else 0)


if __name__ == "__main__":
    main()
