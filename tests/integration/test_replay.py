# SPDX-License-Identifier: Apache-2.0
"""Runs with the same messages but different counters: the verdict follows the counters.

A program prints the messages of a failed one and ends in the same way; the kernel log has the same lines, and the
sysroot has the counters.
"""

import collections
import subprocess

import support
from replay import (ABRT, BARE, FAULT, FREE, FULL, GIB, HANG, HELD, KILL, LAUNCH, OOM_KILL,
                    PAGE_FAULT, QUIET_LOG, RING, SEGV, SHORT, Replay, apu, climb, dgpu, fds,
                    in_parallel, jump, kills, summary)


class Row:
    """One run: the machine's counters, what happens, and the right answers."""

    def __init__(self, pair, name, right, stderr="", end=("exit", 1), machine=None, before=(),
                 kmsg=None, other=0, own=0, beside=0, at_most=None, at_least=None, subclass=None):
        self.pair, self.name = pair, name
        self.right = right if isinstance(right, tuple) else (right,)
        self.stderr, self.end, self.before, self.kmsg = stderr, end, before, kmsg
        self.machine, self.other, self.own, self.beside = machine, other, own, beside
        self.at_most, self.at_least, self.subclass = at_most, at_least, subclass


# Written down before the first run. Right = the class that the counters prove; where a pair cannot
# be decided, the confidence has an upper limit.
ROWS = [
    # Only HIP's own message: who filled the VRAM? Or was it not full at all?
    Row("bare", "own", "capacity", BARE, machine=dgpu(16, 15.8), own=15.5, at_least="medium"),
    Row("bare", "other", "held-by-other", BARE, machine=dgpu(16, 15.8), other=15.0, own=0.3,
        at_least="high"),
    Row("bare", "full-before-the-start", "held-by-other", BARE, machine=dgpu(16, 15.8),
        at_most="medium"),
    Row("bare", "half-free", "unknown", BARE, machine=dgpu(16, 2.0), own=1.8),
    Row("bare", "files", "resource-limit", BARE, machine=dgpu(16, 2.0), own=1.8, before=fds),
    Row("bare", "apu-gtt-full", "gtt-limit", BARE, machine=apu(31.2, 62.5, 28.0, 31.0)),
    Row("bare", "no-counters", ("capacity", "unknown"), BARE, machine=lambda m: m, at_most="low"),
    # By the figures, 10.8 GiB are neither free nor PyTorch's.
    Row("held", "other-pid", "held-by-other", HELD, machine=dgpu(16, 14.9), other=10.5, own=4.3,
        at_least="high"),
    Row("held", "other-pid-and-rank", "held-by-other", HELD, machine=dgpu(16, 14.9), other=10.5,
        own=4.2, beside=0.1, at_least="high", subclass=""),
    Row("held", "rank", "held-by-other", HELD, machine=dgpu(16, 14.9), own=4.3, beside=10.5,
        at_least="high", subclass="another process of the same command"),
    Row("held", "own", "capacity", HELD, machine=dgpu(16, 14.9), own=14.8),
    Row("held", "baseline", "held-by-other", HELD, machine=dgpu(16, 11.0), at_least="medium"),
    Row("held", "nobody-seen", "held-by-other", HELD, machine=lambda m: m.node("gfx1100"),
        at_most="medium"),
    # A total of half the RAM: an APU's limit, or a card of that size.
    Row("full", "apu-half-of-ram", "gtt-limit", FULL, machine=apu(31.2, 62.5, 28.0, 30.8),
        at_least="high"),
    Row("full", "dgpu", "capacity", FULL, machine=dgpu(32, 31.6), own=31.0, at_least="high"),
    # Refused with 8 GiB free for HIP.
    Row("free", "phantom", "held-by-other", FREE, machine=dgpu(24, 22.5), own=10.5,
        subclass="phantom free"),
    Row("free", "really-free", "unknown", FREE, machine=dgpu(24, 15.0), own=10.5),
    Row("free", "files", "resource-limit", FREE, machine=dgpu(24, 15.0), own=10.5, before=fds),
    # The card is full at the end: after one large allocation, or step by step although every step frees memory.
    Row("short", "jump", "capacity", SHORT, machine=dgpu(16, 1.0), before=jump(8.0, 15.9),
        own=15.8, at_least="high"),
    # Without the allocator's statistics a load that fills the card looks the same for ten minutes.
    Row("short", "saw-with-rising-floor", ("leak", "capacity"), SHORT, machine=dgpu(16, 1.0),
        before=climb(1.0, 15.4, 0.4), own=15.8, at_most="medium"),
    # SIGKILL without a message: the kernel log or the cgroup says why, or the cause is unknown.
    Row("killed", "oom-kill-names-us", "host-oom", end=KILL, machine=dgpu(16, 2.0),
        kmsg=OOM_KILL.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("killed", "oom-kill-names-another", ("unknown", "host-oom"), end=KILL,
        machine=dgpu(16, 2.0), kmsg=OOM_KILL.replace("{victim}", "999999").replace(
            "{comm}", "firefox"), at_most="medium"),
    Row("killed", "no-log", "unknown", end=KILL, machine=dgpu(16, 2.0)),
    Row("killed", "log-silent", "unknown", end=KILL, machine=dgpu(16, 2.0), kmsg=QUIET_LOG),
    Row("killed", "cgroup-count-rises", "host-oom", end=KILL, before=kills(3),
        machine=lambda m: dgpu(16, 2.0)(m).cgroup(2)),
    Row("killed", "cgroup-count-flat", "unknown", end=KILL,
        machine=lambda m: dgpu(16, 2.0)(m).cgroup(2)),
    # The program crashes while the OOM killer kills another process.
    Row("crash", "oom-kill-names-another", ("app-bug", "unknown"), end=SEGV,
        machine=dgpu(16, 2.0), kmsg=OOM_KILL.replace("{victim}", "999999").replace(
            "{comm}", "firefox")),
    Row("crash", "log-silent", "app-bug", end=SEGV, machine=dgpu(16, 2.0), kmsg=QUIET_LOG),
    # A GPU page fault in the log: ours, or that of a browser.
    Row("launch", "page-fault-ours", "page-fault", LAUNCH, machine=dgpu(16, 2.0),
        kmsg=PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("launch", "page-fault-of-another", ("page-fault", "unknown", "app-bug"), LAUNCH,
        machine=dgpu(16, 2.0), kmsg=PAGE_FAULT.replace("{victim}", "999999").replace(
            "{comm}", "firefox"), at_most="medium"),
    Row("launch", "log-silent", ("unknown", "app-bug", "page-fault"), LAUNCH,
        machine=dgpu(16, 2.0), kmsg=QUIET_LOG, at_most="medium"),
    # The ring that stopped first decides.
    Row("hang", "sdma", "sdma", HANG, ABRT, dgpu(16, 2.0), kmsg=RING.replace("{ring}", "sdma0"),
        at_least="high"),
    Row("hang", "gfx", "gpu-hang", HANG, ABRT, dgpu(16, 2.0),
        kmsg=RING.replace("{ring}", "gfx_0.0.0"), at_least="high"),
    Row("hang", "no-log", "gpu-hang", HANG, ABRT, dgpu(16, 2.0), at_most="medium"),
    # The runtime's message, with and without the kernel's.
    Row("fault", "log", "page-fault", FAULT, ABRT, dgpu(16, 2.0),
        kmsg=PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("fault", "no-log", "page-fault", FAULT, ABRT, dgpu(16, 2.0)),
]
LEVELS = {"low": 0, "medium": 1, "high": 2}


class SameWordsOtherCounters(Replay):
    def setUp(self):
        super().setUp()
        self.other = subprocess.Popen(["/bin/sleep", "300"])
        self.addCleanup(self.end_other)

    def end_other(self):
        self.other.kill()
        self.other.wait()

    @staticmethod
    def seen_write(path, gib):
        return [["write", path, f"{int(gib * GIB)}\n"], ["seen", path]]

    def run_row(self, row):
        m = self.machine(f"{row.pair}-{row.name}")
        row.machine(m)
        steps = []
        if row.other:
            m.put(m.kfd_path(self.other.pid), int(row.other * GIB))
        if row.own:
            steps += self.seen_write(m.at(m.kfd_path("{pid}")), row.own)
        if row.beside:
            steps.append(["beside", self.seen_write(m.at(m.kfd_path("{pid}")), row.beside)])
        if row.kmsg is not None:
            m.put("dev/kmsg", QUIET_LOG)
        if row.before:
            steps += row.before(m)
        if row.stderr:
            steps.append(["stderr", row.stderr])
        if row.kmsg is not None:
            steps.append(["append", m.at("dev/kmsg"), row.kmsg])
        steps.append(list(row.end))
        done = self.replay(m, steps, options=["--always"])
        return done, done.bundles[0].verdict if done.bundles else None

    def problem(self, row, done, verdict):
        if verdict is None:
            return "no bundle: " + done.stderr
        if row.stderr != done.target_stderr:
            return "stderr changed: " + done.stderr
        if verdict["class"] not in row.right:
            return f"want {' or '.join(row.right)}"
        if row.subclass is not None and verdict["subclass"] != row.subclass:
            return f"want subclass {row.subclass}"
        level = LEVELS[verdict["confidence"]]
        if row.at_most is not None and verdict["class"] != "unknown" and level > LEVELS[row.at_most]:
            return f"want at most {row.at_most}"
        if row.at_least is not None and level < LEVELS[row.at_least]:
            return f"want at least {row.at_least}"
        return ""

    def test_the_verdict_follows_the_counters(self):
        results = in_parallel(self.run_row, ROWS)
        for row, (done, verdict) in zip(ROWS, results):
            wrong = self.problem(row, done, verdict)
            print(f"{row.pair:8} {row.name:24} {summary(verdict) if verdict else '-':52} "
                  f"{wrong or 'ok'}")
            with self.subTest(pair=row.pair, name=row.name):
                self.assertEqual(wrong, "", done.own_lines)

    def test_every_pair_differs(self):
        """Checks the table: the rows of a pair expect different answers."""
        rights = collections.defaultdict(set)
        for row in ROWS:
            rights[row.pair].add((row.right, row.at_most, row.at_least))
        self.assertEqual([pair for pair, right in rights.items() if len(right) < 2], [])


class WhatAsksForABundle(Replay):
    """A failure that only the kernel log shows leaves a bundle. The same lines beside a success leave none, and neither
    does a failure without any message."""

    LINES = {"page fault": PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"),
             "ring": RING.replace("{ring}", "gfx_0.0.0"),
             "oom kill": OOM_KILL.replace("{victim}", "{pid}").replace("{comm}", "python3")}

    def bundles(self, *arguments):
        name, line, status, before = arguments
        m = dgpu(16, 2.0)(self.machine(name)).put("dev/kmsg", QUIET_LOG)
        steps = [["sleep", before], ["append", m.at("dev/kmsg"), line], ["exit", status]]
        done = self.replay(m, steps)
        self.assertEqual(done.status, status)
        return len(done.bundles)

    def test_the_kernel_log_alone(self):
        rows = [(f"{name}-{status}-{before}", line, status, before)
                for name, line in self.LINES.items() for status in (0, 1) for before in (0, 0.3, 1.2)]
        rows += [("quiet-1-0", QUIET_LOG, 1, 0), ("quiet-0-0", QUIET_LOG, 0, 0)]
        found = in_parallel(lambda row: self.bundles(*row), rows)
        for (name, line, status, _), count in zip(rows, found):
            with self.subTest(name=name):
                self.assertEqual(count, 1 if status and line != QUIET_LOG else 0)

    def test_lines_from_before_the_start_do_not_count(self):
        m = dgpu(16, 2.0)(self.machine("old")).put("dev/kmsg", self.LINES["page fault"])
        self.assertEqual(self.replay(m, [["sleep", 0.3], ["exit", 1]]).bundles, [])


if __name__ == "__main__":
    support.main()
