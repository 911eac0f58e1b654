# SPDX-License-Identifier: Apache-2.0
"""How long a step of PyTorch's training takes, for --hang-after=auto, and when the last one ended, for --bundle-at=step>5m.
rocmcrash_hook executes it when torch has been imported, only with one of these options.

A step ends where an optimizer's step() returns: PyTorch calls us then (register_optimizer_step_post_hook, PyTorch 2).
Nothing else is asked. The supervisor reads what _tell() writes (launch/step_length.h).
"""
LATEST = 256  # lengths that are kept
TELL_NS = 1000000000  # at most once a second: writing takes some 20 us
SLOT_BYTES = 64  # SHARED_STEPS_TEXT

hook = {}  # globals of rocmcrash_hook
place = 0  # of the slots in the run's memory
owner = 0
count = 0
last_ns = 0  # end of the last step
told_ns = 0
lengths_us = []  # of the latest steps, in a ring
silent = False  # the memory cannot be written: nothing more is tried


def install(hook_names):
    global hook, place
    hook = hook_names
    place = int([word for word in hook["flags"] if word.startswith("steps=")][0][6:])
    hook["sys"].modules["torch.optim.optimizer"].register_optimizer_step_post_hook(_on_step)


def _on_step(*_):
    """Called by the program's optimizer. What it returns is not used, and it must not raise."""
    hook["guarded"]("steps", _note)


_on_step._torchdynamo_disable = True  # torch.compile() of a step calls it, and does not look into it: our file is no module


def _note():
    global owner, count, last_ns
    now_ns = hook["monotonic_ns"]()
    if owner != hook["getpid"]():  # the first step of this process: the copy that a fork made has other ones
        owner = hook["getpid"]()
        lengths_us.clear()
        count = 0
    elif len(lengths_us) < LATEST:
        lengths_us.append((now_ns - last_ns) // 1000)
        count += 1
    else:
        lengths_us[count % LATEST] = (now_ns - last_ns) // 1000
        count += 1
    last_ns = now_ns
    if now_ns - told_ns >= TELL_NS and lengths_us and not silent:
        _tell(now_ns)


def usual_us():
    """99 of 100 took at most so long."""
    return sorted(lengths_us)[len(lengths_us) * 99 // 100]


def _tell(now_ns):
    global told_ns, silent
    told_ns = now_ns
    silent = True  # unless it works
    hook["write_slot"](place, SLOT_BYTES, b"%d %d %d %d\n" % (owner, count, usual_us(), now_ns))
    silent = False
