# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash reveal`: the owner resolves pseudonyms on his machine; nobody else can, and its file does not grow without
limit."""

import glob
import json
import os
import stat

import support

KEPT = 100
FAILS = ("import sys, time; time.sleep(1.2); sys.stderr.write('cannot connect to kestrel.hpc.example.org:29500\\n"
         "password=hunter2xyz\\nHIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of "
         "which 4.00 MiB is free.\\n'); sys.exit(1)")


class Reveal(support.Case):
    def setUp(self):
        super().setUp()
        self.bundle = self.only_bundle(self.python(FAILS))
        self.names = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "names")

    def test_the_owner_reads_them_back(self):
        text = self.bundle.files["output/stderr.txt"].decode()
        self.assertNotIn("kestrel", text)
        done = self.verb("reveal", "--json", self.bundle.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = json.loads(done.stdout)
        host = next(pseudonym for pseudonym, name in names.items() if "kestrel" in name)
        self.assertIn(host, text)
        done = self.verb("reveal", self.bundle.path, "-", input=f"ask the admin of {host}, not of <host99> <b>\n")
        self.assertEqual(done.stdout, f"ask the admin of {names[host]}, not of <host99> <b>\n")
        self.assertIn("kestrel", self.verb("reveal", self.bundle.path).stdout)
        self.assertEqual(self.verb("reveal", self.bundle.path, host).stdout, names[host] + "\n")
        for word, told in (("<host99>", "the bundle has no name for '<host99>'"), ("gone.txt", "cannot read 'gone.txt': No such file or directory")):
            done = self.verb("reveal", self.bundle.path, word)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"rocmcrash: {told}\n"))
        many = "<" * 3000000  # the time is proportional to the length of a stranger's text
        self.assertEqual(self.verb("reveal", self.bundle.path, "-", input=many + host).stdout, many + names[host])

    def test_a_renamed_bundle(self):
        """As a browser does. The name in it counts."""
        folder = self.path("downloads")
        os.mkdir(folder)
        for name in ("ren.tar.gz", self.bundle.name + ".tar (1).gz"):
            path = os.path.join(folder, name)
            os.link(self.bundle.path, path)
            self.assertIn("kestrel", self.verb("reveal", path).stdout)
            self.assertNotIn("that you made", self.verb("issue", path).stderr)
            self.assertIn(name, self.verb("list", folder).stdout)
            self.assertIn(name, self.verb("list", cwd=folder).stdout)
            self.assertIn(name, self.verb("show", cwd=folder).stderr)
            self.assertEqual(self.verb("list", "--prune=0", "--yes", cwd=folder).returncode, 0)
            os.unlink(path)  # it was renamed: it is not removed

    def test_a_strangers_bundle_of_that_name(self):
        """The name of a published bundle is known: a stranger can give it to a bundle of his own."""
        self.assertNotIn("that you made", self.verb("issue", self.bundle.path).stderr)
        self.assertIs(json.loads(self.verb("issue", "--json", self.bundle.path).stdout)["made_here"], True)

        def forge(name, data):
            return data.replace(b'"argv":', b'"argv": ["echo", "<host1>"], "was":') if name == "run/run.json" else data
        forged = self.changed_bundle(self.bundle, forge)
        os.rename(forged, self.bundle.path)
        self.assertIn("that you made", self.verb("issue", self.bundle.path).stderr)
        self.assertIs(json.loads(self.verb("issue", "--json", self.bundle.path).stdout)["made_here"], False)
        told = self.verb("reveal", self.bundle.path)
        self.assertEqual((told.returncode, told.stdout), (2, ""))
        self.assertIn("it is another one", told.stderr)
        again = self.verb("rerun", "--yes", self.bundle.path)
        self.assertEqual(again.returncode, 125, again)
        self.assertNotIn("kestrel", again.stdout + again.stderr)

    def test_it_is_the_owners_alone_and_holds_no_secret(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.names).st_mode), 0o700)
        files = os.listdir(self.names)
        self.assertEqual(files, [self.bundle.name + ".json"])
        path = os.path.join(self.names, files[0])
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertNotIn("hunter2xyz", support.read(path))
        self.assertFalse([name for name in self.bundle.files if name.startswith("names")])

    def test_the_oldest_are_forgotten(self):
        for i in range(KEPT + 20):
            with open(os.path.join(self.names, f"rocmcrash-2020{i:04}T000000Z-x-leak.json"), "w", encoding="utf-8") as file:
                file.write("{}")
        second = self.python(FAILS).bundles[-1]
        left = sorted(os.listdir(self.names))
        self.assertEqual(len(left), KEPT)
        self.assertIn(second.name + ".json", left)
        self.assertNotIn("rocmcrash-20200000T000000Z-x-leak.json", left)

    def test_a_campaign(self):
        """The campaign's bundle has its names. A pseudonym means the same in the files of both runs. All runs count as
        one bundle."""
        program = ("import sys; other = '--other' in sys.argv; [sys.stderr.write(f'cannot connect to {name}.hpc.example.org:29500\\n') "
                   "for name in (['otterling'] if other else []) + ['kestrel']]; sys.exit(0 if other else 3)")
        for i in range(KEPT - 4):
            with open(os.path.join(self.names, f"rocmcrash-2020{i:04}T000000Z-x-leak.json"), "w", encoding="utf-8") as file:
                file.write("{}")
        os.mkdir(self.path("campaign"))
        done = self.verb("try", "--error", "0.2", "--first", "-o", self.path("campaign"), "--with-arg", "--other", "--", support.PYTHON, "-c", program)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        left = os.listdir(self.names)
        self.assertIn("rocmcrash-20200000T000000Z-x-leak.json", left)
        self.assertEqual(len(left), KEPT - 4 + 3, left)  # setUp()'s bundle, the campaign's, and its runs
        runs = [name for name in left if name.startswith("rocmcrash-try-")]
        for name in runs:
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.names, name)).st_mode), 0o700)
        campaign = support.Bundle(glob.glob(self.path("campaign", "*.tar.gz"))[0])
        changed = campaign.text("experiment/changed.SUMMARY.md")
        told = self.verb("reveal", campaign.path, "-", input=changed).stdout
        self.assertIn("connect to otterling.hpc.example.org", told)
        self.assertIn("connect to kestrel.hpc.example.org", told)
        names = json.loads(self.verb("reveal", "--json", campaign.path).stdout)
        kestrel = [pseudonym for pseudonym, name in names.items() if name == "kestrel.hpc.example.org"]
        self.assertEqual(len(kestrel), 1, names)
        self.assertIn(kestrel[0], changed)
        self.assertIn(kestrel[0], campaign.text("output/stderr.txt"))
        for path in glob.glob(self.path("campaign", "rocmcrash-try-*", "*", "*.tar.gz")):
            self.assertIn("kestrel", self.verb("reveal", path).stdout)

    def test_the_oldest_campaign_is_forgotten_like_a_bundle(self):
        os.makedirs(os.path.join(self.names, "rocmcrash-try-20190101T000000Z-abcdef"))
        with open(os.path.join(self.names, "rocmcrash-try-20190101T000000Z-abcdef", "rocmcrash-20190101T000000Z-x-leak.json"), "w",
                  encoding="utf-8") as file:
            file.write("{}")
        for i in range(KEPT - 1):
            with open(os.path.join(self.names, f"rocmcrash-2020{i:04}T000000Z-x-leak.json"), "w", encoding="utf-8") as file:
                file.write("{}")
        self.assertEqual(len(self.python(FAILS).bundles), 2)
        left = os.listdir(self.names)
        self.assertEqual((len(left), [name for name in left if "2019" in name]), (KEPT, []))

    def test_where_there_is_no_map(self):
        for words in (("/nowhere/rocmcrash-x.tar.gz",), ("..",), ("../../etc/passwd",)):
            done = self.verb("reveal", *words)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done)
        self.assertEqual(self.verb("reveal").returncode, 125)

    def test_a_bundle_needs_no_map(self):
        for name in os.listdir(self.names):
            os.unlink(os.path.join(self.names, name))
        os.rmdir(self.names)
        with open(self.names, "w", encoding="utf-8"):
            pass  # a file where the folder would be
        self.assertEqual(len(self.python(FAILS).bundles), 2)


if __name__ == "__main__":
    support.main()
