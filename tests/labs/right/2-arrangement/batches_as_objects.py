"""Lab 2 with classes for batches and handles, merges by size classes, and a join that replaces one table at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Batch:
    lower: int
    upper: int
    entries: Counter = field(default_factory=Counter)  # (row, time) -> diff

    def merged(self, other: Batch, since: int) -> Batch:
        out = Batch(self.lower, other.upper)
        for part in (self, other):
            for (row, time), diff in part.entries.items():
                out.entries[row, max(time, since)] += diff
        out.entries = Counter({entry: diff for entry, diff in out.entries.items() if diff})
        return out

    def size(self) -> int:
        return len(self.entries).bit_length()


class Arrangement:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.handles: dict[int, int] = {}
        self.next = 100

    @property
    def upper(self) -> int:
        return self.batches[-1].upper if self.batches else 1

    @property
    def since(self) -> int:
        return min(self.handles.values()) if self.handles else self.upper - 1

    def insert(self, changes) -> None:
        batch = Batch(self.upper, self.upper + 1)
        for row, diff in changes:
            batch.entries[row, batch.lower] += diff
        self.batches.append(batch)
        while len(self.batches) > 1 and self.batches[-2].size() <= self.batches[-1].size():
            newest = self.batches.pop()
            self.batches.append(self.batches.pop().merged(newest, self.since))

    def at(self, key, time=None):
        if time is None:
            time = self.upper - 1
        self._readable(time)
        rows: Counter = Counter()
        for batch in self.batches:
            for (row, when), diff in batch.entries.items():
                if row[0] == key and when <= time:
                    rows[row] += diff
        return sorted((row, n) for row, n in rows.items() if n)

    def _readable(self, time) -> None:
        if time not in range(self.since, self.upper):
            raise ValueError(f"{time} is outside [{self.since}, {self.upper})")

    def handle(self, time) -> int:
        self._readable(time)
        self.next += 7
        self.handles[self.next] = time
        return self.next

    def advance(self, handle, time) -> None:
        if time not in range(self.handles[handle], self.upper):
            raise ValueError("a handle moves forward, to a complete epoch")
        self.handles[handle] = time

    def close(self, handle) -> None:
        self.handles.pop(handle)

    def compact(self) -> None:
        whole = Batch(1, 1)
        for batch in self.batches:
            whole = whole.merged(batch, self.since)
        if self.batches:
            self.batches = [whole]

    def save(self):
        return [
            (batch.lower, batch.upper, [(row, time, diff) for (row, time), diff in batch.entries.items()])
            for batch in self.batches
        ]

    def load(self, saved) -> None:
        self.batches = [
            Batch(lower, upper, Counter({(tuple(row), time): diff for row, time, diff in entries}))
            for lower, upper, entries in saved
        ]


class DeltaJoin:
    def __init__(self, look) -> None:
        self.look = look

    def step(self, time, changes):
        """(A+a)(B+b)(C+c) - ABC = aBC + AbC + ABc + abC + aBc + Abc + abc, with the tables before the epoch."""
        keys = {row[0] for table in changes for row, _ in changes[table]}
        out: Counter = Counter()
        for key in keys:
            old = {table: self.look(table, key, time - 1) for table in changes}
            new = {table: [one for one in changes[table] if one[0][0] == key] for table in changes}
            for mask in range(1, 8):
                info, visit, price = (
                    (new if mask >> at & 1 else old)[table] for at, table in enumerate(("info", "visit", "price"))
                )
                for (_, kind), n in info:
                    for (_, length), m in visit:
                        for (_, cents), k in price:
                            out[key, kind, length, cents] += n * m * k
        return list(out.items())
