"""What stores of rows have in common: moving bins and checkpointing the whole store, by means of `scan` and `write`."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import CheckpointError
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ...system.scratch import Scratch
from .protocol import Relation, bins_of, pack, unpack

Place = tuple[int, ...]

STATE = "state"
"""The file that `RowStore.save` writes."""


class RowStore:
    """A store whose `take`, `give`, `save` and `load` read all rows with ``scan`` and change them with ``write``."""

    def open(self, name: str, relations: Sequence[Relation], strings: Dictionary, bins: int) -> None:
        self._name, self._relations = name, {r.name: r for r in relations}
        self._strings, self._bins = strings, bins

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

    def save(self, folder: Path) -> None:
        (folder / STATE).write_bytes(self._pack({name: self.scan(name) for name in self._relations}))

    def load(self, folder: Path) -> None:
        self.give(required(folder / STATE).read_bytes())

    def _pack(self, rows: Mapping[str, Words]) -> bytes:
        return pack(rows, list(self._relations.values()), self._strings)


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
