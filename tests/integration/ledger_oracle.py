# SPDX-License-Identifier: Apache-2.0
"""Random schedules of GPU memory on the emulated driver: compares the ledger with the driver's decisions, for each
process image, to the byte."""

import os
import subprocess
import sys
import time

import ledger_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "emulator"))

PAGE = 4096
FAULTS = (None, None, None, "alloc kind=vram nth=3 count=2", "alloc nth=7 count=1 errno=EMFILE",
          "alloc kind=gtt nth=2 errno=EINVAL")


class Image:
    """A process between two calls of exec, from the driver's journal."""

    def __init__(self):
        self.live, self.peak, self.entries, self.refusals = {}, {}, {}, []

    def add(self, record):
        kind = record["kind"]
        if record["event"] == "free":
            self.live[kind] -= record["size"]
            # The driver may give a handle to another thread before it has logged the free.
            self.entries[record["handle"]].remove((kind, record["size"]))
        elif record["result"] < 0:
            self.refusals.append((kind, record["size"], -record["result"]))
        else:
            self.live[kind] = self.live.get(kind, 0) + record["size"]
            self.peak[kind] = max(self.peak.get(kind, 0), self.live[kind])
            self.entries.setdefault(record["handle"], []).append((kind, record["size"]))

    def summary(self, with_peak=True):
        """Comparable with of_ledger()."""
        live = {kind: size for kind, size in self.live.items() if size}
        return (live, dict(self.peak) if with_peak else None,
                sorted(entry for entries in self.entries.values() for entry in entries),
                self.refusals if with_peak else sorted(self.refusals))


def images_of_journal(journal, execs):
    """{pid: [Image, ...]} and the state of each before its last record."""
    images, before = {}, {}
    for record in journal:
        if record["event"] not in ("alloc", "free"):
            continue
        pid = record["pid"]
        index = sum(moment < record["t"] for moment in execs.get(pid, []))
        images.setdefault(pid, {}).setdefault(index, []).append(record)
    result = {}
    for pid, by_index in images.items():
        result[pid] = []
        for index in sorted(by_index):
            image, earlier = Image(), Image()
            for record in by_index[index][:-1]:
                earlier.add(record)
            for record in by_index[index]:
                image.add(record)
            before[pid, len(result[pid])] = earlier
            result[pid].append(image)
    return result, before


def of_ledger(ledger, slot, with_peak=True):
    live, peak = {}, {}
    for a in ledger.accounts:
        if a.process == slot:
            kind = ledger_file.KINDS[a.kind]
            if a.live:
                live[kind] = live.get(kind, 0) + a.live
            if a.peak:
                peak[kind] = max(peak.get(kind, 0), a.peak)
    entries = sorted((ledger_file.KINDS[e.kind], e.bytes) for e in ledger.live if e.process == slot)
    # EBADF: a child with its parent's descriptor; the driver never saw that.
    refusals = [(ledger_file.KINDS[r.kind], -(-r.size // PAGE) * PAGE, r.error)
                for r in ledger.refusals if r.process == slot and r.error != 9]
    return (live, peak if with_peak else None, entries,
            refusals if with_peak else sorted(refusals))


def is_in(few, many):
    """True if they occur in this order, perhaps with others between them."""
    rest = iter(many)
    return all(item in rest for item in few)


def differences(ledger, journal, execs, in_flight=False, with_peak=True):
    """The differences, as texts. in_flight: a process was killed at a random moment, so it may not have received its
    last decision."""
    images, before = images_of_journal(journal, execs)
    slots = {}
    for slot, p in sorted(ledger.processes.items(), key=lambda item: item[1].seen_ns):
        # A process that only used its parent's descriptor is not in the journal.
        allocated = any(a.process == slot and (a.allocations or a.refusals)
                        for a in ledger.accounts)
        if of_ledger(ledger, slot) != ({}, {}, [], []) or (allocated and p.allocations):
            slots.setdefault(p.pid, []).append(slot)
    found = []
    for pid in sorted(set(images) | set(slots)):
        expected, seen = images.get(pid, []), slots.get(pid, [])
        if len(expected) != len(seen):
            if not (in_flight and len(expected) == len(seen) + 1):
                found.append(f"pid {pid}: {len(expected)} images, the ledger has {len(seen)}")
                continue
        for i, slot in enumerate(seen):
            ours = of_ledger(ledger, slot, with_peak)
            theirs = expected[i].summary(with_peak)
            earlier = before[pid, i].summary(with_peak)
            if ledger.raw.refusals_head > ledger_file.REFUSALS:
                # The first and the last are kept; all are counted.
                ours = (*ours[:3], ledger.processes[slot].refusals if is_in(ours[3], theirs[3])
                        else ours[3])
                theirs = (*theirs[:3], len(theirs[3]))
                earlier = (*earlier[:3], len(earlier[3]))
            names = ("live", "peak", "entries", "refusals")
            for name, a, b, was in zip(names, ours, theirs, earlier):
                # The kill may come between two words of the ledger: each has its old or its new value.
                if a != b and not (in_flight and a == was):
                    found.append(f"pid {pid} image {i}: {name}: ledger {a} driver {b}")
    return found


class Runner:
    """Runs emulated machines one after the other. Each has its own journal and ledger."""

    def __init__(self, emulated, library, program, folder):
        self.emulated, self.library, self.program, self.folder = emulated, library, program, folder

    def machine(self, name):
        import machine
        root = machine.make(os.path.join(self.folder, name), ("gfx90a",), vram=1 << 30,
                            base=32 << 20)
        return self.emulated.Machine(root)

    def run(self, seed, steps=60, threads=0, kill_after_s=None):
        """Returns the differences of one schedule and how many decisions it had."""
        host = self.machine(f"schedule{seed}")
        fresh = ledger_file.Fresh(self.library)
        # A long schedule with faults has more refusals than the ledger keeps.
        faults = FAULTS[seed % len(FAULTS)] if kill_after_s is None else None
        environ = host.environ(faults, **fresh.environ)
        environ["LD_PRELOAD"] = f"{self.library}:{self.emulated.LIBRARY}"
        try:
            # Its own session: its children are killed with it, at the same moment or before.
            process = subprocess.Popen([self.program, str(seed), str(steps), str(threads)],
                                       env=environ, stdout=subprocess.PIPE, text=True,
                                       start_new_session=True)
            if kill_after_s is not None:
                time.sleep(kill_after_s)  # the moment of the kill is what varies
                os.killpg(process.pid, 9)
            out, _ = process.communicate(timeout=60)
            execs = {}
            for line in out.splitlines():
                word, pid, moment = line.split()
                assert word == "exec"
                execs.setdefault(int(pid), []).append(float(moment))
            journal = host.journal()
            ledger = fresh.read()
            wrong = differences(ledger, journal, execs, kill_after_s is not None, threads == 0)
            lost = sum(getattr(ledger.raw.lost, name) for name in
                       ("processes", "gpus", "accounts", "sizes", "live"))
            if lost:
                wrong.append(f"{lost} things found no room")
            decisions = sum(r["event"] in ("alloc", "free") for r in journal)
            return [f"seed {seed}: {text}" for text in wrong], decisions, len(ledger.processes)
        finally:
            fresh.close()
            subprocess.run(["rm", "-rf", host.root], check=False)
