# SPDX-License-Identifier: Apache-2.0
"""samples/site: a site's entry point uses rocmcrash only where there is a GPU, and the epilog drains a node only if
memory is left on it."""

import os
import subprocess

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


if __name__ == "__main__":
    support.main()
