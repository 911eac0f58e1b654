# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash fleet`: real bundles of several ranks joined into one story; many synthetic ones, for time and memory."""

import csv
import glob
import gzip
import html.parser
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.parse

import support
from attack_table import Attacks
from support import HIP_OOM, ROCMCRASH

try:
    import jsonschema
except ImportError:
    jsonschema = None

CLOSED = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:3977\n"


def bundle_bytes(name, files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 1)


# Recorded on two real GPUs (PyTorch 2.11). Rank 1 slept, and then repeated what rank 0 had reported.
NCCL_HANG = """\
[rank0]:[E1123 08:08:42.777 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=21, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=12000) ran for 12042 milliseconds before timing out.
[rank0]:[E1123 08:08:46.060 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 21, last completed NCCL work: 20.This is most likely caused by incorrect usages of collectives
[rank1]:[E1123 08:08:46.077 ProcessGroupNCCL.cpp:1849] [PG ID 0 PG GUID 0(default_pg) Rank 1] Observed flight recorder dump signal from another rank via TCPStore.
[rank1]:[E1123 08:08:46.078 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 20, last completed NCCL work: 20.This is most likely caused by incorrect usages of collectives
"""


class Page(html.parser.HTMLParser):
    """Which tags a page has, which of them are never closed, its words, and the cells of its tables."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.words, self.rows = set(), [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes another one")

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


class Fleet(support.Case):
    def rank(self, rank, code, world=3, **others):
        environ = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "TORCHELASTIC_RUN_ID": "x",
                   "TORCHELASTIC_RESTART_COUNT": 0, **others}
        self.environ.update({name: str(value) for name, value in environ.items()})
        return self.python(code)

    def fleet(self, *words):
        done = self.verb("fleet", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        story = json.loads(done.stdout)
        if jsonschema is not None:
            schema = json.loads(support.read(os.path.join(support.SOURCE, "templates", "schema", "fleet.json")))
            jsonschema.Draft7Validator.check_schema(schema)
            jsonschema.validate(story, schema)
        return story

    def test_real_ranks(self):
        """One is out of memory, one loses its peer later, one leaves nothing."""
        self.rank(1, f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        self.rank(0, f"import sys; sys.stderr.write({CLOSED!r}); sys.exit(1)")
        self.rank(2, "pass")
        self.assertEqual(sorted(re.search(r"-r[0-9]+(?=-|$)", bundle.name)[0] for bundle in self.bundles()), ["-r0", "-r1"])
        story = self.fleet(self.outdir)
        self.assertEqual((story["bundles"], story["unreadable"], len(story["jobs"])), (2, 0, 1))
        job = story["jobs"][0]
        self.assertEqual([(record["rank"], record["class"]) for record in job["causes"]], [(1, "capacity")])
        self.assertEqual((job["sure"], job["missing"], job["machines"], job["launcher"]), ("low", [2], 1, "torchrun"))
        self.assertEqual([(record["rank"], record["role"]) for record in job["time_line"]], [(1, "caused"), (0, "lost-peer")])
        text = self.verb("fleet", *(bundle.path for bundle in self.bundles())).stdout
        self.assertIn("first    rank 1 ", text)
        self.assertIn("1 of 3 ranks are in no bundle: 2", text)

    def test_single_runs(self):
        """Runs that are no ranks: a list, no story of who fell first. The same pseudonym in two bundles is no evidence."""
        script = self.write("zorblatter.py", f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        for _ in range(2):
            self.run_it(support.PYTHON, script)
        paths = [bundle.path for bundle in self.bundles()]
        text = self.verb("fleet", *paths).stdout
        self.assertTrue(text.startswith("2 single runs (no rank of a job)\n"), text)
        for path in paths:
            self.assertEqual(text.count(path), 1)
        for word in ("sure:", "first ", "not known"):
            self.assertNotIn(word, text)
        self.assertIn("<project1> of two bundles may be two programs", text)
        self.assertNotIn("pseudonyms", self.verb("fleet", paths[0]).stdout)

    def test_failures_of_one_run_each_are_not_called_the_same(self):
        self.run_it(support.PYTHON, "-c", f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        self.run_it("/bin/sh", "-c", "kill -SEGV $$")
        text = self.verb("fleet", *(bundle.path for bundle in self.bundles())).stdout
        self.assertTrue(text.startswith("2 single runs"), text)
        for words in ("same failures", " on boot "):
            self.assertNotIn(words, text)
        self.assertIn(" on the machine with boot id ", text)

    def test_words_of_others(self):
        """Ranks that write to one file: lines that PyTorch marks with another rank are not taken for the own ones."""
        marked = "".join(f"[rank1]: {line}\n" for line in HIP_OOM.splitlines())
        own = f"[rank0]: {CLOSED}"
        self.rank(0, f"import sys; sys.stderr.write({marked + own!r}); sys.exit(1)")
        job = self.fleet(self.outdir)["jobs"][0]
        self.assertEqual([(record["class"], record["role"]) for record in job["time_line"]], [("collective", "lost-peer")])
        self.assertEqual((job["causes"], job["missing"]), ([], [1, 2]))

    def test_one_file_without_marks(self):
        """Rank 1 writes its error to the file of all ranks while rank 0 runs. It is unknown who wrote it, and each
        bundle says so."""
        gate, log = self.path("gate"), self.path("log")
        held = "ValueError: Free memory on device cuda:0 (3.10/31.98 GiB) on startup is less than desired GPU memory utilization (0.9, 28.78 GiB).\n"
        wait = (f"import os, sys, time\nsys.stderr.write('begins\\n'); sys.stderr.flush()\nwhile not os.path.exists({gate!r}): time.sleep(0.01)\n"
                f"sys.stderr.write({CLOSED!r}); sys.exit(1)")
        with open(log, "ab") as file:
            environ = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
            self.environ.update(environ)
            first = self.start(support.PYTHON, "-c", wait, stderr=file, stdout=file)
            support.wait_for(lambda: "begins" in support.read(log), "the first rank")
            self.environ.update({"RANK": "1", "LOCAL_RANK": "1"})
            self.start(support.PYTHON, "-c", f"import sys; sys.stderr.write({held!r}); sys.exit(1)", stderr=file, stdout=file).wait(60)
            open(gate, "w", encoding="ascii").close()
            first.wait(60)
        bundles = {bundle.value("job.rank"): bundle for bundle in self.bundles()}
        self.assertEqual(sorted(bundles), [0, 1])
        for bundle in bundles.values():
            self.assertEqual(bundle.verdict["confidence"], "low")
            self.assertIn("another rank may have written the lines", " ".join(bundle.verdict["against"]))
        self.assertEqual([record["rank"] for record in self.fleet(self.outdir)["jobs"][0]["causes"]], [1])

    def test_small_bundles(self):
        """The first of the ranks that fail in the same way on one machine leaves a full bundle, and the others small ones.
        A rank that fails in another way leaves a full one."""
        os.makedirs("/dev/shm", exist_ok=True)
        oom, port = f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)", str(os.getpid())
        for rank in range(4):
            self.rank(rank, oom if rank < 3 else "import os; os.abort()", world=4, MASTER_PORT=port)
        bundles = {bundle.value("job.rank"): bundle for bundle in self.bundles()}
        full = {rank: "report.html" in bundle.files for rank, bundle in bundles.items()}
        if all(full.values()):
            self.skipTest("no folder of our own in /dev/shm")
        self.assertEqual(full, {0: True, 1: False, 2: False, 3: True})
        small = bundles[1]
        self.assertEqual(sorted({name.split("/")[0] for name in small.files}),
                         ["SUMMARY.md", "facts.json", "job", "manifest.json", "output", "redaction.json", "run", "verdict.json"])
        self.assertIn("another rank of this machine that failed alike has it", small.text("manifest.json"))
        self.assertEqual(small.verdict["class"], bundles[0].verdict["class"])
        self.assertNotIn("report.html", small.text("SUMMARY.md"))
        self.assertEqual(self.verb("verify", small.path).returncode, 0)
        print("bytes of a full bundle, of a small one:", os.path.getsize(bundles[0].path), os.path.getsize(small.path))
        self.assertEqual([record["rank"] for record in self.fleet(self.outdir)["jobs"][0]["causes"]], [0, 1, 2, 3])

    def test_all_of_them_full(self):
        """--full-bundles, by its variable: one of two ranks, all, both."""
        for number in ("1", "0", "2"):
            port = f"{os.getpid()}{number}"
            for rank in range(2):
                self.environ["ROCMCRASH_FULL_BUNDLES"] = number
                self.rank(rank, "import os; os.abort()", world=2, MASTER_PORT=port)
        pages = sum("report.html" in bundle.files for bundle in self.bundles())
        if pages == 6:
            self.skipTest("no folder of our own in /dev/shm")
        self.assertEqual((len(self.bundles()), pages), (6, 5))

    def ended(self, code="", before=(), rocmcrash=ROCMCRASH):
        """Starts a rank and sends SIGTERM to rocmcrash, as a launcher does. Returns status, stderr, and the seconds
        until rocmcrash was gone."""
        gate = self.path("ready")
        code = f"import os, signal, sys, time\n{code}\nopen({gate!r} + '.new', 'w').write(sys.argv[1])\nos.rename({gate!r} + '.new', {gate!r})\nwhile True: time.sleep(0.05)"
        # The shell's pid is that of rocmcrash.
        command = [*before, "/bin/sh", "-c", 'exec "$@" $$', "sh", rocmcrash, *self.command(support.PYTHON, "-c", code)[1:]]
        process = subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_for(lambda: os.path.exists(gate) or process.poll() is not None, "the rank")
        watch = support.Stopwatch()
        if os.path.exists(gate):
            os.kill(int(support.read(gate)), signal.SIGTERM)
            os.unlink(gate)
        out, err = process.communicate(timeout=60)
        return process.returncode, out + err, watch.seconds()

    def end_rank(self, rank, code, world=3):
        self.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": "x"})
        return self.ended(code)

    def records(self):
        return sorted(glob.glob(os.path.join(self.outdir, "*-rank-ended-r*.json")))

    def test_ended_by_the_launcher(self):
        """Rank 1 is out of memory; the launcher ends the others, one of which handles SIGTERM. They are not called
        missing, and leave a record instead of a bundle, which would take longer."""
        self.rank(1, f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        status, err, seconds = self.end_rank(0, "")
        self.assertEqual((status, err), (-signal.SIGTERM, b""))
        print(f"a rank that the launcher ends is gone after {seconds:.3f} s")
        status, err, seconds = self.end_rank(2, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))")
        self.assertEqual((status, err), (3, b""))
        print(f"one that handles SIGTERM is gone after {seconds:.3f} s")
        records = self.records()
        self.assertEqual((len(records), len(self.bundles())), (2, 1))
        for record in records:
            self.assertLess(os.path.getsize(record), 16384)
            self.assertNotIn(self.outdir, support.read(record))
        job = self.fleet(self.outdir)["jobs"][0]
        self.assertEqual([record["rank"] for record in job["causes"]], [1])
        self.assertEqual((job["sure"], job["missing"]), ("high", []))
        line = {record["rank"]: record for record in job["time_line"]}
        self.assertEqual([(line[rank]["role"], line[rank].get("asked_to_end", False)) for rank in range(3)],
                         [("ended", True), ("caused", False), ("ended", True)])
        self.assertIn("1 bundle, 2 asked to end", self.verb("fleet", self.outdir).stdout)

    def test_no_rank_leaves_no_record(self):
        """SIGTERM to a single process leaves no record. A process with the variable RANK but without a job is no
        rank."""
        for world in ("1", ""):
            self.end_rank(0, "", world=world)
        self.assertEqual(os.listdir(self.outdir), [])

    def test_ended_after_an_error_that_it_survived(self):
        """Both are kept: the record of the rank, and the line about its out-of-memory error."""
        self.end_rank(0, f"sys.stderr.write({HIP_OOM + chr(10)!r}); sys.stderr.flush()\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))")
        self.assertEqual((len(self.records()), len(self.bundles())), (1, 0))
        self.assertEqual(len(support.read(self.path("state", "swallowed-oom.log")).splitlines()), 1)

    def test_ended_by_kubernetes(self):
        """Only the index of the job's pod gives the rank."""
        self.environ.update({"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4"})
        self.assertEqual(self.ended()[:2], (-signal.SIGTERM, b""))
        self.assertEqual([os.path.basename(path).split("-")[-1] for path in self.records()], ["r2.json"])

    def test_killed_by_open_mpi(self):
        """mpirun sends SIGKILL to the process group 0.3 s after SIGTERM. A rank leaves its record; a process without a
        job leaves a bundle."""
        for size in ("1", "2"):
            gate = self.path("asked" + size)
            self.environ.update({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": size})
            code = ("import os, signal, time\n"
                    f"signal.signal(signal.SIGTERM, lambda *_: open({gate!r}, 'w').close())\n"
                    f"open({gate + '-ready'!r}, 'w').close()\nwhile True: time.sleep(0.05)")
            process = self.start(support.PYTHON, "-c", code, start_new_session=True)
            self.wait_for_file(gate + "-ready")
            process.send_signal(signal.SIGTERM)
            self.wait_for_file(gate)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
            support.wait_for(lambda: len(self.records()) + len(self.bundles()) == int(size), "what the rank leaves")
            self.assertEqual((len(self.bundles()), len(self.records())), (1, int(size) - 1))

    def test_event(self):
        """--event-to: a program gets the verdict and the bundle's address. Without it nothing is run."""
        told, self.outdir = self.path("told"), self.path("a b#1")
        os.mkdir(self.outdir)
        self.environ.update({"RANK": "1", "WORLD_SIZE": "2", "SLURM_JOB_ID": "77"})
        program = self.write("tell", f'#!/bin/sh\nprintf "%s\\n" "$@" >>{told}\n', 0o755)
        for options in ((), (f"--event-to={program}",)):
            done = self.run_it("/bin/sh", "-c", "kill -SEGV $$", options=options)
            self.assertEqual(os.path.exists(told), bool(options), done.stderr)
        sentence, *words = support.read(told).splitlines()
        bundle = next(bundle for bundle in self.bundles() if bundle.path in done.stderr)
        said = dict(word.split("=", 1) for word in words)
        self.assertEqual(sentence, bundle.verdict["sentence"])
        self.assertEqual({name: said.pop(name, "") for name in ("rocmcrash.class", "rocmcrash.subclass", "rocmcrash.confidence", "rocmcrash.signature")},
                         {"rocmcrash.class": bundle.verdict["class"], "rocmcrash.subclass": bundle.verdict["subclass"],
                          "rocmcrash.confidence": bundle.verdict["confidence"], "rocmcrash.signature": bundle.verdict["signature"]["id"]})
        self.assertEqual(urllib.parse.unquote(said["rocmcrash.bundle"]), "file://" + os.path.realpath(bundle.path))
        self.assertIn("a%20b%231/", said.pop("rocmcrash.bundle"))
        self.assertEqual(said, {"job.id": "77", "job.rank": "1", "job.world_size": "2"})

    def test_event_that_is_not_sent(self):
        """The bundle is there, and a line says why there is no event."""
        for number, (text, why) in enumerate((("exit 3", "ended with status 3"), ("exec sleep 600", "did not end in time"))):
            program = self.write("tell", f"#!/bin/sh\n{text}\n", 0o755)
            done = self.run_it("/bin/sh", "-c", "kill -SEGV $$", options=[f"--event-to={program}"])
            self.assertEqual((done.status, len(self.bundles())), (-signal.SIGSEGV, number + 1), done.stderr)
            self.assertIn(f"rocmcrash: no event was sent: '{program}' {why}", done.stderr)

    def test_killed_while_it_ended(self):
        """The program has ended on SIGTERM. rocmcrash gets SIGKILL before it has reported that."""
        self.environ.update({"RANK": "0", "WORLD_SIZE": "2"})
        code = ("import os, signal, sys, time\nto_stop = int(sys.argv[1])\n"
                "def end(*_):\n    os.kill(to_stop, signal.SIGSTOP)\n    os._exit(0)\n"
                f"signal.signal(signal.SIGTERM, end)\nopen({self.path('ready')!r}, 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.05)")
        process = subprocess.Popen(["/bin/sh", "-c", 'exec "$@" $$', "sh", *self.command(support.PYTHON, "-c", code)], env=self.environ)
        target = int(support.wait_for(lambda: support.read(self.path("ready")), "the rank"))
        process.send_signal(signal.SIGTERM)
        support.wait_for(lambda: support.state(target) in ("", "Z"), "the end of the rank")
        support.wait_for(lambda: support.state(process.pid) == "T", "us to stop")
        process.kill()
        process.wait(60)
        support.wait_for(self.records, "its record")
        self.assertEqual(self.bundles(), [])

    def test_killed_before_its_finisher_is_apart(self):
        """The process group gets SIGKILL when everything is on disk and rocmcrash is about to start its finisher. Each
        run leaves one record."""
        self.environ.update({"RANK": "0", "WORLD_SIZE": "2"})
        states = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "runs", "*", "state")
        gate = self.path("ready")
        for number in range(8):
            process = self.start("/bin/sh", "-c", f"echo >{gate}; while :; do sleep 0.05; done", start_new_session=True)
            self.wait_for_file(gate)
            os.unlink(gate)
            process.send_signal(signal.SIGTERM)
            while process.poll() is None and not any("ended" in support.read(path) for path in glob.glob(states)):
                pass
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
            support.wait_for(lambda: len(self.records()) > number, f"the record of run {number}")
            support.wait_for(lambda: not glob.glob(states), "the end of the run")
        self.assertEqual(len(self.records()), 8, "a run has two")

    def test_the_record_cannot_be_written(self):
        """A file system that does not answer delays the rank only for a moment, and does not keep its caller's pipes
        open."""
        alone, said = self.path("rocmcrash"), self.path("pid")
        shutil.copy(ROCMCRASH, alone)
        self.write("rocmcrash-finish", f"#!/bin/sh\necho $$ >{said}.new; mv {said}.new {said}; exec sleep 600\n", 0o755)
        self.environ.update({"RANK": "0", "WORLD_SIZE": "2"})
        self.assertEqual(self.ended(rocmcrash=alone)[:2], (-signal.SIGTERM, b""))
        pid = int(support.wait_for(lambda: support.read(said), "the finisher"))
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        support.wait_for(lambda: support.comm(pid) == "sleep", "the finisher, which goes on")

    def test_full_disk_leaves_no_part_of_a_record(self):
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("needs root and unshare")
        self.environ.update({"RANK": "0", "WORLD_SIZE": "2"})
        script = (f"mount -t tmpfs -o size=4k none {self.outdir} && head -c 4096 /dev/zero >{self.outdir}/full || exit 77; exec 2>/dev/null; "
                  f'"$@"; echo $?; ls {self.outdir}')
        status, said, _ = self.ended(before=["unshare", "--mount", "/bin/sh", "-c", script, "sh"])
        if status in (1, 77):
            self.skipTest("no private mount can be made: " + said.decode(errors="replace"))
        self.assertEqual(said.split(), [str(128 + signal.SIGTERM).encode(), b"full"])

    def test_the_rank_that_did_not_join(self):
        """Both report a time-out, in one file; the counter of collectives shows which rank the other waited for."""
        for rank in (1, 0):
            self.rank(rank, f"import sys; sys.stderr.write({NCCL_HANG!r}); sys.exit(1)", world=2)
        job = self.fleet(self.outdir)["jobs"][0]
        self.assertEqual([(record["rank"], record["role"]) for record in job["causes"]], [(1, "elsewhere")])
        self.assertEqual((job["sure"], job["missing"]), ("high", []))
        self.assertIn("its last collective was number 20, others wait in number 21", job["causes"][0]["reason"])

    def test_below_a_launcher(self):
        """One rocmcrash for all ranks: the rank that fell first is named although a later one crashed; so is the rank
        that did not fail."""
        ends = {2: "sys.exit(3)", 0: "os.abort()", 1: "time.sleep(60)"}
        rank = ("import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
                "exec({!r}[int(os.environ['RANK'])])\n")
        code = ("import os, signal, subprocess, sys, time\n"
                f"rank = {rank.format(ends)!r}\n"
                f"gates = [{self.path('gate')!r} + str(i) for i in range(3)]\n"
                "env = {**os.environ, 'WORLD_SIZE': '3', 'LOCAL_WORLD_SIZE': '3'}\n"
                "ranks = [subprocess.Popen([sys.executable, '-c', rank, gates[i]], env={**env, 'RANK': str(i), 'LOCAL_RANK': str(i)}) for i in range(3)]\n"
                "time.sleep(1.2)  # a process that fails within its first second is no worker\n"
                "for i in (2, 0):\n"
                "    open(gates[i], 'w').close()\n"
                "    ranks[i].wait()\n"
                "ranks[1].send_signal(signal.SIGTERM)\n"
                "ranks[1].wait()\n"
                "sys.exit(1)\n")
        done = self.python(code, options=["--trace=eager"])  # an ordinary user's children are traced late by default
        bundle = self.only_bundle(done)
        if bundle.value("run.traced") is not True or bundle.value("worker.story") is None:
            self.skipTest("children are not traced from their start here")
        self.assertEqual([(bundle.value(f"worker.{i}.rank"), bundle.value(f"worker.{i}.exit_code"), bundle.value(f"worker.{i}.signal")) for i in range(2)],
                         [(2, 3, None), (0, None, 6)])
        self.assertEqual((bundle.value("job.rank"), bundle.value("worker.not_failed")), (2, "1"))
        self.assertRegex(done.stderr, r"ranks: rank 2 \(pid [0-9]+, exit status 3\) fell first; then rank 0 \(pid [0-9]+, SIGABRT\)")
        self.assertIn("Ranks: rank 2 ", bundle.text("SUMMARY.md"))
        job = self.fleet(bundle.path)["jobs"][0]
        self.assertEqual([record["rank"] for record in job["time_line"]], [2, 0])
        self.assertEqual((job["missing"], job["world_size"]), ([1], 3))

    def test_a_single_run(self):
        """A bundle without a rank is not mixed with others."""
        for _ in range(2):
            self.python("import os; os.abort()")
        jobs = self.fleet(self.outdir)["jobs"]
        self.assertEqual([len(job["time_line"]) for job in jobs], [1, 1])
        self.assertNotIn("world_size", jobs[0])

    def test_damaged_ones_are_told(self):
        self.rank(0, "import os; os.abort()")
        broken = self.write(os.path.join(os.path.basename(self.outdir), "rocmcrash-broken.tar.gz"), "no archive")
        done = self.verb("fleet", "--json", self.outdir)
        self.assertIn(os.path.basename(broken), done.stderr)
        story = json.loads(done.stdout)
        self.assertEqual((story["bundles"], story["unreadable"]), (1, 1))
        self.assertEqual(self.verb("fleet", broken).returncode, 2)

    def test_a_damaged_copy(self):
        """Its name comes first. The intact file of the run counts, and the damaged one is named."""
        intact = self.only_bundle(self.rank(0, "import os; os.abort()")).path
        with open(intact, "rb") as file:
            data = file.read()
        broken = os.path.join(os.path.dirname(intact), "a.tar.gz")
        for cut in range(len(data) * 9 // 10, 0, -1000):
            with open(broken, "wb") as file:
                file.write(data[:cut])
            if self.verb("show", "--json", broken).returncode != 0 and self.verb("fleet", broken).returncode == 0:
                break  # it has facts, and no verdict
        done = self.verb("fleet", "--json", self.outdir)
        self.assertIn(f"'{broken}' is damaged", done.stderr)
        self.assertNotIn(intact, done.stderr)
        [first] = json.loads(done.stdout)["jobs"][0]["causes"]
        self.assertEqual((first["class"], first["path"]), ("app-bug", intact))
        self.assertNotRegex(self.verb("fleet", broken).stdout, r"(?m)^ +$")

    def test_table(self):
        """A row for each bundle and each record, also if a text from outside has a comma, a quote or a formula."""
        self.rank(1, f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        self.end_rank(0, "")
        one = self.bundles()[0]
        foreign = json.loads(one.files["verdict.json"])
        foreign["subclass"], foreign["class"] = '=HYPERLINK("x"),y', 'a"} 1\n'
        with open(os.path.join(self.outdir, "b,c.tar.gz"), "wb") as file:
            file.write(bundle_bytes("b", {**one.files, "verdict.json": json.dumps(foreign).encode()}))
        done = self.verb("fleet", "--csv", self.outdir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(sorted((row["rank"], row["role"], row["class"], row["subclass"], row["asked_to_end"]) for row in rows),
                         [("0", "ended", "unknown", "", "1"), ("1", "caused", 'a"} 1\\x0a', "'=HYPERLINK(\"x\"),y", "0"), ("1", "caused", "capacity", one.verdict["subclass"], "0")])
        self.assertEqual({len(row) for row in rows}, {25})
        self.assertIn(os.path.join(self.outdir, "b,c.tar.gz"), [row["path"] for row in rows])
        self.assertEqual(self.verb("fleet", "--csv", "--json", self.outdir).returncode, 125)

    def test_page(self):
        """--html: the story as a page that is well-formed, fetches nothing and runs nothing, also if a stranger made a bundle."""
        self.rank(1, f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        self.rank(0, f"import sys; sys.stderr.write({CLOSED!r}); sys.exit(1)")
        page = self.page(self.outdir)
        words = " ".join("".join(page.words).split())
        self.assertIn("First: rank 1 ", words)
        self.assertIn("1 of 3 ranks are in no bundle: 2.", words)
        self.assertEqual(page.rows[0], ["after", "", "who", "class", "part in it", "why"])
        self.assertEqual([row[4] for row in page.rows[1:3]], ["caused", "lost-peer"])
        one = self.bundles()[0]
        foreign = json.loads(one.files["verdict.json"])
        foreign["subclass"] = foreign["sentence"] = "</td><script>alert(1)</script>'\"&\x1b[31m\u202e"
        with open(os.path.join(self.outdir, "<img src=x>.tar.gz"), "wb") as file:
            file.write(bundle_bytes("b", {**one.files, "verdict.json": json.dumps(foreign).encode()}))
        with Attacks("texts that are markup, mentions or references") as attacks, attacks.one("fleet's page"):
            page = self.page(self.outdir)
            self.assertIn("<script>alert(1)</script>", "".join(page.words))
        self.assertEqual(self.verb("fleet", "--html", "--json", self.outdir).returncode, 125)

    def page(self, *words):
        done = self.verb("fleet", "--html", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotRegex(done.stdout, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
        page = Page()
        page.feed(done.stdout)
        self.assertEqual(page.open, [])
        self.assertEqual(page.tags - {"html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "div", "b", "br", "span", "p",
                                      "table", "tr", "th", "td"}, set())
        self.assertNotIn("http", done.stdout.replace('http-equiv="Content-Security-Policy"', ""))
        return page

    def test_metrics(self):
        empty = self.path("empty")
        os.mkdir(empty)
        done = self.verb("fleet", "--openmetrics", empty)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rocmcrash_ranks_ended 0\n", done.stdout)
        for rank in range(2):
            self.rank(rank, f"import sys; sys.stderr.write({HIP_OOM!r}); sys.exit(1)")
        self.end_rank(2, "")
        self.write(os.path.join(os.path.basename(self.outdir), "broken.tar.gz"), "no archive")
        total = sum(os.path.getsize(os.path.join(self.outdir, name)) for name in os.listdir(self.outdir) if name != "broken.tar.gz")
        text = self.verb("fleet", "--openmetrics", self.outdir).stdout
        for line in ('rocmcrash_bundles{class="capacity"} 2', "rocmcrash_ranks_ended 1", "rocmcrash_bundles_unreadable 1",
                     f"rocmcrash_bundle_bytes {total}", "# EOF"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, r'rocmcrash_last_failure_timestamp_seconds\{class="capacity"\} [0-9]{10}\.[0-9]{3}\n')

    def test_many(self):
        """200 bundles of the usual size; tests/bench reads 1,000 and more."""
        real = self.only_bundle(self.rank(0, "import os; os.abort()", world=200))
        folder = self.path("many")
        os.mkdir(folder)
        for rank in range(200):
            facts = json.loads(real.files["facts.json"])
            for fact in facts["facts"]:
                if fact["name"] == "job.rank":
                    fact["value"] = rank
                elif fact["name"] == "target.failed_uptime_us":
                    fact["value"] += 0 if rank == 117 else 1000 + rank
            files = {**real.files, "facts.json": json.dumps(facts).encode()}
            with open(os.path.join(folder, f"rocmcrash-{rank}.tar.gz"), "wb") as file:
                file.write(bundle_bytes("b", files))
        start = time.monotonic()
        done = subprocess.run([ROCMCRASH, "fleet", "--json", folder], env=self.environ, capture_output=True, check=True)
        seconds = time.monotonic() - start
        job = json.loads(done.stdout)["jobs"][0]
        self.assertEqual((len(job["time_line"]), job["causes"][0]["rank"], job["sure"]), (200, 117, "high"))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"200 bundles in {seconds:.2f} s; largest child so far {peak} KiB")
        shutil.rmtree(folder)


if __name__ == "__main__":
    support.main()
