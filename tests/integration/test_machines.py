# SPDX-License-Identifier: Apache-2.0
"""Recorded machines as the root of /sys: each GPU fact is compared with its file, read by machine_reader.py.

What holds for a whole machine (how many GPUs, which is an APU) was written down by hand.
"""

import concurrent.futures
import os
import re

import support
from machine_reader import (COUNTERS, MACHINES, MOMENTS, STATICS, gpus_of, keys_of, listing, number_of,
                            run_on, text_of)

# name of the tree: (GPUs, is_apu of each: True, False or None = cannot be known from the tree)
EXPECTED = {
    "issue-igpu-ttm-params": (0, None), "issue-rx570-gtt-eq-vram": (1, None),
    "issue-strixhalo-gfx1151": (1, None), "k8sdp-mi210x8-gfx90a-kfd": (8, False),
    "k8sdp-mi25-gfx900-kfd": (2, None), "k8sdp-mi300x8-cpx-gfx942-kfd": (63, False),
    "lact-hd7870-radeon": (0, None), "lact-phoenix-gfx1103": (1, True),
    "lact-r7-240-gfx601": (1, None), "lact-r9-280-gfx600": (1, None),
    "lact-rx5500xt-gfx1012": (1, None), "lact-rx5700xt-gfx1010": (1, None),
    "lact-rx6600-gfx1032": (1, None), "lact-rx6600xt-gfx1032": (1, None),
    "lact-rx6900xt-gfx1030": (1, False), "lact-rx7600s-gfx1102": (1, None),
    "lact-rx7700s-gfx1102": (1, None), "lact-rx7800xt-gfx1101": (1, None),
    "lact-rx7900xtx-gfx1100": (1, None), "lact-rx9070-gfx1201": (1, None),
    "lact-rx9070xt-gfx1201": (1, None), "lact-vega56-gfx900": (1, False),
    "procfs-vega56-gfx900": (1, False), "rocprofsdk-mi300x-spx-gfx942-kfd": (1, False),
    "rocprofsdk-mi350x-gfx950-kfd": (1, False), "rocprofsdk-mixed3gpu-kfd": (3, False),
    "rocprofsdk-rx9070-gfx1201-kfd": (1, False),
}


class Quick(support.Case):
    """Runs that mostly wait, several at a time, each with its own folders."""

    def together(self, runs, at_once=6):
        """The results of the functions, in order; each gets a Case to run in."""
        def one(run):
            case = support.Case()
            case.setUp()
            try:
                return run(case)
            finally:
                case.doCleanups()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(one, run) for run in runs]
            return [future.exception() or future.result() for future in futures]


class RecordedMachines(Quick):
    def check_missing(self, where, fact):
        self.assertIn(fact.get("status"), ("absent", "unreadable"), (where, fact))
        self.assertNotIn("value", fact, where)
        self.assertTrue(fact.get("reason", "").strip(), (where, fact))

    def check_gpu(self, bundle, index, gpu, counts):
        for name in STATICS:
            fact = bundle.fact(f"gpu.{index}.{name}", "static")
            if gpu.static[name] is None:
                self.check_missing(f"gpu.{index}.{name}", fact)
                counts["missing"] += 1
            else:
                self.assertEqual(fact.get("value"), gpu.static[name], (index, name, fact))
                counts["right"] += 1
        for name in COUNTERS:
            path = gpu.counter(name)
            value = number_of(path) if path else None
            for when in MOMENTS:
                fact = bundle.fact(f"gpu.{index}.{name}", when)
                if value is None:
                    self.check_missing((index, name, when), fact)
                    counts["missing"] += 1
                else:
                    self.assertEqual(fact.get("value"), value, (index, name, when, fact))
                    counts["right"] += 1
            peak = bundle.fact(f"gpu.{index}.{name}", "peak")
            self.assertEqual(peak.get("value"), value, (index, name, "peak", peak))

    def check_nothing_else(self, bundle, tree, gpus):
        """No value of a GPU without a file, and none of this machine's own /proc or /sys."""
        known = {f"gpu.{i}.{name}" for i in range(len(gpus)) for name in (*STATICS, *COUNTERS)}
        known |= {f"gpu.{i}.{name}" for i in range(len(gpus))
                  for name in ("partition", "large_bar", "driver_version", "others_kfd_vram_bytes")}
        known |= {"gpu.count", "gpu.present"} | (set() if gpus else {"gpu.none_why"})
        for index in range(len(gpus)):  # a recorded machine has no /dev
            name = f"gpu.{index}.render_access"
            known.add(name)
            for fact in bundle.facts.get(name, []):
                self.check_missing(name, fact)
        for name, facts in bundle.facts.items():
            if name.startswith("gpu."):
                self.assertIn(name, known, facts)
        for name in ("host.mem_total_bytes", "host.kernel", "host.cpu_model", "host.max_map_count",
                     "host.kernel_cmdline", "others.vram_bytes", "kmsg.readable",
                     "proc.0.kfd_vram_bytes"):
            for fact in bundle.facts.get(name, []):
                self.check_missing(name, fact)
        pages = number_of(tree, "sys/module/ttm/parameters/pages_limit")
        for when in ("static", "baseline"):
            fact = bundle.fact("host.ttm_pages_limit", when)
            if pages is None:
                self.check_missing("host.ttm_pages_limit", fact)
            else:
                self.assertEqual(fact.get("value"), pages)
        if pages is not None:
            self.assertEqual(bundle.value("host.ttm_limit_bytes"), pages * 4096)

    def check_serials(self, bundle, tree):
        """unique_id is a serial number: not in the bundle, neither in decimal nor in hex."""
        serials = set()
        for folder, _, names in os.walk(tree):
            for name in names:
                text = text_of(folder, name) if name in ("unique_id", "properties") else None
                if name == "unique_id" and text:
                    serials.add(text)
                for key, value in keys_of(text, " ").items():
                    if key in ("unique_id", "hive_id") and len(value) > 8:
                        serials |= {value, f"{int(value):x}"}
        for name, data in bundle.files.items():
            for serial in serials:
                self.assertNotIn(serial.encode(), data, (name, serial))

    def check_tree(self, case, name):
        count, is_apu = EXPECTED[name]
        tree = os.path.join(MACHINES, name)
        gpus = gpus_of(tree, is_apu)
        self.assertEqual(len(gpus), count, "the reader of this test")
        done = run_on(case, tree, "/bin/sleep", "0.3", options=["--quiet"])
        self.assertEqual((done.status, done.target_stderr), (0, ""), name)
        self.assertEqual(len(done.bundles), 1, done.own_lines)
        bundle = done.bundles[0]
        self.assertEqual(bundle.value("gpu.count"), count)
        self.assertEqual(bundle.value("gpu.present"), count > 0)
        counts = {"right": 0, "missing": 0}
        for index, gpu in enumerate(gpus):
            self.check_gpu(bundle, index, gpu, counts)
        self.check_nothing_else(bundle, tree, gpus)
        self.assertEqual(bundle.wrong_facts(), [])
        self.check_serials(bundle, tree)
        return f"{name:34} {count:3} GPUs {counts['right']:5} right {counts['missing']:5} missing"

    def test_every_fact_against_its_file(self):
        self.assertEqual(sorted(EXPECTED),
                         [n for n in listing(MACHINES) if os.path.isdir(
                             os.path.join(MACHINES, n, "sys"))])
        names = list(EXPECTED)
        results = self.together([lambda case, n=n: self.check_tree(case, n) for n in names])
        for name, result in zip(names, results):
            with self.subTest(machine=name):
                if isinstance(result, BaseException):
                    raise result
                print(result)

    def test_the_radeon_driver_is_no_gpu_of_ours(self):
        tree = os.path.join(MACHINES, "lact-hd7870-radeon")
        bundle = run_on(self, tree, "/bin/true").bundles[0]
        self.assertEqual((bundle.value("gpu.count"), bundle.value("gpu.present")), (0, False))
        self.assertEqual([n for n in bundle.facts if re.match(r"gpu\.\d", n)], [])
        self.assertEqual(bundle.row("gpu").get("status"), "skipped")
        self.assertIn("'radeon'", bundle.row("gpu").get("reason", ""))

    def test_partitions_of_one_gpu_keep_their_names_apart(self):
        tree = os.path.join(MACHINES, "k8sdp-mi300x8-cpx-gfx942-kfd")
        bundle = run_on(self, tree, "/bin/true").bundles[0]
        seen = {}
        for i in range(63):
            seen.setdefault(bundle.value(f"gpu.{i}.pci"), []).append(
                (bundle.value(f"gpu.{i}.partition"), bundle.value(f"gpu.{i}.render_minor")))
        self.assertEqual(sorted(len(parts) for parts in seen.values()), [7] + [8] * 7)
        for parts in seen.values():
            self.assertEqual([text.split()[0] for text, _ in parts],
                             [str(n) for n in range(len(parts))])
        self.assertEqual(len({minor for parts in seen.values() for _, minor in parts}), 63)


if __name__ == "__main__":
    support.main()
