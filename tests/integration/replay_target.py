# SPDX-License-Identifier: Apache-2.0
"""A program that fails by a script: python3 replay_target.py STEPS.json

STEPS is a list of steps, each a list of a word and its arguments. In texts and paths {pid} stands for
the pid of this program. It writes counters as a driver would: in place, one write a value.

    ["stderr", text]          print              ["write", path, text]   the whole file, in place
    ["append", path, text]    at its end         ["ramp", path, from, to, steps, fall, seconds]
    ["files", n]              keep n files open  ["limit", n]            RLIMIT_NOFILE
    ["rename", a, b]   ["unlink", path]   ["sleep", seconds]   ["child", steps]
    ["seen", path]            wait until the sampler has read it since it was written
    ["beside", steps]         by a child that lives until this program has ended
    ["kill", signal]          of itself          ["exit", status]
"""

import json
import os
import resource
import sys
import time


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    data = text.encode("latin-1")
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
    os.close(fd)


def append(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def ramp(path, low, high, steps, fall, seconds):
    """A sawtooth: every step takes `fall` more bytes and frees them; the minimum rises."""
    for step in range(steps):
        floor = low + (high - low) * step // max(1, steps - 1)
        write(path, f"{floor + fall}\n")
        time.sleep(seconds / steps / 2)
        write(path, f"{floor}\n")
        time.sleep(seconds / steps / 2)


def seen(path):
    """By the file's times: the first read after a write sets the access time (relatime), unless the disk is mounted
    noatime."""
    noted = not os.statvfs(path).f_flag & os.ST_NOATIME
    end = time.monotonic() + (30 if noted else 2)
    while os.stat(path).st_atime_ns <= os.stat(path).st_mtime_ns and time.monotonic() < end:
        time.sleep(0.01)


def child(steps):
    pid = os.fork()
    if pid == 0:
        play(steps)
        os._exit(0)
    os.waitpid(pid, 0)


def beside(steps):
    done, playing = os.pipe()
    ended, running = os.pipe()
    if os.fork() == 0:
        os.close(running)
        play(steps)
        os.write(playing, b"x")
        os.read(ended, 1)
        os._exit(0)
    os.close(ended)
    os.read(done, 1)


def play(steps):
    keep = []
    for what, *arguments in steps:
        own = [a.replace("{pid}", str(os.getpid())) if isinstance(a, str) else a
               for a in arguments]
        if what == "stderr":
            sys.stderr.buffer.write(own[0].encode())
            sys.stderr.buffer.flush()
        elif what == "write":
            write(*own)
        elif what == "append":
            append(*own)
        elif what == "ramp":
            ramp(*own)
        elif what == "files":
            keep += [os.open("/dev/null", os.O_RDONLY) for _ in range(own[0])]
        elif what == "limit":
            resource.setrlimit(resource.RLIMIT_NOFILE, (own[0], own[0]))
        elif what == "rename":
            os.rename(*own)
        elif what == "unlink":
            os.unlink(*own)
        elif what == "seen":
            seen(*own)
        elif what == "sleep":
            time.sleep(*own)
        elif what == "child":
            child(own[0])
        elif what == "beside":
            beside(own[0])
        elif what == "kill":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), own[0])
        elif what == "exit":
            os._exit(own[0])
        else:
            raise ValueError(what)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        play(json.load(file))
