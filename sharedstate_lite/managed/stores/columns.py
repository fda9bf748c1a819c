"""State in columns: an arrangement for each relation, with its rows sorted by the hash of the key.

An update is the old row with diff -1 and the new row with diff +1, in a small new batch. The arrangement merges batches
later. It is therefore a store with a main part and deltas. A handle costs no copy of the state: it lists the batches
of its version, which stay in memory until it is closed.

Source: Krueger et al., Fast updates on read-optimized databases using multi-core CPUs, VLDB 2011 (main and delta);
McSherry et al., Shared Arrangements, VLDB 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from ... import loops
from ...storage.arrangement import Arrangement, FoundRows
from ...storage.batch import LOW_BITS, Delta, prefix
from ...storage.encoding import Dictionary, Words
from ..bins import word_range
from .base import RowStore
from .protocol import Found, Relation, net


class ColumnStore(RowStore):
    """A store in arrangements.

    >>> from sharedstate_lite.plan import Column, Type
    >>> total = Relation("total", (Column("plane", Type.INT), Column("value", Type.BIGINT)), key=1)
    >>> store = ColumnStore()
    >>> store.open("late", [total], Dictionary(), bins=8)
    >>> store.write({"total": Delta(np.array([[7, 8], [10, 20]]), np.array([1, 1]))}, epoch=1)
    >>> store.scan("total").tolist()
    [[8, 7], [20, 10]]
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        super().open(name, relations, strings, bins)
        self.arrangements = {r.name: Arrangement(f"{name}.{r.name}", r.layout) for r in relations}

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        return find(self.arrangements[relation], self._relations[relation], self._strings, keys, sub)

    def scan(self, relation: str) -> Words:
        return self.arrangements[relation].contents(strings=self._strings).rows

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        bodies = {name: self.arrangements[name].layout.body(*delta, self._strings) for name, delta in changes.items()}
        for name, body in bodies.items():
            arrangement = self.arrangements[name]
            arrangement.insert_body(body)
            arrangement.commit(arrangement.upper + 1)

    def size(self, relation: str) -> tuple[int, int]:
        arrangement = self.arrangements[relation]
        return arrangement.rows, arrangement.nbytes

    def take(self, bins: Sequence[int]) -> bytes:
        words = [word_range(number, self._bins) for number in bins]
        rows = {name: each.take(words).rows for name, each in self.arrangements.items()}
        for arrangement in self.arrangements.values():
            arrangement.commit(arrangement.upper + 1)
        return self._pack(rows)

    def handle(self) -> ColumnStore:
        # Batches are immutable, so a second list of them is a past version, whatever is merged later.
        out = copy(self)
        out.arrangements = {}
        for name, each in self.arrangements.items():
            out.arrangements[name] = Arrangement(each.name, each.layout, each.upper)
            out.arrangements[name].runs = list(each.runs)
        return out

    def close(self) -> None:
        self.open(self._name, list(self._relations.values()), self._strings, self._bins)


def find(
    arrangement: Arrangement, relation: Relation, strings: Dictionary, keys: Words, sub: Words | None = None
) -> Found:
    """Look up keys, and places if ``sub`` is given, in an arrangement."""
    layout = arrangement.layout
    words, low_bits = layout.key_words(keys, strings), LOW_BITS
    if sub is not None:
        # The low bits of a sort word are a code of the first column of the place.
        words, low_bits = words | prefix(sub[0], layout.types[relation.key], strings).view(np.int64), 0
    order = words.argsort()  # sorted words are found in one walk through a batch
    found = FoundRows(layout, keys.take(order, axis=1), words.take(order), low_bits)
    for batch in arrangement.runs:
        arrangement.read(found, batch, None)
    owner, lines = order.take(found.owner[: found.kept]), found.lines[1:, : found.kept]
    if sub is not None:
        same = (lines[relation.key : relation.identity] == sub.take(owner, axis=1)).all(axis=0)
        owner, lines = owner.compress(same), lines.compress(same, axis=1)
    if (relation.sub and sub is None) or any(batch.timed for batch in arrangement.runs):
        return net(owner, lines, relation, strings)
    rows, there = np.empty((layout.columns, len(words)), dtype=np.int64), np.empty(len(words), dtype=bool)
    loops.last_rows(owner, lines[:-1], lines[-1:], rows, there)
    at = there.nonzero()[0]
    return at, rows if len(at) == len(words) else rows.take(at, axis=1)
