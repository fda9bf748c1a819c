"""What every store can do: the rows of an operator's state, read and written by key.

The state of an operator is shredded into *relations*, one for each level of nesting. A row of a relation consists of
words (int64, see `storage.encoding`):

    the first ``key`` columns    the operator's key
    the next ``sub`` columns     the place inside the key: a position, a map key, or both for nested types
    the other columns            the value

The key and the place identify a row: a relation holds at most one row for each pair of them. NULL is an ordinary word
here, so a key can be NULL.

An epoch changes a relation by a `Delta`: the old row with diff -1, the new row with diff +1. The caller has read the
old rows before, and it has consolidated the delta, so rows that do not change do not appear in it.

Every key belongs to a *bin*, by the top bits of its hash (`managed.bins`). All rows of a key, in every relation, are in
the same bin, and `StateStore.take` and `StateStore.give` move whole bins between stores.

All stores hold the same rows after the same calls. Rule 29 checks this.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...plan.nodes import Column, Type
from ...storage import wire
from ...storage.arrangement import Arrangement
from ...storage.batch import Delta, Layout, hash_rows
from ...storage.encoding import Dictionary, Words
from ..bins import bin_of


class Relation(NamedTuple):
    """One relation of an operator's state: its name, its columns, and how many of them are the key and the place."""

    name: str
    columns: tuple[Column, ...]
    key: int
    sub: int = 0
    reducers: tuple[str, ...] = ()
    """sum, min or max for each value column, if a server is to reduce the relation (`inside`); otherwise empty."""

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns."""
        return tuple(c.type for c in self.columns)

    @property
    def identity(self) -> int:
        """The number of columns that identify a row: those of the key and of the place."""
        return self.key + self.sub

    @property
    def layout(self) -> Layout:
        """The format of a batch of rows. The first column of the place orders the rows of a key."""
        return Layout(self.types, tuple(range(self.key)), self.key if self.sub else None)

    def no_changes(self) -> Arrangement:
        """Return an empty arrangement of changes, for `add_changes` and `changed`."""
        return Arrangement(self.name, self.layout)


Found = tuple[npt.NDArray[np.intp], Words]
"""The m rows found for some keys: the position of each row's key, intp[m], and the rows, int64[k, m]."""


class StoreReader(Protocol):
    """Reads one version of a store. Rows are returned in any order."""

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        """Return the rows of the distinct ``keys``, int64[key, q].

        With ``sub``, int64[sub, q], return for each key only the row at this place. The pairs must be distinct then.
        """

    def scan(self, relation: str) -> Words:
        """Return all rows of a relation, int64[k, n]."""

    def close(self) -> None:
        """Release what the reader holds. Closing it again has no effect."""


class StateStore(StoreReader, Protocol):
    """Holds the relations of one operator on one worker.

    ``StateStore()`` creates nothing; `open` does. `close` closes files and connections.
    """

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        """Prepare an empty store. ``name`` is unique in a run; a store in a server or folder uses it as a prefix.

        ``strings`` decodes the STRING columns. All stores of a run share it. Codes mean nothing outside the process, so
        what a store writes elsewhere contains the texts.
        """

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        """Apply the changes of an epoch, one delta for each relation that changes. On an error, apply none."""

    def size(self, relation: str) -> tuple[int, int]:
        """Return the number of stored rows, and the bytes that they take."""

    def take(self, bins: Sequence[int]) -> bytes:
        """Remove the rows of these bins from all relations, and return them for another store's `give`."""

    def give(self, blob: bytes) -> None:
        """Add the rows that another store's `take` returned. This store has no rows of their bins."""

    def handle(self) -> StoreReader:
        """Return a reader of the present version. Later writes do not change what it reads."""

    def save(self, folder: Path) -> None:
        """Write the present version into ``folder``, which exists and is empty."""

    def load(self, folder: Path) -> None:
        """Read what `save` of the same kind of store wrote, into this store, which is empty."""


def bins_of(relation: Relation, rows: Words, bins: int, strings: Dictionary) -> npt.NDArray[np.int64]:
    """Return the bin of each row of int64[k, n], int64[n]. Of the columns, only the key has to be there."""
    return bin_of(hash_rows(rows[: relation.key], relation.types[: relation.key], strings), bins)


def pack(parts: Mapping[str, Words], relations: Sequence[Relation], strings: Dictionary) -> bytes:
    """Encode the rows of some relations as a blob, in which strings are texts.

    >>> strings, other = Dictionary(), Dictionary()
    >>> total = Relation("total", (Column("plane", Type.STRING), Column("value", Type.BIGINT)), key=1)
    >>> blob = pack({"total": np.array([strings.codes(["N1", "N2"]), [10, 20]])}, [total], strings)
    >>> rows = unpack(blob, [total], other)["total"]
    >>> other.to_list(rows[0]), rows[1].tolist()
    (['N1', 'N2'], [10, 20])
    """
    blobs = {r.name: wire.encode(list(parts[r.name]), r.types, strings) for r in relations if r.name in parts}
    head = json.dumps({name: [len(blob), parts[name].shape[1]] for name, blob in blobs.items()}).encode()
    return b"".join([struct.pack("<I", len(head)), head, *blobs.values()])


def unpack(blob: bytes, relations: Sequence[Relation], strings: Dictionary) -> dict[str, Words]:
    """Decode what `pack` encoded: the rows of each relation, int64[k, n]. New strings are added to ``strings``."""
    out, at = {}, 4 + int(struct.unpack_from("<I", blob)[0])
    for name, (length, _) in json.loads(blob[4:at]).items():
        out[name] = wire.decode(blob[at : at + length], strings)
        at += length
    return out


def packed_rows(blob: bytes) -> int:
    """Return how many rows a blob has that `pack` encoded."""
    head = blob[4 : 4 + struct.unpack_from("<I", blob)[0]]
    return sum(rows for _, rows in json.loads(head).values())


def empty(relation: Relation) -> Words:
    """Return no rows of a relation, int64[k, 0]."""
    return np.empty((len(relation.columns), 0), dtype=np.int64)


def net(owner: npt.NDArray[np.intp], lines: Words, relation: Relation, strings: Dictionary) -> Found:
    """Add up the diffs of each owner's equal rows, and return the rows that remain.

    ``lines``, int64[k + 1, n], are rows of the relation and their diffs.
    """
    body = Layout((Type.BIGINT, *relation.types), (0,)).body(np.vstack([owner, lines[:-1]]), lines[-1], strings)
    return body[1], body[2:-1]


def add_changes(changes: Arrangement, delta: Delta, strings: Dictionary) -> None:
    """Add a delta to changes."""
    changes.insert(delta.rows, delta.diffs, strings)
    changes.commit(changes.upper + 1)


def changed(
    found: Found, changes: Arrangement, relation: Relation, strings: Dictionary, keys: Words, sub: Words | None
) -> Found:
    """Apply changes to the rows that a store has found for ``keys``, and for the places ``sub``."""
    owner, rows = found
    more, delta, diffs = changes.match(keys, strings)
    if sub is not None:
        same = (delta[relation.key : relation.identity] == sub.take(more, axis=1)).all(axis=0)
        more, delta, diffs = more.compress(same), delta.compress(same, axis=1), diffs.compress(same, axis=1)
    lines = np.hstack([np.vstack([rows, np.ones_like(owner)]), np.vstack([delta, diffs])])
    return net(np.concatenate([owner, more]), lines, relation, strings)
