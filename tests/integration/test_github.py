# SPDX-License-Identifier: Apache-2.0
"""samples/github: what a project's workflow does with a bundle that is attached to an issue: a good, a damaged and a
hostile one."""

import io
import json
import os
import re
import subprocess
import tarfile

import support

JUDGE = os.path.join(support.SOURCE, "samples", "github", "judge")
WORKFLOW = os.path.join(support.SOURCE, "samples", "github", "rocmcrash.yml")


class Judge(support.BundleCase):
    def judge(self, *words, rocmcrash=support.ROCMCRASH):
        comment, label = self.path("comment.md"), self.path("label.txt")
        subprocess.run([support.PYTHON, "-B", JUDGE, *words, "--comment", comment, "--label", label], check=True, timeout=120,
                       env={**self.environ, "ROCMCRASH": rocmcrash})
        return support.read(comment), support.read(label)

    def test_a_good_bundle_gets_verdict_account_and_label(self):
        comment, label = self.judge("--bundle", self.bundle.path)
        self.assertTrue(comment.startswith("**capacity**, "), comment[:80])
        self.assertIn("| in use | 15.20 GiB | 95.1 % |", comment)
        self.assertEqual(label, "rocmcrash:capacity\n")
        self.assertRegex(comment, r"search for `rc-[0-9a-f]{12}`")

    def test_a_damaged_one_is_called_so_and_gets_no_label(self):
        path = self.path("damaged.tar.gz")
        with open(self.bundle.path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data[:len(data) // 2])
        comment, label = self.judge("--bundle", path)
        self.assertIn("damaged", comment)
        self.assertEqual(label, "")

    def test_a_strangers_words_stay_in_code(self):
        """Text of a bundle may be in any member of the verdict. Here it is in all of them."""
        words = "```\n@everyone [x](http://evil) <img src=x> #1 `"
        verdict = {"class": "leak](http://evil)", "confidence": "high", "sentence": words, "runner_up": words, "decides": words,
                   "why": [words], "against": [words], "signature": {"id": "rc-1`@everyone"},
                   "account": {"parts": [{"label": "free|@everyone<img", "bytes": 1}]}}
        stub = self.write("stub", f"#!/bin/sh\n[ $1 = verify ] || cat <<'END'\n{json.dumps(verdict)}\nEND\n", 0o755)
        comment, label = self.judge("--bundle", self.bundle.path, rocmcrash=stub)
        self.assertIn("@everyone", comment)
        text = re.sub(r"```text\n.*?\n```", "", comment, flags=re.S)
        for word in ("@everyone", "](", "<img", "#1"):
            self.assertNotIn(word, text)
        self.assertEqual(label, "")

    def test_what_reaches_outside_is_no_bundle(self):
        path = self.path("none.tar.gz")
        with tarfile.open(path, "w:gz") as tar:
            info = tarfile.TarInfo("../evil")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        comment, label = self.judge("--bundle", path)
        self.assertIn("damaged", comment)
        self.assertEqual(label, "")
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.folder), "evil")))

    def test_an_issue_without_a_bundle_is_left_alone(self):
        body = self.write("body.md", "it crashes\nhttps://example.org/rocmcrash-1.tar.gz\n"
                                     "https://github.com/user-attachments/files/1/../../x.tar.gz\n")
        self.assertEqual(self.judge("--body", body), ("", ""))

    def test_the_scripts_words_in_the_workflow_are_its_options(self):
        text = support.read(WORKFLOW)
        line = next(line for line in text.split("\n") if "rocmcrash/judge --" in line)
        help_text = subprocess.run([support.PYTHON, "-B", JUDGE, "--help"], capture_output=True, text=True, check=True).stdout
        for word in re.findall(r"--[a-z]+", line):
            self.assertIn(word, help_text)
        # Text written by a stranger must never become part of a command.
        for block in re.findall(r"run: \|\n((?: {10,}.*\n)+)", text):
            self.assertNotIn("${{", block)


if __name__ == "__main__":
    support.main()
