#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which words stand in reports of which cause: learns templates/wording.tsv from labelled reports.

  wording.py train REPORTS          prints the table (needs scikit-learn; minutes)
  wording.py check REPORTS TABLE    was the table learned from these reports, and does it tell them apart? (a test)
  wording.py score REPORTS [PART]   each set whose name begins with PART, judged by a table that was learned from the other sets

REPORTS is tests/fixtures/reports.jsonl.xz: one JSON object a line (set, id, stderr, dmesg, smi, label, also). All texts are
invented, or retold from public threads; their writers knew the names of the classes and none of the rules. A report is the set
of its words and of its pairs of neighbouring words ("older_kernel"). The model is a multinomial logistic regression over these,
weighted by their rarity and scaled to length 1; src/diagnose/wording.c computes the same from the table. Retold threads count
more than texts that were written for a class: real reports are like them."""
import argparse
import collections
import hashlib
import json
import lzma
import math
import re
import sys

CLASSES = ("capacity", "fragmentation", "leak", "sdma", "gtt-limit", "held-by-other", "host-oom", "page-fault", "gpu-hang", "hw-ras",
           "arch-mismatch", "no-device", "resource-limit", "collective", "version-mismatch", "app-bug", "unknown")
REPORTS_MIN = 3  # with the word
SETS_MIN = 3  # and of so many writers; a word of fewer tells who wrote it
WORDS_KEPT = 9700  # those that tell most; more do not help reports that nobody has seen
WEIGHT_MIN = 1.0  # smaller ones are 0: they tell no more, and cost 14 kB
PAIR_RARITY = 0.7  # a pair says again what its words say
RETOLD_WEIGHT = 3
FREEDOM = 30  # the inverse of the penalty for large weights
STEPS_MAX = 300
RARITY_UNIT = 0.1  # of the table; its weights are whole numbers: finer ones do not help
BIAS_UNIT = 0.1
RIGHT_MIN = 0.9  # of the reports that it was learned from


def load(path):
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def words_of(report):
    found = set()
    for key in ("stderr", "dmesg", "smi"):
        words = [w.lower() for w in re.findall(r"(?a:(?<![A-Za-z])[A-Za-z]{2,24}(?![A-Za-z]))", report.get(key) or "")]
        found.update(words, map("_".join, zip(words, words[1:])))
    return found


def vector(words, rarity):
    known = sorted(w for w in words if w in rarity)
    length = math.sqrt(math.fsum(rarity[w] ** 2 for w in known)) or 1.0
    return [(w, rarity[w] / length) for w in known]


def fit(rows, names, reports):
    """-> a fitted model. The library converges where a few lines of ours would take an hour."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    column = {w: k for k, w in enumerate(names)}
    cells = [(row, column[w], x) for row, words in enumerate(rows) for w, x in words if w in column]
    at_row, at_column, value = zip(*cells)
    matrix = csr_matrix((value, (at_row, at_column)), shape=(len(rows), len(names)))
    weight = [RETOLD_WEIGHT if r["set"].startswith("retold") else 1 for r in reports]
    model = LogisticRegression(C=FREEDOM, max_iter=STEPS_MAX)
    return model.fit(matrix, [CLASSES.index(r["label"]) for r in reports], sample_weight=weight)


def learn(reports):
    """-> ({word: rarity}, {word: [weight of each class]}, [bias of each class]), in the units of the table"""
    words = [words_of(r) for r in reports]
    count = collections.Counter(w for found in words for w in found)
    sets = collections.defaultdict(set)
    for r, found in zip(reports, words):
        for w in found:
            sets[w].add(r["set"])
    rarity = {w: round(math.log(len(reports) / n) * (PAIR_RARITY if "_" in w else 1) / RARITY_UNIT)
              for w, n in count.items() if n >= REPORTS_MIN and len(sets[w]) >= SETS_MIN}
    names = sorted(w for w in rarity if rarity[w] > 0)
    model = fit([vector(found, rarity) for found in words], names, reports)
    spread = abs(model.coef_ - model.coef_.mean(axis=0)).max(axis=0)
    tells = {w: spread[k] * rarity[w] * math.sqrt(count[w]) for k, w in enumerate(names)}
    names = sorted(sorted(names, key=lambda w: -tells[w])[:WORDS_KEPT])
    rarity = {w: rarity[w] for w in names}
    model = fit([vector(found, rarity) for found in words], names, reports)
    weight = {w: [round(float(v)) if abs(v) > WEIGHT_MIN else 0 for v in model.coef_[:, k]] for k, w in enumerate(names)}
    return rarity, weight, [round(float(b) / BIAS_UNIT) for b in model.intercept_]


def shares(row, weight, bias):
    sums = [b * BIAS_UNIT for b in bias]
    for w, x in row:
        for k, v in enumerate(weight[w]):
            sums[k] += v * x
    top = max(sums)
    powers = [math.exp(s - top) for s in sums]
    whole = sum(powers)
    return [p / whole for p in powers]


def digest(reports):
    return hashlib.sha256(json.dumps(reports, sort_keys=True).encode()).hexdigest()[:16]


def table(reports):
    rarity, weight, bias = learn(reports)
    yield "\t".join(("word", "rarity", *CLASSES))
    yield "\t".join(("", digest(reports), *map(str, bias)))
    for w in sorted(rarity):
        yield "\t".join((w, str(rarity[w]), *map(str, weight[w])))


def check(reports, path):
    with open(path, encoding="utf-8") as file:
        _, bias, *rows = [line.rstrip("\n").split("\t") for line in file]
    if bias[1] != digest(reports):
        print(f"{path} was learned from other reports ({bias[1]}, these are {digest(reports)}): run 'wording.py train'")
        return 1
    rarity = {row[0]: int(row[1]) for row in rows}
    weight = {row[0]: list(map(int, row[2:])) for row in rows}
    right = 0
    for r in reports:
        share = shares(vector(words_of(r), rarity), weight, list(map(int, bias[2:])))
        right += CLASSES[max(range(len(CLASSES)), key=lambda k: share[k])] == r["label"]
    print(f"{right} of {len(reports)} reports that it was learned from are told apart by {len(rows)} words and pairs")
    return 0 if right >= RIGHT_MIN * len(reports) else 1


def score(reports, part):
    for name in sorted({r["set"] for r in reports if r["set"].startswith(part)}):
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
    p.add_argument("table", nargs="?", default="", help="the table, or the part of a name")
    a = p.parse_args()
    reports = load(a.reports)
    if a.what == "check":
        sys.exit(check(reports, a.table))
    if a.what == "score":
        sys.exit(score(reports, a.table))
    print("\n".join(table(reports)))


if __name__ == "__main__":
    main()
