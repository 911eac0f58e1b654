# SPDX-License-Identifier: Apache-2.0
"""A copy of the ledger (src/record/ledger.h) as Python objects. The layout is repeated here, so that a change of it
fails a test. By hand: ledger_file.py FILE prints what is in one."""

import ctypes
import mmap
import os
import sys

KINDS = ("vram", "gtt", "userptr", "doorbell", "mmio", "gem_vram", "gem_gtt", "gem_userptr",
         "gem_other", "import")
OPERATIONS = ("alloc", "map", "import", "mmap")
EVENTS = ("", "alloc", "free", "refused")
LIVES = ("alive", "execed", "ended")
USED, FREEING = 2, 3
NO_PROCESS, NO_GPU = 0xFFFF, 0xFF
REFUSALS = 2048
U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
I32, I64 = ctypes.c_int32, ctypes.c_int64


def structure(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [
        (words[0], kind * words[1]) if len(words) > 1 else (words[0], kind)
        for kind, names in fields for words in [_words(n) for n in names.split()]]})


def _words(name):
    """"comm[16]" -> ("comm", 16)"""
    if "[" not in name:
        return (name,)
    base, count = name[:-1].split("[")
    return base, int(count)


Process = structure("Process", (U32, "state life"), (I32, "pid"), (U16, "parent forks"),
                    (U64, "start_ticks seen_ns ended_ns"), (ctypes.c_char, "comm[16]"),
                    (U64, "allocations frees refusals hip_refusals unknown_frees pid_namespace"),
                    (U64, "reserved[2]"))
Gpu = structure("Gpu", (U32, "state kfd_gpu_id render_minor same_as"),
                (I64, f"live[{len(KINDS)}] peak[{len(KINDS)}]"), (U64, f"peak_ns[{len(KINDS)}]"))
Account = structure("Account", (U32, "state"), (U16, "process"), (U8, "gpu kind"),
                    (I64, "live peak"), (U64, "peak_ns allocations frees allocated_bytes refusals"),
                    (U32, "gone reserved"))
Power = structure("Power", (U64, "allocations frees allocated_bytes freed_bytes"))
Size = structure("Size", (U32, "state"), (U16, "process"), (U8, "gpu kind"),
                 (U64, "bytes allocations frees first_ns last_ns"), (U64, "reserved[2]"))
Refusal = structure("Refusal", (U64, "number time_ns size address retry_of satisfied_ns"),
                    (I64, "live gpu_live"), (U64, "counters_ns"), (U32, "flags"), (I32, "tid"),
                    (U16, "process"), (U8, "gpu kind"), (U16, "error"), (U8, "operation reserved"),
                    (U32, "fds fds_limit mappings mappings_limit"), (U64, "reserved2[2]"))
HipRefusal = structure("HipRefusal", (U64, "number time_ns size width height depth"),
                       (U32, "flags"), (I32, "error device tid"), (U16, "process reserved"),
                       (U32, "kernel_refusals"), (U64, "kernel_refusal"),
                       (ctypes.c_char, "function[24]"), (U64, "reserved2[2]"))
Model = structure("Model", (U32, "state"), (U16, "process error"), (U64, "time_ns device inode"),
                  (ctypes.c_char, "path[480]"))
Event = structure("Event", (U64, "number time_ns address size handle"), (U16, "process"),
                  (U8, "gpu kind type reserved"), (U16, "error"), (I32, "tid"), (U32, "flags"))
Entry = structure("Entry", (U32, "state"), (U16, "process"), (U8, "gpu kind"),
                  (U64, "handle address size bytes time_ns"), (U32, "flags"), (I32, "file tid"),
                  (U32, "mapped"))
Lost = structure("Lost", (U64, "processes gpus accounts sizes models live live_bytes reserved[4]"))


class Layout(ctypes.Structure):
    _fields_ = [("magic", U64), ("version", U32), ("size", U32), ("nonce", U64 * 2),
                ("start_ns", U64), ("owner_pid", I32), ("shared_fd", I32), ("counters_at", U64),
                ("pid_namespace", U64), ("processes_used", U32), ("gpus_used", U32),
                ("attached", U64), ("events_head", U64), ("refusals_head", U64),
                ("hip_refusals_head", U64), ("models_used", U32), ("hip_runtimes", U32),
                ("left_out", U64 * 16), ("lost", Lost), ("counters_asked_ns", U64),
                ("counters_asked", U32), ("counters_late", U32), ("counters_waited_ns", U64),
                ("settled_ns", U64), ("reserved", U64 * 14), ("processes", Process * 512),
                ("gpus", Gpu * 128), ("accounts", Account * 2048), ("powers", Power * 48),
                ("sizes", Size * 2048), ("refusals", Refusal * REFUSALS),
                ("hip_refusals", HipRefusal * 512), ("models", Model * 128),
                ("events", Event * 16384), ("live", Entry * (1 << 17))]


def used(rows):
    return [row for row in rows if row.state & 0xFF == USED]


class Ledger:
    """Lists of what is valid in a copy."""

    def __init__(self, data):
        self.raw = Layout.from_buffer_copy(data)
        assert self.raw.magic == 0x7265676465636F72 and self.raw.version == 1
        assert self.raw.size == ctypes.sizeof(Layout) == len(data)
        self.processes = {i: p for i, p in enumerate(self.raw.processes) if p.state & 0xFF == USED}
        self.gpus = {i: g for i, g in enumerate(self.raw.gpus) if g.state & 0xFF == USED}
        self.accounts = used(self.raw.accounts)
        self.sizes = used(self.raw.sizes)
        self.refusals = sorted((r for r in self.raw.refusals if r.number), key=lambda r: r.number)
        self.hip_refusals = sorted((r for r in self.raw.hip_refusals if r.number),
                                   key=lambda r: r.number)
        self.models = used(self.raw.models)
        self.events = sorted((e for e in self.raw.events if e.number), key=lambda e: e.number)

    @property
    def live(self):
        return [e for e in self.raw.live if e.state & 0xFF in (USED, FREEING)]

    def pid(self, slot):
        return self.processes[slot].pid if slot in self.processes else 0

    def gpu_id(self, slot):
        return self.gpus[slot].kfd_gpu_id if slot in self.gpus else 0


def read(path):
    with open(path, "rb") as file:
        return Ledger(file.read())


class Fresh:
    """An empty ledger for programs that run with the library but without rocmcrash."""

    def __init__(self, library):
        size = ctypes.sizeof(Layout)
        self.fd = os.memfd_create("rocmcrash-ledger")
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        self.counters = -1
        self.write(magic=0x7265676465636F72, version=1, size=size, owner_pid=os.getpid(),
                   nonce=(U64 * 2)(0xABC, os.getpid()))
        self.environ = {"ROCMCRASH_LEDGER": f"{os.getpid()}:{self.fd}:abc:{os.getpid():x}",
                        "LD_PRELOAD": library}

    def add_counters(self):
        """A page for the library's requests to the sampler. Nobody answers them."""
        self.counters = os.memfd_create("rocmcrash")
        os.ftruncate(self.counters, 2 * mmap.PAGESIZE)
        self.write(shared_fd=self.counters, counters_at=mmap.PAGESIZE)

    def write(self, **fields):
        head = Layout.from_buffer(self.memory)
        for name, value in fields.items():
            setattr(head, name, value)
        del head  # the mapping cannot be closed while a view of it exists

    def read(self):
        return Ledger(bytes(self.memory))

    def close(self):
        self.memory.close()
        os.close(self.fd)
        if self.counters >= 0:
            os.close(self.counters)


def show(ledger):
    for i, p in ledger.processes.items():
        print(f"process {i} pid {p.pid} {p.comm.decode()} {LIVES[p.life]} parent {p.parent} "
              f"forks {p.forks} allocations {p.allocations} frees {p.frees} refusals {p.refusals} "
              f"hip {p.hip_refusals} unknown frees {p.unknown_frees}")
    for i, g in ledger.gpus.items():
        print(f"gpu {i} kfd {g.kfd_gpu_id} minor {g.render_minor} same as {g.same_as} live "
              f"{list(g.live)} peak {list(g.peak)}")
    for a in ledger.accounts:
        print(f"account process {a.process} gpu {a.gpu} {KINDS[a.kind]} live {a.live} peak {a.peak} "
              f"allocations {a.allocations} frees {a.frees} refusals {a.refusals}")
    for r in ledger.refusals:
        print(f"refusal {r.number} {OPERATIONS[r.operation]} process {r.process} gpu {r.gpu} "
              f"{KINDS[r.kind]} size {r.size} errno {r.error} retry of {r.retry_of} satisfied "
              f"{r.satisfied_ns > 0} live {r.live} counters {r.counters_ns > 0} fds {r.fds}/"
              f"{r.fds_limit} mappings {r.mappings}/{r.mappings_limit}")
    for r in ledger.hip_refusals:
        print(f"hip refusal {r.number} {r.function.decode()} size {r.size} error {r.error} device "
              f"{r.device} kernel refusals {r.kernel_refusals}")
    for m in ledger.models:
        print(f"model {m.path.decode()} errno {m.error}")
    live = ledger.live
    print(f"live {len(live)} entries {sum(e.bytes for e in live)} bytes; events "
          f"{ledger.raw.events_head}; attached {ledger.raw.attached}; counters asked "
          f"{ledger.raw.counters_asked} late {ledger.raw.counters_late} waited "
          f"{ledger.raw.counters_waited_ns / 1e6:.2f} ms; left out {list(ledger.raw.left_out)[:12]}; "
          f"lost {[getattr(ledger.raw.lost, f[0]) for f in Lost._fields_[:7]]}")


if __name__ == "__main__":
    show(read(sys.argv[1]))
