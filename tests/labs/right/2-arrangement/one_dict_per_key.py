"""Lab 2 with one dictionary for each key, and a join that compares the result before and after the epoch."""

from collections import defaultdict
from itertools import product


class Arrangement:
    def __init__(self):
        self.upper = 1
        self.since = 0
        self.history = defaultdict(dict)  # key -> {(row, time): diff}
        self.readers = []  # the time of each handle that was ever opened, or None if it is closed

    def _look_again(self):
        self.since = min((time for time in self.readers if time is not None), default=self.upper - 1)

    def insert(self, changes):
        for row, diff in changes:
            entries = self.history[row[0]]
            entries[row, self.upper] = entries.get((row, self.upper), 0) + diff
        self.upper += 1
        self._look_again()

    def at(self, key, time=None):
        if time is None:
            time = self.upper - 1
        if time < self.since or time >= self.upper:
            raise ValueError("this epoch cannot be read")
        counts = {}
        for (row, when), diff in self.history.get(key, {}).items():
            if when <= time:
                counts[row] = counts.get(row, 0) + diff
        return [[row, count] for row, count in counts.items() if count != 0]

    def handle(self, time):
        if time < self.since or time >= self.upper:
            raise ValueError("no handle here")
        self.readers.append(time)
        self._look_again()
        return len(self.readers) - 1

    def advance(self, handle, time):
        if time < self.readers[handle] or time >= self.upper:
            raise ValueError("not forward")
        self.readers[handle] = time
        self._look_again()

    def close(self, handle):
        self.readers[handle] = None
        self._look_again()

    def compact(self):
        for key, entries in self.history.items():
            folded = defaultdict(int)
            for (row, when), diff in entries.items():
                folded[row, max(when, self.since)] += diff
            self.history[key] = {entry: diff for entry, diff in folded.items() if diff}

    def save(self):
        entries = [(*entry, diff) for entries in self.history.values() for entry, diff in entries.items()]
        return [(1, self.upper, entries)]

    def load(self, saved):
        [(_, upper, entries)] = saved
        for row, when, diff in entries:
            self.history[row[0]][tuple(row), when] = diff
        self.upper = upper
        self._look_again()


class DeltaJoin:
    def __init__(self, look):
        self.look = look

    def step(self, time, changes):
        keys = {row[0] for rows in changes.values() for row, _ in rows}
        return [
            (row, sign * count)
            for key in keys
            for sign, when in ((1, time), (-1, time - 1))
            for row, count in self._all(key, when)
        ]

    def _all(self, key, time):
        tables = [self.look(table, key, time) for table in ("info", "visit", "price")]
        for (info, n), (visit, m), (price, k) in product(*tables):
            yield (key, info[1], visit[1], price[1]), n * m * k
