# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system of one file, whose server answers all requests except reads, so that a reader stays in D state; or
it answers reads late."""

import ctypes
import errno
import os
import stat
import struct
import threading
import time

HEADER = struct.Struct("<IIQQIIIHH")  # length opcode unique node uid gid pid padding
ANSWER = struct.Struct("<IiQ")
LOOKUP, FORGET, GETATTR, OPEN, READ, INIT = 1, 2, 3, 14, 15, 26
ASYNC_READ = 1  # readers wait for the page; no signal ends that
FILE = 2


def attributes(node):
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == 1 else (stat.S_IFREG | 0o644, 1 << 20)
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class SilentFuse:
    """with SilentFuse(folder) as path: open(path).read() does not return until the block ends."""

    def __init__(self, folder, read_takes_s=None):
        self.read_takes_s = read_takes_s  # None = never
        self.folder, self.libc = folder, ctypes.CDLL(None, use_errno=True)
        self.asked = threading.Event()
        self.reads = 0

    def __enter__(self):
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if self.libc.mount(b"silent", self.folder.encode(), b"fuse", 0, options) != 0:
            os.close(self.fd)
            raise OSError(ctypes.get_errno(), "mount")
        threading.Thread(target=self.serve, daemon=True).start()
        return os.path.join(self.folder, "file")

    def __exit__(self, *_):
        number = os.stat(self.folder).st_dev & 0xff
        try:  # every waiting reader gets ECONNABORTED
            with open(f"/sys/fs/fuse/connections/{number}/abort", "w", encoding="ascii") as file:
                file.write("1")
        except OSError:
            pass
        self.libc.umount2(self.folder.encode(), 2)  # MNT_DETACH
        os.close(self.fd)

    def answer(self, unique, data=b"", error=0):
        os.write(self.fd, ANSWER.pack(ANSWER.size + len(data), -error, unique) + data)

    def serve(self):
        while True:
            try:
                self.serve_one(os.read(self.fd, 1 << 17))
            except OSError:
                return

    def serve_one(self, request):
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode == INIT:
            self.answer(unique, struct.pack("<IIIIHHIIHHI7I", 7, 31, 1 << 17, ASYNC_READ, 12, 9, 1 << 16, 1, 0, 0,
                                            *[0] * 8))
        elif opcode == LOOKUP:
            self.answer(unique, struct.pack("<5QII", FILE, 0, 3600, 3600, 0, 0, 0)[:40] + attributes(FILE))
        elif opcode == GETATTR:
            self.answer(unique, struct.pack("<QII", 3600, 0, 0) + attributes(node))
        elif opcode == OPEN:
            self.answer(unique, struct.pack("<QII", 7, 0, 0))
        elif opcode == READ:
            self.reads += 1
            self.asked.set()
            if self.read_takes_s is not None:
                time.sleep(self.read_takes_s)
                size, = struct.unpack_from("<I", request, HEADER.size + 16)  # after the handle and the offset
                self.answer(unique, bytes(size))
        elif opcode != FORGET:
            self.answer(unique, error=errno.ENOSYS)
