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
        """Is the option known? A --help after it ends the parsing, so nothing is done."""
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
        """The page describes exactly the variables that the programs read."""
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

    def test_pages_are_well_formed(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff here")
        for page in ("rocmcrash.1", "rocmcrash-bundle.5", "rocmcrash-tree.5"):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", os.path.join(MADE, page)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)

    def page_of(self, name):
        """The words of a page, without the formatter's requests."""
        text = support.read(os.path.join(MADE, name)).replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
        return re.sub(r"\\f.", "", text)

    def test_a_bundle_is_as_its_page_says(self):
        """The page has every file and folder of a real bundle, every key of its JSON files, and no other collector."""
        page = self.page_of("rocmcrash-bundle.5")
        bundle = self.only_bundle(self.python("import os; os.abort()"))
        named = set(re.findall(r"^\.IR? ([a-z_]+) ?/", page, re.M))
        for path in bundle.files:
            self.assertIn(path if "/" not in path else path.split("/")[0], page)
            self.assertTrue("/" not in path or path.split("/")[0] in named, path)
        listed = {line.split()[0] for line in self.verb("collectors").stdout.splitlines()}
        self.assertEqual(named - listed, {"output", "run", "telemetry", "impact", "experiment"})
        keys = set(re.findall(r"^\.B ([\w_]+)$", page, re.M))
        for document in (bundle.manifest, bundle.verdict, json.loads(bundle.files["facts.json"])):
            for key in set(document) | set(self.keys_below(document)):
                self.assertIn(key, keys)

    def keys_below(self, document):
        for value in document.values():
            for row in value if isinstance(value, list) else []:
                yield from row if isinstance(row, dict) else []

    def test_the_format_that_is_written_is_in_the_page(self):
        versions = re.findall(r"^\.B (\d+)\nrocmcrash (\S+)", self.page_of("rocmcrash-bundle.5"), re.M)
        bundle = self.only_bundle(self.python("import os; os.abort()"))
        self.assertEqual(str(bundle.manifest["format"]), versions[-1][0])

    def example(self, page, begin, end):
        return page[page.index(begin):page.index(end, page.index(begin))]

    def test_the_example_of_a_site_works(self):
        page = self.page_of("rocmcrash-tree.5")
        self.write("site/messages.rules", self.example(page, "rule scratch-full", ".fi"))
        self.write("site/tree/scratch.json", self.example(page, '{"format"', ".fi"))
        self.environ["ROCMCRASH_SITE"] = self.path("site")
        self.assertEqual(self.verb("config").returncode, 0, self.verb("config").stdout)
        log = self.write("log.txt", "scratch quota of bob exceeded: 2 GiB used\n")
        said = self.verb("triage", log).stdout
        self.assertIn("(site-quota, high", said)
        self.assertIn("The scratch quota is exceeded: 2", said)

    def test_the_words_of_a_sites_rules(self):
        """The words that the page names are known; all other words of the language are refused."""
        page = self.page_of("rocmcrash-tree.5")
        part = page[page.index(".SH MESSAGES"):page.index("and at most 100 rules")]
        known = set(re.findall(r"^\.BR? (\w+)", part, re.M))
        self.assertEqual(len(known), 10)
        rest = page[page.index("and at most 100 rules"):page.index("A shape is the text itself")]
        others = set(re.findall(r"^ {2}(\w+) +[A-Z]", rest, re.M)) - known
        self.assertGreater(len(others), 5)
        self.environ["ROCMCRASH_SITE"] = self.path("site")
        values = {"rule": "x", "set": "site.x 1", "count": "site.x", "match": "one two three", "never": "four", "unless": "four"}
        for word in known | others:
            rules = "rule a\n  line one\n  also two\n  " + f"{word} {values.get(word, 'three')}\n"
            self.write("site/messages.rules", rules + ("  line x\n" if word == "rule" else ""))
            self.assertEqual("have no word" not in self.verb("config").stdout, word in known, word)

    def test_what_a_collector_may_print(self):
        page = self.page_of("rocmcrash-tree.5")
        code = support.read(os.path.join(support.SOURCE, "collectors", "site.c"))
        kinds = set(re.findall(r'\{"(\w+)", read_', code))
        told = support.read(os.path.join(support.SOURCE, "collectors", "README.md"))
        self.assertEqual(set(re.findall(r'^\{"(\w+)": "', page, re.M)), kinds)
        self.assertEqual(set(re.findall(r'^\| `\{"(\w+)"', told, re.M)), kinds)
        given = set(re.findall(r'setenv\("(ROCMCRASH_\w+)"', code))
        self.assertEqual(set(re.findall(r"ROCMCRASH_\w+", page)), given)
        self.assertEqual(set(re.findall(r"ROCMCRASH_\w+", told)), given)

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
                            (["rocmcrash", "show", "he"], ["here.tar.gz"]), (["rocmcrash", "help", "d"], ["diff", "doctor"]),
                            (["rocmcrash", "--quiet", "--", "./he"], ["./here.tar.gz"])):
            self.assertEqual(self.complete(*words), want, words)

    # The typed words, and the only completion.
    TYPED = (("doct", "doctor"), ("doctor --j", "--json"), ("show --al", "--all"), ("show he", "here.tar.gz"), ("help doct", "doctor"),
             ("--quie", "--quiet"), ("--trace=late --quie", "--quiet"), ("-- cat ./he", "./here.tar.gz"),
             ("--quiet -- only-th", "only-this-program"))

    def shell(self, name):
        """A folder with a file and a program to be completed, and the environment of the shell."""
        if shutil.which(name) is None:
            self.skipTest(f"no {name} here")
        self.write("here.tar.gz", "")
        self.write("bin/only-this-program", "", 0o755)
        return dict(self.environ, HOME=self.folder, ZDOTDIR=self.folder, TERM="dumb",
                    PATH=self.path("bin") + ":" + os.environ["PATH"])

    def test_fish(self):
        environ = self.shell("fish")
        script = f"source {os.path.join(MADE, 'rocmcrash.fish')}; complete -C $argv[1]"
        for typed, want in self.TYPED:
            done = subprocess.run(["fish", "--no-config", "-c", script, "rocmcrash " + typed], env=environ, timeout=60,
                                  capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()], [want], (typed, done.stderr))

    def test_zsh(self):
        """Asks zsh's line editor on a terminal: returns the words of the line after a Tab."""
        environ = self.shell("zsh")
        self.write(".zshrc", f"fpath=({MADE} $fpath)\nautoload -Uz compinit && compinit -D -u\n"
                   "rocmcrash() { print -r -- \"got:$*\" }\n")
        for typed, want in self.TYPED:
            keys = f"rocmcrash {typed}\t\nexit\n".encode()
            _, seen = self.on_terminal(["zsh", "-d", "-i"], environ, keys=keys, cwd=self.folder, start_new_session=True)
            got = re.findall(r"^got:(.*?)\r?$", seen, re.M)
            self.assertEqual(got, [" ".join([*typed.split()[:-1], want])], seen)


if __name__ == "__main__":
    support.main()
