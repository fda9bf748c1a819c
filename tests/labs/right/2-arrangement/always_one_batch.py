"""Lab 2 with a single batch, which every insert merges again, and a join with three functions."""

import bisect
import functools


class Handle(int):
    """The number of a handle."""


class Arrangement:
    numbers = 0

    def __init__(self):
        self.upper, self.entries, self.open = 1, [], {}

    @property
    def since(self):
        return sorted([*self.open.values(), self.upper - 1])[0]

    def insert(self, changes):
        for row, diff in changes:
            bisect.insort(self.entries, (row, self.upper, diff))
        self.upper = self.upper + 1
        self.compact()

    def compact(self):
        kept = []
        for row, time, diff in self.entries:
            time = time if time > self.since else self.since
            if kept and kept[-1][:2] == [row, time]:
                kept[-1][2] += diff
                if kept[-1][2] == 0:
                    kept.pop()
            else:
                kept.append([row, time, diff])
        self.entries = [tuple(entry) for entry in kept if entry[2]]

    def _check(self, time, first):
        if not first <= time <= self.upper - 1:
            raise ValueError(time)

    def at(self, key, time=None):
        time = self.upper - 1 if time is None else time
        self._check(time, self.since)
        start = bisect.bisect_left(self.entries, ((key,),))
        counts = {}
        for row, when, diff in self.entries[start:]:
            if row[0] != key:
                break
            counts[row] = counts.get(row, 0) + (diff if when <= time else 0)
        return list(filter(lambda pair: pair[1], counts.items()))

    def handle(self, time):
        self._check(time, self.since)
        Arrangement.numbers += 1
        self.open[Arrangement.numbers] = time
        return Handle(Arrangement.numbers)

    def advance(self, handle, time):
        self._check(time, self.open[handle])
        self.open[handle] = time

    def close(self, handle):
        self.open.pop(handle)

    def save(self):
        return [[1, self.upper, self.entries]]

    def load(self, saved):
        for _, self.upper, entries in saved:
            self.entries += [(tuple(row), time, diff) for row, time, diff in entries]


class DeltaJoin:
    def __init__(self, look):
        self.look = look

    def step(self, time, changes):
        @functools.cache
        def new(table, key):
            return tuple(map(tuple, self.look(table, key, time)))

        @functools.cache
        def old(table, key):
            return tuple(map(tuple, self.look(table, key, time - 1)))

        out = []
        for (key, cents), n in changes["price"]:
            for (_, length), m in new("visit", key):
                out += [((key, kind, length, cents), n * m * k) for (_, kind), k in new("info", key)]
        for (key, length), n in changes["visit"]:
            for (_, cents), m in old("price", key):
                out += [((key, kind, length, cents), n * m * k) for (_, kind), k in new("info", key)]
        for (key, kind), n in changes["info"]:
            for (_, length), m in old("visit", key):
                out += [((key, kind, length, cents), n * m * k) for (_, cents), k in old("price", key)]
        return out
