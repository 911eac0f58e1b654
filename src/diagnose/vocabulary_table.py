# SPDX-License-Identifier: Apache-2.0
"""vocabulary_table.py IN.tsv OUT.c: templates/vocabulary.tsv as the tables of diagnose/vocabulary_table.h."""

import re
import sys

WORD_SLOTS = 4096  # VOCABULARY_WORD_SLOTS: several times the words
STRING_SLOTS = 4096  # VOCABULARY_STRING_SLOTS
STRING_MIN = 4
BARE_MIN = 7  # letters of a name behind the part that is removed


def quoted(text):
    return '"%s"' % re.sub(r'(["\\?])', r"\\\1", text)


def c_text(text):
    return "{%s, %d}" % (quoted(text), len(text))


def fold(name):
    return re.sub(r"[^A-Za-z0-9]", "", name).lower()


def word_hash(folded):
    """vocabulary_hash() of each letter"""
    value = 2166136261
    for byte in folded.encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return value


def string_slot(string):
    """vocabulary_string_slot()"""
    four = int.from_bytes(string[:4].encode(), "little") | 0x20202020
    return (four * 0x9e3779b1 & 0xffffffff) >> 20


class Row:
    def __init__(self, line):
        self.domain, self.name, self.number, prior, self.strings = (line.split("\t") + [""] * 4)[:5]
        self.prior = self.weights(prior)

    def weights(self, prior):
        if re.match("- *[a-z]", prior, re.IGNORECASE):
            return ""
        terms = [term.split() for term in prior.split(",")]
        if any(len(term) != 2 or float(term[1]) <= 0 for term in terms):
            sys.exit(f"{self.domain} {self.name}: '{prior}' gives neither classes with weights nor a reason why there are none")
        return ", ".join(f"[PRIOR_{name.upper().replace('-', '_')}] = {weight}" for name, weight in terms)

    def parts(self):
        return self.strings.split("|") if self.strings else []


def words_of(codes, domains, bare):
    """(folded word, index, kind). The first row that has a word keeps it."""
    for i, code in enumerate(codes):
        yield fold(code.name), i, "WORD_CODE"
    for i, (_, word) in enumerate(domains):
        yield word, len(codes) + i, "WORD_DOMAIN"
    for row in bare:
        for part in row.parts():
            prefix, _, instead = part.partition("=")
            for i, code in enumerate(codes):
                if code.domain == row.name and code.name.startswith(prefix) and len(code.name) >= len(prefix) + BARE_MIN:
                    yield fold(instead + code.name[len(prefix):]), i, "WORD_BARE"


def word_slots(words):
    slots, known = {}, set()
    for word, index, kind in words:
        if word in known:
            continue
        known.add(word)
        value = word_hash(word)
        at = value % WORD_SLOTS
        while at in slots:
            at = (at + 1) % WORD_SLOTS
        slots[at] = f"{{{value}u, {index + 1}, {kind}}}"
    if len(slots) > WORD_SLOTS // 2:
        sys.exit("too many words for VOCABULARY_WORD_SLOTS")
    return slots


def strings_of(codes):
    """(slot, -length, string, index, is it common): the longest of a slot first, and the first row of equal ones"""
    rows = [(part.removeprefix("~"), i, part.startswith("~")) for i, code in enumerate(codes) for part in code.parts()]
    rows = [(string_slot(string), -len(string), string, i, common) for string, i, common in rows if len(string) >= STRING_MIN]
    return sorted(rows, key=lambda row: row[:2])


def array(kind, name, rows):
    name += "" if name.endswith("]") else "[]"
    return f"const {kind} {name} = {{\n" + "".join(f"    {row},\n" for row in rows) + "};\n"


def main(table, out):
    with open(table, encoding="ascii") as file:
        rows = [Row(line.rstrip("\n")) for line in file if line.strip() and line[0] != "#"]
    further = {name: [row for row in rows if row.domain == name] for name in ("call", "names", "calls", "bare")}
    codes = [row for row in rows if row.domain not in further]
    domains = [(row.name, word) for row in further["names"] for word in row.parts()]
    calls = sorted(further["call"], key=lambda row: -len(row.name))
    priors = {prior: i for i, prior in enumerate(dict.fromkeys(row.prior for row in codes + calls if row.prior))}

    def prior(row):
        return f"&priors[{priors[row.prior]}]" if row.prior else "NULL"

    def code(row):
        number = f"true, INT64_C({int(row.number, 0)})" if row.number else "false, 0"
        return f"{{{c_text(row.domain)}, {c_text(row.name)}, {c_text(row.strings)}, {number}, {prior(row)}}}"

    strings, firsts = strings_of(codes), {}
    for i, row in enumerate(strings):
        firsts.setdefault(row[0], i + 1)
    with open(out, "w", encoding="ascii") as file:
        file.write('/* Made by vocabulary_table.py. */\n#include "diagnose/vocabulary_table.h"\n')
        file.write("static " + array("struct prior", "priors", (f"{{{{{weights}}}}}" for weights in priors)))
        file.write(array("struct code", "vocabulary_codes", [code(row) for row in codes] +
                         [f"{{.domain = {c_text(domain)}}}" for domain, _ in domains]))
        file.write(f"const size_t vocabulary_code_count = {len(codes)};\n")
        file.write(array("struct vocabulary_call", "vocabulary_calls", (f"{{{c_text(row.name)}, {prior(row)}}}" for row in calls)))
        file.write(f"const size_t vocabulary_call_count = {len(calls)};\n")
        prefixes = [f"{{{c_text(part)}, {c_text(row.name)}}}" for row in further["calls"] for part in row.parts()]
        file.write(array("struct vocabulary_prefix", "vocabulary_prefixes", prefixes))
        file.write(f"const size_t vocabulary_prefix_count = {len(prefixes)};\n")
        slots = word_slots(words_of(codes, domains, further["bare"]))
        file.write(array("struct vocabulary_word", "vocabulary_words[VOCABULARY_WORD_SLOTS]", (f"[{at}] = {slots[at]}" for at in sorted(slots))))
        file.write(array("struct vocabulary_string", "vocabulary_strings",
                         [f"{{{c_text(string)}, {index}, {slot}, {int(common)}}}" for slot, _, string, index, common in strings] + ["{.slot = UINT16_MAX}"]))
        file.write(f"const uint16_t vocabulary_first_strings[VOCABULARY_STRING_SLOTS] = {{{', '.join(f'[{at}] = {i}' for at, i in firsts.items())}}};\n")


main(*sys.argv[1:])
