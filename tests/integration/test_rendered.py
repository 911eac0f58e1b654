# SPDX-License-Identifier: Apache-2.0
"""SUMMARY.md as GitHub shows it: rendered by GitHub's own fork of cmark, and searched for what GitHub turns into links
afterwards (mentions, references, keys, commits) in all text outside of code."""

import html.parser
import re
import shutil
import subprocess

import support
from attack_table import Attacks
from support import PYTHON
from test_failures import HIP_OOM

MARK = "zzforeign"
WORDS = ["@zzforeign", "@zzforeign/team", "#77", "GH-88", "zzforeign/repo#9", "zzforeign@deadbeef12", "deadbeefcafe12",
         "https://zzforeign.example/x", "www.zzforeign.example", "zzforeign@mail.example", "<b>zzforeign</b>",
         "<script>zzforeign</script>", "![zzforeign](http://e.example/a.png)", "[zzforeign](javascript:x)",
         "[zzforeign][1]", "[1]: http://e.example", "**zzforeign**", "_zzforeign_", "~~zzforeign~~", "$zzforeign$",
         "`zzforeign`", "``@zzforeign``", "```", "~~~", "| @zzforeign |", "</details>", "</summary>", "<!--", "-->",
         "&lt;zzforeign&gt;", "&#64;zzforeign", "\\@zzforeign", "[^1]", "- [ ] zzforeign", "# zzforeign", "> @zzforeign",
         "http://e.example/@zzforeign|", "PROJ-123", "./GH-89", "log:deadbeefcafe13", "mailto:zzforeign@e.example"]
# The patterns by which GitHub's filters turn plain text into links, with the characters allowed before them.
GITHUB = {
    "mention": re.compile(r"(?:^|[^\w`/.@])@[a-z0-9][a-z0-9-]*", re.I),
    "reference": re.compile(r"(?:^|[^\w&])(?:[\w.-]+/[\w.-]+)?#\d+\b"),
    "key": re.compile(r"(?<![\w/.-])(?!SHA-256)(?:GH|[A-Z]{2,10})-\d+\b(?![.-])"),
    "number": re.compile(r"(?:^|\W)GH-\d+\b", re.I),
    "name of a commit": re.compile(r"(?:^|[\s(\[{<:;,.=])deadbeef[0-9a-f]+\b"),
    "commit": re.compile(r"(?<![\w/.-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w.-])"),
    "address": re.compile(r"https?://|www\.\w|\w@\w+\.\w|mailto:", re.I),
    "mathematics": re.compile(r"\$[^$\s][^$]*\$"),
}
OURS = {"h1", "h2", "p", "ul", "li", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details",
        "summary", "br", "hr"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.code, self.attributes = set(), [], 0, set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.code += tag in ("code", "pre")

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre")

    def handle_data(self, data):
        if self.code == 0 and data.strip():
            self.texts.append(data)

    def handle_comment(self, data):
        self.tags.add("comment")


class Rendered(support.Case):
    def setUp(self):
        super().setUp()
        if shutil.which("cmark-gfm") is None:
            self.skipTest("cmark-gfm is not installed")

    def page(self, markdown):
        done = subprocess.run(["cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e",
                               "tasklist", "-e", "footnotes"], input=markdown, capture_output=True, text=True, check=False)
        if done.returncode != 0:  # a version without the last part
            done = subprocess.run(["cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e",
                                   "tasklist"], input=markdown, capture_output=True, text=True, check=True)
        page = Page()
        page.feed(done.stdout)
        return page

    def found(self, page):
        rows = [(name, text) for text in page.texts for name, pattern in GITHUB.items() if pattern.search(text)]
        return rows + [("of the program", text) for text in page.texts if MARK in text]

    def test_the_look_finds_what_it_looks_for(self):
        """As plain text each of these words means something to GitHub or to the renderer."""
        for word in ("@zzforeign", "see #77", "GH-88", "zzforeign/repo#9", "deadbeefcafe12", "www.zzforeign.example",
                     "&#64;zzforeign", "\\@zzforeign"):
            self.assertTrue(self.found(self.page(f"- text: {word} end\n")), word)
        self.assertNotEqual(self.page("a <b>x</b> ![i](u)\n").tags - OURS, set())

    def test_summary(self):
        nasty = "\n".join(f"RuntimeError: {word}" for word in WORDS)
        program = self.write("@zzforeign-#77.py", "import os, sys, time\nos.environ['X'] = '1'\ntime.sleep(0.3)\n"
                             f"sys.stderr.write({nasty!r} + '\\n' + {HIP_OOM.strip()!r} + ' ' + {' '.join(WORDS)!r} + '\\n')\n"
                             "sys.exit(1)\n")
        for index, word in enumerate(WORDS):
            self.environ[f"HIP_NASTY_{index}"] = word
            self.environ[f"ROC_@zzforeign_{index}"] = word
        self.environ["PYTORCH_HIP_ALLOC_CONF"] = "@zzforeign #77 zzforeign/repo#9"
        self.environ["HSA_OVERRIDE_GFX_VERSION"] = "@zzforeign #77"
        self.environ["SLURM_JOB_ID"] = "@zzforeign"
        options = ["--keep=users,hosts,accounts,projects,texts,paths,homes,emails,ids"]
        bundle = self.only_bundle(self.run_it(PYTHON, program, *WORDS, options=options))
        summary = bundle.text("SUMMARY.md")
        self.assertIn(MARK, summary)
        page = self.page(summary)
        found = self.found(page)
        with Attacks("texts that are markup, mentions or references") as attacks:
            for word in WORDS:
                with attacks.one(word):
                    self.assertEqual([text for _, text in found if word in text], [])
        self.assertEqual(found, [])
        self.assertEqual(page.tags - OURS, set())
        self.assertLessEqual(page.attributes, {"class", "align", "lang"})
        issue = self.page(self.verb("issue", bundle.path).stdout)
        self.assertEqual(self.found(issue), [])
        self.assertEqual(issue.tags - OURS - {"h3", "h4"}, set())


if __name__ == "__main__":
    support.main()
