# SPDX-License-Identifier: Apache-2.0
"""Settings: which source has precedence, which mistakes in a file are reported, and which files are not read."""

import json
import os
import re
import subprocess

import support


class Config(support.Case):
    def setUp(self):
        super().setUp()
        self.environ["ROCMCRASH_SYSROOT"] = self.path("machine")
        self.environ["XDG_CONFIG_HOME"] = self.path("xdg")
        self.system = self.path("machine", "etc", "rocmcrash", "config")
        self.own = self.path("xdg", "rocmcrash", "config")
        for file in (self.system, self.own):
            os.makedirs(os.path.dirname(file), mode=0o755)

    def say(self, file, text, mode=0o644):
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(file, mode)

    def settings(self):
        done = self.verb("config", "--json", cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return {row["name"]: (row["value"], row["from"]) for row in json.loads(done.stdout)["settings"]}

    def bundles_of(self, *options, code=3):
        """How many bundles a run that ends with `code` leaves."""
        done = self.verb(*options, "--output-dir", self.outdir, "--", "sh", "-c", f"exit {code}", cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return len([name for name in os.listdir(self.outdir) if name.endswith(".tar.gz")])

    def test_the_later_source_is_stronger(self):
        self.assertEqual(self.settings()["bundle-on"], ("failure", "default"))
        self.say(self.system, "# of the site\n\nbundle-on = signal\r\nhash-budget=9s\n  quiet = yes\n")
        self.assertEqual(self.settings()["bundle-on"], ("signal", self.system + ":3"))
        self.assertEqual(self.settings()["quiet"], ("yes", self.system + ":5"))
        self.say(self.own, "bundle-on = oom\nquiet = no\n")
        self.assertEqual(self.settings()["bundle-on"], ("oom", self.own + ":1"))
        self.assertEqual(self.settings()["hash-budget"], ("9s", self.system + ":4"))
        self.environ["ROCMCRASH_BUNDLE_ON"] = "error"
        self.assertEqual(self.settings()["bundle-on"], ("error", "ROCMCRASH_BUNDLE_ON"))

    def test_a_run_obeys(self):
        self.assertEqual(self.bundles_of(), 0)
        self.say(self.own, "bundle-on = always\n")
        self.assertEqual(self.bundles_of("--bundle-on=failure"), 0)
        self.environ["ROCMCRASH_BUNDLE_ON"] = "failure"
        self.assertEqual(self.bundles_of(), 0)
        del self.environ["ROCMCRASH_BUNDLE_ON"]
        self.assertEqual(self.bundles_of(), 1)

    def test_switches(self):
        self.say(self.system, "bundle-on = always\nquiet = yes\n")
        done = self.verb("--", "true", cwd=self.outdir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.environ["ROCMCRASH_QUIET"] = "0"
        self.assertIn("bundle:", self.verb("--", "true", cwd=self.outdir).stderr)

    def test_what_is_wrong_is_an_error_before_the_program_runs(self):
        mark = self.path("ran")
        for text, want in (("bundle-on = oom\nbundel-on = oom\n", ":2: there is no setting 'bundel-on'; did you mean 'bundle-on'?"),
                           ("frobnicate = 1", ":1: there is no setting 'frobnicate' (see rocmcrash config)"),
                           ("help = yes", ":1: there is no setting 'help'"),
                           ("bundle-on\n", ":1: a line is 'name = value'"),
                           ("bundle-on =  \n", ":1: 'bundle-on' has no value"),
                           ("quiet = perhaps", ":1: 'quiet' is yes or no, not 'perhaps'"),
                           ("\n\ntrace = x", ":3: --trace is auto, eager, late or none, not 'x'")):
            self.say(self.own, text)
            for words in (["--", "touch", mark], ["list"], ["config"]):
                done = self.verb(*words, cwd=self.folder)
                self.assertEqual(done.returncode, 2 if words == ["config"] else 125, (text, words))
                self.assertIn(self.own + want, done.stderr)
            self.assertFalse(os.path.exists(mark))
        self.environ["ROCMCRASH_TRACE"] = "x"
        self.say(self.own, "")
        self.assertIn("ROCMCRASH_TRACE: --trace is", self.verb("--", "touch", mark, cwd=self.folder).stderr)
        self.assertFalse(os.path.exists(mark))

    def test_what_is_not_there_is_told_before_the_program_runs(self):
        for option, told in (("--site=/nonexist", "--site: there is no folder '/nonexist'"),
                             ("--sysroot=/nonexist", "--sysroot: there is no folder '/nonexist'"),
                             ("--event-to=/nonexist", "--event-to: cannot find '/nonexist'"),
                             ("--event-to=nosuch-program", "--event-to: cannot find 'nosuch-program'")):
            done = self.verb(option, "--", "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (125, ""), option)
            self.assertIn(told, done.stderr)

    def test_help_needs_no_good_file(self):
        self.say(self.own, "nonsense")
        for words in (["--help"], ["--version"], ["help"], ["list", "--help"], ["verify", "--help"]):
            self.assertEqual(self.verb(*words, cwd=self.folder).returncode, 0, words)

    def refused(self, why):
        done = self.verb("--", "true", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, f"rocmcrash: '{self.own}' is not read: {why}\n"))
        done = self.verb("config", cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{self.own}: not read, {why}", done.stdout)
        self.assertRegex(done.stdout, r"bundle-on +failure +default")

    def test_a_file_that_others_could_have_written_is_not_read(self):
        for mode in (0o664, 0o646):
            self.say(self.own, "bundle-on = oom\n", mode)
            self.refused("others may write to it (chmod go-w)")
        self.say(self.own, "bundle-on = oom\n")
        self.assertEqual(self.settings()["bundle-on"][0], "oom")
        os.chmod(os.path.dirname(self.own), 0o777)
        self.refused("it lies in a folder where others may exchange it")
        os.chmod(os.path.dirname(self.own), 0o755)
        if os.geteuid() == 0:
            os.chown(self.own, support.NOBODY, support.NOBODY)
            self.refused("it belongs to another user")

    def test_a_home_that_is_closed_does_not_matter(self):
        """As after su, which keeps HOME: a run prints nothing about it."""
        user = {}
        if os.geteuid() == 0:
            support.need_ordinary_user(self)
            user = {"user": support.NOBODY, "group": support.NOBODY, "extra_groups": []}
            os.chmod(self.folder, 0o755)
        os.chmod(self.path("xdg"), 0)
        self.addCleanup(os.chmod, self.path("xdg"), 0o755)
        del self.environ["ROCMCRASH_STATE_DIR"]
        for words, want in ((["--", "echo", "x"], "x\n"), (["config"], f"{self.own}: in a folder that is closed to us\n")):
            done = subprocess.run([support.ROCMCRASH, *words], capture_output=True, text=True, check=False, timeout=60,
                                  env=self.environ, cwd="/", **user)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(want, done.stdout)

    def test_a_file_that_is_none_is_not_read(self):
        os.mkdir(self.own)
        self.refused("it is no file")
        os.rmdir(self.own)
        os.mkfifo(self.own)
        self.refused("it is no file")
        os.remove(self.own)
        self.say(self.own, "bundle-on = oom\n" * 2000)
        self.refused("it is too large")

    def test_a_file_system_that_does_not_answer(self):
        """A home on a server that no longer answers: the program starts, the other file is still read, and the bundle
        is made."""
        self.say(self.system, "bundle-on = always\n")
        for number, (variable, folder) in enumerate((("XDG_CONFIG_HOME", self.path("xdg")), ("HOME", self.path("home"))), 1):
            os.makedirs(folder, exist_ok=True)
            for other in ("XDG_CONFIG_HOME", "ROCMCRASH_STATE_DIR"):
                self.environ.pop(other, None)
            self.environ[variable] = folder
            argv = support.with_dead_folder(self, folder, support.ROCMCRASH, "--", "echo", "ran")
            done = subprocess.run(argv, capture_output=True, text=True, check=False, env=self.environ, cwd=self.outdir, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)
            self.assertRegex(done.stderr, f"(?m)^rocmcrash: '{folder}/.*' is not read: its file system does not answer$")
            self.assertEqual(len(os.listdir(self.outdir)), number, done.stderr)

    def test_help_and_defaults_agree(self):
        """"(default 5s)" or "kill (default)" of --help is what `config` shows."""
        text = re.sub(r"\n {16,}(?=\S)", " ", self.verb("--help", cwd=self.folder).stdout)
        settings, seen = self.settings(), 0
        for name, line in re.findall(r"^ +(?:-\w, )?--([\w-]+)\S* +(.*)$", text, re.M):
            match = re.search(r"\(default (\S+)\)|(\S+) \(default\)", line)
            if match:
                seen += 1
                self.assertEqual(settings[name][0], (match.group(1) or match.group(2)), name)
        self.assertEqual(seen, sum(1 for value, origin in settings.values() if value not in (None, "no")))


if __name__ == "__main__":
    support.main()
