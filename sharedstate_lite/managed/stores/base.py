"""What stores have in common: moving bins, checkpoints of the whole store, and handles that keep old rows.

All three only call `scan`, `read` and `write`. A store replaces what it can do better.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import CheckpointError
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ...system.scratch import Scratch
from .protocol import Found, Relation, StoreReader, bins_of, pack, unpack

Place = tuple[int, ...]

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
    """Reads a store as it was when the handle was opened: the present rows, and the old rows of what has changed.

    The store calls `keep` before each write (an undo log, as in the rollback segments of a database).
    """

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._before: dict[str, dict[Place, dict[Place, Place | None]]] = {name: {} for name in store._relations}

    def keep(self, changes: Mapping[str, Delta]) -> None:
        """Keep the rows that are about to change, unless they have changed before."""
        for name, delta in changes.items():
            relation, before = self._store._relations[name], self._before[name]
            changed = zip(zip(*delta.rows.tolist(), strict=True), delta.diffs.tolist(), strict=True)
            # The old row comes before the new one, which counts only if there was no old one.
            for row, diff in sorted(changed, key=lambda change: change[1]):
                places = before.setdefault(row[: relation.key], {})
                places.setdefault(row[relation.key : relation.identity], row if diff < 0 else None)

    def read(self, relation: str, keys: Words, sub: Words | None = None) -> Found:
        owner, rows = self._store.read(relation, keys, sub)
        live, before = self._unchanged(relation, rows), self._before[relation]
        wanted = [None] * keys.shape[1] if sub is None else list(zip(*sub.tolist(), strict=True))
        asked = zip(zip(*keys.tolist(), strict=True), wanted, strict=True)
        old = [
            (at, row)
            for at, (key, only) in enumerate(asked)
            for place, row in before.get(key, {}).items()
            if row is not None and only in (None, place)
        ]
        owners = np.concatenate([owner.compress(live), np.array([at for at, _ in old], dtype=np.intp)])
        return owners, self._joined(rows.compress(live, axis=1), [row for _, row in old])

    def scan(self, relation: str) -> Words:
        rows = self._store.scan(relation)
        old = [row for places in self._before[relation].values() for row in places.values() if row is not None]
        return self._joined(rows.compress(self._unchanged(relation, rows), axis=1), old)

    def close(self) -> None:
        self._store.handles = [handle for handle in self._store.handles if handle is not self]

    def _unchanged(self, relation: str, rows: Words) -> npt.NDArray[np.bool_]:
        found, before = self._store._relations[relation], self._before[relation]
        identities = zip(*rows[: found.identity].tolist(), strict=True)
        return np.array([each[found.key :] not in before.get(each[: found.key], ()) for each in identities], dtype=bool)

    @staticmethod
    def _joined(rows: Words, old: list[Place]) -> Words:
        return np.concatenate([rows, np.array(old, dtype=np.int64).T], axis=1) if old else rows


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


def link(source: str | Path, target: str | Path) -> None:
    """Give a file that never changes a second name, or copy it if the file system cannot do that."""
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)
