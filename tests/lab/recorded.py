# SPDX-License-Identifier: Apache-2.0
"""Traces of real programs (tests/fixtures/traces, made by tests/long/record_traces.py) as steps of operations."""
import glob
import gzip
import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "traces")


def names():
    return sorted(os.path.basename(path)[:-len(".trace.gz")] for path in glob.glob(FOLDER + "/*.trace.gz"))


def read(name):
    """(header, steps). A step may hold ("r", bytes): asked for, refused, and PyTorch did without."""
    with gzip.open(os.path.join(FOLDER, name + ".trace.gz"), "rt", encoding="ascii") as file:
        header = json.loads(file.readline())
        steps, step = [], []
        for line in file:
            what, *rest = line.split()
            if what == "s":
                steps.append(step)
                step = []
            else:
                step.append((what, *map(int, rest)))
    return header, steps + [step]
