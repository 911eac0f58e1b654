# SPDX-License-Identifier: Apache-2.0
"""The manual page and the completions say what the programs do: each option that they name is known, each
that --help names is there, and bash completes them."""

import json
import os
import re
import shutil
import subprocess

import support

MADE = os.path.join(os.path.dirname(os.path.dirname(support.ROCMCRASH)), "src", "cli", "manual")


class Manual(support.Case):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(MADE, "rocmcrash.1")):
            self.skipTest("the programs under test are not in a build tree")
        with open(os.path.join(MADE, "rocmcrash.1"), encoding="utf-8") as file:
            self.page = file.read().replace("\\-", "-")
        self.page = re.sub(r"\\f.", "", self.page)

    def sections(self):
        """{"": the options of a run, "doctor": its options, ...}"""
        found = {"": self.page[self.page.index(".SH OPTIONS"):self.page.index(".SH VERBS")]}
        verbs = self.page[self.page.index(".SH VERBS"):self.page.index(".SH EXIT STATUS")]
        for part in verbs.split(".SS ")[1:]:
            found[part.split()[0]] = part
        return {name: re.findall(r"^(?:-(\w), )?--([\w-]+)(=?)", text, re.M) for name, text in found.items()}

    def knows(self, verb, word):
        """Asked together with --help behind it, which ends the parsing: nothing is done."""
        done = self.verb(*([verb] if verb else []), word, "--help", cwd=self.folder)
        return "unknown option" not in done.stderr

    def test_each_option_is_known(self):
        sections = self.sections()
        self.assertGreater(len(sections), 12)
        self.assertFalse(self.knows("", "--frobnicate"))
        self.assertFalse(self.knows("doctor", "--frobnicate"))
        for verb, options in sections.items():
            for short, name, equals in options:
                self.assertTrue(self.knows(verb, f"--{name}" + ("=1" if equals else "")), (verb, name))
                if short and not equals:
                    self.assertTrue(self.knows(verb, "-" + short), (verb, short))

    def test_everything_of_help_is_there(self):
        words = self.verb("--help").stdout
        for name in re.findall(r"^ +(?:-\w, )?--([\w-]+)", words, re.M):
            self.assertIn(name, [option[1] for option in self.sections()[""]])
            for shell in ("rocmcrash.bash", "_rocmcrash", "rocmcrash.fish"):
                with open(os.path.join(MADE, shell), encoding="utf-8") as file:
                    self.assertIn(name, file.read(), shell)

    def test_environment(self):
        """The variables that the page tells of are those that the programs read."""
        told = set(re.findall(r"ROCMCRASH_[A-Z_]+", self.page))
        read = set()
        for folder in ("src", "collectors"):
            for base, _, names in os.walk(os.path.join(support.SOURCE, folder)):
                for name in names:
                    if name.endswith(".c"):
                        read |= set(re.findall(r'getenv\("(ROCMCRASH_[A-Z_]+)"\)', support.read(os.path.join(base, name))))
        done = self.verb("config", "--json", cwd=self.folder)
        settings = {"ROCMCRASH_" + row["name"].upper().replace("-", "_") for row in json.loads(done.stdout)["settings"]}
        self.assertEqual(told, read | settings)

    def test_page_is_well_formed(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff here")
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", os.path.join(MADE, "rocmcrash.1")],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def complete(self, *words):
        script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rocmcrash; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", os.path.join(MADE, "rocmcrash.bash"), *words],
                              capture_output=True, text=True, check=True, cwd=self.folder)
        return sorted(set(done.stdout.split()))

    def test_bash(self):
        self.write("here.tar.gz", "")
        for words, want in ((["rocmcrash", "--tr"], ["--trace="]), (["rocmcrash", "d"], ["diff", "doctor"]),
                            (["rocmcrash", "doctor", "--j"], ["--json"]), (["rocmcrash", "show", "--a"], ["--all"]),
                            (["rocmcrash", "show", "he"], ["here.tar.gz"]),
                            (["rocmcrash", "--quiet", "--", "./he"], ["./here.tar.gz"])):
            self.assertEqual(self.complete(*words), want, words)


if __name__ == "__main__":
    support.main()
