# SPDX-License-Identifier: Apache-2.0
"""samples/site: a site's entry point uses rocmcrash only where there is a GPU, and the epilog drains a node only if
memory is left on it."""

import json
import os
import subprocess
import time

import support
from support import ROCMCRASH

try:
    import yaml
except ImportError:
    yaml = None

SITE = os.path.join(support.SOURCE, "samples", "site")


class Site(support.Case):
    def run_word(self, *command, device=True, **environ):
        there = self.write("kfd", "")
        self.environ.update({"ROCMCRASH_GPU_DEVICES": there if device else there + "-none", **environ})
        self.environ["PATH"] = os.path.dirname(ROCMCRASH) + os.pathsep + self.environ.get("PATH", os.defpath)
        return subprocess.run([os.path.join(SITE, "run"), *command], env=self.environ, cwd=self.outdir, capture_output=True, text=True,
                              timeout=60, check=False)

    def test_armed(self):
        done = self.run_word(support.PYTHON, "-c", "import os; os.abort()")
        self.assertEqual(done.returncode, -6, done.stderr)
        self.assertEqual(len(self.bundles()), 1, done.stderr)

    def test_not_armed(self):
        """No GPU, switched off, or not installed: the command runs without rocmcrash, with its own status."""
        for device, more in ((False, {}), (True, {"ROCMCRASH_OFF": "1"})):
            done = self.run_word("sh", "-c", "echo out; kill -ABRT $$", device=device, **more)
            self.assertEqual((done.returncode, done.stdout, self.bundles()), (-6, "out\n", []))
            self.environ.pop("ROCMCRASH_OFF", None)
        tools = self.path("tools")
        os.mkdir(tools)
        os.symlink("/bin/sh", os.path.join(tools, "sh"))
        self.environ["ROCMCRASH_GPU_DEVICES"] = self.write("kfd", "")
        done = subprocess.run(["/bin/sh", os.path.join(SITE, "run"), "sh", "-c", "exit 7"], env={**self.environ, "PATH": tools}, cwd=self.outdir,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, self.bundles()), (7, []))
        self.assertEqual(self.run_word().returncode, 2)

    def armed(self, *command, **environ):
        """Calls a program by its name, with a folder of links to `shim` first in PATH."""
        folder = self.path("armed")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            for name in ("victim", "caller"):
                os.symlink(os.path.join(SITE, "shim"), os.path.join(folder, name))
            os.mkdir(self.path("bin of ours"))
            self.write("bin of ours/victim", "#!/bin/sh\necho \"$ROCMCRASH_ARMED $*\"\nkill -ABRT $$\n", 0o755)
            self.write("bin of ours/caller", "#!/bin/sh\nvictim from caller\n", 0o755)
        path = os.pathsep.join((folder, os.path.dirname(ROCMCRASH), self.path("bin of ours"), os.defpath))
        return subprocess.run(command, env={**self.environ, "ROCMCRASH_GPU_DEVICES": self.write("kfd", ""), "PATH": path, **environ},
                              cwd=self.outdir, capture_output=True, text=True, timeout=60, check=False)

    def test_armed_by_its_name(self):
        done = self.armed("sh", "-c", "victim 'a  b'; echo $?")
        self.assertEqual(done.stdout, "1 a  b\n134\n", done.stderr)
        self.assertEqual(len(self.bundles()), 1)
        # Once, for the program that was called first: it ends well, as its child's end is the last thing in it.
        done = self.armed("sh", "-c", "caller; echo $?")
        self.assertEqual(done.stdout, "1 from caller\n134\n", done.stderr)
        self.assertEqual(len(self.bundles()), 2)

    def test_armed_by_its_name_and_switched_off(self):
        for environ in ({"ROCMCRASH_OFF": "1"}, {"ROCMCRASH_GPU_DEVICES": self.path("none")}):
            done = self.armed("sh", "-c", "victim x; echo $?", **environ)
            self.assertEqual((done.stdout, self.bundles()), ("1 x\n134\n", []))
        os.unlink(self.path("bin of ours/victim"))
        done = self.armed("sh", "-c", "victim; echo $?")
        self.assertEqual((done.stdout, done.stderr), ("127\n", "victim: command not found\n"))

    def test_the_launcher_is_told(self):
        log, errors = self.write("termination-log", ""), self.path("errors/0/error.json")
        self.environ.update(KUBERNETES_SERVICE_HOST="10.0.0.1", TERMINATION_LOG=log, TORCHELASTIC_ERROR_FILE=errors)
        done = self.run_it("sh", "-c", "kill -SEGV $$", options=["--event-to", os.path.join(SITE, "tell_launcher")])
        bundle = self.only_bundle(done)
        said = support.read(log)
        self.assertIn("SEGV", said)
        self.assertIn(os.path.basename(bundle.path), said)
        with open(errors, encoding="utf-8") as file:
            message = json.load(file)["message"]
        self.assertEqual((message["message"] + "\n", message["extraInfo"]["py_callstack"]), (said, message["message"]))
        self.assertLess(abs(int(message["extraInfo"]["timestamp"]) - time.time()), 60)
        self.assertEqual(os.listdir(os.path.dirname(errors)), ["error.json"])

    def test_the_launcher_knows_already(self):
        """The program's own words stay. A sentence with quotes makes no broken JSON."""
        log, errors = self.write("termination-log", "mine\n"), self.write("error.json", "{}")
        script = os.path.join(SITE, "tell_launcher")
        environ = {**self.environ, "KUBERNETES_SERVICE_HOST": "10.0.0.1", "TERMINATION_LOG": log}
        words = ['a "quoted"\tword \\ and\nmore', "rocmcrash.class=leak", "rocmcrash.bundle=file:///x%20y.tar.gz"]
        for path in (errors, self.path("other.json")):
            subprocess.run([script, *words], env={**environ, "TORCHELASTIC_ERROR_FILE": path}, timeout=60, check=True)
        self.assertEqual((support.read(log), support.read(errors)), ("mine\n", "{}"))
        with open(self.path("other.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["message"]["message"],
                             'rocmcrash: a "quoted" word \\ and more (leak) bundle: file:///x%20y.tar.gz')

    def epilog(self, used):
        root = self.path("root")
        card = os.path.join(root, "sys/class/drm/card1/device")
        os.makedirs(card, exist_ok=True)
        with open(os.path.join(card, "mem_info_vram_used"), "w", encoding="ascii") as file:
            file.write(f"{used}\n")
        tools, told = self.path("bin"), self.path("told")
        os.makedirs(tools, exist_ok=True)
        stub = os.path.join(tools, "scontrol")
        with open(stub, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nfor word in "$@"; do echo "$word"; done >>{told}\n')
        os.chmod(stub, 0o755)
        environ = {"PATH": tools + ":/usr/bin:/bin", "ROCMCRASH_SYSROOT": root, "ROCMCRASH_WAIT_S": "0", "SLURMD_NODENAME": "n7", "SLURM_JOB_ID": "4711"}
        done = subprocess.run([os.path.join(SITE, "slurm_epilog")], env=environ, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return support.read(told).splitlines() if os.path.exists(told) else []

    def test_epilog(self):
        self.assertEqual(self.epilog(300 << 20), [])
        self.assertEqual(self.epilog(5 << 30),
                         ["update", "NodeName=n7", "State=DRAIN", "Reason=rocmcrash: card1 has 5120 MiB of VRAM in use after job 4711"])

    @support.unittest.skipIf(yaml is None, "no PyYAML")
    def test_kubernetes(self):
        """rocmcrash accepts the command of the example."""
        with open(os.path.join(SITE, "kubernetes.yaml"), encoding="utf-8") as file:
            pod = yaml.safe_load(file)["spec"]["template"]["spec"]
        command = pod["containers"][0]["command"]
        options = [word for word in command[1:command.index("--")] if not word.startswith("--output-dir")]
        self.assertEqual(command[command.index("--") + 1:], ["python", "train.py"])
        done = self.run_it("true", options=options)
        self.assertEqual(done.status, 0, done.stderr)
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = {mount["name"] for container in pod["containers"] + pod["initContainers"] for mount in container["volumeMounts"]}
        self.assertEqual(mounts, volumes)

    @support.unittest.skipIf(yaml is None, "no PyYAML")
    def test_daemonset(self):
        """Its shell command installs, and replaces an older one."""
        with open(os.path.join(SITE, "daemonset.yaml"), encoding="utf-8") as file:
            pod = yaml.safe_load(file)["spec"]["template"]["spec"]
        command = pod["initContainers"][0]["command"]
        os.mkdir(self.path("host"))
        os.makedirs(self.path("image"))
        for version in ("1", "2"):
            self.write("image/version", version)
            here = [word.replace("/host", self.path("host")).replace(" /rocmcrash ", f" {self.path('image')} ") for word in command]
            subprocess.run(here, timeout=60, check=True)
            self.assertEqual(support.read(self.path("host/rocmcrash/version")), version)
        self.assertEqual({volume["name"] for volume in pod["volumes"]}, {mount["name"] for mount in pod["initContainers"][0]["volumeMounts"]})


if __name__ == "__main__":
    support.main()
