#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which words stand in reports of which cause, and which in texts that only tell of a failure: learns templates/wording.tsv and
templates/frame.tsv from labelled reports.

  wording.py train REPORTS [FRAMES]          prints the table of causes, or of frames (needs scikit-learn; minutes)
  wording.py check TABLE REPORTS [FRAMES]    was the table learned from these reports, and does it tell them apart? (a test)
  wording.py score REPORTS [FRAMES]          each set, judged by a table that was learned from the other sets

REPORTS is tests/fixtures/reports.jsonl.xz: one JSON object a line (set, id, stderr, dmesg, smi, label, also). All texts are
invented, or retold from public threads; their writers knew the names of the classes and none of the rules. FRAMES is
tests/fixtures/frames.jsonl.xz: pairs of texts with the same messages. In one of them ("own") the author's program failed. In the
other ("told") the failure is quoted, expected, handled, documented, somebody else's. The table of frames counts all reports as "own"; a
told text is not learned where something else failed ("cause"), because it is the report of that. Excerpts of own texts are learned as own, too.

A report is the set of its words and of its pairs of neighbouring words ("older_kernel"). The model is a multinomial logistic
regression over these, weighted by their rarity and scaled to length 1; src/diagnose/wording.c computes the same from the table.
Retold threads count more than texts that were written for a class: real reports are like them."""
import argparse
import collections
import hashlib
import json
import lzma
import math
import random
import re
import sys


class Kind:
    """What a table tells apart."""

    def __init__(self, classes, **settings):
        self.classes = classes
        self.sets_min = settings["sets_min"]  # a word of fewer writers tells who wrote it
        self.words_kept = settings["words_kept"]  # those that tell most; more do not help reports that nobody has seen
        self.weight_min = settings["weight_min"]  # smaller ones are 0
        self.weight_unit = settings["weight_unit"]  # of the table, as src/diagnose/CMakeLists.txt has it
        self.freedom = settings["freedom"]  # the inverse of the penalty for large weights


CAUSE = Kind(("capacity", "fragmentation", "leak", "sdma", "gtt-limit", "held-by-other", "host-oom", "page-fault", "gpu-hang", "hw-ras",
              "arch-mismatch", "no-device", "resource-limit", "collective", "version-mismatch", "app-bug", "unknown"),
             sets_min=3, words_kept=13000, weight_min=0.7, weight_unit=1, freedom=30)
FRAME = Kind(("own", "told"), sets_min=2, words_kept=3000, weight_min=0.0, weight_unit=0.1, freedom=50)
REPORTS_MIN = 3  # with the word
PAIR_RARITY = 0.7  # a pair says again what its words say
RETOLD_WEIGHT = 3
EXCERPT_LINES_MAX = 12
EXCERPTS_A_PAIR = 2
REPORTS_AN_EXCERPT = 3
OWN_WEIGHT = 0.1  # of a report among the frames: there are ten times as many of them
STEPS_MAX = 500
RARITY_UNIT = 0.1  # of the table
BIAS_UNIT = 0.1
RIGHT_MIN = 0.9  # of the reports that it was learned from


def load(path):
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def words_of(report):
    found = set()
    for key in ("stderr", "dmesg", "smi"):
        words = [w.lower() for w in re.findall(r"(?a:(?<![A-Za-z])(?!(?<=<)[A-Za-z]+\d+>)[A-Za-z]{2,24}(?![A-Za-z]))", report.get(key) or "")]
        found.update(words, map("_".join, zip(words, words[1:])))
    return found


def vector(words, rarity):
    known = sorted(w for w in words if w in rarity)
    length = math.sqrt(math.fsum(rarity[w] ** 2 for w in known)) or 1.0
    return [(w, rarity[w] / length) for w in known]


def count_of(report):
    """As how many reports it counts."""
    if report["label"] == "own" and not report["set"].startswith("frame"):
        return OWN_WEIGHT
    return RETOLD_WEIGHT if report["label"] in CAUSE.classes and report["set"].startswith("retold") else 1


def fit(kind, rows, names, reports):
    """-> ([weights of each class], [bias of each class]). The library converges where a few lines of ours would take an hour."""
    import numpy
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    column = {w: k for k, w in enumerate(names)}
    cells = [(row, column[w], x) for row, words in enumerate(rows) for w, x in words if w in column]
    at_row, at_column, value = zip(*cells)
    matrix = csr_matrix((value, (at_row, at_column)), shape=(len(rows), len(names)))
    model = LogisticRegression(C=kind.freedom, max_iter=STEPS_MAX)
    model.fit(matrix, [kind.classes.index(r["label"]) for r in reports], sample_weight=[count_of(r) for r in reports])
    if len(kind.classes) == 2:  # the library has the weights of the second class against the first one
        return numpy.vstack([0 * model.coef_, model.coef_]), [0.0, *model.intercept_]
    return model.coef_, model.intercept_


def learn(kind, reports):
    """-> ({word: rarity}, {word: [weight of each class]}, [bias of each class]), in the units of the table"""
    words = [words_of(r) for r in reports]
    count = collections.Counter(w for found in words for w in found)
    sets = collections.defaultdict(set)
    for r, found in zip(reports, words):
        for w in found:
            sets[w].add(r["set"])
    rarity = {w: round(math.log(len(reports) / n) * (PAIR_RARITY if "_" in w else 1) / RARITY_UNIT)
              for w, n in count.items() if n >= REPORTS_MIN and len(sets[w]) >= kind.sets_min}
    names = sorted(w for w in rarity if rarity[w] > 0)
    weights, _ = fit(kind, [vector(found, rarity) for found in words], names, reports)
    spread = abs(weights - weights.mean(axis=0)).max(axis=0)
    tells = {w: spread[k] * rarity[w] * math.sqrt(count[w]) for k, w in enumerate(names)}
    names = sorted(sorted(names, key=lambda w: -tells[w])[:kind.words_kept])
    rarity = {w: rarity[w] for w in names}
    weights, bias = fit(kind, [vector(found, rarity) for found in words], names, reports)
    weight = {w: [round(float(v) / kind.weight_unit) if abs(v) > kind.weight_min else 0 for v in weights[:, k]] for k, w in enumerate(names)}
    return rarity, weight, [round(float(b) / BIAS_UNIT) for b in bias]


def shares(kind, row, weight, bias):
    sums = [b * BIAS_UNIT for b in bias]
    for w, x in row:
        for k, v in enumerate(weight[w]):
            sums[k] += v * kind.weight_unit * x
    top = max(sums)
    powers = [math.exp(s - top) for s in sums]
    whole = sum(powers)
    return [p / whole for p in powers]


def digest(reports):
    return hashlib.sha256(json.dumps(reports, sort_keys=True).encode()).hexdigest()[:16]


def table(kind, reports):
    rarity, weight, bias = learn(kind, reports)
    yield "\t".join(("word", "rarity", *kind.classes))
    yield "\t".join(("", digest(reports), *map(str, bias)))
    for w in sorted(rarity):
        yield "\t".join((w, str(rarity[w]), *map(str, weight[w])))


def check(kind, reports, path):
    with open(path, encoding="utf-8") as file:
        _, bias, *rows = [line.rstrip("\n").split("\t") for line in file]
    if bias[1] != digest(reports):
        print(f"{path} was learned from other reports ({bias[1]}, these are {digest(reports)}): run 'wording.py train'")
        return 1
    rarity = {row[0]: int(row[1]) for row in rows}
    weight = {row[0]: list(map(int, row[2:])) for row in rows}
    right = 0
    for r in reports:
        share = shares(kind, vector(words_of(r), rarity), weight, list(map(int, bias[2:])))
        right += kind.classes[max(range(len(share)), key=lambda k: share[k])] == r["label"]
    print(f"{right} of {len(reports)} reports that it was learned from are told apart by {len(rows)} words and pairs")
    return 0 if right >= RIGHT_MIN * len(reports) else 1


def score_causes(rows):
    strict = lenient = 0
    bins = collections.defaultdict(lambda: [0, 0])
    for r, share in rows:
        best = max(range(len(share)), key=lambda k: share[k])
        right = CAUSE.classes[best] in [r["label"], *(r.get("also") or [])]
        strict += CAUSE.classes[best] == r["label"]
        lenient += right
        bins[min(int(share[best] * 10), 6)][0] += right
        bins[min(int(share[best] * 10), 6)][1] += 1
    return (f"strict {100 * strict / len(rows):.1f} %, lenient {100 * lenient / len(rows):.1f} %; right by share: " +
            ", ".join(f"{10 * b} %: {n} of {of}" for b, (n, of) in sorted(bins.items())))


def score_frames(rows):
    """How many of each label are "told" with so much certainty?"""
    lines = []
    for label in FRAME.classes:
        mine = sorted(share[1] for r, share in rows if r["label"] == label)
        if mine:
            lines.append(f"{label}: " + ", ".join(f"{100 * sum(x >= at for x in mine) / len(mine):.1f} % at {at:.2f}" for at in
                                                  (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)))
    return "; ".join(lines)


def score(kind, reports):
    """A set of causes, or of frames with a tenth of the reports, is judged by what the others teach."""
    names = sorted({r["set"] for r in reports})
    if kind is FRAME:
        names = [name for name in names if name.startswith("frame")]
    for name in names:
        mine = [k for k, r in enumerate(reports) if r["set"] == name or (kind is FRAME and not r["set"].startswith("frame") and k % 10 == 0)]
        held = set(mine)
        rarity, weight, bias = learn(kind, [r for k, r in enumerate(reports) if k not in held])
        rows = [(reports[k], shares(kind, vector(words_of(reports[k]), rarity), weight, bias)) for k in mine]
        if kind is FRAME:
            print(f"{name}: {score_frames([row for row in rows if row[0]['set'] == name])}; reports: "
                  f"{score_frames([row for row in rows if row[0]['set'] != name])}", flush=True)
        else:
            print(f"{name}: {len(rows)} reports, {score_causes(rows)}", flush=True)
    return 0


def excerpt(report, chance):
    """Some lines of a report: they read like a log in a document, and are none."""
    lines = [line for key in ("stderr", "dmesg", "smi") for line in (report.get(key) or "").split("\n") if line.strip()]
    count = chance.randint(3, max(3, min(EXCERPT_LINES_MAX, len(lines) // 2)))
    start = chance.randint(0, max(0, len(lines) - count))
    return {"set": report["set"], "label": "own", "stderr": "\n".join(lines[start:start + count])}


def load_frames(reports, frames):
    own = [dict(r, label="own") for r in load(reports) if r["label"] != "unknown"]
    pairs = [r for r in load(frames) if r["label"] == "own" or r["cause"] == "unknown"]
    chance = random.Random(1)
    excerpts = [excerpt(r, chance) for r in own[::REPORTS_AN_EXCERPT]]
    excerpts += [excerpt(r, chance) for r in pairs if r["label"] == "own" for _ in range(EXCERPTS_A_PAIR)]
    return own + pairs + excerpts


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("train", "check", "score"))
    p.add_argument("files", nargs="+", help="check: the table; then reports, then frames")
    a = p.parse_args()
    path = a.files.pop(0) if a.what == "check" else None
    kind = FRAME if len(a.files) == 2 else CAUSE
    reports = load_frames(*a.files) if kind is FRAME else load(a.files[0])
    if a.what == "check":
        sys.exit(check(kind, reports, path))
    if a.what == "score":
        sys.exit(score(kind, reports))
    print("\n".join(table(kind, reports)))


if __name__ == "__main__":
    main()
