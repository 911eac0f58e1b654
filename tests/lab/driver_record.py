# SPDX-License-Identifier: Apache-2.0
"""The segments that the sampler writes (src/telemetry/segment.h), with what the driver counts for this process."""
import os
import struct

SECOND = 10**9
PROCESS_NS = SECOND              # of the sampler, for processes
DEVICE_NS = ((60 * SECOND, 2 * SECOND), (3 * SECOND, SECOND), (0, SECOND // 10))  # for the GPU's counter: calm since, period
RECORDS_MAX = 8192               # of a segment: 256 KiB
HEADER = struct.Struct("<HHIQ")  # struct sample_header
ENTRY = struct.Struct("<HBBIQ")  # struct sample_entry
MAGIC, FULL, OK = 0x534d, 1, 0
PROC_KFD_VRAM = 29               # src/telemetry/metric.h


class Samples:
    """The sampler reads the process each second, and when the GPU's counter has changed."""

    def __init__(self, pid, now_ns):
        self.pid, self.records, self.last_ns = pid, [], 0
        self.process_due_ns = self.device_due_ns = self.changed_ns = now_ns
        self.used_bytes = None

    def until(self, now_ns, used_bytes, own_bytes):
        """Until now, the GPU had `used_bytes` in use, of these `own_bytes` for this process. Does what was due. True: it has read the
        process."""
        before = len(self.records)
        while self.process_due_ns <= now_ns:
            self._read_device_until(self.process_due_ns, used_bytes, own_bytes)
            self.add(self.process_due_ns, own_bytes)
            self.process_due_ns += PROCESS_NS
        self._read_device_until(now_ns, used_bytes, own_bytes)
        return len(self.records) > before

    def _read_device_until(self, now_ns, used_bytes, own_bytes):
        while self.device_due_ns <= now_ns:
            if used_bytes != self.used_bytes:
                self.used_bytes, self.changed_ns = used_bytes, self.device_due_ns
                self.add(self.device_due_ns, own_bytes)
            calm_ns = self.device_due_ns - self.changed_ns
            self.device_due_ns += next(period for since, period in DEVICE_NS if calm_ns >= since)

    def add(self, now_ns, own_bytes):
        """The process holds that much. Times rise strictly, as the sampler's do."""
        self.last_ns = max(now_ns, self.last_ns + 1)
        self.records.append(HEADER.pack(MAGIC, FULL, 1, self.last_ns) + ENTRY.pack(PROC_KFD_VRAM, OK, 0, self.pid, own_bytes))

    def write(self, folder):
        for number, first in enumerate(range(0, len(self.records), RECORDS_MAX)):
            with open(os.path.join(folder, "samples.%04d" % number), "wb") as file:
                file.write(b"".join(self.records[first:first + RECORDS_MAX]))
