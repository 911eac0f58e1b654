# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash fleet`: real bundles of several ranks told as one story, many synthetic ones fast and small."""

import gzip
import io
import json
import os
import resource
import shutil
import subprocess
import tarfile
import time

import support
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
        self.assertEqual(sorted(bundle.name[-3:] for bundle in self.bundles()), ["-r0", "-r1"])
        story = self.fleet(self.outdir)
        self.assertEqual((story["bundles"], story["unreadable"], len(story["jobs"])), (2, 0, 1))
        job = story["jobs"][0]
        self.assertEqual([(record["rank"], record["class"]) for record in job["causes"]], [(1, "capacity")])
        self.assertEqual((job["sure"], job["missing"], job["machines"], job["launcher"]), ("medium", [2], 1, "torchrun"))
        self.assertEqual([(record["rank"], record["role"]) for record in job["time_line"]], [(1, "caused"), (0, "lost-peer")])
        text = self.verb("fleet", *(bundle.path for bundle in self.bundles())).stdout
        self.assertIn("first    rank 1 ", text)
        self.assertIn("1 of 3 ranks left no bundle: 2", text)

    def test_words_of_others(self):
        """Ranks that write to one file: what PyTorch marks as another's is not read as their own."""
        marked = "".join(f"[rank1]: {line}\n" for line in HIP_OOM.splitlines())
        own = f"[rank0]: {CLOSED}"
        self.rank(0, f"import sys; sys.stderr.write({marked + own!r}); sys.exit(1)")
        job = self.fleet(self.outdir)["jobs"][0]
        self.assertEqual([(record["class"], record["role"]) for record in job["time_line"]], [("collective", "lost-peer")])
        self.assertEqual((job["causes"], job["missing"]), ([], [1, 2]))

    def test_a_single_run(self):
        """No rank: not mixed with others."""
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

    def test_many(self):
        """200 bundles of a usual size; tests/bench has 1,000 and more."""
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
