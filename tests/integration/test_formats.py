# SPDX-License-Identifier: Apache-2.0
"""Bundles of earlier versions can be read, such as one that was attached to an issue a year ago."""

import glob
import io
import json
import os
import shutil
import tarfile

import support

# Each file is rocmcrash-VERSION-CLASS.tar.gz, made by that version (samples/train.py on a recorded machine).
KEPT = sorted(glob.glob(os.path.join(support.SOURCE, "tests", "fixtures", "bundle", "rocmcrash-*.tar.gz")))


# Classes that today's rules find and the old ones did not: the program of 0.1.0 was `train.py leak`.
TODAY = {"0.1.0": "leak"}


class Earlier(support.Case):
    def each(self):
        self.assertGreater(len(KEPT), 0)
        for path in KEPT:
            version, name = os.path.basename(path)[len("rocmcrash-"):-len(".tar.gz")].split("-", 1)
            yield path, version, name

    def ok(self, *argv):
        done = self.verb(*argv)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_verify_and_show(self):
        for path, version, name in self.each():
            self.assertIn("good", self.ok("verify", path))
            self.assertIn(name, self.ok("show", path))
            self.assertIn("gpu.0.vram", self.ok("show", "--all", path))
            self.assertEqual(support.Bundle(path).manifest["version"], version)

    def test_judged_again(self):
        for path, version, name in self.each():
            verdict = json.loads(self.ok("triage", "--json", path))
            self.assertEqual((verdict["class"], verdict["vendor"]), (TODAY.get(version, name), "amd"))

    def test_the_reader_learns_that_another_version_judged(self):
        for path, version, name in self.each():
            said = f"(judged by rocmcrash {version}; 'rocmcrash triage' judges it by "
            self.assertEqual(said in self.ok("show", path), f"rocmcrash {version} " not in self.ok("--version"))
            said = f"rocmcrash: when the bundle was made, the verdict was: {name}, "
            self.assertEqual(said in self.ok("triage", path), TODAY.get(version, name) != name)
        made = self.only_bundle(self.python("raise ValueError"))
        self.assertNotIn("judged by rocmcrash", self.ok("show", made.path))
        self.assertNotIn("when the bundle was made", self.ok("triage", made.path))

    def test_other_verbs(self):
        for path, _, _ in self.each():
            self.ok("diff", path, path)
            self.ok("export", "--trace", "-o", self.path("trace.json"), path)
            with open(self.path("trace.json"), encoding="utf-8") as file:
                self.assertGreater(len(json.load(file)["traceEvents"]), 10)
            copy = shutil.copy(path, self.path("copy.tar.gz"))
            done = self.verb("redact", copy, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            for clean in glob.glob(self.path("*.tar.gz")):
                self.assertIn("good", self.ok("verify", clean))

    def test_tables_that_lay_elsewhere(self):
        """Before 0.2.0 the allocator's table over time lay in hook/."""
        table = (b"time_s,device,allocated_bytes,reserved_bytes\n" + b"".join(b"%d,0,%d,%d\n" % (i, i << 28, i << 29) for i in range(9)))
        made = self.only_bundle(self.python("import sys, time; time.sleep(1.2); sys.stderr.write('HIP out of memory.\\n'); sys.exit(1)"))
        seen = {}
        for place in ("telemetry", "hook"):
            path = self.path(place + ".tar.gz")
            with tarfile.open(made.path) as old, tarfile.open(path, "w:gz") as new:
                for member in old.getmembers():
                    new.addfile(member, old.extractfile(member) if member.isfile() else None)
                info = tarfile.TarInfo(f"{made.name}/{place}/torch-stats.csv")
                info.size = len(table)
                new.addfile(info, io.BytesIO(table))
            trace = self.verb("export", "--trace", path).stdout
            self.verb("open", "-o", self.path("page.html"), path)
            seen[place] = (trace, support.read(self.path("page.html")).count("PyTorch"))
            self.assertIn("PyTorch's allocator", trace)
        self.assertEqual(seen["telemetry"][0], seen["hook"][0])

    def test_damaged(self):
        for path, _, _ in self.each():
            with open(path, "rb") as file:
                data = bytearray(file.read())
            data[len(data) // 2] ^= 1
            damaged = self.path("damaged.tar.gz")
            with open(damaged, "wb") as file:
                file.write(data)
            self.assertNotEqual(self.verb("verify", damaged).returncode, 0)


if __name__ == "__main__":
    support.main()
