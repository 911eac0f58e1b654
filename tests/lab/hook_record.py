# SPDX-License-Identifier: Apache-2.0
"""Lets rocmcrash's own Python hook write its real files for a run, with a torch whose allocator is ours and with the
run's clock. If the hook writes more tomorrow, this needs no change, as long as the hook asks PyTorch for it.
"""
import collections
import os
import types

import driver_record
from program import Pace

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "inject", "python")
PID = 4711
START_NS = 1000 * 10**9
BLOCK_NS = 2500  # to read one block, by PyTorch and the hook; measured with 4,000 blocks
EVENT_NS = 1000  # to read one event
GIB, MIB = float(1 << 30), float(1 << 20)


class OutOfMemoryError(RuntimeError):
    pass


OutOfMemoryError.__module__ = "torch"


def load_hook(directory, clock):
    """Loads the hook and returns its names. It writes to `directory`; `clock()` returns ns."""
    names = {"__name__": "rocmcrash_hook", "__builtins__": __builtins__}
    path = os.path.join(FOLDER, "rocmcrash_hook.py")
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    names.update(folder=FOLDER, directory=directory, supervisor=os.getpid(), monotonic_ns=clock,
                 getpid=lambda: PID, sleep=lambda _s: None, stacks=lambda own: [
                     {"thread": own, "current": True, "frames": [["/home/user/train.py", 41, "step"],
                                                                 ["/home/user/train.py", 70, "<module>"]]}])
    sampling = names["sampling"]()
    real = sampling["Sampler"]

    class Unthreaded(real):
        def start(self):
            self.alive = 1

        def due_s(self):
            return self._period()

    sampling["Sampler"] = Unthreaded
    sampling["watch"] = lambda _sampler: None
    return names


def fake_torch(machine, observers, spend):
    """The part of PyTorch that the hook uses. `spend(ns)` moves the clock by the time that the hook reads blocks."""
    def reading(machine):
        segments = machine.allocator.memory_snapshot()
        spend(BLOCK_NS * sum(len(segment["blocks"]) for segment in segments))
        return segments

    def record(enabled, _context, _stacks, entries, *_more):
        machine.allocator.events = None if enabled is None else collections.deque(maxlen=entries)

    def snapshot(arguments):
        events = machine.allocator.events or () if arguments[2] else ()
        spend(EVENT_NS * len(events))
        return {"segments": reading(machine), "device_traces": [
            [{"action": action, "addr": address} for action, address in events]]}

    memory = types.SimpleNamespace(memory_snapshot=lambda include_traces=True: reading(machine))
    cuda = types.SimpleNamespace(
        _lazy_call=lambda call: call(), device_count=lambda: 1, memory=memory,
        get_device_properties=lambda _d: types.SimpleNamespace(
            total_memory=machine.device.total, name="AMD Instinct MI210", gcnArchName="gfx90a:sramecc+:xnack-"))
    return types.SimpleNamespace(
        __version__="2.11.0+rocm7.2", version=types.SimpleNamespace(hip="7.2.53211", cuda=None), cuda=cuda,
        _C=types.SimpleNamespace(_cuda_memorySnapshot=snapshot, _cuda_record_memory_history=record,
                                 _cuda_isHistoryEnabled=lambda: machine.allocator.events is not None,
                                 _cuda_memoryStats=lambda _d: machine.allocator.memory_stats(),
                                 _cuda_attach_out_of_memory_observer=observers.append))


def human(size):
    """As PyTorch prints sizes."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / MIB:.2f} MiB"


def message_of(machine, refused):
    allocated = machine.allocator.allocated.current[0]
    reserved = machine.allocator.reserved.current[0]
    return (f"HIP out of memory. Tried to allocate {human(refused.requested)}. GPU 0 has a total capacity of "
            f"{human(machine.device.total)} of which {human(refused.free)} is free. Of the allocated memory "
            f"{human(allocated)} is allocated by PyTorch, and {human(reserved - allocated)} is reserved by PyTorch but "
            "unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management"
            "  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)")


class Recorder:
    """`watch` of experiment.run(): moves the clock and lets the hook look when it is due."""

    def __init__(self, program, run_directory):
        self.program, self.now_ns = program, START_NS
        self.directory = os.path.join(run_directory, "hook")
        os.makedirs(self.directory)
        self.hook = self.machine = None
        self.observers = []
        self.next_ns = 0
        self.pace = Pace(program)
        self.others_before = 0
        self.used = []  # (bytes of the GPU in use, of these this process', the others')
        self.samples = driver_record.Samples(PID, START_NS)
        self.message = ""

    def watch(self, machine, number, index, count, refused=None):
        if self.hook is None:
            self._start(machine)
        if number == 0 and index == 1:  # the first operation may say who was there before
            self.others_before = machine.device.others
        self.now_ns += int(self.pace.step_s(number, count) * 1e9 / max(1, count))
        while self.now_ns >= self.next_ns:
            self._look()
        if self.samples.until(self.now_ns, *self._in_use()[:2]):
            self._count_device()
        if refused is not None:
            self._refused(refused)

    def _spend(self, took_ns):
        self.now_ns += took_ns

    def _start(self, machine):
        self.machine = machine
        self.hook = load_hook(self.directory, lambda: self.now_ns)
        self.hook["torch"] = self.hook["_load"]("rocmcrash_torch")
        self.hook["torch"]["install"](fake_torch(machine, self.observers, self._spend), self.hook)
        self.next_ns = self.now_ns + 100 * 10**6

    def _look(self):
        sampler = self.hook["torch"]["sampler"]
        late, self.now_ns = self.now_ns, self.next_ns
        if sampler.look() == "full":
            self.hook["sampler"]["_thin"]("%d.torch.csv" % PID)
            sampler.stretch *= 2
        self._count_device()
        self.next_ns = self.now_ns + int(sampler.due_s() * 1e9)
        self.now_ns = late

    def _in_use(self):
        device = self.machine.device
        own = device.context + device.outside + device.segments
        return device.base + own + device.others, own, device.others

    def _count_device(self):
        self.used.append(self._in_use())

    def _refused(self, refused):
        self._count_device()
        self.samples.add(self.now_ns, self.used[-1][1])  # the last look
        self.observers[0](0, refused.requested, self.machine.device.total, refused.free)
        self.message = message_of(self.machine, refused)
        error = OutOfMemoryError(self.message)
        self.hook["uncaught"](type(error), error, None)

    def facts(self):
        """The facts from the driver's counters and the finisher: a list for facts_from_json()."""
        device = self.machine.device
        last = self.used[-1]
        found = [("gpu.count", "STATIC", 1), ("gpu.0.driver", "STATIC", "amdgpu"), ("gpu.0.gfx", "STATIC", "gfx90a"),
                 ("gpu.0.is_apu", "STATIC", False), ("gpu.0.vram.total_bytes", "IMPACT", device.total),
                 ("gpu.0.vram.total_bytes", "BASELINE", device.total),
                 ("gpu.0.vram.used_bytes", "BASELINE", device.base + self.others_before),
                 ("others.vram_bytes", "BASELINE", self.others_before),
                 ("gpu.0.vram.used_bytes", "IMPACT", last[0]),
                 ("gpu.0.vram.used_bytes", "PEAK", max(used for used, _, _ in self.used)),
                 ("proc.0.kfd_vram_bytes", "IMPACT", last[1]), ("others.vram_bytes", "IMPACT", last[2]),
                 ("gpu.0.others_kfd_vram_bytes", "BASELINE", self.others_before),
                 ("gpu.0.others_kfd_vram_bytes", "PEAK", max(others for _, _, others in self.used)),
                 ("gpu.0.others_kfd_vram_bytes", "IMPACT", last[2]),
                 ("target.exit_code", "STATIC", 1), ("log.output_read", "STATIC", True), ("kmsg.readable", "STATIC", True),
                 ("run.duration_ms", "STATIC", (self.now_ns - START_NS) // 10**6)]
        if last[2] > 0:
            found += [("others.largest_pid", "IMPACT", 815), ("others.largest_comm", "IMPACT", "python3"),
                      ("others.largest_bytes", "IMPACT", last[2])]
        return found


def output_of(recorder):
    return ('Traceback (most recent call last):\n  File "/home/user/train.py", line 70, in <module>\n'
            '  File "/home/user/train.py", line 41, in step\n'
            f"torch.OutOfMemoryError: {recorder.message}\n")


