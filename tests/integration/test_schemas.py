# SPDX-License-Identifier: Apache-2.0
"""The JSON of real bundles follows templates/schema, and each schema refuses wrong documents."""

import copy
import csv
import glob
import io
import json
import os

import support

try:
    import jsonschema
except ImportError:
    jsonschema = None

KEPT = sorted(glob.glob(os.path.join(support.SOURCE, "tests", "fixtures", "bundle", "rocmcrash-*.tar.gz")))
NAMES = ("manifest", "facts", "verdict", "telemetry")
OUTCOME = {"verb": "release", "status": 0, "pid": 1}


class Schemas(support.Case):
    def setUp(self):
        super().setUp()
        if jsonschema is None:
            self.skipTest("no jsonschema for this Python (python3-jsonschema)")
        self.checks = {}
        for name in (*NAMES, "outcome"):
            schema = json.loads(support.read(os.path.join(support.SOURCE, "templates", "schema", name + ".json")))
            jsonschema.Draft7Validator.check_schema(schema)
            self.checks[name] = jsonschema.Draft7Validator(schema)

    def rows(self, bundle):
        """telemetry.csv as the objects that its schema describes."""
        text = bundle.text("telemetry/telemetry.csv")
        for row in csv.DictReader(io.StringIO(text)):
            yield {name: value if name == "flags" else float(value) for name, value in row.items() if value != "" or name == "flags"}

    def documents(self, bundle):
        for name in NAMES[:3]:
            yield name, json.loads(bundle.files[name + ".json"])
        for row in self.rows(bundle):
            yield "telemetry", row

    def assert_valid(self, bundle):
        seen = set()
        for name, document in self.documents(bundle):
            error = next(self.checks[name].iter_errors(document), None)
            self.assertIsNone(error, error and f"{bundle.name} {name} {list(error.absolute_path)}: {error.message[:300]}")
            seen.add(name)
        self.assertEqual(seen, set(NAMES), bundle.name)

    def test_earlier_bundles(self):
        self.assertGreater(len(KEPT), 0)
        for path in KEPT:
            self.assert_valid(support.Bundle(path))

    def test_a_crash(self):
        self.assert_valid(self.only_bundle(self.python("import os; os.abort()")))

    def test_a_run_that_ends_well(self):
        self.assert_valid(self.only_bundle(self.python("0", options=["--always"])))

    def test_a_refused_allocation_of_a_recorded_machine(self):
        log = self.write("log.txt", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
                         "15.98 GiB of which 1.50 GiB is free. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 2.00 GiB "
                         "is reserved by PyTorch but unallocated.\n")
        verdict = json.loads(self.verb("triage", "--json", log).stdout)
        self.assertIn("account", verdict)
        error = next(self.checks["verdict"].iter_errors(verdict), None)
        self.assertIsNone(error, error and error.message[:300])

    def test_what_is_wrong_is_refused(self):
        bundle = support.Bundle(KEPT[-1])
        good = {name: json.loads(bundle.files[name + ".json"]) for name in NAMES[:3]}
        good["telemetry"] = next(self.rows(bundle))
        good["outcome"] = OUTCOME
        changes = (("manifest", ["format"], 2), ("manifest", ["files", 0, "sha256"], "abc"), ("manifest", ["items", 0, "status"], "fine"),
                   ("manifest", ["created"], "yesterday"), ("facts", ["facts", 0, "when"], "then"), ("facts", ["facts", 0, "name"], "A b"),
                   ("facts", ["facts", 0, "colour"], 1), ("facts", ["facts", 0, "value"], None), ("verdict", ["confidence"], "sure"),
                   ("verdict", ["path", 0, "answer"], "maybe"), ("verdict", ["why"], "a text"), ("telemetry", ["host.x"], "12 GiB"),
                   ("telemetry", ["nonsense"], 1),
                   ("outcome", ["status"], "0"), ("outcome", ["pid"], 0), ("outcome", ["error"], ""), ("outcome", ["nonsense"], 1))
        for name, path, value in changes:
            document = copy.deepcopy(good[name])
            at = document
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            self.assertFalse(self.checks[name].is_valid(document), (name, path))
        for name in (*NAMES, "outcome"):
            self.assertTrue(self.checks[name].is_valid(good[name]))
            self.assertFalse(self.checks[name].is_valid({}))


if __name__ == "__main__":
    support.main()
