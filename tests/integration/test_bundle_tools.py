# SPDX-License-Identifier: Apache-2.0
"""The finished bundle, read by programs that are not ours: GNU tar, bsdtar, Python's tarfile, sha256sum, csv and json.
What verify and show say about a bundle that was tampered with. Nothing private is in its bytes."""

import csv
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile

import support
from support import HIP_OOM, PYTHON

CLASSES = {"capacity", "fragmentation", "leak", "gtt-limit", "held-by-other", "host-oom",
           "page-fault", "gpu-hang", "sdma", "unknown", "app-bug", "hw-ras", "no-device",
           "arch-mismatch", "version-mismatch", "resource-limit", "collective"}
STATUSES = {"ok", "partial", "skipped", "failed", "timed_out", "crashed", "stuck"}
MOMENTS = {"static", "baseline", "peak", "impact", "after", "log"}
FIRST_SCREEN_LINES = 45


class OtherTools(support.BundleCase):
    def listed(self):
        return {row["path"]: row for row in self.bundle.manifest["files"]}

    def check_tree(self, top):
        """Every file of the manifest is there with its size and hash, and no other file except manifest.json."""
        found = {}
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    data = file.read()
                found[os.path.relpath(path, top)] = (len(data), hashlib.sha256(data).hexdigest())
        del found["manifest.json"]
        want = {path: (row["bytes"], row["sha256"]) for path, row in self.listed().items()}
        self.assertEqual(found, want)

    def extract(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(f"no {command[0]} here")
        where = self.path(command[0])
        os.mkdir(where)
        done = subprocess.run([*command, self.bundle.path, "-C", where], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(os.listdir(where), [self.bundle.name])
        return os.path.join(where, self.bundle.name)

    def test_gnu_tar_and_sha256sum(self):
        top = self.extract("tar", "-xzf")
        self.check_tree(top)
        sums = "".join(f"{row['sha256']}  {path}\n" for path, row in self.listed().items())
        done = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "-"], input=sums,
                              capture_output=True, text=True, cwd=top, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_bsdtar(self):
        self.check_tree(self.extract("bsdtar", "-xzf"))

    def test_python_tarfile(self):
        with tarfile.open(self.bundle.path) as tar:
            members = tar.getmembers()
            self.assertEqual({member.name.split("/")[0] for member in members}, {self.bundle.name})
            for member in members:
                self.assertTrue(member.isfile() or member.isdir(), member.name)
                self.assertFalse(member.name.startswith("/") or ".." in member.name.split("/"))
                self.assertEqual((member.uid, member.gid, member.uname, member.gname), (0, 0, "", ""))
        files = {path: (len(data), hashlib.sha256(data).hexdigest())
                 for path, data in self.bundle.files.items() if path != "manifest.json"}
        self.assertEqual(files, {path: (row["bytes"], row["sha256"])
                                 for path, row in self.listed().items()})

    def test_mode_and_name(self):
        st = os.stat(self.bundle.path)
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o600)
        self.assertLess(st.st_size, 25000000)
        self.assertRegex(self.bundle.name, r"^rocmcrash-\d{8}T\d{6}Z-python3?[\d.]*-capacity-rc-[0-9a-f]{12}$")
        self.assertEqual(os.listdir(self.maker.outdir), [self.bundle.name + ".tar.gz"])


class Contents(support.BundleCase):
    def test_a_row_for_every_collector(self):
        names = [line.split()[0] for line in self.verb("collectors").stdout.splitlines()]
        self.assertGreater(len(names), 10)
        rows = self.bundle.manifest["items"]
        for name in names + ["tracing", "impact", "output"]:
            self.assertEqual(len([row for row in rows if row["name"] == name]), 1, name)
        for row in rows:
            self.assertIn(row["status"], STATUSES)
            self.assertIsInstance(row["ms"], int)
            if row["status"] != "ok":
                self.assertGreater(len(row["reason"]), 5, row)

    def test_facts_are_registered(self):
        self.assertEqual(self.bundle.wrong_facts(), [])

    def test_facts_have_name_moment_and_source(self):
        document = json.loads(self.bundle.text("facts.json"))
        self.assertEqual(document["format"], 1)
        self.assertGreater(len(document["facts"]), 50)
        seen = set()
        for fact in document["facts"]:
            self.assertRegex(fact["name"], r"^[a-z0-9_]+(\.[A-Za-z0-9_]+)+$")
            self.assertIn(fact["when"], MOMENTS)
            self.assertTrue(fact.get("source"), fact)
            self.assertNotIn((fact["name"], fact["when"]), seen)
            seen.add((fact["name"], fact["when"]))
            if "value" in fact:
                self.assertNotIn("status", fact)
            else:
                self.assertIn(fact["status"], ("absent", "unreadable", "blind"))
                self.assertTrue(fact["reason"], fact)

    def test_verdict(self):
        verdict = self.bundle.verdict
        self.assertEqual(verdict["class"], "capacity")
        self.assertIn(verdict["class"], CLASSES)
        self.assertIn(verdict["confidence"], ("low", "medium", "high"))
        for key in ("sentence", "why", "advice", "file_at", "path"):
            self.assertTrue(verdict[key], key)
        for step in verdict["path"]:
            self.assertEqual(set(step), {"node", "question", "answer", "numbers"})
            self.assertIn(step["answer"], ("yes", "no", "undecided", "not asked"))
        self.assertEqual(verdict["path"][-1]["answer"], "yes")
        self.assertIn("20.00 GiB", verdict["sentence"] + " ".join(verdict["why"]))

    def test_telemetry_csv(self):
        rows = list(csv.reader(io.StringIO(self.bundle.text("telemetry/telemetry.csv"))))
        header, lines = rows[0], rows[1:]
        self.assertEqual(header[:2], ["time_s", "flags"])
        self.assertEqual(len(set(header)), len(header))
        self.assertGreater(len(lines), 2)
        times = []
        values = 0
        for line in lines:
            self.assertEqual(len(line), len(header))
            times.append(float(line[0]))
            for field in line[2:]:
                if field:
                    float(field)
                    values += 1
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], 1.2)  # one clock: seconds since the start
        self.assertLess(times[-1], 60)
        self.assertGreater(values, 20)

    def test_summary(self):
        text = self.bundle.text("SUMMARY.md")
        head, details = text.split("## Why this verdict", 1)
        self.assertLessEqual(len(head.splitlines()), FIRST_SCREEN_LINES)
        self.assertTrue(head.startswith("# GPU out of memory: 20.00 GiB wanted"), head[:80])
        for words in ("RAM ", "**Try first:**", "**To check:**", "**File at:**", "**Run:** ended ",
                      "## What the program said", "Tried to allocate 20.00 GiB",
                      "| memory |"):
            self.assertIn(words, head)
        skipped = details.split("Does not apply, or was left alone", 1)[1]
        for row in self.bundle.manifest["items"]:
            if row["status"] == "skipped":
                self.assertIn("- " + row["name"], skipped.replace("\\_", "_"))
        self.assertIn("20.00 GiB", head)
        self.assertNotIn("\x1b", text)
        self.check_mermaid(details)

    def check_mermaid(self, text):
        blocks = re.findall(r"^```mermaid\n(.*?)^```$", text, re.M | re.S)
        self.assertEqual(len(blocks), 1)
        lines = blocks[0].splitlines()
        self.assertRegex(lines[0], r"^flowchart (TD|LR)$")
        nodes, edges = set(), []
        for line in lines[1:]:
            edge = re.match(r"^  (\w+) -->(?:\|[^|]*\|)? (\w+)$", line)
            node = re.match(r'^  (\w+)[\[({]+"[^"\n]*"[\])}]+$', line)
            self.assertTrue(edge or node, line)
            if edge:
                edges.append(edge.groups())
            else:
                nodes.add(node.group(1))
        self.assertGreater(len(edges), 1)
        self.assertEqual({end for edge in edges for end in edge}, nodes)


class Tampered(support.BundleCase):
    def members(self):
        with tarfile.open(self.bundle.path) as tar:
            return [(member, tar.extractfile(member).read() if member.isfile() else None)
                    for member in tar.getmembers()]

    def pack(self, members, raw_tail=b""):
        path = self.path("tampered.tar.gz")
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
            for member, data in members:
                if data is not None:
                    member.size = len(data)
                tar.addfile(member, None if data is None else io.BytesIO(data))
        if raw_tail:
            with open(path, "ab") as file:
                file.write(raw_tail)
        return path

    def extra(self, name, kind=tarfile.REGTYPE, link="", data=b"x"):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        return member, data if kind == tarfile.REGTYPE else None

    def edited(self, name, change):
        """The members with another content of `name`; None removes it."""
        result = []
        for member, data in self.members():
            if member.name == f"{self.bundle.name}/{name}":
                data = change(data)
                if data is None:
                    continue
            result.append((member, data))
        return result

    def repacked(self, name, data):
        """A valid bundle in which `name` has another content."""
        manifest = json.loads(self.bundle.text("manifest.json"))
        for row in manifest["files"]:
            if row["path"] == name:
                row["bytes"], row["sha256"] = len(data), hashlib.sha256(data).hexdigest()
        text = json.dumps(manifest).encode()
        return self.pack([(member, data if member.name == f"{self.bundle.name}/{name}" else
                           text if member.name == f"{self.bundle.name}/manifest.json" else old)
                          for member, old in self.members()])

    def assert_bad(self, path):
        done = self.verb("verify", path)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, r"^rocmcrash: \S.{10,}")
        self.assertNotIn("\x1b", done.stderr)

    def test_good(self):
        done = self.verb("verify", self.bundle.path)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, f"{self.bundle.path}: good\n", ""))
        self.assertEqual(self.verb("verify", self.pack(self.members())).returncode, 0)

    def test_changed_contents(self):
        top = self.bundle.name
        flip = lambda data: bytes([data[0] ^ 1]) + data[1:]
        for name, members in (
                ("a byte", self.edited("facts.json", flip)),
                ("longer", self.edited("facts.json", lambda data: data + b" ")),
                ("emptied", self.edited("verdict.json", lambda data: b"")),
                ("taken out", self.edited("SUMMARY.md", lambda data: None)),
                ("no manifest", self.edited("manifest.json", lambda data: None)),
                ("manifest no JSON", self.edited("manifest.json", lambda data: data[:-2])),
                ("hash changed", self.edited("manifest.json", lambda data: data.replace(
                    self.bundle.manifest["files"][0]["sha256"].encode(), b"0" * 64))),
                ("added", self.members() + [self.extra(f"{top}/added.txt")]),
                ("twice", self.members() + [self.extra(f"{top}/facts.json")])):
            with self.subTest(name):
                self.assert_bad(self.pack(members))

    def test_hostile_entries(self):
        top = self.bundle.name
        for name, member in (
                ("up", self.extra(f"{top}/../../up")),
                ("absolute", self.extra("/tmp/absolute")),
                ("second top", self.extra("other/file")),
                ("symbolic link", self.extra(f"{top}/link", tarfile.SYMTYPE, "/etc/passwd")),
                ("hard link", self.extra(f"{top}/link", tarfile.LNKTYPE, f"{top}/facts.json")),
                ("fifo", self.extra(f"{top}/fifo", tarfile.FIFOTYPE)),
                ("device", self.extra(f"{top}/null", tarfile.CHRTYPE)),
                ("escape sequence", self.extra(f"{top}/\x1b[31mred"))):
            with self.subTest(name):
                self.assert_bad(self.pack(self.members() + [member]))
                self.assert_bad(self.pack([member] + self.members()))

    def test_damaged_files(self):
        with open(self.bundle.path, "rb") as file:
            whole = file.read()
        for name, data in (("cut", whole[:len(whole) // 2]), ("cut at the end", whole[:-4]),
                           ("tail", whole + b"tail"), ("no gzip", b"hello" * 200),
                           ("gzip of text", gzip.compress(b"hello" * 200)),
                           ("crc", whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])):
            with self.subTest(name):
                path = self.path("damaged.tar.gz")
                with open(path, "wb") as file:
                    file.write(data)
                self.assert_bad(path)

    def test_show_lets_no_sequence_through(self):
        path = self.repacked("SUMMARY.md", b"# \x1b]0;title\x07\x1b[2Jclass\n\xe2\x80\xaeevil\x9b31m\rover\n")
        self.assertEqual(self.verb("verify", path).returncode, 0)
        done = subprocess.run([support.ROCMCRASH, "show", path], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0)
        for bad in (b"\x1b", b"\x07", b"\r", b"\x9b", b"\xe2\x80\xae"):
            self.assertNotIn(bad, done.stdout)
        self.assertIn(b"class\n", done.stdout)

    def test_show_prints_the_summary(self):
        summary = self.bundle.text("SUMMARY.md")
        done = self.verb("show", "--raw", self.bundle.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.rstrip("\n"), summary.rstrip("\n"))
        short, whole = self.verb("show", self.bundle.path).stdout, self.verb("show", "--all", self.bundle.path).stdout
        for page in (short, whole):
            self.assertTrue(page.startswith("GPU out of memory: 20.00 GiB wanted"), page[:80])
            self.assertIn("What decides it", page)
            for markup in ("```", "<details>", "**", "&lt;", "|---", "flowchart"):
                self.assertNotIn(markup, page)
        self.assertIn("run.duration_ms", whole)
        self.assertNotIn("run.duration_ms", short)
        self.assertLess(len(short.splitlines()), 90)

    def test_show_one_section(self):
        page = self.verb("show", "--section", "what to try", self.bundle.path).stdout
        self.assertTrue(page.startswith("What to try"), page)
        self.assertNotIn("What decides it", page)
        self.assertEqual(self.verb("show", "--section", "no such", self.bundle.path).stdout.strip(), "")

    def test_show_fits_the_terminal(self):
        for columns in (80, 60):
            status, seen = self.on_terminal([support.ROCMCRASH, "show", "--all", "--no-pager", "--color=never", self.bundle.path],
                                            self.environ, columns=columns)
            self.assertEqual(status, 0)
            code = self.bundle.text("output/stderr.txt")
            for line in seen.replace("\r", "").splitlines():
                if len(line.split(" ")) > 1 and not line.startswith("  ") and line.strip() not in code:
                    self.assertLessEqual(len(line), columns, line)


class Cuts(support.Case):
    def test_half_a_line_hides_no_secret(self):
        """More output than is kept: the kept parts begin and end with whole lines."""
        done = self.python("import sys\nfor i in range(60000): sys.stderr.write("
                           "'password=PLANTEDVALUE%06d-ABCDEFGHIJ\\n' % i)\nsys.exit(1)",
                           options=["--always"])
        text = self.only_bundle(done).text("output/stderr.txt")
        self.assertIn("not kept", text)
        self.assertNotIn("ABCDEFGHIJ", text)
        self.assertNotIn("PLANTED", text)


class Private(support.Case):
    """Secrets and names planted in the program's arguments, environment and output."""

    PLANTS = {
        "hf": "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3h",
        "github": "ghp_" + "Zy9xW8vU7tS6rQ5pO4nM3lK2jI1hG0fE9dC8",
        "aws": "AKIA" + "Q3E5GT7YHU9IJK2M",
        "url": "kingfisher77",
        "flag": "xK42-flagged-Value-99",
        "mail": "trillian@example.org",
    }
    HOST = "betelgeuse7"
    USER = "zaphodbx"

    def run_private(self, host, user, env, code, *argv):
        home = self.path("homes", user)
        os.makedirs(home)
        self.environ.update(env, HOME=home, USER=user, LOGNAME=user)
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("a host name of one's own needs root and unshare")
        process = subprocess.Popen(
            ["unshare", "--uts", "/bin/sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"',
             host, *self.command(PYTHON, "-c", code, *argv)],
            env=self.environ, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=60)
        return self.only_bundle(self.finished(process, out, err))

    def all_bytes(self, bundle):
        with gzip.open(bundle.path) as file:
            return file.read() + bundle.path.encode()

    def test_planted_secrets(self):
        plants = self.PLANTS
        url = f"https://arthur:{plants['url']}@example.org/model"
        code = ("import sys, os\n"
                f"sys.stderr.write({HIP_OOM!r})\n"
                "sys.stderr.write(' '.join(sys.argv[1:]) + '\\n%r\\n' % sys.argv)\n"
                "for key in ('HF_TOKEN', 'NCCL_HOSTID', 'HOME'):\n"
                "    sys.stderr.write('%s=%s\\n' % (key, os.environ[key]))\n"
                "for name in (os.uname().nodename, os.environ['USER']):\n"
                "    sys.stderr.write('on or by %s and %s\\n' % (name, name.upper()))\n"
                "sys.exit(1)")
        bundle = self.run_private(
            self.HOST, self.USER,
            {"HF_TOKEN": plants["hf"], "NCCL_HOSTID": self.HOST, "GGML_SECRET": plants["github"],
             "TORCH_HOME": self.path("homes", self.USER, "torch"), "HIP_TOKEN": plants["aws"]},
            code, "--token", plants["flag"], f"--password={plants['flag']}", url, plants["github"],
            plants["aws"], plants["mail"], f"/data/{self.USER}/{self.HOST}/x.gguf")
        data = self.all_bytes(bundle)
        for what, secret in {**plants, "host": self.HOST, "user": self.USER,
                             "home": self.path("homes", self.USER)}.items():
            for form in (secret, secret.upper(), secret.lower()):
                at = data.find(form.encode())
                self.assertEqual(at, -1, f"{what}: {data[max(0, at - 80):at + 40]!r}")
        self.assertEqual(bundle.verdict["class"], "capacity")
        counts = json.loads(bundle.text("redaction.json"))["counts"]
        self.assertGreater(counts["secret"], 5)
        self.assertGreater(counts["host"], 1)

    def test_names_that_are_words_change_nothing(self):
        """Hosts and users whose name is a folder of /proc, an option, or a word of rocmcrash."""
        env = {"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:128"}
        code = f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)"
        seen = []
        for host, user in (("vm", "max"), ("impact", "memory"), ("capacity", "static"),
                           ("kernel", "torch"), (self.HOST, self.USER)):
            shutil.rmtree(self.outdir)
            os.mkdir(self.outdir)
            bundle = self.run_private(host, user, env, code)
            facts = json.loads(bundle.text("facts.json"))["facts"]
            for fact in facts:
                self.assertNotIn("<", fact["name"] + fact["when"])
                if fact["source"].startswith(("/proc/", "/sys/")):
                    self.assertNotIn("<", fact["source"].replace("<pid>", ""), fact)
            self.assertEqual(bundle.value("env.PYTORCH_HIP_ALLOC_CONF"), "max_split_size_mb:128")
            self.assertEqual(bundle.fact("host.max_map_count").get("source"),
                             "/proc/sys/vm/max_map_count")
            again = json.loads(self.verb("triage", "--json", bundle.path).stdout)
            self.assertEqual(again, bundle.verdict)
            seen.append((bundle.verdict["class"], bundle.verdict["sentence"],
                         [(step["node"], step["answer"]) for step in bundle.verdict["path"]],
                         sorted((fact["name"], fact["when"]) for fact in facts
                                if not fact["name"].startswith(("proc.", "host.")))))
        for other in seen[1:]:
            self.assertEqual(other, seen[0])


class Again(support.BundleCase):
    def test_triage_of_the_bundle_judges_the_same(self):
        done = self.verb("triage", "--json", self.bundle.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout), self.bundle.verdict)


class TwiceRedacted(support.BundleCase):
    def test_our_own_words_stay(self):
        """The tree's questions in verdict.json are not taken for a user's prompts."""
        done = self.verb("redact", "--preview", self.bundle.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("verdict.json", done.stdout + done.stderr)


class BelowHome(support.Case):
    """The home folder has another name in a bundle; where the bundle was made it is known."""

    def test_rerun(self):
        home = self.path("homes", "zaphodbx")
        program = self.write("homes/zaphodbx/bin/fails", '#!/bin/sh\necho "$@"; kill -SEGV $$\n', 0o755)
        self.environ["HOME"] = home
        bundle = self.only_bundle(self.run_it(program, home + "/data", "a:" + home))
        self.assertNotIn("zaphodbx", bundle.text("run/run.json"))
        again = self.path("again")
        os.mkdir(again)
        done = self.verb("rerun", "--yes", "-o", again, bundle.path)
        self.assertEqual(done.returncode, 128 + 11, done.stderr)
        self.assertIn(f"{home}/data a:{home}\n", done.stdout)
        self.assertEqual(len(os.listdir(again)), 1)
        own = [line for line in done.stdout.splitlines() if line.startswith("rocmcrash: ")]
        self.assertRegex(own[0], r"^rocmcrash: The program died of SIGSEGV(, in dash\S*)? \(app-bug, medium confidence\)$")  # as a run says it
        self.assertEqual([line.split(": ")[1] for line in own[1:]], ["why", "try", "check", "bundle"])
        # Another user, or another machine: it has neither the home nor the map of the names.
        self.environ["HOME"] = self.path("homes")
        self.environ["XDG_STATE_HOME"] = self.environ["ROCMCRASH_STATE_DIR"] = self.path("elsewhere")
        done = self.verb("rerun", "--yes", "-o", again, bundle.path)
        self.assertEqual(done.returncode, 125)
        self.assertIn("give it after --", done.stderr)

    def test_rerun_that_is_killed(self):
        """The command ends with it, as a run's does."""
        code = "import os, signal; open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'is'); signal.pause()"
        rerun = subprocess.Popen([support.ROCMCRASH, "rerun", "--", support.PYTHON, "-S", "-c", code], env=self.environ,
                                 cwd=self.outdir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(rerun.wait)
        self.addCleanup(rerun.kill)
        path = os.path.join(self.outdir, "is")
        self.wait_for_file(path)
        pid = int(support.read(path))
        rerun.kill()
        support.wait_for(lambda: not support.is_running(pid), "the command to end")

    def test_rerun_of_a_project(self):
        """Names of projects are known where the bundle was made, too."""
        home = self.path("homes", "zaphodbx")
        program = self.write("homes/zaphodbx/heartofgold/engine/fails", '#!/bin/sh\necho "$@"; kill -SEGV $$\n', 0o755)
        self.environ["HOME"] = home
        bundle = self.only_bundle(self.run_it(program, home + "/heartofgold/engine/data"))
        self.assertNotIn("heartofgold", bundle.text("run/run.json"))
        again = self.path("again")
        os.mkdir(again)
        done = self.verb("rerun", "--yes", "-o", again, bundle.path)
        self.assertEqual(done.returncode, 128 + 11, done.stderr)
        self.assertIn(f"{home}/heartofgold/engine/data\n", done.stdout)


if __name__ == "__main__":
    support.main()
