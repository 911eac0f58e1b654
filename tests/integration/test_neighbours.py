# SPDX-License-Identifier: Apache-2.0
"""Another user of the machine attacks a run: takes the names of our folders, owns the home in root's environment, and
reads our arguments."""

import glob
import json
import os
import shutil
import subprocess
import time

import support
from attack_table import Attacks
from support import PYTHON, wait_for

NOBODY = 65534
FAILS = [PYTHON, "-c", "import os; os.abort()"]
# In a mount namespace of our own, so that the machine's /tmp is left alone. "$@" is the command.
TAKEN = ("set -e; for shared in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 none $shared; "
         f"mkdir -m 700 $shared/rocmcrash-0; chown {NOBODY} $shared/rocmcrash-0; done; \"$@\"")
# The kernel follows such links where fs.protected_symlinks is 0.
LINKED = ("set -e; mount -t tmpfs -o mode=1777 none /tmp; ln -s \"$1\" /tmp/rocmcrash-0; "
          f"chown -h {NOBODY} /tmp/rocmcrash-0; shift; \"$@\"")

# Files of a run's folder that we write while the program runs, and at its end.
OF_A_RUN = ("events", "impact.0", "kmsg", "ledger", "output.1", "output.head", "run.json", "samples.0000", "state")
LAYS = """
import glob, os, sys, time
sys.stderr.write('HIP out of memory\\n')
sys.stderr.flush()
while not glob.glob(os.environ['ROCMCRASH_STATE_DIR'] + '/runs/*/state'):
    time.sleep(0.01)
os.chdir(glob.glob(os.environ['ROCMCRASH_STATE_DIR'] + '/runs/*')[0])
for name in sys.argv[2:]:
    os.mkfifo('laid') if sys.argv[1] == 'pipe' else os.symlink('/dev/full', 'laid')
    os.rename('laid', name)  # rocmcrash may make the file at this moment, too
os.abort()
"""


def as_root(test):
    if os.geteuid() != 0:
        test.skipTest("only root can play another user")


class Neighbours(support.Case):
    def without_state(self, **names):
        kept = {name: value for name, value in self.environ.items()
                if name not in ("ROCMCRASH_STATE_DIR", "XDG_STATE_HOME", "HOME")}
        return {**kept, **names}

    def mount_namespace(self):
        as_root(self)
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespace can be made here")

    def test_a_link_at_the_name_of_our_folder(self):
        """Another user lets it lead to a folder of ours that has folders like those of runs."""
        self.mount_namespace()
        ours, program = (tempfile_outside_tmp(self, name) for name in ("ours", "program"))
        shutil.copytree(os.path.dirname(support.ROCMCRASH), os.path.join(program, "bin"))
        run = os.path.join(ours, "runs", "experiment")
        os.makedirs(run, 0o700)
        with open(os.path.join(run, "run.json"), "w", encoding="ascii") as file:
            file.write("{}")
        for verb in (["list"], ["recover"], ["list", "--prune=0", "--yes"]):
            done = subprocess.run(["unshare", "-m", "sh", "-c", LINKED, "sh", ours, os.path.join(program, "bin", "rocmcrash"), *verb],
                                  env=self.without_state(), cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
            self.assertNotIn("experiment", done.stdout + done.stderr)
            self.assertEqual(os.listdir(run), ["run.json"], verb)

    def test_the_names_of_our_folders_are_taken(self):
        self.mount_namespace()
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("no /dev/shm here")
        # The test mounts a file system over /tmp, which hides everything below it.
        out, source = (tempfile_outside_tmp(self, name) for name in ("out", "program"))
        program = os.path.join(source, "bin")
        shutil.copytree(os.path.dirname(support.ROCMCRASH), program)
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", TAKEN, "sh", os.path.join(program, "rocmcrash"), "-o", out, "--",
             "/bin/sh", "-c", "kill -ABRT $$"],
            env=self.without_state(), capture_output=True, text=True, timeout=60, check=False)
        self.assertNotIn("kept in", done.stderr)
        self.assertEqual(len(glob.glob(out + "/*.tar.gz")), 1, done.stderr)

    def test_bundles_beside_taken_names_are_listed(self):
        """They lie in one folder of random name, which `list` knows."""
        self.mount_namespace()
        source = tempfile_outside_tmp(self, "program")
        shutil.copytree(os.path.dirname(support.ROCMCRASH), os.path.join(source, "bin"))
        script = TAKEN.replace('"$@"', 'cd /proc; for i in 1 2; do "$1" -- /bin/sh -c "kill -ABRT \\$\\$" || :; done; "$1" list --json')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", os.path.join(source, "bin", "rocmcrash")],
                              env=self.without_state(), capture_output=True, text=True, timeout=60, check=False)
        rows = [json.loads(line)["path"] for line in done.stdout.splitlines()]
        self.assertEqual(len(rows), 2, done.stdout + done.stderr)
        self.assertEqual(len({os.path.dirname(path) for path in rows}), 1, rows)

    def test_a_program_that_lays_pipes_and_links_for_our_files(self):
        script = self.write("lays.py", LAYS)
        with Attacks("what the program itself lays out") as attacks:
            for what in ("pipe", "link"):
                with attacks.one(what):
                    start = time.monotonic()
                    bundle = self.only_bundle(self.run_it(PYTHON, script, what, *OF_A_RUN))
                    self.assertLess(time.monotonic() - start, 40)  # it takes 68 s if a process waits for a reader
                    self.assertEqual(bundle.verdict["class"], "app-bug")
                    self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
                    os.unlink(bundle.path)

    def test_folders_of_another_in_a_shared_state_folder(self):
        """Neither the names behind pseudonyms nor a bundle are written into another user's folder."""
        as_root(self)
        shared = self.path("shared")
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        for name in ("names", "bundles"):
            os.mkdir(os.path.join(shared, name))
            os.chmod(os.path.join(shared, name), 0o777)
            os.chown(os.path.join(shared, name), NOBODY, NOBODY)
        gone = self.path("gone")
        os.mkdir(gone)
        done = self.python("import os, sys; os.rmdir(sys.argv[1]); os.abort()", gone, options=["-o", gone],
                           env={**self.environ, "ROCMCRASH_STATE_DIR": shared})
        for line in done.own_lines:
            if line.startswith("rocmcrash: bundle: "):
                os.unlink(line.split(": ")[2])
                break
        else:
            self.fail(done.stderr)
        for name in ("names", "bundles"):
            self.assertEqual(os.listdir(os.path.join(shared, name)), [])

    def test_nothing_of_a_sysroot_is_run(self):
        root = self.path("machine")
        collectors = os.path.join(root, "etc/rocmcrash/site.d/collectors")
        os.makedirs(collectors, 0o755)
        self.write("machine/etc/rocmcrash/site.d/collectors/pwn", f"#!/bin/sh\n: > '{self.path('was-run')}'\necho '{{}}'\n")
        os.chmod(os.path.join(collectors, "pwn"), 0o755)
        self.only_bundle(self.run_it(*FAILS, options=["--sysroot", root]))
        self.assertFalse(os.path.exists(self.path("was-run")))

    def test_libraries_that_the_finisher_cannot_use(self):
        """The libraries of LD_LIBRARY_PATH and LD_PRELOAD are for the program."""
        folder = self.path("libraries")
        os.mkdir(folder)
        for name in ("libarchive.so.13", "libcrypto.so.3", "libcjson.so.1", "libz.so.1"):
            self.write(f"libraries/{name}", "")
        env = {**self.environ, "LD_LIBRARY_PATH": folder, "LD_PRELOAD": os.path.join(folder, "none.so")}
        done = self.run_it("/bin/sh", "-c", "unset LD_PRELOAD; exec /usr/bin/env -u LD_LIBRARY_PATH /bin/sh -c 'kill -ABRT $$'", env=env)
        bundle = self.only_bundle(done)
        self.assertNotIn("cannot start", done.stderr)
        self.assertEqual(bundle.verdict["class"], "app-bug")

    def test_a_sanitizer_that_is_preloaded_is_not_disturbed(self):
        """LeakSanitizer traces its own process at the end. If that process is traced already, it fails a program
        without an error."""
        found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False) \
            if shutil.which("cc") else None
        library = os.path.realpath(found.stdout.strip()) if found else ""
        program = ["/bin/sh", "-c", "exec /usr/bin/true"]
        env = {**self.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=1"}
        if not os.path.isabs(library) or subprocess.run(program, env=env, capture_output=True, check=False).returncode != 0:
            self.skipTest("no AddressSanitizer that can be preloaded here")
        self.skip_if_sanitized("and a second one cannot be preloaded")
        done = subprocess.run([support.ROCMCRASH, "-o", self.outdir, "--trace=eager", "--", "/usr/bin/env", *(
            f"{name}={env[name]}" for name in ("LD_PRELOAD", "ASAN_OPTIONS")), *program],
            env=self.environ, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_runtime_that_another_could_have_laid_is_not_loaded(self):
        """The program chooses the HSA runtime that the probe loads with rocmcrash's rights."""
        as_root(self)
        machine = next(iter(sorted(glob.glob(os.path.join(support.RECORDED, "machines", "*7900*", "sys")))), None)
        if machine is None or not shutil.which("cc") or subprocess.run(
                ["unshare", "-m", "mount", "--bind", machine, "/sys"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no recorded machine, compiler or mount namespace here")
        folder = self.path("laid")
        os.mkdir(folder)
        library = os.path.join(folder, "libhsa-runtime64.so.1")
        source = self.write("laid.c", '#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void) '
                                      f'{{ (void)!open("{self.path("was-loaded")}", O_CREAT | O_WRONLY, 0600); }}\n')
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        code = "import mmap, os, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); os.abort()"
        above = [self.folder[:i] or "/" for i, c in enumerate(self.folder + "/") if c == "/"]
        ours = all(os.stat(path).st_uid == 0 and os.stat(path).st_mode & 0o1002 != 0o0002 for path in above)
        for owner, loaded in ((NOBODY, False), (0, ours)):  # never loaded if the tests lie in another's folder
            os.chown(folder, owner, owner)
            subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$1" /sys; shift; exec "$@"', "sh", machine,
                            support.ROCMCRASH, "-o", self.outdir, "--", PYTHON, "-c", code, library],
                           env=self.environ, capture_output=True, timeout=60, check=False)
            self.assertEqual(os.path.exists(self.path("was-loaded")), loaded)

    def test_a_stderr_that_is_not_read(self):
        """The bundle says that stderr was not read, and has the exception that the hook saw."""
        code = ("class OutOfMemoryError(RuntimeError): pass\nOutOfMemoryError.__module__ = 'torch'\n"
                "raise OutOfMemoryError('HIP out of memory. Tried to allocate 1.58 GiB. GPU 0 has a total capacity of 62.50 GiB of "
                "which 942.00 MiB is free. Of the allocated memory 61.20 GiB is allocated by PyTorch, and 100.00 MiB is reserved by "
                "PyTorch but unallocated.')")
        for stream, says in ((subprocess.DEVNULL, "a device"), (None, "closed")):
            subprocess.run([support.ROCMCRASH, "-o", self.outdir, "--always", "--", PYTHON, "-c", code], env=self.environ, stderr=stream,
                           preexec_fn=(lambda: os.close(2)) if stream is None else None, timeout=60, check=False)
            bundle = self.bundles()[0]
            self.assertEqual(bundle.row("output")["status"], "skipped")
            self.assertIn("stderr is " + says, bundle.row("output")["reason"])
            self.assertEqual(bundle.verdict["class"], "capacity", says)
            self.assertEqual(bundle.value("oom.requested_bytes"), 1696512082)
            os.unlink(bundle.path)

    def test_a_script_of_our_name_is_no_run(self):
        path = self.write("rocmcrash", f'#!/bin/sh\n"{support.ROCMCRASH}" "$@"\n')
        os.chmod(path, 0o755)
        done = subprocess.run([path, "-o", self.outdir, "--", *FAILS], env=self.environ, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(len(self.bundles()), 1, done.stderr)
        within = self.run_it(support.ROCMCRASH, "-o", self.outdir, "--", *FAILS)  # a run within a run is one run
        self.assertEqual(len(within.bundles), 2, within.stderr)

    def test_root_leaves_the_home_of_another_alone(self):
        as_root(self)
        home = self.path("home")
        os.mkdir(home, 0o755)
        os.chown(home, NOBODY, NOBODY)
        done = self.run_it(*FAILS, env=self.without_state(HOME=home))
        self.only_bundle(done)
        self.assertEqual(os.listdir(home), [])

    def test_a_home_that_another_can_exchange(self):
        as_root(self)
        above = self.path("above")
        home = os.path.join(above, "home")
        os.makedirs(home, 0o700)
        os.chown(above, NOBODY, NOBODY)
        done = self.run_it(*FAILS, env=self.without_state(HOME=home))
        self.only_bundle(done)
        self.assertEqual(os.listdir(home), [])

    def test_what_another_user_lays_out(self):
        """In a folder that all can write to: links at the paths of our bundles, and words that would be taken for
        names, so that redaction would remove evidence."""
        as_root(self)
        shared, victim = self.path("shared"), self.path("victim")
        work = os.path.join(shared, "work")
        for folder in (shared, work, os.path.join(shared, ".git")):
            os.mkdir(folder)
            os.chmod(folder, 0o1777)
        fails = "echo the kill of evidence >&2; kill -ABRT $$"
        before = self.only_bundle(self.run_it("/bin/sh", "-c", fails))  # the same failure has the same signature in its name
        os.unlink(before.path)
        ending = before.name.split("Z", 1)[1] + ".tar.gz"
        self.assertRegex(ending, "^-sh-app-bug-rc-")
        for second in range(60):
            name = time.strftime("rocmcrash-%Y%m%dT%H%M%SZ", time.gmtime(time.time() + second)) + ending
            for end in ("", ".partial"):
                os.symlink(victim, os.path.join(shared, name + end))
                os.lchown(os.path.join(shared, name + end), NOBODY, NOBODY)
        config = self.write("shared/.git/config", "[user]\n\tname = kill of evidence\n")
        with Attacks("what another user lays out") as attacks:
            with attacks.one("links in the places of bundles"):
                done = self.run_it("/bin/sh", "-c", fails, options=["-o", shared])
                made = [path for path in glob.glob(shared + "/*.tar.gz") if not os.path.islink(path)]
                self.assertEqual(len(made), 1, done.stderr)
                self.assertTrue(made[0].removesuffix(".tar.gz").removesuffix("-2").endswith(ending.removesuffix(".tar.gz")), made)
                self.assertFalse(os.path.lexists(victim))
            for name, make in (("evidence as a name", lambda: os.chown(config, NOBODY, NOBODY)),
                               ("a pipe that nobody fills", lambda: (os.unlink(config), os.mkfifo(config, 0o666)))):
                make()
                with attacks.one(name):
                    bundle = self.only_bundle(self.run_it("/bin/sh", "-c", fails, cwd=work))
                    self.assertIn("the kill of evidence", bundle.text("output/stderr.txt"))
                    os.unlink(bundle.path)

    def test_our_own_home_is_used(self):
        """The control of the two tests above: the same run with our own home."""
        home = self.path("own")
        os.mkdir(home, 0o700)
        done = self.run_it(*FAILS, env=self.without_state(HOME=home))
        self.only_bundle(done)
        self.assertTrue(os.path.isdir(os.path.join(home, ".local/state/rocmcrash/runs")))

    def test_arguments_are_not_shown_by_us(self):
        ready, go = self.path("ready"), self.path("go")
        os.mkfifo(go)
        process = self.start("/bin/sh", "-c", 'touch "$1"; read line < "$2"', "sh", ready, go, "s3cret-word")
        self.wait_for_file(ready)
        ours = [process.pid, *(wait_for(lambda n=name: self.helper(process.pid, n), name)
                               for name in support.HELPERS)]
        shown = {pid: support.read(f"/proc/{pid}/cmdline") for pid in ours}
        target = support.read(f"/proc/{self.target_pid(process.pid)}/cmdline")
        with open(go, "w", encoding="ascii") as file:
            file.write("\n")
        self.assertEqual(process.wait(30), 0)
        self.assertIn("s3cret-word", target)
        for pid, text in shown.items():
            self.assertNotIn("s3cret-word", text, pid)
            self.assertIn("rocmcrash", text, pid)


def tempfile_outside_tmp(test, name):
    """A folder that stays visible when file systems are mounted over /tmp and /dev/shm."""
    folder = os.path.join(os.path.dirname(os.path.dirname(support.ROCMCRASH)), f"neighbours-{os.getpid()}-{name}")
    if folder.startswith(("/tmp/", "/dev/shm/")):
        test.skipTest("the build folder lies in /tmp")
    os.makedirs(folder)
    test.addCleanup(shutil.rmtree, folder, True)
    return folder


if __name__ == "__main__":
    support.main()
