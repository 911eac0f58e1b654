# SPDX-License-Identifier: Apache-2.0
"""The same reports with other numbers and other names, so that no rule can know a report by them.

Every amount of memory of a report is scaled by one factor (so that its sums stay true); counters, ids,
line numbers, times and addresses become random; names of people's files, folders, functions, hosts and
processes become other words. What stays is what emitters print: their words, error codes, versions, chip
names, library names, ring names, register values, percentages.
"""
import re

# A part of a text that an emitter means word for word.
KEEP = re.compile(
    r"gfx[0-9a-f_.]+[a-z0-9]*|sm_\d+|lib[\w+.-]*\.so[\d.]*|[\w-]*(?:rocm|ROCm|cuda|CUDA|hip|HIP)[-_ ]?v?\d[\w.]*"
    r"|\b(?:sdma|mes|gmc|page|comp|vcn|vpe|jpeg|gfxhub|mmhub|card|GPU|cuda:|ROCm|CUDA|SDMA)_?v?\d[\w.]*"
    r"|(?:code:?|returned|error|Error|Errno|status|rc =|ret =|hipError_t|driver error)[ :(=]*-?(?:0x)?[0-9a-fA-F]+\b"
    r"|\(-?\d{1,3}\)|\(0x[0-9a-f]{1,4}\)|FAULT_STATUS: ?0x[0-9a-fA-F]+|STATUS=0x[0-9a-f]+|0x0{6,}\b"
    r"|(?:FAULTS|ERROR|RW|src_id|vmid)\s*: ?(?:0x)?[0-9a-f]+|Xid \([^)]*\): \d+|\d+(?:\.\d+){2,}|\b\d+(?:\.\d+)? ?%"
    r"|(?:RX|RTX|MI|Radeon|RAM|Ryzen|MAX\+?|Xeon|firmware|version|Version|PyTorch|torch)[ -]?(?:Pro )?(?:W|AI )?\d[\w.]*"
    r"|oom_score_adj=\S+|gfp_mask=\S+|order=\d+|exit(?:ed)? (?:with )?(?:code|status) \d+", re.S)
SIZE = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)( ?)(bytes?|[KMGT]i?B|kB|kbytes|[KMGT]i|[MGK](?= of)|Mi?\b|G\b)(?![\w-])")
NAME = re.compile(
    r"(?<=/)(?!dev\b|opt\b|sys\b|lib|rocm|kfd|dri\b|srv\b|bundler|python3)[a-z][\w-]*(?=/)|(?<=\\)[A-Za-z][\w .-]*(?=\\)"
    r"|\b[\w-]+(?=\.py\b)|(?<=, in )(?!pin_memory|_pin_memory)[a-z_]\w*|(?<=task=)[^,\s]+"
    r"|(?<=process )[A-Za-z][\w.:-]*(?= pid)|(?<=Process )[A-Za-z][\w.:-]*(?= pid)|(?<=\()[a-z][\w.:-]*(?=\) total-vm)"
    r"|(?<=\d )[a-z][\w-]*(?= (?:kernel|ollama|llama)[\[:])")


def _word(old, rng, known):
    if old not in known:
        known[old] = "".join(rng.choice("bcdfghklmnprstvz" if i % 2 == 0 else "aeiou") for i in range(min(12, max(4, len(old)))))
    return known[old]


def _digits(text, rng):
    first = rng.choice("123456789")
    return first + "".join(rng.choice("0123456789") for _ in text[1:])


def _scaled(number, factor):
    if number.count(",") == 1 and "." not in number and not re.search(r",\d{3}$", number):  # a decimal comma
        return f"{float(number.replace(',', '.')) * factor:.2f}".replace(".", ",")
    plain = number.replace(",", "")
    if "." in plain:
        return f"{float(plain) * factor:.{len(plain.split('.')[1])}f}"
    return str(round(int(plain) * factor))


def _piece(text, rng, factor, known):
    def number(m):
        digits = m.group(0)
        if len(digits) < 3:
            return digits
        return str(round(int(digits) * factor)) if len(digits) >= 5 else _digits(digits, rng)

    out, at = [], 0
    for m in SIZE.finditer(text):
        out.append((text[at:m.start()], True))
        out.append((_scaled(m.group(1), factor) + m.group(2) + m.group(3), False))
        at = m.end()
    out.append((text[at:], True))
    done = []
    for part, change in out:
        if change:
            part = re.sub(r"0x[0-9a-fA-F]{5,}", lambda m: "0x" + _digits(m.group(0)[2:], rng), part)
            part = re.sub(r"(?<![\w.,x])\d+(?![\w.,]*\w)", number, part)
        done.append(part)
    return "".join(done)


def text(original, rng, factor, known):
    named = NAME.sub(lambda m: _word(m.group(0), rng, known), original)
    out, at = [], 0
    for m in KEEP.finditer(named):
        out += [_piece(named[at:m.start()], rng, factor, known), m.group(0)]
        at = m.end()
    return "".join(out) + _piece(named[at:], rng, factor, known)


def machine(original, factor):
    """What the reporter wrote about the machine: its sizes scale with those of the texts."""
    return re.sub(r"\b(\d+(?:\.\d+)?)( ?(?:GB|GiB)\b)",
                  lambda m: f"{float(m.group(1)) * factor:.2f}{m.group(2)}", original)


def report(shown, rng, spread):
    factor, known = 1 + rng.uniform(-spread, spread), {}
    changed = {k: text(shown[k], rng, factor, known) for k in ("stderr", "dmesg", "smi")}
    return dict(shown, **changed, gpu=machine(shown["gpu"], factor))
