"""State in a hybrid log: an index from each row's key to its address in a log, of which the tail is updated in place.

    address     0 ...... head ............ read-only ............ tail
    the log     on disk       in memory                in memory
    an update   appends       appends                  changes the row in place

An update of a row near the end of the log costs one write into memory. A row that is not updated falls behind as others
are appended: its next update is a copy at the tail, and in the end it goes to disk. Rows that are updated often thus
stay in memory without any bookkeeping of their use.

Source: Chandramouli et al., FASTER: a concurrent key-value store with in-place updates, SIGMOD 2018.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from .base import RowStore
from .protocol import Found, Relation

Place = tuple[int, ...]
Index = dict[Place, dict[Place, int]]
"""The address of each row: by the operator's key, then by the place."""


class Log:
    """Rows of int64[width] at addresses 0, 1, 2, ... Those before ``head`` are in a file."""

    def __init__(self, width: int, mutable: int) -> None:
        self._file, self.width, self.mutable = tempfile.TemporaryFile(), width, mutable
        self._rows = np.empty((64, width), dtype=np.int64)
        self.head = self.tail = 0

    @property
    def read_only(self) -> int:
        """The first address that can be updated in place."""
        return max(0, self.tail - self.mutable)

    def read(self, addresses: Words) -> Words:
        """Return the rows at some addresses, int64[width, n]."""
        out, cold = np.empty((len(addresses), self.width), dtype=np.int64), addresses < self.head
        out[~cold] = self._rows[addresses[~cold] - self.head]
        size = 8 * self.width
        for i in np.flatnonzero(cold).tolist():
            self._file.seek(int(addresses[i]) * size)
            out[i] = np.frombuffer(self._file.read(size), dtype=np.int64)
        return out.T

    def update(self, addresses: Words, rows: npt.NDArray[np.int64]) -> None:
        """Replace rows in place, int64[n, width]."""
        self._rows[addresses - self.head] = rows

    def append(self, rows: npt.NDArray[np.int64], memory: int) -> None:
        """Append rows, int64[n, width]. When more than ``memory`` rows are in memory, write the older half to disk."""
        start, end = self.tail - self.head, self.tail - self.head + len(rows)
        if end > len(self._rows):
            self._rows = np.concatenate([self._rows[:start], np.empty((end, self.width), dtype=np.int64)])
        self._rows[start:end] = rows
        self.tail += len(rows)
        if end > memory:
            cold = max(0, min(self.read_only - self.head, end - memory // 2))
            self._file.seek(self.head * 8 * self.width)
            self._file.write(self._rows[:cold].tobytes())
            self._rows = self._rows[cold:end].copy()
            self.head += cold

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


class UpdateCounts(NamedTuple):
    """What a `HybridStore` did with the rows that it wrote."""

    in_place: int
    appended: int


class HybridStore(RowStore):
    """A store in a hybrid log. ``mutable`` and ``memory`` are numbers of rows for each relation.

    >>> from sharedstate_lite.plan import Column, Type
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = HybridStore(mutable=1)
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> store.write({"total": Delta(np.array([[7, 8, 7, 8], [10, 20, 11, 21]]), np.array([-1, -1, 1, 1]))}, epoch=2)
    >>> store.counts                                              # plane 7 was before the mutable region
    UpdateCounts(in_place=1, appended=3)
    >>> store.close()
    """

    def __init__(self, mutable: int = 1 << 16, memory: int = 1 << 20) -> None:
        self._mutable, self._memory = mutable, max(memory, 2 * mutable)

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self._index: dict[str, Index] = {r.name: {} for r in relations}
        self._live = {r.name: 0 for r in relations}
        self._log = {r.name: Log(len(r.columns), self._mutable) for r in relations}
        self.counts = UpdateCounts(0, 0)

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        index = self._index[relation]
        owner: list[int] = []
        addresses: list[int] = []
        places: list[Place] = [] if sub is None else list(zip(*sub.tolist(), strict=True))
        for at, key in enumerate(zip(*keys.tolist(), strict=True)):
            found = index.get(key, {})
            some = found.values() if sub is None else [found[places[at]]] if places[at] in found else []
            owner += [at] * len(some)
            addresses += some
        return np.array(owner, dtype=np.intp), self._log[relation].read(np.array(addresses, dtype=np.int64))

    def scan(self, relation: str) -> Words:
        addresses = [address for places in self._index[relation].values() for address in places.values()]
        return self._log[relation].read(np.array(addresses, dtype=np.int64))

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        for handle in self.handles:
            handle.keep(changes)
        for name, (rows, diffs) in changes.items():
            relation, index, log = self._relations[name], self._index[name], self._log[name]
            new, old = rows.compress(diffs > 0, axis=1), rows.compress(diffs < 0, axis=1)
            written = list(_identities(relation, new))
            stays = set(written)
            for key, place in _identities(relation, old):
                if (key, place) not in stays:
                    del index[key][place]
                    if not index[key]:
                        del index[key]
            addresses = np.array([index.setdefault(key, {}).get(place, -1) for key, place in written], dtype=np.int64)
            fresh = np.flatnonzero(addresses < log.read_only)
            for address, at in enumerate(fresh.tolist(), log.tail):
                key, place = written[at]
                index[key][place] = address
            in_place = np.flatnonzero(addresses >= log.read_only)
            log.update(addresses[in_place], new.T[in_place])
            log.append(new.T[fresh], self._memory)
            self.counts = UpdateCounts(self.counts.in_place + len(in_place), self.counts.appended + len(fresh))
            self._live[name] += int(diffs.sum())
            if log.tail > 4 * self._live[name] + self._memory:
                self._compact(relation)

    def size(self, relation: str) -> tuple[int, int]:
        log, index, size = self._log[relation], self._index[relation], sys.getsizeof
        places = sum(size(key) + size(each) + sum(map(size, each)) for key, each in index.items())
        return self._live[relation], 8 * log.width * log.tail + size(index) + places

    def close(self) -> None:
        for log in self._log.values():
            log.close()

    def _compact(self, relation: Relation) -> None:
        """Copy the rows that are in the index to a new log."""
        rows, log = self.scan(relation.name), Log(len(relation.columns), self._mutable)
        self._log[relation.name].close()
        log.append(rows.T, self._memory)
        self._log[relation.name] = log
        for address, (key, place) in enumerate(_identities(relation, rows)):
            self._index[relation.name][key][place] = address


def _identities(relation: Relation, rows: Words) -> Iterator[tuple[Place, Place]]:
    """Yield the operator's key and the place of each row."""
    for row in zip(*rows[: relation.identity].tolist(), strict=True):
        yield row[: relation.key], row[relation.key :]
