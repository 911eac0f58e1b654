# SPDX-License-Identifier: Apache-2.0
"""Finds the blocks that were in use earlier and still are: executed by rocmcrash_torch.

Memory in use grows either because blocks are kept permanently, or because the work needs more at a time. In the first
case the blocks of half way are still there at the end. In the second case they are gone, and other blocks have taken
their place. A block counts as the same if address and size are equal. A freed block whose place was given to another of
the same size counts as kept, unless a look in between saw the place free, or a window saw the block being freed: the
figure may be too high, but is never too low. So there are many more looks than marks. A look is a reading of all blocks;
a mark is one that is remembered.

A window is a time in which PyTorch (2.11) notes what it gets back, without call sites: the last EVENTS blocks. A note
costs the program 0.2 us, and reading it costs us 1 us, so a window ends when it is full, and the next one begins when
there is time for it again. A program that allocates less is watched all the time.
"""
STEP = 1.18  # a mark whenever the bytes handed out have grown by this factor: 14 a tenfold
LOOK_STEP = 1.02  # a look at the blocks of the marks, as often
LATER = 3  # marks: 1.6 times the bytes, some steps
NEXT_MAX = 1.05  # a look that comes so soon behind a mark is the next one
MARKS_MAX = 12  # the last of them: back to a seventh of the run
# Reading the blocks may hold the GIL for so much at once (ns), and for this part of the time: marks, looks between them.
MARK_TIME, LOOK_TIME = (100000000, 50), (40000000, 200)
BLOCKS_MAX = 4000  # reading them takes PyTorch and us some 10 ms with the GIL
EVENTS = 3000  # releases that a window holds
RATE = 20000  # blocks a second: a program that makes fewer has windows all the time
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


def freed_in(traces):
    """{(device, address)} of what the events say was freed."""
    return {(device, event["addr"]) for device, events in enumerate(traces) for event in events
            if event["action"].startswith("free")}


def both(blocks, others):
    return {key: size for key, size in blocks.items() if others.get(key) == size}


def sums(blocks):
    total = {}
    for (device, _), size in blocks.items():
        total[device] = total.get(device, 0) + size
    return total


class Budget:
    def __init__(self, burst_ns, share):
        self.burst_ns, self.share = burst_ns, share
        self.left_ns, self.last_ns = burst_ns, None

    def is_left(self, now_ns):
        since_ns = now_ns - (now_ns if self.last_ns is None else self.last_ns)
        self.left_ns = min(self.burst_ns, self.left_ns + since_ns // self.share)
        self.last_ns = now_ns
        return self.left_ns > 0


class Window:
    """`record(entries)`: PyTorch notes that many of its last releases, None: no more. False if it cannot."""

    def __init__(self, record):
        self.record = record
        self.since = None  # blocks handed out when it began
        self.half = False  # it may have begun on some devices
        self.watched = 0  # blocks handed out in earlier windows, as far as they held them
        self.made = 0  # blocks handed out
        self.rate, self.last = 0, (0, 0)  # of them in a second, by the last two samples

    def sample(self, now_ns, made):
        passed_s = (now_ns - self.last[0]) / 1e9
        self.rate = (made - self.last[1]) / passed_s if passed_s > 0 else 0
        self.made, self.last = made, (now_ns, made)

    def begin(self):
        if self.since is not None:
            return
        if self.half:
            self.record(None)
        self.half = True  # if the next line raises
        if self.record(EVENTS):
            self.since = self.made
        self.half = False

    def is_full(self):
        return self.since is not None and self.made - self.since >= EVENTS

    def full_in_s(self):
        """None: it never will be."""
        known = self.since is not None and self.rate > 0
        return max(0, EVENTS - (self.made - self.since)) / self.rate if known else None

    def watched_of(self, counts=True):
        """(blocks handed out in windows, in all)"""
        here = min(self.made - self.since, EVENTS) if counts and self.since is not None else 0
        return self.watched + here, self.made

    def end(self, counts=True):
        if self.since is not None:
            self.record(None)
            self.watched, _ = self.watched_of(counts)
            self.since = None


class Kept:
    def __init__(self):
        self.marks = []  # (ns, {device: bytes handed out so far}, blocks, {device: the LOWS smallest amounts in use since},
        #                   blocks handed out in windows, in all)
        self.made = 0  # marks, with those that are forgotten
        self.since = {}  # of each block: (bytes, number of the first mark that saw it, if all looks from there on did)
        self.outlived = {}  # ns of a mark: {device: bytes of it that were in use LATER marks later}
        self.stayed = {}  # the same, of these in use at all looks until then
        self.outlasted = {}  # ns of a mark: {device: bytes of it that were in use until the next look}
        self.next_mark = self.next_look = 1  # bytes handed out
        self.mark_time, self.look_time = Budget(*MARK_TIME), Budget(*LOOK_TIME)

    def is_due(self, now_ns, handed_out, is_full=False):
        """Shall the blocks be read: for a mark, or to see which blocks of the marks are gone?"""
        total = sum(handed_out.values())
        return (total >= self.next_mark and self.mark_time.is_left(now_ns)) or (
            (is_full or total >= self.next_look) and self.look_time.is_left(now_ns))

    def took(self, time_ns):
        """To read them and to look."""
        self.mark_time.left_ns -= time_ns
        self.look_time.left_ns -= time_ns

    def in_use(self, in_use):
        for mark in self.marks:
            for device, size in in_use.items():
                lows = mark[3].setdefault(device, [])
                if len(lows) < LOWS or size < lows[-1]:
                    mark[3][device] = sorted(lows + [size])[:LOWS]

    def look(self, now_ns, handed_out, segments, freed=(), watched=(0, 0)):
        """`freed`: {(device, address)} that were freed since the last look, as far as known."""
        found = blocks_of(segments)
        total = sum(handed_out.values())
        self.since = self._seen(found, freed)
        if self.marks and self.marks[-1][0] not in self.outlasted:
            soon = total <= NEXT_MAX * sum(self.marks[-1][1].values())
            self.outlasted[self.marks[-1][0]] = sums(self._kept(self.since, self.made - 1)) if soon else None
        if total >= self.next_mark:
            self._mark(now_ns, handed_out, found, watched)
            self.next_mark = int(total * STEP) + 1
        self.next_look = int(total * LOOK_STEP) + 1

    def _seen(self, found, freed):
        out = {}
        for key, size in found.items():
            before, since = self.since.get(key, (0, 0))
            out[key] = size, since if before == size and key not in freed else self.made
        return out

    def _mark(self, now_ns, handed_out, found, watched):
        self.marks.append((now_ns, handed_out, found, {}, *watched))
        self.made += 1
        if len(self.marks) > LATER:
            time_ns, _, blocks, *_ = self.marks[-1 - LATER]
            self.outlived[time_ns] = sums(both(blocks, found))
            self.stayed[time_ns] = sums(self._kept(self.since, self.made - 1 - LATER))
        del self.marks[:-MARKS_MAX]

    def _kept(self, seen, number):
        """Blocks that were there at this mark, and at all looks from there on."""
        return {key: size for key, (size, since) in seen.items() if since <= number}

    def _floor(self, lows):
        """An amount that memory in use has hardly been below. If looks are rare they miss most lows; then the lows
        that they saw lie far apart, and the result is lower."""
        return max(0, 2 * lows[0] - lows[-1]) if len(lows) == LOWS else 0

    def rows(self, segments, freed=(), watched=(0, 0)):
        """[ns, device, bytes handed out, in use, of these in use at all later looks and now, in use now, in use LATER
        marks later (-1: not known), what in use has not been below since (0: not known), in use at all looks until LATER
        marks later (-1: not known), percent of the blocks handed out since whose release was watched, in use until the next
        look (-1: not known)] of each mark, the oldest first."""
        now, out = blocks_of(segments), []
        seen = self._seen(now, freed)
        for number, (time_ns, handed_out, blocks, lows, *of_windows) in enumerate(self.marks, self.made - len(self.marks)):
            kept, still = sums(self._kept(seen, number)), sums(both(blocks, now))
            later, stayed = self.outlived.get(time_ns), self.stayed.get(time_ns, {})
            outlasted = self.outlasted.get(time_ns)
            seen_of = watched[0] - of_windows[0], watched[1] - of_windows[1]
            percent = 100 * seen_of[0] // seen_of[1] if seen_of[1] > 0 else 0
            for device, size in sums(blocks).items():
                out.append([time_ns, device, handed_out.get(device, 0), size, kept.get(device, 0), still.get(device, 0),
                            -1 if later is None else later.get(device, 0), self._floor(lows.get(device, ())),
                            -1 if later is None else stayed.get(device, 0), percent,
                            -1 if outlasted is None else outlasted.get(device, 0)])
        return out
