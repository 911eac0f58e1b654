#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which words stand in reports of which cause: learns templates/wording.tsv from labelled reports.

  wording.py train REPORTS          prints the table
  wording.py check REPORTS TABLE    is the table what these reports give? (a test)
  wording.py score REPORTS   each set judged by a table that was learned from the other sets

REPORTS is tests/fixtures/reports.jsonl.xz: one JSON object a line (set, id, stderr, dmesg, smi, label, also). All texts are
invented; their writers knew the names of the classes and none of the rules. A report is the set of its words. The model is a
multinomial logistic regression over these words, weighted by their rarity and scaled to length 1; src/diagnose/wording.c
computes the same from the table."""
import argparse
import collections
import json
import lzma
import math
import random
import re
import sys

CLASSES = ("capacity", "fragmentation", "leak", "sdma", "gtt-limit", "held-by-other", "host-oom", "page-fault", "gpu-hang", "hw-ras",
           "arch-mismatch", "no-device", "resource-limit", "collective", "version-mismatch", "app-bug", "unknown")
REPORTS_MIN = 3  # with the word
SETS_MIN = 3  # and of so many writers; a word of fewer tells who wrote it
EPOCHS = 10
RATE = 0.2
DECAY = 3e-4
SCALE = 10  # the table holds tenths


def load(path):
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def words_of(report):
    text = "\n".join(report.get(key) or "" for key in ("stderr", "dmesg", "smi"))
    return {w.lower() for w in re.findall(r"(?a:(?<![A-Za-z])[A-Za-z]{2,24}(?![A-Za-z]))", text)}


def vector(words, rarity):
    known = sorted(w for w in words if w in rarity)
    length = math.sqrt(math.fsum(rarity[w] ** 2 for w in known)) or 1.0
    return [(w, rarity[w] / length) for w in known]


def learn(reports):
    """-> ({word: rarity}, {word: [weight of each class]}, [bias of each class])"""
    count = collections.Counter(w for r in reports for w in words_of(r))
    sets = collections.defaultdict(set)
    for r in reports:
        for w in words_of(r):
            sets[w].add(r["set"])
    rarity = {w: math.log(len(reports) / n) for w, n in sorted(count.items()) if n >= REPORTS_MIN and len(sets[w]) >= SETS_MIN}
    weight = {w: [0.0] * len(CLASSES) for w in rarity}
    past = {w: [1e-8] * len(CLASSES) for w in rarity}  # squares of the earlier steps (AdaGrad)
    bias = [0.0] * len(CLASSES)
    rows = [(vector(words_of(r), rarity), CLASSES.index(r["label"])) for r in reports]
    order = random.Random(1)
    for _ in range(EPOCHS):
        order.shuffle(rows)
        for row, label in rows:
            share = shares(row, weight, bias)
            for k in range(len(CLASSES)):
                error = share[k] - (k == label)
                bias[k] -= 0.05 * error
                for w, x in row:
                    step = error * x + DECAY * weight[w][k]
                    past[w][k] += step * step
                    weight[w][k] -= RATE * step / math.sqrt(past[w][k])
    return rarity, weight, bias


def shares(row, weight, bias):
    sums = list(bias)
    for w, x in row:
        for k, v in enumerate(weight[w]):
            sums[k] += v * x
    top = max(sums)
    powers = [math.exp(s - top) for s in sums]
    whole = sum(powers)
    return [p / whole for p in powers]


def table(reports):
    rarity, weight, bias = learn(reports)
    yield "\t".join(("word", "rarity", *CLASSES))
    yield "\t".join(("", "0", *(str(round(SCALE * b)) for b in bias)))
    for w in sorted(rarity):
        yield "\t".join((w, str(round(SCALE * rarity[w])), *(str(round(SCALE * v)) for v in weight[w])))


def check(reports, path):
    """Numbers may differ by one: the last digit depends on the C library."""
    with open(path, encoding="utf-8") as file:
        have = [line.rstrip("\n").split("\t") for line in file]
    want = [line.split("\t") for line in table(reports)]
    bad = [f"{len(have)} rows, {len(want)} are learned"] if len(have) != len(want) else []
    for a, b in zip(have, want):
        if a[0] != b[0] or (a[0] != "word" and any(abs(int(x) - int(y)) > 1 for x, y in zip(a[1:], b[1:]))):
            bad.append(f"row '{a[0]}': {a[1:]}, learned '{b[0]}': {b[1:]}")
    for line in bad[:5]:
        print(line)
    return 1 if bad else 0


def score(reports):
    for name in sorted({r["set"] for r in reports}):
        rarity, weight, bias = learn([r for r in reports if r["set"] != name])
        mine = [r for r in reports if r["set"] == name]
        strict = lenient = 0
        bins = collections.defaultdict(lambda: [0, 0])
        for r in mine:
            share = shares(vector(words_of(r), rarity), weight, bias)
            best = max(range(len(CLASSES)), key=lambda k: share[k])
            right = CLASSES[best] in [r["label"], *(r.get("also") or [])]
            strict += CLASSES[best] == r["label"]
            lenient += right
            bins[min(int(share[best] * 10), 6)][0] += right
            bins[min(int(share[best] * 10), 6)][1] += 1
        print(f"{name}: {len(mine)} reports, strict {100 * strict / len(mine):.1f} %, lenient {100 * lenient / len(mine):.1f} %; right by share:",
              ", ".join(f"{10 * b} %: {n} of {of}" for b, (n, of) in sorted(bins.items())))
    return 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("train", "check", "score"))
    p.add_argument("reports")
    p.add_argument("table", nargs="?")
    a = p.parse_args()
    reports = load(a.reports)
    if a.what == "check":
        sys.exit(check(reports, a.table))
    if a.what == "score":
        sys.exit(score(reports))
    print("\n".join(table(reports)))


if __name__ == "__main__":
    main()
