# SPDX-License-Identifier: Apache-2.0
"""The same reports as people paste them: wrapped, cut, a line lost, other spellings of units. Used by score.py."""
import re
import textwrap

SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(GiB|MiB)\b")
FACTOR = {"GiB": 1 << 30, "MiB": 1 << 20}


def _wrapped(text):
    lines = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, 80, break_on_hyphens=False, drop_whitespace=True) if len(line) > 80 else [line]
    return "\n".join(lines)


def _cut(text):
    return "\n".join(line[:int(len(line) * 0.7)] if len(line) > 40 else line for line in text.split("\n"))


def _without_first(text):
    lines = text.split("\n")
    return "\n".join(lines[1:]) if len(lines) > 3 else text


def _without_last(text):
    lines = text.rstrip("\n").split("\n")
    return "\n".join(lines[:-1]) if len(lines) > 3 else text


def _other_units(text):
    """MiB as MB, GiB as G: what other versions of the same programs print."""
    return SIZE.sub(lambda m: f"{m.group(1)} {'GB' if m.group(2) == 'GiB' else 'MB'}", text)


def _in_mebibytes(text):
    return SIZE.sub(lambda m: f"{float(m.group(1)) * FACTOR[m.group(2)] / (1 << 20):.0f} MiB", text)


MUTATIONS = (("wrapped at 80 columns", _wrapped), ("lines cut at 70 %", _cut), ("without the first line", _without_first),
             ("without the last line", _without_last), ("GB and MB", _other_units), ("all in MiB", _in_mebibytes))


def report(shown, mutation):
    return dict(shown, **{k: mutation(shown[k]) for k in ("stderr", "dmesg", "smi")})
