# SPDX-License-Identifier: Apache-2.0
"""The segments that the sampler writes (src/telemetry/segment.h), with what the driver counts for this process."""
import os
import struct

PERIOD_NS = 10**9                # of the sampler, for processes
RECORDS_MAX = 8192               # of a segment: 256 KiB
HEADER = struct.Struct("<HHIQ")  # struct sample_header
ENTRY = struct.Struct("<HBBIQ")  # struct sample_entry
MAGIC, FULL, OK = 0x534d, 1, 0
PROC_KFD_VRAM = 29               # src/telemetry/metric.h


class Samples:
    def __init__(self, pid):
        self.pid, self.records, self.last_ns = pid, [], 0

    def add(self, now_ns, own_bytes):
        """The process holds that much. Times rise strictly, as the sampler's do."""
        self.last_ns = max(now_ns, self.last_ns + 1)
        self.records.append(HEADER.pack(MAGIC, FULL, 1, self.last_ns) + ENTRY.pack(PROC_KFD_VRAM, OK, 0, self.pid, own_bytes))

    def write(self, folder):
        for number, first in enumerate(range(0, len(self.records), RECORDS_MAX)):
            with open(os.path.join(folder, "samples.%04d" % number), "wb") as file:
                file.write(b"".join(self.records[first:first + RECORDS_MAX]))
