# SPDX-License-Identifier: Apache-2.0
"""Wrong input gives one clear line on stderr and the documented exit status. The command runs whatever else is missing,
and its exit status is unchanged."""

import ctypes
import json
import os
import re
import platform
import shutil
import struct
import subprocess
import unittest

import support
from support import ROCMCRASH

USAGE, FAILED, BAD = 125, 2, 1
CRASH = "ulimit -c 0; kill -SEGV $$"
DROP = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def refuse(number):
    """For a child: from now on this system call fails with EPERM (seccomp, as in sandboxes)."""
    libc = ctypes.CDLL(None)
    filter_ = b"".join(struct.pack("HBBI", *row) for row in (
        (0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)))
    data = ctypes.create_string_buffer(filter_)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(data))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        os._exit(99)


class BadCase(support.Case):
    def setUp(self):
        super().setUp()
        self.environ["XDG_STATE_HOME"] = self.path("xdg")

    def assert_refused(self, argv, status, words, **kwargs):
        done = subprocess.run([ROCMCRASH, *argv], capture_output=True, text=True, timeout=60,
                              env=self.environ, check=False, **kwargs)
        self.assertEqual((done.returncode, done.stdout), (status, ""), (argv, done.stderr))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("rocmcrash: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def crash(self, *prefix, options=(), code=CRASH, status=-11, env=None, **kwargs):
        """Run a crashing shell; the target's status must come through. Returns what was printed."""
        process = subprocess.Popen([*prefix, *self.command("/bin/sh", "-c", code, options=options)],
                                   env=env or self.environ, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **kwargs)
        out, err = process.communicate(timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual((done.status, done.stdout, done.target_stderr), (status, "", ""))
        return done

    def place_said(self, done):
        lines = [line for line in done.own_lines if line.startswith("rocmcrash: bundle: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0][len("rocmcrash: bundle: "):]

    def need_root(self, *tools):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        for tool in tools:
            if shutil.which(tool) is None:
                self.skipTest(f"no {tool} here")


class CommandLine(BadCase):
    def test_usage(self):
        for argv, words in (([], ["no command", "--help"]), (["--"], ["no command"]),
                            (["--frobnicate", "--", "true"], ["--frobnicate", "--help"]),
                            (["-Z", "--", "true"], ["-Z"]),
                            (["--finsh-within=3", "--", "true"], ["did you mean '--finish-within'?"]),
                            (["show", "--al"], ["unknown option '--al'; did you mean '--all'?"]),
                            (["--color=blue", "--", "true"], ["blue", "never"]),
                            (["--quiet=3", "--", "true"], ["--quiet=3", "no value"]),
                            (["--trace=often", "--", "true"], ["often", "eager"]),
                            (["--bundle-on", "never", "--", "true"], ["never", "always"]),
                            (["--finish-within=-1", "--", "true"], ["--finish-within", "-1", "90s"]),
                            (["--hash-budget=1h", "--", "true"], ["--hash-budget", "1h", "90s"]),
                            (["--output-dir"], ["--output-dir", "value"]),
                            (["release"], ["release"]), (["release", "x"], ["release"]),
                            (["show", "--colour"], ["'--color'"]),
                            (["verify"], ["usage"]), (["list", "--frob"], ["--frob"]), (["help", "tirage"], ["'triage'"]),
                            (["triage"], ["usage"]), (["triage", "--bogus", "x"], ["--bogus"]),
                            (["complete"], ["usage"]), (["collectors", "x"], ["usage"]),
                            (["recover", "x"], ["usage"])):
            with self.subTest(argv=argv):
                self.assert_refused(argv, USAGE, words, cwd=self.outdir)
        self.assert_refused(["show"], 2, ["no bundle in this folder"], cwd=self.outdir)
        self.assert_refused(["verify", "-"], 2, ["cannot open '-'"])  # a name like any other

    def test_release_of_what_is_not_traced(self):
        self.assert_refused(["release", str(os.getpid())], FAILED, [str(os.getpid()), "not traced"])

    def test_cannot_be_executed(self):
        self.assert_refused(["--", "/no/such/program"], 127, ["/no/such/program", "No such file"])
        self.assert_refused(["--", "no-such-program-in-path"], 127, ["no-such-program-in-path"])
        self.assert_refused(["--", self.write("plain", "text")], 126, ["Permission denied"])
        self.assert_refused(["--", self.folder], 126, ["Permission denied"])
        for text in ("", "exit 9\n", "\x7fELF\n"):  # without "#!": as env(1) and execvp(3) do it
            script = self.write("script", text, 0o755)
            plain = subprocess.run(["env", script], capture_output=True, check=False)
            done = self.run_it(script, options=["--quiet"])
            self.assertEqual((done.status, done.stderr.encode()), (plain.returncode, plain.stderr))
        self.assertEqual(self.bundles(), [])


class Bundles(BadCase):
    def raw(self, name, data):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_cut_after_what_is_wanted(self):
        """The intact parts are used, and a line says that the rest is missing."""
        self.run_it("/bin/sh", "-c", CRASH, options=["--quiet"])
        good = self.bundles()[0].path
        with open(good, "rb") as file:
            cut = self.raw("cut.tar.gz", file.read()[:-20])
        for verb in (["show"], ["triage"], ["export", "--trace"], ["diff", good]):
            whole, torn = self.verb(*verb, good), self.verb(*verb, cut)
            self.assertEqual((whole.returncode, torn.returncode, whole.stderr), (0, 0, ""), verb)
            self.assertEqual(len(torn.stderr.splitlines()), 1, torn.stderr)
            self.assertIn(f"'{cut}' is damaged", torn.stderr)
            self.assertIn("truncated", torn.stderr)
            self.assertGreater(len(torn.stdout), 200)

    def test_symbolic_link(self):
        """Read through, never written through."""
        self.run_it("/bin/sh", "-c", CRASH, options=["--quiet"])
        link = self.path("link.tar.gz")
        os.symlink(self.bundles()[0].path, link)
        self.assertEqual(self.verb("show", link).returncode, 0)
        for verb in ("redact", "complete"):
            self.assert_refused([verb, link], FAILED, [link, "name the file itself"])

    def test_no_facts(self):
        for content in (b"no json", b"[]", b'{"format": 9, "facts": []}', b'{"facts": 3}'):
            path = self.raw("facts.tar.gz", support.archive(("b/facts.json", support.REGULAR, content)))
            self.assert_refused(["triage", path], FAILED, [path])


class Triage(BadCase):
    def test_files(self):
        text = self.write("log", "nothing of interest\n")
        for argv, words in ((["triage", self.path("none")], ["none", "No such file"]),
                            (["triage", "--kernel-log", self.path("none")], ["none"]),
                            (["triage", "--env", self.path("none"), text], ["none"]),
                            (["triage", "--facts", self.path("none")], ["none"])):
            self.assert_refused(argv, FAILED, words)

    def test_facts_file(self):
        for content, words in (("no json", ["line 1"]), ('{"a.b_bytes": 1,\n\n oops}', ["line 3"]),
                               ("[1]", ["object"]), ('{"format":1,"facts":[{"name":"a.b"}]}', ["a.b"]),
                               ('{"format":1,"facts":[{"name":"a.b","value":1,"when":"lunch"}]}',
                                ["a.b", "lunch"])):
            path = self.write("facts.json", content)
            self.assert_refused(["triage", "--facts", path], FAILED, [path, *words])

    def test_tree_file(self):
        text = self.write("log", "nothing\n")
        node = ('{"format": 1, "nodes": [\n'
                '{"id": "A", "question": "q?", "test": "TEST", "class": "unknown", "sentence": "s."}]}')
        for content, words in (("{\n\n oops", [":3:"]), ('{"format": 1, "nodes": 3}', ["nodes"]),
                               ('{"format": 1, "nodes": [{"id": "A"}]}', ["A", "missing"]),
                               (node.replace("TEST", "1 +* 2"), [":2:", "A"]),
                               (node.replace("TEST", "nonsense("), [":2:", "A"])):
            path = self.write("own.json", content)
            self.assert_refused(["triage", "--tree", path, text], FAILED, [path, *words])
        self.assert_refused(["triage", "--tree", self.path("none"), text], FAILED, ["none"])

    def test_standard_input(self):
        text = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
                "capacity of 15.98 GiB of which 4.00 MiB is free.\n")
        done = self.verb("triage", "--json", "-", input=text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["class"], "capacity")
        self.assertEqual(self.verb("triage", "-", input="").returncode, FAILED)
        self.assertEqual(self.verb("triage", "-", input="\x1b[2J\0\xff").stdout.count("\x1b"), 0)

    def test_folder_of_bundles(self):
        self.assert_refused(["triage", self.outdir], FAILED, ["no bundle", self.outdir])
        self.run_it("/bin/sh", "-c", CRASH, options=["--quiet"])
        self.run_it("/bin/sh", "-c", CRASH, options=["--quiet"])
        names = [bundle.name + ".tar.gz" for bundle in self.bundles()]
        self.assertEqual(len(names), 2)
        done = self.verb("triage", self.outdir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0], ["CLASS", "SURE", "BUNDLE"])
        self.assertEqual([row[2] for row in rows[1::2]], names)
        with open(os.path.join(self.outdir, "bad.tar.gz"), "wb") as file:
            file.write(b"bad" * 100)
        done = self.verb("triage", self.outdir)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (FAILED, 1))
        self.assertIn("bad.tar.gz", done.stderr)
        self.assertEqual(done.stdout.count("(app-bug, "), 2)  # the good ones are judged nevertheless

    def test_renamed_bundle(self):
        self.run_it("/bin/sh", "-c", CRASH, options=["--quiet"])
        renamed = self.path("download(1)")
        shutil.copy(self.bundles()[0].path, renamed)
        self.assertIn("app-bug", self.verb("triage", renamed).stdout)


class Placing(BadCase):
    def assert_elsewhere(self, done, words):
        place = self.place_said(done)
        why = [line for line in done.own_lines if "not where it was asked for" in line]
        self.assertEqual(len(why), 1, done.stderr)
        for word in words:
            self.assertIn(word, why[0])
        self.assertTrue(place.startswith(self.environ["ROCMCRASH_STATE_DIR"] + "/bundles/"), place)
        self.assertEqual(self.verb("verify", place).returncode, 0)
        self.assertEqual(self.bundles(), [])

    def test_no_such_output_directory(self):
        """It is reported before the run, so that nobody finds the bundle elsewhere after hours."""
        for folder in (self.path("not", "made"), self.write("file", "x")):
            ran = self.path("ran")
            self.assert_refused(["-o", folder, "--", "touch", ran], USAGE, ["no folder", folder])
            self.assertFalse(os.path.exists(ran))

    def test_output_directory_is_removed_while_it_runs(self):
        folder = self.path("gone")
        os.mkdir(folder)
        done = self.crash(options=["-o", folder], code=f"rmdir {folder}; " + CRASH)
        self.assert_elsewhere(done, [folder, "No such file"])
        self.assertFalse(os.path.exists(folder))

    def test_unwritable_for_an_ordinary_user(self):
        self.need_root("setpriv")
        support.need_ordinary_user(self)
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("xdg"))
        os.chown(self.path("xdg"), 65534, 65534)
        self.environ["ROCMCRASH_STATE_DIR"] = self.path("xdg", "state")
        os.chmod(self.outdir, 0o555)
        self.assert_elsewhere(self.crash(*DROP), [self.outdir, "Permission denied"])

    def mounted(self, options):
        """A command prefix that mounts a file system of its own at the output folder."""
        self.need_root("unshare", "mount")
        prefix = ["unshare", "--mount", "/bin/sh", "-c",
                  f'mount -t tmpfs -o {options} none {self.outdir} && exec "$@"', "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no private mount can be made")
        return prefix

    def test_full_disk(self):
        self.assert_elsewhere(self.crash(*self.mounted("size=16k")),
                              [self.outdir, "No space left on device"])

    def test_read_only(self):
        self.assert_elsewhere(self.crash(*self.mounted("ro")), [self.outdir, "Read-only"])

    def test_relative(self):
        os.mkdir(self.path("there"))
        done = self.crash(options=["-o", "there"], cwd=self.folder, code="cd /; " + CRASH)
        place = self.place_said(done)
        self.assertEqual(os.listdir(self.path("there")), [os.path.basename(place)])

    def test_odd_names(self):
        """Names that are not UTF-8, have several lines, or hold terminal sequences."""
        for name, options in ((b"M\xe9moire", []), (b"M\xe9m", ["-o"]), (b"\x1b[2J\nred", [])):
            folder = os.path.join(self.folder.encode(), name)
            os.mkdir(folder)
            done = subprocess.run([ROCMCRASH, *options, *([name] if options else []), "--", "/bin/sh",
                                   "-c", CRASH], cwd=self.folder if options else folder, check=False,
                                  env=self.environ, capture_output=True, timeout=60)
            for line in done.stderr.splitlines():
                self.assertTrue(line.startswith(b"rocmcrash: "), done.stderr)
                self.assertNotIn(b"not where it was asked for", line)
            self.assertNotIn(b"\x1b", done.stderr)
            self.assertEqual(len(os.listdir(folder)), 1, name)

    def test_list_knows_the_last_folder(self):
        """Without a home, a bundle that its folder does not take goes to the user's folder in /tmp."""
        for name in ("ROCMCRASH_STATE_DIR", "XDG_STATE_HOME", "HOME"):
            self.environ.pop(name, None)
        done = subprocess.run([ROCMCRASH, "--", "/bin/sh", "-c", CRASH], cwd="/proc", check=False, env=self.environ,
                              capture_output=True, text=True, timeout=60)
        place = re.search(r"rocmcrash: bundle: (/tmp/rocmcrash-\d+/\S+)", done.stderr).group(1)
        self.addCleanup(os.remove, place)
        self.assertIn(os.path.basename(place), self.verb("list", cwd="/proc").stdout)
        self.assertEqual(self.verb("list", cwd=os.path.dirname(place)).stdout.count(os.path.basename(place)), 1)

    def test_full_disk_for_the_run(self):
        """Nothing can be recorded in the usual place: it is recorded elsewhere, and nothing is lost."""
        prefix = self.mounted("size=16k")
        env = {**self.environ, "ROCMCRASH_STATE_DIR": self.outdir}
        done = self.crash(*prefix, options=["-o", self.folder], env=env)
        place = self.place_said(done)
        self.assertEqual(os.path.dirname(place), self.folder)
        self.assertEqual(self.verb("verify", place).returncode, 0)


class Surroundings(BadCase):
    def assert_bundle(self, done, **rows):
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.verdict["class"], "app-bug")
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        return bundle

    def test_no_proc(self):
        self.need_root("unshare")
        self.skip_if_sanitized("which itself needs /proc")
        prefix = ["unshare", "--mount", "/bin/sh", "-c", 'umount -l /proc && exec "$@"', "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("/proc cannot be unmounted here")
        self.assertEqual(self.crash(*prefix, code="exit 7", status=7).stderr, "")
        self.assert_bundle(self.crash(*prefix))

    def test_a_process_without_a_name(self):
        """The name is not known either where /proc is that of another pid namespace."""
        done = self.python("import ctypes, os, signal\nctypes.CDLL(None).prctl(15, b'', 0, 0, 0)  # PR_SET_NAME\n"
                           "os.kill(os.getpid(), signal.SIGSEGV)")
        bundle = self.assert_bundle(done)
        self.assertEqual(bundle.value("target.failed_signal_name"), "SEGV")
        self.assertRegex(bundle.verdict["sentence"], "^The program failed on its own; no GPU failure was seen")
        self.assertEqual(bundle.fact("target.failed_comm").get("status"), "unreadable")

    def test_no_permission_for_the_kernel_log(self):
        self.need_root("setpriv")
        support.need_ordinary_user(self)
        if support.read("/proc/sys/kernel/dmesg_restrict").strip() != "1":
            self.skipTest("dmesg_restrict is 0 here")
        os.chmod(self.folder, 0o755)
        os.chown(self.outdir, 65534, 65534)
        self.environ["ROCMCRASH_STATE_DIR"] = self.environ["XDG_CACHE_HOME"] = self.outdir
        bundle = self.assert_bundle(self.crash(*DROP))
        self.assertEqual(bundle.row("kernel_log")["status"], "skipped")
        self.assertIn("dmesg_restrict=1", bundle.row("kernel_log")["reason"])
        self.assertEqual(bundle.fact("kmsg.readable")["status"], "unreadable")
        self.assertIn(f"sudo rocmcrash complete {bundle.name}.tar.gz", bundle.text("SUMMARY.md"))

    def test_not_a_gpu_machine(self):
        root = self.path("root")
        for folder in ("sys/class/drm", "sys/devices", "proc"):
            os.makedirs(os.path.join(root, folder))
        done = self.crash(options=["--sysroot", root])
        bundle = self.assert_bundle(done)
        self.assertEqual((bundle.value("gpu.present"), bundle.value("gpu.count")), (False, 0))
        self.assertEqual(bundle.row("gpu")["status"], "skipped")

    def test_inside_itself_makes_one_bundle(self):
        inner = self.command("/bin/sh", "-c", CRASH)
        done = self.run_it(*inner)
        self.assertEqual(done.status, -11)
        bundle = self.assert_bundle(done)
        self.assertEqual(bundle.value("run.program"), "sh")
        self.assertEqual(done.stderr.count("rocmcrash: bundle: "), 1)
        self.assertIn("-sh-app-bug", bundle.name)
        shutil.rmtree(self.outdir)
        os.mkdir(self.outdir)
        bundle = self.assert_bundle(self.run_it(*self.command(*self.command(*inner))))
        self.assertIn("-sh-app-bug", bundle.name)

    @unittest.skipUnless(os.geteuid() == 0, "an ordinary user's shell is not observed")
    def test_inside_itself_of_a_child(self):
        self.skip_if_sanitized("so rocmcrash does not trace them")
        done = self.run_it("/bin/sh", "-c", '"$@"; exit 3', "sh", *self.command("/bin/sh", "-c", CRASH))
        self.assertEqual(done.status, 3)
        self.assertTrue(self.assert_bundle(done).value("target.failed_is_child"))

    def test_inside_itself_with_nothing_to_run(self):
        self.skip_if_sanitized("whose search for leaks fails in a traced process")
        self.assertEqual(self.run_it(*self.command("/no/such")).status, 127)

    def test_as_pid_1(self):
        support.need_unshare(self, "--pid", "--fork", "--mount-proc")
        done = self.crash("unshare", "--pid", "--fork", "--mount-proc", status=139)
        self.assert_bundle(done)

    def test_home_and_state(self):
        for name, change in (("HOME unset", {"HOME": None, "XDG_STATE_HOME": None}),
                             ("HOME unwritable", {"HOME": "/proc", "XDG_STATE_HOME": None}),
                             ("HOME relative", {"HOME": "here", "XDG_STATE_HOME": "there"}),
                             ("state unwritable", {"ROCMCRASH_STATE_DIR": "/proc/none"}),
                             ("TMPDIR missing", {"TMPDIR": "/no/such/folder"}),
                             ("TMPDIR odd", {"TMPDIR": "\x1b[31m \n"}),
                             ("PATH unset", {"PATH": None})):
            with self.subTest(name):
                shutil.rmtree(self.outdir)
                os.mkdir(self.outdir)
                env = {key: value for key, value in {**self.environ, **change}.items()
                       if value is not None}
                if "HOME" in change:
                    del env["ROCMCRASH_STATE_DIR"]
                self.assert_bundle(self.crash(env=env))

    def test_umask_that_leaves_nothing(self):
        self.need_root("setpriv")
        support.need_ordinary_user(self)
        os.chmod(self.folder, 0o755)
        os.chown(self.outdir, 65534, 65534)
        self.environ["ROCMCRASH_STATE_DIR"] = self.environ["XDG_CACHE_HOME"] = self.outdir
        self.assert_bundle(self.crash(*DROP, umask=0o777))

    def test_waiting_refused(self):
        """A sandbox without waitid(2): the run is not observed, and everything else works."""
        number = {"x86_64": 247, "aarch64": 95}.get(platform.machine())
        if number is None:
            self.skipTest("no number of waitid(2) for " + platform.machine())
        done = self.crash(code="echo $$ >/dev/null; exit 7", status=7, preexec_fn=lambda: refuse(number))
        self.assertEqual(len(done.own_lines), 1, done.stderr)
        self.assertIn("waitid() is refused here; running without observation", done.stderr)

    def test_finisher_that_cannot_be_loaded(self):
        """A library of the finisher is missing, or there is no memory for it: the loader ends it with status 127."""
        alone = self.path("rocmcrash")
        shutil.copy(ROCMCRASH, alone)
        self.write("rocmcrash-finish", "#!/bin/sh\nexit 127\n", 0o755)
        done = subprocess.run([alone, "--", "/bin/sh", "-c", CRASH], capture_output=True, text=True, cwd=self.folder,
                              env=self.environ, check=False, timeout=60)
        self.assertEqual(done.returncode, -11)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        kept = done.stderr.partition("the run is kept in ")[2].strip()
        self.assertTrue(os.path.exists(os.path.join(kept, "run.json")), done.stderr)
        self.assertEqual(self.verb("recover").returncode, 0)
        self.assertFalse(os.path.exists(kept))

    def test_finisher_that_is_no_program(self):
        """A copy that was cut off: the reason is printed once."""
        alone = self.path("rocmcrash")
        shutil.copy(ROCMCRASH, alone)
        self.write("rocmcrash-finish", "garbage\n", 0o755)
        done = subprocess.run([alone, "--", "/bin/sh", "-c", CRASH], capture_output=True, text=True,
                              env=self.environ, check=False, timeout=60)
        self.assertEqual(done.returncode, -11)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[0], "rocmcrash: cannot run '.*rocmcrash-finish': Exec format error")
        self.assertIn("cannot start rocmcrash-finish; the run is kept in ", lines[1])

    def test_finisher_missing(self):
        """A copy of the small program alone: the target runs, and one line says what is missing."""
        alone = self.path("far/from/others/rocmcrash")
        os.makedirs(os.path.dirname(alone))
        shutil.copy(ROCMCRASH, alone)
        done = subprocess.run([alone, "--", "/bin/sh", "-c", CRASH], capture_output=True, text=True,
                              env=self.environ, check=False, timeout=60)
        self.assertEqual(done.returncode, -11)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("cannot start rocmcrash-finish: it is not installed beside rocmcrash; ", done.stderr)
        done = subprocess.run([alone, "show", "x"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (USAGE, 1))


if __name__ == "__main__":
    support.main()
