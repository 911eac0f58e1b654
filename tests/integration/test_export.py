# SPDX-License-Identifier: Apache-2.0
"""Exports PyTorch's allocator from a bundle, for PyTorch's own viewer."""

import glob
import json
import os
import pickle
import subprocess

import support
from support import PYTHON
from test_surface import bundle_bytes

MIB = 1 << 20
SEGMENTS = [
    {"device": 1, "address": 139974527680512, "total_size": 20 * MIB, "allocated_size": 12 * MIB, "active_size": 12 * MIB,
     "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0], "is_expandable": False,
     "blocks": [{"size": 12 * MIB, "state": "active_allocated", "requested_size": 12 * MIB - 5,
                 "at": ["a b:c.py:12 step", "no colon"]},
                {"size": 8 * MIB, "state": "inactive"}]},
    {"device": 0, "address": 7, "total_size": 2 * MIB, "allocated_size": MIB, "stream": 3, "segment_type": "small",
     "blocks_omitted": 700, "inactive_size": MIB, "largest_inactive": 512}]

# Without the script that draws flame graphs, which it would fetch.
VIEW = """
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("viewer", sys.argv[1])
viewer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viewer)
data = pickle.load(open(sys.argv[2], "rb"))
print(viewer.segments(data, format_flamegraph=str), viewer.segsum(data), viewer.segment_plot(data), sep="\\n")
"""


class Trace(support.Case):
    def test_a_terminal_gets_no_trace(self):
        path = self.only_bundle(self.python("raise ValueError")).path
        status, text = self.on_terminal([support.ROCMCRASH, "export", path], self.environ)
        self.assertEqual(status, 2)
        self.assertIn("name a file with -o", text)
        self.assertNotIn("traceEvents", text)
        self.assertIn("traceEvents", self.verb("export", path).stdout)


class Torch(support.Case):
    def bundle(self, snapshot):
        path = self.path("rocmcrash-20260101T000000Z-x-capacity.tar.gz")
        with open(path, "wb") as file:
            file.write(bundle_bytes("rocmcrash-x", {"SUMMARY.md": b"# x\n", "hook/snapshot.json": snapshot}))
        return path

    def export(self, snapshot):
        out = self.path("out.pickle")
        done = self.verb("export", "--torch", self.bundle(snapshot), "-o", out)
        return done, out

    def good(self):
        done, out = self.export(json.dumps({"format": 1, "segments": SEGMENTS, "real": 0.5}).encode())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 1 segments the bundle has no blocks", done.stderr)
        return out

    def test_only_the_owner_may_read_it(self):
        umask = os.umask(0o022)
        try:
            out = self.good()
        finally:
            os.umask(umask)
        self.assertEqual(os.stat(out).st_mode & 0o777, 0o600)

    def test_the_shape(self):
        with open(self.good(), "rb") as file:
            data = pickle.load(file)
        self.assertEqual((sorted(data), data["device_traces"]), (["device_traces", "segments"], [[], []]))
        first, second = data["segments"]
        self.assertEqual((first["address"], first["total_size"], first["is_expandable"]), (139974527680512, 20 * MIB, False))
        self.assertEqual(first["blocks"], [
            {"size": 12 * MIB, "state": "active_allocated", "requested_size": 12 * MIB - 5, "address": 139974527680512,
             "frames": [{"filename": "a b:c.py", "line": 12, "name": "step"}, {"filename": "no colon", "line": 0, "name": ""}]},
            {"size": 8 * MIB, "state": "inactive", "requested_size": 8 * MIB, "address": 139974527680512 + 12 * MIB,
             "frames": []}])
        self.assertEqual([(block["state"], block["size"]) for block in second["blocks"]],
                         [("active_allocated", MIB), ("inactive", MIB)])

    def test_in_pytorchs_viewer(self):
        """torch/cuda/_memory_viz.py needs no import of torch."""
        named = os.environ.get("ROCMCRASH_TORCH_PYTHON")
        pythons = [named] if named else [PYTHON, *sorted(glob.glob("/usr/bin/python3.[0-9]*"))]
        find = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        tried = 0
        for python in pythons:
            folder = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False, cwd="/").stdout.strip()
            viewer = os.path.join(folder, "cuda", "_memory_viz.py")
            if not folder or not os.path.exists(viewer):
                continue
            with open(viewer, encoding="utf-8") as file:
                if "segment_plot" not in file.read():
                    continue  # PyTorch 1 had another shape
            tried += 1
            done = subprocess.run([python, "-c", VIEW, viewer, self.good()], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for wanted in ("stream_0;seg_139974527680512;active_allocated;", "c.py:12:step 12582907\n", "<script",
                           "total_reserved: 22.0MiB", "total_allocated: 13.0MiB"):
                self.assertIn(wanted, done.stdout)
        if tried == 0:
            self.skipTest("no Python with PyTorch 2 here (ROCMCRASH_TORCH_PYTHON names one)")

    def test_what_is_none(self):
        for snapshot in (b"", b"[]", b"{", b'{"segments": 5}', b'{"segments": {"a": 1}}'):
            done, out = self.export(snapshot)
            self.assertEqual(done.returncode, 2, snapshot)
            self.assertFalse(os.path.exists(out))
        for segments in ([5, None, "x", []], [{"blocks": [1, None, {"at": [7, "x:y 3"]}]}], [{"device": 1e300, "address": -1}],
                         [{"device": "x", "blocks": {"a": 1}}]):
            done, out = self.export(json.dumps({"segments": segments}).encode())
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, "rb") as file:
                pickle.load(file)
        self.assertIn("No such file", self.verb("export", self.path("none.tar.gz")).stderr)  # a trace is the default
        done = self.verb("export", "--torch", "--trace", self.bundle(b"{}"))
        self.assertEqual((done.returncode, done.stderr), (125, "rocmcrash: --trace and --torch are alternatives\n"))


if __name__ == "__main__":
    support.main()
