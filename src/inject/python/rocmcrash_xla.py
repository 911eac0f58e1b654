# SPDX-License-Identifier: Apache-2.0
"""What the allocators of JAX and TensorFlow know: executed by rocmcrash_hook when one of them has been imported.

Nothing is initialised here. JAX puts its backends into a dictionary when it makes them: that one says so. TensorFlow's
context is looked at from a thread that ends when there is no GPU in it. Then the counters are sampled,
and written once more at an uncaught exception, while the memory is still there.
"""
import sys
import time  # of Python's own start

RECORD_BYTES_MAX = 1 << 20
SAMPLES_BYTES_MAX = 1 << 20
SLICE_BYTES = 8 << 10
PERIODS = ((10, 0.1), (60, 0.25))  # (until this age in s, the period); later once a second
PERIOD_MAX_S = 120.0
THREAD_END_MS = 200
DEVICES_MAX = 64
HOST_PLATFORMS = ("cpu", "interpreter")

# of memory_stats(); a build that does not count something leaves its cell empty
KEYS = ("bytes_in_use", "peak_bytes_in_use", "bytes_limit", "largest_alloc_size", "num_allocs", "pool_bytes",
        "largest_free_block_bytes")

hook = {}  # globals of rocmcrash_hook
frameworks = {}  # name: Jax or TensorFlow
sampler = None
owner = 0  # the process that has the devices; a fork has not


def install(module, hook_names):
    """`module` has been imported: jax or tensorflow."""
    global hook
    hook = hook_names
    name = module.__name__
    hook["event"](name, version=str(getattr(module, "__version__", "")))
    frameworks[name] = {"jax": Jax, "tensorflow": TensorFlow}[name]()
    try:
        frameworks[name].watch()
    except BaseException:
        del frameworks[name]
        raise


class Noticed(dict):
    """JAX's own dictionary of backends, but for saying when one comes in."""

    def __setitem__(self, name, backend):
        dict.__setitem__(self, name, backend)
        _guarded("jax backend", _backend_is_there, name, backend)


def _backend_is_there(name, backend):
    """Called while JAX holds its lock: asks nothing of JAX."""
    hook["event"]("jax backend", platform=str(name))
    if str(name) not in HOST_PLATFORMS:
        _start_sampler()


class Jax:
    counts = False  # the last look found counters

    def __init__(self):
        self.bridge = sys.modules["jax._src.xla_bridge"]

    def watch(self):
        known = self.bridge._backends
        if type(known) is not dict:
            raise TypeError("jax._src.xla_bridge._backends is a " + type(known).__name__)
        self.bridge._backends = Noticed(known)
        for name, backend in list(known.items()):
            _backend_is_there(name, backend)

    def pending(self):
        return False

    def devices(self):
        """(number, device) of all that are not the host."""
        found = []
        for name, backend in list(self.bridge._backends.items()):
            if str(name) not in HOST_PLATFORMS:
                found += [(getattr(d, "local_hardware_id", None) or 0, d) for d in backend.local_devices()]
        return found[:DEVICES_MAX]

    def all_stats(self):
        found = {}
        for number, device in self.devices():
            stats = device.memory_stats()
            if stats:
                found[number] = stats
        return found

    def describe(self):
        devices = self.devices()
        platforms = ",".join([str(name) for name in list(self.bridge._backends)])
        return {"platforms": platforms, "devices": len(devices),
                "kind": str(getattr(devices[0][1], "device_kind", "")) if devices else ""}


class TensorFlow:
    counts = False

    def __init__(self):
        self.module = sys.modules["tensorflow.python.eager.context"]
        self.gpus = None  # names of the logical devices, once the program has initialised them

    def watch(self):
        if not hasattr(self.module, "_context"):
            raise AttributeError("tensorflow.python.eager.context has no _context")
        _start_sampler()

    def pending(self):
        """May there still be a GPU?"""
        if self.gpus is None:
            context = self.module._context
            if context is not None and getattr(context, "_initialized", False):
                devices = context._logical_devices or ()
                self.gpus = [str(d.name).rpartition("/device:")[2] for d in devices if d.device_type == "GPU"]
                hook["event"]("tensorflow context", gpus=len(self.gpus))
        return self.gpus is None or bool(self.gpus)

    def all_stats(self):
        found = {}
        if self.pending() and self.gpus:
            for name in self.gpus[:DEVICES_MAX]:
                info = self.module._context.get_memory_info(name)
                found[int(name.rpartition(":")[2])] = {"bytes_in_use": info["current"],
                                                        "peak_bytes_in_use": info["peak"]}
        return found

    def describe(self):
        return {"devices": len(self.gpus or ())}


def _guarded(where, step, *arguments):
    """An exception of ours never reaches the program; its user's Ctrl-C is not lost in here."""
    try:
        return step(*arguments)
    except KeyboardInterrupt:
        hook["_thread"].interrupt_main()
    except BaseException as error:
        hook["trouble"](where, error)
    return None


# --- at an uncaught exception ---

def _record(name, framework):
    stats = framework.all_stats()
    if not stats:
        return
    record = {"format": 1, "t": hook["monotonic_ns"](), "pid": hook["getpid"](), "framework": name}
    record.update(framework.describe())
    record["stats"] = {number: {key: int(value) for key, value in found.items() if type(value) is int}
                       for number, found in stats.items()}
    record["stacks"] = hook["stacks"]()
    data = hook["encode"](record).encode()
    if len(data) > RECORD_BYTES_MAX:
        record["stacks"] = record["stacks"][:1]
        data = hook["encode"](record).encode()
    hook["replace"]("%d.%s.json" % (record["pid"], name), data + b"\n")


def at_exception():
    """The program ends by an uncaught exception; its memory is still there."""
    if owner not in (0, hook["getpid"]()):
        return
    for name, framework in frameworks.items():
        _guarded(name, _record, name, framework)
    _guarded("sample", _sample)


# --- the series ---

def _row(now_ns, number, stats, took_us):
    values = [now_ns, number] + [stats.get(key) for key in KEYS] + [took_us]
    return ",".join(["" if value is None else str(value) for value in values]) + "\n"


def _sample():
    """False: a file is full. A framework that fails is told of once and left alone."""
    room = True
    for name, framework in list(frameworks.items()):
        now_ns = hook["monotonic_ns"]()
        try:
            stats = framework.all_stats()
        except Exception as error:
            del frameworks[name]
            hook["trouble"](name, error)
            continue
        framework.counts = bool(stats)
        took_us = (hook["monotonic_ns"]() - now_ns) // 1000
        rows = "".join([_row(now_ns, number, found, took_us) for number, found in stats.items()])
        if rows and not hook["append"]("%d.%s.csv" % (hook["getpid"](), name), rows.encode(), SAMPLES_BYTES_MAX):
            room = False
    return room


def _is_of_use():
    """Is there a device to be sampled, or one that may still come?"""
    return any([framework.counts or framework.pending() for framework in list(frameworks.values())])


class Sampler:
    """One thread, at most one. `stop` returns when the kernel knows it no more: from Python 3.12 on
    a fork beside another thread prints a warning."""

    def __init__(self):
        self.wake = hook["allocate_lock"]()
        self.wake.acquire()
        self.began_ns = hook["monotonic_ns"]()
        self.native_id = 0
        self.running = False
        self.stretch = 1.0

    def start(self):
        if not self.running:
            self.native_id = 0
            self.running = True
            hook["start_new_thread"](self._run, ())

    def stop(self):
        """True: it was there."""
        if not self.running:
            return False
        try:
            self.wake.release()
        except RuntimeError:
            pass
        for _ in range(THREAD_END_MS * 10):
            if not self.running and not self._is_known():
                break
            time.sleep(0.0001)
        self.wake.acquire(False)
        return True

    def _is_known(self):
        try:
            hook["posix"].stat("/proc/self/task/%d" % self.native_id)
            return self.native_id != 0
        except OSError:
            return False

    def _period(self):
        age_s = (hook["monotonic_ns"]() - self.began_ns) / 1e9
        for until_s, period_s in PERIODS:
            if age_s < until_s:
                return period_s * self.stretch
        return min(self.stretch, PERIOD_MAX_S)

    def _run(self):
        try:
            self.native_id = hook["_thread"].get_native_id()
            while not self.wake.acquire(timeout=self._period()):
                if not _sample():
                    self._thin()
                if not _is_of_use():
                    break
        except BaseException as error:
            hook["trouble"]("sampler", error)
        finally:
            self.running = False

    def _thin(self):
        """A file is full: every second sample goes."""
        for name in frameworks:
            _guarded("sampler", self._thin_file, "%d.%s.csv" % (hook["getpid"](), name))
        self.stretch *= 2

    @staticmethod
    def _thin_file(name):
        posix = hook["posix"]
        rest, stamp, keep = b"", b"", False
        source = posix.open(hook["directory"] + "/" + name, posix.O_RDONLY | posix.O_CLOEXEC)
        target = hook["open_file"](name + ".part", posix.O_TRUNC)
        try:
            while True:
                data = posix.read(source, SLICE_BYTES)
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                kept = []
                for line in lines:  # a sample has a row for each device, all with its time
                    before, stamp = stamp, line.partition(b",")[0]
                    keep = keep if stamp == before else not keep
                    if keep:
                        kept.append(line + b"\n")
                hook["write_all"](target, b"".join(kept))
                if not data:
                    break
                time.sleep(0.002)
            posix.rename(hook["directory"] + "/" + name + ".part", hook["directory"] + "/" + name)
        finally:
            posix.close(source)
            posix.close(target)


def _start_sampler():
    global sampler, owner
    if sampler is None:
        owner = hook["getpid"]()
        sampler = Sampler()
        _watch_forks_and_exit()
    if owner == hook["getpid"]():
        sampler.start()


# --- forks and the end ---

def _watch_forks_and_exit():
    stopped = []

    def before():
        if owner == hook["getpid"]() and _guarded("fork", sampler.stop):
            stopped.append(True)

    def after_here():
        if stopped:
            stopped.clear()
            _guarded("fork", sampler.start)

    def at_exit():
        if owner == hook["getpid"]():
            _guarded("exit", sampler.stop)

    hook["posix"].register_at_fork(before=before, after_in_parent=after_here, after_in_child=stopped.clear)
    if "atexit" in sys.modules:  # both have imported it: a thread that comes for the GIL too late is ended
        sys.modules["atexit"].register(at_exit)
