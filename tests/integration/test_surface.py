# SPDX-License-Identifier: Apache-2.0
"""Our attack surface: redacting somebody else's bundle, reading hostile ones, files that only their owner can read,
links in a shared /tmp, and a summary that stays text whatever the log holds."""

import glob
import gzip
import hashlib
import io
import json
import os
import re
import resource
import shutil
import stat
import subprocess
import tarfile
import time

import privacy_plants
import support
from attack_table import Attacks
from support import HIP_OOM, PYTHON, ROCMCRASH, SOURCE

SEED = int(os.environ.get("REDACT_SEED") or "1")
FAILS = f"import sys, time; time.sleep(0.3); sys.stderr.write({HIP_OOM!r}); sys.exit(1)"
# A sanitizer's shadow memory alone takes terabytes of address space.
SANITIZED = b"__asan_init" in open(ROCMCRASH, "rb").read() if ROCMCRASH else False
MEMORY_MAX = 1 << 30
SECONDS_MAX = 200 if SANITIZED else 20


def setUpModule():
    print(f"REDACT_SEED={SEED}", flush=True)


def bundle_bytes(top, files, items=()):
    """A bundle as another version of rocmcrash, or somebody's script, may have made it."""
    rows = [{"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in files.items()]
    manifest = {"format": 1, "tool": "rocmcrash", "name": top, "items": list(items), "files": rows, "cut": []}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size, member.mtime, member.uname = len(data), 1700000000, ""
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Foreign(support.Case):
    def setUp(self):
        super().setUp()
        self.maker = privacy_plants.Maker(SEED)
        self.user, self.host = self.maker.name(8), self.maker.name(7) + "3"
        self.token = self.maker.plant("secret", "hf_{alnum:34}", "")
        self.plants = self.maker.all()
        self.text = "\n".join(plant.text for plant in self.plants) + "\n"
        facts = {"format": 1, "facts": [
            {"name": "run.program", "when": "static", "value": f"{self.user}_train.py", "source": "argv"},
            {"name": "env.HF_TOKEN", "when": "static", "value": self.token.text, "source": "environment"},
            {"name": "gpu.0.vram_total_bytes", "when": "static", "value": 17163091968, "source": "/sys/x"}]}
        self.files = {
            "SUMMARY.md": f"# capacity\nby {self.user} on {self.host}, {self.token.text}\n".encode(),
            "facts.json": json.dumps(facts).encode(),
            "verdict.json": b'{"class": "capacity", "confidence": "high"}',
            "env.txt": f"USER={self.user}\nHOSTNAME={self.host}\nHF_TOKEN={self.token.text}\n".encode(),
            "output/stderr.txt": self.text.encode() + HIP_OOM.encode(),
            f"notes/{self.user}-on-{self.host}.txt": b"nothing\n",
            f"notes/{self.user}-ON-{self.host}.log": b"nothing else\n",
            "allocator/snapshot.pickle": b"(dp0\nS'segments'\np1\n(lp2\n" * 20,
            "core/stack": bytes(range(256)) * 40,
            "redaction.json": b'{"format": 1, "counts": {"user": 7}, "secrets": {"named": 2}}',
        }
        self.top = f"rocmcrash-20260101T000000Z-{self.user}_train.py-capacity"
        self.path_ = self.path(self.top + ".tar.gz")
        items = [{"name": "host", "status": "failed", "reason": f"cannot read /home/{self.user}/x", "ms": 1}]
        with open(self.path_, "wb") as file:
            file.write(bundle_bytes(self.top, self.files, items))

    def clean(self, *options):
        done = self.verb("redact", *options, self.path_)
        self.assertEqual(done.returncode, 0, done.stderr)
        paths = glob.glob(self.path("*.tar.gz"))
        self.assertEqual(len(paths), 1, paths)
        return done, paths[0]

    def contents(self, path):
        with tarfile.open(path) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar.getmembers() if member.isfile()}

    def found(self, path):
        with gzip.open(path) as file:
            text = (file.read() + os.path.basename(path).encode()).decode("latin-1").lower()
        names = [privacy_plants.Plant("user", "user", [self.user], [], ""),
                 privacy_plants.Plant("host", "host", [self.host], [], ""), self.token]
        return [(plant.kind, plant.form, plant.found_in(text)) for plant in names + self.plants
                if plant.found_in(text)]

    def test_is_cleaned(self):
        self.assertEqual(self.verb("verify", self.path_).returncode, 0)
        self.assertGreater(len(self.found(self.path_)), 600)
        _, path = self.clean()
        found = self.found(path)
        print(f"a foreign bundle: {len(self.plants) + 3} planted, {len(found)} leaked")
        self.assertEqual(found, [])
        self.assertEqual(self.verb("verify", path).returncode, 0)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644)  # unchanged
        files = self.contents(path)
        names = [name.split("/", 1)[1] for name in files]
        self.assertEqual(sorted(name.rsplit(".", 1)[1] for name in names if name.startswith("notes/")),
                         ["log", "txt"])
        self.assertFalse([name for name in names if "pickle" in name or "core/stack" in name])
        report = json.loads(next(data for name, data in files.items() if name.endswith("redaction.json")))
        self.assertEqual(sorted(row["file"] for row in report["left_out"]),
                         ["allocator/snapshot.pickle", "core/stack"])
        self.assertGreater(report["counts"]["user"], 7)
        self.assertGreater(report["counts"]["secret"], 400)
        facts = json.loads(next(data for name, data in files.items() if name.endswith("facts.json")))["facts"]
        self.assertEqual([fact["name"] for fact in facts],
                         ["run.program", "env.HF_TOKEN", "gpu.0.vram_total_bytes"])
        self.assertEqual(facts[2]["value"], 17163091968)
        self.assertEqual(facts[1]["value"], "<secret:hugging-face>")
        again = self.verb("redact", path)
        self.assertEqual((again.returncode, again.stderr), (0, "rocmcrash: replaced: nothing\n"))
        before = {name: data for name, data in files.items() if not name.endswith(("manifest.json", "redaction.json"))}
        after = {name: data for name, data in self.contents(path).items() if name in before}
        self.assertEqual(before, after)

    def test_binary_only_when_included(self):
        _, path = self.clean("--include=allocator,core/*")
        files = self.contents(path)
        kept = {name.split("/", 1)[1]: data for name, data in files.items()}
        self.assertEqual(kept["allocator/snapshot.pickle"], self.files["allocator/snapshot.pickle"])
        self.assertEqual(kept["core/stack"], self.files["core/stack"])

    def test_preview_writes_nothing(self):
        if len(self.user) <= 2:
            self.skipTest("a user name of two letters is a name only where something announces it")
        with open(self.path_, "rb") as file:
            before = file.read()
        done, path = self.clean("--preview")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertTrue(re.search(r"rocmcrash: preview: user \(known name\) '.*' -> <user[0-9]+>, [0-9]+ times?, first in ",
                                  done.stdout), "the user is not told of, with a count")
        self.assertNotIn(self.token.text, done.stdout)
        told = re.findall(r"rocmcrash: preview: (.* -> [^,]+), [0-9]+ times?", done.stdout)
        whole = [line for line in told if not line.startswith("secret") and "...' -> " not in line]
        self.assertGreater(len(whole), 10)
        self.assertEqual(sorted(set(whole)), sorted(whole))  # each kind and value once

    def test_the_count_is_of_what_was_replaced(self):
        zero = "00000000-0000-0000-0000-000000000000"
        text = f"password=kX9vQ2mT7w\ntoken: kX9vQ2mT7w\n192.168.7.9 and 192.168.7.9 at 52:54:00:a2:34:5f\nboot {zero}\n"
        done = subprocess.run([ROCMCRASH, "redact", "-"], input=text, capture_output=True, text=True, check=True)
        told = {kind: int(count) for count, kind in re.findall(r"([0-9]+) ([a-z]+)", done.stderr)}
        seen = re.findall(r"<(?:(secret):[^>]*|([a-z]+)[0-9]+)>", done.stdout)
        self.assertEqual(told, {"secret": 2, "ip": 2, "mac": 1})
        self.assertEqual(told, {kind: [a or b for a, b in seen].count(kind) for kind in told})
        self.assertIn(zero, done.stdout)

    def test_keep(self):
        _, path = self.clean("--keep=hosts,users")
        text = b"".join(self.contents(path).values()).decode("latin-1")
        self.assertIn(f"by {self.user} on {self.host}, <secret:hugging-face>", text)

    def test_one_of_ours_judges_the_same(self):
        bundle = self.only_bundle(self.python(FAILS))
        before = self.verb("triage", "--json", bundle.path).stdout
        self.assertEqual(self.verb("redact", bundle.path).returncode, 0)
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        self.assertEqual(self.verb("triage", "--json", bundle.path).stdout, before)
        self.assertEqual(json.loads(before)["class"], "capacity")


class Hostile(support.Case):
    """No verb may write outside its folder, use much memory, take long, or die of a signal."""

    # {} is the bundle, {good} another one.
    VERBS = (("verify",), ("show", "--all"), ("triage", "--json"), ("redact",), ("redact", "--preview"),
             ("export", "--trace"), ("diff", "{good}", "{}"), ("diff", "--all", "{}", "{good}"), ("rerun",),
             ("rerun", "--yes"), ("complete",))
    REWRITE = ("redact", "complete")
    ONCE = (("diff", "--all", "{}", "{good}"), ("rerun",), ("redact", "--preview"))  # not made again for each archive

    def setUp(self):
        super().setUp()
        self.jail = self.path("jail")
        self.target = self.write("target", "untouched\n")
        os.mkdir(self.jail)
        self.good = self.path("good.tar.gz")
        with open(self.good, "wb") as file:
            file.write(bundle_bytes("rocmcrash-good", {
                "SUMMARY.md": b"# x\n", "facts.json": b'{"format":1,"facts":[{"name":"gpu.count","value":1}]}',
                "verdict.json": b'{"class": "capacity", "confidence": "high"}'}))
        self.write("sysroot/dev/kmsg", "6,1,1,-;usb 1-2: new high-speed USB device number 7\n")
        self.environ["ROCMCRASH_SYSROOT"] = self.path("sysroot")
        self.addCleanup(self.assert_no_stage_left, self.stages())

    @staticmethod
    def limit():
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_MAX, SECONDS_MAX))

    def outside(self):
        """The places where a bundle with paths outside its folder would leave files."""
        return sorted(os.listdir(self.folder)), support.read(self.target), sorted(os.listdir(self.jail))

    def run_verbs(self, data, name, but=()):
        rows = []
        for verb in [verb for verb in self.VERBS if verb not in but]:
            path = os.path.join(self.jail, name)
            with open(path, "wb") as file:
                file.write(data)
            before = self.outside()
            start = time.monotonic()
            words = [word.format(path, good=self.good) for word in verb]
            argv = [ROCMCRASH, *words, *([] if "{}" in verb else [path])]
            done = subprocess.run(argv, capture_output=True, env=self.environ, cwd=self.jail, stdin=subprocess.DEVNULL,
                                  preexec_fn=self.limit, timeout=120, check=False)
            seconds = time.monotonic() - start
            usual = (2, 125) if verb[0] == "rerun" else (0, 1, 2)  # none of these may be run
            self.assertIn(done.returncode, usual, (name, verb, done.stderr[-300:]))
            self.assertNotRegex(done.stdout + done.stderr, rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]",
                                (name, verb))
            if verb[0] == "export" and done.returncode == 0:
                json.loads(done.stdout)
            self.assertEqual(self.outside(), before, (name, verb))
            with open(path, "rb") as file:
                kept = file.read()
            if done.returncode != 0 or "--preview" in verb or verb[0] not in self.REWRITE:
                self.assertEqual(kept, data, (name, verb))
            rows.append((verb, done.returncode, seconds))
        os.unlink(os.path.join(self.jail, name))
        return rows

    # The files of a bundle that export, diff and complete read.
    TABLES = ("telemetry/telemetry.csv", "telemetry/torch-stats.csv", "hook/events.jsonl", "hook/oom-first.json",
              "run/events.txt", "environment/environment.txt", "kernel_log/kernel.log", "verdict.json")

    def test_archives(self):
        folder = self.path("hostile")
        os.mkdir(folder)
        subprocess.run([PYTHON, os.path.join(SOURCE, "tests", "fixtures", "bundle", "hostile.py"), folder], check=True)
        expected = dict(line.split("\t", 1) for line in support.read(folder + "/expect").splitlines())
        slowest = 0.0
        with Attacks("archives that are not what they seem") as attacks:
            for name, complaint in expected.items():
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                with attacks.one(name):
                    for verb, status, seconds in self.run_verbs(data, name, self.ONCE):
                        slowest = max(slowest, seconds)
                        if complaint and verb[0] in ("verify", "redact", "complete", "rerun"):
                            self.assertNotEqual(status, 0, (name, verb))
        print(f"{len(expected)} archives: slowest reading {slowest:.2f} s")
        self.assertGreater(len(expected), 80)

    def test_contents(self):
        """Valid archives with bad contents."""
        deep = b'{"format":1,"facts":' + b"[" * 900 + b"]" * 900 + b"}"
        wide = json.dumps({"format": 1, "facts": [
            {"name": f"a.b{i}", "when": "static", "value": "x" * 20, "source": "s"} for i in range(40000)]}).encode()
        nasty = {"escapes": b"\x1b]0;owned\x07\x1b[2J\x9b31m\xc2\x9b2J \xe2\x80\xaetxt\n" * 2000,
                 "not-utf8": b"\xff\xfe\xc0\x80 password=\xff\xfe\xfdsecret7\n" * 5000,
                 "keys": b"-----BEGIN PRIVATE KEY-----\n" * 40000, "slashes": b"\\" * 1000000,
                 "half-keys": (b"A" * 64 + b"\n") * 8000 + b"PRIVATE " * 20000,
                 "names": b"api_key_token_secret_password_" * 30000, "quotes": b'password="' * 60000,
                 "urls": b"https://a:b" * 60000, "dots": b"1.2.3." * 150000, "colons": b"ab:" * 300000,
                 "at": b"a," * 300000 + b"@", "nul": b"\0" * 3000000, "one-line": b"x" * 8000000,
                 "braces": b"{" * 500000, "session": b"sessionid=" * 60000, "jwt": b"eyJ" * 300000}
        top, slowest = "rocmcrash-20260101T000000Z-x-capacity", ("", 0.0)
        with Attacks("archives with contents that are not") as attacks:
            for name, data in {"deep": None, "wide": None, **nasty}.items():
                files = {"SUMMARY.md": b"# x\n", "facts.json": b'{"format":1,"facts":[]}'}
                if name in ("deep", "wide"):
                    files["facts.json"] = deep if name == "deep" else wide
                else:
                    files.update({"output/stderr.txt": data, "SUMMARY.md": data[:200000]})
                    files.update(dict.fromkeys(self.TABLES, data[:500000]))
                    files["run/run.json"] = b'{"start_mono_ns": "1000"}'
                with attacks.one(name):
                    for verb, status, seconds in self.run_verbs(bundle_bytes(top, files), name + ".tar.gz"):
                        slowest = max(slowest, (" ".join(verb) + " " + name, seconds), key=lambda row: row[1])
                        if verb == ("redact",):
                            self.assertEqual(status, 0, name)
        print(f"{len(nasty) + 2} contents: slowest {slowest[1]:.2f} s ({slowest[0]})")

    def peak_kib(self, *words):
        with subprocess.Popen([ROCMCRASH, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=self.environ, cwd=self.jail) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertIn(process.returncode, (0, 1, 2), words)
        return usage.ru_maxrss

    def test_values_that_fill_the_memory(self):
        """A parser takes 80 bytes for a value of two: here 335 MB."""
        self.skip_if_sanitized("which takes memory of its own")
        values = b"[" + b"0," * (4 << 20) + b"0]"
        files = {"SUMMARY.md": b"# x\n", "facts.json": b'{"format":1,"facts":[]}', "verdict.json": b'{"class":"capacity"}'}
        path = os.path.join(self.jail, "b.tar.gz")
        for name, data, verbs in (("facts.json", b'{"facts":%s}' % values, ("triage", "show", "fleet", "redact")),
                                  ("verdict.json", b'{"class":[%s0]}' % (b"0," * (3 << 19)), ("show --json", "triage"))):
            with open(path, "wb") as file:
                file.write(bundle_bytes("rocmcrash-x", {**files, name: data}))
            for verb in verbs:
                if verb == verbs[0]:
                    done = self.verb(*verb.split(), path)  # --json tells a failure on stdout
                    self.assertIn(f"'{name}' has more than 1000000 values", done.stderr + done.stdout)
                self.assertLess(self.peak_kib(*verb.split(), path), 200 << 10, (name, verb))

    def test_rows_that_are_all_marked(self):
        """Each row of the table may be searched for its marks, but not all rows behind it."""
        files = {"SUMMARY.md": b"# x\n", "facts.json": b'{"format":1,"facts":[]}',
                 "telemetry/telemetry.csv": b"seconds,flags\n" + b"1,x\n" * (1 << 20)}
        with Attacks("archives with contents that are not") as attacks, attacks.one("marked rows"):
            self.run_verbs(bundle_bytes("rocmcrash-x", files), "marked.tar.gz", self.ONCE)

    def test_a_log_full_of_names(self):
        """The list of findings takes more memory than the text, so it has a limit."""
        self.skip_if_sanitized("which takes memory of its own")
        path = os.path.join(self.jail, "log")
        with open(path, "wb") as file:
            file.write(b"/home/alice/" * (5 << 20))
        with Attacks("archives with contents that are not") as attacks, attacks.one("a log full of names"):
            self.assertLess(self.peak_kib("redact", path), 400 << 10)
            self.assertIn("cannot redact", self.verb("redact", path).stderr)

    def test_a_text_that_grows(self):
        """Each short word is replaced by a long one, so the text grows. It must still be redacted."""
        done = self.verb("redact", "-", input="me: a b c\nai: d\n" * 9000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("a b c", done.stdout)

    def test_a_link_in_the_bundles_place(self):
        """The bundle is a link to somebody's file: verbs that rewrite a bundle leave the file alone."""
        good = bundle_bytes("rocmcrash-x", {"SUMMARY.md": b"HF_TOKEN=hf_" + b"a1" * 17 + b"\n",
                                            "facts.json": b'{"format":1,"facts":[]}'})
        real = self.path("real.tar.gz")
        with open(real, "wb") as file:
            file.write(good)
        link = os.path.join(self.jail, "link.tar.gz")
        os.symlink(real, link)
        for verb in self.REWRITE:
            done = self.verb(verb, link)
            self.assertEqual(done.returncode, 2, done.stderr)
            with open(real, "rb") as file:
                self.assertEqual(file.read(), good)
            self.assertEqual(os.listdir(self.jail), ["link.tar.gz"])

    def test_a_strangers_command_is_not_run(self):
        """The command in a bundle is shown as text, and is run only when the user agrees."""
        stamp = self.path("stamp")
        nasty = "\x1b[2Jtouch\u202e \x9b31m\n"
        run = {"argv": ["/bin/sh", "-c", f"touch {stamp}", nasty], "cwd": "/\x1b]0;x\x07", "argv_cut": 0}
        path = os.path.join(self.jail, "b.tar.gz")
        with open(path, "wb") as file:
            file.write(bundle_bytes("rocmcrash-x", {"SUMMARY.md": b"# x\n", "run/run.json": json.dumps(run).encode()}))
        done = subprocess.run([ROCMCRASH, "rerun", path], capture_output=True, env=self.environ, cwd=self.jail,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertFalse(os.path.exists(stamp))
        self.assertIn(f"touch {stamp}".encode(), done.stderr)
        self.assertIn(b"--yes", done.stderr)
        self.assertNotRegex(done.stderr, rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]")
        self.assertEqual(os.listdir(self.jail), ["b.tar.gz"])
        done = self.verb("rerun", "--yes", "-o", self.outdir, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(stamp))


class OwnFiles(support.Case):
    def test_only_the_owner_reads(self):
        """With umask 0: the state during the run, the bundle, and the stage."""
        stamp = self.path("stamp")
        code = f"import time, os; time.sleep(0.6); open({stamp!r}, 'w').close(); time.sleep(0.6); " + FAILS
        old = os.umask(0)
        try:
            process = self.start(PYTHON, "-c", code, stderr=subprocess.PIPE)
        finally:
            os.umask(old)
        self.wait_for_file(stamp)
        modes = {}
        for folder, folders, names in os.walk(self.environ["ROCMCRASH_STATE_DIR"]):
            for name in folders + names:
                path = os.path.join(folder, name)
                modes[path] = stat.S_IMODE(os.lstat(path).st_mode)
        _, err = process.communicate(timeout=60)
        bundle = self.only_bundle(self.finished(process, b"", err))
        modes[bundle.path] = stat.S_IMODE(os.stat(bundle.path).st_mode)
        self.assertGreater(len(modes), 4)
        self.assertEqual({path: oct(mode) for path, mode in modes.items() if mode & 0o077}, {})

    def test_no_link_is_followed_in_a_shared_tmp(self):
        """No other place takes the bundle, and somebody has prepared /tmp: a link to a folder, or a folder of
        theirs."""
        support.need_unshare(self, "--mount")
        if os.path.realpath(ROCMCRASH).startswith("/tmp/") or self.folder.startswith("/tmp/"):
            self.skipTest("the build or TMPDIR is below /tmp")
        env = dict(self.environ, HOME="/proc/none", XDG_STATE_HOME="/proc/none", ROCMCRASH_STATE_DIR="/proc/none")
        for trap in ("ln -s {v} {d}", "mkdir -m 0777 {d}", "mkdir {d} && chown 65534 {d}", "ln -s {v}/gone {d}",
                     "touch {d}"):
            victim = self.path("victim")
            shutil.rmtree(victim, ignore_errors=True)
            os.mkdir(victim)
            made = trap.format(v=victim, d=f"/tmp/rocmcrash-{os.geteuid()}")
            script = (f"mount -t tmpfs none /tmp && chmod 1777 /tmp && {made} && cd / && "
                      '"$@"; find /tmp -name "*.tar.gz" -printf "FOUND %p %m %u\\n"')
            done = subprocess.run(["unshare", "--mount", "/bin/sh", "-c", script, "sh", ROCMCRASH,
                                   "--output-dir", "/proc", "--", PYTHON, "-c", FAILS],
                                  env=env, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(os.listdir(victim), [], (trap, done.stderr))
            rows = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND ")]
            self.assertEqual(len(rows), 1, (trap, done.stdout, done.stderr))
            self.assertEqual(rows[0][1:], ["600", "root"], trap)

    def test_nothing_is_set_uid(self):
        folder = os.path.dirname(ROCMCRASH)
        for name in ("rocmcrash", "rocmcrash-finish", "rocmcrash-probe", "rocmcrash-unwind"):
            mode = os.stat(os.path.join(folder, name)).st_mode
            self.assertFalse(mode & (stat.S_ISUID | stat.S_ISGID), name)


class Summary(support.Case):
    """The summary as GitHub would show it: only our own markup is markup."""

    NASTY = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![x](http://evil.example/a.png)",
             "[click](javascript:alert(1))", "https://evil.example/x", "www.evil.example", "</details>", "</table>",
             "<!-- x -->", "`code`", "```", "| a | b |", "# heading", "---", "$x^2$", "&lt;b&gt;", "<a href=x>", "\u202etxt",
             "\x1b[31mred", "mailto:evil@evil.example", "~~~", "\\<b>", "<svg/onload=x>", "[ref]: http://evil.example"]

    def outside_code(self, text):
        text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)

    def test_only_our_markup(self):
        nasty = "\n".join(f"RuntimeError: {word}" for word in self.NASTY) + "\n"
        program = self.write("<img src=x>.py", "import os, sys, time\ntime.sleep(0.3)\n"
                             f"sys.stderr.write({nasty!r} + {HIP_OOM.strip()!r} + ' ' + {' '.join(self.NASTY)!r} + '\\n')\n"
                             "sys.exit(1)\n")
        for index, word in enumerate(self.NASTY):
            self.environ[f"HIP_NASTY_{index}"] = word.replace("\x1b", "\\x1b")
        bundle = self.only_bundle(self.run_it(PYTHON, program, *self.NASTY[:8]))
        summary = bundle.text("SUMMARY.md")
        self.assertIn("evil", summary)
        text = self.outside_code(summary)
        ours = re.compile(r"</?(?:details|summary|br|sub|sup|b|p)>|<!-- [a-z ]+ -->")
        tags = [tag for tag in re.findall(r"<[^>\n]*>", text) if not ours.fullmatch(tag)]
        self.assertEqual(tags, [])
        self.assertEqual(re.findall(r"(?<!\\)!\[", text), [])
        self.assertEqual(re.findall(r"(?<!\\)\]\(", text), [])
        self.assertEqual(re.findall(r"https?://\S*|(?<![\w;])www\.\S*", text), [])
        self.assertEqual(text.count("<details>"), text.count("</details>"))
        self.assertNotRegex(summary, "[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]")


if __name__ == "__main__":
    support.main()
