# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash diff`: bundles of replays that differ in one thing. That thing must come first."""

import io
import json
import tarfile

import support
from replay import (BARE, FAULT, GIB, PAGE_FAULT, QUIET_LOG, SHORT, TARGET, Machine, climb, dgpu,
                    in_parallel)
from support import PYTHON

STEPS = [["stderr", SHORT], ["exit", 1]]
STEERING = ("HIP_", "HSA_", "ROCR_", "ROCM_", "GPU_", "AMD_", "PYTORCH_", "CUDA_")


class Run:
    """One run: the machine's counters, what the program does, and its environment."""

    def __init__(self, machine=None, steps=None, before=None, environ=None, arguments=()):
        self.machine = machine or (lambda m: dgpu(16, 1.0)(m))
        self.steps, self.before = steps or STEPS, before
        self.environ, self.arguments = environ or {}, arguments


def kernel(release):
    return lambda m: dgpu(16, 1.0)(m).put("proc/sys/kernel/osrelease", release)


def limit(gib):
    return lambda m: dgpu(16, 1.0)(m).ttm(gib * GIB)


def log(text):
    return lambda m: dgpu(16, 1.0)(m).put("dev/kmsg", text)


def slope(seconds):
    return lambda m: climb(1.0, 15.4, 0.2, 12, seconds)(m)


class Diff(support.Case):
    def bundle(self, name, run):
        case = support.Case()
        case.setUp()
        self.addCleanup(case.doCleanups)
        for variable in list(case.environ):
            if variable.startswith(STEERING):
                del case.environ[variable]
        case.environ.update(run.environ)
        machine = Machine(self.path("machines", name))
        run.machine(machine)
        steps = (run.before(machine) if run.before else []) + run.steps
        script = case.write("steps.json", json.dumps(steps))
        done = case.run_it(PYTHON, "-S", TARGET, script, *run.arguments, timeout=120,
                           options=[f"--sysroot={machine.top}", "--hash-budget=0s", "--quiet"])
        self.assertEqual(len(done.bundles), 1, done.stderr)
        return done.bundles[0].path

    def diff(self, *arguments):
        done = self.verb("diff", "--json", *arguments)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if report["same"] else 1)
        return report

    def rewritten(self, path, name, change):
        """The bundle with its facts and verdict changed by change(facts, verdict)."""
        target = self.path(name)
        with tarfile.open(path) as old, tarfile.open(target, "w:gz") as new:
            members = {m.name.split("/", 1)[1]: (m, old.extractfile(m).read())
                       for m in old.getmembers() if m.isfile()}
            facts = json.loads(members["facts.json"][1])
            verdict = json.loads(members["verdict.json"][1])
            change(facts["facts"], verdict)
            members["facts.json"] = (members["facts.json"][0], json.dumps(facts).encode())
            members["verdict.json"] = (members["verdict.json"][0], json.dumps(verdict).encode())
            for member, data in members.values():
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
        return target


# name: (run A, run B, group and name of what must come first). Written down before the first run.
CONTROLLED = {
    "another GPU": (Run(), Run(lambda m: dgpu(16, 1.0, "gfx1030")(m)), "gpu", "gpu.0.gfx"),
    "a smaller GPU": (Run(), Run(lambda m: dgpu(12, 1.0)(m)), "gpu", "gpu.0.kfd_bank_bytes"),
    "TTM limit": (Run(limit(32)), Run(limit(48)), "memory-limits", "host.ttm_limit_bytes"),
    "RAM": (Run(), Run(lambda m: dgpu(16, 1.0)(m).ram(30 * GIB, 28 * GIB)), "memory-limits",
            "host.mem_total_bytes"),
    "an option of the allocator": (
        Run(), Run(environ={"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:128"}), "allocator",
        "env.PYTORCH_HIP_ALLOC_CONF"),
    "the override": (Run(environ={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}), Run(), "override",
                     "env.HSA_OVERRIDE_GFX_VERSION"),
    "an option of the runtime": (Run(environ={"HSA_ENABLE_SDMA": "0"}), Run(), "runtime-options",
                                 "env.HSA_ENABLE_SDMA"),
    "the batch": (Run(arguments=("--batch=8",)), Run(arguments=("--batch", "16")), "command",
                  "run.argument.--batch"),
    "one more argument": (Run(arguments=("--batch=8",)), Run(arguments=("--fp16", "--batch=8")),
                          "command", "run.argument.--fp16"),
    "the kernel": (Run(kernel("6.12.48")), Run(kernel("6.18.4")), "versions", "host.kernel"),
    "memory held before": (Run(), Run(lambda m: dgpu(16, 9.0)(m)), "held", "gpu.0.vram.used_bytes"),
    "descriptors": (Run(steps=[["limit", 128], *STEPS]), Run(steps=[["limit", 512], *STEPS]),
                    "process-limits", "proc.0.fds_limit"),
    "what was asked for": (Run(), Run(steps=[["stderr", SHORT.replace("512.00 MiB", "800.00 MiB")],
                                             ["exit", 1]]), "request", "oom.requested_bytes"),
    "the curve": (Run(before=slope(1.0)), Run(before=slope(6.0)), "curve",
                  "curve.gpu.0.vram.used.growth_bytes_per_s"),
    "how it ended": (Run(), Run(steps=[["stderr", SHORT], ["exit", 3]]), "end", "target.exit_code"),
}


class ControlledDifferences(Diff):
    def one(self, item):
        name, (a, b, group, fact) = item
        paths = [self.bundle(f"{name}-{letter}".replace(" ", "-"), run)
                 for letter, run in (("a", a), ("b", b))]
        return name, self.diff(*paths), group, fact

    def test_each_comes_first(self):
        for name, report, group, fact in in_parallel(self.one, CONTROLLED.items()):
            with self.subTest(difference=name):
                differences = report["differences"]
                print(f"{name:28} {len(differences)} of {report['compared']} facts, first: "
                      f"{differences[0]['name'] if differences else '-'}")
                self.assertTrue(differences, report)
                first = differences[0]
                self.assertEqual((first["group"], first["name"]), (group, fact), differences)
                self.assertEqual([d["rank"] for d in differences],
                                 list(range(1, len(differences) + 1)))
                self.assertTrue(first["why"])

    def test_the_same_twice_is_the_same(self):
        run = Run(before=slope(1.5), environ={"HSA_ENABLE_SDMA": "0"})
        paths = in_parallel(lambda n: self.bundle(n, run), ["one", "two"])
        report = self.diff(*paths)
        self.assertEqual((report["same"], report["differences"]), (True, []))
        self.assertGreater(report["left_out"], 3)  # pids and times did differ
        done = self.verb("diff", *paths)
        self.assertEqual(done.returncode, 0)
        self.assertIn("the same outcome; 0 of ", done.stdout)

    def test_the_outcome_brings_its_cause_to_the_front(self):
        """Two differences; the verdicts say which one matters."""
        other = {"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:128"}
        override = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
        fault = [["stderr", FAULT], ["exit", 1]]
        a = self.bundle("oom", Run(environ=other))
        b = self.bundle("fault", Run(environ=override, steps=fault))
        report = self.diff(a, b)
        self.assertEqual((report["outcome"]["a"]["class"], report["outcome"]["b"]["class"]),
                         ("capacity", "arch-mismatch"))
        self.assertEqual(report["differences"][0]["name"], "env.HSA_OVERRIDE_GFX_VERSION")

    def test_a_cause_in_the_kernel_log(self):
        line = PAGE_FAULT.replace("{victim}", "77").replace("{comm}", "python3")
        bare = [["stderr", BARE], ["exit", 1]]
        report = self.diff(self.bundle("quiet", Run(log(QUIET_LOG), bare)),
                           self.bundle("fault", Run(log(line), bare)))
        self.assertEqual({d["group"] for d in report["differences"]}, {"log"})
        self.assertTrue(report["outcome"]["differs"])


class OtherBundles(Diff):
    @classmethod
    def setUpClass(cls):
        maker = cls("test_words")
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        cls.amd = maker.bundle("amd", Run(environ={"PYTORCH_HIP_ALLOC_CONF": "backend:native"}))

    def runTest(self):
        """Needed by setUpClass."""

    def nvidia(self, facts, verdict):
        verdict["vendor"] = "nvidia"
        for fact in facts:
            if fact["name"] == "gpu.0.driver":
                fact["value"] = "nvidia"
            if fact["name"] == "f.vendor":
                fact["value"] = "nvidia"
            if fact["name"] == "env.PYTORCH_HIP_ALLOC_CONF":
                fact["name"] = "env.PYTORCH_CUDA_ALLOC_CONF"
            if fact["name"] == "gpu.0.gfx":
                fact.pop("value")
                fact.update(status="absent", reason="not an AMD GPU")

    def test_across_vendors(self):
        other = self.rewritten(self.amd, "nvidia.tar.gz", self.nvidia)
        report = self.diff(self.amd, other)
        self.assertEqual(report["differences"][0]["group"], "vendor")
        self.assertIn("env.PYTORCH_CUDA_ALLOC_CONF", [d["name"] for d in report["differences"]])
        self.assertEqual(report["outcome"]["b"]["vendor"], "nvidia")

    def test_words(self):
        def change(facts, verdict):
            verdict.update({"class": "leak", "sentence": "It grew."})
            facts.append({"name": "host.max_map_count", "value": 7, "when": "static"})
            facts.append({"name": "env.HSA_XNACK", "value": "1\x1b[31m\n2", "when": "static"})
        other = self.rewritten(self.amd, "other.tar.gz", change)
        done = self.verb("diff", self.amd, other)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^rocmcrash: '.*other\.tar\.gz' is damaged, .*manifest\n$")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "A  " + self.amd)
        self.assertEqual(lines[3], "   leak, high: It grew.")
        self.assertIn("options of the runtime (they choose", lines[4])
        self.assertRegex(lines[5], r"^   env\.HSA_XNACK +A \(not set\)  \|  B 1\?\[31m\\x0a2$")
        self.assertTrue(lines[-1].startswith("rocmcrash: another outcome; 2 of "), lines[-1])

    def test_what_one_bundle_only_knows_is_no_difference(self):
        def forget(facts, verdict):
            del verdict
            facts[:] = [f for f in facts if not f["name"].startswith("gpu.")]
        other = self.rewritten(self.amd, "forgot.tar.gz", forget)
        report = self.diff(self.amd, other)
        self.assertEqual(report["differences"], [])
        self.assertIn("gpu.0.gfx", [d["name"] for d in report["known_to_one_only"]])
        self.assertNotIn("known to one of them only:", self.verb("diff", self.amd, other).stdout)
        self.assertIn("known to one of them only:", self.verb("diff", "-a", self.amd, other).stdout)

    def test_trouble(self):
        text = self.write("text", "no bundle")
        empty = self.path("empty.tar.gz")
        with tarfile.open(empty, "w:gz"):
            pass
        for arguments, complaint in (([], "usage:"), ([self.amd], "usage:"),
                                     ([self.amd] * 3, "usage:"), (["--no"], "unknown option"),
                                     ([self.amd, "/nonexistent"], "/nonexistent"),
                                     ([self.amd, text], "text"), ([empty, self.amd], "empty.tar.gz"),
                                     (["--order=/nonexistent", self.amd, self.amd], "No such file")):
            done = self.verb("diff", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(complaint, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help(self):
        done = self.verb("diff", "--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--json", "--all", "--order", "Exit status: 0"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    support.main()
