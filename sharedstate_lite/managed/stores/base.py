"""What stores have in common: moving bins, checkpoints of the whole store, and handles that keep old rows.

All three only call `scan`, `read` and `write`. A store replaces what it can do better.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import CheckpointError
from ...storage.batch import Delta, concat
from ...storage.encoding import Dictionary, Words
from ...system.scratch import Scratch
from .protocol import Found, Relation, StoreReader, add_changes, bins_of, changed, pack, unpack

STATE = "state"
"""The file that `RowStore.save` writes."""


class RowStore:
    """A store that moves and saves its rows by reading all of them, and changes them with ``write`` only."""

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        self._name, self._relations = name, {r.name: r for r in relations}
        self._strings, self._bins = strings, bins
        self.handles: list[UndoHandle] = []

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        raise NotImplementedError

    def scan(self, relation: str) -> Words:
        raise NotImplementedError

    def write(self, changes: Mapping[str, Delta], epoch: int) -> None:
        raise NotImplementedError

    def take(self, bins: Sequence[int]) -> bytes:
        out = {}
        for name, relation in self._relations.items():
            rows = self.scan(name)
            out[name] = rows.compress(np.isin(bins_of(relation, rows, self._bins, self._strings), list(bins)), axis=1)
        self.write({name: Delta(rows, np.full(rows.shape[1], -1)) for name, rows in out.items()}, 0)
        return self._pack(out)

    def give(self, blob: bytes) -> None:
        rows = unpack(blob, list(self._relations.values()), self._strings)
        self.write({name: Delta(each, np.ones(each.shape[1], dtype=np.int64)) for name, each in rows.items()}, 0)

    def handle(self) -> StoreReader:
        self.handles.append(UndoHandle(self))
        return self.handles[-1]

    def save(self, folder: Path) -> None:
        (folder / STATE).write_bytes(self._pack({name: self.scan(name) for name in self._relations}))

    def load(self, folder: Path) -> None:
        self.give(required(folder / STATE).read_bytes())

    def _pack(self, rows: Mapping[str, Words]) -> bytes:
        return pack(rows, list(self._relations.values()), self._strings)


class UndoHandle:
    """Reads a store as it was when the handle was opened: the present rows, and the changes since then undone.

    The store calls `keep` before each write (an undo log, as in the rollback segments of a database).
    """

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._undone = {name: relation.no_changes() for name, relation in store._relations.items()}

    def keep(self, changes: Mapping[str, Delta]) -> None:
        """Keep the opposite of changes that are about to be written."""
        for name, delta in changes.items():
            add_changes(self._undone[name], Delta(delta.rows, -delta.diffs), self._store._strings)

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        store, found = self._store, self._store.read(relation, keys, sub)
        return changed(found, self._undone[relation], store._relations[relation], store._strings, keys, sub)

    def scan(self, relation: str) -> Words:
        rows, strings = self._store.scan(relation), self._store._strings
        present = Delta(rows, np.ones(rows.shape[1], dtype=np.int64))
        whole = concat([present, self._undone[relation].contents()], len(rows))
        layout = self._store._relations[relation].layout
        return layout.delta(layout.body(*whole, strings)).rows

    def close(self) -> None:
        self._store.handles = [handle for handle in self._store.handles if handle is not self]


def required(path: Path) -> Path:
    """Return ``path``. Raises CheckpointError if there is no such file."""
    if not path.exists():
        raise CheckpointError(
            f"{path.parent} has no {path.name!r}: another kind of store wrote this folder, or it is incomplete"
        )
    return path


def scratch(kind: str) -> Scratch:
    """Return a temporary folder for a store. It is deleted even if the process is killed."""
    return Scratch(Path(tempfile.gettempdir()), f"sharedstate-lite-{kind}-")
