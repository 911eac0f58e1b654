#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The laboratory itself: the allocator's rules, the truth of simple programs, the way to a verdict."""
import itertools
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import cases  # noqa: E402
import driver_record  # noqa: E402
import experiment  # noqa: E402
import hook_record  # noqa: E402
import families  # noqa: E402,F401
import laboratory  # noqa: E402
import recorded  # noqa: E402
from caching_allocator import GIB, MIB, CachingAllocator, Device, IdealAllocator, OutOfMemory  # noqa: E402
from program import SEEN, UNSEEN, Generator, Program, make_programs  # noqa: E402

JUDGE = os.environ.get("JUDGE", "")


def plain(make, intent="", capacity=GIB):
    return Program(Generator("test", make.__name__, make, intent), 1, capacity, 16 * MIB, 100 * MIB, 0.05, 1.0)


def leak(_rng, _capacity, growth):
    """Each step keeps 20 MiB."""
    for step in range(1000):
        work = [("a", f"work{step}", 64 * MIB), ("f", f"work{step}")]
        yield work + ([("a", f"kept{step}", 20 * MIB)] if growth else [])


def every_other(_rng, _capacity, _growth):
    """64 blocks of 10 MiB share segments of 20; half of each goes, and 300 MiB in one piece do not fit then."""
    yield [("a", i, 9 * MIB + MIB // 2) for i in range(80)]
    yield [("f", i) for i in range(0, 80, 2)]
    while True:
        yield [("a", "large", 300 * MIB), ("f", "large")]


def all_but_a_little(rng, capacity, growth):
    """Like every_other(), and some 40 MiB more would do."""
    yield from itertools.islice(every_other(rng, capacity, growth), 2)
    while True:
        yield [("a", "large", 150 * MIB), ("f", "large")]


def too_large(_rng, capacity, _growth):
    yield [("a", "weights", capacity // 2)]
    while True:
        yield [("a", "batch", capacity // 2), ("f", "batch")]


def crowded(_rng, capacity, _growth):
    yield [("o", capacity // 2)]
    while True:
        yield [("a", "batch", capacity // 2), ("f", "batch")]


def rises_beside(_rng, _capacity, _growth):
    """A library in the same process enlarges its buffers now and then."""
    for step in range(10**6):
        yield [("x", step // 20 * GIB), ("a", "batch", GIB), ("f", "batch"), ("e",)]


def in_pieces_beside_another(_rng, capacity, _growth):
    """Like every_other(). Another process takes the free memory, and would take the idle pieces, if they were free."""
    yield [("a", i, 9 * MIB + MIB // 2) for i in range(80)]
    yield [("f", i) for i in range(0, 80, 2)]
    yield [("o", capacity * 6 // 10)]
    while True:
        yield [("a", "large", 450 * MIB), ("f", "large")]


def hooks_dropped_first(_rng, _capacity, growth):
    """One more hook in each step. All copies of the step before go before the first new one is made."""
    yield [("a", "weights", 7 * GIB)]
    for step in itertools.count():
        hooks = step + 1 if growth else 1
        work = [("a", (step, layer), 200 * MIB) for layer in range(8)]
        copies = [("a", (step, "copy", hook), 200 * MIB) for hook in range(hooks)]
        yield work + copies + [("f", name) for _, name, _ in work + copies]


def hooks_made_anew(larger_work=False):
    """One more hook in every other step. Each keeps its copy until the next step; a larger batch needs more within it."""
    def hooks(_rng, _capacity, growth):
        yield [("a", "weights", GIB)]
        for step in itertools.count():
            more = step // 2 if growth else 0
            scale = 1 + more / 8 if larger_work else 1
            work = [("a", (step, layer), int(120 * scale) * MIB) for layer in range(10)]
            for hook in range(more):
                work.append(("a", ("copy", step, hook), 96 * MIB))
                if hook < (step - 1) // 2:
                    work.append(("f", ("copy", step - 1, hook)))
            yield work + [("f", (step, layer)) for layer in range(10)]
    return hooks


def longer_queue(_rng, _capacity, growth):
    """Each step makes as much as before; it waits longer and longer."""
    yield [("a", "weights", GIB)]
    waiting = []
    for step in itertools.count():
        work = [("a", (step, layer), 120 * MIB) for layer in range(10)] + [("f", (step, layer)) for layer in range(10)]
        waiting.append(step)
        length = 20 + (step // 2 if growth else 0)
        gone, waiting = waiting[:max(0, len(waiting) - length)], waiting[max(0, len(waiting) - length):]
        yield work + [("a", step, 96 * MIB)] + [("f", name) for name in gone]


class Allocator(unittest.TestCase):
    def setUp(self):
        self.device = Device(GIB)
        self.allocator = CachingAllocator(self.device)

    def reserved(self):
        return self.allocator.reserved.current[0]

    def test_segments_of_small_shared_and_large_requests(self):
        self.allocator.allocate(1)
        self.assertEqual(self.reserved(), 2 * MIB)
        self.allocator.allocate(MIB + 1)
        self.assertEqual(self.reserved(), 22 * MIB)
        self.allocator.allocate(10 * MIB)
        self.assertEqual(self.reserved(), 22 * MIB + 0)
        self.allocator.allocate(10 * MIB)
        self.assertEqual(self.reserved(), 32 * MIB)
        self.allocator.allocate(11 * MIB + 1)
        self.assertEqual(self.reserved(), 44 * MIB)

    def test_blocks_are_split_and_merge_again(self):
        blocks = [self.allocator.allocate(4 * MIB) for _ in range(5)]
        self.assertEqual(self.reserved(), 20 * MIB)
        for i in (0, 2, 4, 1, 3):
            self.allocator.release(blocks[i])
        self.assertEqual(self.allocator.split_idle(), (0, 0))
        self.assertEqual(self.allocator.empty_cache(), 20 * MIB)
        self.assertEqual(self.device.free(), GIB)

    def test_a_remainder_up_to_a_mebibyte_is_not_split_off(self):
        self.allocator.release(self.allocator.allocate(12 * MIB))
        self.assertEqual(self.allocator.allocate(11 * MIB).size, 12 * MIB)
        self.allocator.release(self.allocator.allocate(14 * MIB))
        self.assertEqual(self.allocator.allocate(12 * MIB).size, 12 * MIB)

    def test_the_smallest_free_block_of_the_stream_is_taken(self):
        large, small = self.allocator.allocate(40 * MIB), self.allocator.allocate(30 * MIB)
        address = small.address
        self.allocator.release(large)
        self.allocator.release(small)
        self.assertEqual(self.allocator.allocate(30 * MIB).address, address)
        self.allocator.allocate(20 * MIB, stream=1)
        self.assertEqual(self.reserved(), 90 * MIB)

    def test_whole_segments_are_given_back_before_a_refusal(self):
        kept = self.allocator.allocate(500 * MIB)
        self.allocator.release(self.allocator.allocate(500 * MIB))
        self.allocator.allocate(510 * MIB)
        self.assertEqual((self.allocator.retries, self.reserved()), (1, 1010 * MIB))
        with self.assertRaises(OutOfMemory) as caught:
            self.allocator.allocate(20 * MIB)
        self.assertEqual((caught.exception.requested, caught.exception.free), (20 * MIB, 14 * MIB))
        self.allocator.release(kept)
        self.allocator.allocate(20 * MIB)

    def test_snapshot_and_statistics_agree(self):
        blocks = [self.allocator.allocate(3 * MIB + 7 * i) for i in range(40)]
        for block in blocks[::3]:
            self.allocator.release(block)
        stats = self.allocator.memory_stats()
        snapshot = self.allocator.memory_snapshot()
        every = [block for segment in snapshot for block in segment["blocks"]]
        self.assertEqual(sum(s["total_size"] for s in snapshot), stats["reserved_bytes"]["all"]["current"])
        self.assertEqual(sum(b["size"] for b in every if b["state"] != "inactive"),
                         stats["allocated_bytes"]["all"]["current"])
        self.assertEqual(sum(b["size"] for b in every if b["state"] == "inactive"),
                         stats["inactive_split_bytes"]["all"]["current"])

    def test_the_ideal_one_wastes_nothing(self):
        ideal = IdealAllocator(self.device)
        blocks = [ideal.allocate(GIB // 1024) for _ in range(1024)]
        self.assertRaises(OutOfMemory, ideal.allocate, 1)
        ideal.release(blocks[0])
        ideal.allocate(MIB)


class Recorded(unittest.TestCase):
    """Real programs on a real GPU (torch 2.11): the same figures at the refusal, by the same requests in the same order."""

    def replay(self, name):
        header, steps = recorded.read(name)
        refused = header["refused"]
        allocator = CachingAllocator(Device(1 << 50), allowed=refused["allowed"])
        blocks = {}
        for operation in (operation for step in steps for operation in step):
            if operation[0] == "a":
                blocks[operation[1]] = allocator.allocate(operation[2])
            elif operation[0] == "f":
                allocator.release(blocks.pop(operation[1]))
            else:
                self.assertRaises(OutOfMemory, allocator.allocate, operation[1])
        self.assertRaises(OutOfMemory, allocator.allocate, refused["requested"])
        return refused, allocator

    def test_figures_at_the_refusal(self):
        equal = 0
        for name in recorded.names():
            with self.subTest(name):
                refused, allocator = self.replay(name)
                differ = [abs(ours - refused[key]) for key, ours in (
                    ("allocated", allocator.allocated.current[0]), ("reserved", allocator.reserved.current[0]),
                    ("split_idle", allocator.split_idle()[0]))]
                self.assertLess(max(differ), 0.02 * refused["allowed"])
                equal += differ == [0, 0, 0]
        self.assertGreaterEqual(equal, 5)


class Truth(unittest.TestCase):
    def cause(self, *arguments, **values):
        return experiment.find_truth(plain(*arguments, **values))

    def test_what_lets_it_go_on_is_the_cause(self):
        self.assertEqual(self.cause(leak, "leak").classes, ("leak",))
        self.assertEqual(self.cause(leak, "design").classes, ("capacity", "leak"))
        self.assertEqual(self.cause(every_other).classes, ("fragmentation",))
        self.assertEqual(self.cause(too_large).classes, ("capacity",))
        self.assertEqual(self.cause(crowded).classes, ("held-by-other",))

    def test_a_little_more_room_may_do_as_well_as_no_pieces(self):
        for make, also in ((every_other, ()), (all_but_a_little, ("capacity",)), (too_large, ())):
            self.assertEqual(self.cause(make).also, also, make.__name__)
        self.assertEqual(self.cause(all_but_a_little).classes, ("fragmentation",))

    def test_two_changes_may_help_only_together(self):
        truth = self.cause(in_pieces_beside_another)
        self.assertEqual(truth.cause, "fragmentation + held-by-other")
        self.assertEqual(truth.classes, ("capacity", "fragmentation", "held-by-other"))
        self.assertLess(max(truth.ratios.values()), 2)

    def test_a_program_with_room_has_none(self):
        self.assertIsNone(self.cause(every_other, capacity=4 * GIB))

    def test_programs_are_the_same_for_the_same_seed(self):
        for registry in (SEEN, UNSEEN):
            for program in make_programs(registry, 2 * len(registry), 7):
                first, again = program.steps(), program.steps()
                for _ in range(6):
                    self.assertEqual(next(first, None), next(again, None), program.name)

    def test_few_programs_are_of_all_families(self):
        drawn = {program.generator.family for program in make_programs(UNSEEN, 150, 7)}
        self.assertEqual(drawn, {g.family for g in UNSEEN})

    def test_without_its_growth_a_program_never_needs_more(self):
        for program in make_programs([g for g in SEEN + UNSEEN if g.intent == "leak"], 12, 3):
            grown = experiment.run(program, experiment.Change(ideal=True), steps_max=12)
            steady = experiment.run(program, experiment.Change(ideal=True, growth=False), steps_max=12)
            self.assertLessEqual(steady.peak_live, grown.peak_live, program.name)


class KeptBlocks(unittest.TestCase):
    """inject/python/rocmcrash_kept.py over the allocator of the laboratory."""

    def rows(self, steps):
        hook = hook_record.load_hook("", lambda: 0)
        module = hook["_load"]("rocmcrash_kept")
        kept, allocator, tensors, handed_out = module["Kept"](), CachingAllocator(Device(16 * GIB)), {}, 0
        for number, step in enumerate(steps):
            for what, name, *size in step:
                if what == "a":
                    tensors[name] = allocator.allocate(*size)
                    handed_out += size[0]
                else:
                    allocator.release(tensors.pop(name))
                kept.in_use({0: allocator.allocated.current[0]})
            if kept.is_due(number, {0: handed_out}):
                kept.look(number, {0: handed_out}, allocator.memory_snapshot())
        return kept.rows(allocator.memory_snapshot())

    def test_what_is_piled_up_is_kept(self):
        rows = self.rows(itertools.islice(leak(None, None, True), 200))
        self.assertEqual([row[3] for row in rows], [row[4] for row in rows])
        self.assertEqual(rows, sorted(rows))
        self.assertGreater(rows[-1][4], 4 * rows[0][4])

    def test_what_goes_is_not_kept(self):
        def queue():
            for number in range(200):
                yield [("a", number, (20 + number % 7) * MIB)] + ([("f", number - 10)] if number >= 10 else [])
        rows = self.rows(queue())
        self.assertGreater(min(row[3] for row in rows), 200 * MIB)
        self.assertLess(max(row[4] for row in rows[:-1]), 80 * MIB)  # of the same size in the same place

    def test_pages_that_are_replaced_were_seen_free(self):
        def sessions():
            """In each step one page in 16 goes, and more come."""
            pages, made = [], itertools.count()
            for number in range(400):
                new = [next(made) for _ in range(len(pages) // 16 + 2)]
                gone = pages[number * 5 % 16::16]
                pages = [page for page in pages if page not in gone] + new
                yield [("a", name, 10 * MIB) for name in new] + [("f", name) for name in gone]
        rows = self.rows(sessions())
        self.assertGreater(min(rows[1][5], rows[1][7]), rows[1][4] + 50 * MIB, rows)

    def kept(self):
        return hook_record.load_hook("", lambda: 0)["_load"]("rocmcrash_kept")["Kept"]()

    def test_a_look_between_two_marks_sees_a_place_free(self):
        def segments(state):
            return [{"device": 0, "address": 4096, "blocks": [{"size": 512, "state": state}]}]
        for between, kept_bytes in (("active_allocated", 512), ("inactive", 0)):
            kept = self.kept()
            for number, state in enumerate(("active_allocated", between, "active_allocated")):
                handed_out = {0: 1000 + 30 * number}
                self.assertTrue(kept.is_due(number, handed_out))
                kept.look(number, handed_out, segments(state))
            self.assertEqual(kept.rows(segments("active_allocated")), [[0, 0, 1000, 512, kept_bytes, 512, -1, 0, -1, 0, kept_bytes]])

    def test_a_window_sees_a_place_freed_and_taken_again(self):
        segments = [{"device": 0, "address": 4096, "blocks": [{"size": 512, "state": "active_allocated"}]}]
        for freed, kept_bytes in (((), 512), ({(0, 4096)}, 0)):
            kept = self.kept()
            for number in range(5):
                kept.look(number, {0: 1000 * 2**number}, segments, freed if number == 3 else (), (8 * number, 10 * number))
            self.assertEqual([row[4] for row in kept.rows(segments, (), (40, 50))], [kept_bytes] * 3 + [512] * 2)
            self.assertEqual([row[8] for row in kept.rows(segments)], [kept_bytes, kept_bytes, -1, -1, -1])
            self.assertEqual({row[9] for row in kept.rows(segments, (), (40, 50))}, {80})

    def test_what_outlasts_some_steps(self):
        def segments(count):
            return [{"device": 0, "address": 0, "blocks": [{"size": 512, "state": "active_allocated"}] * count}]
        kept = self.kept()
        for number, (handed_out, count, freed) in enumerate((
                (1000, 4, ()), (1030, 3, {(0, 512)}),   # one went, one was replaced
                (2000, 4, ()), (2060, 4, ()),           # none went
                (4000, 4, ()), (4400, 4, ()),           # the next look comes too late
                (8000, 4, ()))):                        # none has come
            kept.look(number, {0: handed_out}, segments(count), freed)
        self.assertEqual([(row[2], row[10]) for row in kept.rows(segments(4))],
                         [(1000, 1024), (2000, 2048), (4000, -1), (8000, -1)])

    def test_how_much_the_windows_saw(self):
        module, said = hook_record.load_hook("", lambda: 0)["_load"]("rocmcrash_kept"), []
        window = module["Window"](lambda entries: said.append(entries) or True)
        for made, full in ((100, False), (600, False), (100 + module["EVENTS"], True)):
            window.sample(made * 10**6, made)
            window.begin()
            self.assertEqual((window.is_full(), window.since), (full, 100))
        self.assertEqual((window.rate, window.full_in_s()), (1000, 0))
        window.sample(10**10, 100 + 2 * module["EVENTS"])  # the notes of the first half are overwritten
        window.end()
        self.assertEqual(window.watched_of(), (module["EVENTS"], 100 + 2 * module["EVENTS"]))
        window.begin()
        window.sample(10**10 + 1, 200 + 2 * module["EVENTS"])
        window.end(counts=False)
        self.assertEqual((window.watched, said), (module["EVENTS"], [module["EVENTS"], None] * 2))

    def test_notes_that_began_on_some_devices_end_before_the_next_ones(self):
        module, said = hook_record.load_hook("", lambda: 0)["_load"]("rocmcrash_kept"), []

        def record(entries):
            said.append(entries)
            if len(said) == 1:
                raise RuntimeError("the lock is taken")
            return True
        window = module["Window"](record)
        self.assertRaises(RuntimeError, window.begin)
        window.begin()
        self.assertEqual(said, [module["EVENTS"], None, module["EVENTS"]])

    def test_the_programs_own_notes_take_the_place_of_ours(self):
        calls = []

        class Noted(hook_record.Recorder):
            def _start(self, machine):
                super()._start(machine)
                self.torch = self.hook["torch"]["torch"]._C
                real = self.torch._cuda_record_memory_history

                def record(enabled, context, stacks, entries, *more):
                    calls.append((enabled, entries if enabled else 0))
                    return real(enabled, context, stacks, entries, *more)
                self.record = self.torch._cuda_record_memory_history = record

        def watch(machine, *rest, **more):
            recorder.watch(machine, *rest, **more)
            window = recorder.hook["torch"]["window"]
            if window.since is not None:
                self.assertIsNot(recorder.torch._cuda_record_memory_history, recorder.record)
                recorder.torch._cuda_record_memory_history("all", "all", "all", 77)
            if calls:
                self.assertIs(recorder.torch._cuda_record_memory_history, recorder.record)
                self.assertEqual((window.since, machine.allocator.events.maxlen), (None, 77))
        with tempfile.TemporaryDirectory() as folder:
            recorder = Noted(plain(leak, "leak", capacity=8 * GIB), folder)
            experiment.run(recorder.program, watch=watch)
        self.assertEqual(calls, [("all", 3000), (None, 0), ("all", 77)])

    def test_reading_the_blocks_is_a_small_part_of_the_time(self):
        kept, second = self.kept(), 10**9
        self.assertTrue(kept.is_due(0, {0: 1}))
        kept.look(0, {0: 1}, [])
        self.assertFalse(kept.is_due(0, {0: 1}))
        kept.took(second // 5)
        self.assertFalse(kept.is_due(second, {0: 10}))
        self.assertTrue(kept.is_due(6 * second, {0: 10}))  # for a mark
        kept.look(6 * second, {0: 100}, [])
        self.assertFalse(kept.is_due(8 * second, {0: 103}))  # for a look
        self.assertTrue(kept.is_due(100 * second, {0: 103}))

    def test_the_floor_is_no_higher_than_what_is_kept_beside_steps(self):
        rows = self.rows(itertools.islice(leak(None, None, True), 300))
        for row in rows[:-1]:
            self.assertLessEqual(min(row[5], row[7]), row[4] + 20 * MIB)

    def test_marks_are_few_however_long_it_runs(self):
        rows = self.rows(itertools.islice(leak(None, None, True), 700))
        self.assertEqual(len(rows), 12)
        self.assertLess(rows[0][2], 0.25 * rows[-1][2])


class Sampler(unittest.TestCase):
    def test_the_process_is_read_with_a_change_and_each_second(self):
        """The GPU's counter is read ten times a second until three seconds after its last change."""
        samples = driver_record.Samples(4711, 0)
        for until_ms, used, reads in ((250, 100, [0, 0]), (350, 100, []), (450, 130, [400]), (2050, 130, [1000, 2000]),
                                      (4450, 130, [3000, 4000]), (5450, 140, [5000, 5400])):
            before = len(samples.records)
            self.assertEqual(samples.until(until_ms * 10**6, used, used - 40), bool(reads))
            read_ms = [driver_record.HEADER.unpack_from(record)[3] // 10**6 for record in samples.records[before:]]
            self.assertEqual(read_ms, reads, until_ms)


@unittest.skipIf(JUDGE == "", "JUDGE names no judge_runs")
class Verdicts(unittest.TestCase):
    def test_the_hook_and_the_collector_read_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            row = laboratory.examine(plain(crowded), run)
            self.assertEqual(sorted(os.listdir(run)), ["facts.json", "hook", "output", "samples.0000", "window"])
            facts, = laboratory.judge(JUDGE, [run], "--facts")
            found = {fact["name"]: fact.get("value") for fact in facts["facts"] if fact.get("when") in ("impact", "log")}
            self.assertEqual(found["torch.requested_bytes"], GIB // 2)
            self.assertEqual(found["torch.device_free_bytes"], GIB // 2 - 116 * MIB)
            self.assertEqual(found["others.vram_bytes"], GIB // 2)
            self.assertEqual(found["oom.total_bytes"], GIB)
            self.assertEqual(found["hook.exception_type"], "torch.OutOfMemoryError")
            again = os.path.join(folder, "again")
            row = laboratory.examine(plain(too_large, capacity=16 * GIB), again)
            verdict, = laboratory.judge(JUDGE, [again])
            laboratory.grade(row, verdict)
            self.assertEqual((row["class"], row["right"]), ("capacity", True), verdict["sentence"])

    def test_the_account_adds_up(self):
        """To the byte. The remainder is what the driver holds for itself."""
        for make, capacity in ((crowded, GIB), (too_large, 16 * GIB), (leak, 8 * GIB), (every_other, GIB)):
            with self.subTest(make.__name__), tempfile.TemporaryDirectory() as folder:
                program = plain(make, capacity=capacity)
                laboratory.write_run(program, os.path.join(folder, "run"))
                verdict, = laboratory.judge(JUDGE, [os.path.join(folder, "run")])
                parts = {part["name"]: part["bytes"] for part in verdict["account"]["parts"]}
                self.assertEqual(sum(parts.values()), capacity)
                self.assertEqual(parts["remainder_bytes"], program.base)
                self.assertTrue(all(part["source"] for part in verdict["account"]["parts"]))

    def test_memory_beside_the_allocator_is_seen(self):
        """The collector reads what the sampler would have written."""
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            laboratory.examine(plain(rises_beside, capacity=16 * GIB), run)
            facts, = laboratory.judge(JUDGE, [run], "--facts")
            found = {fact["name"]: fact.get("value") for fact in facts["facts"] if fact.get("when") == "impact"}
            self.assertGreaterEqual(found["torch.gap_rises_count"], 5)
            self.assertGreater(found["torch.gap_risen_bytes"], 10 * GIB)
            verdict, = laboratory.judge(JUDGE, [run])
            self.assertEqual((verdict["class"], verdict["path"][-1]["node"]), ("leak", "leak-outside-torch"))

    def verdict_of(self, make, intent):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            laboratory.examine(plain(make, intent, capacity=16 * GIB), run)
            return laboratory.judge(JUDGE, [run])[0]

    def test_what_each_step_makes_anew_may_be_a_leak(self):
        """Hooks are registered again and again, and each step makes all their copies anew. Larger steps, and a queue that gets
        longer, fill memory as steadily, and keep nothing."""
        for make, answer in ((hooks_made_anew(), True), (hooks_made_anew(larger_work=True), False), (longer_queue, False)):
            with self.subTest(make.__name__):
                verdict = self.verdict_of(make, "leak")
                self.assertEqual(verdict["path"][-1]["node"] == "made-anew", answer, verdict["sentence"])
                self.assertEqual((verdict["class"], verdict["confidence"] == "low"), ("leak", True) if answer else
                                 ("capacity", False))

    def test_what_goes_before_it_is_made_anew_is_never_sure(self):
        verdict = self.verdict_of(hooks_dropped_first, "leak")
        self.assertEqual((verdict["class"], verdict["confidence"]), ("capacity", "medium"), verdict["sentence"])

    # generator, seed; GiB of the GPU, MiB of the driver and the context; seconds of a step and of the first one, how busy
    ONCE_WRONG = {
        "a leak that begins half way": ("late_start", 987369433, 48, 92, 352, 0.0406, 3.66, 0.837, "leak"),
        "steps that grow below a higher peak": ("drifting_sizes", 1802544009, 16, 25, 668, 1.97, 2.36, 0.09, "capacity"),
        "steps that grow beside idle pieces": ("longer_contexts", 2986686937, 12, 110, 419, 0.0101, 0.365, 0.61, "capacity"),
        "steps that grow, of which a part outlives some": (
            "router_collapses", 3510653450, 64, 78, 614, 0.0413, 2.77, 0.13, "capacity"),
        "a peak by chance": ("comb", 2965966513, 288, 26, 573, 0.142, 18.8, 0.892, "fragmentation"),
        "a cache that fills between large pieces": (
            "adapters_within_bound", 3604540751, 128, 81, 288, 0.009, 0.715, 0.033, "fragmentation"),
        "grids that stay between large pieces": (
            "patches_regridded", 4135517945, 64, 24, 567, 0.495, 2.44, 0.54, "fragmentation"),
        "a leak whose steps have the addresses of the steps before": (
            "moe_router_monitor_from_late", 3565200364, 64, 125, 429, 1.5754759816635509, 2.1052061002633424, 0.46920346682795966, "leak"),
        "a leak beside PyTorch in a second": (
            "speech_plans_for_each_length", 977512589, 16, 69, 555, 0.007058016532425846, 0.7095970721893685, 0.17895297811172628, "leak"),
        "a cache that has filled": ("adapters_of_all_ranks", 2384333781, 32, 100, 657, 0.118, 16.4, 0.715, "capacity")}

    def test_programs_that_once_got_a_wrong_answer(self):
        generators = {g.name: g for g in SEEN + UNSEEN}
        for what, (name, seed, capacity, base, context, *times, answer) in self.ONCE_WRONG.items():
            with self.subTest(what), tempfile.TemporaryDirectory() as folder:
                program = Program(generators[name], seed, capacity * GIB, base * MIB, context * MIB, *times)
                row = laboratory.examine(program, os.path.join(folder, "run"))
                verdict, = laboratory.judge(JUDGE, [os.path.join(folder, "run")])
                laboratory.grade(row, verdict)
                self.assertEqual((row["class"], row["right"]), (answer, True), verdict["sentence"])
                if answer == "fragmentation":
                    self.assertEqual(row["confidence"], "low")  # likely, and not shown

    def test_a_wrong_class_is_counted_as_wrong(self):
        row = {"accepted": "capacity|leak", "truth": "growth", "intent": "design"}
        for answer, confidence, right in (("leak", "medium", True), ("leak", "high", False),
                                          ("fragmentation", "low", False), ("capacity", "high", True)):
            laboratory.grade(row, {"class": answer, "confidence": confidence})
            self.assertEqual(row["right"], right)

    def test_half_of_a_cause_is_right_at_low_only(self):
        row = {"accepted": "capacity|fragmentation|held-by-other", "truth": "fragmentation + held-by-other", "intent": ""}
        for answer, confidence, right in (("fragmentation", "low", True), ("fragmentation", "medium", False),
                                          ("capacity", "medium", True), ("leak", "low", False)):
            laboratory.grade(row, {"class": answer, "confidence": confidence})
            self.assertEqual(row["right"], right)


if __name__ == "__main__":
    cases.main()
