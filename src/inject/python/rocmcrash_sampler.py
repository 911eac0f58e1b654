# SPDX-License-Identifier: Apache-2.0
"""A thread that looks at an allocator at intervals: executed by rocmcrash_hook for those of PyTorch, JAX and TensorFlow.

It does not exist while the program forks and when Python ends. When its file is full, it thins the file.
"""
import sys

# (until this age in s, the mean period); later once a second. Each wait is between 0.5 and 1.5 times the period:
# looks in step with the program would always see the same moment of its step.
PERIODS = ((30, 0.05), (60, 0.25))
PERIOD_MAX_S = 120.0
PAUSE_MAX_S = 10.0
# Long, because the machine may be busy. After one wait in vain (a disk hangs) the next is short.
THREAD_END_MS = 1000
HUNG_END_MS = 10
SLICE_BYTES = 8 << 10
SIGINT = 2

hook = {}  # globals of rocmcrash_hook


def use(hook_names):
    global hook
    hook = hook_names


class Sampler:
    """At most one thread. `stop` returns when the thread is gone from the kernel: from Python 3.12 on a fork beside
    another thread prints a warning.

    `look` says "go on", "full" (a file of those that `files` names), or "end"."""

    def __init__(self, look, files):
        self.look, self.files = look, files
        self.wake = hook["allocate_lock"]()
        self.wake.acquire()
        self.began_ns = hook["monotonic_ns"]()
        self.turn = 0  # one that was told to end and has not yet, sees that it is another's
        self.alive = 0  # whose turn it is that runs
        self.native_id = 0
        self.patience_ms = THREAD_END_MS
        self.stretch = 1.0
        self.chance = self.began_ns & 0x7fffffff
        self.at_most_s = None  # before the next look, on average: set by a look that saw much happen
        self.pause_s = 0.0  # at least so long before the next look: set by a look that was slow

    def start(self):
        if self.alive == self.turn != 0:
            return
        self.native_id = 0
        self.turn += 1
        self.alive = self.turn
        try:
            hook["start_new_thread"](self._run, (self.turn,))
        except BaseException:
            self.alive = 0
            raise

    def stop(self):
        """True: it was there."""
        if self.alive == 0:
            return False
        self.turn += 1
        try:
            self.wake.release()
        except RuntimeError:
            pass
        end_ns = hook["monotonic_ns"]() + self.patience_ms * 1000000
        while self.alive != 0 or self._is_known():
            if hook["monotonic_ns"]() > end_ns:
                self.patience_ms = HUNG_END_MS
                break
            hook["sleep"](0.0001)
        else:
            self.patience_ms = THREAD_END_MS
        self.wake.acquire(False)
        return True

    def _is_known(self):
        try:
            hook["posix"].stat("/proc/self/task/%d" % self.native_id)
            return self.native_id != 0
        except OSError:
            return False

    def _period(self):
        """A random period. It must not use a generator of the program: that would change the program's numbers."""
        self.chance = (self.chance * 1103515245 + 12345) & 0x7fffffff
        uneven = 0.5 + self.chance / 0x7fffffff
        period_s = self._period_of_age()
        if self.at_most_s is not None:
            period_s = min(period_s, self.at_most_s)
        return max(period_s * uneven, min(self.pause_s, PAUSE_MAX_S))

    def _period_of_age(self):
        age_s = (hook["monotonic_ns"]() - self.began_ns) / 1e9
        for until_s, period_s in PERIODS:
            if age_s < until_s:
                return period_s * self.stretch
        return min(self.stretch, PERIOD_MAX_S)

    def _run(self, turn):
        try:
            self.native_id = hook["_thread"].get_native_id()
            while turn == self.turn and not self.wake.acquire(timeout=self._period()):
                if turn != self.turn:
                    break
                said = self.look()
                if said == "full":
                    for name in self.files():
                        hook["guarded"]("samples", _thin, name)
                    self.stretch *= 2
                elif said == "end":
                    break
        except BaseException as error:
            hook["trouble"]("samples end", error)
        finally:
            if self.alive == turn:
                self.alive = 0


def _thin(name):
    """The file is full: every second sample goes, a slice at a time, as nobody else runs in one."""
    posix = hook["posix"]
    path = hook["directory"] + "/" + name
    rest, stamp, keep = b"", b"", False
    try:
        source = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
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
                hook["sleep"](0.002)
            posix.rename(path + ".part", path)
        finally:
            posix.close(target)
    finally:
        posix.close(source)


# --- forks and the end ---

def watch(sampler):
    """Stop it at forks of this process, and at its end."""
    owner = hook["getpid"]()
    forks = []  # that are under way: was it there?
    interrupted = []

    def quietly(step):
        """Python would print an exception, and go on: one of the program's own is raised again."""
        try:
            return step()
        except BaseException as error:
            if hook["from_program"](error):
                interrupted.append(error)
            else:
                hook["trouble"]("samples at a fork", error)
        return False

    def start_again():
        if owner == hook["getpid"]():
            quietly(sampler.start)
        if interrupted:
            raise interrupted.pop()

    def before():
        if owner == hook["getpid"]():
            forks.append(sampler.alive != 0)
            quietly(sampler.stop)
            if interrupted:
                quietly(sampler.stop)

    def after_here():
        if owner != hook["getpid"]() or not forks:
            return
        was_there = forks.pop()
        forking = sys._getframe(1)
        if forks:  # another thread's, which comes later
            forks[-1] = forks[-1] or was_there
        elif (was_there or interrupted) and sys.version_info >= (3, 13):
            quietly(lambda: _behind(forking, start_again))
        elif was_there:
            quietly(sampler.start)
        if interrupted and sys.version_info < (3, 13):
            quietly(lambda: _raise_again(interrupted.pop()))

    def at_exit():
        """A thread that comes for the GIL when Python is gone is ended inside foreign code."""
        if owner == hook["getpid"]():
            quietly(sampler.stop)

    hook["posix"].register_at_fork(before=before, after_in_parent=after_here)
    import atexit  # PyTorch, JAX and TensorFlow have
    atexit.register(at_exit)


def _behind(forking, step):
    """From 3.13 on Python counts threads, for its warning, when the functions of register_at_fork() have run: the
    step is for the next line of the program, in the frame that forks or outside of it."""
    monitoring = sys.monitoring
    tool = next((number for number in (3, 4) if monitoring.get_tool(number) is None), None)
    if tool is None:
        raise RuntimeError("no number is free in sys.monitoring")
    monitoring.use_tool_id(tool, "rocmcrash")

    def on_line(*_):
        frame = sys._getframe(1)
        while frame is not None and frame is not forking:
            frame = frame.f_back
        if frame is forking and sys._getframe(1) is not forking:
            return  # another such function
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(tool)
        step()

    monitoring.register_callback(tool, monitoring.events.LINE, on_line)
    monitoring.set_events(tool, monitoring.events.LINE)


def _raise_again(error):
    """In the main thread, once no frame of ours is in the way: by the signal whose handler raised it; that one is not
    run again."""
    signals = hook["_signal"]
    number = hook["handled_signal"](error) or SIGINT
    handler = signals.getsignal(number)

    def once(*_):
        signals.signal(number, handler)
        raise error

    signals.signal(number, once)
    hook["start_new_thread"](_signal_later, (hook["_thread"].get_ident(), number))


def _signal_later(thread, number):
    for _ in range(1000):
        frame = sys._current_frames().get(thread)
        while frame is not None and not frame.f_code.co_filename.startswith(hook["OWN"]):
            frame = frame.f_back
        if frame is None:
            break
        hook["sleep"](0.0005)
    hook["_signal"].pthread_kill(thread, number)
