"""State in Python dictionaries: the simplest store, and the model that the others are compared with.

Each relation is a dict from keys to dicts from places to values. All three are tuples of words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from .base import RowStore
from .protocol import Found, Relation, empty

Place = tuple[int, ...]
Rows = dict[Place, Place]
"""The rows of one key: the value at each place."""


class DictStore(RowStore):
    """A store in dictionaries.

    >>> from sharedstate_lite.plan import Column, Type
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = DictStore()
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> before = store.handle()
    >>> store.write({"total": Delta(np.array([[7, 7], [10, 11]]), np.array([-1, 1]))}, epoch=2)
    >>> [reader.read("total", np.array([[7]]))[1].tolist() for reader in (before, store)]
    [[[7], [10]], [[7], [11]]]
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self._data: dict[str, dict[Place, Rows]] = {r.name: {} for r in relations}

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return find(self._relations[relation], self._data[relation], keys, sub)

    def scan(self, relation: str) -> Words:
        found, data = self._relations[relation], self._data[relation]
        return _matrix(found, ((*key, *place, *value) for key, rows in data.items() for place, value in rows.items()))

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        for handle in self.handles:
            handle.keep(changes)
        for name, delta in changes.items():
            relation, data = self._relations[name], self._data[name]
            changed = zip(zip(*delta.rows.tolist(), strict=True), delta.diffs.tolist(), strict=True)
            # Old rows go first, because a new row can have the same key and place.
            for row, diff in sorted(changed, key=lambda change: change[1]):
                key, place = row[: relation.key], row[relation.key : relation.identity]
                if diff > 0:
                    data.setdefault(key, {})[place] = row[relation.identity :]
                else:
                    del data[key][place]
                    if not data[key]:
                        del data[key]

    def size(self, relation: str) -> tuple[int, int]:
        data, size = self._data[relation], sys.getsizeof
        tuples = sum(size(place) + size(value) for rows in data.values() for place, value in rows.items())
        whole = size(data) + tuples + sum(size(key) + size(rows) for key, rows in data.items())
        return sum(map(len, data.values())), whole

    def close(self) -> None:
        self._data = {name: {} for name in self._relations}


def find(relation: Relation, data: Mapping[Place, Rows], keys: Words, sub: Words | None) -> Found:
    """Look up keys, and places if ``sub`` is given, in a dictionary of a relation's rows."""
    owner: list[int] = []
    found: list[Place] = []
    places: list[Place] = [] if sub is None else list(zip(*sub.tolist(), strict=True))
    for at, key in enumerate(zip(*keys.tolist(), strict=True)):
        rows = data.get(key)
        if rows is None:
            continue
        if sub is not None:
            value = rows.get(places[at])
            rows = {} if value is None else {places[at]: value}
        owner += [at] * len(rows)
        found += [(*key, *place, *value) for place, value in rows.items()]
    return np.array(owner, dtype=np.intp), _matrix(relation, found)


def _matrix(relation: Relation, rows: Iterator[Place] | list[Place]) -> Words:
    rows = list(rows)
    return np.array(rows, dtype=np.int64).T if rows else empty(relation)
