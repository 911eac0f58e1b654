#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The laboratory of allocator behaviour: programs by the hundred, their truth by experiment, and rocmcrash's verdict.

usage: laboratory.py [--unseen] [--count N] [--seed S] [--only NAME] [--keep FOLDER] [--judge PROGRAM] [--table FILE]

Each program runs until memory is refused. It runs again under one change at a time: with an ideal allocator, without its
growth, without the other processes, without its memory beside the allocator. A change that lets it run twice as long is
the cause. Then rocmcrash's own hook and collector read the run, and its tree judges it. README.md explains the columns.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import families  # noqa: E402,F401  registers the generators
import experiment  # noqa: E402
import hook_record  # noqa: E402
from program import SEEN, UNSEEN, make_programs  # noqa: E402

TEMPLATES = os.path.join(HERE, "..", "..", "templates")
COLUMNS = ("name", "truth", "accepted", "intent", "capacity", "steps", "operations", "requested", "free", "live",
           "ideal_ratio", "steady_ratio", "alone_ratio", "inside_ratio", "roomier_ratio", "also", "class", "confidence", "node",
           "right")


def write_run(program, folder):
    """Runs it under the hook, and writes the folder that judge_runs reads. Returns the last state of the machine."""
    os.makedirs(folder)
    recorder = hook_record.Recorder(program, folder)
    experiment.run(program, watch=recorder.watch)
    if not recorder.message:
        raise ValueError(f"{program.name} does not fail under the hook")
    facts = [{"name": name, "when": when.lower(), "status": "present", "value": value, "source": "laboratory"}
             for name, when, value in recorder.facts()]
    with open(os.path.join(folder, "facts.json"), "w", encoding="ascii") as file:
        json.dump({"facts": facts}, file)
    with open(os.path.join(folder, "output"), "w", encoding="ascii") as file:
        file.write(hook_record.output_of(recorder))
    with open(os.path.join(folder, "window"), "w", encoding="ascii") as file:
        file.write(f"{hook_record.START_NS} {recorder.now_ns + 10**8}\n")
    recorder.samples.write(folder)


def examine(program, folder):
    """A row for the table; None if the program does not fail."""
    truth = experiment.find_truth(program)
    if truth is None:
        return None
    write_run(program, folder)
    base, ratios = truth.base, truth.ratios
    row = dict(name=program.name, truth=truth.cause, accepted="|".join(truth.classes), intent=truth.intent,
               capacity=program.capacity, steps=base.steps, operations=base.operations, requested=base.requested,
               free=base.free, live=base.peak_live, also="|".join(truth.also))
    for column, change in (("ideal_ratio", "fragmentation"), ("steady_ratio", "growth"),
                           ("alone_ratio", "held-by-other"), ("inside_ratio", "outside"), ("roomier_ratio", "capacity")):
        row[column] = "%.2f" % ratios[change] if change in ratios else ""
    return row


def examine_one(arguments):
    return examine(*arguments)


def judge(driver, folders, *options):
    """The verdict's JSON for each folder (--facts: the facts'), in one process."""
    done = subprocess.run([driver, TEMPLATES, *options],
                          input="".join(folder + "\n" for folder in folders), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def find_judge():
    for build in ("dev", "release"):
        path = os.path.join(HERE, "..", "..", "build", build, "tests", "lab", "judge_runs")
        if os.path.exists(path):
            return path
    sys.exit("laboratory.py: judge_runs is not built (give --judge)")


def grade(row, verdict):
    row["class"], row["confidence"] = verdict["class"], verdict["confidence"]
    row["node"] = verdict["path"][-1]["node"] if verdict.get("path") else ""
    accepted = row["accepted"].split("|")
    # intent cannot be seen from outside: a cache that is meant to grow may be called a leak, but not for sure
    means_to = row["truth"] == "growth" and row["intent"] == "design"
    too_sure = means_to and row["class"] == "leak" and row["confidence"] == "high"
    # one half of a cause: without it alone the program would have failed, too
    half = experiment.TOGETHER in row["truth"] and row["class"] != "capacity" and row["confidence"] != "low"
    row["right"] = row["class"] in accepted and not too_sure and not half


def summary(rows, healthy):
    right = sum(row["right"] for row in rows)
    also = sum(row["right"] or row["class"] == row["also"] for row in rows)
    at_high = [row for row in rows if not row["right"] and row["confidence"] == "high"]
    lines = [f"{len(rows)} programs failed, {healthy} did not; right {right} ({100 * right / max(1, len(rows)):.1f} %), "
             f"wrong at high {len(at_high)}",
             f"if a little more room counts as a change, too: right {also} ({100 * also / max(1, len(rows)):.1f} %)"]
    answers = collections.Counter((row["truth"] + (f" ({row['intent']})" if "growth" in row["truth"] else ""), row["class"],
                                   row["confidence"]) for row in rows)
    for (truth, verdict, confidence), count in sorted(answers.items()):
        lines.append(f"  {truth:30} -> {verdict:16} {confidence:8} {count}")
    return "\n".join(lines)


def work(programs, folder, workers):
    jobs = [(program, os.path.join(folder, program.name)) for program in programs]
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(examine_one, jobs, chunksize=4))
    return [(row, job[1]) for row, job in zip(found, jobs) if row is not None], sum(row is None for row in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unseen", action="store_true", help="the generators that nothing is tuned on")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a generator's name")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the runs' folders there")
    parser.add_argument("--judge", metavar="PROGRAM", help="judge_runs")
    parser.add_argument("--table", metavar="FILE", help="a row a program")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    driver = options.judge or find_judge()
    chosen = [g for g in (UNSEEN if options.unseen else SEEN) if options.only in f"{g.family}.{g.name}"]
    folder = options.keep or tempfile.mkdtemp(prefix="rocmcrash-laboratory-")
    try:
        found, healthy = work(make_programs(chosen, options.count, options.seed), folder, options.workers)
        verdicts = judge(driver, [run for _, run in found])
        rows = [row for row, _ in found]
        for row, verdict in zip(rows, verdicts):
            grade(row, verdict)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if options.table:
        with open(options.table, "w", newline="", encoding="ascii") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    print(summary(rows, healthy))
    return 0


if __name__ == "__main__":
    sys.exit(main())
