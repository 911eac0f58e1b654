#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a verdict about an NVIDIA machine speak of AMD's drivers and tools?

Judges the facts of the programs of tests/fixtures/truth.tar.xz (recorded on an NVIDIA GPU) and fails for each sentence that names what such
a machine does not have. Sources within [brackets] and of the account are those of the recorded facts: they are left out.
"""
import argparse
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../long"))
import truth  # noqa: E402

AMD = re.compile(r"\bKFD\b|amdgpu|sysfs|\bHIP\b|HIP_VISIBLE|amd-smi(?!.*nvidia-smi)|rocm-smi|rocminfo|ROCm|AMD_LOG|/dev/kfd|mem_info_|drm/amd")
SAID = ("sentence", "why", "against", "advice", "verify", "file_at", "missing", "also")


def texts(value):
    if isinstance(value, str):
        yield re.sub(r"\[[^\[\]]*\]", "", value)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--templates", required=True)
    a = parser.parse_args()
    a.out, wrong, count = os.path.join(HERE, "../fixtures/truth.tar.xz"), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        a.out = truth.unpacked(a, scratch)
        with open(os.path.join(a.out, "runs.json"), encoding="utf-8") as file:
            names = [record["entry"]["name"] for record in json.load(file)]
        for name, verdict in truth.judged_anew(a, names).items():
            for part in SAID:
                for text in texts(verdict.get(part)):
                    count += 1
                    if AMD.search(text):
                        print(f"{name}: {part}: {text[:200]}")
                        wrong += 1
    print(f"{count} sentences about an NVIDIA machine, {wrong} of them name what it has not")
    return 1 if wrong or count < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
