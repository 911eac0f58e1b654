#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is every fact that is written registered, and of the type that is registered?

Over the facts of all labelled reports and of the tree's fixtures (what is computed of them): the driver prints them. Facts of bundles are checked by the tests that
make bundles, by wrong_facts() below.
"""
import argparse, importlib.machinery, importlib.util, json, os, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import collection, thresholds

SOURCE = os.path.dirname(os.path.dirname(HERE))
PYTHON = {"integer": (int,), "number": (int, float), "text": (str,), "boolean": (bool,)}


def registry():
    loader = importlib.machinery.SourceFileLoader("lint_facts", os.path.join(SOURCE, "tests", "lint", "facts"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint_facts", loader))
    loader.exec_module(module)
    return module, module.Registry(SOURCE)


def fits(value, kind):
    return isinstance(value, PYTHON[kind]) and (kind == "boolean") == isinstance(value, bool)


def wrong_facts(facts, lint, known):
    """-> sentences about facts (of a facts.json) that nobody has registered, or with another type."""
    for fact in facts:
        name = lint.normal(fact["name"])
        row = known.rows.get(name)
        if fact.get("source") == "facts file":  # written by hand
            continue
        if not known.knows(name):
            yield f"{fact['name']} is not registered (templates/facts.tsv)"
        if "value" not in fact:
            continue
        value = int(fact["value"]) if fact.get("type") == "integer" else fact["value"]
        if row is not None and not fits(value, row["type"]):
            yield f"{fact['name']} = {value!r} is no {row['type']} (templates/facts.tsv)"
        if lint.unit_of(name) and isinstance(value, (bool, str)):
            yield f"{fact['name']} = {value!r} has a unit in its name and is no number"


def cases(folder):
    shared = os.path.join(SOURCE, "..", "shared")
    for i, case in enumerate(collection.load(shared)):
        yield collection.write_case(collection.fields(case), folder, f"case{i}")
    for i, (facts, _, _) in enumerate(thresholds.fixture_rows(os.path.join(SOURCE, "tests", "fixtures", "tree"))):
        path = os.path.join(folder, f"fixture{i}")
        with open(path + ".json", "w", encoding="utf-8") as f:
            json.dump(thresholds.as_list(facts), f)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"--facts\n{path}.json\n")
        yield path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--driver", required=True)
    p.add_argument("--templates", required=True)
    a = p.parse_args()
    lint, known = registry()
    wrong, count = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = list(cases(folder))
        for path in paths:
            with open(path, "a", encoding="utf-8") as f:
                f.write("--dump\n")
        run = subprocess.run([a.driver, os.path.join(a.templates, "tree.json"), os.path.join(a.templates, "defects.json"), "--batch"],
                             input="\n".join(paths) + "\n", capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"driver failed: {run.stderr.strip()}")
    for line in run.stdout.splitlines()[0::2]:
        facts = json.loads(line)["facts"]
        count += len(facts)
        wrong.update(dict.fromkeys(wrong_facts(facts, lint, known)))
    for sentence in wrong:
        print(sentence)
    print(f"{count} facts of {len(paths)} cases, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
