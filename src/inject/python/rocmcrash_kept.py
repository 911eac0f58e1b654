# SPDX-License-Identifier: Apache-2.0
"""Finds the blocks that were in use earlier and still are: executed by rocmcrash_torch.

Memory in use grows either because blocks are kept permanently, or because the work needs more at a time. In the first
case the blocks of half way are still there at the end. In the second case they are gone, and other blocks have taken
their place. A block counts as the same if address and size are equal. A freed block whose place was given to another of
the same size counts as kept: the figure may be too high, but is never too low. Places that were seen free in between,
at a later mark, tell how much too high it is. The memory of single steps makes such places, too. But if the memory in
use never fell as low, blocks that outlive steps were replaced.
"""
STEP = 1.3  # a mark whenever the bytes handed out have grown by this factor: about nine a tenfold
LATER = 2  # marks: 1.7 times the bytes, some steps
MARKS_MAX = 8  # the last of them: back to a sixth of the run
BLOCKS_MAX = 4000  # reading them takes PyTorch and us some 10 ms with the GIL
LOWS = 6  # lowest looks that are kept: the closer they are, the more likely the lowest low of the steps was seen


def blocks_of(segments):
    """{(device, address): bytes} of the blocks in use."""
    found = {}
    for segment in segments:
        device, address = segment["device"], segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found[device, address] = block["size"]
            address += block["size"]
    return found


def both(blocks, others):
    return {key: size for key, size in blocks.items() if others.get(key) == size}


def sums(blocks):
    total = {}
    for (device, _), size in blocks.items():
        total[device] = total.get(device, 0) + size
    return total


class Kept:
    def __init__(self):
        self.marks = []  # (ns, {device: bytes handed out so far}, blocks, {device: the LOWS smallest amounts in use since})
        self.outlived = {}  # ns of a mark: {device: bytes of it that were in use LATER marks later}
        self.next_bytes = 1
        self.not_before_ns = 0

    def is_due(self, now_ns, handed_out):
        return now_ns >= self.not_before_ns and sum(handed_out.values()) >= self.next_bytes

    def look(self, in_use):
        for mark in self.marks:
            for device, size in in_use.items():
                lows = mark[3].setdefault(device, [])
                if len(lows) < LOWS or size < lows[-1]:
                    mark[3][device] = sorted(lows + [size])[:LOWS]

    def mark(self, now_ns, handed_out, segments):
        found = blocks_of(segments)
        self.marks.append((now_ns, handed_out, found, {}))
        if len(self.marks) > LATER:
            time_ns, _, blocks, _ = self.marks[-1 - LATER]
            self.outlived[time_ns] = sums(both(blocks, found))
        del self.marks[:-MARKS_MAX]
        self.next_bytes = int(sum(handed_out.values()) * STEP) + 1

    def _floor(self, lows):
        """An amount that memory in use has hardly been below. If looks are rare they miss most lows; then the lows
        that they saw lie far apart, and the result is lower."""
        return max(0, 2 * lows[0] - lows[-1]) if len(lows) == LOWS else 0

    def rows(self, segments):
        """[ns, device, bytes handed out, in use, of these in use at all later marks and now, in use now, in use LATER
        marks later (-1: not known), what in use has not been below since (0: not known)] of each mark, the oldest
        first."""
        now, out = blocks_of(segments), []
        always = now
        for time_ns, handed_out, blocks, lows in reversed(self.marks):
            always = both(blocks, always)
            kept, still, later = sums(always), sums(both(blocks, now)), self.outlived.get(time_ns)
            for device, size in sums(blocks).items():
                out.append([time_ns, device, handed_out.get(device, 0), size, kept.get(device, 0), still.get(device, 0),
                            -1 if later is None else later.get(device, 0), self._floor(lows.get(device, ()))])
        return out[::-1]
