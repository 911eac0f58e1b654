# SPDX-License-Identifier: Apache-2.0
"""`sudo rocmcrash complete BUNDLE`: an ordinary user's bundle gets the kernel log of the run's window
from root, and the verdict follows it."""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import time

import support
from attack_table import Attacks
from support import PYTHON

NOBODY = 65534
DROP = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all"]
# Printed by amdgpu for a page fault of a compute queue (amdgpu_gmc.c, gmc_v9_0.c).
PAGE_FAULT = ("amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 "
              "pasid:32770, for process python3 pid {pid} thread python3 pid {pid})\n"
              "amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0c1a000000 from client "
              "0x1b (UTCL2)\n")
# The program writes to the kernel log through a descriptor that root opened: the user nobody may not open it.
FAILS = ("import os, sys\n"
         "log = int(sys.argv[1])\n"
         "for line in {lines!r}.format(pid=os.getpid()).splitlines():\n"
         "    os.write(log, b'<3>' + line.encode() + b'\\n')\n"
         "os.close(log)\n"
         "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
         "os.abort()\n")


class Complete(support.Case):
    def setUp(self):
        super().setUp()
        if shutil.which("setpriv") is None:
            self.skipTest("no setpriv here")
        support.need_ordinary_user(self)
        if support.read("/proc/sys/kernel/dmesg_restrict").strip() != "1":
            self.skipTest("everybody may read the kernel log here (dmesg_restrict is 0)")
        os.chmod(self.folder, 0o755)
        os.chown(self.outdir, NOBODY, NOBODY)
        self.environ.update(ROCMCRASH_STATE_DIR=self.outdir + "/state", XDG_CACHE_HOME=self.outdir,
                            HOME=self.outdir)

    def users_bundle(self, lines=PAGE_FAULT):
        try:
            log = os.open("/dev/kmsg", os.O_WRONLY)
        except OSError as error:
            self.skipTest(f"/dev/kmsg cannot be written: {error}")
        process = subprocess.Popen(
            [*DROP, *self.command(PYTHON, "-c", FAILS.format(lines=lines), str(log))],
            env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[log])
        os.close(log)
        out, err = process.communicate(timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual(done.status, -6, done.stderr)
        return self.only_bundle(done)

    def test_adds_the_log_and_judges_again(self):
        before = self.users_bundle()
        self.assertEqual(before.verdict["class"], "app-bug")
        self.assertEqual(before.row("kernel_log")["status"], "skipped")
        self.assertIn("sudo rocmcrash complete", before.text("SUMMARY.md"))
        os.chmod(before.path, 0o640)

        done = self.verb("complete", before.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("page-fault", done.stdout)
        self.assertIn(before.path, done.stdout)
        st = os.stat(before.path)
        self.assertEqual((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)), (NOBODY, NOBODY, 0o600))
        self.assertEqual([name for name in os.listdir(self.outdir) if "rocmcrash-" in name],
                         [before.name + ".tar.gz"])
        self.assertEqual(self.verb("verify", before.path).returncode, 0)

        after = support.Bundle(before.path)
        self.assertEqual(after.verdict["class"], "page-fault")
        self.assertEqual(after.value("kmsg.page_fault_address"), "0x00007f0c1a000000")
        self.assertIn("no-retry page fault", after.text("kernel_log/kernel.log"))
        self.assertTrue(after.text("SUMMARY.md").startswith("# GPU memory access fault at 0x00007f0c1a000000 (page-fault"))
        self.assertIn(before.name, after.text("SUMMARY.md"))
        self.assertNotIn("sudo rocmcrash complete", after.text("SUMMARY.md"))
        self.assertEqual(json.loads(self.verb("triage", "--json", before.path).stdout), after.verdict)
        self.check_rows(before, after)

    def check_rows(self, before, after):
        """One row for each collector. The rows of collectors that did not run again are unchanged."""
        names = [item["name"] for item in after.manifest["items"]]
        self.assertEqual(sorted(names), sorted(item["name"] for item in before.manifest["items"]))
        self.assertEqual(after.row("kernel_log")["status"], "ok")
        for item in before.manifest["items"]:
            if item["name"] not in ("kernel_log", "devcoredump"):
                self.assertEqual(after.row(item["name"]), item)
        same = [name for name in before.facts
                if not name.startswith(("kmsg.", "f.")) and name in after.facts]
        self.assertGreater(len(same), 50)
        for name in same:
            self.assertEqual(after.facts[name], before.facts[name])
        self.assertEqual([name for name in before.facts if name not in after.facts
                          and not name.startswith(("kmsg.", "f."))], [])
        counts = [json.loads(bundle.text("redaction.json"))["counts"] for bundle in (before, after)]
        for kind, count in counts[0].items():
            self.assertGreaterEqual(counts[1][kind], count)

    def test_a_users_sysroot_is_not_roots(self):
        bundle = self.users_bundle()
        secret = self.write("secret", f"3,1,{time.monotonic_ns() // 1000},-;amdgpu 0000:03:00.0: a line of root's own\n")
        os.chmod(secret, 0o600)
        os.makedirs(self.outdir + "/machine/dev")
        os.symlink(secret, self.outdir + "/machine/dev/kmsg")
        os.chown(self.outdir + "/machine", NOBODY, NOBODY)
        self.environ["ROCMCRASH_SYSROOT"] = self.outdir + "/machine"
        with Attacks("what another user lays out") as attacks, attacks.one("a machine's folder with a link to a file of root's"):
            done = self.verb("complete", bundle.path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("ROCMCRASH_SYSROOT is not root's own folder", done.stderr)
            after = support.Bundle(bundle.path)
            self.assertNotIn("root's own", after.text("kernel_log/kernel.log"))
            self.assertEqual(after.verdict["class"], "page-fault")

    def test_twice(self):
        bundle = self.users_bundle()
        self.assertEqual(self.verb("complete", bundle.path).returncode, 0)
        # The kernel log has gone on since. The lines of the first reading are not replaced by those that are left.
        with open(bundle.path, "rb") as file:
            once = file.read()
        again = self.verb("complete", bundle.path)
        self.assertEqual(again.returncode, 2)
        self.assertIn("kernel log already", again.stderr)
        with open(bundle.path, "rb") as file:
            self.assertEqual(file.read(), once)
        after = support.Bundle(bundle.path)
        self.assertEqual(after.verdict["class"], "page-fault")
        self.assertEqual(after.value("kmsg.page_fault"), 1)
        self.assertEqual(len([item for item in after.manifest["items"]
                              if item["name"] == "kernel_log"]), 1)

    def test_the_log_before_and_after_the_run_is_not_taken(self):
        with open("/dev/kmsg", "w", encoding="ascii") as log:
            log.write("<3>amdgpu test: before the run\n")
        time.sleep(1.2)  # the window begins one second before the run
        bundle = self.users_bundle(lines="amdgpu test: during the run\nother test: of another user\n")
        self.assertEqual(self.verb("complete", bundle.path).returncode, 0)
        text = support.Bundle(bundle.path).text("kernel_log/kernel.log")
        self.assertIn("during the run", text)
        self.assertNotIn("of another user", text)
        self.assertNotIn("before the run", text)

    def test_another_boot_is_refused(self):
        bundle = self.users_bundle()
        with open(bundle.path, "rb") as file:
            whole = file.read()
        # A time namespace cannot change the machine's boot time (btime), so the test changes the bundle's.
        path = self.rewritten(bundle)
        before = support.read(path)
        done = self.verb("complete", path)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1))
        self.assertIn("restarted since", done.stderr)
        self.assertEqual(support.read(path), before)
        with open(bundle.path, "rb") as file:
            self.assertEqual(file.read(), whole)

    def rewritten(self, bundle):
        """A valid bundle of a machine that was booted an hour earlier."""
        facts = json.loads(bundle.text("facts.json"))
        for fact in facts["facts"]:
            if fact["name"] == "run.boot_time_s":
                fact["value"] -= 3600
        data = {**bundle.files, "facts.json": json.dumps(facts).encode()}
        manifest = dict(bundle.manifest)
        for row in manifest["files"]:
            row["bytes"] = len(data[row["path"]])
            row["sha256"] = hashlib.sha256(data[row["path"]]).hexdigest()
        data["manifest.json"] = json.dumps(manifest).encode()
        path = self.path("earlier.tar.gz")
        with tarfile.open(path, "w:gz") as tar:
            for name, text in data.items():
                member = tarfile.TarInfo(f"{bundle.name}/{name}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
        self.assertEqual(self.verb("verify", path).returncode, 0)
        return path

    def test_the_user_alone_gains_nothing(self):
        bundle = self.users_bundle()
        done = subprocess.run([*DROP, support.ROCMCRASH, "complete", bundle.path], capture_output=True,
                              text=True, env=self.environ, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stdout)
        self.assertIn("kernel log", done.stderr)
        self.assertEqual(support.Bundle(bundle.path).manifest, bundle.manifest)


if __name__ == "__main__":
    support.main()
