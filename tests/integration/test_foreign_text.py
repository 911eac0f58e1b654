# SPDX-License-Identifier: Apache-2.0
"""Foreign text on a terminal: names of files, and all texts of a bundle. Every verb shows it. The terminal obeys
nothing in it, nothing is hidden, and none of its lines looks like ours."""

import json
import os
import signal
import subprocess
import unicodedata

import support
from attack_table import Attacks
from support import PYTHON, ROCMCRASH
from test_verbs import FACTS, NASTY, nasty_bundle


class ForeignText(support.Case):
    def setUp(self):
        super().setUp()
        self.good = self.file("good-" + NASTY + ".tar.gz", nasty_bundle())
        self.log = self.file("log-" + NASTY, NASTY.encode() * 50)
        facts = [{"name": name, "when": "static", "value": NASTY, "source": NASTY} for name in FACTS]
        self.json = self.file("facts-" + NASTY, json.dumps({"format": 1, "facts": facts}).encode())

    def file(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def say(self, *argv, status=None):
        done = subprocess.run([ROCMCRASH, *argv], capture_output=True, env=self.environ, cwd=self.folder, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        if status is None:
            self.assertGreaterEqual(done.returncode, 0, argv)
        else:
            self.assertEqual(done.returncode, status, argv)
        for stream in (done.stdout, done.stderr):
            text = stream.decode()  # bytes that are not UTF-8 are not printed
            hidden = {hex(ord(c)) for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\n\t"}
            self.assertEqual(hidden, set(), (argv, text[:400]))
            self.assertNotIn("rocmcrash: forged", [line[:17] for line in text.split("\n")], argv)
        return done

    def test_every_verb(self):
        """The verbs with texts and options that test_verbs.py does not give them."""
        words = []
        for path in (self.good, self.log):
            words += [("show", path), ("show", "--all", path), ("show", "--raw", path), ("show", path, path),
                      ("verify", path), ("verify", path, path), ("triage", path), ("triage", "--json", path),
                      ("triage", "--explain", NASTY, path), ("reveal", path), ("reveal", NASTY, path), ("issue", path), ("issue", "--json", path),
                      ("issue", "--for", NASTY, path), ("open", "--print", path), ("triage", "--facts", path, self.good),
                      ("triage", "--kernel-log", path, self.good), ("triage", "--tree", path, self.good),
                      ("diff", self.good, path), ("diff", path, path), ("diff", "--json", "--all", self.json, path),
                      ("diff", "--json", self.good, path), ("export", "--trace", "-o", path + "/x", self.good),
                      ("export", "--trace", path), ("rerun", path), ("complete", path), ("doctor", "--facts", path),
                      ("doctor", "--json", "--facts", path), ("doctor", "--", path), ("list", path),
                      ("list", "--json", path), ("redact", "--preview", path), ("redact", path + "x")]
        for word in ("stacks", "release", "recover", "help", "collectors", "--output-dir", "-o", "show", "triage",
                     "verify", "list", "doctor", "config", "--" + NASTY, NASTY, "--"):
            words += [(word, NASTY), (word, NASTY, "x")]
        words += [("--keep", NASTY, "--", "true"), ("-o", NASTY, "--", "true"), ("redact", "--keep", NASTY, self.good)]
        with Attacks("texts of others on a terminal") as attacks:
            for argv in words:
                with attacks.one(" ".join(argv[:2])):
                    self.say(*argv)
        self.assertGreater(attacks.tried, 90)

    def test_of_a_run(self):
        """The command's own name, and the folder of the bundle."""
        folder = os.path.join(self.folder, "out-" + NASTY)
        os.mkdir(folder)
        program = self.file("program-" + NASTY, b"#!/bin/sh\nkill -ABRT $$\n")
        os.chmod(program, 0o755)
        done = self.say("-o", folder, "--", program, status=-signal.SIGABRT)
        self.assertIn(b"rocmcrash: bundle: ", done.stderr)
        self.say("list", folder)

    def test_a_command_as_a_shell_reads_it(self):
        """bash splits the shown command into the argument vector that would be run."""
        text = self.say("rerun", self.good).stderr.decode()
        shown = text.split("the bundle's command: ", 1)[1].split("\n", 1)[0].rsplit(" in ", 1)[0]
        self.assertTrue(shown.isascii() and shown.isprintable() and "   " not in shown)
        done = subprocess.run(["bash", "-c", "set -- " + shown + '; printf "%s\\0" "$@"'], capture_output=True, check=True)
        self.assertEqual(done.stdout.decode().split("\0")[:-1], [PYTHON, "it's", "a" + " " * 3000 + "b", NASTY])


if __name__ == "__main__":
    support.main()
