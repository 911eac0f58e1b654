# SPDX-License-Identifier: Apache-2.0
"""Reads the allocators of JAX, TensorFlow, CuPy and ONNX Runtime. rocmcrash_hook executes it when one of them has been
imported.

Nothing is initialised here. JAX puts its backends into a dictionary when it makes them: that one says so. TensorFlow's
context is looked at from a thread that ends when there is no GPU in it. CuPy's pool has no devices before the program
allocates. Then the counters are sampled, and written once more at an uncaught exception, while the memory is still
there; CuPy's when it refuses, before the exception unwinds. ONNX Runtime tells Python nothing of its arena: what its
sessions were given is written at an exception of its own.
"""
import sys

RECORD_BYTES_MAX = 1 << 20
SAMPLES_BYTES_MAX = 1 << 20
VERSION_MAX = 200
DEVICES_MAX = 64
HOST_PLATFORMS = ("cpu", "interpreter")
PAUSE_SHARE = 50  # a sample may hold the GIL for 1/50 of the time
REFUSALS_APART_NS = 1000000000  # a program may try again and again: minimum time between two records of refusals
MODEL_ENDS = 4096  # bytes at either end of a model; models with equal ends count as the same

# keys of memory_stats(); a value that the build does not count leaves its cell empty
KEYS = ("bytes_in_use", "peak_bytes_in_use", "bytes_limit", "largest_alloc_size", "num_allocs", "pool_bytes",
        "largest_free_block_bytes")

hook = {}  # globals of rocmcrash_hook
frameworks = {}  # name: Jax, TensorFlow, CuPy or OnnxRuntime
sampler = None
owner = 0  # the process that owns the devices; a forked child does not
held_ns = 0  # how long the last look held the GIL


def install(module, hook_names):
    """`module` has been imported."""
    global hook
    hook = hook_names
    name = module.__name__
    hook["guarded"]("version of " + name, hook["event"], name,
                    version=str(getattr(module, "__version__", ""))[:VERSION_MAX])
    frameworks[name] = KINDS[name]()
    try:
        frameworks[name].watch()
    except BaseException:
        del frameworks[name]
        raise


class Noticed(dict):
    """JAX's own dictionary of backends, but for saying when one comes in."""

    def __setitem__(self, name, backend):
        dict.__setitem__(self, name, backend)
        hook["guarded"]("jax backend", _backend_is_there, name, backend)


def _backend_is_there(name, backend):
    """Called while JAX holds its lock: asks nothing of JAX."""
    hook["event"]("jax backend", platform=str(name))
    if str(name) not in HOST_PLATFORMS:
        _start_sampler()


class Framework:
    counts = False  # the last look found counters
    holds_gil = False  # while it is asked

    def pending(self):
        """May there still be a device?"""
        return False

    def all_stats(self):
        """{device: counters named as KEYS}"""
        return {}

    def describe(self):
        return {}

    def record(self, error, tb):
        """The record for an uncaught exception, or None."""
        stats = self.all_stats()
        return {**self.describe(), "stats": _integers_of(stats)} if stats else None


class Jax(Framework):
    def __init__(self):
        self.bridge = sys.modules["jax._src.xla_bridge"]

    def watch(self):
        known = self.bridge._backends
        if type(known) is not dict:
            raise TypeError("jax._src.xla_bridge._backends is a " + type(known).__name__)
        self.bridge._backends = Noticed(known)
        for name, backend in list(known.items()):
            _backend_is_there(name, backend)

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


class TensorFlow(Framework):
    def __init__(self):
        self.module = sys.modules["tensorflow.python.eager.context"]
        self.gpus = None  # names of the logical devices, once the program has initialised them

    def watch(self):
        if not hasattr(self.module, "_context"):
            raise AttributeError("tensorflow.python.eager.context has no _context")
        _start_sampler()

    def pending(self):
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


class CuPy(Framework):
    """The pool of the allocator that all threads share. MemoryPool's own methods ask the runtime which device is the
    current one; the pools of the devices, which it holds, do not. Older ones go through all blocks in use."""
    holds_gil = True

    def __init__(self):
        self.memory = sys.modules["cupy.cuda.memory"]
        self.gc = hook["builtin"]("gc")
        self.used = set()  # devices on which something has been allocated
        self.refusals = 0
        self.unwritten = None  # the last refusal, if another had just been written
        self.written_ns = 0

    def watch(self):
        hook["guarded"]("refusals of cupy", self._watch_refusals)
        _start_sampler()

    def pending(self):
        return True

    def all_stats(self):
        found = {}
        for number, pool in self._pools()[:DEVICES_MAX]:
            total = pool.total_bytes()
            if total or number in self.used:
                self.used.add(number)
                found[number] = {"bytes_in_use": pool.used_bytes(), "pool_bytes": total,
                                 "bytes_limit": pool.get_limit() or None}
        return found

    def _pools(self):
        """(device, its pool): a tuple or a dictionary of them, none before the first allocation."""
        own = getattr(self.memory.get_allocator(), "__self__", None)
        if type(own) is self.memory.MemoryPool:
            for held in self.gc.get_referents(own):
                if type(held) is tuple or isinstance(held, dict):
                    return list(held.items() if isinstance(held, dict) else enumerate(held))
        return []

    def describe(self):
        own = getattr(self.memory.get_allocator(), "__self__", None)
        return {"devices": len(self.used), "allocator": type(own).__name__}

    def _watch_refusals(self):
        """The exception is made when the pool has given up, and before anything unwinds."""
        kind = self.memory.OutOfMemoryError
        original = kind.__init__

        def __init__(error, *arguments, **names):
            hook["guarded"]("refusal of cupy", self._refused, *arguments, **names)
            original(error, *arguments, **names)

        kind.__init__ = hook["_alike"](__init__, original)

    def _refused(self, size, total, limit=0):
        if owner != hook["getpid"]():
            return
        self.refusals += 1
        now_ns = hook["monotonic_ns"]()
        stats = _integers_of(self.all_stats())
        device = next((number for number, found in stats.items() if found["pool_bytes"] == total), None)
        refused = {"t": now_ns, "requested": int(size), "pool_bytes": int(total), "limit": int(limit),
                   "device": device, "count": self.refusals}
        self.unwritten = {**self.describe(), "stats": stats, "refused": refused}
        if self.written_ns == 0 or now_ns - self.written_ns >= REFUSALS_APART_NS:
            self.written_ns = now_ns
            _write("cupy", self.unwritten)
            self.unwritten = None

    def record(self, error, tb):
        return self.unwritten if self.refusals else Framework.record(self, error, tb)


class OnnxRuntime(Framework):
    def watch(self):
        pass

    def record(self, error, tb):
        """Only where the exception is its own: the objects of the program have to be looked at."""
        if not _is_of(error, "onnxruntime"):
            return None
        session = sys.modules["onnxruntime"].InferenceSession
        alive = [each for each in hook["builtin"]("gc").get_objects() if session in type(each).__mro__]
        alive = [each for each in alive if getattr(each, "_sess", None) is not None]
        return {"sessions": len(alive), "models": len({_model_of(each) for each in alive}),
                **_of_failing_session(session, tb)}


def _is_of(error, module):
    seen = 0
    while error is not None and seen < hook["CHAIN_MAX"]:
        if str(type(error).__module__).partition(".")[0] == module:
            return True
        cause = hook["field_of"](error, "__cause__")
        error = cause if cause is not None else hook["field_of"](error, "__context__")
        seen += 1
    return False


def _model_of(session):
    data = getattr(session, "_model_bytes", None)
    if type(data) is bytes:
        return (len(data), data[:MODEL_ENDS], data[-MODEL_ENDS:])
    return str(getattr(session, "_model_path", id(session)))


def _of_failing_session(session, tb):
    """Was it being made or run, and the options of its providers: of the innermost call of a session."""
    found = {}
    while tb is not None:
        names = tb.tb_frame.f_locals
        own = names.get("self")
        if session in type(own).__mro__:
            making = getattr(own, "_sess", None) is None
            given = names.get("provider_options") if making else getattr(own, "_provider_options", None)
            kinds = names.get("providers") if making else None
            found = {"running": not making}
            if isinstance(given, dict):
                kinds, given = list(given), list(given.values())
            if isinstance(given, (list, tuple)) and isinstance(kinds, (list, tuple)) and len(given) == len(kinds):
                found["options"] = {str(kind): {str(key): str(value) for key, value in dict(each).items()}
                                    for kind, each in zip(kinds, given)}
        tb = tb.tb_next
    return found


KINDS = {"jax": Jax, "tensorflow": TensorFlow, "cupy": CuPy, "onnxruntime": OnnxRuntime}


# --- records ---

def _integers_of(stats):
    return {number: {key: int(value) for key, value in found.items() if type(value) is int}
            for number, found in stats.items()}


def _write(name, values):
    record = {"format": 1, "t": hook["monotonic_ns"](), "pid": hook["getpid"](), "framework": name, **values}
    record["stacks"] = hook["stacks"](hook["_thread"].get_ident())
    data = hook["encode"](record).encode()
    if len(data) > RECORD_BYTES_MAX:
        record["stacks"] = record["stacks"][:1]
        data = hook["encode"](record).encode()
    hook["replace"]("%d.%s.json" % (record["pid"], name), data + b"\n")


def _record(name, framework, error, tb):
    values = framework.record(error, tb)
    if values is not None:
        _write(name, values)


def at_exception(error, tb):
    """The program ends by an uncaught exception; its memory is still there."""
    if owner not in (0, hook["getpid"]()):
        return
    for name, framework in list(frameworks.items()):
        hook["guarded"](name, _record, name, framework, error, tb)
    hook["guarded"]("sample", _sample)


# --- the series ---

def _row(now_ns, number, stats, took_us):
    values = [now_ns, number] + [stats.get(key) for key in KEYS] + [took_us]
    return ",".join(["" if value is None else str(value) for value in values]) + "\n"


def _sample():
    """False: a file is full. A framework that fails is told of once and left alone."""
    global held_ns
    held_ns = 0
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
        took_ns = hook["monotonic_ns"]() - now_ns
        took_us = took_ns // 1000
        held_ns += took_ns if framework.holds_gil else 0
        rows = "".join([_row(now_ns, number, found, took_us) for number, found in stats.items()])
        if rows and not hook["append"]("%d.%s.csv" % (hook["getpid"](), name), rows.encode(), SAMPLES_BYTES_MAX):
            room = False
    return room


def _look():
    room = _sample()
    sampler.pause_s = held_ns * PAUSE_SHARE / 1e9
    if not any([framework.counts or framework.pending() for framework in list(frameworks.values())]):
        return "end"  # there is no device, and none can come
    return "go on" if room else "full"


def _start_sampler():
    global sampler, owner
    if sampler is None:
        sampling = hook["sampling"]()
        owner = hook["getpid"]()
        sampler = sampling["Sampler"](_look, lambda: ["%d.%s.csv" % (owner, name) for name in frameworks])
        sampling["watch"](sampler)
    if owner == hook["getpid"]():
        sampler.start()
