# SPDX-License-Identifier: Apache-2.0
"""--help, README.md and the program agree."""

import os
import re

import support
from support import SOURCE

READABLE = 80  # columns


class Help(support.Case):
    def help_of(self, *verb):
        done = self.verb(*verb, "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""), verb)
        return done.stdout

    def readme(self):
        return support.read(os.path.join(SOURCE, "README.md"))

    def test_every_verb_has_help_and_is_in_the_readme(self):
        verbs, readme = support.verbs(), self.readme()
        self.assertGreater(len(verbs), 8)
        for verb in verbs:
            with self.subTest(verb=verb):
                self.assertTrue(self.help_of(verb).startswith(f"Usage: rocmcrash {verb}"))
                self.assertTrue(re.search(rf"rocmcrash {verb}\b", readme), "not in README.md")

    def test_the_readme_names_no_other_verb_or_option(self):
        verbs, readme = support.verbs(), self.readme()
        used = set(re.findall(r"`(?:sudo )?rocmcrash ([a-z]+)", readme))
        self.assertEqual(used, set(verbs))
        options = set(re.findall(r"(--[a-z-]+)", self.help_of()))
        for verb in verbs:
            options |= set(re.findall(r"(--[a-z-]+)", self.help_of(verb)))
        block = readme.split("## Use\n")[1].split("## How it works")[0]
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", block))
        self.assertEqual(named - options, set())

    def test_a_run_and_redact_keep_the_same_kinds(self):
        text = " ".join(self.help_of("redact").split())
        kinds = re.search(r"leave ((?:[a-z]+, )+[a-z]+)", text).group(1).split(", ")
        self.assertGreater(len(kinds), 8)
        for kind in kinds:
            done = self.verb(f"--keep={kind}", "--", "true")
            self.assertEqual((done.returncode, done.stderr), (0, ""), kind)

    def test_it_fits_a_terminal(self):
        for verb in ([], *([v] for v in support.verbs())):
            for line in self.help_of(*verb).splitlines():
                self.assertLessEqual(len(line), READABLE, line)
                self.assertEqual(line, line.rstrip(), verb)

    def test_usage_has_one_form(self):
        """A message about a wrong use has the line of the help."""
        for words, form in ((("issue", "a", "b"), "issue [OPTIONS] [BUNDLE]"),
                            (("open", "a", "b"), "open [OPTIONS] [BUNDLE]"), (("reveal",), "reveal [OPTIONS] BUNDLE [FILE|PSEUDONYM]"),
                            (("snap",), "snap [OPTIONS] PID"), (("watch", "1", "2"), "watch [OPTIONS] PID")):
            done = self.verb(*words)
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(f"rocmcrash: usage: rocmcrash {form}", done.stderr)
            self.assertIn(f"rocmcrash {form}\n", self.help_of(words[0]))
        self.assertEqual(self.verb("help", "show", "x").returncode, 125)

    def test_exit_statuses_are_told(self):
        for verb in ([], ["triage"], ["doctor"], ["diff"], ["rerun"]):
            self.assertIn("Exit status:", self.help_of(*verb))


if __name__ == "__main__":
    support.main()
