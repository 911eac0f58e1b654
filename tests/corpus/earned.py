# SPDX-License-Identifier: Apache-2.0
"""Confidence that is earned: how often an answer of a class at a level was right, by label (the collection of reports)
and by experiment (tests/long/truth.py: the facts of programs whose cause was found by changing one thing)."""
import argparse
import collections
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../long"))
import truth  # noqa: E402

FIXTURE = os.path.join(HERE, "../fixtures/truth.tar.xz")
LEVELS = ("high", "medium", "low")
MEMORY = ("capacity", "fragmentation", "leak", "held-by-other")


def by_experiment(driver, templates):
    """[(class, confidence, right)] of the programs that left a bundle."""
    a = argparse.Namespace(out=FIXTURE, driver=driver, templates=templates)
    with tempfile.TemporaryDirectory() as scratch:
        a.out = truth.unpacked(a, scratch)
        with open(os.path.join(a.out, "runs.json"), encoding="utf-8") as file:
            records = json.load(file)
        anew = truth.judged_anew(a, [r["entry"]["name"] for r in records])
    out = []
    for record in records:
        verdict, cause = anew.get(record["entry"]["name"]), truth.truth_of(record)
        if verdict and cause in truth.RIGHT and not (record["entry"]["family"] == "healthy" and cause != "healthy"):
            out.append((verdict["class"], verdict["confidence"], truth.is_right(cause, verdict)))
    return out


def counted(outcomes):
    table = collections.defaultdict(lambda: [0, 0])
    for name, level, right in outcomes:
        for key in ((name, level), ("all", level)):
            table[key][0] += right
            table[key][1] += 1
    return table


def show(by_label, driver, templates):
    """Prints the table; returns how many answers at high confidence an experiment refuted."""
    found = {"label": counted(by_label), "experiment": counted(by_experiment(driver, templates))}
    print("\n== confidence earned: right of answered, by label and by experiment ==")
    print(f"{'':18}" + "".join(f"{level + ' by ' + source:>24}" for level in LEVELS for source in found))
    for name in (*MEMORY, "all"):
        cells = ["{} of {}".format(*found[source][(name, level)]) for level in LEVELS for source in found]
        print(f"{name:18}" + "".join(f"{cell if cell != '0 of 0' else '-':>24}" for cell in cells))
    right, answered = found["experiment"][("all", "high")]
    return answered - right
