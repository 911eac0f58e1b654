# SPDX-License-Identifier: Apache-2.0
"""What the allocators of JAX and TensorFlow know: executed by rocmcrash_hook when one of them has been imported.

Nothing is initialised here. JAX puts its backends into a dictionary when it makes them: that one says so. TensorFlow's
context is looked at from a thread that ends when there is no GPU in it. Then the counters are sampled,
and written once more at an uncaught exception, while the memory is still there.
"""
import sys

RECORD_BYTES_MAX = 1 << 20
SAMPLES_BYTES_MAX = 1 << 20
VERSION_MAX = 200
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
    hook["guarded"]("version of " + name, hook["event"], name,
                    version=str(getattr(module, "__version__", ""))[:VERSION_MAX])
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
        hook["guarded"]("jax backend", _backend_is_there, name, backend)


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


# --- at an uncaught exception ---

def _record(name, framework):
    stats = framework.all_stats()
    if not stats:
        return
    record = {"format": 1, "t": hook["monotonic_ns"](), "pid": hook["getpid"](), "framework": name}
    record.update(framework.describe())
    record["stats"] = {number: {key: int(value) for key, value in found.items() if type(value) is int}
                       for number, found in stats.items()}
    record["stacks"] = hook["stacks"](hook["_thread"].get_ident())
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
        hook["guarded"](name, _record, name, framework)
    hook["guarded"]("sample", _sample)


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


def _look():
    room = _sample()
    if not any([framework.counts or framework.pending() for framework in list(frameworks.values())]):
        return "end"  # there is no device, and none may still come
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
