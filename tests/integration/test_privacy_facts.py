# SPDX-License-Identifier: Apache-2.0
"""Redaction keeps facts: real reports and records have the same facts and verdicts after it, and every size, address,
version and number that a maintainer reads. The reverse of test_privacy.py."""

import collections
import json
import os
import re
import subprocess
import tempfile
import unittest

import support
from redacted import redact, table
from support import ROCMCRASH, SHARED, SOURCE

DRIVER = os.path.join(os.path.dirname(ROCMCRASH), "..", "tests", "corpus", "diagnose_files")
CUT = "\n=== rocmcrash test: next part ===\n"
# Words of a report that a maintainer reads. None of them may change.
TOKENS = {
    "address": re.compile(r"(?<![\w-])0x[0-9a-fA-F]{2,16}(?!\w)"),
    "size": re.compile(r"(?<![\w.])\d+(?:\.\d+)? ?(?:[KMGT]i?B|bytes|kB|MB)(?!\w)"),
    "gfx name": re.compile(r"(?<!\w)gfx[0-9a-f]{3,4}(?!\w)"),
    "PCI address": re.compile(r"(?<![\w:])[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?!\w)"),
    "version": re.compile(r"(?<![\w.])\d+\.\d+\.\d+(?:[-+][\w.+]+)?(?![\w.])"),
    "hash": re.compile(r"(?<![\w-])(?=[0-9a-f]*\d)[0-9a-f]{32,64}(?![\w-])"),
    "library": re.compile(r"(?<!\w)lib\w+\.so(?:\.\d+)*"),
    "number": re.compile(r"(?<![\w.:<-])\d+(?:\.\d+)?(?![\w.:>-])"),
}
# Lines on which a number identifies a card, a machine or an account.
IDENTITY = re.compile(r"serial|unique|uuid|machine.id", re.I)
# Ids of containers and their pseudonyms. Nothing else of such a line may change.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])|<id\d+>")
# A fact that quotes another fact has words around it.
SAID = re.compile(r"(it says: )?(.*?)( \[[^\]]*\])?", re.S)


class Reverse(unittest.TestCase):
    """Every report and every record, before and after redaction."""

    @classmethod
    def setUpClass(cls):
        path = os.path.join(SHARED, "corpus", "cases.jsonl")
        if not os.path.exists(path):
            raise unittest.SkipTest("no labelled reports beside this checkout")
        with open(path, encoding="utf-8") as file:
            cls.cases = [json.loads(line) for line in file]
        records = os.path.join(SHARED, "records")
        cls.records = {}
        for name in sorted(os.listdir(records)):
            if not name.endswith(".source"):
                with open(os.path.join(records, name), encoding="utf-8", errors="surrogateescape") as file:
                    cls.records[name] = file.read()

    def parts(self, case):
        context = case.get("context") or {}
        env = context.get("env") or {}
        texts = {"--stderr": case.get("stderr"), "--dmesg": case.get("dmesg"), "--smi": context.get("rocm_smi"),
                 "--env": "".join(f"{k}={v}\n" for k, v in env.items()) if isinstance(env, dict) else str(env)}
        return {option: text for option, text in texts.items() if text}

    def redacted(self, texts):
        """Redacts all parts of a report together, as in a bundle: a name that one part reveals is hidden in all."""
        out = redact(CUT.join(texts.values())).split(CUT)
        self.assertEqual(len(out), len(texts))
        return dict(zip(texts, out))

    def facts(self, reports):
        """[(facts, verdict)] of the reports, from the program that scores the triage."""
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for index, texts in enumerate(reports):
                arguments = ["--dump"]
                for option, text in texts.items():
                    path = os.path.join(folder, f"{index}{option}")
                    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                        file.write(text)
                    arguments += [option, path]
                path = os.path.join(folder, f"{index}.args")
                with open(path, "w", encoding="utf-8") as file:
                    file.write("\n".join(arguments) + "\n")
                lines.append(path)
            done = subprocess.run([DRIVER, os.path.join(SOURCE, "templates", "tree.json"),
                                   os.path.join(SOURCE, "templates", "defects.json"), "--batch"],
                                  input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return list(zip(rows[0::2], rows[1::2]))

    def is_hidden(self, was, now, texts):
        """Is it the same text, except for pseudonyms, each of which replaces a text without a blank? A fact has a
        limited length, and a pseudonym is shorter than the text that it hides. Then both begin in the same way in the
        report."""
        if not isinstance(was, str) or not isinstance(now, str):
            return False
        old, new = SAID.fullmatch(was), SAID.fullmatch(now)
        parts = re.split(r"<[a-z]+\d+>", new.group(2))
        if len(parts) < 2 or old.group(1, 3) != new.group(1, 3):
            return False
        pattern = r"[^\s]+".join(re.escape(part) for part in parts)
        if re.fullmatch(pattern, old.group(2)):
            return True
        return any(match.group().startswith(old.group(2)) for text in texts for match in re.finditer(pattern, text))

    def test_reports_judge_the_same(self):
        if not os.path.exists(DRIVER):
            self.skipTest("the program that scores the triage is not built")
        with_text = [case for case in self.cases if self.parts(case)]
        before = [self.parts(case) for case in with_text]
        ids = [case["id"] for case in with_text]
        # A record is read as if it were a report.
        for name, text in self.records.items():
            before.append({"--dmesg" if name.startswith("dmesg") else "--smi": text})
            ids.append(name)
        after = [self.redacted(texts) for texts in before]
        facts = changed = hidden = verdicts = 0
        wrong = []
        for name, texts, old, new in zip(ids, before, self.facts(before), self.facts(after)):
            values = {(f["name"], f["when"]): f for f in old[0]["facts"]}
            others = {(f["name"], f["when"]): f for f in new[0]["facts"]}
            facts += len(values)
            for key in sorted(values.keys() | others.keys()):
                if key[0].startswith(("wording.", "evidence.")):
                    continue  # sums over all words: a hidden one is one less. The verdict must stay.
                was, now = values.get(key, {}).get("value"), others.get(key, {}).get("value")
                if was != now and self.is_hidden(was, now, texts.values()):
                    hidden += 1
                    print(f"[{name} {key[0]}: {now}] ", end="")
                elif was != now:
                    changed += 1
                    wrong.append((name, key, values.get(key), others.get(key)))
            verdicts += 1
            for key in ("class", "subclass", "confidence"):
                if old[1][key] != new[1][key]:
                    wrong.append((name, key, old[1][key], new[1][key]))
        print(f"{len(ids)} reports and records: {facts} facts, {hidden} with a name hidden in them, "
              f"{changed} changed; {verdicts} verdicts")
        for row in wrong:
            print("CHANGED", row)
        self.assertEqual(wrong, [])
        self.assertGreater(facts, 500)

    def test_names_that_are_words(self):
        """A user whose name is a technical word or has two letters changes only the lines about him."""
        text = CUT.join(part for case in self.cases for part in self.parts(case).values())
        text += CUT + CUT.join(self.records.values())

        def lines(user):
            env = dict(os.environ, HOME=f"/home/{user}", USER=user, LOGNAME=user)
            return redact(text, env=env).split("\n")

        usual, changed = lines("zzqvxjw"), []
        names = ("data", "amd", "al", "gpu", "weight", "epyc", "lib", "null")
        for name in names:
            now = lines(name)
            self.assertEqual(len(now), len(usual))
            changed += [(name, old, new) for old, new in zip(usual, now) if old != new]
        print(f"{len(names)} names that are words, {len(usual)} lines: {len(changed)} changed")
        self.assertEqual(changed, [])

    def test_what_is_read_in_them_stays(self):
        rows = collections.Counter()
        lost = collections.Counter()
        gone = []
        texts = [(case["id"], part) for case in self.cases for part in self.parts(case).values()]
        texts += list(self.records.items())
        out = redact(CUT.join(text for _, text in texts)).split(CUT)
        self.assertEqual(len(out), len(texts))
        for (name, text), new in zip(texts, out):
            old_lines, new_lines = text.split("\n"), new.split("\n")
            self.assertEqual(len(old_lines), len(new_lines), name)
            for old, now in zip(old_lines, new_lines):
                if IDENTITY.search(old):
                    continue
                if "/docker/" in old:
                    old, now = CONTAINER.sub("", old), CONTAINER.sub("", now)
                    if old != now:
                        gone.append((name, "container", {}, old[:200], now[:200]))
                for what, pattern in TOKENS.items():
                    had = collections.Counter(pattern.findall(old))
                    missing = had - collections.Counter(pattern.findall(now))
                    rows[what] += sum(had.values())
                    lost[what] += sum(missing.values())
                    if missing:
                        gone.append((name, what, dict(missing), old[:200], now[:200]))
        table("               facts  changed", [(what, rows[what], lost[what]) for what in TOKENS])
        for row in gone:
            print("GONE", row)
        self.assertEqual(gone, [])


if __name__ == "__main__":
    support.main()
