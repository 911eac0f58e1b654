# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash issue`: the form of each tracker is complete, and its link is short enough, whatever the program wrote."""

import json
import os
import re
import shlex
import urllib.parse

import support

FAILS = ("import sys, time; time.sleep(1.2); sys.stderr.write('```\\n# not a heading\\n@everyone see #1 and GH-2\\n' + ('x' * 300 + '\\n') * 60 +"
         "'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.98 GiB of "
         "which 4.00 MiB is free. Of the allocated memory 15.20 GiB is allocated by PyTorch, and 100.00 MiB is reserved by "
         "PyTorch but unallocated.\\n'); sys.exit(1)")
LINK_BYTES_MAX = 7000


def outside_of_code(markdown):
    """The text outside of fenced blocks and code spans."""
    text, fence = [], False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            fence = not fence
        elif not fence:
            text.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(text), fence


class Issue(support.BundleCase):
    program = FAILS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(support.SOURCE, "templates", "trackers.json"), encoding="utf-8") as file:
            cls.trackers = json.load(file)["trackers"]

    def made(self, *options):
        done = self.verb("issue", "--json", *options, self.bundle.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_each_form(self):
        for tracker in self.trackers:
            with self.subTest(tracker["name"]):
                issue = self.made("--for", tracker["name"])
                self.assertTrue(issue["title"].startswith(tracker["title"] + "GPU out of memory: 20.00 GiB wanted"), issue["title"])
                headings = [line[4:] for line in issue["body"].split("\n") if line.startswith("### ")]
                self.assertEqual(headings, [section["heading"] for section in tracker["sections"] if section["heading"]])
                self.assertIn("HIP out of memory", issue["body"])
                self.assertLess(len(issue["body"]), 65536)
                self.assertTrue(issue["link"].startswith(tracker["new"]))
                self.assertLessEqual(len(issue["link"]), LINK_BYTES_MAX)
                self.assertTrue(issue["makes_public"])
                self.assertEqual(sorted(set(issue["makes_public"])), sorted(issue["makes_public"]))  # each section once

    def test_the_link_fills_in_the_fields_that_have_an_id(self):
        issue = self.made("--for", "llama.cpp")
        fields = urllib.parse.parse_qs(urllib.parse.urlsplit(issue["link"]).query)
        self.assertEqual(fields["title"], [issue["title"]])
        self.assertIn("-c", fields["command"][0])
        self.assertNotIn("logs", fields)  # 18 kB do not fit: the user pastes them

    def test_the_programs_text_stays_in_code(self):
        for tracker in self.trackers:
            text, is_open = outside_of_code(self.made("--for", tracker["name"])["body"])
            self.assertFalse(is_open, tracker["name"])
            for word in ("@everyone", "#1", "GH-2", "# not a heading"):
                self.assertNotIn(word, text)

    def test_the_tracker_follows_from_the_verdict(self):
        self.assertEqual(self.made()["tracker"], "other")
        self.assertIn("own tracker", self.bundle.verdict["file_at"])

    def test_the_form_is_that_of_the_tracker_that_is_named_first(self):
        known = {tracker["name"]: tracker["new"] for tracker in self.trackers}
        chooser = "https://github.com/%s/issues/new/choose"
        for named, name, form in (
                ("ROCm/TheRock", "rocm", chooser % "ROCm/TheRock"),
                ("ROCm/rocm-systems (RCCL)", "rocm", chooser % "ROCm/rocm-systems"),
                ("ROCm/../../else where", "rocm", chooser % "ROCm/"),
                ("ROCm/ROCm", "rocm", known["rocm"]),
                ("gitlab.freedesktop.org/drm/amd; ROCm/amdgpu where 'modinfo -n amdgpu' prints a path with dkms", "drm-amd", known["drm-amd"]),
                ("the program's own tracker first; a fault in a framework's kernel: that framework; unclear: ROCm/rocm-systems", "other", ""),
                ("the project that ships the build (wheels of ROCm: ROCm/TheRock)", "other", "")):
            def rename(file, data, named=named):
                return json.dumps({**json.loads(data), "file_at": named}).encode() if file == "verdict.json" else data
            issue = json.loads(self.verb("issue", "--json", self.changed_bundle(self.bundle, rename)).stdout)
            self.assertEqual((issue["tracker"], issue["link"].split("&title=")[0].split("?title=")[0].split("?issue%5B")[0].split("?issue[")[0]),
                             (name, form), named)

    def test_what_the_user_reads_is_apart_from_what_he_posts(self):
        done = self.verb("issue", self.bundle.path)
        self.assertTrue(done.stdout.startswith("Title: "), done.stdout[:80])
        self.assertNotIn("rocmcrash: ", done.stdout)
        self.assertIn("makes public", done.stderr.split("\n")[0])
        self.assertIn("attach", done.stderr)

    def test_the_text_of_somebody_else_is_told(self):
        self.assertIn("nothing here shows that you made this bundle", self.verb("issue", self.bundle.path).stderr)
        self.assertIs(self.made()["made_here"], False)

    def test_what_speaks_against_the_verdict_is_public_too(self):
        """It keeps a maintainer from a wrong path. The rest of the reasons stays in the bundle."""
        doubts = b"\n**What speaks against it**\n\n- RAM had room\n\n**Also seen**\n\n- app-bug, low\n\n**Missing**\n\n- who asked\n\n"

        def doubt(name, data):
            if name != "SUMMARY.md":
                return data
            head, rest = data.split(b"\n**What decides it**\n", 1)
            tail = rest[min(at for at in (rest.find(b"\n```mermaid"), rest.find(b"\n## Details")) if at >= 0):]
            return head + b"\n**What decides it**\n\n- the message\n" + doubts + tail
        for tracker in self.trackers:
            body = json.loads(self.verb("issue", "--json", "--for", tracker["name"], self.changed_bundle(self.bundle, doubt)).stdout)["body"]
            self.assertIn(doubts.decode().strip(), body)
            self.assertNotIn("What decides it", body)
            self.assertNotIn("mermaid", body)

    def test_what_becomes_public_is_what_is_printed(self):
        facts = {"host.distribution": "the distribution", "host.kernel": "the kernel's version", "host.cpu_model": "the processor"}
        for tracker in self.trackers:
            issue = self.made("--for", tracker["name"])
            for name, words in facts.items():
                value = self.bundle.value(name)
                if value is not None:
                    self.assertEqual(words in issue["makes_public"], value in issue["body"], (tracker["name"], name))
        self.assertIn("the processor", self.made("--for", "pytorch")["makes_public"])

    def test_the_form_of_rocm_says_what_is_known_of_gpu_and_rocm(self):
        def without_gpu(name, data):
            if name != "facts.json":
                return data
            document = json.loads(data)
            names = ("gpu.count", "host.kfd_access", "software.rocm_version", "software.system_runtime_version")
            document["facts"] = [fact for fact in document["facts"] if fact["name"] not in names] + [
                {"name": "gpu.count", "value": 0, "when": "static", "source": "/sys/class/drm"},
                {"name": "host.kfd_access", "value": "No such file or directory", "when": "static", "source": "/dev/kfd"},
                {"name": "software.rocm_version", "status": "absent", "reason": "no ROCm library was mapped", "when": "static", "source": "maps"},
                {"name": "software.system_runtime_version", "value": "5.2.3", "when": "static", "source": "distribution package"}]
            return json.dumps(document).encode()

        def section(body, heading):
            return body.split(f"### {heading}\n\n")[1].split("\n### ")[0].strip()
        done = self.verb("issue", "--json", "--for", "rocm", self.changed_bundle(self.bundle, without_gpu))
        body = json.loads(done.stdout)["body"]
        self.assertEqual(section(body, "GPU"), "GPU: none was found. /dev/kfd: No such file or directory")
        self.assertEqual(section(body, "ROCm Version"),
                         "Not known: no ROCm library was mapped\nHIP runtime that the system has: 5.2.3")
        self.assertIn("Python version: ", body)

    def test_a_forged_summary_stays_in_code(self):
        """A summary that its maker did not leave as it was: nothing in it means anything to the tracker."""
        def forge(name, data):
            return data.replace(b"\n## ", b"\nthanks @everyone, see #1 and [here](http://e.example) <img src=x>\n```\n## ", 1) \
                if name == "SUMMARY.md" else data
        forged = self.changed_bundle(self.bundle, forge)
        for tracker in self.trackers:
            done = self.verb("issue", "--json", "--for", tracker["name"], forged)
            body = json.loads(done.stdout)["body"]
            text, is_open = outside_of_code(body)
            self.assertFalse(is_open, tracker["name"])
            for word in ("@everyone", "#1", "](", "<img"):
                self.assertNotIn(word, text)
                self.assertIn(word, body)
        self.assertIn("\n#### What to try", "\n" + outside_of_code(self.made()["body"])[0])  # the one that is ours stays a text

    def test_the_command_can_be_pasted(self):
        words = ["/bin/sh", "-c", "ulimit -c 0; kill -ABRT $$", "it's", "", "--size=4"]
        issue = self.verb("issue", "--json", self.only_bundle(self.run_it(*words)).path)
        block = re.search(r"```text\n(/bin/sh .*)\n```", json.loads(issue.stdout)["body"])
        self.assertEqual(shlex.split(block.group(1)), words)

    def test_wrong_use(self):
        done = self.verb("issue", "--for", "nobody", self.bundle.path)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("'nobody'", done.stderr)
        self.assertEqual(self.verb("issue", cwd=self.path()).returncode, 2)
        text = self.write("text.tar.gz", "hello\n")
        done = self.verb("issue", text)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done)


if __name__ == "__main__":
    support.main()
