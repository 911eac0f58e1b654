# SPDX-License-Identifier: Apache-2.0
"""Each of our allocations, descriptors and system calls is refused once, one after the other. In the finisher: there is
a valid bundle that says what it lacks and shows nothing private. Beside a living program: the program does not notice.
This test takes every nth of them, from a printed seed; tests/long/every_call takes all."""

import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile

import losses
import support
from losses import Table
from support import PYTHON, ROCMCRASH

ABORTED = -signal.SIGABRT
# How many of a kind are tried; 0 = every single one. PART=I/N: only the Ith of N parts.
TRIES = int(os.environ.get("RC_STARVED_TRIES") or 16)
PART, PARTS = (int(word) for word in (os.environ.get("RC_STARVED_PART") or "0/1").split("/"))

# A failing run with much output: messages, a traceback, secrets of several forms.
TARGET = """
import os, resource, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print('Traceback (most recent call last):\\n  File "train.py", line 7, in step\\n    y = model(x)\\n'
      'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity '
      'of 7.98 GiB of which 1.20 GiB is free. Of the allocated memory 5.11 GiB is allocated by PyTorch, '
      'and 1.02 GiB is reserved by PyTorch but unallocated.', file=sys.stderr)
print('Authorization: Bearer ' + os.environ['STARVED_TOKEN'], file=sys.stderr)
time.sleep(1.5)
os.abort()
"""


def some_of(numbers, tries, random):
    """Every nth number, so that `tries` remain (0 = all); of these the requested part."""
    step = max(len(numbers) // tries, 1) if tries else 1
    return numbers[random.randrange(step)::step][PART::PARTS]


class Reference:
    """The contents that every bundle of the kept run has when no allocation is refused."""

    def __init__(self, bundles):
        self.files = set.intersection(*({self.plain(name) for name, data in b.files.items()
                                         if data.strip()} for b in bundles))
        self.facts = set.intersection(*(self.present(b) for b in bundles))
        self.rows = {}
        for bundle in bundles:
            for name, row in self.statuses(bundle).items():
                self.rows.setdefault(name, set()).add(row)
        self.verdict = bundles[0].verdict["class"]

    @staticmethod
    def plain(name):
        return re.sub(r"\d{4,}", "#", name)

    @staticmethod
    def present(bundle):
        return {(name, fact.get("when")) for name, facts in bundle.facts.items()
                for fact in facts if fact.get("status") in (None, "present")}

    @staticmethod
    def statuses(bundle):
        return {item["name"]: (item["status"], re.sub(r"\d+", "#", item["reason"]))
                for item in bundle.manifest["items"]}

    def judge(self, bundle):
        """The parts that are missing in the bundle without a reason; '' = none."""
        rows = self.statuses(bundle)
        told = {name for name, row in rows.items() if row not in self.rows.get(name, ())
                and (name in self.rows or row[0] not in ("ok", "skipped"))}
        told |= set(self.rows) - set(rows)
        crashed = [(name, rows[name][1]) for name in told if rows.get(name, ("",))[0] == "crashed"]
        if crashed:
            return f"crashed: {crashed}"
        # A file that shrinks while it is archived is filled up with newlines: it counts as missing.
        files = self.files - {self.plain(name) for name, data in bundle.files.items() if data.strip()}
        said = {(name, fact.get("when")) for name, several in bundle.facts.items() for fact in several}
        facts = self.facts - said
        verdict = bundle.verdict["class"] != self.verdict
        if not told and (files or facts or verdict):
            return f"lacks without a word: {sorted(files)} {sorted(map(str, facts))}" + \
                (f", verdict {bundle.verdict['class']}" if verdict else "")
        return ""


class Finisher(losses.Shimmed):
    """On copies of one run directory."""

    KINDS = {"alloc": "memory", "files": "a descriptor", "calls": "a call"}

    @classmethod
    def setUpClass(cls):
        cls.token = "ghp_" + "".join(losses.random.Random(losses.SEED).choices(
            "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=36))
        cls.shared_folder = tempfile.TemporaryDirectory(prefix="rc-starved-")
        cls.kept = os.path.join(cls.shared_folder.name, "kept")  # one run for all tests

    @classmethod
    def tearDownClass(cls):
        cls.shared_folder.cleanup()

    def setUp(self):
        super().setUp()
        self.environ["STARVED_TOKEN"] = self.token
        self.environ["ROCMCRASH_SYSROOT"] = os.path.join(support.RECORDED, "machines",
                                                         "lact-phoenix-gfx1103")
        if not os.path.exists(self.kept):
            model = os.path.join(self.shared_folder.name, "model.safetensors")
            with open(model, "wb") as file:
                file.write((2).to_bytes(8, "little") + b"{}")
            shutil.copytree(self.kept_run(PYTHON, "-c", TARGET, model, "--api-key", self.token,
                                          env=dict(self.environ)), self.kept)
            type(self).asked_for = self.outdir
        del self.environ["STARVED_TOKEN"]

    def finish(self, box, fault, exe):
        run_dir = box.path("state", "runs", "20261121T120000Z-1")
        shutil.copytree(self.kept, run_dir)
        os.chmod(box.path("state", "runs"), 0o700)
        box.write("state/runs/20261121T120000Z-1/run.json",
                  support.read(os.path.join(self.kept, "run.json")).replace(self.asked_for, box.outdir))
        env = box.fault(fault, exe) if fault else box.environ
        return subprocess.run([ROCMCRASH, "recover"], env=env, capture_output=True, text=True,
                              check=False, timeout=120)

    def box(self, number):
        box = self.sandbox(number)
        box.log = box.path("fault-log")
        return box

    def leaks(self, path):
        with tarfile.open(path) as tar:
            for member in tar:
                data = tar.extractfile(member).read() if member.isfile() else b""
                if self.token.encode() in data + member.name.encode():
                    return member.name
        return ""

    def strike(self, number, kind, fault, exe, reference):
        """Returns the failure; '' = none."""
        box = self.box(number)
        done = self.finish(box, fault, exe)
        found = box.everywhere()
        wrong = "" if done.returncode >= 0 else f"a crash, {done.returncode}: {done.stderr}"
        if not found:
            if done.returncode == 0 or len(done.stderr) < 20:
                wrong = wrong or f"no bundle, and not a word: {done.returncode} {done.stderr!r}"
            again = box.verb("recover")
            found = box.everywhere()
            if not found:
                wrong = wrong or f"no bundle at last: {again.stderr}"
        invalid = [path for path in found if not box.is_valid(path)]
        if found and not invalid and not wrong:
            leaked = self.leaks(found[0])
            wrong = f"the token is in {leaked}" if leaked else \
                reference.judge(support.Bundle(found[0])) if not done.stderr else ""
        met = bool(box.faults_met())
        if met:
            Table.add(kind, lost=not found or wrong, invalid=invalid)
        shutil.rmtree(box.folder, ignore_errors=True)
        return f"{fault} ({exe}): {wrong or invalid}" if wrong or invalid else "" if met else None

    def sweep(self, what, exe="rocmcrash-finish", tries=TRIES):
        plain = [self.bundle_of(i) for i in range(3)]
        reference = Reference(plain)
        box = self.box("count")
        self.finish(box, f"{what}:0:0", exe)
        last = max(box.calls_told_of())
        # Twice as many in the last fifth, where redaction and the archive are made.
        numbers = sorted({*some_of(range(1, last + 50), tries, self.random),
                          *(some_of(range(last * 4 // 5, last), max(tries // 2, 1), self.random)
                            if tries else ())})
        kind = f"{self.KINDS[what]} refused in {exe}, each once"
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda n: self.strike(n, kind, f"{what}:{n}:1", exe, reference),
                                    numbers))
        wrong = [text for text in results if text]
        print(f"[{what} of {exe}: {sum(r is not None for r in results)} of {len(numbers)} met, "
              f"of {last}] ", end="", flush=True)
        for text in wrong[:40]:
            print(text, flush=True)
        if exe == "rocmcrash-finish":  # the unwinder may get no time on a busy machine
            self.assertGreater(sum(r is not None for r in results), 0)
        self.assertEqual(len(wrong), 0, f"seed {losses.SEED}: {wrong[:3]}")

    def bundle_of(self, number):
        box = self.box(f"plain{number}")
        done = self.finish(box, "", "")
        found = box.everywhere()
        self.assertEqual(len(found), 1, done.stderr)
        self.assertEqual(self.leaks(found[0]), "")
        return support.Bundle(found[0])

    def test_memory(self):
        self.sweep("alloc")

    def test_memory_of_the_unwinder(self):
        self.skip_if_sanitized("with which the unwinder takes longer than it is given")
        self.sweep("alloc", "rocmcrash-unwind", (TRIES + 3) // 4)

    def test_descriptors(self):
        self.sweep("files")

    def test_calls(self):
        self.sweep("calls")


class Beside(losses.Shimmed):
    """In the processes beside a living program: it must not notice."""

    PROCESSES = {"supervisor": "rocmcrash", "tracer": "rocmcrash-T", "sampler": "rocmcrash-M",
                 "relay": "rocmcrash-O", "recorder": "rocmcrash-R"}

    def live(self, what, process, number, count=1):
        """(what is wrong or '', numbers of the refused calls)"""
        box = self.sandbox(f"{what}-{process}-{number}-{count}")
        box.log = box.path("fault-log")
        run = subprocess.Popen(box.command(losses.target(), "lines", "300"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=box.fault(
                                   f"{what}:{number}:{count}", "rocmcrash", self.PROCESSES[process]))
        out, err = run.communicate(timeout=90)
        wrong = "" if run.returncode == ABORTED else f"status {run.returncode}: {err[-300:]}"
        said = re.search(rb"wrote (\d+)", out)
        lines = [line for line in err.splitlines() if not line.startswith(b"rocmcrash: ")]
        if said is None or lines != [b"line %07d" % i for i in range(int(said.group(1)))]:
            wrong = wrong or f"{len(lines)} lines came, {said and said.group(1)} were written"
        told = box.calls_told_of()
        # Without shared memory or a tracer nothing can be recorded; a line says so.
        unobserved = b"running without observation" in err
        found = box.everywhere()
        if not found and not unobserved:
            box.verb("recover")
            found = box.everywhere()
        lost = not found and not unobserved
        invalid = [path for path in found if not box.is_valid(path)]
        if number and told:
            Table.add(f"{Finisher.KINDS[what]} refused beside the program, each once", lost=lost,
                      harmed=wrong, invalid=invalid)
        shutil.rmtree(box.folder, ignore_errors=True)
        text = wrong or ("no bundle" if lost else "") or str(invalid or "")
        return f"{what}:{number} in the {process}: {text}" if text else "", told

    def sweep(self, what, tries):
        losses.target(), losses.shim()  # compiled once, before there are threads
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            counts = pool.map(lambda process: self.live(what, process, 0, 0), self.PROCESSES)
            cases = []
            for process, (wrong, told) in zip(self.PROCESSES, counts):
                self.assertEqual(wrong, "")
                # A forked process continues the count of its parent.
                if told:
                    numbers = range(min(told), max(told) + 1)
                    cases += [(process, n) for n in some_of(numbers, tries, self.random)]
            results = list(pool.map(lambda case: self.live(what, *case), cases))
        wrong = [text for text, _ in results if text]
        print(f"[{what} beside the program: {sum(bool(told) for _, told in results)} of "
              f"{len(cases)} met] ", end="", flush=True)
        for text in wrong[:20]:
            print(text, flush=True)
        self.assertEqual(wrong, [], f"seed {losses.SEED}")

    def test_memory(self):
        self.sweep("alloc", (TRIES + 9) // 10)

    def test_descriptors(self):
        self.sweep("files", (TRIES + 9) // 10)

    def test_calls(self):
        self.sweep("calls", (TRIES + 9) // 10)


if __name__ == "__main__":
    losses.main()
