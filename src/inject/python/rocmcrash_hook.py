# SPDX-License-Identifier: Apache-2.0
"""The hook in every Python of the target: what must be there from the first line on.

Writes below the run directory (README.md beside this file says what), imports nothing that Python
has not imported itself at its start, and takes everything else from the program's own modules
once they are loaded. Nothing here may raise, print, or leave a name in sys.modules.

It is one file on purpose: every Python of the target reads it at its start, and a second file would cost each of them
another open and read.
"""
import _signal
import _thread
import posix
import sys
import time

EVENTS_BYTES_MAX = 4 << 20
RECORD_BYTES_MAX = 256 << 10
TEXT_MAX = 4096
FRAMES_MAX = 64
THREADS_MAX = 256
CHAIN_MAX = 4
PLAIN = (str, int, float, bool, bytes, type(None))  # as text they run no code of the program
TROUBLES_MAX = 100
FAULTS_FD = 4000  # far above what programs use; each fork copies the table up to it
STACKS_SIGNAL = 58  # a real-time signal; faulthandler writes all threads' stacks when it comes
FATAL_SIGNALS = (4, 6, 7, 8, 11)  # those that faulthandler takes

# Modules whose import means that native code will run.
NATIVE = frozenset(("torch", "numpy", "jax", "jaxlib", "tensorflow", "cupy", "triton", "vllm",
                    "llama_cpp", "onnxruntime"))

# Kept here because a program may replace them (gevent, tests).
allocate_lock = _thread.allocate_lock
start_new_thread = _thread.start_new_thread
monotonic_ns = time.monotonic_ns
sleep = time.sleep
getpid = posix.getpid

# Troubles that could not be written into the run directory, for the manifest (hook_trouble of
# record/shared.h).
SLOTS = 8
SLOT_BYTES = 256
S_IFREG = 0o100000

OWN = "<rocmcrash_"  # prefix of our files' names in Python
EFBIG = 27
SIGXFSZ = 25

folder = ""  # of the hook's own files
directory = ""  # <run directory>/hook
supervisor = 0
flags = ()
memory = ""  # "12+4096": the supervisor's descriptor of the run's memory, and where in it
told = set()  # troubles, a line each
untold = {}  # those that are not in the file of events, by their place
too_deep = []  # places where the program had left no room for our frames
watching_signals = False
sampler = None  # globals of rocmcrash_sampler.py
torch = None  # globals of rocmcrash_torch.py, once PyTorch is loaded
pools = None  # globals of rocmcrash_pools.py, once JAX, TensorFlow, CuPy or ONNX Runtime is loaded


# --- writing ---

def _text(value):
    """A JSON string."""
    out = ['"']
    for char in value:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        elif code < 0x10000:
            out.append("\\u%04x" % code)
        else:
            code -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff)))
    out.append('"')
    return "".join(out)


def encode(value):
    """JSON of None, bool, int, float, str, list, tuple and dict; anything else is its type's name."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return repr(value) if value == value and value not in (float("inf"), -float("inf")) else "null"
    if kind is list or kind is tuple:
        return "[" + ",".join([encode(item) for item in value]) + "]"
    if isinstance(value, dict):
        return "{" + ",".join([_text(str(key)) + ":" + encode(item)
                               for key, item in value.items()]) + "}"
    return _text(kind.__name__)


def make_directory():
    """The recorder makes the run directory when a run is older than 100 ms; a Python may be faster.
    Not after the run: then the directory has been removed for good."""
    try:
        posix.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        posix.stat("/proc/%d" % supervisor)
        try:
            posix.mkdir(directory.rpartition("/")[0], 0o700)
        except FileExistsError:
            pass
        try:
            posix.mkdir(directory, 0o700)
        except FileExistsError:
            pass


def _check_size_limit():
    """Python ignores SIGXFSZ. A program that does not would be ended where a file of ours becomes too large."""
    if _signal.getsignal(SIGXFSZ) == _signal.SIG_IGN:
        return
    fd = posix.open("/proc/self/limits", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        text = posix.read(fd, 4096)
    finally:
        posix.close(fd)
    if text.partition(b"Max file size")[2].split()[:1] != [b"unlimited"]:
        raise OSError(EFBIG, "the size of files is limited, and the program has a handler for that")


def open_file(name, mode):
    _check_size_limit()
    # a pipe that somebody laid there is refused (ENXIO) instead of waited for
    flags_ = (posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK | mode)
    path = directory + "/" + name
    try:
        return posix.open(path, flags_, 0o600)
    except FileNotFoundError:
        make_directory()
        return posix.open(path, flags_, 0o600)


def write_all(fd, data):
    while data:
        data = data[posix.write(fd, data):]


def append(name, data, limit):
    """One write, so that what others append does not tear it. False: the file is full."""
    fd = open_file(name, posix.O_APPEND)
    try:
        if posix.fstat(fd).st_size + len(data) > limit:
            return False
        return posix.write(fd, data) == len(data)
    finally:
        posix.close(fd)


def replace(name, data):
    """The whole file or none of it."""
    part = "%s.%d.part" % (name, _thread.get_ident())
    fd = open_file(part, posix.O_TRUNC)
    try:
        try:
            write_all(fd, data)
        finally:
            posix.close(fd)
        posix.rename(directory + "/" + part, directory + "/" + name)
    except BaseException:
        posix.unlink(directory + "/" + part)
        raise


def event(what, **values):
    """A line of the file `events`: {"t": CLOCK_MONOTONIC ns, "pid":, "what":, ...}."""
    while too_deep:
        where = too_deep.pop()
        trouble(where, RecursionError("the program had used up the recursion limit"))
    record = {"t": monotonic_ns(), "pid": getpid(), "what": what}
    record.update(values)
    data = (encode(record) + "\n").encode()
    if len(data) > RECORD_BYTES_MAX:
        raise ValueError("a record of %d bytes is too long" % len(data))
    if not append("events", data, EVENTS_BYTES_MAX):
        raise ValueError("the file of events is full")


def trouble(where, error):
    """Something of ours did not work: for the manifest, nobody else is told."""
    try:
        text = _described(where, error)
        if text in told or len(told) == TROUBLES_MAX:  # a program may fail again and again for weeks
            return
        told.add(text)
        try:
            event("trouble", where=where, error=text[len(where) + 2:])
        except Exception:
            _tell_without_disk(where, text)
    except RecursionError:
        too_deep.append(where)
    except Exception:
        pass


def _described(where, error):
    try:
        message = str(getattr(error, "strerror", None) or error)[:TEXT_MAX]  # without our own file's name
    except Exception:
        message = ""
    return ("%s: %s: %s" % (where, type(error).__name__, message)).rstrip(": ")


def _tell_without_disk(where, text):
    """A disk may be full or gone, no descriptor left, an audit hook may forbid to open anything."""
    untold[where] = text
    try:
        _tell_in_memory("; ".join(untold.values()))
    except Exception:
        name = "%d.trouble.%s" % (getpid(), text.replace("/", "_").encode("ascii", "replace").decode())
        posix.mknod(directory + "/" + name[:200], S_IFREG | 0o600)


def _check_memory(path):
    """The supervisor may be gone, and its number another's."""
    if posix.readlink(path) != "/memfd:rocmcrash (deleted)":
        raise FileNotFoundError(path)


def _tell_in_memory(text):
    data = ("%d %s" % (getpid(), text)).encode("utf-8", "backslashreplace")[:SLOT_BYTES - 1]
    write_slot(int(memory.partition("+")[2]), SLOT_BYTES, data)


def write_slot(at, size, data):
    """Into the run's memory, where each process has one of SLOTS slots of `size` bytes from `at` on."""
    _check_size_limit()
    number = memory.partition("+")[0]
    path = "/proc/%d/fd/%d" % (supervisor, int(number))
    _check_memory(path)
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    try:
        _check_memory("/proc/self/fd/%d" % fd)
        posix.pwrite(fd, data.ljust(size, b"\0"), at + getpid() % SLOTS * size)
    finally:
        posix.close(fd)


def from_program(error):
    """Is it the program's own? Its signal handlers run wherever the main thread is, also in here."""
    if not isinstance(error, Exception):
        return True  # KeyboardInterrupt, SystemExit: our code raises neither
    return handled_signal(error) != 0


def interrupted(where, error):
    trouble(where, InterruptedError("by the program's own " + type(error).__name__))


def handled_signal(error):
    """The number of the signal whose handler raised it, 0 = none did."""
    codes = set()
    tb = field_of(error, "__traceback__")
    while tb is not None:
        codes.add(tb.tb_frame.f_code)
        tb = tb.tb_next
    for number in range(1, _signal.NSIG):
        try:
            handler = _signal.getsignal(number)
        except ValueError:
            continue
        handler = getattr(handler, "__func__", handler)
        if getattr(handler, "__code__", None) in codes:
            return number
    return 0


def guarded(where, step, *arguments, **values):
    """An exception of ours never reaches the program, and one of its own is not lost in here."""
    try:
        return step(*arguments, **values)
    except RecursionError as error:
        try:
            trouble(where, error)
        except RecursionError:
            too_deep.append(where)
    except BaseException as error:
        if from_program(error):
            interrupted(where, error)
            raise
        trouble(where, error)
    return None


# --- stacks and exceptions ---

def frames_of(frame):
    """Innermost first, without ours."""
    out = []
    while frame is not None and len(out) < FRAMES_MAX:
        code = frame.f_code
        if not code.co_filename.startswith(OWN):
            out.append([code.co_filename[:TEXT_MAX], frame.f_lineno or 0, code.co_name[:TEXT_MAX]])
        frame = frame.f_back
    return out


def stacks(own):
    """All threads but ours, thread `own` first."""
    found = sys._current_frames()
    order = [own] + [ident for ident in found if ident != own]
    out = []
    for ident in order[:THREADS_MAX]:
        frames = frames_of(found.get(ident))
        if frames:
            out.append({"thread": ident, "current": ident == own, "frames": frames})
    return out


def _traceback(tb):
    """Innermost first, as frames_of()."""
    out = []
    while tb is not None:
        code = tb.tb_frame.f_code
        out.append([code.co_filename[:TEXT_MAX], tb.tb_lineno or 0, code.co_name[:TEXT_MAX]])
        if len(out) > 4 * FRAMES_MAX:
            del out[FRAMES_MAX // 2:FRAMES_MAX]
        tb = tb.tb_next
    return out[::-1][:FRAMES_MAX]


def field_of(error, name):
    """As the interpreter reads it: a class of the program may have code of its own under that name."""
    return BaseException.__dict__[name].__get__(error)


def _is_own_code(value):
    """Whether str(value) would run a function of the program: it could do anything, and Python is about to run it itself."""
    for base in type.mro(type(value)):
        if "__str__" in base.__dict__:
            return type(base.__dict__["__str__"]) is type(_is_own_code)
    return False


def _message(value):
    if not _is_own_code(value) and all([type(each) in PLAIN for each in field_of(value, "args")]):
        return str(value)[:TEXT_MAX]
    return ", ".join([str(each) for each in field_of(value, "args") if type(each) in PLAIN])[:TEXT_MAX]


def _describe(kind, value, tb):
    try:
        message = _message(value)
    except Exception:
        message = ""
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", "?")
    if module not in ("builtins", "__main__"):
        name = "%s.%s" % (module, name)
    return {"type": name, "message": message, "frames": _traceback(tb)}


def cause_of(error):
    cause = field_of(error, "__cause__")
    return cause if cause is not None or field_of(error, "__suppress_context__") else field_of(error, "__context__")


def chain_of(kind, value, tb):
    """The exception, then what it came of."""
    chain = []
    seen = set()
    error = value
    while isinstance(error, BaseException) and len(chain) < CHAIN_MAX and id(error) not in seen:
        seen.add(id(error))
        chain.append(_describe(type(error), error, tb if error is value else field_of(error, "__traceback__")))
        error = cause_of(error)
    return chain or [_describe(kind, value, tb)]


def _is_plain(module):
    """A lazy module would be imported by the first look at it (importlib.util.LazyLoader)."""
    for base in type.mro(type(module)):
        if base is type(sys):
            return True
        if "__getattribute__" in base.__dict__:
            return False
    return False


def uncaught(kind, value, tb):
    chain = chain_of(kind, value, tb)
    event("exception", chain=chain)
    # Its message may be empty (MemoryError), or be printed where nobody reads it (2>own.log).
    if (isinstance(kind, type) and issubclass(kind, MemoryError)) or any("OutOfMemory" in link["type"] for link in chain):
        append("%d.oom.raised" % getpid(), b"\n", 4096)
    if torch is not None:
        torch["at_exception"]()
    for name in POOLS:  # imported after PyTorch, when imports were no longer watched
        if name in ARRIVALS and name in sys.modules and _is_plain(sys.modules[name]):
            _pool_is_there(sys.modules[name])
    if pools is not None:
        pools["at_exception"](value, tb)


def _alike(function, original):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, name, getattr(original, name, None))
    return function


def _watch_exceptions():
    """sys.__excepthook__ too: programs ask whether the one is still the other."""
    original = sys.excepthook
    if original is not sys.__excepthook__:
        return

    def excepthook(*arguments):
        try:
            uncaught(*arguments)
        except BaseException as error:
            trouble("exception", error)
        return original(*arguments)

    sys.excepthook = sys.__excepthook__ = _alike(excepthook, original)


# --- fatal signals ---

def _high_descriptor(fd):
    """The same file under a number that no program reuses when it closes and opens its own."""
    high = min(FAULTS_FD, posix.sysconf("SC_OPEN_MAX") - 24)
    while high > 255:
        try:
            posix.fstat(high)
        except OSError:
            posix.dup2(fd, high, False)
            posix.close(fd)
            return high
        high -= 1
    return fd


def _watch_signals():
    """Only where native code is at work: in a plain script handlers would be seen and of no use."""
    global watching_signals
    watching_signals = True
    try:
        _enable_faulthandler()
    except Exception as error:
        trouble("signals", error)


def builtin(name):
    """A module of the interpreter. Not by an import, where it can be: -X importtime would tell of it."""
    module = sys.modules.get(name)
    if module is None:
        bootstrap = sys.modules["_frozen_importlib"]
        spec = bootstrap.BuiltinImporter.find_spec(name)
        if spec is None:
            module = __import__(name)
        else:
            module = bootstrap.module_from_spec(spec)
            spec.loader.exec_module(module)
        sys.modules.pop(name, None)
    return module


def _handled_signals():
    """Numbers of the signals that the program catches or ignores; native code may do so, too, and Python does not know."""
    fd = posix.open("/proc/self/status", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        text = posix.read(fd, 1 << 14)
    finally:
        posix.close(fd)
    masks = [int(line.split()[1], 16) for line in text.split(b"\n") if line.startswith((b"SigCgt:", b"SigIgn:"))]
    return {number for number in range(1, 65) for mask in masks if mask >> number - 1 & 1}


def _enable_faulthandler():
    """faulthandler calls a former handler with another si_addr. One that mends its faults (WebAssembly, a JVM) could not."""
    faulthandler = builtin("faulthandler")
    if faulthandler.is_enabled():
        return
    handled = _handled_signals()
    fd = _high_descriptor(open_file("faults", posix.O_APPEND))
    if handled.isdisjoint(FATAL_SIGNALS):
        faulthandler.enable(file=fd, all_threads=True)
        if "faulthandler" in sys.modules:
            _answer_for_program(sys.modules["faulthandler"])
        else:
            sys.meta_path.insert(0, FaulthandlerFinder)
    if STACKS_SIGNAL not in handled:
        faulthandler.register(STACKS_SIGNAL, file=fd, all_threads=True, chain=False)


def _answer_for_program(module):
    """Programs ask is_enabled() before they enable faulthandler themselves. They have not, as far as they know."""
    own_enable, own_is_enabled = module.enable, module.is_enabled

    def enable(*arguments, **named):
        module.enable, module.is_enabled = own_enable, own_is_enabled
        return own_enable(*arguments, **named)

    def is_enabled():
        return False

    module.enable, module.is_enabled = _alike(enable, own_enable), _alike(is_enabled, own_is_enabled)


class FaulthandlerFinder:
    """Sees the program import faulthandler, once. If anything is not as expected, the next finder is asked."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "faulthandler":
            return None
        try:
            built_in = sys.modules["_frozen_importlib"].BuiltinImporter
            spec = built_in.find_spec(name)
            if spec is not None:
                spec.loader = FaulthandlerLoader(built_in)
                sys.meta_path.remove(FaulthandlerFinder)
        except Exception:
            return None
        return spec


class FaulthandlerLoader:
    def __init__(self, built_in):
        self.built_in, self.create_module = built_in, built_in.create_module

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.built_in
        self.built_in.exec_module(module)
        guarded("faulthandler", _answer_for_program, module)


# --- PyTorch and the others ---

class TorchFinder:
    """Sees torch, jax, threading and a few others being looked for; leaves when torch is imported. The loader stays
    the one that would have been found: only its instance is watched, and only while it works."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in NATIVE and not watching_signals:
            _watch_signals()
        if name not in ARRIVALS:
            return None
        try:
            spec = _spec_of(name, path, target)
        except Exception as error:  # the next finder raises it again, without our frames in its traceback
            if from_program(error):
                raise
            return None
        if spec is not None:
            guarded("import of " + name, _watch_loader, name, spec.loader)
        return spec


def _spec_of(name, path, target):
    """Asks the finders after ours: those before it have been asked."""
    finders = sys.meta_path
    for finder in finders[finders.index(TorchFinder) + 1:]:
        if hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _watch_loader(name, loader):
    exec_module = loader.exec_module

    def watched(module):
        del loader.exec_module
        exec_module(module)
        arrived = ARRIVALS.pop(name, None)
        if arrived is not None and _is_plain(module):
            guarded("hook of " + name, arrived, module)

    # Python leaves frames of the import system out of the traceback of a failed import, and this is
    # one of them.
    watched.__code__ = watched.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    loader.exec_module = watched


def _name_of(thread):
    """The name as the interpreter's own hook reads it, not by a property of the program's class."""
    try:
        name = object.__getattribute__(thread, "_name")
    except AttributeError:
        return ""
    return name[:TEXT_MAX] if type(name) is str else ""


def _threading_is_there(module):
    original = module.excepthook

    def excepthook(args, /):
        try:
            if args.exc_type is not SystemExit:
                event("thread exception", thread=_name_of(args.thread),
                      chain=chain_of(args.exc_type, args.exc_value, args.exc_traceback))
        except BaseException as error:
            trouble("thread exception", error)
        return original(args)

    module.excepthook = _alike(excepthook, original)
    if hasattr(module, "__excepthook__"):  # since 3.10
        module.__excepthook__ = excepthook


def _load(name):
    """The names of another file of ours, which no import knows of."""
    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader(name, "%s/%s.py" % (folder, name))
    names = {"__name__": name, "__builtins__": __builtins__}
    code = loader.get_code(name)
    sys.modules["_imp"]._fix_co_filename(code, OWN + name.partition("_")[2] + ">")
    exec(code, names)
    return names


def sampling():
    """Loads the sampler, which both functions below need."""
    global sampler
    if sampler is None:
        sampler = _load("rocmcrash_sampler")
        sampler["use"](globals())
    return sampler


def _torch_is_there(module):
    global torch
    if TorchFinder in sys.meta_path:
        sys.meta_path.remove(TorchFinder)
    torch = _load("rocmcrash_torch")
    torch["install"](module, globals())
    if [word for word in flags if word.startswith("steps=")]:
        guarded("steps", lambda: _load("rocmcrash_steps")["install"](globals()))


def _pool_is_there(module):
    global pools
    ARRIVALS.pop(module.__name__, None)
    if pools is None:
        pools = _load("rocmcrash_pools")
    pools["install"](module, globals())


POOLS = ("jax", "tensorflow", "cupy", "onnxruntime")
ARRIVALS = {"torch": _torch_is_there, "threading": _threading_is_there, **dict.fromkeys(POOLS, _pool_is_there)}


def start(own_folder):
    global folder, directory, supervisor, flags, memory
    where = posix.environ.get(b"ROCMCRASH_HOOK")
    if not where:
        return
    number, words, run_dir = where.decode("utf-8", "surrogateescape").split(":", 2)
    folder = own_folder
    directory = run_dir + "/hook"
    supervisor = int(number)
    flags = tuple(words.split(","))
    memory = "".join([word[7:] for word in flags if word.startswith("memory=")])
    _watch_exceptions()
    if "threading" in sys.modules:
        ARRIVALS.pop("threading")(sys.modules["threading"])
    sys.meta_path.insert(0, TorchFinder)
