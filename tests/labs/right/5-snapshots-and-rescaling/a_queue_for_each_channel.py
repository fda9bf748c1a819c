"""Lab 5: a queue for each channel, and an object for each bin. Waiting rows are released channel by channel."""

from collections import deque


class Aligned:
    def __init__(self, channels):
        self.queues = {channel: deque() for channel in channels}
        self.missing = set(channels)
        self.total = 0

    def add(self, n):
        self.total += n
        return ["out", self.total]

    def row(self, channel, n):
        if channel in self.missing:
            return [self.add(n)]
        self.queues[channel].append(n)
        return []

    def barrier(self, channel, n):
        self.missing.remove(channel)
        if self.missing:
            return []
        self.missing = set(self.queues)
        saved = ["snapshot", n, self.total]
        sent = [["barrier", n]]
        for name in sorted(self.queues, reverse=True):
            while self.queues[name]:
                sent.append(self.add(self.queues[name].popleft()))
        return [*sent, saved]

    def restore(self, snapshot):
        self.total = snapshot
        return []


class Unaligned:
    """The rows before each barrier are stored from the beginning of the snapshot, for all channels."""

    def __init__(self, channels):
        self.channels = tuple(channels)
        self.total, self.snapshot, self.missing = 0, None, set()

    def row(self, channel, n):
        self.total += n
        if channel in self.missing:
            self.snapshot[1][channel].append(n)
        return [("out", self.total)]

    def barrier(self, channel, n):
        begins = self.snapshot is None
        if begins:
            self.snapshot, self.missing = [self.total, {name: [] for name in self.channels}], set(self.channels)
        self.missing.discard(channel)
        sent = []
        if not self.missing:
            sent.append(("snapshot", n, self.snapshot))
            self.snapshot = None
        return [*sent, ("barrier", n)] if begins else sent

    def restore(self, snapshot):
        self.total = snapshot[0]
        sent = []
        for channel in reversed(self.channels):
            for n in snapshot[1].get(channel, ()):
                sent += self.row(channel, n)
        return sent


def plan(owners, workers, steps):
    share, extra = divmod(len(owners), workers)
    room = [share] * workers
    for worker in sorted(range(workers), key=owners.count, reverse=True)[:extra]:
        room[worker] += 1
    leaving = []
    for bin, owner in enumerate(owners):
        if owner < workers and room[owner]:
            room[owner] -= 1
        else:
            leaving.append((bin, owner))
    places = [worker for worker in range(workers) for _ in range(room[worker])]
    moves = [(bin, old, new) for (bin, old), new in zip(leaving, places, strict=True)]
    return [moves[at::steps] for at in range(steps)]


class Bin:
    """What a worker knows about a bin. The total is None unless the bin is here."""

    def __init__(self, total=None):
        self.total, self.waiting, self.expected, self.moves = total, [], False, 0


class Worker:
    def __init__(self, me, sources, bins):
        self.me, self.many = me, len(sources)
        self.bins = {bin: Bin(0) for bin in bins}

    def row(self, bin, n):
        known = self.bins.setdefault(bin, Bin())
        if known.total is not None:
            known.total += n
            return [["out", bin, known.total]]
        if known.expected:
            known.waiting.append(n)
            return []
        raise LostRowError(f"bin {bin} is not here")

    def move(self, source, bin, old, new):
        known = self.bins.setdefault(bin, Bin())
        if new == self.me:
            known.expected = known.total is None
            return []
        known.moves += 1
        if known.moves < self.many:
            return []
        del self.bins[bin]
        return [["state", new, bin, known.total]]

    def take(self, bin, total):
        known = self.bins.setdefault(bin, Bin())
        rows, known.total, known.waiting, known.expected = known.waiting, total, [], False
        return [message for n in rows for message in self.row(bin, n)]

    def owned(self):
        return [[bin, known.total] for bin, known in self.bins.items() if known.total is not None]


class LostRowError(ValueError):
    """A row of a bin that is not here."""
