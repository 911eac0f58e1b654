# SPDX-License-Identifier: Apache-2.0
"""The first lines that a person sees: after a failure on real terminals, and after a wrong command line."""

import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import support
from support import PYTHON, ROCMCRASH
from test_surface import bundle_bytes

OOM = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.58 GiB. GPU 0 has a total capacity of "
       "62.50 GiB of which 942.00 MiB is free. Of the allocated memory 61.00 GiB is allocated by PyTorch, and "
       "100.00 MiB is reserved by PyTorch but unallocated.")
FAILS = "import sys; sys.stderr.write({text!r}); sys.exit(1)"
SENTENCE = "GPU out of memory: 1.58 GiB wanted, 942.0 MiB free of 62.50 GiB"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Lines(support.Case):
    def lines_on_terminal(self, text, *options, columns=80, raw=False, **environ):
        """The lines on a terminal after a program that writes `text` to stderr and fails."""
        command = self.command(PYTHON, "-c", FAILS.format(text=text), options=options)
        status, seen = self.on_terminal(command, {**self.environ, "TERM": "xterm", **environ}, columns, raw=raw)
        self.assertEqual(status, 1)
        return seen

    def test_the_first_line_has_the_figures(self):
        done = self.python(FAILS.format(text=OOM + "\n"))
        self.assertTrue(done.own_lines[0].startswith("rocmcrash: " + SENTENCE), done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        labels = [line.split(": ")[1] for line in done.own_lines[1:]]
        self.assertEqual(labels[0], "why")
        self.assertIn("bundle", labels)

    def test_figures_that_nobody_said_are_left_out(self):
        done = self.python(FAILS.format(text="RuntimeError: HIP error: out of memory\n"))
        self.assertRegex(done.own_lines[0], r"^rocmcrash: GPU out of memory \(capacity, \w+ confidence\)$")

    def test_it_begins_on_a_line_of_its_own(self):
        """After an unfinished progress bar, also a coloured one."""
        for bar in ("\r 50%|#####     |", "\r\x1b[32m 50%\x1b[0m", "x\n\x1b[0m 50%\x1b[0m"):
            done = self.python(FAILS.format(text=OOM + "\n" + bar))
            self.assertIn(bar.replace("\r", "") + "\nrocmcrash: GPU out", done.stderr.replace("\r", ""), bar)
        done = self.python(FAILS.format(text=OOM + "\n\x1b[0m"))
        self.assertIn("\n\x1b[0mrocmcrash: GPU out", done.stderr)

    def test_lines_fit_the_terminal(self):
        for columns in (80, 50):
            seen = self.lines_on_terminal(OOM + "\n\r 50%|####", columns=columns, NO_COLOR="1")
            ours = seen[seen.index("\nrocmcrash: ") + 1:].replace("\r", "").splitlines()
            self.assertNotIn("\x1b", seen)
            for line in ours:
                self.assertTrue(line.startswith("rocmcrash: ") or line.startswith(" " * 11) or not line, line)
                if not "bundle:" in line:
                    self.assertLessEqual(len(line), columns, line)
            self.assertGreater(len(ours), 4)

    def test_a_raw_terminal(self):
        seen = self.lines_on_terminal(OOM + "\r\n 50%|####", raw=True, NO_COLOR="1")
        ours = seen[seen.index("rocmcrash: GPU"):]
        self.assertEqual(ours.count("\n"), ours.count("\r\n"))
        self.assertIn("####\r\nrocmcrash: GPU", seen)

    def test_colour_by_capability(self):
        for environ, options, coloured in (({}, (), True), ({"NO_COLOR": "1"}, (), False), ({"NO_COLOR": ""}, (), True),
                                           ({"TERM": "dumb"}, (), False), ({}, ("--color=never",), False),
                                           ({"NO_COLOR": "1"}, ("--color=always",), True)):
            with self.subTest(environ=environ, options=options):
                environ = {"NO_COLOR": "", **environ}
                self.assertEqual(bool(COLOUR.search(self.lines_on_terminal(OOM + "\n", *options, **environ))), coloured)
        done = self.python(FAILS.format(text=OOM + "\n"), options=["--color=always"])
        self.assertIn("rocmcrash: \x1b[1mGPU out of memory", done.stderr)

    def test_how_a_program_ended_that_says_nothing(self):
        done = self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")
        self.assertEqual(done.status, -signal.SIGSEGV)
        self.assertTrue(done.own_lines[0].startswith("rocmcrash: The program died of SIGSEGV"), done.stderr)
        done = self.run_it("/bin/sh", "-c", "exit 3", options=["--always"])
        self.assertEqual(done.own_lines[0], "rocmcrash: The program ended with exit code 3; the cause is unknown")
        done = self.run_it("/bin/true", options=["--always"])
        self.assertEqual(done.own_lines[0], "rocmcrash: The program ended well: nothing failed")

    def test_a_tracker_is_not_cut(self):
        done = self.python(FAILS.format(text="rocBLAS error: Cannot read TensileLibrary.dat: Illegal seek for GPU arch : gfx1103\n"))
        [line] = [line for line in done.own_lines if "report at: " in line]
        self.assertTrue(line.endswith("(wheels of ROCm: ROCm/TheRock; BLAS, MIOpen: ROCm/rocm-libraries)"), line)

    def test_a_program_without_a_gpu(self):
        """It is asked for no figure of a GPU, and sent to no tracker of ROCm."""
        for code, options in (("exit 3", ["--always"]), ("exit 0", ["--always"]), ("ulimit -c 0; kill -QUIT $$", [])):
            text = "\n".join(self.run_it("/bin/sh", "-c", code, options=options).own_lines)
            self.assertIn("bundle: ", text)
            for word in ("missing", "AMD_LOG_LEVEL", "ROCm", "the cause is unknown" if "QUIT" in code else "missing"):
                self.assertNotIn(word, text)


TELEMETRY = ("time_s,flags,gpu.0.vram.total_bytes,gpu.0.vram.used_bytes\n0,,17179869184,1073741824\n"
             "5,,17179869184,8589934592\n10,impact,17179869184,17179869184\n")


class Show(support.Case):
    def setUp(self):
        super().setUp()
        self.bundle = self.path("rocmcrash-20260101T000000Z-x-capacity.tar.gz")
        summary = "# GPU out of memory\n\n## Memory\n\n```text\n▁▄█ peak\n```\n\n## What to try\n\n- x – y\n"
        summary += "".join(f"- line {n}\n" for n in range(60))
        with open(self.bundle, "wb") as file:
            file.write(bundle_bytes("rocmcrash-x", {
                "SUMMARY.md": summary.encode(), "telemetry/telemetry.csv": TELEMETRY.encode(),
                "verdict.json": b'{"class": "capacity", "confidence": "high"}'}))
        self.environ.update(LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="1")

    def shown_on_terminal(self, *argv, keys=b"", rows=24, **environ):
        status, seen = self.on_terminal([ROCMCRASH, "show", *argv], {**self.environ, **environ}, rows=rows, keys=keys,
                                        start_new_session=True)
        self.assertEqual(status, 0, seen)
        return seen.replace("\r", "")

    def test_charts_by_what_the_locale_shows(self):
        text = self.verb("show", self.bundle).stdout
        self.assertIn("GPU 0 VRAM: peak 16.00 GiB, limit 16.00 GiB\n", text)
        self.assertRegex(text, "[\u2801-\u28ff]{20}")
        self.assertNotIn("▁▄█", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80)
        self.environ["LC_ALL"] = "C"
        text = self.verb("show", self.bundle).stdout
        self.assertTrue(text.isascii(), text)
        self.assertRegex(text, r"\?{20}")
        self.assertIn("▁▄█", self.verb("show", "--raw", self.bundle).stdout)
        self.assertNotIn("peak", self.verb("show", "--section", "try", self.bundle).stdout)

    def test_pager(self):
        pager = "sed s/^/P/"
        self.assertIn("\nPWhat to try\n", self.shown_on_terminal(self.bundle, PAGER=pager))
        for argv, environ in (([self.bundle, "--no-pager"], {"PAGER": pager}), ([self.bundle], {"PAGER": ""}),
                              ([self.bundle], {"PAGER": "cat"}), ([self.bundle], {"PAGER": "/no/such/pager 2>&-"}),
                              ([self.bundle, "--section", "memory"], {"PAGER": pager}),
                              ([self.bundle], {"PAGER": "", "PATH": "/nowhere"})):
            with self.subTest(argv=argv[1:], environ=environ):
                text = self.shown_on_terminal(*argv, **environ)
                self.assertIn("\nMemory\n", "\n" + text)
                self.assertEqual(text.count("- line 59\n"), "--section" not in argv)
        self.environ["PAGER"] = pager
        self.assertNotIn("PWhat", self.verb("show", self.bundle).stdout)  # no pager in a pipe
        # A pager that quits early is no failure.
        self.assertIn("GPU out", self.shown_on_terminal(*[self.bundle] * 200, PAGER="head -n 3"))

    @unittest.skipUnless(shutil.which("less"), "no less(1) here")
    def test_less_is_the_pager_where_none_is_named(self):
        self.environ.pop("PAGER", None)
        text = self.shown_on_terminal(self.bundle, keys=b"q")
        self.assertIn("What to try", text)
        self.assertNotIn("- line 59", text)

    def test_a_dumb_terminal_has_no_pager(self):
        """Emacs and consoles of CI set it. "less" would wait there for RETURN."""
        pager = "sed s/^/P/"
        self.assertIn("PWhat", self.shown_on_terminal(self.bundle, PAGER=pager))
        self.assertNotIn("PWhat", self.shown_on_terminal(self.bundle, PAGER=pager, TERM="dumb"))

    def test_options_after_the_bundle(self):
        self.assertEqual(self.verb("show", self.bundle, "--raw").stdout, self.verb("show", "--raw", self.bundle).stdout)
        self.assertEqual(self.verb("show", "--", self.bundle, "--raw").returncode, 2)
        self.assertEqual(self.verb("verify", self.bundle, "--json").returncode, 0)

    def test_the_newest_bundle_of_the_folder(self):
        """The command in the last line after a failure works as it is printed."""
        folder = self.path("here")
        os.makedirs(folder)
        for verb in ("show", "open", "issue"):
            done = self.verb(verb, cwd=folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""), verb)
            self.assertTrue(done.stderr.startswith("rocmcrash: there is no bundle in this folder; name one: rocmcrash " + verb), done.stderr)
        for name, age, text in (("rocmcrash-b.tar.gz", 2, b"# older\n"), ("rocmcrash-a.tar.gz", 1, b"# newer\n"),
                                ("other.tar.gz", 0, b"# another's\n")):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(bundle_bytes("other" if name == "other.tar.gz" else "rocmcrash-x", {"SUMMARY.md": text, "verdict.json": b"{}", "facts.json": b'{"facts": []}'}))
            os.utime(os.path.join(folder, name), (1700000000 - age, 1700000000 - age))
        if os.geteuid() == 0:  # the newest is another user's
            shutil.copy(os.path.join(folder, "rocmcrash-b.tar.gz"), os.path.join(folder, "rocmcrash-c.tar.gz"))
            os.chown(os.path.join(folder, "rocmcrash-c.tar.gz"), 65534, 65534)
        done = self.verb("show", "--raw", cwd=folder)
        self.assertEqual((done.returncode, done.stdout), (0, "# newer\n"), done.stderr)
        self.assertEqual(done.stderr, "rocmcrash: the newest bundle here is 'rocmcrash-a.tar.gz'\n")
        self.assertIn("newer", self.verb("open", "-o", "-", cwd=folder).stdout)
        if os.geteuid() == 0:
            for name in ("rocmcrash-a.tar.gz", "rocmcrash-b.tar.gz"):
                os.unlink(os.path.join(folder, name))
            done = self.verb("show", "--raw", cwd=folder)
            self.assertEqual(done.stderr, "rocmcrash: no bundle here is yours; the newest one is 'rocmcrash-c.tar.gz', of user 65534\n")

    def test_pages_of_earlier_days_go(self):
        """`open` leaves one page in the folder for temporary files, not one a call for ever."""
        folder = self.path("pages")
        os.makedirs(folder)
        for name in ("rocmcrash-page-abcdef.html", "rocmcrash-page-ghijkl.html", "rocmcrash-pages.html"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write("x")
            if "ghijkl" not in name:
                os.utime(os.path.join(folder, name), (1700000000, 1700000000))
        self.environ["TMPDIR"] = folder
        self.assertEqual(self.verb("open", "--print", self.bundle).returncode, 0)
        left = os.listdir(folder)
        self.assertEqual((len(left), "rocmcrash-page-abcdef.html" in left), (3, False), left)

    def test_json(self):
        done = self.verb("show", "--json", self.bundle, self.path("none"))
        first, second = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual((done.returncode, first), (2, {"path": self.bundle, "verdict": {"class": "capacity", "confidence": "high"}}))
        self.assertEqual((second["path"], "No such file" in second["error"], done.stderr), (self.path("none"), True, ""))
        done = self.verb("verify", "--json", self.bundle, self.write("bad", "x" * 99))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, [row["good"] for row in rows], done.stderr), (1, [True, False], ""))
        self.assertIn("gzip", rows[1]["error"])


class DidYouMean(support.Case):
    def hint(self, *argv):
        done = subprocess.run([ROCMCRASH, *argv], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              env=self.environ, check=False)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (125, "", 1), argv)
        found = re.search(r"did you mean '(.*)'\?", done.stderr)
        return found.group(1) if found else done.stderr

    def test_a_missing_dash_dash(self):
        self.write("train.py", "pass\n")
        self.write("x.tar.gz", "")
        self.write("tool", "#!/bin/sh\n", 0o755)
        self.assertEqual(self.hint("train.py"), "rocmcrash -- python3 train.py")
        self.assertEqual(self.hint("x.tar.gz"), "rocmcrash show x.tar.gz")
        self.assertEqual(self.hint("tool", "--with", "x"), "rocmcrash -- ./tool")

    def test_a_verb(self):
        self.assertEqual(self.hint("shwo", "x"), "rocmcrash show")
        self.assertEqual(self.hint("--quiet", "show", "x"), "rocmcrash show")
        self.assertEqual(self.hint("help", "verfy"), "verify")

    def test_an_option(self):
        self.assertEqual(self.hint("--ouput-dir=x", "--", "true"), "--output-dir")
        self.assertEqual(self.hint("triage", "--jsno", "x"), "--json")
        self.assertIn("unknown option '--zzz'", self.hint("--zzz", "--", "true"))

    def test_what_is_a_command_runs(self):
        for command in (["true"], ["/bin/true"], ["--", "true"], ["env", "true"]):
            done = subprocess.run([ROCMCRASH, *command], capture_output=True, timeout=60, env=self.environ, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)
        done = self.verb("no-such-thing-at-all")
        self.assertEqual((done.returncode, "did you mean" in done.stderr), (127, False))


class Listing(support.Case):
    def test_version(self):
        done = self.verb("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, parts, libraries = done.stdout.splitlines()
        self.assertRegex(first, r"^rocmcrash \d+\.\d+\.\d+ \((commit [0-9a-f]{12}|no commit known)\)$")
        self.assertTrue(parts.startswith("parts: finisher yes"), parts)
        for name in ("libarchive", "OpenSSL", "zlib", "PCRE2", "cJSON", "glibc"):
            self.assertRegex(libraries, name + r" [0-9]")

    def test_bundles_and_unfinished_runs(self):
        self.assertEqual(self.verb("list", self.outdir).stdout, "no bundles in there; unfinished runs are listed without a folder\n")
        self.assertEqual(self.verb("list", cwd=self.outdir).stdout, "no bundles, no unfinished runs\n")
        self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", options=["--quiet"])
        with open(os.path.join(self.outdir, "rocmcrash-bad.tar.gz"), "wb") as file:
            file.write(b"bad" * 100)
        with open(os.path.join(self.outdir, "other.tar.gz"), "wb") as file:
            file.write(b"no bundle by its name")
        rows = [line.split() for line in self.verb("list", self.outdir).stdout.splitlines()]
        self.assertEqual(len(rows), 3)
        self.assertEqual([row[4] for row in rows[1:]], ["app-bug", "(unreadable)"])
        run = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "runs", "20260101T000000Z-1")
        os.makedirs(run, mode=0o700)
        with open(os.path.join(run, "events"), "w", encoding="ascii") as file:
            file.write("1 recorder started\n")
        done = self.verb("list", cwd=self.folder)
        self.assertIn(run, done.stdout)
        self.assertIn("rocmcrash recover", done.stdout)
        self.assertEqual(self.verb("list", self.path("none")).returncode, 2)

    def prune_folder(self):
        """Five bundles, the oldest first; a file that is no bundle, and a file that nobody can read."""
        folder = self.path("many")
        os.makedirs(folder)
        for n in range(5):
            path = os.path.join(folder, f"rocmcrash-2026010{n}T000000Z-x-capacity.tar.gz")
            with open(path, "wb") as file:
                file.write(bundle_bytes("rocmcrash-x", {"verdict.json": b'{"class": "capacity"}', "pad": os.urandom(1 << 16)}))
            os.utime(path, (1700000000 + n, 1700000000 + n))
        for name in ("notes.tar.gz", "rocmcrash-unreadable.tar.gz"):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"mine")
            os.utime(os.path.join(folder, name), (1600000000, 1600000000))
        return folder

    def test_the_same_pseudonym_is_not_the_same_program(self):
        folder = self.path("two")
        os.makedirs(folder)
        words = "each numbers its pseudonyms on its own"
        for n, name in enumerate(("project1.py", "project.py", "projects.py", "project1.py")):
            with open(os.path.join(folder, f"rocmcrash-2026010{n + 1}T000000Z-{name}-capacity.tar.gz"), "wb") as file:
                file.write(bundle_bytes("rocmcrash-x", {"verdict.json": b'{"class": "capacity"}'}))
            self.assertEqual(words in self.verb("list", folder).stdout, n == 3, name)

    def test_a_copy_is_no_newer_failure(self):
        """The time is that of the bundle, not that of the file: a bundle that somebody touched stays the oldest."""
        folder = self.prune_folder()
        os.unlink(os.path.join(folder, "rocmcrash-20260100T000000Z-x-capacity.tar.gz"))  # no day at all
        oldest = os.path.join(folder, "rocmcrash-20260101T000000Z-x-capacity.tar.gz")
        os.utime(oldest)
        rows = [json.loads(line) for line in self.verb("list", "--json", folder).stdout.splitlines()]
        self.assertEqual([row["made_s"] for row in rows if row["path"] == oldest], [1767225600])
        self.assertIn("2026-01-01 00:00 ", self.verb("list", folder).stdout)
        self.assertIn("'rocmcrash-20260104T000000Z-x-capacity.tar.gz'", self.verb("show", "--json", cwd=folder).stderr)
        self.assertEqual(self.verb("list", folder, "--prune=3", "--yes").stderr, f"rocmcrash: removes: {oldest}\n")
        self.assertFalse(os.path.exists(oldest))

    def test_prune(self):
        folder = self.prune_folder()
        everything = sorted(os.listdir(folder))
        left = [name for name in everything if "2026010" not in name]
        done = self.verb("list", folder, "--prune=3")
        self.assertEqual((done.returncode, sorted(os.listdir(folder))), (2, everything))
        self.assertIn("nothing is removed without a question: --yes removes these", done.stderr)
        going = re.findall("would be removed: (.*)", done.stderr)
        self.assertEqual((len(going), [path for path in done.stdout.split() if path in going]), (2, going))  # as in the table
        for value in ("", "x", "-1", "3Q", "3MM", "99999999999999999999"):
            self.assertEqual(self.verb("list", folder, "--prune=" + value, "--yes").returncode, 125, value)
        self.assertEqual(sorted(os.listdir(folder)), everything)
        self.assertEqual(self.verb("list", folder, "--prune=140K", "--yes").returncode, 0)  # each: a bit over 64 KiB
        self.assertEqual(sorted(os.listdir(folder)), sorted(left + [name for name in everything if "20260103" in name
                                                                    or "20260104" in name]))
        self.assertEqual(self.verb("list", folder, "--prune=20", "--yes").stderr, "")
        self.assertEqual(self.verb("list", folder, "--prune=0", "--yes").returncode, 0)
        self.assertEqual(sorted(os.listdir(folder)), left)

    def test_prune_counts_what_the_caller_owns(self):
        """Neither newer bundles of another user nor links push out our own ones."""
        if os.geteuid() != 0:
            self.skipTest("only root can play another user")
        folder = self.prune_folder()
        everything = sorted(os.listdir(folder))
        for name in everything:
            if name[:18] in ("rocmcrash-20260102", "rocmcrash-20260103"):
                os.chown(os.path.join(folder, name), 65534, 65534)
        newest = next(name for name in everything if "20260104" in name)
        os.rename(os.path.join(folder, newest), self.path(newest))
        os.symlink(self.path(newest), os.path.join(folder, newest))
        self.assertEqual(self.verb("list", folder, "--prune=2", "--yes").stderr, "")
        self.assertEqual(self.verb("list", folder, "--prune=1", "--yes").returncode, 0)
        self.assertEqual(sorted(os.listdir(folder)), [name for name in everything if "20260100" not in name])

    def test_one_class(self):
        folder = self.prune_folder()
        hang = os.path.join(folder, "rocmcrash-20260109T000000Z-x-gpu-hang.tar.gz")
        with open(hang, "wb") as file:
            file.write(bundle_bytes("rocmcrash-x", {"verdict.json": b'{"class": "gpu-hang", "confidence": "low"}'}))
        rows = [json.loads(line) for line in self.verb("list", "--class=gpu-hang", "--json", folder).stdout.splitlines()]
        self.assertEqual([(row["path"], row["confidence"]) for row in rows], [(hang, "low")])
        self.assertEqual(self.verb("list", "--class=leak", folder).stdout, "no bundle of this class\n")
        self.assertEqual(self.verb("list", "--class=capacity", "--prune=1", "--yes", folder).returncode, 0)
        left = sorted(os.listdir(folder))
        self.assertEqual([name for name in left if "capacity" in name], ["rocmcrash-20260104T000000Z-x-capacity.tar.gz"])
        self.assertIn(os.path.basename(hang), left)
        self.assertIn("rocmcrash-unreadable.tar.gz", left)

    def test_prune_takes_records_of_ranks(self):
        """They are removed with the bundles of their job. The newest bundle has one record that was written before it,
        and one after it."""
        folder = self.prune_folder()
        ages = {"of-the-oldest": -7200, "before": 4 - 60, "after": 30}
        for name, second in ages.items():
            path = os.path.join(folder, f"rocmcrash-20260100T000000Z-{name}-rank-ended-r7.json")
            with open(path, "w", encoding="ascii") as file:
                file.write("[]")
            os.utime(path, (1700000000 + second, 1700000000 + second))
        other = os.path.join(folder, "notes-rank-ended-r7.json")
        shutil.copy(path, other)
        os.utime(other, (1600000000, 1600000000))
        for keep, left in ((5, ("after", "before")), (1, ("after", "before")), (0, ())):
            done = self.verb("list", folder, f"--prune={keep}", "--yes")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(tuple(sorted(name for name in ages if glob.glob(os.path.join(folder, f"rocmcrash-*-{name}-rank-*")))), left, keep)
        self.assertIn("2 records of ranks that were asked to end", done.stdout)
        self.assertEqual(sorted(os.listdir(folder)), ["notes-rank-ended-r7.json", "notes.tar.gz", "rocmcrash-unreadable.tar.gz"])

    def test_prune_asks(self):
        folder = self.prune_folder()
        everything = sorted(os.listdir(folder))
        for answer, count in ((b"n\n", 7), (b"\n", 7), (b"\x04", 7), (b"y\n", 3)):
            status, seen = self.on_terminal([ROCMCRASH, "list", "--prune=1", folder], self.environ, keys=answer,
                                            start_new_session=True)
            self.assertEqual(status, 0)
            self.assertIn("remove these 4 bundles, 258 KiB? [y/N] ", seen)
            self.assertEqual(len(os.listdir(folder)), count, (answer, everything))

    def test_prune_leaves_a_run_that_lives(self):
        runs = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "runs")
        for n in range(3):
            run = os.path.join(runs, f"2026010{n}T000000Z-1")
            os.makedirs(run, mode=0o700)
            with open(os.path.join(run, "events"), "w", encoding="ascii") as file:
                file.write("1 recorder started\n" * 1000)
            os.utime(run, (1700000000 + n, 1700000000 + n))
        with open(os.path.join(runs, "20260100T000000Z-1", "state"), "w", encoding="ascii") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            done = self.verb("list", "--prune=1", "--yes", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("20 KiB  (unfinished)", done.stdout)
        self.assertEqual(sorted(os.listdir(runs)), ["20260100T000000Z-1", "20260102T000000Z-1"])
        os.remove(os.path.join(runs, "20260100T000000Z-1", "state"))
        os.mkdir(os.path.join(runs, "20260100T000000Z-1", "state"))  # as without flock(2): is it alive?
        os.makedirs(os.path.join(runs, "20260100T000000Z-1", "state.folder", "deep"))  # so that it cannot be put aside
        done = self.verb("list", "--prune=0", "--yes", cwd=self.folder)
        self.assertEqual((done.returncode, os.listdir(runs)), (2, ["20260100T000000Z-1"]))
        self.assertIn("cannot remove", done.stderr)

    def test_several_at_once(self):
        for _ in range(2):
            self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", options=["--quiet"])
        good = [bundle.path for bundle in self.bundles()]
        bad = self.write("bad.tar.gz", "bad")
        done = self.verb("verify", *good)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, [f"{path}: good" for path in good]))
        done = self.verb("verify", good[0], bad, good[1])
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (1, 2))
        self.assertIn("bad.tar.gz", done.stderr)


class Narrow(support.BundleCase):
    """Every verb fits the terminal: lines are broken between words only, in the same way everywhere."""

    def wide_lines(self, columns, *words):
        """Those wider than the terminal that hold more than one word."""
        _, seen = self.on_terminal([ROCMCRASH, *words], {**self.environ, "TERM": "dumb"}, columns)
        self.assertTrue(seen.strip(), words)
        lines = [line.rstrip() for line in seen.replace("\r", "").split("\n")]
        return [line for line in lines if len(line) > columns and " " in line.strip()]

    def test_verbs(self):
        path = self.bundle.path
        shutil.copy(path, self.path("rocmcrash-x.tar.gz"))
        for words in (("diff", path, path), ("fleet", path), ("triage", path), ("triage", "--explain=capacity", path),
                      ("triage", "--explain=bogus", path), ("doctor",), ("collectors",), ("list", os.path.dirname(path)), ("config",),
                      ("show", path), ("list", "--class=bogus"), ("export", path + "x")):
            for columns in (100, 60, 40):
                self.assertEqual(self.wide_lines(columns, *words), [], words)

    def test_help(self):
        for verb in ([], *([verb] for verb in support.verbs())):
            for columns in (60, 40):
                self.assertEqual(self.wide_lines(columns, *verb, "--help"), [], verb)

    def test_no_terminal_no_break(self):
        done = self.verb("triage", "--explain=bogus", self.bundle.path)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertGreater(len(done.stderr), 200)

    def test_a_path_with_blanks_stays_whole(self):
        folder = self.path("a folder with a long name, so that it does not fit a line of this terminal")
        os.makedirs(folder)
        _, seen = self.on_terminal([ROCMCRASH, "show", folder + "/x.tar.gz"], self.environ, 40)
        self.assertIn(f"'{folder}/x.tar.gz'", seen)


if __name__ == "__main__":
    support.main()
