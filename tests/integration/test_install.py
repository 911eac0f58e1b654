# SPDX-License-Identifier: Apache-2.0
"""The installed programs find all of their parts: in a plain folder, in one with a blank and a colon, in one whose
files are symbolic links into a store, and in a build tree away from its checkout."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import support

BUILD = os.path.dirname(os.path.dirname(support.ROCMCRASH))
LEDGER = "librocmcrash-ledger.so"
# Prints the traces of rocmcrash that the target can see, then dies so that a bundle is made.
TARGET = r"""
import os, re, signal
print("preload", os.environ.get("LD_PRELOAD"))
print("config", [name for name in os.environ if "ROCMCRASH_LEDGER" in name])
print("descriptors", sorted(os.listdir("/proc/self/fd"))[:-1])
print("ledger", %r in open("/proc/self/maps").read())
import subprocess, sys
print("child", subprocess.run([sys.executable, "-c", "print(%r in open('/proc/self/maps').read())"],
                              capture_output=True, text=True).stdout.strip(), flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
""" % (LEDGER, LEDGER)


def setUpModule():
    if not os.path.exists(os.path.join(BUILD, "CMakeCache.txt")):
        raise unittest.SkipTest("the programs under test are not in a build tree")
    if support.is_sanitized():
        raise unittest.SkipTest("a program with a sanitizer is not injected by what it is installed with")


def install(prefix):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)


def files_below(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            yield path, os.path.relpath(path, folder)


class Installed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="install-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.environ = {name: value for name, value in os.environ.items()
                        if name not in ("ROCMCRASH_TEMPLATES", "LD_PRELOAD")}

    def package_script(self, name, *arguments):
        path = os.path.join(support.SOURCE, "src", "packaging", name)
        subprocess.run(["/bin/sh", path, *arguments], env={**self.environ, "DPKG_ROOT": self.folder}, check=True)

    def test_packages_compile_the_hook(self):
        """An ordinary user's Python cannot keep what it compiles in root's folder."""
        pythons = [path for path in glob.glob("/usr/bin/python3.*") if re.search(r"/python3\.[0-9]+$", path)]
        if not pythons or not support.SOURCE:
            self.skipTest("no Python in /usr/bin, or no source folder")
        install(os.path.join(self.folder, "usr"))
        folder = os.path.join(self.folder, "usr", "share", "rocmcrash", "python")
        code = "import glob, importlib.util, sys; print(*map(importlib.util.cache_from_source, glob.glob(sys.argv[1] + '/*.py')))"
        self.package_script("postinstall.sh", "configure")
        for python in pythons:
            compiled = subprocess.run([python, "-I", "-c", code, folder], capture_output=True, text=True, check=True).stdout.split()
            self.assertGreater(len(compiled), 1)
            self.assertEqual([path for path in compiled if not os.path.exists(path)], [])
        self.package_script("preremove.sh", "1")  # rpm, after the new package's script
        self.assertTrue(os.path.exists(compiled[0]))
        self.package_script("preremove.sh", "remove")
        self.assertFalse(os.path.exists(os.path.dirname(compiled[0])))

    def plain(self):
        """A usual installation; the libraries are not executable, as Debian's CMake installs them."""
        prefix = os.path.join(self.folder, "plain")
        install(prefix)
        os.chmod(os.path.join(prefix, "libexec", "rocmcrash", LEDGER), 0o644)
        return prefix

    def check(self, program, cwd=None):
        outdir = os.path.join(self.folder, "out")
        os.makedirs(outdir, exist_ok=True)
        found = {}
        for inject in ("none", "all"):
            run = subprocess.run([program, "--inject=" + inject, "-o", outdir, "--", support.PYTHON, "-c", TARGET],
                                 env=self.environ, cwd=cwd, capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, -11, run.stderr)
            found[inject] = dict(line.split(" ", 1) for line in run.stdout.splitlines())
        for name in ("preload", "config", "descriptors"):
            self.assertEqual(found["all"][name], found["none"][name])
        self.assertEqual((found["all"]["ledger"], found["all"]["child"]), ("True", "True"))
        path = re.search(r"\S+\.tar\.gz", run.stderr.replace(self.folder, "")).group()
        bundle = support.Bundle(os.path.join(outdir, os.path.basename(path)))
        rows = {row["name"]: row for row in bundle.manifest["items"]}
        self.assertEqual(rows["ledger"]["reason"], "nothing was noted in the ledger") # there is no GPU
        self.assertNotIn("not installed", bundle.text("manifest.json"))
        self.assertEqual(bundle.verdict["class"], "app-bug")
        verify = subprocess.run([program, "verify", bundle.path], env=self.environ, cwd=cwd, capture_output=True, text=True)
        self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
        return bundle

    def test_plain(self):
        self.check(os.path.join(self.plain(), "bin", "rocmcrash"))

    def test_relative_name(self):
        self.check("./bin/rocmcrash", cwd=self.plain())

    def test_name_on_the_path(self):
        self.environ["PATH"] = os.path.join(self.plain(), "bin") + ":" + os.environ["PATH"]
        self.check("rocmcrash")

    def test_blank_in_the_path(self):
        prefix = os.path.join(self.folder, "my venv")
        shutil.move(self.plain(), prefix)
        self.check(os.path.join(prefix, "bin", "rocmcrash"))

    def test_a_name_that_outlives_the_run(self):
        """A child that outlives rocmcrash keeps the name of the library. Where the path has a blank, that is a link
        in a folder that nobody else can change; without such a folder there is no ledger."""
        prefix, state = os.path.join(self.folder, "my venv"), os.path.join(self.folder, "state")
        shutil.move(self.plain(), prefix)
        os.mkdir(state, 0o700)
        program = os.path.join(prefix, "bin", "rocmcrash")
        code = "import subprocess; subprocess.run(['/usr/bin/env', 'cat', '/proc/self/environ'])"
        homeless = {name: value for name, value in self.environ.items()
                    if name not in ("ROCMCRASH_STATE_DIR", "XDG_STATE_HOME", "HOME")}
        def named(environ):
            run = subprocess.run([program, "-o", self.folder, "--", support.PYTHON, "-c", code], env=environ,
                                 capture_output=True, text=True, timeout=120, check=True)
            return [entry.split("=", 1)[1].split(":")[0] for entry in run.stdout.split("\0") if entry.startswith("LD_PRELOAD=")]
        self.assertEqual(named(homeless), [])
        name, = named({**homeless, "ROCMCRASH_STATE_DIR": state})
        self.assertTrue(os.path.samefile(name, os.path.join(prefix, "libexec", "rocmcrash", LEDGER)))
        folder = os.stat(os.path.dirname(name))
        self.assertEqual((folder.st_uid, folder.st_mode & 0o777), (os.geteuid(), 0o700))
        self.assertTrue(name.startswith(state + "/"), name)

    def test_link_to_the_program(self):
        os.mkdir(os.path.join(self.folder, "bin"))
        link = os.path.join(self.folder, "bin", "rocmcrash")
        os.symlink(os.path.join(self.plain(), "bin", "rocmcrash"), link)
        self.check(link)

    def test_every_file_is_a_link(self):
        """uv --link-mode symlink: bin/ and the other folders hold links into scripts/ and data/ of a store."""
        prefix, store = os.path.join(self.folder, "venv"), os.path.join(self.folder, "store")
        for number, (path, name) in enumerate(list(files_below(self.plain()))):
            kept = os.path.join(store, str(number), os.path.basename(path))
            os.makedirs(os.path.dirname(kept))
            os.makedirs(os.path.dirname(os.path.join(prefix, name)), exist_ok=True)
            shutil.move(path, kept)
            os.symlink(kept, os.path.join(prefix, name))
        self.check(os.path.join(prefix, "bin", "rocmcrash"))
        self.check("bin/rocmcrash", cwd=prefix)

    def test_build_tree_elsewhere(self):
        for name in ("bin", "share"):
            shutil.copytree(os.path.join(BUILD, name), os.path.join(self.folder, "build", name), symlinks=True)
        self.check(os.path.join(self.folder, "build", "bin", "rocmcrash"))

    def test_without_the_library(self):
        """The bundle says that this part is missing."""
        prefix = self.plain()
        os.unlink(os.path.join(prefix, "libexec", "rocmcrash", LEDGER))
        outdir = os.path.join(self.folder, "out")
        os.mkdir(outdir)
        run = subprocess.run([os.path.join(prefix, "bin", "rocmcrash"), "-o", outdir, "--", "sh", "-c", "kill -SEGV $$"],
                             env=self.environ, capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, -11, run.stderr)
        bundle = support.Bundle(os.path.join(outdir, os.listdir(outdir)[0]))
        self.assertEqual(bundle.row("ledger")["reason"], "this run kept no ledger: its library is not installed")


if __name__ == "__main__":
    support.main()
