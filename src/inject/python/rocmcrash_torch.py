# SPDX-License-Identifier: Apache-2.0
"""Reads PyTorch's allocator. rocmcrash_hook executes it when torch has been imported.

Does nothing before the program itself initialises the device (a CPU run gets no context): then an
out-of-memory observer is attached, which writes before the exception unwinds, and a thread samples
the allocator's counters. The allocator is asked through torch._C, whose calls hold the GIL for
some 50 us a device; the device is never asked. They wait for the allocator's lock, with the GIL, and
another thread holds that lock through its calls of the driver, one of which may hang. So the preloaded
library (../allocator.c) refuses the lock where it is not free, and there is no sample then. Without
that library a slow sample (20 to 64 ms were seen) is followed by a pause.
"""
RECORD_BYTES_MAX = 1 << 20
SNAPSHOT_BLOCKS_MAX = 200000  # PyTorch takes some microseconds for each, with the GIL
HISTORY_BYTES_MAX = 16 << 20
HISTORY_ENTRIES = 20000
SAMPLES_BYTES_MAX = 1 << 20
VERSION_MAX = 200
UNUSED_EVERY = 8  # only each 8th sample includes the devices without allocations
# A mark lists the memory in use, by size and call site. Without --torch-history only if reading the
# blocks takes less than a millisecond.
MARK_FIRST_S = 2
MARK_BLOCKS_MAX = 300
MARKS_BYTES_MAX = 512 << 10
# A failed allocation may be retried for ever (a search for the largest batch), so only this share of the run may
# go into records. The last of the others is kept in memory, with the counters, until an exception ends the
# program.
FREE_BUDGET_NS = 100000000
BUDGET_SHARE = 200  # 1/200
# A step shorter than the time between two looks is not seen. If a quarter of the pool was handed out between two
# looks, the next look comes sooner, but only so often in a run.
SOON_S = 0.01
SOON_SHARE = 4
SOON_MAX = 400
PAUSE_SHARE = 50  # samples may hold the GIL for 1/50 of the time, marks for as much,
BURST_NS = 100000000  # and so much at once
ELSEWHERE_MAX_S = 2.0

COLUMNS = ("t_ns", "device", "allocated_bytes", "reserved_bytes", "active_bytes",
           "inactive_split_bytes", "requested_bytes", "allocated_peak_bytes",
           "reserved_peak_bytes", "allocated_total_bytes", "freed_total_bytes", "segments",
           "inactive_splits", "retries", "ooms", "took_us", "small_pool_bytes", "blocks")

BUILTIN = type(len)
# Arguments of _cuda_memorySnapshot(): (pool, pool, with the past) in PyTorch 2.11, a pool since 2.6, none before.
SNAPSHOT_ARGUMENTS = (((0, 0, False),), (None,), ())
SNAPSHOT_WITH_EVENTS = (((0, 0, True),),)

hook = {}  # globals of rocmcrash_hook
torch = None
devices = 0  # how many PyTorch sees: constant once it has initialised them
used = set()  # those with allocations
looks = 0  # of the sampler
sampler = None
BLOCKS = {}  # names of rocmcrash_blocks
KEPT = {}  # names of rocmcrash_kept
kept = None
window = None  # of the allocator's own notes
history_call = None  # of PyTorch, while ours takes its place
handed_out = {}  # {device: bytes since the start}, at the last look
looks_soon = 0
held_ns = 0  # how long the last one held the GIL while it asked the allocator
burst_ns = BURST_NS  # what is left of it
last_look_ns = 0
mark_s = MARK_FIRST_S
began_ns = 0
spent_ns = 0
ooms = 0
asker = None  # asks the allocator without waiting for its lock; None = the library is not preloaded
unwritten = None  # the last refusal, if there was no time for its record
snapshot_ns = 0  # when the last one was written
owner = 0  # the process that owns the device; a forked child does not


def install(module, hook_names):
    global torch, hook
    torch, hook = module, hook_names
    version = getattr(module, "version", None)
    vendor = "hip" if getattr(version, "hip", None) else "cuda" if getattr(version, "cuda", None) \
        else "cpu"
    hook["guarded"]("version of torch", hook["event"], "torch",
                    version=str(getattr(module, "__version__", ""))[:VERSION_MAX], build=vendor)
    if vendor != "cpu":
        module.cuda._lazy_call(_device_is_there)


def _device_is_there():
    """Called by torch.cuda at its initialisation. Must not raise: torch would."""
    global began_ns, owner
    began_ns = hook["monotonic_ns"]()
    owner = hook["getpid"]()
    done = []
    hook["guarded"]("text of blocks", _load_blocks)
    hook["guarded"]("guard of the allocator", _guard)
    for where, step in (("out-of-memory observer", _observe), ("allocation history", _record_history),
                        ("number of devices", _count_devices), ("samples", _start_sampler)):
        hook["guarded"](where, lambda: step() is not False and done.append(step.__name__.strip("_")))
    hook["guarded"]("baseline", _event_of_device, done)


def _load_blocks():
    global BLOCKS
    BLOCKS = hook["_load"]("rocmcrash_blocks")


def _count_devices():
    global devices
    devices = int(torch.cuda.device_count())


def _event_of_device(done):
    """With what each device's allocator holds before the program has taken anything."""
    stats = []
    hook["guarded"]("memory_stats", lambda: stats.extend(
        [_ask(torch._C._cuda_memoryStats, device) for device in range(devices)]))
    hook["event"]("device", steps=done,
                  allocated_bytes=[_count(each, "allocated_bytes", "current") for each in stats],
                  reserved_bytes=[_count(each, "reserved_bytes", "current") for each in stats])


def _observe():
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None:
        attach = torch._C._cuda_attachOutOfMemoryObserver
    attach(_on_oom)


def _record_history():
    if "history" not in hook["flags"]:
        return False
    record = torch.cuda.memory._record_memory_history
    try:  # C++ stacks would have to be looked up at each snapshot, too
        record(max_entries=HISTORY_ENTRIES, stacks="python")
    except TypeError:
        record(max_entries=HISTORY_ENTRIES)
    return None


# --- asking the allocator ---

class Busy(RuntimeError):
    """Another thread holds the allocator's lock: it is in a call of the driver, most likely."""


def _guard():
    """The library that is preloaded into the program, through PyTorch's own ctypes."""
    global asker
    ctypes = hook["sys"].modules.get("ctypes")
    library = ctypes.PyDLL(None) if ctypes is not None else None
    if library is None or getattr(library, "rocmcrash_guard_allocator", int)() != 1:
        return
    ask = library.rocmcrash_ask
    ask.restype = ctypes.py_object
    ask.argtypes = (ctypes.py_object, ctypes.py_object, ctypes.POINTER(ctypes.c_int))

    def guarded_ask(function, *arguments):
        refused = ctypes.c_int()
        try:
            return ask(function, arguments, refused)
        except Exception as error:
            if refused.value:
                raise Busy("its lock is held by a thread that frees or allocates") from None
            raise error

    asker = guarded_ask


def _ask(function, *arguments):
    """A function of torch._C; Busy where it would have to wait."""
    if asker is None or type(function) is not BUILTIN:
        return function(*arguments)
    return asker(function, *arguments)


def all_stats(unused=True):
    """{device: memory_stats()} of every device that this process has used."""
    found = {}
    error = None
    for device in range(devices):
        if not unused and used and device not in used:
            continue
        try:
            stats = _ask(torch._C._cuda_memoryStats, device)
        except RuntimeError as one:
            error = one
            continue
        if device in used or _count(stats, "allocated_bytes", "allocated"):
            used.add(device)
            found[device] = stats
    if error is not None and not found:
        if type(error) is Busy:
            raise error
        hook["trouble"]("memory_stats", error)
    return found


def _stats_of(device):
    """For the allocator's observer, which must not raise."""
    try:
        return {device: _ask(torch._C._cuda_memoryStats, device)}
    except Busy:
        return {}


def _count(stats, what, which, pool="all"):
    pools = stats.get(what)
    value = pools.get(pool, {}).get(which) if isinstance(pools, dict) else None
    return "" if value is None else value


def _row(now_ns, device, stats, took_us):
    values = (now_ns, device, _count(stats, "allocated_bytes", "current"),
              _count(stats, "reserved_bytes", "current"), _count(stats, "active_bytes", "current"),
              _count(stats, "inactive_split_bytes", "current"),
              _count(stats, "requested_bytes", "current"),
              _count(stats, "allocated_bytes", "peak"), _count(stats, "reserved_bytes", "peak"),
              _count(stats, "allocated_bytes", "allocated"),
              _count(stats, "allocated_bytes", "freed"), _count(stats, "segment", "current"),
              _count(stats, "inactive_split", "current"), stats.get("num_alloc_retries", ""),
              stats.get("num_ooms", ""), took_us,
              _count(stats, "allocated_bytes", "current", "small_pool"),
              _count(stats, "allocation", "current"))
    return ",".join([str(value) for value in values]) + "\n"


def _snapshot(name):
    global snapshot_ns
    _check_blocks()
    segments, freed = _segments_and_freed()
    earlier = hook["guarded"]("earlier blocks", _earlier_rows, segments, freed) if kept is not None else None
    hook["replace"](name, BLOCKS["snapshot_text"](segments, earlier or [], hook["encode"]).encode())
    snapshot_ns = hook["monotonic_ns"]()


def _earlier_rows(segments, freed):
    return kept.rows(segments, freed or (), window.watched_of(freed is not None))


def _keep_in_time():
    """Marks of the blocks in use, by bytes handed out: few, however long the run is."""
    now_ns = hook["monotonic_ns"]()
    if kept.is_due(now_ns, handed_out, window.is_full()):
        blocks = _all_blocks()
        if blocks is not None and blocks <= KEPT["BLOCKS_MAX"]:
            segments, freed = _segments_and_freed()
            window.end(freed is not None)
            kept.look(now_ns, handed_out, segments, freed or (), window.watched_of())
        kept.took(hook["monotonic_ns"]() - now_ns)
    if kept.look_time.is_left(now_ns) or window.rate <= KEPT["RATE"]:
        window.begin()
    full_s = window.full_in_s()
    if full_s is not None:
        sampler.at_most_s = max(SOON_S, full_s if sampler.at_most_s is None else min(full_s, sampler.at_most_s))


def _mark_in_time():
    """At 2, 4, 8, ... seconds: whenever it ends, one lies near half of the time. One that was slow (the first
    with --torch-history: 3 s, PyTorch 2.11) puts off the next mark, not the samples between them."""
    global mark_s
    start_ns = hook["monotonic_ns"]()
    if start_ns - began_ns < mark_s * 1000000000:
        return
    if _may_mark():
        _mark()
    end_ns = hook["monotonic_ns"]()
    mark_s = max(mark_s * 2, (end_ns - began_ns + (end_ns - start_ns) * PAUSE_SHARE) / 1e9)


class BoundedFile:
    def __init__(self, fd):
        self.fd, self.room = fd, HISTORY_BYTES_MAX

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise ValueError("the history is larger than %d bytes" % HISTORY_BYTES_MAX)
        hook["write_all"](self.fd, memoryview(data))
        return len(data)


def _write_history():
    if "history" not in hook["flags"]:
        return
    import pickle
    name = "%d.history.pickle" % hook["getpid"]()
    fd = hook["open_file"](name, hook["posix"].O_TRUNC)
    try:
        pickle.dump(BLOCKS["shorten"](torch.cuda.memory._snapshot()), BoundedFile(fd))
    except BaseException:
        hook["posix"].ftruncate(fd, 0)
        raise
    finally:
        hook["posix"].close(fd)


# --- the moment of failure ---

def _record(name, thread, **values):
    record = {"format": 1, "t": hook["monotonic_ns"](), "pid": hook["getpid"](), "thread": thread}
    record.update(values)
    if "stats" not in values:
        record["stats"] = hook["guarded"]("memory_stats", all_stats) or {}
    record["stacks"] = hook["stacks"](thread)
    data = hook["encode"](record).encode()
    if len(data) > RECORD_BYTES_MAX:
        record["stacks"] = record["stacks"][:1]
        data = hook["encode"](record).encode()
    hook["replace"](name, data + b"\n")


def _device_of_record(device):
    """Size and name of the device, as torch has stored them. The observer gets only the part that a fraction allows."""
    try:
        known = torch.cuda.get_device_properties(device)
        return {"device_total": known.total_memory, "device_name": str(known.name),
                "device_arch": str(getattr(known, "gcnArchName", ""))}
    except Exception:
        return {}


def _on_oom(device, requested, total, free):
    """Called by the allocator; an exception would take the place of the program's out of memory."""
    global ooms, spent_ns, unwritten
    try:
        start_ns = hook["monotonic_ns"]()
        ooms += 1
        unwritten = None
        if spent_ns > FREE_BUDGET_NS + (start_ns - began_ns) // BUDGET_SHARE:
            unwritten = {"t": start_ns, "count": ooms, "device": device, "requested": requested, "total": total,
                         "free": free, "stats": _stats_of(device)}
            return
        try:
            _write_oom(hook["_thread"].get_ident(), device, requested, total, free)
        finally:
            spent_ns += hook["monotonic_ns"]() - start_ns
    except RecursionError:  # the program has left no room for our frames; another thread has some
        try:
            done = hook["allocate_lock"]()
            done.acquire()
            hook["start_new_thread"](_write_elsewhere, (done, hook["_thread"].get_ident(), device, requested,
                                                        total, free))
            done.acquire(True, ELSEWHERE_MAX_S)
        except BaseException:
            hook["too_deep"].append("out of memory")


def _write_elsewhere(done, *arguments):
    try:
        hook["guarded"]("out of memory", _write_oom, *arguments)
    finally:
        done.release()


def _write_oom(thread, device, requested, total, free):
    pid = hook["getpid"]()
    which = "first" if ooms == 1 else "last"

    def record():
        _record("%d.oom.%s.json" % (pid, which), thread, count=ooms, device=device, requested=requested,
                total=total, free=free, **_device_of_record(device))

    for where, step in (("out of memory", record),
                        ("snapshot", lambda: _snapshot("%d.snapshot.%s.json" % (pid, which))),
                        ("history", _write_history)):
        try:
            step()
        except RecursionError:
            if thread == hook["_thread"].get_ident():
                raise
            hook["too_deep"].append(where)
        except BaseException as error:
            if hook["from_program"](error):
                hook["interrupted"](where, error)
                raise
            hook["trouble"](where, error)


def at_exception():
    """The program ends by an uncaught exception; its memory is still there."""
    if owner != hook["getpid"]():
        return
    hook["guarded"]("sample", _sample)
    if unwritten is not None:
        hook["guarded"]("out of memory", _write_unwritten)
        return
    if hook["monotonic_ns"]() - snapshot_ns < 5000000000 and ooms:
        return
    hook["guarded"]("exception", _write_exit)
    hook["guarded"]("snapshot", _snapshot, "%d.snapshot.exit.json" % owner)
    hook["guarded"]("history", _write_history)


def _write_unwritten():
    """Without the blocks: those of the moment are gone, and an older list would belong to another refusal."""
    pid = hook["getpid"]()
    _record("%d.oom.last.json" % pid, hook["_thread"].get_ident(), **unwritten,
            **_device_of_record(unwritten["device"]))
    try:
        hook["posix"].unlink("%s/%d.snapshot.last.json" % (hook["directory"], pid))
    except FileNotFoundError:
        pass


def _write_exit():
    first = next(iter(hook["guarded"]("memory_stats", all_stats) or {}), 0)
    _record("%d.exit.json" % owner, hook["_thread"].get_ident(), count=ooms, device=first,
            **_device_of_record(first))


# --- the series ---

def _note(found):
    """Notes the memory in use, and the bytes handed out since the last look, which set the time of the next one."""
    global handed_out, looks_soon
    if window is not None:
        made = sum([_count(stats, "allocation", "allocated") or 0 for stats in found.values()])
        window.sample(hook["monotonic_ns"](), made)
    if kept is not None:
        kept.in_use({device: _count(stats, "allocated_bytes", "current") or 0 for device, stats in found.items()})
    now = {device: _count(stats, "allocated_bytes", "allocated") or 0 for device, stats in found.items()}
    pool = sum([_count(stats, "reserved_bytes", "current") or 0 for stats in found.values()])
    passed = sum(now.values()) - sum([handed_out.get(device, 0) for device in now])
    handed_out = {**handed_out, **now}
    soon = sampler is not None and looks_soon < SOON_MAX and passed * SOON_SHARE >= pool > 0
    looks_soon += soon
    if sampler is not None:
        sampler.at_most_s = SOON_S if soon else None


def _sample(unused=True):
    global held_ns
    name = "%d.torch.csv" % hook["getpid"]()
    now_ns = hook["monotonic_ns"]()
    found = all_stats(unused)
    held_ns = hook["monotonic_ns"]() - now_ns
    _note(found)
    took_us = held_ns // 1000
    rows = "".join([_row(now_ns, device, stats, took_us) for device, stats in found.items()])
    return hook["append"](name, rows.encode(), SAMPLES_BYTES_MAX) if rows else True


# --- marks: what is in use, and from where ---

def _blocks_of(stats):
    counts = [_count(stats, what, "current") for what in ("allocation", "inactive_split")]
    return None if "" in counts else sum(counts)


def _all_blocks():
    """None: this PyTorch does not count them."""
    blocks = [_blocks_of(stats) for stats in all_stats().values()]
    return None if None in blocks else sum(blocks)


def _check_blocks():
    blocks = _all_blocks()
    if blocks is not None and blocks > SNAPSHOT_BLOCKS_MAX:
        raise ValueError("%d blocks are more than %d" % (blocks, SNAPSHOT_BLOCKS_MAX))


def _may_mark():
    if "history" in hook["flags"]:
        return True
    blocks = _all_blocks()
    return blocks is not None and blocks <= MARK_BLOCKS_MAX


def _ask_snapshot(variants):
    """None: it cannot be asked so."""
    snapshot = getattr(torch._C, "_cuda_memorySnapshot", None)
    for arguments in variants if snapshot is not None else ():
        try:
            return _ask(snapshot, *arguments)
        except Busy:
            raise
        except (TypeError, RuntimeError):  # of another version
            pass
    return None


def _segments_and_freed():
    """{(device, address)} of what was freed in the window; None: not known."""
    found = _ask_snapshot(SNAPSHOT_WITH_EVENTS) if window is not None and window.since is not None else None
    if found is None:
        return _segments(), None
    return found["segments"], KEPT["freed_in"](found["device_traces"])


def _record_events(entries):
    """The allocator's own notes, unless the program has them made. None: no more. False: this PyTorch cannot leave out what
    nobody reads, or would write a warning when another thread ends them (2.10)."""
    is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    if entries is None:
        _ask(_history_call(None), None, "all", "all", HISTORY_ENTRIES, False, False, False, [])
        return True
    real = _history_call(None)
    if real is None or is_on is None or is_on():
        return False
    try:
        _ask(real, "all", None, "python", entries, False, False, True, ["alloc", "free_requested"])
    except TypeError:
        return False
    _history_call(real)
    return True


def _history_call(replaced):
    """PyTorch's function that turns the notes on and off. While they are ours, a call of the program first ends them: from
    there on they are its own. None: that one itself is back in its place."""
    global history_call
    if replaced is None:
        if history_call is not None:
            torch._C._cuda_record_memory_history, history_call = history_call, None
        return getattr(torch._C, "_cuda_record_memory_history", None)

    def by_program(*arguments, **named):
        hook["guarded"]("notes of the allocator", window.end)
        window.since = None
        return replaced(*arguments, **named)

    history_call = replaced
    torch._C._cuda_record_memory_history = by_program
    return replaced


def _segments():
    """Without the allocations of the past, where PyTorch can leave them out."""
    found = _ask_snapshot(SNAPSHOT_ARGUMENTS) if asker is not None else None
    if found is not None:
        return found["segments"]
    try:
        return torch.cuda.memory.memory_snapshot(include_traces=False)
    except TypeError:
        return torch.cuda.memory.memory_snapshot()


def _mark():
    now_ns = hook["monotonic_ns"]()
    data = BLOCKS["mark_rows"](now_ns, _segments()).encode("utf-8", "backslashreplace")
    if data:
        hook["append"]("%d.live.csv" % hook["getpid"](), data, MARKS_BYTES_MAX)


def _start_sampler():
    global sampler, kept, window, KEPT
    KEPT = hook["_load"]("rocmcrash_kept")
    kept = KEPT["Kept"]()
    window = KEPT["Window"](_record_events)
    sampling = hook["sampling"]()
    sampler = sampling["Sampler"](_look, lambda: ["%d.torch.csv" % hook["getpid"]()])
    sampling["watch"](sampler)
    sampler.start()


def _pause_s(now_ns):
    """Behind one slow sample none. Behind several, until they are a small share of the time."""
    global burst_ns, last_look_ns
    since_ns = now_ns - (last_look_ns or now_ns)
    burst_ns = min(BURST_NS, burst_ns + since_ns // PAUSE_SHARE) - held_ns
    last_look_ns = now_ns
    return max(0, -burst_ns) * PAUSE_SHARE / 1e9


def _look():
    global looks, held_ns
    looks += 1
    room = True
    start_ns = hook["monotonic_ns"]()
    try:
        room = _sample(looks % UNUSED_EVERY == 1)
        _mark_in_time()
        _keep_in_time()
    except Busy:  # the question has held the GIL until it was refused
        held_ns = hook["monotonic_ns"]() - start_ns
        sampler.at_most_s = None
    sampler.pause_s = _pause_s(hook["monotonic_ns"]())
    return "go on" if room else "full"
