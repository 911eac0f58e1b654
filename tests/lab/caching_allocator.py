# SPDX-License-Identifier: Apache-2.0
"""A model of PyTorch's caching allocator, fast enough for runs in large numbers.

Written from the documented behaviour: requests are rounded up to 512 bytes; up to 1 MiB they share
segments of 2 MiB, up to 10 MiB segments of 20 MiB, larger ones get a segment of their own in steps of
2 MiB; the smallest free block of the stream that is large enough is taken, and split when more than 1 MiB
(small pool: 512 bytes) remains; a refused segment is asked for again once all segments without a live
block have been given back. tests/long/allocator_real compares it with PyTorch's own code, byte by byte.
"""
import bisect

MIB = 1 << 20
GIB = 1 << 30
ROUND = 512
SMALL_MAX = MIB
SMALL_SEGMENT = 2 * MIB
SHARED_SEGMENT = 20 * MIB
SHARED_BELOW = 10 * MIB
LARGE_STEP = 2 * MIB
ALL, SMALL, LARGE = 0, 1, 2
POOLS = ("all", "small_pool", "large_pool")


class OutOfMemory(Exception):
    """`requested` is the size of the segment that was refused, as PyTorch prints it."""

    def __init__(self, requested, free):
        super().__init__(requested, free)
        self.requested, self.free = requested, free


class Device:
    """A GPU's memory: who holds how much of it. Nothing of it can be fragmented (the driver maps pages)."""

    def __init__(self, total, base=0, context=0):
        self.total, self.base, self.context = total, base, context
        self.others = 0   # other processes
        self.outside = 0  # this process, beside the allocator
        self.segments = 0

    def free(self):
        return self.total - self.base - self.context - self.others - self.outside - self.segments


class Block:
    __slots__ = ("address", "size", "requested", "stream", "live", "small", "previous", "next")

    def __init__(self, address, size, stream, small):
        self.address, self.size, self.stream, self.small = address, size, stream, small
        self.requested = 0
        self.live = False
        self.previous = self.next = None


class Counter:
    """current, peak, and what was ever added and taken; for all blocks and for each pool."""
    __slots__ = ("current", "peak", "added")

    def __init__(self):
        self.current, self.peak, self.added = [0, 0, 0], [0, 0, 0], [0, 0, 0]

    def add(self, pool, amount):
        for which in (ALL, pool):
            self.current[which] += amount
            self.added[which] += amount
            if self.current[which] > self.peak[which]:
                self.peak[which] = self.current[which]

    def take(self, pool, amount):
        self.current[ALL] -= amount
        self.current[pool] -= amount

    def as_torch(self):
        return {name: {"current": self.current[i], "peak": self.peak[i], "allocated": self.added[i],
                       "freed": self.added[i] - self.current[i]} for i, name in enumerate(POOLS)}


class CachingAllocator:
    def __init__(self, device, allowed=None):
        self.device = device
        self.allowed = allowed  # bytes of segments, by set_per_process_memory_fraction()
        self.free_blocks = ([], [], [])  # sorted (stream, size, address), by pool
        self.at = {}  # free blocks by address
        self.heads = {}  # first block of each segment by address
        self.space = AddressSpace()
        self.allocated, self.requested, self.reserved = Counter(), Counter(), Counter()
        self.blocks, self.segments = Counter(), Counter()
        self.retries = self.refusals = 0
        self.events = None  # the last releases, where they are recorded: (action, address)

    def allocate(self, size, stream=0):
        rounded = max(ROUND, -(-size // ROUND) * ROUND)
        pool = SMALL if rounded <= SMALL_MAX else LARGE
        block = self._find(pool, rounded, stream) or self._new_segment(pool, rounded, stream)
        rest = block.size - rounded
        if rest >= ROUND if pool == SMALL else rest > SMALL_MAX:
            self._split(block, rounded, pool)
        block.live = True
        block.requested = size
        self.allocated.add(pool, block.size)
        self.requested.add(pool, size)
        self.blocks.add(pool, 1)
        return block

    def release(self, block):
        pool = SMALL if block.small else LARGE
        if self.events is not None:
            self.events.append(("free_completed", block.address))
        block.live = False
        self.allocated.take(pool, block.size)
        self.requested.take(pool, block.requested)
        self.blocks.take(pool, 1)
        self._merge(block, block.previous)
        self._merge(block, block.next)
        self._put(block)

    def empty_cache(self):
        """Gives back every segment without a live block. Returns how many bytes that were."""
        given = 0
        for pool in (SMALL, LARGE):
            for key in list(self.free_blocks[pool]):
                block = self.at[key[2]]
                if block.previous is None and block.next is None:
                    self._take(block)
                    del self.heads[block.address]
                    self.space.give(block.address, block.size)
                    self.device.segments -= block.size
                    self.reserved.take(pool, block.size)
                    self.segments.take(pool, 1)
                    given += block.size
        return given

    # --- the pools of free blocks ---

    def _find(self, pool, size, stream):
        free = self.free_blocks[pool]
        at = bisect.bisect_left(free, (stream, size, 0))
        if at == len(free) or free[at][0] != stream:
            return None
        block = self.at[free[at][2]]
        self._take(block)
        return block

    def _put(self, block):
        self.at[block.address] = block
        bisect.insort(self.free_blocks[SMALL if block.small else LARGE],
                      (block.stream, block.size, block.address))

    def _take(self, block):
        free = self.free_blocks[SMALL if block.small else LARGE]
        del free[bisect.bisect_left(free, (block.stream, block.size, block.address))]
        del self.at[block.address]

    def _split(self, block, size, pool):
        rest = Block(block.address + size, block.size - size, block.stream, pool == SMALL)
        rest.previous, rest.next = block, block.next
        if block.next is not None:
            block.next.previous = rest
        block.next = rest
        block.size = size
        self._put(rest)

    def _merge(self, block, neighbour):
        if neighbour is None or neighbour.live:
            return
        self._take(neighbour)
        first, second = (neighbour, block) if neighbour is block.previous else (block, neighbour)
        before, behind = first.previous, second.next
        block.address, block.size = first.address, first.size + second.size
        block.previous, block.next = before, behind
        if before is not None:
            before.next = block
        else:
            self.heads[block.address] = block
        if behind is not None:
            behind.previous = block

    # --- segments ---

    def _new_segment(self, pool, size, stream):
        wanted = segment_size(size)
        if not self._fits(wanted):
            self.empty_cache()
            self.retries += 1
            if not self._fits(wanted):
                self.refusals += 1
                raise OutOfMemory(wanted, max(self.device.free(), 0))
        block = Block(self.space.take(wanted), wanted, stream, pool == SMALL)
        self.device.segments += wanted
        self.heads[block.address] = block
        self.reserved.add(pool, wanted)
        self.segments.add(pool, 1)
        return block

    def _fits(self, size):
        if self.allowed is not None and self.device.segments + size > self.allowed:
            return False
        return size <= self.device.free()

    # --- what PyTorch tells ---

    def split_idle(self):
        """(bytes, blocks) of free blocks in segments that hold others: `inactive_split` of PyTorch."""
        found = [block.size for block in self.at.values()
                 if block.previous is not None or block.next is not None]
        return sum(found), len(found)

    def memory_stats(self):
        """The counters, nested as by torch._C._cuda_memoryStats(); inactive_split has only what the hook reads."""
        split_bytes, splits = self.split_idle()
        stats = {"allocated_bytes": self.allocated.as_torch(), "reserved_bytes": self.reserved.as_torch(),
                 "active_bytes": self.allocated.as_torch(), "requested_bytes": self.requested.as_torch(),
                 "allocation": self.blocks.as_torch(), "active": self.blocks.as_torch(),
                 "segment": self.segments.as_torch(),
                 "inactive_split_bytes": {"all": {"current": split_bytes}},
                 "inactive_split": {"all": {"current": splits}},
                 "num_alloc_retries": self.retries, "num_ooms": self.refusals}
        return stats

    def memory_snapshot(self):
        """As torch.cuda.memory_snapshot(), without call sites."""
        segments = []
        for address in sorted(self.heads):
            head = block = self.heads[address]
            blocks = []
            while block is not None:
                state = "active_allocated" if block.live else "inactive"
                blocks.append({"address": block.address, "size": block.size, "requested_size": block.requested,
                               "state": state, "frames": []})
                block = block.next
            live = sum(b["size"] for b in blocks if b["state"] != "inactive")
            segments.append({"device": 0, "address": address, "total_size": sum(b["size"] for b in blocks),
                             "allocated_size": live, "active_size": live, "requested_size": live,
                             "stream": head.stream, "segment_type": "small" if head.small else "large",
                             "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks})
        return segments


def segment_size(rounded):
    if rounded <= SMALL_MAX:
        return SMALL_SEGMENT
    if rounded < SHARED_BELOW:
        return SHARED_SEGMENT
    return -(-rounded // LARGE_STEP) * LARGE_STEP


class AddressSpace:
    """Addresses as mmap() gives them: the end of the highest gap that is large enough. Of two free blocks of one size the
    allocator takes the lower one, so this decides what is split."""

    def __init__(self):
        self.gaps = [[0, 1 << 46]]  # [start, end), rising

    def take(self, size):
        for gap in reversed(self.gaps):
            if gap[1] - gap[0] >= size:
                gap[1] -= size
                return gap[1]
        raise MemoryError(size)

    def give(self, start, size):
        at = bisect.bisect(self.gaps, [start, start])
        self.gaps.insert(at, [start, start + size])
        for left in (at, at - 1):
            if 0 <= left < len(self.gaps) - 1 and self.gaps[left][1] == self.gaps[left + 1][0]:
                self.gaps[left][1] = self.gaps.pop(left + 1)[1]


class IdealAllocator:
    """Live bytes only: free memory serves any request. The difference is the cost of fragmentation and rounding."""

    def __init__(self, device, allowed=None):
        self.device, self.allowed = device, allowed

    def allocate(self, size, _stream=0):
        if size > self.device.free() or (self.allowed is not None and self.device.segments + size > self.allowed):
            raise OutOfMemory(size, max(self.device.free(), 0))
        self.device.segments += size
        return size

    def release(self, size):
        self.device.segments -= size

    def empty_cache(self):
        return 0
